// LiveRun: a run that this process leads. Owns the one driver of the root's phases: it runs freely, or step by step
// with the caller that iterates. `result` is that iteration drained (R1); there is no second way through the loop.

import { checkAmount, checkKeys, checkText, defaultAdvice } from "../../kernel/check.ts";
import { CancelSignal, onAbort, sleep } from "../../kernel/cancel.ts";
import { EspalierError } from "../../kernel/error.ts";
import { defined, sameJson, type JsonValue } from "../../kernel/json.ts";
import type { PhaseReport } from "../../agent/phase-report.ts";
import { EVENT_SCHEMA_VERSION } from "../../protocol/event-bodies.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import { checkedContent, type MessageContent } from "../../protocol/message-content.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import type { StreamPiece } from "../../protocol/stream-piece.ts";
import type { Delivery } from "../../agent/mailbox.ts";
import type { Budget } from "../../policies/budget.ts";
import { copyGrant } from "../budget/ledger-grant.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import { type FeedFailure, Stepper } from "./feed.ts";
import { nodeOf, RunReaders } from "./run-readers.ts";
import type { PausedRun } from "../durability/paused-run.ts";
import { MailReader } from "./mail-reader.ts";
import { notKeptAnywhere, notOwned, RunError, runLeft, whyAborted } from "./run-error.ts";
import type { EventsOptions, GrantOptions, LeaveOptions, PiecesOptions, Run } from "./run.ts";
import type { RunResult } from "./run-result.ts";
import { scopeOutsideExecutions } from "../tree/run-runtime.ts";
import type { RunOrigin, StartFacts } from "../../run-services/run-ids.ts";
import type { Supervisor } from "../tree/supervisor.ts";
import { recordRunEnd, recordRunPause, lateEnds, resultOf } from "./conclude.ts";
import { pausedRunOf, type PausesBefore } from "./pause-run.ts";
import { RunSlot } from "./run-slot.ts";

/** How a run begins, or continues. */
export interface RunBeginning extends PausesBefore {
  /** The parts of its first event that are not the same for every run. */
  readonly origin: RunOrigin;
  /** The store may refuse it: it waits until the store has accepted it. */
  readonly isRefusable: boolean;
  /** Does what has to be done before the first event. */
  readonly beforeFirstEvent?: () => void;
  /** Records what follows the first event, before any agent continues. */
  readonly afterFirstEvent?: () => void;
  /** What has come by mail before, and which of it is settled. */
  readonly mail?: Readonly<Parameters<MailReader["handle"]>> | undefined;
}

/** What a run is led with, from its beginning or from where it continues. */
export interface LedParts {
  readonly supervisor: Supervisor;
  readonly root: AgentRuntime;
  readonly beginning: RunBeginning;
}

const NONE: readonly never[] = Object.freeze([]);

/** A run that this process leads. */
export class LiveRun implements Run {
  readonly runId: RunId;
  readonly sessionId: string | undefined;
  readonly result: Promise<RunResult<JsonValue>>;
  /** Those of its order that wait for it: it is left with the last of them. Undefined: it was started by none. */
  executions: Set<object> | undefined;
  /** Undefined: it is kept nowhere. */
  mail: MailReader | undefined;
  #supervisor: Supervisor;
  #root: AgentRuntime;
  #beginning: RunBeginning;
  /** Undefined: the phases run freely. */
  #stepper: Stepper | undefined;
  /** Agents that were continued once more at the end, since they had to end. */
  #late: readonly AgentRuntime[] = NONE;
  /** Undefined: nobody has read of it. */
  #readers: RunReaders | undefined;
  /** Gives what it continues with, if it is paused and mail has come meanwhile. */
  #onPause: (() => Promise<LedParts | undefined>) | undefined;
  /** What was requested of it at rest: done if the run continues. */
  #requests: readonly (() => void)[] = NONE;
  #hasBegun = false;
  /** It rests, or broke off. */
  #isOver = false;
  /** Readers and the session were released. */
  #isClosed = false;
  /** Why it has no result. */
  #failure: FeedFailure | undefined;
  /** The end of a run whose result was given before detached agents had ended. */
  #tail: Promise<RunResult<JsonValue>> | undefined;
  #settled: Promise<RunResult<JsonValue>> | undefined;
  /** Records what was granted before the run began. */
  #early: readonly (() => void)[] = NONE;
  /** It is being given up: `cancel` takes that back. */
  #leaving: { readonly cancel: () => void; readonly left: Promise<boolean> } | undefined;
  /** `undefined` if the number of concurrent runs is not limited. */
  #slot: RunSlot | undefined;
  /** Called once the run rests, or broke off: see `whenOver`. */
  #overHandlers: readonly (() => void)[] = NONE;

