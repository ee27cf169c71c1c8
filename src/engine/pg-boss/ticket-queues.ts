// Stores tickets as jobs of pg-boss. Owns the names of queues and the settings of jobs.
//
// Each role has one queue for each version. For one run, a queue has at most one new job, one job
// that waits for a retry, and one job that is executed. A further ticket merges with the new job,
// and no job is executed beside another. (Policy `stately`, which has a unique index of states and
// keys.)
//
// A job for a later time waits in a separate queue, since in its own queue it would count as the
// new job.
//
// A job never expires: retries, waiting time and execution time are unlimited. Only missing
// heartbeats show that its worker is lost.

import type { JobInsert } from "pg-boss";

import { systemClock } from "../../kernel/clock.ts";
import { sha256 } from "../../kernel/crypto.ts";
import { RunIdSchema } from "../../protocol/ids.ts";
import { lazySchema, z } from "../../protocol/lazy-schema.ts";
import type { RunTicket } from "../engine.ts";
import { isQueueMissing, type PgBossInstance } from "./boss-connection.ts";

/** Payload of a job: a ticket, and the number of consecutive failures. */
export interface Lead extends RunTicket {
  readonly failures: number;
}

const LeadSchema = lazySchema(() =>
  z.object({
    runId: RunIdSchema(),
    role: z.string(),
    version: z.string(),
    failures: z.int().nonnegative(),
  }),
);

/** The queue of jobs for a later time. Every worker moves due jobs, regardless of its roles. */
const LATER = "espalier/later";

/** Largest integer of PostgreSQL. As seconds, 68 years. */
const NO_LIMIT = 2 ** 31 - 1;
/** Time for which ended jobs are kept for inspection. */
const KEEP_ENDED_SECONDS = 3_600;
const BATCH = 100;

/**
 * Returns the name of a queue: the role, as far as pg-boss allows its characters, and a hash of
 * role and version.
 */
export function createQueueName({ role, version }: Pick<RunTicket, "role" | "version">): string {
  const words = role.replaceAll(/[^\w-]/g, "_").slice(0, 64);
  return `espalier/${words}/${sha256(JSON.stringify([role, version])).slice(0, 24)}`;
}

/** Returns the payload of a job. `undefined` if espalier did not create the job. */
export function parseJobData(data: unknown): Lead | undefined {
  return LeadSchema().safeParse(data).data;
}

export class TicketQueues {
  readonly #boss: PgBossInstance;
  readonly #heartbeatSeconds: number;

  constructor(boss: PgBossInstance, heartbeatSeconds: number) {
    this.#boss = boss;
    this.#heartbeatSeconds = heartbeatSeconds;
  }

  /**
   * Creates the queues of these roles if they do not exist, and the queue of later jobs first: if a
   * role's queue exists, that one does, too.
   */
  async make(roles: readonly string[], version: string): Promise<void> {
    await this.#boss.createQueue(LATER, { policy: "short" });
    for (const role of roles)
      await this.#boss.createQueue(createQueueName({ role, version }), { policy: "stately" });
  }

  async has(ticket: RunTicket): Promise<boolean> {
    return (await this.#boss.getQueue(createQueueName(ticket))) !== null;
  }

  /** Adds a job, to be executed at once or from `atMs` on. */
  async put(lead: Lead, atMs = 0): Promise<void> {
    if (atMs <= systemClock.nowMs()) return this.#putNow([lead]);
    const startAfter = new Date(atMs).toISOString();
    const singletonKey = `${startAfter} ${lead.runId}`;
    await this.#boss.insert(LATER, [{ ...this.#createJob(lead), startAfter, singletonKey }]);
  }

  /** Moves due jobs to the queues of their roles. Returns `true` if there may be more. */
  async moveDue(): Promise<boolean> {
    const jobs = await this.#boss.fetch(LATER, { batchSize: BATCH });
    if (jobs.length === 0) return false;
    const leads = jobs.flatMap(({ data }) => parseJobData(data) ?? []);
    for (const same of Map.groupBy(leads, createQueueName).values())
      await this.#putNow(same).catch((cause: unknown) => {
        if (!isQueueMissing(cause)) throw cause; // The queue was removed, so its runs must not be executed.
      });
    // Completed last: if this process dies before, the jobs are moved once more.
    await this.#boss.complete(LATER, jobs);
    return jobs.length === BATCH;
  }

  /** Adds jobs that all belong to one queue. */
  async #putNow(leads: readonly Lead[]): Promise<void> {
    const [first] = leads;
    if (first === undefined) return;
    await this.#boss.insert(
      createQueueName(first),
      leads.map((lead) => this.#createJob(lead)),
    );
  }

  /**
   * Returns the job of a ticket, for `insert`. Unlike `send`, `insert` accepts more than a day for
   * `expireInSeconds`.
   */
  #createJob({ runId, role, version, failures }: Lead): JobInsert<Lead> {
    return {
      data: { runId, role, version, failures },
      singletonKey: runId,
      heartbeatSeconds: this.#heartbeatSeconds,
      retryLimit: NO_LIMIT,
      retryDelay: 0,
      retryBackoff: false,
      expireInSeconds: NO_LIMIT,
      retentionSeconds: NO_LIMIT,
      deleteAfterSeconds: KEEP_ENDED_SECONDS,
    };
  }
}
