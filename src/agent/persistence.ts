// What keeps the effects of an agent where its run is stored: what an effect came to is kept before it is acted
// upon (D1), and what is known is not done again (D2). An agent of a run that is kept nowhere has none.

import type { StopSignal } from "../protocol/stop.ts";
import type { OwnCall } from "../tools/bind-call.ts";
import type { Lease, LeaseOutcome } from "../budget/lease.ts";
import type { EffectPosition } from "./agent-identity.ts";
import type { AgentState } from "./agent-state.ts";
import type { CallEnd, InferOutcome } from "./effects.ts";
import type { InFlightWork } from "./in-flight.ts";
import type { Phase } from "./phase-report.ts";
import type { Permission } from "./tool-calls/call-outcome.ts";

/** A call of a reply by its position. Implementations are given the `CallInProgress`, which knows the agent and so this file. */
interface CallOfReply {
  readonly stepNumber: number;
  readonly index: number;
}

export interface Persistence {
  // Effects: each gives what is known of it, or does the work and keeps what it came to.

  /** The lease of a model call. */
  reserve(position: EffectPosition, work: () => Promise<LeaseOutcome>): Promise<LeaseOutcome>;
  /** A model call. */
  infer(
    position: EffectPosition,
    lease: Lease,
    work: () => Promise<InferOutcome>,
  ): Promise<InferOutcome>;
  /** Called before each attempt of a model call is sent, once the attempt has its slot. Resolves when it may be sent. */
  sending(): Promise<void>;
  /** A tool call. */
  callTool(call: CallOfReply): Promise<CallEnd>;
  /** The permission of a tool call. */
  authorize(call: CallOfReply, bound: OwnCall): Permission | Promise<Permission>;
  /** Called before a function begins, which waits for the promise, if there is one. */
  begin(call: CallOfReply, tool: OwnCall["tool"]): Promise<void> | undefined;
  /** Code of the user's, which is run whenever its phase is. */
  consult<T>(work: () => Promise<T>): Promise<T>;

  // What was done before the process died

  /** What the agent had begun when its process died; `undefined` once that is in its state. */
  readonly inFlight: InFlightWork | undefined;
  /** Ends subagents that calls had started, and that none of them has adopted: no call waits for them. */
  dismissOrphans(): Promise<void> | undefined;
  /** The stop requests that are not in the log of the agent already. */
  unlogged(requests: readonly StopSignal[]): readonly StopSignal[];

  // What happens

  /** A stop request of the agent's own. */
  requested(signal: StopSignal): void;
  /** A model call is to be made: the step that it opens is completed at some time, whatever happens. */
  stepOpened(state: AgentState): void;
  /** A phase has ended with this state. */
  phaseOver(phase: Phase, state: AgentState): void;
  /** The agent's time is over. False: a replay, in which the recorded deadline ends it, not the clock. */
  deadlineReached(deadlineAtMs: number): boolean;
  /** Resolves once this process owns the run: no effect begins before. Undefined: it does. */
  claimed(): Promise<void> | undefined;
  /** Resolves once all that has happened so far is kept. */
  whenPersisted(): Promise<void>;
}
