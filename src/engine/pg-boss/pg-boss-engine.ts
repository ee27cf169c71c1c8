// Entry `espalier/pg-boss`: an engine for workers that share a PostgreSQL database, on pg-boss.

import {
  checkAmount,
  checkCount,
  checkKeys,
  checkLeftOut,
  checkMethods,
  checkName,
  adviseDefault,
  groupDigits,
  mismatch,
} from "../../kernel/argument-checks.ts";
import { EspalierError } from "../../kernel/error.ts";
import { MemoizedPromise } from "../../kernel/memoized-promise.ts";
import { runOutsideScopes } from "../../protocol/correlation.ts";
import {
  createUnknownRoleError,
  type Engine,
  type EngineWorker,
  type RunExecutor,
  type RunTicket,
} from "../engine.ts";
import { RunTurns } from "../run-turns.ts";
import {
  convertBossError,
  ignoreFault,
  isQueueMissing,
  startBoss,
  type PgBossInstance,
  type OwnBoss,
} from "./boss-connection.ts";
import { TicketQueues } from "./ticket-queues.ts";
import { PgBossWorker } from "./pg-boss-worker.ts";

export type { PgBossInstance } from "./boss-connection.ts";

/**
 * Options of `pgBossEngine`. Set either `connectionString` or `boss`.
 *
 * @example
 * ```ts
 * const engine = pgBossEngine({
 *   connectionString: "postgres://user:secret@db.example.com/app",
 *   schema: "agent_jobs",
 *   pollIntervalMs: 200,
 * });
 * ```
 */
export interface PgBossEngineOptions {
  /**
   * URL of the PostgreSQL database. The engine starts and stops its own pg-boss.
   *
   * @example
   * ```ts
   * const engine = pgBossEngine({ connectionString: "postgres://user:secret@db.example.com/app" });
   * ```
   */
  readonly connectionString?: string;
  /**
   * Started instance of `PgBoss`. It stays yours: `close()` does not stop it. Set its
   * `superviseIntervalSeconds` and `monitorIntervalSeconds` to 2: with their default of 60 seconds,
   * a lost worker is detected that much later.
   *
   * @example
   * ```ts
   * import { PgBoss } from "pg-boss";
   *
   * const { DATABASE_URL: connectionString = "postgres://localhost/jobs" } = process.env;
   * const intervals = { superviseIntervalSeconds: 2, monitorIntervalSeconds: 2 };
   * const boss = await new PgBoss({ connectionString, ...intervals }).start();
   * const engine = pgBossEngine({ boss });
   * ```
   */
  readonly boss?: PgBossInstance;
  /**
   * Database schema of the queues. It is created if it does not exist. Not allowed with `boss`.
   *
   * @default "espalier_jobs"
   */
  readonly schema?: string;
  /**
   * Time in milliseconds without a heartbeat after which a worker's runs go to other workers, up to
   * 3 seconds later. Must be whole seconds, at least 10,000. Workers send a heartbeat every 3
   * seconds, so a worker whose event loop is blocked for longer than this loses its runs.
   *
   * @default 10_000
   */
  readonly lostAfterMs?: number;
  /**
   * Interval in milliseconds at which a worker with a free slot polls for runs. At least 10.
   *
   * @default 500
   */
  readonly pollIntervalMs?: number;
}

const BOSS_METHODS = ["createQueue", "getQueue", "insert", "fetch", "touch", "complete", "fail"];
const DEFAULT_SCHEMA = "espalier_jobs";
const DEFAULT_LOST_AFTER_MS = 10_000;
const DEFAULT_POLL_INTERVAL_MS = 500;
const SHORTEST_POLL_INTERVAL_MS = 10;
const OPTIONS = ["connectionString", "boss", "schema", "lostAfterMs", "pollIntervalMs"];

/**
 * Creates an engine on pg-boss, for workers on several machines that share a PostgreSQL database.
 * Needs the npm package `pg-boss`. Connects when it is first needed. A process that has
 * used the engine exits only after `close()`.
 *
 * @throws EspalierError `invalid_argument` if an option is invalid.
 * @throws EspalierError `missing_package` from every method if the package `pg-boss` is not
 * installed.
 * @throws EspalierError `unknown_role` from `enqueue` if no worker ever had the role in this
 * version.
 * @throws EspalierError `engine_failed` from every method if pg-boss fails. Its `cause` is the
 * error of pg-boss.
 *
 * @example
 * ```ts
 * const { DATABASE_URL = "postgres://localhost/jobs" } = process.env;
 * const engine = pgBossEngine({ connectionString: DATABASE_URL });
 * const worker = await orchestrator.startWorker(engine, { rolesVersion: "v3", maxRuns: 20 });
 * ```
 */
