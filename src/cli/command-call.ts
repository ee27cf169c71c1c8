// The call of a command: its arguments and options, and the options that several commands share.

import { statSync } from "node:fs";
import { resolve } from "node:path";

import type { Command } from "commander";

import { formatOwnCommand, type Shell } from "./shell.ts";
import { UsageError } from "./exit-codes.ts";

/** Call of a command, with its arguments and options. */
export interface CommandCall {
  readonly shell: Shell;
  /** Arguments in order. */
  readonly args: readonly string[];
  /** The tree of all commands. */
  readonly tree: Command;
  /**
   * How the user calls this command again, for the same store. Suggested commands begin with it.
   */
  readonly command: string;
  /** Returns the value of an option by its name in camel case. `undefined` if it was not given. */
  readonly text: (option: string) => string | undefined;
  /** Returns true if an option without a value was given. */
  readonly has: (option: string) => boolean;
  /** Returns true if `--no-…` was given. */
  readonly isOff: (option: string) => boolean;
}

/** Executes the command, and returns the exit code. Its errors are printed. */
export type CommandBody = (call: CommandCall) => Promise<number>;

/** Returns the call of a parsed command. */
export function createCommandCall(command: Command, tree: Command, shell: Shell): CommandCall {
  const options: Readonly<Record<string, unknown>> = command.opts();
  const globals: Readonly<Record<string, unknown>> = tree.opts();
  const text = (option: string): string | undefined => {
    const value = globals[option] ?? options[option];
    return typeof value === "string" ? value : undefined;
  };
  return {
    shell,
    args: command.args,
    tree,
    command: formatOwnCommand(shell, text("store")),
    text,
    has: (option) => options[option] === true,
    isOff: (option) => options[option] === false,
  };
}

const GREATEST_PORT = 65_535;

/** Returns the port of `--port`. Throws UsageError if the value is not a port. */
export function readPortOption({ text }: CommandCall): number | undefined {
  const value = text("port");
  if (value === undefined) return undefined;
  const port = /^\d{1,5}$/.test(value) ? Number(value) : NaN;
  if (port <= GREATEST_PORT) return port;
  throw new UsageError(
    `Expected --port to be a whole number from 0 to ${GREATEST_PORT}, got ${JSON.stringify(value)}. Use 0 for any free port.`,
  );
}

/**
 * Returns the absolute path of a named folder, or of the working folder. Throws UsageError if it is
 * not a readable folder.
 */
export function resolveReadableFolder({ cwd }: Shell, named: string | undefined): string {
  const folder = resolve(cwd, named ?? ".");
  const name = JSON.stringify(named ?? ".");
  let isFolder: boolean | undefined;
  try {
    isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory();
  } catch (cause) {
    throw new UsageError(
      `Cannot read the folder ${name} (${String(cause)}). Check its permissions.`,
      { cause },
    );
  }
  if (isFolder === undefined) throw new UsageError(`There is no folder ${name}. Check the path.`);
  if (!isFolder)
    throw new UsageError(
      `Expected a folder, but ${name} is not one. Name the folder that contains it.`,
    );
  return folder;
}
