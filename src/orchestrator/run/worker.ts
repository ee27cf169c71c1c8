// A worker: executes runs for an engine, with the roles of an orchestrator. Records a lasting error
// of a run, and pauses the run. Returns a transient error to the engine. Owns the number of runs
// that execute at once, and the search for runs that the engine has lost.

import type {
  Engine,
  EngineWorker,
  RunExecutor,
  ExecutorResult,
  RunTicket,
} from "../../engine/engine.ts";
import { runBounded } from "../../kernel/cancel-signal.ts";
import {
  checkAmount,
  checkFunction,
  checkAtLeastOne,
  checkFields,
  checkKeys,
  checkMethods,
  adviseDefault,
  type FieldCheck,
  mismatch,
} from "../../kernel/argument-checks.ts";
import type { Clock } from "../../kernel/clock.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { randomIds } from "../../kernel/id-source.ts";
import { Semaphore } from "../../kernel/semaphore.ts";
import type { Budget } from "../../policies/budget.ts";
import { parseId, type RunId } from "../../protocol/ids.ts";
import type { Mail, StoredRun } from "../../store/run-store.ts";
import type { RunStorage } from "../durability/journal.ts";
import { createOwner } from "../durability/open-journal.ts";
import { requireStorage } from "../tree/orchestrator-settings.ts";
import { RequestExecution, isPostponed, createLeftError } from "./execute-request.ts";
import type { LiveRuns } from "./live-runs.ts";
import { backoffMs, isCrashLoop } from "./quarantine.ts";
import { ALL_OF_THEM, readRun, findLostRuns, findStoredRun } from "./recover-run.ts";
import {
  type CheckedOrder,
  checkVersionName,
  DEFAULT_ROLES_VERSION,
  continuesRun,
  parseMail,
  findRunRequest,
  readRunRequest,
  sendMail,
  createRefusal,
  type RunRequest,
} from "./run-mail.ts";
import { openRoles } from "./prepare-run.ts";

/**
 * Options of `orchestrator.startWorker`.
 *
 * @example
 * ```ts
 * const worker = await orchestrator.startWorker(storeEngine(), {
 *   rolesVersion: "v3",
 *   maxRuns: 20,
 *   context: ({ metadata }) => ({ tenant: metadata?.["tenant"] }),
 * });
 * ```
 */
export interface WorkerOptions<out Context = unknown> {
  /**
   * Version of the worker's roles: 1 to 40 letters, digits, dots, hyphens and underscores. The
   * worker executes only runs that were started for this version. Change the version when runs in
   * progress could not continue with the new roles.
   *
   * @default "1"
   */
  readonly rolesVersion?: string;
  /**
   * Function that returns the context of a run from its request, before this worker executes the
   * run. A promise that is pending when the run is released is not awaited.
   *
   * @default none: runs have no context
   * @example
   * ```ts
   * const worker = await orchestrator.startWorker(storeEngine(), {
   *   context: async ({ metadata }) => ({ user: String(metadata?.["user"]) }),
   * });
   * ```
   */
  readonly context?: (request: RunRequest) => Context | Promise<Context>;
  /**
   * Maximum number of runs that this worker executes at the same time. The orchestrator's
   * `maxConcurrentRuns` is an upper bound.
   *
   * @default 100
   */
  readonly maxRuns?: number;
  /**
   * Time in milliseconds that calls in progress have to return when a run is released. Runs are
   * released when the worker is closed, or the engine takes a run back.
   *
   * @default 20_000
   */
  readonly graceMs?: number;
  /**
   * Time in milliseconds that the worker waits for the previous owner of a run, before it takes the
   * run over from that owner. The engine has then assigned the run to this worker.
   *
   * @default 500
   */
  readonly takeOverAfterMs?: number;
  /**
   * Interval in milliseconds at which the worker searches the store for runs that no process
   * executes and the engine has lost. A run is passed to the engine again after this interval, with
   * exponential backoff up to 64 intervals.
   *
   * @default the engine's `sweepIntervalMs`, or 30_000
   */
  readonly sweepIntervalMs?: number;
}

