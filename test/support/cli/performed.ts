// Runs the command within the test with real arguments and files, and its streams in memory.
// process-*.test.ts tests what only a process shows.

import { PassThrough, type Readable } from "node:stream";

import { performArguments } from "../../../src/cli/perform-arguments.ts";
import type { Shell } from "../../../src/cli/shell.ts";
import { afterwards } from "../../harness/afterwards.ts";

export interface Performed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface PerformOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: Readable;
}

/** Runs a command to its end and returns its exit code. */
export async function performed(
  args: readonly string[],
  { cwd, env = {}, stdin = new PassThrough() }: PerformOptions,
): Promise<Performed> {
  const written = { stdout: "", stderr: "" };
  const into = (name: "stdout" | "stderr"): PassThrough =>
    new PassThrough().setEncoding("utf8").on("data", (text: string) => (written[name] += text));
  const shell: Shell = {
    stdin,
    stdout: into("stdout"),
    stderr: into("stderr"),
    env,
    cwd,
    isVerbose: false,
    onSignal: () => {},
    leave: (code) => {
      throw new Error(`The command left with ${code}.`);
    },
  };
  const code = await performArguments(args, shell);
  return { code, ...written };
}

/** Sets a variable that the library itself reads, until the test ends. */
export function withVariable(name: string, value: string): void {
  const before = process.env[name];
  process.env[name] = value;
  afterwards(() => {
    if (before === undefined) delete process.env[name];
    else process.env[name] = before;
  });
}
