// `espalier completion <bash | zsh | fish>`: a script for the shell, on stdout.

import type { CommandBody } from "../command-call.ts";
import { completionScript, SHELL_NAMES } from "../completion-scripts.ts";
import { UsageError } from "../usage-error.ts";

export const body: CommandBody = async ({ shell, args, tree }) => {
  const name = SHELL_NAMES.find((one) => one === args[0]);
  if (name === undefined)
    throw new UsageError(
      `Expected ${SHELL_NAMES.join(", ")}, got ${JSON.stringify(args[0] ?? "")}. Choose one.`,
    );
  shell.stdout.write(completionScript(name, tree));
  return 0;
};
