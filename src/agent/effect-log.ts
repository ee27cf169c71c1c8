// The port through which an execution keeps what its effects come to, and learns what they came to before its process died.

import type { LeaseOutcome } from "./budget-gate.ts";
import type { CallId, LeaseId } from "../protocol/ids.ts";

export interface EffectLog {
  /** What an effect of this name came to; undefined: it is not known. Given once. */
  outcome(name: string): unknown;
  /** Resolves once the outcome is kept, so that it may be acted upon (D1). `outcome`: plain JSON. `leaseId`: of a model call. */
  keep(name: string, outcome: object, leaseId?: LeaseId): Promise<void>;
  /** Resolves once all that has happened so far is kept. */
  kept(): Promise<void>;
  /** Resolves once the store has given this process the run: nothing is done to the world before. Undefined: it has. */
  claimed(): Promise<void> | undefined;
  /** True if a call that must not be repeated had begun before the process died, and nobody knows its end. Given once. */
  hadBegun(name: string): boolean;
  /** A call that must not be repeated is to begin. Resolves once that is kept. */
  begin(name: string): Promise<void>;
  /** The lease of the model call of this name, if that has ended; undefined: it has not. Given once. */
  lease(name: string): Extract<LeaseOutcome, { readonly type: "granted" }> | undefined;
  /** True if a call had started subagents that wait to be taken in again. Null: a subtask. `nth`: which of them; left out, any. */
  hasChildOf(callId: CallId | null, nth?: number): boolean;
}
