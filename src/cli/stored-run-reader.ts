// StoredRunReader: folds a stored run as far as it was read. Also finds the run with a given name.
// Writes nothing.

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
  updateMailedFacts,
  findRefusal,
  createRunHead,
  createRunListing,
  type Viewpoint,
} from "../read-model/run-row.ts";
import { UsageError } from "./exit-codes.ts";
import type { ChosenStore } from "./project.ts";

export class StoredRunReader {
  readonly fold: RunFold;
  readonly record: RunRecord;
  /** Store entry at the last read. */
  stored: StoredRun;
  /** Open questions without an answer in the mailbox. */
  questions: readonly QuestionRow[] = [];
  /** Why no process could continue the run, if it is paused for that reason. */
  refusal: ReturnType<typeof findRefusal>;
  readonly #store: Store;
  /** Last record and last message for which `questions` is current. */
  #knownBy = "";

  constructor(store: Store, stored: StoredRun) {
    this.#store = store;
    this.stored = stored;
    this.fold = new RunFold(stored.runId);
    this.record = new RunRecord(store, stored.runId);
  }

  /**
   * Reads the new records, and calls `emit` with each event. Rejects with the errors of the reader.
   */
  async advance(emit: (event: EspalierEvent) => void = () => undefined): Promise<void> {
    this.stored = (await this.#store.find(this.stored.runId)) ?? this.stored;
    await this.record.advance((event, line) => {
      this.fold.apply(event, line);
      emit(event);
    });
    this.questions = await this.#findUnanswered();
    const { runId, status } = this.stored;
    const posts = status === "paused" ? await this.#store.readMail(runId) : [];
    this.refusal = findRefusal(posts, this.record.handledMail);
  }

  async #findUnanswered(): Promise<readonly QuestionRow[]> {
    const { questions } = this.fold.snapshot();
    if (questions.length === 0) return questions;
    const { runId } = this.stored;
    const posts = await this.#store.readMail(runId);
    if (posts.every(({ number }) => this.record.handledMail.includes(number))) return questions;
    // The full check of answers reads the whole journal, so its result is cached.
    const knownBy = `${this.record.lineCount} ${posts.at(-1)?.number}`;
    if (knownBy === this.#knownBy) return this.questions;
    const open = new Set(
      (await readOpenQuestions(this.#store, runId)).map(({ questionId }) => questionId),
    );
    this.#knownBy = knownBy;
    return questions.filter(({ questionId }) => open.has(questionId));
  }

  /** Returns the facts of the run above its tree. The start of the run must have been read. */
  getHead(nowMs: number): RunHead {
    const isAnswered = this.questions.length === 0;
    const facts = updateMailedFacts(this.fold.snapshot().run, isAnswered, this.refusal);
    return createRunHead(this.stored, facts, observeFromHere(nowMs));
  }

  /** Returns the facts of the store, without reading the journal. */
  getListing(nowMs: number): RunListing {
    return createRunListing(this.stored, undefined, observeFromHere(nowMs));
  }
}

/** Returns the open questions of a run, by sending an empty list of answers. */
export async function readOpenQuestions(store: Store, runId: RunId): Promise<readonly Question[]> {
  return await new Orchestrator({ store }).answer(runId, []);
}

/**
 * Returns the result of a run that has ended. `undefined` for another run, or if it was not stored.
 */
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

/** Returns true for an error about one run, and false for an error of the store. */
export function isOfOneRun(cause: unknown): cause is EspalierError {
  return EspalierError.is(cause) && OF_ONE_RUN.has(cause.code);
}

/** Returns the line for an unreadable run in a list. */
export function describeUnreadableRun(runId: RunId, { message, code }: EspalierError): string {
  return stripControlCharacters(`${runId} cannot be read: ${message} [${code}]`);
}

/**
 * Explains why a run does not continue by itself, and suggests a command. `undefined` if it can
 * continue.
 */
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
/** Number of the newest runs that are searched for a prefix. */
const MAX_RUNS = 10_000;
const MAX_SHOWN = 5;

/**
 * Returns the run with this id or prefix, or the newest one for `@last`.
 *
 * @throws UsageError if no run matches, or more than one. Also throws the errors of the store.
 */
export async function resolveRunName(chosenStore: ChosenStore, name: string): Promise<StoredRun> {
  const { store } = chosenStore;
  if (name === LAST_RUN) {
    const [last] = await store.list({ limit: 1 });
    if (last !== undefined) return last;
    throw new UsageError(`No runs in ${chosenStore.name}. Start one: espalier run …`);
  }
  // The empty prefix matches every run. It comes from an unset shell variable.
  if (!isPossibleRunId(name)) throw createNoMatchError(chosenStore, name);
  const exact = await store.find(name);
  if (exact !== undefined) return exact;
  const all = await store.list({ limit: MAX_RUNS });
  const matches = all.filter(({ runId }) => runId.startsWith(name));
  const [only] = matches;
  if (only !== undefined && matches.length === 1) return only;
  if (matches.length === 0) throw createNoMatchError(chosenStore, name);
  const shown = matches.slice(0, MAX_SHOWN).map(({ runId }) => runId);
  const more = matches.length > MAX_SHOWN ? `, and ${matches.length - MAX_SHOWN} more` : "";
  throw new UsageError(
    `Run id prefix ${JSON.stringify(name)} is ambiguous (${matches.length} matches: ${shown.join(", ")}${more}). Use a longer prefix.`,
  );
}

function createNoMatchError({ name: place }: ChosenStore, name: string): UsageError {
  return new UsageError(
    `No run matches ${JSON.stringify(name)} in ${place}. Use a run id, a prefix or ${LAST_RUN}. List them: espalier runs. For another store, add --store <path>.`,
  );
}

/** Returns the role of the root from the title, which contains role and task. */
export function readRootRole({ title }: StoredRun): string {
  return title.slice(0, Math.max(0, title.indexOf(": ")));
}

/** The store validates the id. */
function isPossibleRunId(name: string): name is RunId {
  return name !== "";
}

const MAX_NAMED = 5;

/** Returns the paths of agents for an error, and how many more there are. */
export function joinAgentPaths(agents: readonly { readonly agentPath: string }[]): string {
  const named = agents.slice(0, MAX_NAMED).map(({ agentPath }) => agentPath);
  const more = agents.length > MAX_NAMED ? `, and ${agents.length - MAX_NAMED} more` : "";
  return named.join(", ") + more;
}
