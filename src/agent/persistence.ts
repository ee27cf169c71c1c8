// The port that persists the effects of an agent. Each outcome is saved before it is used (D1), and
// a saved outcome is returned instead of repeating the effect (D2). Agents of a run without a store
// have no persistence.

import type { StopSignal } from "../protocol/stop.ts";
import type { OwnCall } from "../tools/bind-call.ts";
import type { Lease, LeaseOutcome } from "../budget/lease.ts";
import type { EffectPosition } from "./agent-identity.ts";
import type { AgentState } from "./agent-state.ts";
import type { CallEnd, InferOutcome } from "./effect-outcomes.ts";
import type { InFlightWork } from "./in-flight-work.ts";
import type { Phase } from "./phase-report.ts";
import type { Permission } from "./tool-calls/call-outcome.ts";

/**
 * A call of a reply by its position. Implementations receive a `CallInProgress`, which this file
 * cannot import without a cycle.
 */
interface CallOfReply {
  readonly stepNumber: number;
  readonly index: number;
}

export interface Persistence {
  // Effects. Each returns its saved outcome, or does the work and saves the outcome.

  /** Reserves the lease of a model call. */
  requestCallLease(
    position: EffectPosition,
    work: () => Promise<LeaseOutcome>,
  ): Promise<LeaseOutcome>;
  /** Makes a model call. */
  infer(
    position: EffectPosition,
    lease: Lease,
    work: () => Promise<InferOutcome>,
  ): Promise<InferOutcome>;
  /**
   * Called before each attempt of a model call is sent, once the attempt has its slot. Resolves
   * when the attempt may be sent.
   */
  prepareSend(): Promise<void>;
  /** Runs a tool call. */
  callTool(call: CallOfReply): Promise<CallEnd>;
  /** Requests the permission of a tool call. */
  authorize(call: CallOfReply, bound: OwnCall): Permission | Promise<Permission>;
  /** Called before a function begins. The function waits for the promise, if there is one. */
  begin(call: CallOfReply, tool: OwnCall["tool"]): Promise<void> | undefined;
  /** Runs user code, again whenever its phase is repeated. */
  consult<T>(work: () => Promise<T>): Promise<T>;

  // Recovered work

  /**
   * Work that the agent had begun when its process died. `undefined` once the state contains the
   * work.
   */
  readonly inFlight: InFlightWork | undefined;
  /** Ends subagents that calls had started before a crash and that no repeated call has adopted. */
  dismissOrphans(): Promise<unknown> | undefined;
  /** Returns the stop requests that the agent's log does not contain yet. */
  filterUnlogged(requests: readonly StopSignal[]): readonly StopSignal[];

  // Notifications

  /** Called with a stop request that the agent's own code raised. */
  onStopRequested(signal: StopSignal): void;
  /** Called before a model call. The step that it opens will be completed in any case. */
  onStepOpened(state: AgentState): void;
  /** Called with the state after a phase. */
  onPhaseEnd(phase: Phase, state: AgentState): void;
  /**
   * Called when the agent's deadline has passed. Returns false in a replay, in which the recorded
   * deadline ends the agent instead of the clock.
   */
  onDeadline(deadlineAtMs: number): boolean;
  /**
   * Resolves once this process owns the run, before which no effect begins. `undefined` if it
   * already does.
   */
  whenOwned(): Promise<void> | undefined;
  /** Resolves once everything that has happened so far is persisted. */
  whenPersisted(): Promise<void>;
}
