// Runs the command as a separate process, whose environment contains only what the test sets.

import { spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, realpathSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";

const MAIN = resolve("src/cli/main.ts");

export interface StartOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Flags of Node. */
  readonly flags?: readonly string[];
}

/** The end of a process. */
export interface ProcessEnd {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<ProcessEnd>;
  /** Resolves once stderr contains this text. */
  readonly seen: (text: string) => Promise<void>;
}

/** Starts the command. */
export function startCommand(args: readonly string[], options: StartOptions): Started {
  const { cwd, env = {}, flags = [] } = options;
  const all = ["--conditions=@espalier/source", ...flags, MAIN, ...args];
  const child = spawn(process.execPath, all, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (piece: string) => (output.stdout += piece));
  child.stderr.setEncoding("utf8").on("data", (piece: string) => (output.stderr += piece));
  const ended = new Promise<ProcessEnd>((settle, reject) => {
    child.on("error", reject);
    child.on("close", (code) => settle({ code, ...output }));
  });
  const seen = async (text: string): Promise<void> => {
    while (!output.stderr.includes(text)) {
      if (child.exitCode !== null || child.signalCode !== null)
        throw new Error(`It ended before it said ${text}: ${output.stderr}`);
      await Promise.race([new Promise((resolve) => child.stderr.once("data", resolve)), ended]);
    }
  };
  return { child, ended, seen };
}

/** Links this package and zod into a folder. */
export function linkPackage(folder: string): void {
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(resolve("."), join(folder, "node_modules/espalier"), "dir");
  symlinkSync(realpathSync("node_modules/zod"), join(folder, "node_modules/zod"), "dir");
}
