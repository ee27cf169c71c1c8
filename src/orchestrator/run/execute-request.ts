// Executes a run request: starts the run, continues it, joins it or returns its result. May be
// repeated any number of times, in any process.

import {
  checkAmount,
  checkFields,
  checkMethods,
  type FieldCheck,
} from "../../kernel/argument-checks.ts";
import { CancelSignal, addAbortHandler, sleep } from "../../kernel/cancel-signal.ts";
import { EspalierError } from "../../kernel/error.ts";
import { omitUndefined, sameJson } from "../../kernel/json.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { RunId } from "../../protocol/ids.ts";
import { isOverdue } from "../../protocol/question.ts";
import type { Ownership } from "../../store/run-store.ts";
import { createRunExistsError } from "../../store/store-errors.ts";
import { releaseClaim } from "../durability/open-journal.ts";
import type { RunStorage } from "../durability/journal.ts";
import { openSessionHandle } from "../sessions/sessions.ts";
import { requireStorage, type Settings } from "../tree/orchestrator-settings.ts";
import type { PreparedRun } from "./live-run.ts";
import { createOtherRunError, type LiveRuns } from "./live-runs.ts";
import { readStoredResult, signResult } from "./stored-result.ts";
import { openQuarantine, takeOwnership, type ClaimedRun } from "./quarantine.ts";
import {
  assertFree,
  readRun,
  findLastMail,
  prepareRecovery,
  releaseAfterFailure,
  findStoredRun,
  type PersistedRun,
} from "./recover-run.ts";
import {
  copyRequest,
  type CheckedOrder,
  hasUnknownMail,
  continuesRun,
  sendMail,
  type RunRequest,
  readUnreadMail,
} from "./run-mail.ts";
import { explainAbort } from "./run-error.ts";
import { RunHandle } from "./run-handle.ts";
import type { JsonRunResult } from "./run-result.ts";
import { prepareStart } from "./prepare-run.ts";
import { RUN_CHECKS, type StartOptions } from "./run-options.ts";

/**
 * Options of `orchestrator.execute`.
 *
 * @example
 * ```ts
 * const request = { runId: "order-4711", role: "buyer", task: "Buy a pear tree." };
 * const controller = new AbortController();
 * process.once("SIGTERM", () => controller.abort());
 * const result = await orchestrator.execute(request, { releaseSignal: controller.signal });
 * ```
 */
export interface ExecuteOptions extends Pick<StartOptions, "context" | "onStreamPart"> {
  /** Signal that cancels the run. A run of another process is cancelled through its mailbox. */
  readonly signal?: AbortSignal;
  /**
   * Signal that releases the run, as `run.release()` does. The execution then rejects with
   * `run_released`.
   */
  readonly releaseSignal?: AbortSignal;
  /**
   * Time in milliseconds that calls in progress have to return after `releaseSignal` is aborted.
   *
   * @default the `graceMs` of the orchestrator
   */
  readonly graceMs?: number;
  /**
   * Time in milliseconds after which the run is taken over from another process that seems to own
   * it. For engines that have given up that process.
   *
   * @default never: the other process is waited for, until it is lost
   */
  readonly takeOverAfterMs?: number;
}

const CHECKS: Readonly<Record<keyof ExecuteOptions, FieldCheck>> = {
  ...RUN_CHECKS,
  releaseSignal: (field, value) => checkMethods(field, value, ["addEventListener"]),
  graceMs: checkAmount,
  takeOverAfterMs: checkAmount,
};

/** Interval at which a run of another process is polled. */
const LOOK_MS = 100;
/** Interval at which the mailbox is polled if the request came from elsewhere. */
const MAIL_MS = 200;

/** Throws `invalid_argument`. */
export function checkExecuteOptions(options: ExecuteOptions): void {
  checkFields("execute options", options, CHECKS);
}

