// RunList: the runs of a store as rows, and their open questions. Owns the folded facts of runs
// that are not in the cache. The facts of an inactive run stay valid until its journal grows.
//
// A row agrees with the fold of its run. While the facts of a run are unknown, its row lacks them,
// and the run is read.

import { sleep, CancelSignal } from "../kernel/cancel-signal.ts";
import { omitUndefined } from "../kernel/json.ts";
import type { RunId } from "../protocol/ids.ts";
import type { StoredRun } from "../store/run-store.ts";
import type { Inbox, RunPage, RunRow } from "../read-model/viewer-data.ts";
import { CachedRun, type ReaderDependencies, type RunFoldCache } from "./run-fold-cache.ts";
import { collectRunFacts, buildRunRow, type LearntRun } from "./run-rows.ts";

/** Filter of a list. */
export interface RunQuery {
  /** Comma-separated statuses. */
  readonly status?: string | undefined;
  /** Text in the title or the id, case-insensitive. */
  readonly q?: string | undefined;
  /** Runs before this run, from `next` of the previous page. */
  readonly before?: RunId | undefined;
  readonly limit?: number | undefined;
}

const DEFAULT_LIMIT = 50;
const MAX_ROWS = 200;
/** Maximum of open runs, and of paused runs. The first page of a list contains all of these. */
const MAX_UNENDED = 500;
/** Maximum of runs that a filter inspects. */
const MAX_SEARCHED = 2_000;
/** Maximum wait of a list for facts that are not known yet. */
const PATIENCE_MS = 500;
/** Age up to which the facts of an active run outside the cache are used. */
const STALE_MS = 5_000;
const MAX_LEARNT = 5_000;

export class RunList {
  readonly #dependencies: ReaderDependencies;
  readonly #cache: RunFoldCache;
  readonly #forgotten: () => number;
  /** Oldest facts first. */
  readonly #learnt = new Map<RunId, LearntRun>();
  /** Unreadable runs, by the time of their last change. */
  readonly #unreadable = new Map<RunId, number>();
  /** Runs to read, one after the other. */
  readonly #wanted = new Map<RunId, StoredRun>();
  #reading: Promise<void> | undefined;
  readonly #closing = new CancelSignal();

  /** `forgotten` returns the number of runs that the store has evicted. */
  constructor(dependencies: ReaderDependencies, cache: RunFoldCache, forgotten: () => number) {
    this.#dependencies = dependencies;
    this.#cache = cache;
    this.#forgotten = forgotten;
  }

  /** Returns all open and paused runs, then `limit` ended runs, newest first. */
  async listRows(query: RunQuery): Promise<RunPage> {
    const { before } = query;
    const limit = Math.min(query.limit ?? DEFAULT_LIMIT, MAX_ROWS);
    const { runs: first, ...cut } = before === undefined ? await this.#listUnended() : { runs: [] };
    const rows = await this.#filterMatching(first, query);
    const ended = await this.#listEnded(query, limit);
    const forgotten = this.#forgotten();
    return {
      runs: [...rows, ...ended.rows],
      ...cut,
      ...omitUndefined({ next: ended.next, forgotten: forgotten > 0 ? forgotten : undefined }),
    };
  }

  /** Returns the open questions of all runs, oldest first. */
  async listQuestions(): Promise<Inbox> {
    const { runs, ...cut } = await this.#listUnended();
    await this.#learn(runs);
    const nowMs = this.#dependencies.clock.nowMs();
    const questionRows = runs.flatMap((stored) => {
      const row = this.#buildRow(stored, nowMs);
      const { status, questions = [], title: runTitle } = row;
      return status === "input_required"
        ? questions.map((question) => ({ ...question, runTitle }))
        : [];
    });
    const questions = questionRows.toSorted((left, other) => left.askedAtMs - other.askedAtMs);
    return { questions, ...cut };
  }

  close(): void {
    this.#closing.abort("closed");
    this.#wanted.clear();
  }