  constructor(parts: LedParts) {
    const { run } = parts.supervisor;
    this.runId = run.runId;
    this.sessionId = run.session?.ref.sessionId;
    this.#supervisor = parts.supervisor;
    this.#root = parts.root;
    this.#beginning = parts.beginning;
    this.mail = run.journal && new MailReader(this, run, run.journal);
    this.result = this.#closeOnFailure(this.#drive());
  }

  /** Calls `ask` whenever the run is paused, for what it continues with. Undefined: it stays paused. */
  whenPaused(ask: () => Promise<LedParts | undefined>): void {
    this.#onPause = ask;
  }

  get settled(): Promise<RunResult<JsonValue>> {
    // Made when it is asked for: a caller that reads only `result` gets an error there, and nowhere else.
    return (this.#settled ??= this.result.then((result) => this.#tail ?? result));
  }

  async orThrow(): Promise<RunResult<JsonValue>> {
    const result = await this.result;
    if (result.status === "completed") return result;
    throw new RunError(result, result.status);
  }

  async kept(): Promise<void> {
    const { journal } = this.#supervisor.run;
    if (journal === undefined) throw notKeptAnywhere("Give the orchestrator a store.");
    try {
      await Promise.race([journal.writer.kept(), journal.writer.broken]);
    } catch (cause) {
      this.result.catch(() => undefined); // A caller that waits for this knows why there is no result.
      throw cause;
    }
  }

  events(options: EventsOptions = {}): AsyncIterableIterator<EspalierEvent, undefined> {
    return this.#openReaders.events(options);
  }

  pieces(options: PiecesOptions = {}): AsyncIterableIterator<StreamPiece, undefined> {
    return this.#openReaders.pieces(options);
  }

  get #openReaders(): RunReaders {
    const end = this.#isClosed ? { failure: this.#failure } : undefined;
    return (this.#readers ??= new RunReaders(this.#supervisor.run, end));
  }

  iterate(): AsyncIterableIterator<PhaseReport, undefined> {
    if (this.#stepper !== undefined) {
      throw new EspalierError({
        code: "already_iterating",
        message:
          "Expected one iterate() per run, got a second. Share the first iterator, or listen to events().",
      });
    }
    const stepper = new Stepper(() => this.cancel("The caller broke off the iteration."));
    this.#stepper = stepper;
    this.#stepWith(stepper);
    if (this.#isClosed || this.#tail !== undefined) stepper.end(this.#failure);
    return stepper;
  }

  #stepWith(stepper: Stepper): void {
    const root = this.#root;
    root.stepper = stepper;
    // An iteration that is not asked for its next phase must not hold up a cancellation or a deadline.
    if (root.signal.aborted) stepper.open();
    else root.signal.onAbort(() => stepper.open());
  }

  async cancel(message = "The caller cancelled the run."): Promise<RunResult<JsonValue>> {
    checkText("message", message);
    this.#ask(() => this.#cancelNode(this.#root, message));
    return await this.settled;
  }

  cancelAgent(agentId: AgentId, message = "The caller cancelled the agent."): void {
    checkText("message", message);
    this.#node(agentId); // Throws at once for one that is not there.
    this.#ask(() => this.#cancelNode(this.#node(agentId), message));
  }

  /** Cancels the run when the signal is aborted, or at once if it is. */
  cancelWith(signal: AbortSignal): void {
    const cancel = (): void => this.#ask(() => this.#cancelNode(this.#root, whyAborted(signal)));
    if (signal.aborted) cancel();
    else this.whenOver(onAbort(signal, cancel));
  }

  /** Calls `handle` once the run rests, or broke off: before its result is there. */
  whenOver(handle: () => void): void {
    this.#overHandlers = this.#overHandlers.concat(handle);
  }

  /** Has something done at once, or, of a run at rest, as soon as it continues: until then its journal takes nothing. */
  #ask(request: () => void): void {
    if (this.#isOver) this.#requests = [...this.#requests, request];
    else request();
  }

  #cancelNode(node: AgentRuntime, message: string): void {
    const { agentId } = node.identity;
    this.#supervisor.run.journal?.append({ type: "cancel", agentId, message });
    node.cancel(message);
  }

