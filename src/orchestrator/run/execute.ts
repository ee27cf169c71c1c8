// Executes an order: starts the run, continues it, joins it, or gives its result. Any number of times, in any process.

import { checkAmount, checkKeys, checkMethods } from "../../kernel/check.ts";
import { CancelSignal, onAbort, sleep } from "../../kernel/cancel.ts";
import { EspalierError } from "../../kernel/error.ts";
import { defined, sameJson, type JsonValue } from "../../kernel/json.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { RunId } from "../../protocol/ids.ts";
import { isOverdue } from "../../protocol/question.ts";
import type { Ownership } from "../../store/run-store.ts";
import { runExists } from "../../store/store-errors.ts";
import { putBack } from "../durability/open-journal.ts";
import type { RunStorage } from "../durability/journal.ts";
import { sessionHandle } from "../sessions/sessions.ts";
import { requireStorage, type Settings } from "../tree/settings.ts";
import { LiveRun } from "./live-run.ts";
import { otherRun, type LiveRuns } from "./live-runs.ts";
import { persistedResult, signedResult } from "./persisted-result.ts";
import { crashLoop, layToRest, quarantineIn, type ClaimedRun } from "./quarantine.ts";
import {
  assertFree,
  takeOwnership,
  keptRun,
  lastPostIn,
  recoverRun,
  releaseUnled,
  storedRun,
  type KeptRun,
} from "./recover.ts";
import { hasUnknownMail, isCall, postMail, unreadMail } from "./run-mail.ts";
import { checkedOrder, type CheckedOrder, type RunOrder } from "./run-order.ts";
import { whyAborted } from "./run-error.ts";
import type { RunResult } from "./run-result.ts";
import { startRun } from "./start.ts";
import { checkRunOptions, type StartOptions } from "./start-options.ts";

/** What goes with the execution of an order. */
export interface ExecuteOptions extends Pick<StartOptions, "context" | "onPiece"> {
  /** Cancels the run when it is aborted, as in `StartOptions`: one that another process leads, by its mailbox. */
  readonly signal?: AbortSignal;
  /** Gives the run up when it is aborted, as `run.leave()` does: the execution rejects with `run_left`. */
  readonly leave?: AbortSignal;
  /** How long what is under way may take to return then, in milliseconds. Default: `graceMs` of the orchestrator. */
  readonly graceMs?: number;
  /**
   * After how many milliseconds the run is taken over from a process that seems to lead it still: for engines, which know that they have let go
   * of that process. Default: never; the result of that process is waited for, or the run continues here once it is lost.
   */
  readonly takeOverAfterMs?: number;
}

const FIELDS = ["context", "onPiece", "signal", "leave", "graceMs", "takeOverAfterMs"];

/** How often a run that another process leads is looked at. */
const LOOK_MS = 100;
/** How often the mailbox of a run is looked into whose order came from elsewhere. */
const MAIL_MS = 200;

/** Throws `invalid_option`. */
export function checkExecuteOptions(options: ExecuteOptions): void {
  const field = "execute options";
  checkKeys(field, options, FIELDS);
  const { leave, graceMs, takeOverAfterMs } = options;
  if (leave !== undefined) checkMethods(`${field}.leave`, leave, ["addEventListener"]);
  if (graceMs !== undefined) checkAmount(`${field}.graceMs`, graceMs);
  if (takeOverAfterMs !== undefined) checkAmount(`${field}.takeOverAfterMs`, takeOverAfterMs);
  checkRunOptions(field, options);
}

/** How an order is executed: as its caller says, or as a worker does it. */
export interface Executing extends ExecuteOptions {
  /** A run that another process leads is not waited for: `run_alive`. */
  readonly isLeftAlone?: boolean;
  /** In place of `context`. Called once the run is claimed. */
  readonly contextFor?: () => Promise<unknown>;
  /** In place of `graceMs`, as it is when the run is given up. */
  readonly graceMsNow?: () => number;
}

