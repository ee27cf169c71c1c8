// Where a command is run: its streams, its environment, its folder, and how it ends. A command knows the process by this alone.

import type { Readable, Writable } from "node:stream";
import type { ReadStream, WriteStream } from "node:tty";

/** What a command writes to: `process.stdout` fits. */
export type ShellOutput = Writable & Partial<Pick<WriteStream, "isTTY" | "columns" | "rows">>;
/** What a command reads from: `process.stdin` fits. */
export type ShellInput = Readable &
  Partial<Pick<ReadStream, "isTTY">> & {
    readonly setRawMode?: (mode: boolean) => unknown;
  };

export type ShellSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

/** The surroundings of a command. */
export interface Shell {
  readonly stdin: ShellInput;
  /** For the result, and nothing else. */
  readonly stdout: ShellOutput;
  /** For everything else. */
  readonly stderr: ShellOutput;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The working folder, absolute. */
  readonly cwd: string;
  /** Whether errors are printed with their stack: by `--verbose`, or `DEBUG` in the environment. */
  readonly isVerbose: boolean;
  /** Calls back at each such signal, in place of the end of the process. */
  readonly onSignal: (signal: ShellSignal, listener: () => void) => void;
  /** Ends at once. */
  leave(exitCode: number): never;
}

/** The surroundings of this process. */
export function createProcessShell(): Shell {
  return {
    // Not before it is asked for: it opens what it reads from.
    get stdin() {
      const { stdin } = process;
      // A terminal that was closed reports errors, which must not end the process before its run.
      return stdin.off("error", ignoreError).on("error", ignoreError);
    },
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    cwd: process.cwd(),
    isVerbose: (process.env["DEBUG"] ?? "") !== "" || process.argv.includes("--verbose"),
    onSignal: (signal, listener) => void process.on(signal, listener),
    leave: (exitCode) => process.exit(exitCode),
  };
}

function ignoreError(): void {}

/** Outputs that have a line of a result. */
const answered = new WeakSet<ShellOutput>();

/** Writes a line of the result. */
export function printLine({ stdout }: Shell, text: string): void {
  answered.add(stdout);
  stdout.write(`${text}\n`);
}

/** True if a line of the result was written. */
export function hasSaid({ stdout }: Shell): boolean {
  return answered.has(stdout);
}

/** Writes a line for the user, on stderr. */
export function printNotice({ stderr }: Shell, text: string): void {
  stderr.write(`${text}\n`);
}

/** Returns a variable of the environment, trimmed; `undefined` if it is unset or blank. */
export function readSetting(env: Shell["env"], name: string): string | undefined {
  const value = env[name]?.trim();
  return value === "" ? undefined : value;
}

/**
 * Returns how the user calls this command again. npm sets `npm_command`: it finds a command that is
 * installed in a project, and in a clone of this package only the script.
 */
export function detectOwnCommand({ env }: Shell): string {
  if (env["npm_command"] === undefined) return "espalier";
  const isClone = env["npm_command"] !== "exec" && env["npm_package_name"] === "espalier";
  return isClone ? "npm run espalier --" : "npx espalier";
}

/** Whether a person reads stderr. */
export function isWatched({ stderr, env }: Shell): boolean {
  return stderr.isTTY === true && (env["CI"] ?? "") === "";
}

/** Whether there is a person to be asked. */
export function isTerminal({ stdin, stderr }: Shell): boolean {
  return stdin.isTTY === true && stderr.isTTY === true;
}

/** Asks the person at the terminal for a yes. `initialValue`: what Enter alone says. Ctrl-C says no. */
export async function isConfirmed(
  { stdin, stderr }: Shell,
  message: string,
  initialValue: boolean,
): Promise<boolean> {
  const { confirm } = await import("@clack/prompts");
  return (await confirm({ message, initialValue, input: stdin, output: stderr })) === true;
}
