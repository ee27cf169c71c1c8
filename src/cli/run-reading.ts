// RunReading: a stored run, folded as far as it was read, and the run that a name means. Writes nothing.

import { hostname } from "node:os";

import {
  EspalierError,
  Orchestrator,
  type EspalierEvent,
  type Question,
  type RunId,
  type RunResult,
} from "espalier";
import type { Store, StoredRun } from "espalier/extend";
import { stripControlCharacters } from "espalier/terminal";
import { RunFold, RunRecord, type QuestionRow, type RunHead, type RunListing } from "espalier/view";

import {
  updateAnsweredFacts,
  updateRefusedFacts,
  findRefusal,
  createRunHead,
  createRunListing,
  type Viewpoint,
} from "../view/run-row.ts";
import { UsageError } from "./exit-codes.ts";

export class RunReading {
  readonly fold: RunFold;
  readonly record: RunRecord;
  /** The entry of the store when the run was last read. */
  stored: StoredRun;
  /** The questions of the run without an answer in its mailbox. */
  questions: readonly QuestionRow[] = [];
  /** Why no process could lead the run, if it rests for that. */
  refusal: ReturnType<typeof findRefusal>;
  readonly #store: Store;
  /** The last line and the last post by which that is known. */
  #knownBy = "";

  constructor(store: Store, stored: StoredRun) {
    this.#store = store;
    this.stored = stored;
    this.fold = new RunFold(stored.runId);
    this.record = new RunRecord(store, stored.runId);
  }

