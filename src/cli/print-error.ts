// Prints errors for people: the message, its code and the remedy. The stack is printed only on
// request.

import { stripControlCharacters } from "../terminal/terminal-text.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";
import { chooseExitCode, findErrorCode, describeCause } from "./exit-codes.ts";
import { formatJsonLine } from "./json-text.ts";
import { hasSaid, printNotice, detectOwnCommand, printLine, type Shell } from "./shell.ts";

/** True if the arguments of a command ask for one JSON value on stdout. */
export function hasJsonFlag(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  return args.slice(0, end === -1 ? args.length : end).includes("--json");
}

/** Writes an error as the one JSON value on stdout, unless a result is there already. */
export function printJsonError(
  shell: Shell,
  error: { readonly code: string; readonly message: string },
): void {
  if (!hasSaid(shell)) printLine(shell, formatJsonLine({ error }));
}

/**
 * Prints the error on stderr, and returns its exit code. `args` are those of the command: with
 * `--json`, stdout gets the error, too. `ownCommand`: how the user calls this command again.
 */
export function printError(
  shell: Shell,
  cause: unknown,
  args: readonly string[] = [],
  ownCommand: string = detectOwnCommand(shell),
): number {
  const code = findErrorCode(cause);
  const message = cleanForeignText(describeCause(cause));
  const text = code === "usage" ? rewriteCommandName(ownCommand, message) : message;
  printNotice(shell, code === undefined ? text : `${text} [${code}]`);
  if (hasJsonFlag(args)) printJsonError(shell, { code: code ?? "error", message: text });
  if (shell.isVerbose && cause instanceof Error)
    printNotice(shell, cleanForeignText(formatStack(cause)));
  return chooseExitCode(code);
}

/**
 * Returns a text that may quote servers, files and models, without control characters and secrets.
 */
function cleanForeignText(text: string): string {
  return redactSecrets(stripControlCharacters(text));
}

/** Adapts the suggested commands in a usage error to the way this person calls the command. */
function rewriteCommandName(ownCommand: string, message: string): string {
  return message.replaceAll(
    /(: |, or )espalier (?=[a-z])/gu,
    (_espalier, before: string) => `${before}${ownCommand} `,
  );
}

function formatStack(error: Error): string {
  const { stack = "", cause } = error;
  return cause instanceof Error ? `${stack}\ncaused by ${formatStack(cause)}` : stack;
}
