// The questions that runs of a store wait for, and which one is meant.

import { Orchestrator, type Question, type RunId } from "espalier";
import type { Store, StoredRun } from "espalier/extend";

import { LAST_RUN, namedRun } from "./named-run.ts";
import { UsageError } from "./usage-error.ts";

/** A question, and the run that asks it. */
export interface AskedQuestion {
  readonly run: StoredRun;
  readonly question: Question;
}

const MAX_RUNS = 200;
const STATUSES = ["paused", "open"] as const;

/** What the runs of a store ask, the newest runs first. */
export async function askedQuestions(store: Store): Promise<readonly AskedQuestion[]> {
  const lists = STATUSES.map((status) => store.list({ status, limit: MAX_RUNS }));
  const runs = (await Promise.all(lists)).flat();
  const asked = await Promise.all(runs.map((run) => questionsOf(store, run)));
  return asked.flat();
}

async function questionsOf(store: Store, run: StoredRun): Promise<readonly AskedQuestion[]> {
  const questions = await openIn(store, run.runId);
  return questions.map((question) => ({ run, question }));
}

/** What a run asks still. Nothing is answered by asking. */
export async function openIn(store: Store, runId: RunId): Promise<readonly Question[]> {
  return await new Orchestrator({ store }).answer(runId, []);
}

/**
 * The question that is meant: by its id, the beginning of one, or a run that asks one alone.
 *
 * @throws UsageError if there is none, or more than one.
 */
export async function namedQuestion(store: Store, name: string): Promise<AskedQuestion> {
  const all = await askedQuestions(store);
  const isOf = ({ run, question }: AskedQuestion): boolean =>
    name !== "" && (question.questionId.startsWith(name) || run.runId.startsWith(name));
  const last = name === LAST_RUN ? await namedRun(store, name) : undefined;
  const exact = all.filter(({ question }) => question.questionId === name);
  const found =
    exact.length > 0
      ? exact
      : all.filter((asked) => (last === undefined ? isOf(asked) : asked.run.runId === last.runId));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (only === undefined)
    throw new UsageError(
      `Expected the id of an open question, the beginning of one, or a run that asks one, got ${JSON.stringify(name)}, which is none. List them: espalier questions`,
    );
  const ids = found.map(({ question }) => question.questionId).join(", ");
  throw new UsageError(
    `Expected one question, got ${JSON.stringify(name)}, which is meant by ${found.length}: ${ids}. Write more of one.`,
  );
}
