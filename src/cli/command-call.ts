// What a command is called with, and what it is: a file in commands/, loaded when the command is used.

import type { Command } from "commander";

import type { Shell } from "./shell.ts";

/** One use of a command: what stands in its place in the tree, as it was given. */
export interface CommandCall {
  readonly shell: Shell;
  /** Its arguments, in order. */
  readonly args: readonly string[];
  /** All that can be called. */
  readonly tree: Command;
  /** What an option was given, by its name in camel case; undefined: it was not. */
  readonly text: (option: string) => string | undefined;
  /** Whether an option without a value was given. */
  readonly has: (option: string) => boolean;
  /** Whether `--no-…` was given. */
  readonly isOff: (option: string) => boolean;
}

/** Executes the command, and gives the exit code. An error that it throws is printed. */
export type CommandBody = (call: CommandCall) => Promise<number>;

/** A file of a command. */
export interface CommandFile {
  readonly body: CommandBody;
}

/** The use of a command that was parsed. */
export function callOf(command: Command, tree: Command, shell: Shell): CommandCall {
  const options: Readonly<Record<string, unknown>> = command.opts();
  return {
    shell,
    args: command.args,
    tree,
    text: (option) => {
      const value = options[option];
      return typeof value === "string" ? value : undefined;
    },
    has: (option) => options[option] === true,
    isOff: (option) => options[option] === false,
  };
}
