// The command as a process: the copy of the project wins, and whatever happens, the process ends with a code of its own and no stack.

import { pathToFileURL } from "node:url";

import { BROKEN } from "./exit-codes.ts";
import { findOtherCopy } from "./installed-copy.ts";
import { performArguments } from "./perform.ts";
import { printNotice, createProcessShell, type Shell } from "./shell.ts";

/** Does what the arguments of this process say, and ends it. Another copy of the package in the working folder does it in our place. */
export async function startProcess(): Promise<void> {
  const copy = findOtherCopy(process.cwd());
  if (copy !== undefined) {
    await import(pathToFileURL(copy).href);
    return;
  }
  const shell = createProcessShell();
  reserveStdout();
  const output = watchOutput(shell);
  const args = process.argv.slice(2);
  prepareProcess(shell, args);
  const exitCode = await performArguments(args, shell);
  await Promise.all([flushStream(shell.stdout), flushStream(shell.stderr)]);
  // What configurations, servers and drivers leave open must not keep a command that has done its work.
  shell.leave(output.isLost ? BROKEN : exitCode);
}

/** Sends to stderr what configurations, tools and drivers write to stdout, which is for results. */
function reserveStdout(): void {
  Object.defineProperty(process, "stdout", { configurable: true, get: () => process.stderr });
}

/** Whether some of the output could not be written though its reader was still there. */
function watchOutput(shell: Shell): { readonly isLost: boolean } {
  const output = { isLost: false };
  const { stdout } = shell;
  stdout.on("error", (cause) => {
    // A reader of our output may stop reading, as `head` does.
    const isUnread = "code" in cause && cause.code === "EPIPE";
    if (!isUnread && !output.isLost)
      printNotice(shell, `The output could not be written: ${cause.message}`);
    output.isLost ||= !isUnread;
    // A command that has something to bring to an end listens, too.
    if (stdout.listenerCount("error") === 1) shell.leave(isUnread ? 0 : BROKEN);
  });
  return output;
}

/** Warnings of Node about how it reads a file. Where that is an error, the error says what to do. */
const UNWANTED = /^(?:Module type of|Failed to load the ES module) /u;

function prepareProcess(shell: Shell, args: readonly string[]): void {
  shell.stderr.on("error", () => {});
  // Warnings are for people here: a line each, without those on features of Node that we have tried.
  process.removeAllListeners("warning");
  process.on("warning", ({ name, message }) => {
    if (name === "ExperimentalWarning" || UNWANTED.test(message)) return;
    shell.stderr.write(`Warning: ${message}\n`);
  });
  const end = (cause: unknown): void => {
    // A prompt at a terminal that was closed. SIGHUP brings the run to rest.
    if (isTerminalGone(cause)) return;
    // Loaded only for an error: it brings the cleaning of foreign text along.
    import("./tell-error.ts").then(
      ({ printError: tellError }) => shell.leave(tellError(shell, cause, args)),
      () => shell.leave(BROKEN),
    );
  };
  process.on("uncaughtException", end);
  process.on("unhandledRejection", end);
}

function isTerminalGone(cause: unknown): boolean {
  if (!(cause instanceof Error) || !("syscall" in cause) || !("code" in cause)) return false;
  return cause.syscall === "setRawMode" && cause.code === "EIO";
}

function flushStream(stream: NodeJS.WritableStream): Promise<void> {
  return new Promise((resolve) => void stream.write("", () => resolve()));
}
