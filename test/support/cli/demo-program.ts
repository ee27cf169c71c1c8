// Runs the demo as a program for tests.

import { spawn } from "node:child_process";

export interface DemoOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** The end of a demo. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The lines of stderr. */
  readonly lines: readonly string[];
}

/** Runs the demo to its end. */
export async function demo(options: DemoOptions = {}): Promise<Ended> {
  return await start(options).ended;
}

/** Starts the demo without a store, in a process with no other environment. */
export function start({ args = [], env = {} }: DemoOptions) {
  const main = ["--conditions=@espalier/source", "src/cli/main.ts", "demo", "--no-store", ...args];
  const child = spawn(process.execPath, main, { env, stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (piece: string) => (output.stdout += piece));
  child.stderr.setEncoding("utf8").on("data", (piece: string) => (output.stderr += piece));
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, ...output, lines: output.stderr.split("\n") }));
  });
  const seen = (text: string): Promise<void> =>
    new Promise((resolve) => {
      child.stderr.on("data", () => {
        if (output.stderr.includes(text)) resolve();
      });
    });
  return { child, ended, seen };
}
