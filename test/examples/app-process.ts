// Runs a program of `examples/apps` as a separate process, whose environment contains only what the
// test sets.

import { spawn } from "node:child_process";
import { resolve } from "node:path";

import type { WireRequest } from "../support/openai-server.ts";

export interface AppOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** The text of its standard input, which ends afterwards. */
  readonly input?: string;
}

/** Starts `examples/apps/<app>`. */
export function startApp(app: string, args: readonly string[], options: AppOptions) {
  const flags = ["--conditions=@espalier/source", "--disable-warning=ExperimentalWarning"];
  const program = resolve("examples/apps", app);
  const { cwd, input = "" } = options;
  const env = { PATH: process.env["PATH"], ...options.env };
  const child = spawn(process.execPath, [...flags, program, ...args], { cwd, env });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (piece: string) => (output.stdout += piece));
  child.stderr.setEncoding("utf8").on("data", (piece: string) => (output.stderr += piece));
  child.stdin.end(input);
  const ended = new Promise<{ code: number | null } & typeof output>((settle, reject) => {
    child.on("error", reject);
    child.on("close", (code) => settle({ code, ...output }));
  });
  return { child, ended };
}

/** Returns the messages of a request as one text. */
export function shownIn({ body }: WireRequest): string {
  return JSON.stringify(body["messages"]);
}
