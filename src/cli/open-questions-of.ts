// The questions that runs of a store wait for, and which one is meant.

import type { EspalierError, Question, RunId } from "espalier";
import type { QuestionId, Store, StoredRun } from "espalier/extend";

import { LAST_RUN } from "./named-run.ts";
import { isOfOneRun, RunReading } from "./run-reading.ts";
import { UsageError } from "./usage-error.ts";

/** A question, and the run that asks it. */
export interface AskedQuestion {
  readonly run: StoredRun;
  readonly question: Question;
  /** From 1. It stays the same until a run that asked before ends. */
  readonly number: number;
}

/** Runs that are listed at once: all are looked at. */
const RUNS_PER_LIST = 200;
const STATUSES = ["paused", "open"] as const;

/**
 * Returns the open questions of a store, those of the oldest run first. Questions that are answered keep their numbers, so that the others do, too.
 * `pass` is called for a run that cannot be read; the others are still listed.
 */
export async function askedQuestions(
  store: Store,
  pass: (run: StoredRun, problem: EspalierError) => void = () => {},
): Promise<readonly AskedQuestion[]> {
  const asked: AskedQuestion[] = [];
  let before = 0;
  for (const run of await unendedRuns(store)) {
    try {
      const { open, ids } = await questionsOf(store, run);
      for (const question of open)
        asked.push({ run, question, number: before + ids.indexOf(question.questionId) + 1 });
      before += ids.length;
    } catch (cause) {
      if (!isOfOneRun(cause)) throw cause;
      pass(run, cause);
    }
  }
  return asked;
}

/** Returns what a run asks, and the ids of all questions that it has ever asked, in order. */
async function questionsOf(
  store: Store,
  run: StoredRun,
): Promise<{ readonly open: readonly Question[]; readonly ids: readonly QuestionId[] }> {
  const ids = new Set<QuestionId>();
  const reading = new RunReading(store, run);
  await reading.advance((event) => {
    if (event.type === "question.asked") ids.add(event.question.questionId);
  });
  const open = reading.questions.map(({ runId: _run, role: _role, task: _task, ...rest }) => rest);
  return { open, ids: [...ids] };
}

async function unendedRuns(store: Store): Promise<readonly StoredRun[]> {
  const runs: StoredRun[] = [];
  for (const status of STATUSES) for await (const run of runsOf(store, status)) runs.push(run);
  return runs.toSorted(
    (left, right) => left.createdAtMs - right.createdAtMs || (left.runId < right.runId ? -1 : 1),
  );
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
  const numbered = NUMBER.test(name) ? all.filter(({ number }) => number === Number(name)) : [];
  const found = [exact, begun, numbered].find(({ length }) => length > 0) ?? [];
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (only === undefined)
    throw new UsageError(
      `Expected the id of an open question, the beginning of one, or a run that asks one, got ${JSON.stringify(name)}, which is none. List them: espalier questions`,
    );
  const ids = found.map(({ number, question }) => `${number} (${question.questionId})`).join(", ");
  throw new UsageError(
    `Expected one question, got ${JSON.stringify(name)}, which is meant by ${found.length}: ${ids}. Write the number of one.`,
  );
}

function newestOf(all: readonly AskedQuestion[]): StoredRun | undefined {
  return all.map(({ run }) => run).toSorted((a, b) => b.createdAtMs - a.createdAtMs)[0];
}
