// Runs the command on a pseudo-terminal that `script` of util-linux creates: real raw mode, real
// keys and a real window size.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";

import { afterwards } from "../../harness/afterwards.ts";
import type { StartOptions } from "./process-program.ts";

const MAIN = resolve("src/cli/main.ts");

/** A command that shows nothing new for this long hangs. */
const HANGS_MS = 30_000;

/** A command at a terminal. */
export interface AtTerminal {
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
  /** The process id of the terminal's owner. The command is its child. */
  readonly pid: number;
  /** Everything on the screen so far, with its escape sequences. */
  readonly screen: () => string;
  /**
   * Resolves once the screen shows `text` after the last key. Rejects if the command ends before.
   */
  readonly seen: (text: string) => Promise<void>;
  /** Types keys. */
  readonly type: (keys: string) => void;
}

/** Starts the command at a terminal of this width. */
export function startAtTerminal(
  args: readonly string[],
  { cwd, env = {}, flags = [] }: StartOptions,
  columns = 100,
): AtTerminal {
  const all = [process.execPath, "--conditions=@espalier/source", ...flags, MAIN, ...args];
  const line = `stty cols ${columns} rows 40; exec ${all.map(quoted).join(" ")}`;
  const child = spawn("script", ["--quiet", "--flush", "--return", "-c", line, "/dev/null"], {
    cwd,
    env: { PATH: process.env["PATH"] ?? "", TERM: "xterm", SHELL: "/bin/sh", ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  afterwards(() => void child.kill("SIGKILL"));
  let screen = "";
  let from = 0;
  let isOver = false;
  child.stdout.setEncoding("utf8").on("data", (piece: string) => (screen += piece));
  child.stdin.on("error", () => {});
  const ended = new Promise<number | null>((settle, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      isOver = true;
      settle(code);
    });
  });
  const seen = async (text: string): Promise<void> => {
    const limit = AbortSignal.timeout(HANGS_MS);
    while (!screen.includes(text, from)) {
      if (isOver || limit.aborted) throw new Error(`"${text}" was not seen:\n${screen}`);
      await Promise.race([once(child.stdout, "data", { signal: limit }).catch(() => {}), ended]);
    }
  };
  return {
    ended,
    pid: child.pid ?? 0,
    screen: () => screen,
    seen,
    type: (keys) => {
      from = screen.length;
      child.stdin.write(keys);
    },
  };
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