/** See `Orchestrator.execute`. */
export async function executeOrder(
  settings: Settings,
  live: LiveRuns,
  given: RunOrder,
  options: Executing,
): Promise<RunResult<JsonValue>> {
  const execution = executionOf(settings, live, given, options);
  for (;;) {
    const settled = await execution.rest();
    if (!isPostponed(settled)) return settled;
    await execution.pass(settled.delayMs);
  }
}

/** The run is not to be led yet, since processes that led it have died. */
export interface Postponed {
  readonly delayMs: number;
}

export function isPostponed(settled: object): settled is Postponed {
  return "delayMs" in settled;
}

/** Returns the execution of an order. A worker lets its engine wait while the run is postponed. */
export function executionOf(
  settings: Settings,
  live: LiveRuns,
  given: RunOrder,
  options: Executing,
): Execution {
  const order = checkedOrder(given);
  return new Execution(settings, live, { order, role: roleOf(settings, order), options });
}

/** The role of an order. Throws `unknown_role`. */
function roleOf({ roles }: Settings, { role: name }: CheckedOrder): AgentRole {
  const role = roles.find((one) => one.name === name);
  if (role !== undefined) return role;
  const known = roles.map((one) => one.name).join(", ") || "none";
  throw new EspalierError({
    code: "unknown_role",
    message: `Expected a role of the orchestrator (${known}), got an order for ${JSON.stringify(name)}. List it in options.roles, or correct the order.`,
    data: { role: name },
  });
}

interface Parts {
  readonly order: CheckedOrder;
  readonly role: AgentRole;
  readonly options: Executing;
}

class Execution {
  readonly #settings: Settings;
  readonly #live: LiveRuns;
  readonly #storage: RunStorage;
  readonly #parts: Parts;
  readonly #beganMs: number;
  #context: Promise<unknown> | undefined;
  /** It came to rest here: if the store could not record that, it still names this process as its leader. */
  #hasRested = false;
  /** The process that leads it elsewhere was asked to cancel it. */
  #hasAsked = false;
  /** Aborted when nothing is to be waited for any more. */
  readonly #given = new CancelSignal();

  constructor(settings: Settings, live: LiveRuns, parts: Parts) {
    this.#settings = settings;
    this.#live = live;
    this.#storage = requireStorage(settings);
    this.#parts = parts;
    this.#beganMs = settings.clock.monotonicMs();
  }

