// A model call that is paid for, as its attempts are made: turn by turn, each with a slot of its own.

import type { AnySignal } from "../kernel/cancel.ts";
import type { ModelRequest } from "../model/model.ts";
import type { RequestPrefix } from "../model/request-prefix.ts";
import type { BrokenAttempt } from "../model/retry.ts";
import type { Usage } from "../protocol/usage.ts";
import type { EffectPosition, EventPosition } from "./agent-identity.ts";
import type { Lease } from "./account-view.ts";
import type { InferOutcome } from "./effects.ts";

/** A model call that is paid for. */
export interface InferCall {
  readonly place: EffectPosition;
  /** Of its events. */
  readonly position: EventPosition;
  readonly lease: Lease;
  readonly request: ModelRequest;
  readonly isEstimated: boolean;
  readonly prefix: RequestPrefix | undefined;
  /** Which of the calls that hooks made of one it is, from 1. Default 1. */
  readonly number?: number;
  /** It is one of several calls under the lease: what it used is charged when it ends, so that none of them waits for room that it holds. */
  readonly isPart?: true;
  /** Default: those of the agent. */
  readonly signals?: CallSignals;
}

/** What ends a model call, and what keeps it from beginning. */
export interface CallSignals {
  readonly signal: AnySignal;
  readonly stopSignal: AnySignal;
}

/** One turn of a call: its attempts up to one that breaks and has to be paid for once more. */
export interface Turn {
  readonly call: InferCall;
  readonly askedAtMs: number;
  /** What broke in the turn before; undefined: it is the first. */
  readonly after: BrokenAttempt | undefined;
  /** What the turns before were charged. */
  readonly charged: Usage;
}

export type TurnEnd = InferOutcome | (BrokenAttempt & { readonly type: "broken" });
