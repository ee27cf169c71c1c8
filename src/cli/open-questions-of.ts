// The questions that runs of a store wait for, and which one is meant.

import type { EspalierError, Question, RunId } from "espalier";
import type { Store, StoredRun } from "espalier/extend";

import { LAST_RUN } from "./named-run.ts";
import { isOfOneRun, openIn } from "./run-reading.ts";
import { UsageError } from "./usage-error.ts";

/** A question, and the run that asks it. */
export interface AskedQuestion {
  readonly run: StoredRun;
  readonly question: Question;
}

/** Runs that are listed at once: all are looked at. */
const RUNS_PER_LIST = 200;
const STATUSES = ["paused", "open"] as const;

/** What the runs of a store ask, the newest runs first. `pass` is called for a run that cannot be read; the others are still listed. */
export async function askedQuestions(
  store: Store,
  pass: (run: StoredRun, problem: EspalierError) => void = () => {},
): Promise<readonly AskedQuestion[]> {
  const asked: AskedQuestion[] = [];
  for await (const run of unendedRuns(store)) {
    try {
      const questions = await openIn(store, run.runId);
      asked.push(...questions.map((question) => ({ run, question })));
    } catch (cause) {
      if (!isOfOneRun(cause)) throw cause;
      pass(run, cause);
    }
  }
  return asked;
}

async function* unendedRuns(store: Store): AsyncIterable<StoredRun> {
  for (const status of STATUSES) yield* runsOf(store, status);
}

async function* runsOf(store: Store, status: StoredRun["status"]): AsyncIterable<StoredRun> {
  let before: RunId | undefined;
  do {
    const filter = { status, limit: RUNS_PER_LIST };
    const runs = await store.list(before === undefined ? filter : { ...filter, before });
    yield* runs;
    before = runs.length < RUNS_PER_LIST ? undefined : runs.at(-1)?.runId;
  } while (before !== undefined);
}

const NUMBER = /^[1-9]\d{0,5}$/;

/**
 * Returns the question that is meant: by its id, the beginning of one, a run that asks one alone,
 * `@last` for the newest run that asks, or the question's number in `espalier questions`.
 *
 * @throws UsageError if there is none, or more than one.
 */
export async function namedQuestion(store: Store, name: string): Promise<AskedQuestion> {
  const all = await askedQuestions(store);
  const isOf = ({ run, question }: AskedQuestion): boolean =>
    name !== "" && (question.questionId.startsWith(name) || run.runId.startsWith(name));
  const last = name === LAST_RUN ? newestOf(all) : undefined;
  const exact = all.filter(({ question }) => question.questionId === name);
  const begun = all.filter((asked) =>
    last === undefined ? isOf(asked) : asked.run.runId === last.runId,
  );
  const numbered = NUMBER.test(name) ? all.slice(Number(name) - 1, Number(name)) : [];
  const found = [exact, begun, numbered].find(({ length }) => length > 0) ?? [];
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (only === undefined)
    throw new UsageError(
      `Expected the id of an open question, the beginning of one, or a run that asks one, got ${JSON.stringify(name)}, which is none. List them: espalier questions`,
    );
  const ids = found
    .map((asked) => `${all.indexOf(asked) + 1} (${asked.question.questionId})`)
    .join(", ");
  throw new UsageError(
    `Expected one question, got ${JSON.stringify(name)}, which is meant by ${found.length}: ${ids}. Write the number of one.`,
  );
}

function newestOf(all: readonly AskedQuestion[]): StoredRun | undefined {
  return all.map(({ run }) => run).toSorted((a, b) => b.createdAtMs - a.createdAtMs)[0];
}
