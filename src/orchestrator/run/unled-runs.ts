// The runs that a worker hands to its engine again. OverdueRuns finds those that are paused although a
// question is past its deadline. HandedRuns knows those that were handed over and that no process owns.

import type { RunId } from "../../protocol/ids.ts";
import type { StoredRun } from "../../store/run-store.ts";
import type { RunStorage } from "../durability/journal.ts";
import { ALL_OF_THEM, keptRun } from "./recover.ts";
import type { Clock } from "../../kernel/clock.ts";

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

/** The longest wait, in first ones. */
const LONGEST = 64;

/** A run as it was handed over. */
interface Handing extends Pick<StoredRun, "epoch" | "updatedAtMs"> {
  /** After which it is handed over again, twice that after the next time, and so on. */
  readonly waitMs: number;
  readonly nextMs: number;
}

export class HandedRuns {
  readonly #clock: Clock;
  readonly #firstWaitMs: number;
  #handings = new Map<RunId, Handing>();

  constructor(clock: Clock, firstWaitMs: number) {
    this.#clock = clock;
    this.#firstWaitMs = firstWaitMs;
  }

  /** Of all runs that no process leads, those to be handed over now. */
  due(runs: readonly StoredRun[]): readonly StoredRun[] {
    const nowMs = this.#clock.monotonicMs();
    this.#handings = new Map(runs.flatMap((run) => this.#same(run) ?? []));
    return runs.filter(({ runId }) => nowMs >= (this.#handings.get(runId)?.nextMs ?? -Infinity));
  }

  /** It was handed over. */
  note({ runId, epoch, updatedAtMs }: StoredRun): void {
    const twiceMs = 2 * (this.#handings.get(runId)?.waitMs ?? this.#firstWaitMs / 2);
    const waitMs = Math.min(twiceMs, LONGEST * this.#firstWaitMs);
    const nextMs = this.#clock.monotonicMs() + waitMs;
    this.#handings.set(runId, { epoch, updatedAtMs, waitMs, nextMs });
  }

  /** How it was handed over, if nothing has happened to it since. */
  #same({
    runId,
    epoch,
    updatedAtMs,
  }: StoredRun): readonly [readonly [RunId, Handing]] | undefined {
    const handing = this.#handings.get(runId);
    const isSame = handing?.epoch === epoch && handing.updatedAtMs === updatedAtMs;
    return isSame ? [[runId, handing]] : undefined;
  }
}
