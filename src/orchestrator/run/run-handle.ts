// RunHandle: the controls of a run, and its result. Owns the readers of the run across its pauses,
// and the requests that arrived while it was paused. Does not own the tree, which LiveRun runs.
//
// To release a run is to suspend its journal, wait until no effect is in flight, and give up the
// ownership. Until then `cancelRelease` continues the run here. `LiveRun.abandon` is different: the
// journal broke or was given up, and the run stops here at once.

import { checkAmount, checkKeys, checkText, adviseDefault } from "../../kernel/argument-checks.ts";
import { CancelSignal, addAbortHandler, sleep } from "../../kernel/cancel-signal.ts";
import { EspalierError } from "../../kernel/error.ts";
import { sameJson, type JsonValue } from "../../kernel/json.ts";
import type { PhaseReport } from "../../agent/phase-report.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import { copyContent, type MessageContent } from "../../protocol/message-content.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import type { StreamPart } from "../../protocol/stream-part.ts";
import type { SteerReceipt } from "../../agent/mailbox.ts";
import type { Budget } from "../../policies/budget.ts";
import { copyGrant } from "../../budget/ledger-grant.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { type FeedFailure, findNode, findNodeAt, RunIterators, Stepper } from "./run-iterators.ts";
import type { PausedRun } from "../durability/paused-run.ts";
import type { MailReader } from "./run-mail.ts";
import {
  createUnstoredError,
  createNotOwnedError,
  RunError,
  createRunLeftError,
  explainAbort,
} from "./run-error.ts";
import type { EventsOptions, GrantOptions, StreamOptions, Run } from "./run.ts";
import {
  createPausedRun,
  createResult,
  type CompletedRunResult,
  type JsonRunResult,
} from "./run-result.ts";
import { settleDetached } from "../tree/supervisor.ts";
import { LiveRun, type PreparedRun } from "./live-run.ts";

const NONE: readonly never[] = Object.freeze([]);

export class RunHandle implements Run {
  readonly runId: RunId;
  readonly sessionId: string | undefined;
  /** Executions of a request that wait for the run. The last of them releases the run. */
  executions: Set<object> | undefined;
  /** Returns the parts with which a paused run continues, or `undefined` if it stays paused. */
  prepareContinuation: (() => Promise<PreparedRun | undefined>) | undefined;
  readonly result: Promise<JsonRunResult>;
  readonly #resolve: (result: Promise<JsonRunResult>) => void;
  #live: LiveRun;
  /** `undefined` until the caller iterates; then the phases run freely. */
  #stepper: Stepper | undefined;
  /** `undefined` until somebody reads events or stream parts. */
  #iterators: RunIterators | undefined;
  /** True if mail was sent in this process since a paused run last looked for a continuation. */
  #hasNewMail = false;
  /** Requests to the paused run, carried out if it continues. */
  #requests: readonly (() => void)[] = NONE;
  /**
   * Set once the readers and the session were released. `failure` explains why the run has no
   * result.
   */
  #end: { readonly failure: FeedFailure | undefined } | undefined;
  /** End of a run whose result was returned before detached agents had ended. */
  #tail: Promise<JsonRunResult> | undefined;
  #settled: Promise<JsonRunResult> | undefined;
  /** Set during a release. */
  #leaving: { readonly takenUp: CancelSignal; readonly left: Promise<boolean> } | undefined;
  #overHandlers: readonly (() => void)[];

  /**
   * Creates a handle. `onOver` is called once the run has settled or failed, before its result
   * resolves.
   */
  constructor(prepared: PreparedRun, onOver: () => void) {
    const { run } = prepared;
    const { promise, resolve } = Promise.withResolvers<JsonRunResult>();
    this.runId = run.runId;
    this.sessionId = run.session?.ref.sessionId;
    this.result = promise;
    this.#resolve = resolve;
    this.#overHandlers = [onOver];
    this.#live = new LiveRun(prepared, this);
  }

