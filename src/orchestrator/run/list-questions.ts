// Lists the open questions of all runs of a store that have not ended.

import { EspalierError } from "../../kernel/error.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { Question } from "../../protocol/question.ts";
import type { RunStore, StoredRun } from "../../store/run-store.ts";
import { ALL_OF_THEM, askStore } from "./recover-run.ts";
import { readQuestions } from "./send-answers.ts";

/**
 * Open question of a stored run. `approve`, `deny`, `provideResult` and `provideError` accept it.
 *
 * @example
 * ```ts
 * const { questions } = await orchestrator.listQuestions();
 * const text = ({ runTitle, toolName, reason }: RunQuestion) =>
 *   `${runTitle}: ${toolName} ${reason}`;
 * console.log(questions.map(text).join("\n"));
 * ```
 */
export interface RunQuestion extends Question {
  /** Id of the run that asks. */
  readonly runId: RunId;
  /** Role and beginning of the task of the run. */
  readonly runTitle: string;
}

/**
 * Result of `orchestrator.listQuestions`.
 *
 * @example
 * ```ts
 * const { questions, failed } = await orchestrator.listQuestions();
 * console.log(`${questions.length} open questions.`);
 * for (const { runId, error } of failed) console.error(runId, error.message);
 * ```
 */
export interface RunQuestions {
  /** Open questions: those of the oldest run first, and of a run in the order of asking. */
  readonly questions: readonly RunQuestion[];
  /** Runs whose journal cannot be read, with the error. */
  readonly failed: readonly { readonly runId: RunId; readonly error: EspalierError }[];
}

/** See `Orchestrator.listQuestions`. */
export async function collectQuestions(store: RunStore): Promise<RunQuestions> {
  const questions: RunQuestion[] = [];
  const failed: RunQuestions["failed"][number][] = [];
  for (const { runId, title: runTitle } of await listUnendedRuns(store)) {
    try {
      const { open, posted } = await readQuestions(store, runId);
      const unanswered = open.filter(({ questionId }) => !posted.has(questionId));
      for (const question of unanswered) questions.push({ ...question, runId, runTitle });
    } catch (cause) {
      if (!EspalierError.is(cause) || !OF_ONE_RUN.has(cause.code)) throw cause;
      // A run that is unknown was removed since the list was read.
      if (cause.code !== "unknown_run") failed.push({ runId, error: cause });
    }
  }
  return { questions, failed };
}

const OF_ONE_RUN: ReadonlySet<string> = new Set([
  "invalid_journal",
  "unsupported_version",
  "unknown_run",
]);

/** Returns the runs that have not ended, oldest first. */
async function listUnendedRuns(store: RunStore): Promise<readonly StoredRun[]> {
  const runs = new Map<RunId, StoredRun>();
  // In this order a run that pauses meanwhile is found twice instead of never.
  for (const status of ["open", "paused"] as const)
    for (const run of await askStore("its runs", () => store.list({ status, limit: ALL_OF_THEM })))
      runs.set(run.runId, run);
  return [...runs.values()].toSorted(
    (left, right) => left.createdAtMs - right.createdAtMs || (left.runId < right.runId ? -1 : 1),
  );
}
