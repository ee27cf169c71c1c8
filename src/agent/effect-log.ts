// The port through which an execution keeps what its effects come to, and learns what they came to before its process died, or in the
// recording that is replayed.

import type { CallId } from "../protocol/ids.ts";
import type { Lease, LeaseOutcome } from "./account-view.ts";
import type { CallEnd, InferOutcome, PlannedCall } from "./effects.ts";
import type { EffectPosition } from "./agent-identity.ts";

export interface EffectLog {
  /** The lease of a model call. */
  reserve(place: EffectPosition, work: () => Promise<LeaseOutcome>): Promise<LeaseOutcome>;
  /** A model call: once, and what it came to is kept before it is acted upon (D1, D2). */
  infer(
    place: EffectPosition,
    lease: Lease,
    work: () => Promise<InferOutcome>,
  ): Promise<InferOutcome>;
  /** The same for a tool call. `work` makes the call, or the one that is made in its place. */
  callTool(
    place: EffectPosition,
    call: PlannedCall,
    work: (call: PlannedCall) => Promise<CallEnd>,
  ): Promise<CallEnd>;
  /** Code of the user's, which is run again whenever its phase is. */
  consult<T>(work: () => Promise<T>): Promise<T>;
  /** What an effect of this name came to; undefined: it is not known. Given once. */
  outcome(name: string): unknown;
  /** Resolves once the outcome is kept, so that it may be acted upon (D1). `outcome`: plain JSON. */
  keep(name: string, outcome: object): Promise<void>;
  /** Resolves once all that has happened so far is kept. */
  kept(): Promise<void>;
  /** Resolves once the store has given this process the run: nothing is done to the world before. Undefined: it has. */
  claimed(): Promise<void> | undefined;
  /** True if a call that must not be repeated had begun before the process died, and its end is not known. Given once. */
  hadBegun(name: string): boolean;
  /** A call that must not be repeated is to begin. Resolves once that is kept. */
  begin(name: string): Promise<void>;
  /** True if a call had started subagents that are not adopted yet. Null: a subtask. `nth`: which of them; left out, any. */
  hasChildOf(callId: CallId | null, nth?: number): boolean;
}
