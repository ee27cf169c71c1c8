// RunList: the runs of a store as rows, and what they ask. Owns what was learnt of runs that are not held folded: of those at rest it stays
// true until their journal grows.
//
// V5. A list says of a run what its fold says, never something else; a run of which that is not known yet has a row without it, and is read
//     meanwhile.

import { sleep, CancelSignal } from "../kernel/cancel.ts";
import { defined } from "../kernel/json.ts";
import type { RunId } from "../protocol/ids.ts";
import type { StoredRun } from "../store/run-store.ts";
import type { Inbox, RunPage, RunRow } from "../view/viewer-data.ts";
import { HeldRun, type ReadingMeans, type HeldRuns } from "./held-run.ts";
import { learntOf, rowOf, type LearntRun } from "./run-rows.ts";

/** Which runs to list. */
export interface RunQuery {
  /** Those that stand so: names with commas between. */
  readonly status?: string | undefined;
  /** Those with this in their title or id, whatever its case. */
  readonly q?: string | undefined;
  /** Those that came before this run: what `next` was. */
  readonly before?: RunId | undefined;
  readonly limit?: number | undefined;
}

const DEFAULT_LIMIT = 50;
const MOST_ROWS = 200;
/** Runs that are under way, and as many that are paused: those are all in the first part of a list. */
const MOST_UNENDED = 500;
/** Runs that are looked through for a filter. */
const MOST_SEARCHED = 2_000;
/** So long a list waits for what is not known yet. */
const PATIENCE_MS = 500;
/** What is known of a run under way is good enough for so long, where it is not held. */
const STALE_MS = 5_000;
const MOST_LEARNT = 5_000;

export class RunList {
  readonly #means: ReadingMeans;
  readonly #held: HeldRuns;
  readonly #forgotten: () => number;
  /** Longest known first. */
  readonly #learnt = new Map<RunId, LearntRun>();
  /** Those that could not be read, as they were then. */
  readonly #unreadable = new Map<RunId, number>();
  /** To be read, one after the other. */
  readonly #wanted = new Map<RunId, StoredRun>();
  #reading: Promise<void> | undefined;
  readonly #closing = new CancelSignal();

  /** `forgotten`: how many runs the store has no more, since it had to make room. */
  constructor(means: ReadingMeans, held: HeldRuns, forgotten: () => number) {
    this.#means = means;
    this.#held = held;
    this.#forgotten = forgotten;
  }

  /** Those that are under way or paused, all of them; then those that have ended, newest first, so many. */
  async rows(query: RunQuery): Promise<RunPage> {
    const { before } = query;
    const limit = Math.min(query.limit ?? DEFAULT_LIMIT, MOST_ROWS);
    const { runs: first, ...cut } = before === undefined ? await this.#unended() : { runs: [] };
    const rows = await this.#matching(first, query);
    const ended = await this.#ended(query, limit);
    const forgotten = this.#forgotten();
    return {
      runs: [...rows, ...ended.rows],
      ...cut,
      ...defined({ next: ended.next, forgotten: forgotten > 0 ? forgotten : undefined }),
    };
  }

  /** The unanswered questions of all runs of the store, oldest first. */
  async questions(): Promise<Inbox> {
    const { runs, ...cut } = await this.#unended();
    await this.#learn(runs);
    const nowMs = this.#means.clock.nowMs();
    const asked = runs.flatMap((stored) => {
      const row = this.#row(stored, nowMs);
      const { status, questions = [], title: runTitle } = row;
      return status === "input_required" ? questions.map((one) => ({ ...one, runTitle })) : [];
    });
    const questions = asked.toSorted((one, other) => one.askedAtMs - other.askedAtMs);
    return { questions, ...cut };
  }

  close(): void {
    this.#closing.abort("closed");
    this.#wanted.clear();
  }

