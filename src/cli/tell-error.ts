// Errors for people: what went wrong, its code, and what to do; where it happened in the program only on request.

import { stripControlCharacters } from "../terminal/terminal-text.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";
import { exitCodeOf, codeOf, describeCause } from "./exit-codes.ts";
import { jsonLine } from "./json-text.ts";
import { hasSaid, note, ownCommand, say, type Shell } from "./shell.ts";

/** True if the arguments of a command ask for one JSON value on stdout. */
export function wantsJson(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  return args.slice(0, end === -1 ? args.length : end).includes("--json");
}

/** Writes an error as the one JSON value on stdout, unless a result is there already. */
export function sayError(
  shell: Shell,
  error: { readonly code: string; readonly message: string },
): void {
  if (!hasSaid(shell)) say(shell, jsonLine({ error }));
}

/**
 * Says on stderr what went wrong, and gives the exit code for it. `args`: of the command; with
 * `--json` stdout gets the error, too.
 */
export function tellError(shell: Shell, cause: unknown, args: readonly string[] = []): number {
  const code = codeOf(cause);
  const message = foreignText(describeCause(cause));
  const said = code === "usage" ? asCalled(shell, message) : message;
  note(shell, code === undefined ? said : `${said} [${code}]`);
  if (wantsJson(args)) sayError(shell, { code: code ?? "error", message: said });
  if (shell.isVerbose && cause instanceof Error) note(shell, foreignText(stackOf(cause)));
  return exitCodeOf(code);
}

/** Returns a text that may quote servers, files and models, without control characters and secrets. */
function foreignText(text: string): string {
  return redactSecrets(stripControlCharacters(text));
}

/** What a wrong use should have been, as this person has to call it. */
function asCalled(shell: Shell, message: string): string {
  return message.replaceAll(/(: |, or )espalier (?=[a-z])/gu, `$1${ownCommand(shell)} `);
}

function stackOf(error: Error): string {
  const { stack = "", cause } = error;
  return cause instanceof Error ? `${stack}\ncaused by ${stackOf(cause)}` : stack;
}
