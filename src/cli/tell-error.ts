// Errors for people: what went wrong, its code, and what to do; where it happened in the program only on request.

import { stripVTControlCharacters } from "node:util";

import { exitCodeOf } from "./exit-codes.ts";
import { note, ownCommand, type Shell } from "./shell.ts";

/** Says on stderr what went wrong, and gives the exit code for it. */
export function tellError(shell: Shell, cause: unknown): number {
  const code = codeOf(cause);
  const message = harmless(cause instanceof Error ? cause.message : String(cause));
  const said = code === "usage" ? asCalled(shell, message) : message;
  note(shell, code === undefined || code === "usage" ? said : `${said} [${code}]`);
  if (shell.isVerbose && cause instanceof Error) note(shell, harmless(stackOf(cause)));
  return exitCodeOf(code);
}

/** What a wrong use should have been, as this person has to call it. */
function asCalled(shell: Shell, message: string): string {
  return message.replaceAll(/(: |, or )espalier (?=[a-z])/gu, `$1${ownCommand(shell)} `);
}

/** Control characters but line breaks, and marks that turn the direction. */
const STEERING = /[^\P{Cc}\n]|[\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/gu;

/** An error may quote what servers, files and models say. Nothing of the library is imported for it: help needs none. */
function harmless(text: string): string {
  return stripVTControlCharacters(text).replace(STEERING, " ");
}

function codeOf(cause: unknown): string | undefined {
  const code: unknown = cause instanceof Error ? Reflect.get(cause, "code") : undefined;
  return typeof code === "string" ? code : undefined;
}

function stackOf(error: Error): string {
  const { stack = "", cause } = error;
  return cause instanceof Error ? `${stack}\ncaused by ${stackOf(cause)}` : stack;
}
