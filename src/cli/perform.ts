// From arguments to an exit code: parses them, loads the command that they name, and prints what went wrong.

import { CommanderError } from "commander";

import { callOf } from "./command-call.ts";
import { commandTree } from "./command-tree.ts";
import { BROKEN, MISUSED } from "./exit-codes.ts";
import type { Shell } from "./shell.ts";

/** Does what the arguments say, and gives the exit code. Never rejects. */
export async function performArguments(args: readonly string[], shell: Shell): Promise<number> {
  let exitCode = BROKEN;
  const tree = commandTree((load) => async (command) => {
    const body = await load();
    exitCode = await body(callOf(command, tree, shell));
  });
  for (const command of [tree, ...tree.commands, ...tree.commands.flatMap((one) => one.commands)])
    command.exitOverride().configureOutput({
      writeOut: (text) => void shell.stdout.write(text),
      outputError: (text, write) => write(`${text.trimEnd()} [usage]\n`),
      writeErr: (text) => void shell.stderr.write(text),
      getOutHelpWidth: () => shell.stdout.columns || USUAL_COLUMNS,
      getErrHelpWidth: () => shell.stderr.columns || USUAL_COLUMNS,
    });
  try {
    await tree.parseAsync([...args], { from: "user" });
    return exitCode;
  } catch (cause) {
    if (cause instanceof CommanderError && cause.exitCode === 0) return 0;
    const { sayError, tellError, wantsJson } = await import("./tell-error.ts");
    if (!(cause instanceof CommanderError)) return tellError(shell, cause, args);
    // The text is on stderr already.
    const message = cause.message.replace(/^error: /u, "");
    if (wantsJson(args)) sayError(shell, { code: "usage", message });
    return MISUSED;
  }
}

const USUAL_COLUMNS = 100;
