// What came of a tool call, as a value: a result, or a failure.

import type { TimeSpan } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { SpawnOutcome } from "../../protocol/subagent.ts";
import type { ToolFailureCode } from "../../protocol/tool-failure.ts";
import type { ToolErrorSeverity } from "../../protocol/tool-error-record.ts";
import type { ToolExecution, ToolOutcomeType } from "../../protocol/tool-outcome.ts";
import type { Usage } from "../../protocol/usage.ts";
import type { RefusedSpawn } from "../run-ports.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import type { RejectedCall } from "../../tools/rejected-call.ts";
import type { CallEnd } from "../effects.ts";

/** A part of a text, in UTF-16 code units; `end` is behind it. */
export interface TextRange {
  readonly start: number;
  readonly end: number;
}

/** How a tool call came out, before it is stamped. */
export interface CallOutcome extends Omit<
  ToolExecution,
  "call" | "fullText" | "startedAtMs" | "endedAtMs"
> {
  /** Where in the text of a failure the words of the tool are: they alone are cut, like a result. */
  readonly words?: TextRange | undefined;
  readonly errorCode?: ToolFailureCode;
  /** The name of a typed error that the tool threw. */
  readonly errorName?: string | undefined;
  /** What a delegated subtree consumed. */
  readonly usage?: Usage;
  /** Set when the execution fails with it: a hook broke, or the tool said that nothing is worth continuing. */
  readonly failure?: ErrorRecord;
  /** What the time of its body went into; left out: it was the tool all the time. */
  readonly spans?: readonly TimeSpan[];
}

/** How a call came out that did not succeed. */
export interface FailedOutcome extends CallOutcome {
  readonly type: Exclude<ToolOutcomeType, "succeeded">;
  readonly errorCode: ToolFailureCode;
  readonly severity: ToolErrorSeverity;
  /** Why it was denied, in the words of the person or code that denied it. */
  readonly reason?: string;
  /** The subagent that it does not start. */
  readonly spawn?: RefusedSpawn;
}

/** A delegation whose subagent is paused, with what it queued before. */
export type PausedChild = Extract<SpawnOutcome, { readonly type: "paused" }> &
  Pick<CallOutcome, "subtasks" | "startedIds">;

// What came of asking whether a call may run.

export type Permission =
  | {
      readonly type: "granted";
      readonly bound: OwnCall;
      /** An approver or the caller was asked, and approved this very call. */
      readonly isApproved?: true;
    }
  | Refused
  /** It cannot run now: no question was asked about it. */
  | { readonly type: "impossible"; readonly outcome: FailedOutcome }
  | { readonly type: "cancelled" }
  | Deferred;

export type Deferred = Extract<CallEnd, { readonly type: "deferred" }>;

export interface Refused {
  readonly type: "refused";
  readonly rejected: RejectedCall;
  /** Set when a hook broke. */
  readonly failure?: ErrorRecord;
}
