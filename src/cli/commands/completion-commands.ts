// The commands `completion` and `__complete`: the script for a shell, and the ids that the script
// requests.

import { setTimeout } from "node:timers/promises";

import type { CommandBody, CommandCall } from "../command-call.ts";
import { buildCompletionScript, SHELL_NAMES } from "../completion-scripts.ts";
import { UsageError } from "../exit-codes.ts";
import { LAST_RUN } from "../stored-run-reader.ts";
import { openProjectStore } from "../project.ts";
import { printLine } from "../shell.ts";

export const printCompletion: CommandBody = async ({ shell, args, tree }) => {
  const name = SHELL_NAMES.find((shellName) => shellName === args[0]);
  if (name === undefined)
    throw new UsageError(
      `Expected ${SHELL_NAMES.join(", ")}, got ${JSON.stringify(args[0] ?? "")}. Choose one.`,
    );
  shell.stdout.write(buildCompletionScript(name, tree));
  return 0;
};

/** Time limit of a completion. */
const PATIENCE_MS = 200;
const MAX_RUNS = 50;

/**
 * `espalier __complete <run | question>`: prints ids of the store for completion. Prints nothing on
 * any error, and always ends soon.
 */
export const printWords: CommandBody = async (call) => {
  const words = await Promise.race([
    readCompletionWords(call).catch(() => []),
    setTimeout(PATIENCE_MS, [], { ref: false }),
  ]);
  if (words.length > 0) printLine(call.shell, words.join("\n"));
  return 0;
};

async function readCompletionWords(call: CommandCall): Promise<readonly string[]> {
  await using chosenStore = await openProjectStore(call, "read");
  if (call.args[0] === "question") {
    const { Orchestrator } = await import("espalier");
    const { questions } = await new Orchestrator({ store: chosenStore.store }).listQuestions();
    return questions.map(({ questionId }) => questionId);
  }
  const runs = await chosenStore.store.list({ limit: MAX_RUNS });
  return [LAST_RUN, ...runs.map(({ runId }) => runId)];
}