  /**
   * Starts the run. Its first event follows the synchronous code of the caller: see
   * `LiveRun.runRoot`.
   */
  start(): void {
    this.#resolve(this.#closeOnFailure(this.#lead()));
  }

  get rootAgentId(): AgentId {
    return this.#live.root.identity.agentId;
  }

  /** `undefined` if the run has no store. */
  get mail(): MailReader | undefined {
    return this.#live.mail;
  }

  /** Reads the mailbox now. A run that is about to pause looks once more before it settles. */
  readMail(): void {
    this.#hasNewMail = true;
    this.mail?.look();
  }

  get settled(): Promise<JsonRunResult> {
    // Created on demand, so that a caller that reads only `result` gets an error only there.
    this.#settled ??= this.result.then((result) => this.#tail ?? result);
    return this.#settled;
  }

  async orThrow(): Promise<CompletedRunResult<JsonValue | undefined>> {
    const result = await this.result;
    if (result.status === "completed") return result;
    throw new RunError(result);
  }

  async whenPersisted(): Promise<void> {
    const { journal } = this.#live.run;
    if (journal === undefined) throw createUnstoredError("Give the orchestrator a store.");
    try {
      await Promise.race([journal.writer.whenPersisted(), journal.writer.broken]);
    } catch (cause) {
      this.result.catch(() => undefined); // The caller of this method receives the failure, so a rejected result counts as handled.
      throw cause;
    }
  }

  events(options: EventsOptions = {}): AsyncIterableIterator<EspalierEvent, undefined> {
    return this.#openIterators().events(options);
  }

  stream(options: StreamOptions = {}): AsyncIterableIterator<StreamPart, undefined> {
    return this.#openIterators().pieces(options);
  }

