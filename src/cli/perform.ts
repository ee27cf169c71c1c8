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
    const { body } = await load();
    exitCode = await body(callOf(command, tree, shell));
  });
  for (const command of [tree, ...tree.commands, ...tree.commands.flatMap((one) => one.commands)])
    command.exitOverride().configureOutput({
      writeOut: (text) => void shell.stdout.write(text),
      writeErr: (text) => void shell.stderr.write(text),
      getOutHelpWidth: () => shell.stdout.columns || USUAL_COLUMNS,
      getErrHelpWidth: () => shell.stderr.columns || USUAL_COLUMNS,
    });
  try {
    await tree.parseAsync([...args], { from: "user" });
    return exitCode;
  } catch (cause) {
    if (!(cause instanceof CommanderError)) {
      const { tellError } = await import("./tell-error.ts");
      return tellError(shell, cause);
    }
    // It has said all there is to say.
    return cause.exitCode === 0 ? 0 : MISUSED;
  }
}

const USUAL_COLUMNS = 100;