  /** Reads what was recorded since; `emit` is called with each event. Rejects with what reading rejects with. */
  async advance(emit: (event: EspalierEvent) => void = () => undefined): Promise<void> {
    this.stored = (await this.#store.find(this.stored.runId)) ?? this.stored;
    await this.record.advance((event, line) => {
      this.fold.apply(event, line);
      emit(event);
    });
    this.questions = await this.#unanswered();
    const { runId, status } = this.stored;
    const posts = status === "paused" ? await this.#store.readMail(runId) : [];
    this.refusal = findRefusal(posts, this.record.handledMail);
  }

  async #unanswered(): Promise<readonly QuestionRow[]> {
    const { questions } = this.fold.snapshot();
    if (questions.length === 0) return questions;
    const { runId } = this.stored;
    const posts = await this.#store.readMail(runId);
    if (posts.every(({ number }) => this.record.handledMail.includes(number))) return questions;
    // To be asked again the whole journal is read.
    const knownBy = `${this.record.lineCount} ${posts.at(-1)?.number}`;
    if (knownBy === this.#knownBy) return this.questions;
    const open = new Set(
      (await readOpenQuestions(this.#store, runId)).map(({ questionId }) => questionId),
    );
    this.#knownBy = knownBy;
    return questions.filter(({ questionId }) => open.has(questionId));
  }

  /** What stands above its tree, once its beginning was read. */
  head(nowMs: number): RunHead {
    const facts = updateAnsweredFacts(this.fold.snapshot().run, this.questions.length === 0);
    return createRunHead(
      this.stored,
      updateRefusedFacts(facts, this.refusal),
      observeFromHere(nowMs),
    );
  }

  /** What is known of it without reading. */
  listing(nowMs: number): RunListing {
    return createRunListing(this.stored, undefined, observeFromHere(nowMs));
  }
}

/** What a run asks still. Nothing is answered by asking. */
export async function readOpenQuestions(store: Store, runId: RunId): Promise<readonly Question[]> {
  return await new Orchestrator({ store }).answer(runId, []);
}

/** Returns the result of a run that has ended. `undefined` for another run, or if it was not stored. */
export async function findStoredResult(
  store: Store,
  { runId, status }: StoredRun,
): Promise<RunResult | undefined> {
  if (status !== "ended") return undefined;
  try {
    return await new Orchestrator({ store }).getResult(runId);
  } catch (cause) {
    if (isOfOneRun(cause) || (EspalierError.is(cause) && cause.code === "invalid_state"))
      return undefined;
    throw cause;
  }
}

const OF_ONE_RUN: ReadonlySet<string> = new Set([
  "invalid_journal",
  "unsupported_version",
  "unknown_run",
]);

/** Whether an error of reading is about one run, and not about its store. */
export function isOfOneRun(cause: unknown): cause is EspalierError {
  return EspalierError.is(cause) && OF_ONE_RUN.has(cause.code);
}

/** What is said of a run that cannot be read where others are listed. */
export function describeUnreadableRun(
  { runId }: StoredRun,
  { message, code }: EspalierError,
): string {
  return stripControlCharacters(`${runId} cannot be read: ${message} [${code}]`);
}

/** Of a run in which nothing comes by itself: why, and what to type. */
export function describeUnownedRun(
  { runId, status }: RunListing,
  command: string,
): string | undefined {
  if (status !== "lost" && status !== "waiting") return undefined;
  return status === "lost"
    ? `Run ${runId} is lost: its process has stopped responding. Resume it: ${command} resume ${runId}`
    : `Run ${runId} is waiting: no process owns it. Run it here: ${command} resume ${runId}`;
}

function observeFromHere(nowMs: number): Viewpoint {
  return { nowMs, hostname: hostname(), processId: process.pid, isProcessGone: hasProcessEnded };
}

function hasProcessEnded(processId: number): boolean {
  try {
    process.kill(processId, 0);
    return false;
  } catch (cause) {
    return cause instanceof Error && "code" in cause && cause.code === "ESRCH";
  }
}

export const LAST_RUN = "@last";
/** Runs among which a beginning is looked for: the newest. */
const MAX_RUNS = 10_000;
const MAX_SHOWN = 5;

/**
 * The run that is meant.
 *
 * @throws UsageError if there is none, or more than one; what the store rejects with.
 */
export async function resolveRunName(store: Store, name: string): Promise<StoredRun> {
  if (name === LAST_RUN) {
    const [last] = await store.list({ limit: 1 });
    if (last !== undefined) return last;
    throw new UsageError("The store has no runs. Start one: espalier run …");
  }
  // Every id begins with nothing: a variable of the shell that is not set names no run.
  if (!isPossibleRunId(name)) throw createUnknownRunError(name);
  const exact = await store.find(name);
  if (exact !== undefined) return exact;
  const all = await store.list({ limit: MAX_RUNS });
  const found = all.filter(({ runId }) => runId.startsWith(name));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (found.length === 0) throw createUnknownRunError(name);
  const shown = found.slice(0, MAX_SHOWN).map(({ runId }) => runId);
  const more = found.length > MAX_SHOWN ? `, and ${found.length - MAX_SHOWN} more` : "";
  throw new UsageError(
    `Run id prefix ${JSON.stringify(name)} is ambiguous (${found.length} matches: ${shown.join(", ")}${more}). Use a longer prefix.`,
  );
}

function createUnknownRunError(name: string): UsageError {
  return new UsageError(
    `No run matches ${JSON.stringify(name)}. Use a run id, a prefix or ${LAST_RUN}. List them: espalier runs`,
  );
}

/** The name of the role of its root: a run is called by it and its task. */
export function readRootRole({ title }: StoredRun): string {
  return title.slice(0, Math.max(0, title.indexOf(": ")));
}

/** The store says whether it is one. */
function isPossibleRunId(name: string): name is RunId {
  return name !== "";
}

const MOST_NAMED = 5;

/** Returns the paths of agents for an error, and how many more there are. */
export function joinAgentPaths(agents: readonly { readonly agentPath: string }[]): string {
  const named = agents.slice(0, MOST_NAMED).map(({ agentPath }) => agentPath);
  const more = agents.length > MOST_NAMED ? `, and ${agents.length - MOST_NAMED} more` : "";
  return named.join(", ") + more;
}