/**
 * Worker that executes runs for an engine. `orchestrator.startWorker` returns it.
 *
 * @example
 * ```ts
 * const worker = await orchestrator.startWorker(storeEngine());
 * process.once("SIGTERM", () => void worker.close({ graceMs: 10_000 }));
 * ```
 */
export interface Worker {
  /**
   * Stops accepting runs and releases the current ones, so that other workers continue them. Calls
   * that return within `graceMs` (by default that of the worker) are persisted; others are aborted
   * and repeated. Resolves once all runs are released.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
  /** Closes the worker like `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

const NO_LIMITS: Budget = Object.freeze({});
const DEFAULT_MAX_RUNS = 100;
const DEFAULT_GRACE_MS = 20_000;
const DEFAULT_TAKE_OVER_AFTER_MS = 500;
const DEFAULT_SWEEP_MS = 30_000;
/**
 * End of the year 9999, the latest time that engines can represent. A run that waits for longer
 * waits without a time.
 */
const LAST_TIME_MS = 253_402_300_799_999;
const CHECKS: Readonly<Record<keyof WorkerOptions, FieldCheck>> = {
  rolesVersion: checkVersionName,
  context: checkFunction,
  maxRuns: (field, value) => checkAtLeastOne(field, value, adviseDefault(DEFAULT_MAX_RUNS)),
  graceMs: checkAmount,
  takeOverAfterMs: checkAmount,
  sweepIntervalMs: checkAmount,
};

/** Starts a worker; see `Orchestrator.startWorker`. */
export async function startEngineWorker(
  live: LiveRuns,
  engine: Engine,
  options: WorkerOptions,
): Promise<Worker> {
  checkMethods("engine", engine, ["enqueue", "serve"]);
  checkFields("startWorker options", options, CHECKS);
  const { settings } = live;
  const { store } = requireStorage(settings);
  if (settings.roles.length === 0)
    throw mismatch(
      "options.roles",
      "the roles of the runs that the worker owns",
      [],
      "Pass at least one role.",
    );
  for (const role of settings.roles) openRoles(settings, role, NO_LIMITS);
  // Changes nothing, but fails if the store cannot be used or written.
  await store.remove(parseId<"RunId">(randomIds.next("run")), 0);
  const worker = new LiveWorker(live, engine, options);
  await worker.serve();
  return worker;
}

class LiveWorker implements Worker, RunExecutor {
  readonly roles: readonly string[];
  readonly version: string;
  readonly maxRuns: number;
  readonly #live: LiveRuns;
  readonly #storage: RunStorage;
  readonly #engine: Engine;
  readonly #options: WorkerOptions;
  readonly #slots: Semaphore;
  /**
   * Runs without a request, or whose role the worker does not have. They are left to other workers.
   */
  readonly #foreign = new Set<RunId>();
  readonly #overdue: OverdueRuns;
  readonly #handed: HandedRuns;
  readonly #sweepIntervalMs: number;
  /** Grace period of released runs. */
  #graceMs: number;
  #serving: EngineWorker | undefined;
  #stopTimer: () => void = () => undefined;
  #closing: Promise<void> | undefined;

  constructor(live: LiveRuns, engine: Engine, options: WorkerOptions) {
    const { settings } = live;
    const { rolesVersion = DEFAULT_ROLES_VERSION, maxRuns = DEFAULT_MAX_RUNS } = options;
    this.#live = live;
    this.#storage = requireStorage(settings);
    this.#engine = engine;
    this.#options = options;
    this.roles = settings.roles.map(({ name }) => name);
    this.version = rolesVersion;
    this.maxRuns = Math.min(maxRuns, settings.maxConcurrentRuns ?? Infinity);
    this.#graceMs = options.graceMs ?? DEFAULT_GRACE_MS;
    this.#slots = new Semaphore(this.maxRuns);
    this.#sweepIntervalMs = options.sweepIntervalMs ?? engine.sweepIntervalMs ?? DEFAULT_SWEEP_MS;
    this.#overdue = new OverdueRuns(this.#storage);
    this.#handed = new HandedRuns(this.#storage.clock, this.#sweepIntervalMs);
  }

