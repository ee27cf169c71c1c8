// Errors for people: what went wrong, its code, and what to do; where it happened in the program only on request.

import { plainText } from "../terminal/terminal-text.ts";
import { exitCodeOf } from "./exit-codes.ts";
import { note, ownCommand, type Shell } from "./shell.ts";

/** Says on stderr what went wrong, and gives the exit code for it. */
export function tellError(shell: Shell, cause: unknown): number {
  const code = codeOf(cause);
  // An error may quote servers, files and models.
  const message = plainText(cause instanceof Error ? cause.message : String(cause));
  const said = code === "usage" ? asCalled(shell, message) : message;
  note(shell, code === undefined || code === "usage" ? said : `${said} [${code}]`);
  if (shell.isVerbose && cause instanceof Error) note(shell, plainText(stackOf(cause)));
  return exitCodeOf(code);
}

/** What a wrong use should have been, as this person has to call it. */
function asCalled(shell: Shell, message: string): string {
  return message.replaceAll(/(: |, or )espalier (?=[a-z])/gu, `$1${ownCommand(shell)} `);
}

function codeOf(cause: unknown): string | undefined {
  const code: unknown = cause instanceof Error ? Reflect.get(cause, "code") : undefined;
  return typeof code === "string" ? code : undefined;
}

function stackOf(error: Error): string {
  const { stack = "", cause } = error;
  return cause instanceof Error ? `${stack}\ncaused by ${stackOf(cause)}` : stack;
}