export function pgBossEngine(options: PgBossEngineOptions): Engine {
  checkKeys("options", options, OPTIONS);
  const { lostAfterMs = DEFAULT_LOST_AFTER_MS, pollIntervalMs = DEFAULT_POLL_INTERVAL_MS } =
    options;
  checkAtLeast("pollIntervalMs", pollIntervalMs, [
    SHORTEST_POLL_INTERVAL_MS,
    DEFAULT_POLL_INTERVAL_MS,
  ]);
  checkAtLeast("lostAfterMs", lostAfterMs, [DEFAULT_LOST_AFTER_MS, DEFAULT_LOST_AFTER_MS]);
  if (lostAfterMs % 1_000 !== 0)
    throw mismatch(
      "lostAfterMs",
      "whole seconds",
      lostAfterMs,
      adviseDefault(DEFAULT_LOST_AFTER_MS),
    );
  const { boss } = options;
  const source = boss === undefined ? ownBoss(options) : useGivenBoss(boss, options);
  return new PgBossEngine({ ...source, heartbeatSeconds: lostAfterMs / 1_000, pollIntervalMs });
}

interface BossSource {
  readonly open: () => Promise<PgBossInstance>;
  readonly end: () => Promise<void>;
}

/** Returns a source that starts an instance when it is needed, and stops it with the engine. */
function ownBoss({ connectionString, schema = DEFAULT_SCHEMA }: PgBossEngineOptions): BossSource {
  if (typeof connectionString !== "string" || connectionString === "") {
    const advice = "Pass the URL of the database, or a boss.";
    throw mismatch("connectionString", "a non-empty string", connectionString, advice);
  }
  const words = "at most 50 lower-case letters, digits and underscores, not starting with a digit";
  checkName("schema", schema, /^[a-z_][a-z0-9_]{0,49}$/, words);
  const boss = new MemoizedPromise<OwnBoss>();
  return {
    open: () => boss.get(() => startBoss(connectionString, schema)),
    end: async () => await (await boss.current?.catch(ignoreFault))?.stop(),
  };
}

/** Returns a source for an instance of the user, which stays open. */
function useGivenBoss(boss: PgBossInstance, options: PgBossEngineOptions): BossSource {
  checkLeftOut(options, ["connectionString", "schema"], "boss", "Configure the boss instead.");
  checkMethods("boss", boss, BOSS_METHODS);
  // Without a listener, its first error would end the process.
  boss.on("error", ignoreFault);
  return { open: async () => boss, end: async () => void boss.off("error", ignoreFault) };
}

/**
 * Throws `invalid_argument` unless the value is a whole number of at least `least`. `standard` is the
 * default, for the message.
 */
function checkAtLeast(field: string, value: number, [least, standard]: [number, number]): void {
  checkCount(field, value, adviseDefault(standard));
  if (value >= least) return;
  throw mismatch(
    field,
    `a whole number from ${groupDigits(least)} up`,
    value,
    adviseDefault(standard),
  );
}

interface PgBossSettings extends BossSource {
  readonly heartbeatSeconds: number;
  readonly pollIntervalMs: number;
}

class PgBossEngine implements Engine {
  readonly #options: PgBossSettings;
  readonly #workers = new Set<PgBossWorker>();
  readonly #turns = new RunTurns();
  #closed: Promise<void> | undefined;

  constructor(options: PgBossSettings) {
    this.#options = options;
  }

  async enqueue(ticket: RunTicket, atMs?: number): Promise<void> {
    if (atMs !== undefined) checkAmount("atMs", atMs, "Leave it out to start the run at once.");
    await this.#call(`queue a run of the role ${JSON.stringify(ticket.role)}`, async (boss) => {
      const queues = this.#openQueues(boss);
      try {
        if (atMs !== undefined && !(await queues.has(ticket))) throw createUnknownRoleError(ticket);
        await queues.put({ ...ticket, failures: 0 }, atMs);
      } catch (cause) {
        throw isQueueMissing(cause) ? createUnknownRoleError(ticket) : cause;
      }
    });
  }

  async serve(executor: RunExecutor): Promise<EngineWorker> {
    checkMethods("executor", executor, ["execute"]);
    return await this.#call("start a worker", async (boss) => {
      const queues = this.#openQueues(boss);
      await queues.make(executor.roles, executor.version);
      this.#refuseIfClosed();
      const { pollIntervalMs } = this.#options;
      const parts = { boss, queues, executor, pollIntervalMs, turns: this.#turns };
      const worker = runOutsideScopes(() => new PgBossWorker(parts));
      this.#workers.add(worker);
      return worker;
    });
  }

  close(): Promise<void> {
    this.#closed ??= (async () => {
      await Promise.all([...this.#workers].map((worker) => worker.close()));
      await this.#options.end();
    })();
    return this.#closed;
  }

  #openQueues(boss: PgBossInstance): TicketQueues {
    return new TicketQueues(boss, this.#options.heartbeatSeconds);
  }

  async #call<T>(action: string, ask: (boss: PgBossInstance) => Promise<T>): Promise<T> {
    this.#refuseIfClosed();
    try {
      return await ask(await runOutsideScopes(() => this.#options.open()));
    } catch (cause) {
      throw convertBossError(action, cause);
    }
  }

  #refuseIfClosed(): void {
    if (this.#closed === undefined) return;
    const message = "Cannot use the engine: it was closed. Close it after everything that uses it.";
    throw new EspalierError({ code: "engine_failed", message });
  }
}
