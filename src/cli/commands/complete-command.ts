// `espalier __complete <run | question>`: ids that the store has, one a line, for completion. In case of any error it prints nothing, and ends soon.

import { setTimeout } from "node:timers/promises";

import type { CommandBody, CommandCall } from "../command-call.ts";
import { LAST_RUN } from "../named-run.ts";
import { findProject } from "../project.ts";
import { say } from "../shell.ts";
import { openStoreToView, storePlace } from "../store-choice.ts";

/** A completion must come within this time. */
const PATIENCE_MS = 200;
const MAX_RUNS = 50;

export const body: CommandBody = async (call) => {
  const found = await Promise.race([
    wordsFor(call).catch(() => []),
    setTimeout(PATIENCE_MS, [], { ref: false }),
  ]);
  if (found.length > 0) say(call.shell, found.join("\n"));
  return 0;
};

async function wordsFor(call: CommandCall): Promise<readonly string[]> {
  const project = await findProject(call.shell);
  await using kept = await openStoreToView(storePlace(call, project), { canPost: false });
  if (call.args[0] === "question") {
    const { askedQuestions } = await import("../open-questions-of.ts");
    return (await askedQuestions(kept.store)).map(({ question }) => question.questionId);
  }
  const runs = await kept.store.list({ limit: MAX_RUNS });
  return [LAST_RUN, ...runs.map(({ runId }) => runId)];
}