/** Options of an execution by a caller or a worker. */
interface Executing extends ExecuteOptions {
  /** True to reject with `run_active` if another process owns the run, instead of waiting. */
  readonly isLeftAlone?: boolean;
  /** Replaces `context`. Called once the run is claimed. */
  readonly contextFor?: () => Promise<unknown>;
  /** Replaces `graceMs`. Called when the run is released. */
  readonly graceMsNow?: () => number;
}

/** Executes a request; see `Orchestrator.execute`. */
export async function executeRequest(
  live: LiveRuns,
  request: RunRequest,
  options: ExecuteOptions,
): Promise<JsonRunResult> {
  const execution = new RequestExecution(live, copyRequest(request), options);
  for (;;) {
    const settled = await execution.whenSettled();
    if (!isPostponed(settled)) return settled;
    await execution.sleep(settled.delayMs);
  }
}

/** A run that must not continue yet, because processes that executed it have crashed. */
interface Postponed {
  readonly delayMs: number;
}

export function isPostponed(settled: object): settled is Postponed {
  return "delayMs" in settled;
}

/**
 * An execution of a run request. While the run is postponed, `executeRequest` waits and a worker
 * returns to its engine.
 */
export class RequestExecution {
  readonly #live: LiveRuns;
  readonly #storage: RunStorage;
  readonly #order: CheckedOrder;
  readonly #options: Executing;
  readonly #role: AgentRole;
  readonly #beganMs: number;
  #context: Promise<unknown> | undefined;
  /**
   * True if the run settled here. If the store could not record that, it still names this process
   * as the owner.
   */
  #hasRested = false;
  /** True once the owner in another process was asked to cancel the run. */
  #hasAsked = false;
  /** Aborted when the execution is released. */
  readonly #givenUp = new CancelSignal();

  /** Throws `unknown_role` if the orchestrator does not have the role. */
  constructor(live: LiveRuns, order: CheckedOrder, options: Executing) {
    this.#live = live;
    this.#storage = requireStorage(live.settings);
    this.#order = order;
    this.#options = options;
    this.#role = findOrderedRole(live.settings, order);
    this.#beganMs = live.settings.clock.monotonicMs();
  }

