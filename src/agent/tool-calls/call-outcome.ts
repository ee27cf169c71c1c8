// What came of a tool call, as a value: a result, or a failure by its code in the one table.

import type { JsonObject, JsonValue } from "../../kernel/json.ts";
import type { Attachment } from "../../protocol/attachment.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { TimeSpan } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { SpawnRequest, SubagentOutcome } from "../../protocol/subagent.ts";
import { failureClass, type ToolFailureCode } from "../../protocol/tool-failure.ts";
import type { ToolErrorSeverity } from "../../protocol/tool-error-record.ts";
import type { ToolOutcomeType } from "../../protocol/tool-outcome.ts";
import type { Usage } from "../../protocol/usage.ts";
import { delegationText } from "../../tools/delegation-text.ts";
import type { DelegationOutcome } from "../../tools/tool-context.ts";
import { outcomeOf } from "../../tools/returned-result.ts";
import type { RefusedSpawn } from "../run-ports.ts";

/** A part of a text, in UTF-16 code units; `end` is behind it. */
export interface TextRange {
  readonly start: number;
  readonly end: number;
}

/** How a tool call came out, before it is stamped. */
export interface CallOutcome {
  readonly type: ToolOutcomeType;
  readonly text: string;
  /** Where in the text of a failure the words of the tool are: they alone are cut, like a result. */
  readonly words?: TextRange | undefined;
  readonly errorCode?: ToolFailureCode;
  /** What it failed with, where the code is `retry_limit`. */
  readonly causeCode?: ToolFailureCode;
  readonly severity?: ToolErrorSeverity;
  /** Who denied it: guards and the hook, by name. */
  readonly blockedBy?: string;
  /** The arguments as the tool got them, if it ran. */
  readonly arguments?: JsonValue;
  readonly structured?: JsonValue;
  readonly attachments?: readonly Attachment[];
  /** What a delegated subtree consumed. */
  readonly usage?: Usage;
  readonly metadata?: JsonObject;
  readonly subtasks?: readonly SpawnRequest[];
  /** Subagents that it started in the background, and those whose results it gave. */
  readonly startedIds?: readonly AgentId[];
  readonly reportedIds?: readonly AgentId[];
  /** Set when the execution fails with it: a hook broke, or the tool said that nothing is worth going on. */
  readonly failure?: ErrorRecord;
  /** What the time of its body went into; left out: it was the tool all the time. */
  readonly spans?: readonly TimeSpan[];
}

/** How a call came out that did not succeed. */
export interface FailedOutcome extends CallOutcome {
  readonly type: Exclude<ToolOutcomeType, "succeeded">;
  readonly errorCode: ToolFailureCode;
  readonly severity: ToolErrorSeverity;
  /** Why it was denied, in the words of whoever or whatever denied it. */
  readonly reason?: string;
  /** The subagent that it does not start. */
  readonly spawn?: RefusedSpawn;
}

/** A failure by its code: how severe it is, and as what it counts, the table says. */
export function failed(
  code: ToolFailureCode,
  text: string,
  more: Partial<Omit<FailedOutcome, "type" | "errorCode">> = {},
): FailedOutcome {
  const { outcome: type, severity } = failureClass(code);
  return { type, text, errorCode: code, severity, ...more };
}

/** The outcome of a call whose tool gave this. Throws what the result throws when it is looked at, and a `TypeError` for what is no JSON. */
export function returnedOutcome(result: unknown): CallOutcome {
  const { text, structured, attachments } = outcomeOf(result);
  return {
    type: "succeeded",
    text,
    ...(structured === undefined ? {} : { structured }),
    ...(attachments.length === 0 ? {} : { attachments }),
  };
}

/** The outcome of a delegation that is not paused. A subagent that did not complete is no success (X15). */
export function delegatedOutcome(
  outcome: Exclude<DelegationOutcome, { readonly type: "paused" }>,
): CallOutcome {
  if (outcome.type === "answered") {
    const { text, reportedIds = [] } = outcome;
    return { type: "succeeded", text, reportedIds };
  }
  const text = delegationText(outcome);
  if (outcome.type === "refused") return failed(outcome.refusal.code, text);
  if (outcome.type === "started") return { type: "succeeded", text };
  const { outcome: worth, usage } = outcome.result;
  const counted = { usage: usage.total };
  return worth === "completed"
    ? { type: "succeeded", text, ...counted }
    : failed(SUBAGENT_FAILURES[worth], text, counted);
}

const SUBAGENT_FAILURES = {
  partial: "subagent_partial",
  no_output: "subagent_no_output",
  failed: "subagent_failed",
  cancelled: "subagent_cancelled",
} as const satisfies Record<Exclude<SubagentOutcome, "completed">, ToolFailureCode>;
