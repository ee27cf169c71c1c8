// AgentEffects: what an agent does to the world, what it records and what it receives, as if nothing could happen to its process. Where the run
// is kept a subclass stands in its place: it keeps what effects result in before that is acted upon, and gives what it has kept instead of
// doing something twice (D1, D2). It alone knows what was kept: the loop and its phases do the same in any case.

import type { CancelSignal } from "../kernel/cancel.ts";
import type { EventBody, EventScope, EventType } from "../protocol/event.ts";
import type { AgentId, CallId } from "../protocol/ids.ts";
import type { StopSignal } from "../protocol/stop.ts";
import type { ModelUsage, Usage } from "../protocol/usage.ts";
import type { OwnCall } from "../tools/bind-call.ts";
import type { AccountView, BudgetRefusal, Lease, LeaseOutcome } from "./account-view.ts";
import type { AgentIdentity, EffectPosition, EventPosition } from "./agent-identity.ts";
import type { AgentState } from "./agent-state.ts";
import type { CallEnd, InferOutcome, PlannedCall } from "./effects.ts";
import type { Phase } from "./phase-report.ts";
import type { PhaseStepper, Recorder } from "./run-ports.ts";
import type { Permission } from "./tool-calls/call-outcome.ts";

/** How a call gets its permission: asked for, or looked at once more with the arguments that were allowed before. */
export interface Asking {
  readonly ask: () => Permission | Promise<Permission>;
  readonly askAgain: (bound: OwnCall) => Promise<Permission>;
}

/** What a call has done to a subagent of the agent. */
export interface ChildOperation {
  readonly callId: CallId;
  readonly childId: AgentId;
  /** What it wrote; undefined: it cancelled it. */
  readonly text?: string;
}

/** The agent whose effects they are, as far as it matters here. */
export interface EffectiveAgent {
  readonly identity: AgentIdentity;
  readonly account: AccountView;
  readonly signal: CancelSignal;
  readonly stopRequests: readonly StopSignal[];
  readonly stepper: PhaseStepper | undefined;
  readonly run: {
    readonly recorder: Recorder;
    readonly pauseSignal: CancelSignal;
    count(agentId: AgentId, body: EventBody): void;
  };
  scope(at?: EventPosition): EventScope;
  takeStopRequests(): readonly StopSignal[];
}

export class AgentEffects<Agent extends EffectiveAgent = EffectiveAgent> {
  protected readonly agent: Agent;

  constructor(agent: Agent) {
    this.agent = agent;
  }

  // Model calls

  /** The lease of a model call. */
  reserve(_position: EffectPosition, work: () => Promise<LeaseOutcome>): Promise<LeaseOutcome> {
    return work();
  }

  infer(
    _position: EffectPosition,
    _lease: Lease,
    work: () => Promise<InferOutcome>,
  ): Promise<InferOutcome> {
    return work();
  }

  /**
   * Called before each attempt of a model call is sent, once the attempt has its slot. Returns a promise
   * that resolves when the attempt may be sent, or `undefined` if it may be sent at once.
   */
  sending(): Promise<void> | undefined {
    return undefined;
  }

  /** Books what a model call used. `otherModels`: the part of it that other models than the agent's first used. */
  settle(lease: Lease, usage: Usage, otherModels?: readonly ModelUsage[]): void {
    this.agent.account.settle(lease, usage, otherModels);
  }

  // Tool calls

  /** `work` makes the given call: this one, or one in its place. */
  callTool(
    _position: EffectPosition,
    call: PlannedCall,
    work: (call: PlannedCall) => Promise<CallEnd>,
  ): Promise<CallEnd> {
    return work(call);
  }

  /** Books one tool call, or says which limit forbids it. */
  chargeToolCall(): BudgetRefusal | undefined {
    return this.agent.account.chargeToolCall();
  }

  authorize(
    _position: EffectPosition,
    _call: PlannedCall,
    _bound: OwnCall,
    { ask }: Asking,
  ): Permission | Promise<Permission> {
    return ask();
  }

  /** Called before a function begins, which waits for the promise, if there is one. */
  begin(
    _position: EffectPosition,
    _call: PlannedCall,
    _tool: OwnCall["tool"],
  ): Promise<void> | undefined {
    return undefined;
  }

  /** Code of the user's, which is run whenever its phase is. */
  consult<T>(work: () => Promise<T>): Promise<T> {
    return work();
  }

  // Subagents

  /** The task of a subagent that is to start, as hooks change it. */
  taskOf(
    _callId: CallId | null,
    _nth: number,
    _task: string,
    work: () => Promise<string>,
  ): Promise<string> {
    return work();
  }

  /** True if a call can start nothing further. `callId`: null for a subtask. */
  isTooLate(signal: { readonly aborted: boolean }, _callId: CallId | null): boolean {
    return signal.aborted;
  }

  /** The subagent that a call has started, or continued, as its `nth`, and that it is not to start again. */
  adopt(_callId: CallId | null, _nth: number): AgentId | undefined {
    return undefined;
  }

  /** True if a call has done this already. */
  wasDone(_operation: ChildOperation): boolean {
    return false;
  }

  /** True if a call has given the agent the result of this subagent, and its end is not in the state. */
  hasReported(_childId: AgentId): boolean {
    return false;
  }

  /** Ends subagents that calls had started, and that none of them has adopted: no call waits for them (T2). */
  dismissOrphans(): Promise<void> | undefined {
    return undefined;
  }

  // What is asked of the agent

  /** True once the agent must end: nothing further is worth beginning. */
  get isEnding(): boolean {
    return this.agent.signal.aborted;
  }

  /** True if the run is to pause. */
  get isPausing(): boolean {
    return this.agent.run.pauseSignal.aborted;
  }

  /** True if a stop request waits to be handled. */
  get isStopping(): boolean {
    return this.agent.stopRequests.length > 0;
  }

  takeStopRequests(): readonly StopSignal[] {
    return this.agent.takeStopRequests();
  }

  /** The limit that is used up, if the reply of the step asks for more. */
  exhausted(): BudgetRefusal | undefined {
    return this.agent.account.exhausted();
  }

  // What is recorded and kept

  /** Records what has happened in a phase, and has the run count it: once, though the phase be done again (E3). */
  record(body: EventBody, at?: EventPosition): void {
    const { agent } = this;
    agent.run.count(agent.identity.agentId, body);
    agent.run.recorder.record(agent.scope(at), body);
  }

  /** The same for an event that few read: `make` is called only if something does. */
  note(type: EventType, make: () => EventBody, at?: EventPosition): void {
    const { recorder } = this.agent.run;
    if (recorder.isHeard(type)) this.record(make(), at);
    else recorder.passOver();
  }

  /** A stop request of the agent's own. */
  requested(_signal: StopSignal): void {}

  /** A model call is to be made: the step that it opens is completed at some time, whatever happens (L4). */
  stepOpened(_state: AgentState): void {}

  /** A phase has ended with this state. Gives a promise if the caller steps through the phases: it resolves once the next one is asked for. */
  phaseOver(phase: Phase, state: AgentState): Promise<void> | undefined {
    return this.agent.stepper?.step({ phase, state });
  }

  /** The agent's time is over. False: a replay, in which the recorded deadline ends it, not the clock. */
  deadlineReached(_deadlineAtMs: number): boolean {
    return true;
  }

  /** Resolves once this process owns the run: no effect begins before. Undefined: it does. */
  claimed(): Promise<void> | undefined {
    return undefined;
  }

  /** Resolves once all that has happened so far is kept. Undefined: nothing is kept. */
  kept(): Promise<void> | undefined {
    return undefined;
  }
}