  #openIterators(): RunIterators {
    this.#iterators ??= new RunIterators(this.#live.run, this.#end);
    return this.#iterators;
  }

  iterate(): AsyncIterableIterator<PhaseReport, undefined> {
    if (this.#stepper !== undefined) {
      throw new EspalierError({
        code: "already_iterating",
        message: "Cannot iterate a second time. Share the first iterator, or use events().",
      });
    }
    const stepper = new Stepper(() => this.cancel("The caller ended the iteration early."));
    this.#stepper = stepper;
    this.#stepWith(stepper);
    if (this.#end !== undefined || this.#tail !== undefined) stepper.end(this.#end?.failure);
    return stepper;
  }

  #stepWith(stepper: Stepper): void {
    const { root } = this.#live;
    root.stepper = stepper;
    // An iteration without a pending request must not delay a cancellation or a deadline.
    if (root.cancelSignal.aborted) stepper.open();
    else root.cancelSignal.onAbort(() => stepper.open());
  }

  async cancel(message = "The caller cancelled the run."): Promise<JsonRunResult> {
    checkText("message", message);
    this.#ask(() => this.#cancelNode(this.#live.root, message));
    return await this.settled;
  }

  cancelAgent(agentId: AgentId, message = "The caller cancelled the agent."): void {
    checkText("message", message);
    this.#findNode(agentId); // Throws at once for an unknown agent.
    this.#ask(() => this.#cancelNode(this.#findNode(agentId), message));
  }

  /** Cancels the run when the signal is aborted, or at once if it is aborted already. */
  cancelWith(signal: AbortSignal): void {
    const cancel = (): void =>
      this.#ask(() => this.#cancelNode(this.#live.root, explainAbort(signal)));
    if (signal.aborted) cancel();
    else this.#overHandlers = [...this.#overHandlers, addAbortHandler(signal, cancel)];
  }

  /**
   * Carries a request out at once, or, for a paused run, once it continues: until then its journal
   * accepts nothing.
   */
  #ask(request: () => void): void {
    if (this.#live.isOver) this.#requests = [...this.#requests, request];
    else request();
  }

  #cancelNode(node: AgentRuntime, message: string): void {
    const { agentId } = node.identity;
    this.#live.run.journal?.append({ type: "cancel", agentId, message });
    node.cancel(message);
  }

  requestPause(): void {
    this.#ask(() => {
      const { root, run } = this.#live;
      if (root.hasEnded) return;
      run.journal?.append({ type: "pause" });
      run.pauseSignal.abort(undefined);
    });
  }

  steer(
    message: MessageContent,
    agentId: AgentId = this.#live.root.identity.agentId,
  ): Promise<SteerReceipt> {
    const text = copyContent("message", message);
    const mailbox = this.#findNode(agentId).openMailbox();
    if (!mailbox.isClosed) this.#live.run.journal?.append({ type: "letter", agentId, text });
    return mailbox.write(text);
  }

  skipToolCalls(reason = "The caller left it out."): void {
    checkText("reason", reason);
    this.#ask(() => {
      const { root, run } = this.#live;
      run.journal?.append({ type: "skip", message: reason });
      root.openMailbox().skip(reason);
    });
  }

  requestStop(message = "The caller asked the run to stop."): void {
    checkText("message", message);
    const reason = { code: "stop_requested", message, data: {} };
    const signal = { source: "caller", reason } as const;
    this.#ask(() => {
      const { journal, tree } = this.#live.run;
      journal?.append({ type: "stop", signal });
      tree.stop(signal);
    });
  }

  grant(budget: Budget, options: GrantOptions): boolean {
    checkKeys("grant options", options, ["by", "agentPath"]);
    const { by, agentPath } = options;
    const grant = copyGrant("grant", { budget, by });
    const node = findNodeAt(this.#live.run, agentPath);
    if (this.#live.isOver) return false;
    this.#live.recordOnceBegun(this.#live.run.grantBudget(node, grant));
    return true;
  }

  async release(options: { readonly graceMs?: number } = {}): Promise<boolean> {
    checkKeys("release options", options, ["graceMs"]);
    const { journal, limiter, settings } = this.#live.run;
    const { graceMs = settings.graceMs } = options;
    checkAmount("graceMs", graceMs, adviseDefault(settings.graceMs));
    if (journal === undefined)
      throw createUnstoredError(
        "A released run would be lost. Give the orchestrator a store, or pause the run.",
      );
    if (this.#leaving !== undefined) return await this.#leaving.left;
    if (!journal.writer.suspend()) return false;
    this.settled.catch(() => undefined); // The caller of release() knows why the run has no result, so a rejection counts as handled.
    limiter.pause();
    const takenUp = new CancelSignal();
    const leaving = { takenUp, left: this.#leave(journal, graceMs, takenUp) };
    this.#leaving = leaving;
    try {
      return await leaving.left;
    } finally {
      if (this.#leaving === leaving) this.#leaving = undefined;
    }
  }

  async #leave(journal: RunJournal, graceMs: number, takenUp: CancelSignal): Promise<boolean> {
    const over = new CancelSignal();
    const finish = (): void => over.abort("nothing is under way");
    void journal.whenIdle().then(finish);
    const forget = takenUp.onAbort(finish);
    await sleep(this.#live.run.settings.clock, graceMs, over);
    forget();
    if (takenUp.aborted) return false;
    const isLeft = await journal.writer.releaseRun(createRunLeftError(this.runId));
    await this.settled.catch(() => undefined);
    return isLeft;
  }

  /**
   * Continues a run here that is being released. Returns `false` if it has settled or was released.
   */
  cancelRelease(): boolean {
    const { isOver, run } = this.#live;
    if (isOver) return false;
    if (this.#leaving === undefined) return true;
    if (run.journal?.writer.resume() !== true) return false;
    run.limiter.resume();
    this.#leaving.takenUp.abort("taken up again");
    this.#leaving = undefined; // The run may be released again in the same tick.
    return true;
  }

  /** Returns true if the run was started with this role and task. Throws for an invalid task. */
  isStartedBy(role: string, content: MessageContent): boolean {
    const { root } = this.#live;
    const task = copyContent("task", content);
    return root.role.name === role && sameJson(root.facts.task, task);
  }

  snapshot(): PausedRun {
    const { run, isOver, prepared } = this.#live;
    if (run.journal?.hasGivenUp === true)
      throw createNotOwnedError(this.runId, this.#end?.failure?.cause);
    if (isOver) {
      const pausedRun = createPausedRun(run, prepared);
      return run.settings.signer?.sign(pausedRun) ?? pausedRun;
    }
    throw new EspalierError({
      code: "invalid_state",
      message:
        "Cannot take a snapshot while the run is active. Await run.settled, or pause the run first.",
    });
  }

  #findNode(agentId: AgentId): AgentRuntime {
    return findNode(this.#live.run, agentId);
  }

  /** Runs the tree until it settles. Resolves earlier if only detached agents still work. */
  async #lead(): Promise<JsonRunResult> {
    const live = this.#live;
    await live.runRoot();
    if (!live.root.hasEnded || !live.run.tree.hasDetached) return await this.#conclude();
    this.#stepper?.end();
    const ending = settleDetached(live.run).then(() => this.#conclude());
    this.#tail = this.#closeOnFailure(ending);
    return createResult(live.run);
  }

  /** Returns the result once the end of the run is persisted. A paused run may continue instead. */
  async #conclude(): Promise<JsonRunResult> {
    const { run } = this.#live;
    const result = await this.#live.conclude();
    const { mismatch, pauseSignal } = run;
    if (result.status === "paused" && !pauseSignal.aborted && mismatch === undefined) {
      const prepared = await this.#findContinuation();
      if (prepared !== undefined) return await this.#continueWith(prepared);
    }
    this.#close(mismatch && { cause: mismatch });
    if (mismatch !== undefined) throw mismatch;
    return result;
  }

  /** Returns the parts with which the paused run continues, if its mail requests that. */
  async #findContinuation(): Promise<PreparedRun | undefined> {
    for (;;) {
      this.#hasNewMail = false;
      const prepared = await this.prepareContinuation?.();
      if (prepared !== undefined || !this.#hasNewMail) return prepared;
    }
  }

  /** Continues after a pause. Readers of this handle keep reading. */
  async #continueWith(prepared: PreparedRun): Promise<JsonRunResult> {
    this.#live = new LiveRun(prepared, this);
    this.#iterators?.follow(this.#live.run);
    if (this.#stepper !== undefined) this.#stepWith(this.#stepper);
    const led = this.#closeOnFailure(this.#lead());
    const requests = this.#requests;
    this.#requests = NONE;
    for (const request of requests) request();
    return await led;
  }

  /**
   * Returns the given result. If it rejects, closes the handle with that failure. If the journal
   * breaks, the run stops at once, as if its process had crashed (D6).
   */
  #closeOnFailure(result: Promise<JsonRunResult>): Promise<JsonRunResult> {
    const live = this.#live;
    const { journal } = live.run;
    const stored = journal === undefined ? result : Promise.race([result, journal.writer.broken]);
    return stored.catch((cause: unknown) => {
      if (this.#end === undefined) live.abandon();
      this.#close({ cause });
      throw cause;
    });
  }

  /**
   * Releases the session and all readers of the run. The readers receive `failure`, if the run has
   * no result.
   */
  #close(failure: FeedFailure | undefined): void {
    if (this.#end !== undefined) return;
    this.#end = { failure };
    for (const handle of this.#overHandlers) handle();
    // A caller that iterates gets the failure there. Without one, it is an unhandled rejection,
    // which Node reports.
    if (
      failure !== undefined &&
      (this.#stepper !== undefined || this.#iterators?.areThere === true)
    ) {
      for (const outcome of [this.result, this.#tail]) outcome?.catch(() => undefined);
    }
    this.#stepper?.end(failure);
    this.#iterators?.end(failure);
  }
}
