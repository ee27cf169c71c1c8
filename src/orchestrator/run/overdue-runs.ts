// OverdueRuns: the runs of a store that rest though a question of theirs is past its deadline. Owns what it knows of each run at rest, so that
// the journal of one that waits for long is read once.

import type { RunId } from "../../protocol/ids.ts";
import type { StoredRun } from "../../store/run-store.ts";
import type { RunStorage } from "../durability/journal.ts";
import { ALL_OF_THEM, keptRun } from "./recover.ts";

/** A deadline is far away mostly: it is enough to look so often. */
const LOOK_MS = 30_000;

/** A run as it came to rest. */
interface Rest {
  readonly updatedAtMs: number;
  /** Infinity: it waits for no time, or its last mail says why it cannot be led. */
  readonly dueAtMs: number;
}

export class OverdueRuns {
  readonly #storage: RunStorage;
  #rests: ReadonlyMap<RunId, Rest> = new Map();
  #nextLookMs = -Infinity;

  constructor(storage: RunStorage) {
    this.#storage = storage;
  }

  /** None, if they were looked for a moment ago. Rejects like the store. */
  async find(): Promise<readonly RunId[]> {
    const { store, clock } = this.#storage;
    if (clock.monotonicMs() < this.#nextLookMs) return [];
    const rests = new Map<RunId, Rest>();
    for (const run of await store.list({ status: "paused", limit: ALL_OF_THEM }))
      rests.set(run.runId, await this.#restOf(run));
    this.#rests = rests;
    this.#nextLookMs = clock.monotonicMs() + LOOK_MS;
    const nowMs = clock.nowMs();
    return [...rests].flatMap(([runId, { dueAtMs }]) => (dueAtMs <= nowMs ? [runId] : []));
  }

  async #restOf({ runId, updatedAtMs, recordCount }: StoredRun): Promise<Rest> {
    const known = this.#rests.get(runId);
    if (known?.updatedAtMs === updatedAtMs) return known;
    if (recordCount === 0) return { updatedAtMs, dueAtMs: Infinity };
    const dueAtMs = await this.#dueAtMs(runId).catch(() => undefined);
    // What cannot be read keeps nothing else up, and is read again.
    return dueAtMs === undefined ? UNREAD : { updatedAtMs, dueAtMs };
  }

  async #dueAtMs(runId: RunId): Promise<number> {
    const { folded, mail } = await keptRun(this.#storage, runId);
    if (mail.at(-1)?.mail.type === "refused") return Infinity;
    return Math.min(...folded.run.questions.map(({ deadlineAtMs }) => deadlineAtMs ?? Infinity));
  }
}

const UNREAD: Rest = { updatedAtMs: Number.NaN, dueAtMs: Infinity };
