// Runs the command as a process. The copy of the project takes precedence. The process always ends
// with a defined exit code, and without a stack.

import { pathToFileURL } from "node:url";

import { BROKEN } from "./exit-codes.ts";
import { findOtherCopy } from "./installed-copy.ts";
import { performArguments } from "./perform-arguments.ts";
import { printNotice, createProcessShell, type Shell } from "./shell.ts";

/**
 * Executes the arguments of this process, and ends it. If the working folder has another copy of
 * the package, that copy does it.
 */
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
  // Handles that configurations, servers and drivers leave open must not keep the process alive.
  shell.leave(output.isLost ? BROKEN : exitCode);
}

/**
 * Redirects writes of configurations, tools and drivers from stdout, which is for results, to
 * stderr.
 */
function reserveStdout(): void {
  Object.defineProperty(process, "stdout", { configurable: true, get: () => process.stderr });
}

/** Records whether output was lost although its reader still existed. */
function watchOutput(shell: Shell): { readonly isLost: boolean } {
  const output = { isLost: false };
  const { stdout } = shell;
  stdout.on("error", (cause) => {
    // A reader may stop reading, as `head` does.
    const isUnread = "code" in cause && cause.code === "EPIPE";
    if (!isUnread && !output.isLost)
      printNotice(shell, `The output could not be written: ${cause.message}`);
    output.isLost ||= !isUnread;
    // A command that has to end a run listens, too.
    if (stdout.listenerCount("error") === 1) shell.leave(isUnread ? 0 : BROKEN);
  });
  return output;
}

/** Warnings of Node about its reading of a file. If that is an error, the error has a remedy. */
const UNWANTED = /^(?:Module type of|Failed to load the ES module) /u;

function prepareProcess(shell: Shell, args: readonly string[]): void {
  shell.stderr.on("error", () => {});
  // Prints each warning on one line, without warnings about experimental features, which are
  // tested.
  process.removeAllListeners("warning");
  process.on("warning", ({ name, message }) => {
    if (name === "ExperimentalWarning" || UNWANTED.test(message)) return;
    shell.stderr.write(`Warning: ${message}\n`);
  });
  const end = (cause: unknown): void => {
    // Error of a prompt at a closed terminal. SIGHUP pauses the run.
    if (isTerminalGone(cause)) return;
    // Loaded only for an error, because it also loads the cleaning of foreign text.
    import("./print-error.ts").then(
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
