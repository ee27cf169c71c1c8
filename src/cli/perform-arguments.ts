// Executes the arguments of a command line: parses them, loads the command, and prints errors.

import { CommanderError, type Command } from "commander";

import { createCommandCall } from "./command-call.ts";
import { buildCommandTree } from "./command-tree.ts";
import { BROKEN, MISUSED } from "./exit-codes.ts";
import { detectOwnCommand, type Shell } from "./shell.ts";

/** Executes the command line, and returns the exit code. Never rejects. */
export async function performArguments(args: readonly string[], shell: Shell): Promise<number> {
  let exitCode = BROKEN;
  let usageProblem = "";
  let ownCommand = detectOwnCommand(shell);
  const tree = buildCommandTree((load) => async (command) => {
    const body = await load();
    const call = createCommandCall(command, tree, shell);
    ownCommand = call.command;
    exitCode = await body(call);
  });
  for (const command of [
    tree,
    ...tree.commands,
    ...tree.commands.flatMap((parent) => parent.commands),
  ])
    command.exitOverride().configureOutput({
      writeOut: (text) => void shell.stdout.write(text),
      outputError: (text, write) => {
        usageProblem = `${describeUsage(text)} See: ${formatCommandPath(command, shell)} --help`;
        write(`${usageProblem} [usage]\n`);
      },
      writeErr: (text) => void shell.stderr.write(text),
      getOutHelpWidth: () => shell.stdout.columns || DEFAULT_COLUMNS,
      getErrHelpWidth: () => shell.stderr.columns || DEFAULT_COLUMNS,
    });
  try {
    await tree.parseAsync(namesUnknownHelp(tree, args) ? args.slice(1) : [...args], {
      from: "user",
    });
    return exitCode;
  } catch (cause) {
    if (cause instanceof CommanderError && cause.exitCode === 0) return 0;
    const {
      printJsonError: sayError,
      printError: tellError,
      hasJsonFlag: wantsJson,
    } = await import("./print-error.ts");
    if (!(cause instanceof CommanderError)) return tellError(shell, cause, args, ownCommand);
    // The text is already on stderr.
    const message = usageProblem === "" ? "The command is missing or unknown." : usageProblem;
    if (wantsJson(args)) sayError(shell, { code: "usage", message });
    return MISUSED;
  }
}

/** True for `help foo` without a command `foo`. The parser prints the general help for it. */
function namesUnknownHelp(tree: Command, [first, named]: readonly string[]): boolean {
  if (first !== "help" || named === undefined) return false;
  return tree.commands.every((command) => command.name() !== named);
}

/** Returns an error of the parser as a sentence, such as `Unknown option '--fast'.` */
function describeUsage(text: string): string {
  const problem = text
    .replace(/^error: /u, "")
    .trimEnd()
    .replace(/\n\((.*)\)$/u, ". $1");
  const sentence = problem.charAt(0).toUpperCase() + problem.slice(1);
  return /[.?]$/u.test(sentence) ? sentence : `${sentence}.`;
}

/** Returns the words that call a command, such as `espalier roles check`. */
function formatCommandPath(command: Command, shell: Shell): string {
  const { parent } = command;
  return parent === null
    ? detectOwnCommand(shell)
    : `${formatCommandPath(parent, shell)} ${command.name()}`;
}

const DEFAULT_COLUMNS = 100;