  /**
   * Returns the result once the run has settled and no mail is left to handle. Rejects with
   * `run_released` if the run is released before.
   */
  async whenSettled(): Promise<JsonRunResult | Postponed> {
    const { releaseSignal } = this.#options;
    const giveUp = (): void => this.#givenUp.abort("left");
    if (releaseSignal?.aborted === true) giveUp();
    const forget =
      releaseSignal === undefined || releaseSignal.aborted
        ? undefined
        : addAbortHandler(releaseSignal, giveUp);
    try {
      for (;;) {
        const result = await this.#try();
        if (result !== undefined && !(isPostponed(result) && this.#givenUp.aborted)) return result;
        if (this.#givenUp.aborted) throw createLeftError(this.#order.runId);
      }
    } finally {
      forget?.();
    }
  }

  /** Waits for `delayMs`, or until the execution is released. */
  async sleep(delayMs: number): Promise<void> {
    await sleep(this.#storage.clock, delayMs, this.#givenUp);
  }

  /** Makes one attempt. Returns `undefined` if another attempt is needed. */
  async #try(): Promise<JsonRunResult | Postponed | undefined> {
    const { runId, role, task } = this.#order;
    const { signal } = this.#options;
    const known = this.#live.findStarted(runId, role, task);
    if (known?.cancelRelease() === true) {
      if (signal !== undefined) known.cancelWith(signal);
      return await this.#awaitResult(known);
    }
    try {
      const led = await this.#lead();
      if (led instanceof RunHandle) return await this.#awaitResult(led);
      openQuarantine(this.#live).end(runId);
      return led;
    } catch (cause) {
      openQuarantine(this.#live).end(runId);
      if (!this.#isPassing(cause)) throw cause;
      await this.#cancelElsewhere();
      await this.sleep(LOOK_MS);
      return undefined;
    }
  }

  async #cancelElsewhere(): Promise<void> {
    const { signal } = this.#options;
    if (signal?.aborted !== true || this.#hasAsked) return;
    this.#hasAsked = true;
    try {
      const message = explainAbort(signal);
      await sendMail(this.#storage.store, this.#order.runId, { type: "cancel", message });
    } catch (cause) {
      if (!this.#isPassing(cause)) throw cause;
    }
  }

  /**
   * Returns true if another process owns the run or owned it in the meantime, so that waiting may
   * help.
   */
  #isPassing(cause: unknown): boolean {
    if (!EspalierError.is(cause)) return false;
    const { takeOverAfterMs, isLeftAlone = false } = this.#options;
    if (isLeftAlone && cause.code === "run_active") return false;
    // A caller that takes runs over does so for its engine, and must report the failure.
    const isTaken = cause.code === "run_fenced" && takeOverAfterMs === undefined;
    return isTaken || PASSING.has(cause.code);
  }

  /**
   * Starts or continues the run. Returns its result if the run has settled, or the delay if it is
   * postponed. Rejects with `run_active` while another process owns the run.
   */
  async #lead(): Promise<RunHandle | JsonRunResult | Postponed> {
    const live = this.#live;
    live.assertOpen();
    return await live.during(async () => {
      const stored = await findStoredRun(this.#storage.store, this.#order.runId);
      if (stored !== undefined) {
        if (!this.#mayTakeOver && !this.#hasRested) assertFree(stored, this.#storage);
        const delayMs = await openQuarantine(live).computeDelay(stored, this.#storage);
        if (delayMs > 0) return { delayMs };
      }
      const prepared =
        stored === undefined || stored.recordCount === 0
          ? await this.#prepareStart(stored !== undefined)
          : await this.#prepareRecovery(stored.status === "open" && !this.#hasRested);
      return "root" in prepared ? live.start(prepared, this.#options.signal) : prepared;
    });
  }

  /**
   * Prepares the run to continue, or returns its result if nothing is left to do. `isLost` means
   * that its process may have crashed. Then the run is claimed before it is read, so that a crash
   * of this process is counted.
   */
  async #prepareRecovery(isLost: boolean): Promise<PreparedRun | JsonRunResult> {
    const { settings } = this.#live;
    const { runId } = this.#order;
    let claimed = isLost ? await this.#claim() : undefined;
    let persistedRun: PersistedRun | undefined;
    let context: unknown;
    try {
      persistedRun = await readRun(this.#storage, runId);
      if (!isStartedBy(this.#order, persistedRun)) throw createOtherRunError(runId);
      if (!isDue(persistedRun, settings.clock.nowMs())) {
        if (claimed !== undefined) await this.#putToRest(claimed.ownership, persistedRun);
        return signResult(settings, await readStoredResult(persistedRun.folded));
      }
      claimed ??= await this.#claim();
      context = await this.#readContext();
    } catch (cause) {
      if (claimed !== undefined)
        await releaseAfterFailure(this.#storage, claimed.ownership, persistedRun, cause);
      throw cause;
    }
    const listeners = omitUndefined({ onStreamPart: this.#options.onStreamPart });
    const options = {
      role: this.#role,
      context,
      persistedRun,
      claimed,
      areAllNeeded: false,
      ...listeners,
    };
    return await prepareRecovery(settings, runId, options);
  }

  #claim(mostCrashes?: number): Promise<ClaimedRun> {
    const { runId } = this.#order;
    const options = { ownerLost: this.#mayTakeOver };
    return takeOwnership(this.#live.settings, runId, options, mostCrashes);
  }

  async #readContext(): Promise<unknown> {
    const { context, contextFor } = this.#options;
    if (contextFor === undefined) return context;
    this.#context ??= contextFor();
    return await this.#context;
  }

  /**
   * Releases a run that has settled. Its process crashed before the store knew, or its mail
   * requires no action. If only a later release understands the mail, the run stays open.
   */
  async #putToRest(ownership: Ownership, persistedRun: PersistedRun): Promise<void> {
    const { store } = this.#storage;
    const { folded } = persistedRun;
    const isUnknown = await hasUnknownMail(store, folded.run.runId, folded.posts);
    await store.release(ownership, isUnknown ? "open" : folded.status, findLastMail(persistedRun));
  }

  get #mayTakeOver(): boolean {
    const { takeOverAfterMs = Infinity } = this.#options;
    return this.#live.settings.clock.monotonicMs() - this.#beganMs >= takeOverAfterMs;
  }

  /** Prepares a new run. `isMade` means that an empty journal exists, perhaps with mail. */
  async #prepareStart(isMade: boolean): Promise<PreparedRun> {
    const { settings } = this.#live;
    const { store } = this.#storage;
    const role = this.#role;
    const {
      version: _form,
      rolesVersion: _of,
      role: _name,
      task,
      sessionId,
      ...request
    } = this.#order;
    const { runId } = request;
    const session =
      sessionId === undefined ? undefined : await openSessionHandle(settings, sessionId, {});
    // A run without records cannot be failed, so it is paused one crash earlier.
    const claimed = isMade ? await this.#claim(settings.maxCrashes - 1) : undefined;
    try {
      const parts = omitUndefined({ session, onStreamPart: this.#options.onStreamPart });
      const options = { ...request, ...parts, context: await this.#readContext() };
      if (claimed === undefined) return prepareStart(settings, { role, task, options });
      const mail = await readUnreadMail(store, runId, []);
      if ((await findStoredRun(store, runId))?.recordCount !== 0) throw createRunExistsError(runId);
      return prepareStart(settings, { role, task, options, ownership: claimed.ownership, mail });
    } catch (cause) {
      if (claimed !== undefined) await releaseClaim(store, claimed.ownership);
      throw cause;
    }
  }

  async #awaitResult(run: RunHandle): Promise<JsonRunResult | undefined> {
    const { graceMs, graceMsNow = () => graceMs } = this.#options;
    run.mail?.shortenInterval(MAIL_MS);
    const executions = run.executions ?? new Set();
    run.executions = executions;
    const left = Promise.withResolvers<undefined>();
    const leave = (): void => {
      executions.delete(this);
      if (executions.size > 0) left.resolve(undefined);
      else void run.release(omitUndefined({ graceMs: graceMsNow() }));
    };
    executions.add(this);
    if (this.#givenUp.aborted) leave();
    const forget = this.#givenUp.aborted ? undefined : this.#givenUp.onAbort(leave);
    try {
      const result = await Promise.race([run.settled, left.promise]);
      if (result?.status !== "paused") return result;
    } finally {
      forget?.();
      executions.delete(this);
    }
    this.#hasRested = true;
    // Paused. Mail that arrived in the meantime is handled first.
    return undefined;
  }
}

/** Returns the error of an execution that ends without a result, although the run continues. */
export function createLeftError(runId: RunId): EspalierError {
  return new EspalierError({
    code: "run_released",
    message: `This process has released run ${runId}: another process, or a later execution of the same request, runs it.`,
    data: { runId },
  });
}

const PASSING: ReadonlySet<string> = new Set(["run_active", "run_ended", "run_exists"]);

/** Returns true if the run has something to do. */
function isDue({ folded, mail }: PersistedRun, nowMs: number): boolean {
  const { status, run } = folded;
  if (status !== "paused") return status === "open";
  return run.questions.some((question) => isOverdue(question, nowMs)) || mail.some(continuesRun);
}

/** Returns true if the run was started with this role and task. */
function isStartedBy({ role, task }: CheckedOrder, { folded }: PersistedRun): boolean {
  const [root] = folded.run.agents;
  return root?.role === role && sameJson(root.task, task);
}

function findOrderedRole({ roles }: Settings, { role: name }: CheckedOrder): AgentRole {
  const role = roles.find((candidate) => candidate.name === name);
  if (role !== undefined) return role;
  const known = roles.map((candidate) => candidate.name).join(", ") || "none";
  throw new EspalierError({
    code: "unknown_role",
    message: `Expected a role of the orchestrator (${known}), got ${JSON.stringify(name)}. List the role in options.roles, or correct the request.`,
    data: { role: name },
  });
}