  requestPause(): void {
    this.#ask(() => {
      const { pauseSignal, journal } = this.#supervisor.run;
      if (this.#root.hasEnded) return;
      journal?.append({ type: "pause" });
      pauseSignal.abort(undefined);
    });
  }

  steer(
    message: MessageContent,
    agentId: AgentId = this.#root.identity.agentId,
  ): Promise<Delivery> {
    const text = checkedContent("message", message);
    const mailbox = this.#node(agentId).openMailbox();
    if (!mailbox.isClosed) this.#supervisor.run.journal?.append({ type: "letter", agentId, text });
    return mailbox.write(text);
  }

  skipToolCalls(reason = "The caller left it out."): void {
    checkText("reason", reason);
    this.#ask(() => {
      this.#supervisor.run.journal?.append({ type: "skip", message: reason });
      this.#root.openMailbox().skip(reason);
    });
  }

  requestStop(message = "The caller asked the run to stop."): void {
    checkText("message", message);
    const reason = { code: "stop_requested", message, data: {} };
    const signal = { source: "caller", reason } as const;
    this.#ask(() => {
      this.#supervisor.run.journal?.append({ type: "stop", signal });
      this.#supervisor.run.tree.stop(signal);
    });
  }

  grant(budget: Budget, options: GrantOptions): boolean {
    checkKeys("grant options", options, ["by", "agentId"]);
    const { by, agentId = this.#root.identity.agentId } = options;
    const given = copyGrant("grant", { budget, by });
    const node = this.#node(agentId);
    if (this.#isOver) return false;
    const record = this.#supervisor.run.grantBudget(node, given);
    if (this.#hasBegun) record();
    else this.#early = [...this.#early, record];
    return true;
  }

  async leave(options: LeaveOptions = {}): Promise<boolean> {
    checkKeys("leave options", options, ["graceMs"]);
    const { run } = this.#supervisor;
    const { graceMs = run.settings.graceMs } = options;
    checkAmount("graceMs", graceMs, defaultAdvice(run.settings.graceMs));
    const { journal } = run;
    if (journal === undefined)
      throw notKeptAnywhere(
        "Given up, it would be gone: give the orchestrator a store, or pause the run.",
      );
    if (this.#leaving !== undefined) return await this.#leaving.left;
    if (!journal.writer.hold()) return false;
    this.settled.catch(() => undefined); // The caller that gives a run up knows why it has no result.
    run.limiter.hold();
    const controller = new CancelSignal();
    const left = this.#leave(journal, graceMs, controller).finally(
      () => (this.#leaving = undefined),
    );
    this.#leaving = { cancel: () => controller.abort("taken up again"), left };
    return await left;
  }

  async #leave(journal: RunJournal, graceMs: number, takenUp: CancelSignal): Promise<boolean> {
    const { clock } = this.#supervisor.run.settings;
    const over = new CancelSignal();
    const done = (): void => over.abort("nothing is under way");
    void journal.whenIdle().then(done);
    const forget = takenUp.onAbort(done);
    await sleep(clock, graceMs, over);
    forget();
    if (takenUp.aborted) return false;
    const isLeft = await journal.writer.giveUp(runLeft(this.runId));
    await this.settled.catch(() => undefined);
    return isLeft;
  }

  /** Lets a run that is being given up continue here after all. False: it is over, or given up. */
  takeUp(): boolean {
    if (this.#isOver) return false;
    if (this.#leaving === undefined) return true;
    if (this.#supervisor.run.journal?.writer.resume() !== true) return false;
    this.#supervisor.run.limiter.resume();
    this.#leaving.cancel();
    return true;
  }

  /** Whether it was started with this role and task. */
  isOf(role: string, task: MessageContent): boolean {
    return this.#root.role.name === role && sameJson(this.#root.taskContent, task);
  }

  snapshot(): PausedRun {
    const { run } = this.#supervisor;
    if (run.journal?.hasGivenUp === true) throw notOwned(this.runId, this.#failure?.cause);
    if (this.#isOver) {
      const pausedRun = pausedRunOf(run, this.#beginning);
      return run.settings.signer?.sign(pausedRun) ?? pausedRun;
    }
    throw new EspalierError({
      code: "invalid_state",
      message:
        "Expected a run at rest, got one that goes on. Await run.settled, or pause the run first.",
    });
  }

  #node(agentId: AgentId): AgentRuntime {
    return nodeOf(this.#supervisor.run, agentId);
  }

  async #drive(): Promise<RunResult<JsonValue>> {
    const { runSlots } = this.#supervisor.run.settings;
    if (runSlots !== undefined)
      this.#slot = new RunSlot(runSlots, this.#supervisor.run, this.#root);
    await Promise.resolve(); // The caller may subscribe, or take over by iterate(), in the tick of start().
    const turn = this.#supervisor.run.settings.throttle.turn();
    if (turn !== undefined) await turn;
    const { journal } = this.#supervisor.run;
    const claiming = this.#beginning.isRefusable ? journal?.writer.claimed() : undefined;
    if (claiming !== undefined) await claiming; // A run that the store refuses records nothing.
    if (this.#slot !== undefined) await this.#slot.admitted;
    if (this.#isClosed) await journal?.writer.broken; // It was given up before.
    this.#begin();
    const root = this.#root;
    const { tree, session } = this.#supervisor.run;
    while (!root.hasEnded) {
      await this.#stepper?.pass();
      await this.#supervisor.runUntilSettled(root);
      if (!root.hasEnded && !(await this.#continueLate())) break;
    }
    if (session !== undefined) {
      // What the root has added, once its end is kept; a paused one releases the session.
      await journal?.writer.kept();
      await session.keep(root, root.account.usage().total);
    }
    if (!root.hasEnded || !tree.hasDetached) return await this.#conclude();
    this.#stepper?.end();
    const ending = this.#supervisor.settleDetached().then(() => this.#conclude());
    this.#tail = this.#closeOnFailure(ending);
    return resultOf(this.#supervisor.run);
  }

  #begin(): void {
    const { origin, beforeFirstEvent, afterFirstEvent, mail } = this.#beginning;
    const { run } = this.#supervisor;
    const { recorder, tree } = run;
    beforeFirstEvent?.();
    const root = this.#root;
    const facts = (): StartFacts => ({
      schemaVersion: EVENT_SCHEMA_VERSION,
      role: root.role.name,
      task: root.task,
      limits: tree.limits,
      budget: root.account.remaining(),
      ...defined({ sessionId: run.session?.ref.sessionId, queuedMs: this.#slot?.queuedMs }),
    });
    recorder.begin(scopeOutsideExecutions(root), origin, facts);
    afterFirstEvent?.();
    this.#hasBegun = true;
    this.mail?.start();
    for (const record of this.#early) record();
    if (mail !== undefined) this.mail?.handle(...mail);
  }

  /**
   * The root is paused. Before the run can be, agents that were asked to end meanwhile have to, and detached agents settle.
   * True: the root is to be run once more.
   */
  async #continueLate(): Promise<boolean> {
    if (this.#reactivateLate()) return true;
    if (!this.#supervisor.run.tree.hasDetached) return false;
    await this.#supervisor.run.tree.detachedSettled();
    return this.#reactivateLate();
  }

  /**
   * Finds paused agents that have to end, each once, and continues the detached ones among and above
   * them. Returns true if there was one.
   */
  #reactivateLate(): boolean {
    const late = lateEnds(this.#supervisor.run.tree).filter((agent) => !this.#late.includes(agent));
    if (late.length === 0) return false;
    this.#late = [...this.#late, ...late];
    this.#supervisor.reactivateDetached(late);
    return true;
  }

  /**
   * Returns the result of a drive. If the drive fails, closes the handle with that failure. If the
   * journal breaks, the run stops where it is, as if its process had died (D6).
   */
  #closeOnFailure(result: Promise<RunResult<JsonValue>>): Promise<RunResult<JsonValue>> {
    const { journal } = this.#supervisor.run;
    const stored = journal === undefined ? result : Promise.race([result, journal.writer.broken]);
    return stored.catch((cause: unknown) => {
      if (journal !== undefined && !this.#isClosed) this.#abandon(journal);
      this.#close({ cause });
      throw cause;
    });
  }

  #abandon(journal: RunJournal): void {
    const { tree, recorder } = this.#supervisor.run;
    journal.writer.abandon();
    this.#root.cancel("The run cannot be kept any more.");
    for (const node of tree.nodes) {
      node.close();
      node.openMailbox().close("cancelled"); // Nothing is read any more: the senders learn so.
    }
    recorder.leave(scopeOutsideExecutions(this.#root));
  }

  /** Gives the result once the end of the run is kept. */
  async #conclude(): Promise<RunResult<JsonValue>> {
    this.#isOver = true; // Before its last event: nothing is granted after it.
    this.mail?.stop(); // Nor handled: what comes from now on leaves a paused run open.
    const { run } = this.#supervisor;
    const result = this.#root.hasEnded
      ? recordRunEnd(run, this.#root)
      : recordRunPause(run, this.#root, this.#beginning);
    const { journal, mismatch } = run;
    await journal?.writer.close(result.status === "paused" ? "paused" : "ended");
    this.#slot?.release();
    if (result.status === "paused" && !run.pauseSignal.aborted && mismatch === undefined) {
      const parts = await this.#onPause?.();
      if (parts !== undefined) return await this.#continueWith(parts);
    }
    this.#close(mismatch === undefined ? undefined : { cause: mismatch });
    if (mismatch !== undefined) throw mismatch;
    return result;
  }

  /** Continues after a pause, as if by another handle: readers of this one keep reading. */
  async #continueWith({ supervisor, root, beginning }: LedParts): Promise<RunResult<JsonValue>> {
    this.#supervisor = supervisor;
    this.#root = root;
    this.#beginning = beginning;
    const { run } = supervisor;
    this.mail = run.journal && new MailReader(this, run, run.journal);
    this.#early = NONE;
    this.#late = NONE;
    this.#hasBegun = false;
    this.#isOver = false;
    this.#readers?.follow(run);
    if (this.#stepper !== undefined) this.#stepWith(this.#stepper);
    const driven = this.#closeOnFailure(this.#drive());
    const requests = this.#requests;
    this.#requests = NONE;
    for (const request of requests) request();
    return await driven;
  }

  /** Releases the session and all readers of the run. `failure`: why it has no result; then they have to know. */
  #close(failure: FeedFailure | undefined): void {
    if (this.#isClosed) return;
    this.#isOver = true;
    this.#isClosed = true;
    this.#failure = failure;
    this.#slot?.release();
    this.#supervisor.run.session?.release();
    this.mail?.stop();
    for (const handle of this.#overHandlers) handle();
    // A caller that iterates has the failure from there. Without one, it is a rejection that nothing handles, and Node says so.
    if (
      failure !== undefined &&
      (this.#stepper !== undefined || this.#readers?.areThere === true)
    ) {
      for (const outcome of [this.result, this.#tail]) outcome?.catch(() => undefined);
    }
    this.#stepper?.end(failure);
    this.#readers?.end(failure);
  }
}
