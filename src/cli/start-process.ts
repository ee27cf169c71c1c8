// The command as a process: the copy of the project wins, and whatever happens, the process ends with a code of its own and no stack.

import { pathToFileURL } from "node:url";

import { otherCopy } from "./installed-copy.ts";
import { performArguments } from "./perform.ts";
import { processShell, type Shell } from "./shell.ts";
import { tellError } from "./tell-error.ts";

/** Does what the arguments of this process say, and ends it. Another copy of the package in the working folder does it in our place. */
export async function startProcess(): Promise<void> {
  const copy = otherCopy(process.cwd());
  if (copy !== undefined) {
    await import(pathToFileURL(copy).href);
    return;
  }
  const shell = processShell();
  prepare(shell);
  const exitCode = await performArguments(process.argv.slice(2), shell);
  await Promise.all([flushed(shell.stdout), flushed(shell.stderr)]);
  // What configurations, servers and drivers leave open must not keep a command that has done its work.
  shell.leave(exitCode);
}

function prepare(shell: Shell): void {
  // Who reads our output may stop reading, as `head` does.
  shell.stdout.on("error", () => shell.leave(0));
  shell.stderr.on("error", () => {});
  // Warnings are for people here: a line each, without those on features of Node that we have tried.
  process.removeAllListeners("warning");
  process.on("warning", ({ name, message }) => {
    if (name === "ExperimentalWarning" || message.startsWith("Module type of ")) return;
    shell.stderr.write(`Warning: ${message}\n`);
  });
  const end = (cause: unknown): never => shell.leave(tellError(shell, cause));
  process.on("uncaughtException", end);
  process.on("unhandledRejection", end);
}

function flushed(stream: NodeJS.WritableStream): Promise<void> {
  return new Promise((resolve) => void stream.write("", () => resolve()));
}