  async #listUnended() {
    const { store } = this.#dependencies;
    const lists = [
      await store.list({ status: "open", limit: MAX_UNENDED + 1 }),
      await store.list({ status: "paused", limit: MAX_UNENDED + 1 }),
    ];
    const runs = lists
      .flatMap((list) => list.slice(0, MAX_UNENDED))
      .toSorted((left, other) => other.createdAtMs - left.createdAtMs);
    const isCut = lists.some(({ length }) => length > MAX_UNENDED) || undefined;
    return { runs, ...omitUndefined({ isCut }) };
  }

  async #listEnded(
    query: RunQuery,
    limit: number,
  ): Promise<{ readonly rows: readonly RunRow[]; readonly next: RunId | undefined }> {
    const rows: RunRow[] = [];
    let { before } = query;
    for (let searched = 0; searched < MAX_SEARCHED; searched += MAX_ROWS) {
      const filter = { status: "ended", limit: MAX_ROWS, ...omitUndefined({ before }) } as const;
      const page = await this.#dependencies.store.list(filter);
      const wanted =
        query.status === undefined && query.q === undefined ? page.slice(0, limit) : page;
      const matching = await this.#filterMatching(wanted, query);
      rows.push(...matching.slice(0, limit - rows.length));
      const isMore = page.length === MAX_ROWS || matching.length < page.length;
      before = rows.length === limit ? rows.at(-1)?.runId : page.at(-1)?.runId;
      if (rows.length === limit) return { rows, next: isMore ? before : undefined };
      if (page.length < MAX_ROWS) return { rows, next: undefined };
    }
    return { rows, next: before };
  }

  async #filterMatching(
    runs: readonly StoredRun[],
    { status, q }: RunQuery,
  ): Promise<readonly RunRow[]> {
    const { content, clock } = this.#dependencies;
    const words = q?.toLowerCase() ?? "";
    // If titles are shown as the store has them, runs that do not match need not be read.
    const isTitled = ({ runId, title }: Pick<StoredRun, "runId" | "title">): boolean =>
      words === "" || `${title}\n${runId}`.toLowerCase().includes(words);
    const named = content.isWhole ? runs.filter(isTitled) : runs;
    await this.#learn(named);
    const statuses = status?.split(",");
    const nowMs = clock.nowMs();
    return named
      .map((stored) => this.#buildRow(stored, nowMs))
      .filter((row) => isTitled(row) && (statuses === undefined || statuses.includes(row.status)));
  }

  #buildRow(stored: StoredRun, nowMs: number): RunRow {
    const { content } = this.#dependencies;
    return buildRunRow(stored, this.#learnt.get(stored.runId), { content, nowMs });
  }

  /** Reads the runs whose facts are unknown. Waits for at most `PATIENCE_MS`. */
  async #learn(runs: readonly StoredRun[]): Promise<void> {
    const nowMs = this.#dependencies.clock.nowMs();
    for (const stored of runs)
      if (!this.#isKnown(stored, nowMs)) this.#wanted.set(stored.runId, stored);
    if (this.#wanted.size === 0) return;
    this.#reading ??= this.#readAll().finally(() => {
      this.#reading = undefined;
    });
    const patience = new CancelSignal();
    const waited = sleep(this.#dependencies.clock, PATIENCE_MS, patience);
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
    // An active run outside the cache would have to be read from its beginning each time.
    const isCached = this.#cache.find(runId) !== undefined;
    return owner !== null && !isCached && nowMs - learnt.atMs < STALE_MS;
  }

  async #readAll(): Promise<void> {
    for (const [runId, stored] of this.#wanted) {
      if (this.#closing.aborted) return;
      this.#wanted.delete(runId);
      try {
        this.#keep(
          collectRunFacts(await this.#read(stored), this.#dependencies.clock.nowMs()),
          runId,
        );
        this.#unreadable.delete(runId);
      } catch {
        // A request for this run gets the error.
        this.#unreadable.set(runId, stored.updatedAtMs);
      }
    }
  }

  /**
   * Reads a run. Active runs go into the cache while there is room, since they are read again soon.
   */
  async #read({ runId, status }: StoredRun): Promise<CachedRun> {
    if (this.#cache.find(runId) !== undefined || (status === "open" && this.#cache.hasRoom))
      return await this.#cache.look(runId);
    const run = new CachedRun(this.#dependencies, runId);
    await run.look();
    return run;
  }

  #keep(learnt: LearntRun, runId: RunId): void {
    this.#learnt.delete(runId);
    this.#learnt.set(runId, learnt);
    const [oldest] = this.#learnt.keys();
    if (this.#learnt.size > MAX_LEARNT && oldest !== undefined) this.#learnt.delete(oldest);
  }
}
