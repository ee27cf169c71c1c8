// The environment of a command: its streams, variables, folder and exit. Commands access the
// process only through this interface.

import type { Readable, Writable } from "node:stream";
import type { ReadStream, WriteStream } from "node:tty";

/** Output stream of a command. `process.stdout` fits. */
export type ShellOutput = Writable & Partial<Pick<WriteStream, "isTTY" | "columns" | "rows">>;
/** Input stream of a command. `process.stdin` fits. */
export type ShellInput = Readable &
  Partial<Pick<ReadStream, "isTTY">> & {
    readonly setRawMode?: (mode: boolean) => unknown;
  };

export type ShellSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

/** Environment of a command. */
export interface Shell {
  readonly stdin: ShellInput;
  /** For the result only. */
  readonly stdout: ShellOutput;
  /** For everything else. */
  readonly stderr: ShellOutput;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute path of the working folder. */
  readonly cwd: string;
  /**
   * Whether errors are printed with their stack: with `--verbose`, or with `DEBUG` in the
   * environment.
   */
  readonly isVerbose: boolean;
  /** Handles each such signal, so that it does not end the process. */
  readonly onSignal: (signal: ShellSignal, listener: () => void) => void;
  /** Ends the process at once. */
  leave(exitCode: number): never;
}

/** Returns the environment of this process. */
export function createProcessShell(): Shell {
  return {
    // Lazy, because creating it opens the input.
    get stdin() {
      const { stdin } = process;
      // A closed terminal reports errors, which must not end the process before its run.
      return stdin.off("error", ignoreError).on("error", ignoreError);
    },
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    cwd: process.cwd(),
    isVerbose: (process.env["DEBUG"] ?? "") !== "" || process.argv.includes("--verbose"),
    onSignal: (signal, listener) => void process.on(signal, listener),
    leave: (exitCode) => process.exit(exitCode),
  };
}

function ignoreError(): void {}

/** Outputs to which a result was written. */
const answered = new WeakSet<ShellOutput>();

/** Writes a line of the result. */
export function printLine({ stdout }: Shell, text: string): void {
  answered.add(stdout);
  stdout.write(`${text}\n`);
}

/** True if a line of the result was written. */
export function hasSaid({ stdout }: Shell): boolean {
  return answered.has(stdout);
}

/** Writes a line for the user, on stderr. */
export function printNotice({ stderr }: Shell, text: string): void {
  stderr.write(`${text}\n`);
}

/** Returns a variable of the environment, trimmed. `undefined` if it is unset or blank. */
export function readSetting(env: Shell["env"], name: string): string | undefined {
  const value = env[name]?.trim();
  return value === "" ? undefined : value;
}

/** Returns the author of answers: the given name, or the user's login name. Empty without either. */
export function readAuthor({ env }: Shell, name?: string): { readonly by?: string } {
  const { USER, LOGNAME, USERNAME } = env;
  const by = name ?? [USER, LOGNAME, USERNAME].find((login = "") => login.trim() !== "");
  return by === undefined ? {} : { by };
}

/**
 * Returns how the user calls this command. npm sets `npm_command`: `npx` finds an installed
 * command, but in a clone of this package only the script exists.
 */
export function detectOwnCommand({ env }: Shell): string {
  if (env["npm_command"] === undefined) return "espalier";
  const isClone = env["npm_command"] !== "exec" && env["npm_package_name"] === "espalier";
  return isClone ? "npm run espalier --" : "npx espalier";
}

/** Returns how the user calls this command again, with the store that they named. */
export function formatOwnCommand(shell: Shell, store: string | undefined): string {
  const command = detectOwnCommand(shell);
  return store === undefined ? command : `${command} --store ${quoteForShell(hidePassword(store))}`;
}

/** A password may contain `@` and `/`, or be in the query. */
const PASSWORD = /(?<=^postgres(?:ql)?:\/\/[^:@/]*:).*(?=@)|(?<=[?&]password=)[^&]*/gu;

/** Returns the address of a store without its password. */
function hidePassword(store: string): string {
  return store.replace(PASSWORD, "<password>");
}

/** Returns the text as one argument of a shell. */
export function quoteForShell(text: string): string {
  return /^[\w@%+=:,./~-]+$/u.test(text) ? text : `"${text.replaceAll(/["\\$`]/gu, "\\$&")}"`;
}

/** Returns true if a person reads stderr. */
export function isWatched({ stderr, env }: Shell): boolean {
  return stderr.isTTY === true && (env["CI"] ?? "") === "";
}

/** Returns true if a person can answer prompts. */
export function isTerminal({ stdin, stderr }: Shell): boolean {
  return stdin.isTTY === true && stderr.isTTY === true;
}

/**
 * Asks the person at the terminal to confirm. `initialValue` is the answer to Enter alone. Ctrl-C
 * means no.
 */
export async function isConfirmed(
  { stdin, stderr }: Shell,
  message: string,
  initialValue: boolean,
): Promise<boolean> {
  const { confirm } = await import("@clack/prompts");
  return (await confirm({ message, initialValue, input: stdin, output: stderr })) === true;
}
