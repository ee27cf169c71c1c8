// What events say of a tool call: that it began, what it came to, or why it does not run.

import { defined } from "../../kernel/json.ts";
import type { EventBody } from "../../protocol/event.ts";
import { redactSecrets } from "../../tools/redact-secrets.ts";
import { cutText } from "../../tools/shorten-text.ts";
import type { Tool } from "../../tools/tool.ts";
import type { PlannedCall } from "../effects.ts";
import type { CallOutcome, FailedOutcome } from "./call-outcome.ts";
import type { OpenCall } from "./open-call.ts";

/** An outcome as the model will read it. */
export type Formatted<Outcome extends CallOutcome = CallOutcome> = Outcome & {
  readonly isShortened: boolean;
  /** The whole text, if it was cut. */
  readonly fullText?: string;
  /** How much of it is shown. */
  readonly shownCharacters?: number;
};

export function startedEvent(
  { toolName, bound, planned }: OpenCall,
  type: "tool.started" | "tool.resumed",
): EventBody<"tool.started" | "tool.resumed"> {
  const mended = defined({ isMended: isMended(planned.bound) });
  return { type, toolName, ...descriptorOf(bound.tool), ...placeOf(planned.index), ...mended };
}

export function endedEvent(
  call: OpenCall,
  outcome: Formatted,
  times: Pick<EventBody<"tool.ended">, "durationMs" | "queuedMs">,
): EventBody<"tool.ended"> {
  const { type, text, fullText = text, errorCode, errorName, severity, attachments } = outcome;
  const { shownCharacters, usage } = outcome;
  return {
    type: "tool.ended",
    toolName: call.toolName,
    outcome: type,
    success: type === "succeeded",
    resultCharacters: fullText.length,
    ...defined({ errorCode, severity, errorName }),
    ...defined({ shownCharacters, attachments: attachments?.length, usage }),
    ...(type === "succeeded" || isReport(call, outcome) ? {} : { message: messageOf(outcome) }),
    ...times,
  };
}

export function rejectedEvent(
  { toolName, bound, planned }: OpenCall,
  outcome: Formatted<FailedOutcome>,
): EventBody<"tool.rejected"> {
  const { type, text, fullText = text, errorCode, severity, blockedBy, reason, spawn } = outcome;
  const { shownCharacters } = outcome;
  return {
    type: "tool.rejected",
    toolName,
    ...descriptorOf(bound.tool),
    ...placeOf(planned.index),
    outcome: type,
    errorCode,
    severity,
    resultCharacters: fullText.length,
    ...defined({ blockedBy, reason, spawn, shownCharacters }),
    ...(spawn === undefined ? { message: messageOf(outcome) } : {}),
  };
}

/** What events say of the tool of a call; undefined: there is no such tool. */
export function descriptorOf(
  tool: Tool | undefined,
): Pick<EventBody<"tool.started">, "kind" | "description"> {
  return { kind: tool?.kind ?? "function", description: tool?.description ?? "" };
}

/** Returns the event field with the place of a call in its reply. Empty for the first call. */
export function placeOf(index: number): Pick<EventBody<"tool.started">, "index"> {
  return index === 0 ? {} : { index };
}

/** True if the model's arguments were no JSON until a small slip in them was mended. */
export function isMended(bound: PlannedCall["bound"]): true | undefined {
  return (bound.type !== "rejected" && bound.unmended !== undefined) || undefined;
}

/** Longest message of a failed call in events. The step has the whole text. */
const LONGEST_MESSAGE = 500;

/** Returns why a call failed, in the tool's own words if it has any, without secrets. */
function messageOf({ text, fullText = text, words }: Formatted): string {
  const said = words === undefined ? fullText : fullText.slice(words.start, words.end);
  return cutText(redactSecrets(said), LONGEST_MESSAGE);
}

/** True for the report of a subagent, which is JSON. */
function isReport({ bound }: OpenCall, { words }: CallOutcome): boolean {
  return bound.tool?.kind === "delegation" && words === undefined;
}