  /** The result once the run rests, and nothing is asked of it by mail. */
  async rest(): Promise<RunResult<JsonValue> | Postponed> {
    const { leave } = this.#parts.options;
    const giveUp = (): void => this.#given.abort("left");
    if (leave?.aborted === true) giveUp();
    const forget = leave === undefined || leave.aborted ? undefined : onAbort(leave, giveUp);
    try {
      for (;;) {
        const result = await this.#try();
        if (result !== undefined && !(isPostponed(result) && this.#given.aborted)) return result;
        if (this.#given.aborted) throw leftTo(this.#parts.order.runId);
      }
    } finally {
      forget?.();
    }
  }

  /** Lets time pass, until nothing is to be waited for any more. */
  async pass(delayMs: number): Promise<void> {
    await sleep(this.#storage.clock, delayMs, this.#given);
  }

  /** Undefined: to be tried again. */
  async #try(): Promise<RunResult<JsonValue> | Postponed | undefined> {
    const run = this.#joined();
    if (run !== undefined) return await this.#result(run);
    const { runId } = this.#parts.order;
    try {
      const led = await this.#led();
      if (led instanceof LiveRun) return await this.#result(led);
      quarantineIn(this.#live).end(runId);
      return led;
    } catch (cause) {
      quarantineIn(this.#live).end(runId);
      if (!this.#isPassing(cause)) throw cause;
      await this.#cancelElsewhere();
      await this.pass(LOOK_MS);
      return undefined;
    }
  }

  async #cancelElsewhere(): Promise<void> {
    const { order, options } = this.#parts;
    const { signal } = options;
    if (signal?.aborted !== true || this.#hasAsked) return;
    this.#hasAsked = true;
    try {
      const message = whyAborted(signal);
      await postMail(this.#storage.store, order.runId, { type: "cancel", message });
    } catch (cause) {
      if (!this.#isPassing(cause)) throw cause;
    }
  }

  /** Another process leads the run, has led it meanwhile, or leads it now instead of this one. */
  #isPassing(cause: unknown): boolean {
    if (!EspalierError.is(cause)) return false;
    const { takeOverAfterMs, isLeftAlone = false } = this.#parts.options;
    if (isLeftAlone && cause.code === "run_alive") return false;
    // A caller that takes runs over was asked to by its engine, and must report that it failed.
    const isTaken = cause.code === "run_fenced" && takeOverAfterMs === undefined;
    return isTaken || PASSING.has(cause.code);
  }

  /** The run, if this process leads it already. Throws `other_run` if it was started with another role or task. */
  #joined(): LiveRun | undefined {
    const { runId, role, task } = this.#parts.order;
    const { signal } = this.#parts.options;
    const run = this.#live.findStarted(runId, role, task);
    if (run?.takeUp() !== true) return undefined;
    if (signal !== undefined) run.cancelWith(signal);
    return run;
  }

  /**
   * The run, led by this process from now on; or its result, if it rests; or for how long it is not to be led. Rejects with `run_alive` while
   * another process leads it.
   */
  async #led(): Promise<LiveRun | RunResult<JsonValue> | Postponed> {
    const { runId } = this.#parts.order;
    const { signal } = this.#parts.options;
    this.#live.assertOpen();
    return await this.#live.during(async () => {
      const found = await storedRun(this.#storage.store, runId);
      if (found === undefined) return this.#live.add(await this.#begun(false), signal);
      if (!this.#mayTakeOver && !this.#hasRested) assertFree(found, this.#storage);
      const delayMs = await quarantineIn(this.#live).delayMs(found, this.#storage);
      if (delayMs > 0) return { delayMs };
      if (found.recordCount === 0) return this.#live.add(await this.#begun(true), signal);
      return await this.#continued(found.status === "open" && !this.#hasRested);
    });
  }

  /** `isLost`: its process may have died. Then it is claimed before it is read, so that what kills this process is counted. */
  async #continued(isLost: boolean): Promise<LiveRun | RunResult<JsonValue>> {
    const { order, role, options } = this.#parts;
    const { runId } = order;
    let claimed = isLost ? await this.#claim() : undefined;
    let kept: KeptRun | undefined;
    let context: unknown;
    try {
      kept = await keptRun(this.#storage, runId);
      if (!isSame(order, kept)) throw otherRun(runId);
      if (!isDue(kept, this.#settings.clock.nowMs())) {
        if (claimed !== undefined) await this.#putToRest(claimed.ownership, kept);
        return signedResult(this.#settings, await persistedResult(kept.folded));
      }
      claimed ??= await this.#claim();
      context = await this.#contextNow();
    } catch (cause) {
      if (claimed !== undefined) await releaseUnled(this.#storage, claimed.ownership, kept, cause);
      throw cause;
    }
    const { onPiece } = options;
    const how = { role, context, kept, claimed, areAllNeeded: false, ...defined({ onPiece }) };
    return this.#live.add(await recoverRun(this.#settings, runId, how), options.signal);
  }

  #claim(): Promise<ClaimedRun> {
    const { runId } = this.#parts.order;
    return takeOwnership(this.#settings, runId, { isOwnerLost: this.#mayTakeOver });
  }

  async #contextNow(): Promise<unknown> {
    const { context, contextFor } = this.#parts.options;
    if (contextFor === undefined) return context;
    return await (this.#context ??= contextFor());
  }

  /**
   * The run has come to rest, but its process died before the store knew, or something was posted that asks nothing. What a later release
   * has posted is left to that one: the run stays open.
   */
  async #putToRest(ownership: Ownership, kept: KeptRun): Promise<void> {
    const { store } = this.#storage;
    const { folded } = kept;
    const isUnknown = await hasUnknownMail(store, folded.run.runId, folded.posts);
    await store.release(ownership, isUnknown ? "open" : folded.status, lastPostIn(kept));
  }

  get #mayTakeOver(): boolean {
    const { takeOverAfterMs = Infinity } = this.#parts.options;
    return this.#settings.clock.monotonicMs() - this.#beganMs >= takeOverAfterMs;
  }

  /** `isMade`: there is an empty journal, with mail perhaps. */
  async #begun(isMade: boolean): Promise<LiveRun> {
    const { order, role, options } = this.#parts;
    const { store } = this.#storage;
    const { runId, task, budget, deadlineAtMs, metadata, sessionId, traceparent } = order;
    const session =
      sessionId === undefined ? undefined : await sessionHandle(this.#settings, sessionId, {});
    const { onPiece } = options;
    const given = defined({ budget, deadlineAtMs, metadata, session, onPiece, traceparent });
    const startWith = (context: unknown): StartOptions => ({ runId, context, ...given });
    if (!isMade) {
      const start = startWith(await this.#contextNow());
      return startRun(this.#settings, { role, task, options: start });
    }
    const { ownership, crashes } = await this.#claim();
    if (crashes >= this.#settings.maxCrashes) {
      const cause = crashLoop(runId, crashes);
      await layToRest(store, ownership, cause);
      throw cause;
    }
    try {
      const start = startWith(await this.#contextNow());
      const mail = await unreadMail(store, runId, []);
      if ((await storedRun(store, runId))?.recordCount !== 0) throw runExists(runId);
      return startRun(this.#settings, { role, task, options: start, ownership, mail });
    } catch (cause) {
      await putBack(store, ownership);
      throw cause;
    }
  }

  async #result(run: LiveRun): Promise<RunResult<JsonValue> | undefined> {
    const { graceMs, graceMsNow = () => graceMs } = this.#parts.options;
    run.mail?.hurry(MAIL_MS);
    const executions = (run.executions ??= new Set());
    const left = Promise.withResolvers<undefined>();
    const leave = (): void => {
      executions.delete(this);
      if (executions.size > 0) left.resolve(undefined);
      else void run.leave(defined({ graceMs: graceMsNow() }));
    };
    executions.add(this);
    if (this.#given.aborted) leave();
    const forget = this.#given.aborted ? undefined : this.#given.onAbort(leave);
    try {
      const result = await Promise.race([run.settled, left.promise]);
      if (result?.status !== "paused") return result;
    } finally {
      forget?.();
      executions.delete(this);
    }
    this.#hasRested = true;
    // Paused: what has come by mail since is done first.
    return undefined;
  }
}

/** Why an execution has no result, although the run continues. */
export function leftTo(runId: RunId): EspalierError {
  return new EspalierError({
    code: "run_left",
    message: `Run ${runId} was left to another process, or to a later execution of its order.`,
    data: { runId },
  });
}

const PASSING: ReadonlySet<string> = new Set(["run_alive", "run_ended", "run_exists"]);

/** Whether there is something to do for a run. */
function isDue({ folded, mail }: KeptRun, nowMs: number): boolean {
  const { status, run } = folded;
  if (status !== "paused") return status === "open";
  return run.questions.some((question) => isOverdue(question, nowMs)) || mail.some(isCall);
}

/** Whether a run was started with this role and task. */
function isSame({ role, task }: CheckedOrder, { folded }: KeptRun): boolean {
  const [root] = folded.run.agents;
  return root?.role === role && sameJson(root.task, task);
}
