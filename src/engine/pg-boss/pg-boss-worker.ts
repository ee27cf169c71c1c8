// A worker of the engine over pg-boss. Owns the jobs that it has fetched: sends their heartbeats,
// and reports how they ended.
//
// - A job is fetched only if a slot is free. If the worker closes meanwhile, the job is returned
//   without being run.
// - Each report names the attempt of the job (`retryCount`), and has no effect if another worker
//   has the job now.
// - A job whose end cannot be reported gets no more heartbeats, so that another attempt follows.

import type { Job } from "pg-boss";

import { CancelSignal, sleep } from "../../kernel/cancel-signal.ts";
import { systemClock } from "../../kernel/clock.ts";
import { getErrorMessage } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { EngineWorker, RunExecutor, ExecutorResult } from "../engine.ts";
import type { RunTurns } from "../run-turns.ts";
import type { PgBossInstance } from "./boss-connection.ts";
import { parseJobData, createQueueName, type Lead, type TicketQueues } from "./ticket-queues.ts";

export interface PgBossWorkerOptions {
  readonly boss: PgBossInstance;
  readonly queues: TicketQueues;
  readonly executor: RunExecutor;
  readonly pollIntervalMs: number;
  /** Shared by the workers of an engine. */
  readonly turns: RunTurns;
}

/** Attempt at a job that this worker has fetched. */
interface HeldJob {
  readonly queue: string;
  readonly id: string;
  readonly retryCount: number;
  readonly lead: Lead;
  readonly releaseController: AbortController;
}

type Outcome = ExecutorResult | { readonly type: "rejected" };

/** A third of the shortest heartbeat timeout that pg-boss allows. */
const BEAT_MS = 3_000;
/** Delays before a failed run is executed again: exponential backoff from the first to the last. */
const FIRST_DELAY_MS = 250;
const LAST_DELAY_MS = 5_000;
const LARGEST_BATCH = 100;

export class PgBossWorker implements EngineWorker {
  readonly #options: PgBossWorkerOptions;
  readonly #held = new Map<HeldJob, Promise<void>>();
  readonly #serving: Promise<void>;
  readonly #beating: Promise<void>;
  /** Queues in the order in which they are polled. */
  #queueNames: readonly string[];
  #isClosing = false;
  #wake = new CancelSignal();
  readonly #end = new CancelSignal();
  /** Identifies an outage of the database, so that each outage is warned about once. */
  #outage = {};
  #closed: Promise<void> | undefined;

  constructor(options: PgBossWorkerOptions) {
    this.#options = options;
    const { roles, version } = options.executor;
    this.#queueNames = roles.map((role) => createQueueName({ role, version }));
    this.#serving = this.#serve();
    this.#beating = this.#beat();
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#isClosing = true;
    this.#wake.abort("closing");
    for (const { releaseController } of this.#held.keys()) releaseController.abort();
    await this.#serving;
    await Promise.all(this.#held.values());
    this.#end.abort("closed");
    await this.#beating;
  }

  async #serve(): Promise<void> {
    while (!this.#isClosing) {
      const isMore = await this.#attempt(() => this.#fetchAll());
      if (isMore === true) continue;
      await sleep(systemClock, this.#options.pollIntervalMs, this.#wake);
      if (!this.#isClosing) this.#wake = new CancelSignal();
    }
  }

  /** Fetches as many jobs as there are free slots. Returns `true` if there may be more. */
  async #fetchAll(): Promise<boolean> {
    let isMore = await this.#options.queues.moveDue();
    const [first, ...others] = this.#queueNames;
    for (const queue of this.#queueNames) {
      const room = Math.min(LARGEST_BATCH, this.#options.executor.maxRuns - this.#held.size);
      if (this.#isClosing || room <= 0) break;
      const jobs = await this.#options.boss.fetch(queue, { batchSize: room });
      for (const job of jobs) this.#track(queue, job);
      isMore ||= jobs.length === room;
    }
    // Rotated, so that no role starves the others.
    if (first !== undefined) this.#queueNames = [...others, first];
    return isMore && this.#held.size < this.#options.executor.maxRuns;
  }

  #track(queue: string, { id, retryCount, data }: Job<unknown>): void {
    const lead = parseJobData(data);
    // pg-boss delivers the job again later, since another worker may be able to read it.
    if (lead === undefined)
      return warnOnce(
        this,
        `Cannot read job ${id} in the queue ${queue} of pg-boss. Remove the job.`,
      );
    const job = { queue, id, retryCount, lead, releaseController: new AbortController() };
    if (this.#isClosing) job.releaseController.abort();
    const led = this.#lead(job).finally(() => {
      this.#held.delete(job);
      this.#wake.abort("room");
    });
    this.#held.set(job, led);
  }

  async #lead(job: HeldJob): Promise<void> {
    // A job that was reassigned, even to this process, waits until the earlier execution here has
    // ended.
    const outcome = await this.#options.turns.run(job.lead.runId, () => this.#settle(job));
    await this.#attempt(() => this.#report(job, outcome));
  }

  async #settle({ lead, releaseController }: HeldJob): Promise<Outcome> {
    if (releaseController.signal.aborted) return { type: "rejected" };
    try {
      return await this.#options.executor.execute(lead.runId, releaseController.signal);
    } catch {
      return { type: "rejected" };
    }
  }

  /**
   * Reports how a job ended. A job for a later time is added first. If this process dies in
   * between, the run is executed once too often, which is harmless.
   */
  async #report(job: HeldJob, outcome: Outcome): Promise<void> {
    const { boss, queues } = this.#options;
    const { queue, lead, releaseController } = job;
    if (outcome.type === "rejected" && releaseController.signal.aborted) {
      // To another worker, at once: this worker fetches nothing more, or has already lost the job.
      await boss.fail(queue, job);
      return;
    }
    if (outcome.type === "rejected") {
      const failures = lead.failures + 1;
      const delayMs = Math.min(FIRST_DELAY_MS * 2 ** lead.failures, LAST_DELAY_MS);
      await queues.put({ ...lead, failures }, systemClock.nowMs() + delayMs);
    } else if (outcome.type === "waiting" && outcome.untilMs !== undefined) {
      await queues.put({ ...lead, failures: 0 }, outcome.untilMs);
    }
    await boss.complete(queue, job);
  }

  async #beat(): Promise<void> {
    while (!this.#end.aborted) {
      await sleep(systemClock, BEAT_MS, this.#end);
      const byQueue = Map.groupBy(this.#held.keys(), ({ queue }) => queue);
      for (const [queue, jobs] of byQueue) await this.#attempt(() => this.#touch(queue, jobs));
    }
  }

  /** Sends heartbeats of jobs. Aborts jobs that are no longer assigned to this worker. */
  async #touch(queue: string, jobs: HeldJob[]): Promise<void> {
    const response: unknown = await this.#options.boss.touch(queue, jobs);
    const alive: unknown = isRecord(response) ? response["settled"] : undefined;
    if (!Array.isArray(alive)) return;
    for (const { id, releaseController } of jobs)
      if (!alive.includes(id)) releaseController.abort();
  }

  /**
   * Executes work that fails if the database fails. Returns `undefined` then; the next round tries
   * again.
   */
  async #attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      const value = await work();
      this.#outage = {};
      return value;
    } catch (cause) {
      const advice = "The worker retries. Runs whose end was not reported run again.";
      warnOnce(
        this.#outage,
        `A pg-boss worker could not continue (${getErrorMessage(cause)}). ${advice}`,
      );
      return undefined;
    }
  }
}