  async #unended() {
    const { store } = this.#means;
    const lists = [
      await store.list({ status: "open", limit: MOST_UNENDED + 1 }),
      await store.list({ status: "paused", limit: MOST_UNENDED + 1 }),
    ];
    const runs = lists
      .flatMap((list) => list.slice(0, MOST_UNENDED))
      .toSorted((one, other) => other.createdAtMs - one.createdAtMs);
    const isCut = lists.some(({ length }) => length > MOST_UNENDED) || undefined;
    return { runs, ...defined({ isCut }) };
  }

  async #ended(
    query: RunQuery,
    limit: number,
  ): Promise<{ readonly rows: readonly RunRow[]; readonly next: RunId | undefined }> {
    const rows: RunRow[] = [];
    let { before } = query;
    for (let searched = 0; searched < MOST_SEARCHED; searched += MOST_ROWS) {
      const filter = { status: "ended", limit: MOST_ROWS, ...defined({ before }) } as const;
      const found = await this.#means.store.list(filter);
      const wanted =
        query.status === undefined && query.q === undefined ? found.slice(0, limit) : found;
      const matching = await this.#matching(wanted, query);
      rows.push(...matching.slice(0, limit - rows.length));
      const isMore = found.length === MOST_ROWS || matching.length < found.length;
      before = rows.length === limit ? rows.at(-1)?.runId : found.at(-1)?.runId;
      if (rows.length === limit) return { rows, next: isMore ? before : undefined };
      if (found.length < MOST_ROWS) return { rows, next: undefined };
    }
    return { rows, next: before };
  }

  async #matching(runs: readonly StoredRun[], { status, q }: RunQuery): Promise<readonly RunRow[]> {
    const { content, clock } = this.#means;
    const words = q?.toLowerCase() ?? "";
    // Where titles are those of the store, runs that do not match need not be read.
    const isTitled = ({ runId, title }: Pick<StoredRun, "runId" | "title">): boolean =>
      words === "" || `${title}\n${runId}`.toLowerCase().includes(words);
    const named = content.isWhole ? runs.filter(isTitled) : runs;
    await this.#learn(named);
    const statuses = status?.split(",");
    const nowMs = clock.nowMs();
    return named
      .map((stored) => this.#row(stored, nowMs))
      .filter((row) => isTitled(row) && (statuses === undefined || statuses.includes(row.status)));
  }

  #row(stored: StoredRun, nowMs: number): RunRow {
    const { content } = this.#means;
    return rowOf(stored, this.#learnt.get(stored.runId), { content, nowMs });
  }

  /** Reads those of which something is not known; waits for that for `PATIENCE_MS` at most. */
  async #learn(runs: readonly StoredRun[]): Promise<void> {
    const nowMs = this.#means.clock.nowMs();
    for (const stored of runs)
      if (!this.#isKnown(stored, nowMs)) this.#wanted.set(stored.runId, stored);
    if (this.#wanted.size === 0) return;
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = undefined;
    });
    const patience = new CancelSignal();
    const waited = sleep(this.#means.clock, PATIENCE_MS, patience);
    await Promise.race([this.#reading, waited]);
    patience.abort("read");
  }

  #isKnown(run: StoredRun, nowMs: number): boolean {
    const { runId, recordCount, updatedAtMs, status, owner } = run;
    if (recordCount === 0 || this.#unreadable.get(runId) === updatedAtMs) return true;
    const learnt = this.#learnt.get(runId);
    if (learnt === undefined) return false;
    const { stored } = learnt;
    const isSame = stored.recordCount === recordCount && stored.status === status;
    if (isSame && stored.updatedAtMs === updatedAtMs) return true;
    // A run that is led but not held would have to be read from its beginning each time.
    const isCached = this.#held.find(runId) !== undefined;
    return owner !== null && !isCached && nowMs - learnt.atMs < STALE_MS;
  }

  async #readAll(): Promise<void> {
    for (const [runId, stored] of this.#wanted) {
      if (this.#closing.aborted) return;
      this.#wanted.delete(runId);
      try {
        this.#keep(learntOf(await this.#read(stored), this.#means.clock.nowMs()), runId);
        this.#unreadable.delete(runId);
      } catch {
        // A request for this run gets the error.
        this.#unreadable.set(runId, stored.updatedAtMs);
      }
    }
  }

  /** Those that are under way are held, as far as there is room: they are looked at again soon. */
  async #read({ runId, status }: StoredRun): Promise<HeldRun> {
    if (this.#held.find(runId) !== undefined || (status === "open" && this.#held.hasRoom))
      return await this.#held.look(runId);
    const run = new HeldRun(this.#means, runId);
    await run.look();
    return run;
  }

  #keep(learnt: LearntRun, runId: RunId): void {
    this.#learnt.delete(runId);
    this.#learnt.set(runId, learnt);
    const [oldest] = this.#learnt.keys();
    if (this.#learnt.size > MOST_LEARNT && oldest !== undefined) this.#learnt.delete(oldest);
  }
}
