// What came of asking whether a call may run.

import type { ErrorRecord } from "../../protocol/stop.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import type { RejectedCall } from "../../tools/rejected-call.ts";
import type { CallEnd } from "../effects.ts";
import type { FailedOutcome } from "./call-outcome.ts";

export type Permission =
  | { readonly type: "granted"; readonly bound: OwnCall }
  | Refused
  /** It cannot run now: no question was asked about it. */
  | { readonly type: "impossible"; readonly outcome: FailedOutcome }
  /** A delegation that has started subagents already: they are adopted. */
  | { readonly type: "adopted"; readonly bound: Extract<OwnCall, { readonly type: "delegation" }> }
  | { readonly type: "cancelled" }
  | Deferred;

export type Deferred = Extract<CallEnd, { readonly type: "deferred" }>;

export interface Refused {
  readonly type: "refused";
  readonly rejected: RejectedCall;
  /** Set when a hook broke. */
  readonly failure?: ErrorRecord;
}