  async serve(): Promise<void> {
    this.#serving = await this.#engine.serve(this);
    void this.#sweep();
  }

  async execute(runId: RunId, releaseSignal: AbortSignal): Promise<ExecutorResult> {
    const giveBack = await this.#slots.acquire(releaseSignal);
    if (giveBack === undefined) throw createLeftError(runId);
    let seen: readonly Mail[] = [];
    try {
      seen = await this.#storage.store.readMail(runId);
      if (await this.#isRefused(runId, seen)) return { type: "ended" };
      return await this.#lead(findRunRequest(seen), releaseSignal);
    } catch (cause) {
      if (canSucceedLater(cause)) throw cause;
      if (isCrashLoop(cause)) return { type: "ended" }; // The reason is recorded.
      if (this.#live.closing.aborted) throw createLeftError(runId); // This process begins nothing further, whatever the error is.
      const hasMore = await this.#refuse(runId, cause, seen.at(-1)?.number ?? 0);
      if (hasMore) throw createLeftError(runId);
      return { type: "ended" };
    } finally {
      giveBack();
    }
  }

  /**
   * Returns true if the run is paused with a recorded reason, and no mail has arrived since. The
   * ticket is then older than the refusal.
   */
  async #isRefused(runId: RunId, seen: readonly Mail[]): Promise<boolean> {
    const mail = seen.flatMap((post) => parseMail(post) ?? []);
    const at = mail.findLastIndex((received) => received.mail.type === "refused");
    if (at === -1 || mail.slice(at).some(continuesRun)) return false;
    return (await findStoredRun(this.#storage.store, runId))?.status === "paused";
  }

  async #lead(
    order: CheckedOrder | undefined,
    releaseSignal: AbortSignal,
  ): Promise<ExecutorResult> {
    if (order === undefined) return { type: "ended" }; // The run was removed.
    const { takeOverAfterMs = DEFAULT_TAKE_OVER_AFTER_MS } = this.#options;
    const contextFor = (): Promise<unknown> => this.#createContext(order, releaseSignal);
    const { exclusive: isExclusive = true } = this.#engine;
    const others = isExclusive ? { takeOverAfterMs } : { isLeftAlone: true };
    const options = { contextFor, releaseSignal, graceMsNow: () => this.#graceMs, ...others };
    const settled = await new RequestExecution(this.#live, order, options).whenSettled();
    if (isPostponed(settled))
      return {
        type: "waiting",
        untilMs: Math.ceil(this.#storage.clock.nowMs() + settled.delayMs),
      };
    const { status, questions } = settled;
    if (status !== "paused") return { type: "ended" };
    const deadlines = questions
      .flatMap(({ deadlineAtMs }) => deadlineAtMs ?? [])
      .filter((deadlineAtMs) => deadlineAtMs <= LAST_TIME_MS);
    return {
      type: "waiting",
      ...(deadlines.length === 0 ? {} : { untilMs: Math.min(...deadlines) }),
    };
  }

  /**
   * Returns the context of a run. Context functions persist nothing, so a release does not wait for
   * them.
   */
  async #createContext(order: CheckedOrder, releaseSignal: AbortSignal): Promise<unknown> {
    const { context } = this.#options;
    const { clock } = this.#storage;
    const outcome = await runBounded(() => context?.(order), {
      signal: releaseSignal,
      clock,
      graceMs: 0,
    });
    if (outcome.type === "returned") return outcome.value;
    if (outcome.type === "abandoned") throw createLeftError(order.runId);
    const { error: cause } = outcome;
    const message = `Expected options.context to return the context of run ${order.runId}, but it threw: ${getErrorMessage(cause)}. Fix it, and resume the run.`;
    throw new EspalierError({ code: "context_failed", message, cause });
  }

  /**
   * Records why the run cannot be executed, and pauses it, since a retry would fail again. Returns
   * `true` if mail arrived after number `lastSeen`, so that the run stays open.
   */
  async #refuse(runId: RunId, cause: unknown, lastSeen: number): Promise<boolean> {
    const { store, staleAfterMs } = this.#storage;
    try {
      if ((await findStoredRun(store, runId))?.status === "ended") return false;
      const ownership = await store.claim(runId, { owner: createOwner(), staleAfterMs });
      const lastMail = await sendMail(store, runId, createRefusal(cause));
      const unseen = await store.readMail(runId, lastSeen + 1);
      const hasMore = unseen.flatMap((post) => parseMail(post) ?? []).some(continuesRun);
      await store.release(ownership, hasMore ? "open" : "paused", lastMail);
      return hasMore;
    } catch (failure) {
      if (findCode(failure) === "store_failed") throw failure;
      return false; // The run is gone, or another process owns it, so this process has nothing to do.
    }
  }

  /**
   * Passes to the engine: runs without an owner, requests that never reached the engine, and paused
   * runs whose waiting time is over.
   */
  async #sweep(): Promise<void> {
    await this.#sweepOnce().catch(() => undefined); // The store or the engine failed. The next sweep tries again.
    if (this.#closing !== undefined) return;
    this.#stopTimer = this.#storage.clock.setTimer(this.#sweepIntervalMs, () => void this.#sweep());
  }

  async #sweepOnce(): Promise<void> {
    const remembers = this.#engine.exclusive !== false;
    const nowMs = this.#storage.clock.nowMs();
    const lost = (await findLostRuns(this.#storage)).filter((run) => backoffMs(run, nowMs) === 0);
    for (const run of remembers ? this.#handed.due(lost) : lost) {
      const isHanded = await this.#sendToEngine(run.runId, run.recordCount > 0);
      if (isHanded) this.#handed.note(run);
    }
    // An exclusive engine also remembers until when a run waits.
    if (remembers || this.#closing !== undefined) return;
    for (const runId of await this.#overdue.find()) await this.#sendToEngine(runId, true);
  }

  /**
   * Sends a run to the engine. Returns `false` if the run belongs to another worker's engine, or
   * its request cannot be read yet.
   */
  async #sendToEngine(runId: RunId, hasBegun: boolean): Promise<boolean> {
    if (this.#closing !== undefined || this.#foreign.has(runId)) return false;
    const order = await readRunRequest(this.#storage.store, runId).catch(explainNoOrder);
    if (order === "unread") return false;
    if (order !== undefined && this.#serves(order)) {
      await this.#engine.enqueue(createTicket(order));
      return true;
    }
    // A run that has not begun may still get its request.
    if (order !== undefined || hasBegun) this.#foreign.add(runId);
    return false;
  }

  #serves({ role, rolesVersion }: CheckedOrder): boolean {
    return this.roles.includes(role) && this.version === rolesVersion;
  }

  close(options: { readonly graceMs?: number } = {}): Promise<void> {
    checkKeys("close options", options, ["graceMs"]);
    const { graceMs = this.#graceMs } = options;
    checkAmount("graceMs", graceMs);
    this.#graceMs = graceMs;
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#stopTimer();
    await this.#serving?.close(); // A sweep in progress ends by itself, since its engine may be slow.
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * Returns how to handle a failed read. A request of a later release is for other workers; any other
 * failure is retried.
 */
function explainNoOrder(cause: unknown): undefined | "unread" {
  return findCode(cause) === "unsupported_version" ? undefined : "unread";
}

/** Returns the ticket of a request. */
export function createTicket({ runId, role, rolesVersion }: CheckedOrder): RunTicket {
  return { runId, role, version: rolesVersion };
}

/** Errors that may not occur in another attempt or another process. */
const PASSING: ReadonlySet<string> = new Set([
  "run_released",
  "run_active",
  "run_fenced",
  "journal_conflict",
  "already_resumed",
  "store_failed",
]);

function findCode(cause: unknown): string | undefined {
  return EspalierError.is(cause) ? cause.code : undefined;
}

/**
 * Returns true if the execution may succeed later. False if the store has lost a part of the run.
 */
function canSucceedLater(cause: unknown): boolean {
  if (!EspalierError.is(cause) || cause.data["reason"] === "corrupt") return false;
  return PASSING.has(cause.code);
}

/** Interval in milliseconds. Most deadlines are far away, so it is long. */
const LOOK_MS = 30_000;

/** Paused run. */
interface RunRest {
  readonly updatedAtMs: number;
  /** `Infinity` if the run has no deadline to wait for, or its last mail is a refusal. */
  readonly dueAtMs: number;
}

class OverdueRuns {
  readonly #storage: RunStorage;
  #rests: ReadonlyMap<RunId, RunRest> = new Map();
  #nextLookMs = -Infinity;

  constructor(storage: RunStorage) {
    this.#storage = storage;
  }

  /**
   * Returns the overdue runs. Empty if the last search was a moment ago. Rejects like the store.
   */
  async find(): Promise<readonly RunId[]> {
    const { store, clock } = this.#storage;
    if (clock.monotonicMs() < this.#nextLookMs) return [];
    const rests = new Map<RunId, RunRest>();
    for (const run of await store.list({ status: "paused", limit: ALL_OF_THEM }))
      rests.set(run.runId, {
        updatedAtMs: run.updatedAtMs,
        dueAtMs: await this.#findDueTime(run),
      });
    this.#rests = rests;
    this.#nextLookMs = clock.monotonicMs() + LOOK_MS;
    const nowMs = clock.nowMs();
    return [...rests].flatMap(([runId, { dueAtMs }]) => (dueAtMs <= nowMs ? [runId] : []));
  }

  /** Returns `NaN` for a run that cannot be read, which does not delay others and is read again. */
  async #findDueTime({ runId, updatedAtMs, recordCount }: StoredRun): Promise<number> {
    const known = this.#rests.get(runId);
    if (known?.updatedAtMs === updatedAtMs && !Number.isNaN(known.dueAtMs)) return known.dueAtMs;
    if (recordCount === 0) return Infinity;
    const read = await readRun(this.#storage, runId).catch(() => undefined);
    if (read === undefined) return Number.NaN;
    if (read.mail.at(-1)?.mail.type === "refused") return Infinity;
    const { questions } = read.folded.run;
    return Math.min(...questions.map(({ deadlineAtMs }) => deadlineAtMs ?? Infinity));
  }
}

/** Maximum delay as a multiple of the first one. */
const LONGEST = 64;

/** Run as it was passed to the engine. */
interface Handing extends Pick<StoredRun, "epoch" | "updatedAtMs"> {
  /** Delay before it is passed to the engine again. Doubles each time. */
  readonly waitMs: number;
  readonly nextMs: number;
}

class HandedRuns {
  readonly #clock: Clock;
  readonly #firstWaitMs: number;
  #handings = new Map<RunId, Handing>();

  constructor(clock: Clock, firstWaitMs: number) {
    this.#clock = clock;
    this.#firstWaitMs = firstWaitMs;
  }

  /** Returns the runs without an owner that are to be sent to the engine now. */
  due(runs: readonly StoredRun[]): readonly StoredRun[] {
    const nowMs = this.#clock.monotonicMs();
    this.#handings = new Map(
      runs.flatMap(({ runId, epoch, updatedAtMs }) => {
        const handing = this.#handings.get(runId);
        const isSame = handing?.epoch === epoch && handing.updatedAtMs === updatedAtMs;
        return isSame ? [[runId, handing] as const] : []; // Otherwise the run has changed since.
      }),
    );
    return runs.filter(({ runId }) => nowMs >= (this.#handings.get(runId)?.nextMs ?? -Infinity));
  }

  /** Notes that a run was passed to the engine. */
  note({ runId, epoch, updatedAtMs }: StoredRun): void {
    const twiceMs = 2 * (this.#handings.get(runId)?.waitMs ?? this.#firstWaitMs / 2);
    const waitMs = Math.min(twiceMs, LONGEST * this.#firstWaitMs);
    const nextMs = this.#clock.monotonicMs() + waitMs;
    this.#handings.set(runId, { epoch, updatedAtMs, waitMs, nextMs });
  }
}
