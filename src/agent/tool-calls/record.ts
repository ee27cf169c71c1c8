// How a call is recorded: that it began and how it ended. Hooks after it see its result, and the model reads the text that is left. Nothing of
// it rejects.

import type { JsonValue } from "../../kernel/json.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { SpanContent } from "../../protocol/span-content.ts";
import { spanOf, timed, type TimeSpan } from "../../protocol/step-timing.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import type { Tool } from "../../tools/tool.ts";
import type { CallEnd, PlannedCall } from "../effects.ts";
import { followUp } from "./after-tool.ts";
import type { CallOutcome, PausedChild } from "./call-outcome.ts";
import { withinRetries } from "./failed-outcome.ts";
import type { OpenCall } from "./open-call.ts";
import { shortenedOutcome, type Formatted } from "./outcome-text.ts";
import { usedArguments, writtenArguments } from "./call-arguments.ts";

/** A call that has begun. */
export interface BegunCall {
  readonly startedAtMs: number;
  readonly queuedMs: number;
  /** The arguments as the tool is given them; undefined: it is given none. */
  readonly given: JsonValue | undefined;
}

/** Records that a call begins. `askedAtMs`: since when it waited for a slot; default: it did not. */
export function recordBegin(call: OpenCall, askedAtMs?: number): BegunCall {
  const { agent, planned, toolName, position, bound } = call;
  const startedAtMs = agent.run.clock.nowMs();
  const isResumed = planned.deferral?.type === "subagent";
  const type = isResumed ? "tool.resumed" : "tool.started";
  agent.emit({ type, toolName, ...descriptorOf(bound.tool) }, position);
  agent.recordContent(position, () => argumentsContent(call));
  return {
    startedAtMs,
    queuedMs: startedAtMs - (askedAtMs ?? startedAtMs),
    // Read before the tool runs: it may change what it was given.
    given: bound.type === "rejected" ? undefined : usedArguments(bound),
  };
}

/** Records what a call that had begun came to, once the hooks after it have seen that. */
export async function recordEnd(
  call: OpenCall,
  { startedAtMs, queuedMs, given }: BegunCall,
  worked: CallOutcome | PausedChild,
): Promise<CallEnd> {
  if (worked.type === "paused") return paused(call, worked, startedAtMs);
  const { agent, planned, toolName, position } = call;
  const workedAtMs = agent.run.clock.nowMs();
  const conclusion = concluded(call, worked, workedAtMs);
  const { outcome, spans, endedAtMs } =
    conclusion instanceof Promise ? await conclusion : conclusion;
  agent.recordContent(position, () => ({ type: "result", text: outcome.text }));
  const times = { durationMs: endedAtMs - startedAtMs, queuedMs };
  agent.emit(ended(toolName, outcome, times), position);
  const taken = given === undefined ? outcome : { arguments: given, ...outcome };
  const before = worked.spans ?? spanOf("tool", startedAtMs, workedAtMs);
  const execution = executed(planned, { startedAtMs, endedAtMs }, taken);
  const end = timed(execution, [...before, ...spans]);
  planned.onEnd(end);
  return end;
}

/** A delegation that waits for a paused subagent. */
function paused(call: OpenCall, worked: PausedChild, startedAtMs: number): CallEnd {
  const { agent, toolName, position } = call;
  agent.emit({ type: "tool.paused", toolName }, position);
  const { childId, subtasks = [], startedIds = [] } = worked;
  const argumentsText = JSON.stringify(writtenArguments(call));
  const left = {
    ...(subtasks.length === 0 ? {} : { subtasks }),
    ...(startedIds.length === 0 ? {} : { startedIds }),
  };
  const { callId } = position;
  const deferral = { type: "subagent", callId, childId, argumentsText, ...left } as const;
  const spans = spanOf("tool", startedAtMs, agent.run.clock.nowMs());
  return timed({ type: "deferred", deferral }, spans);
}

/** What a call came to as the model will read it. */
interface Concluded<Outcome extends CallOutcome> {
  readonly outcome: Formatted<Outcome>;
  /** What the time since its work went into. */
  readonly spans: readonly TimeSpan[];
  readonly endedAtMs: number;
}

/**
 * What a call came to as the model will read it, once the hooks after it have seen it; at once if there are none: what forbids
 * one call of a reply is recorded before the next ones begin.
 */
export function concluded<Outcome extends CallOutcome>(
  call: OpenCall,
  worked: Outcome,
  workedAtMs: number,
): Concluded<Outcome> | Promise<Concluded<Outcome>> {
  const { agent, planned, toolName } = call;
  const counted = worked.type === "retry" ? withinRetries(planned, worked) : worked;
  const { hooks } = agent;
  const chain = hooks.points.has("afterTool") ? hooks.chain("afterTool", toolName) : [];
  return chain.length === 0
    ? shown(call, counted, workedAtMs)
    : followUp(call, counted, chain).then((followed) => {
        const followedAtMs = agent.run.clock.nowMs();
        const { spans, ...rest } = shown(call, followed, followedAtMs);
        return { ...rest, spans: [...spanOf("hooks", workedAtMs, followedAtMs), ...spans] };
      });
}

/** Cuts what is too long for the model; the whole is kept with the call (R111). */
export function formatted<Outcome extends CallOutcome>(
  planned: PlannedCall,
  outcome: Outcome,
): Formatted<Outcome> {
  // A failure has room for advice besides, and its own words have their own measure: shorter than a result may be, it is never cut.
  if (outcome.text.length <= planned.settings.maxResultCharacters)
    return { ...outcome, isShortened: false };
  const { text, isShortened, shownCharacters } = shortenedOutcome(planned, outcome);
  return isShortened
    ? { ...outcome, text, isShortened, fullText: outcome.text, shownCharacters }
    : { ...outcome, isShortened };
}

/** The outcome cut to what the model will read. */
function shown<Outcome extends CallOutcome>(
  { agent, planned }: OpenCall,
  worked: Outcome,
  workedAtMs: number,
): Concluded<Outcome> {
  const outcome = formatted(planned, worked);
  const endedAtMs = agent.run.clock.nowMs();
  return { outcome, spans: spanOf("formatting", workedAtMs, endedAtMs), endedAtMs };
}

export function argumentsContent(call: OpenCall): SpanContent {
  return { type: "arguments", value: writtenArguments(call) };
}

/** What events say of the tool of a call; undefined: there is no such tool. */
export function descriptorOf(
  tool: Tool | undefined,
): Pick<EventBody<"tool.started">, "kind" | "description"> {
  return { kind: tool?.kind ?? "function", description: tool?.description ?? "" };
}

/** The event that says how a call ended. */
function ended(
  toolName: string,
  outcome: Formatted,
  times: { readonly durationMs: number; readonly queuedMs: number },
): EventBody<"tool.ended"> {
  const { type, text, fullText, shownCharacters, attachments, usage } = outcome;
  const { errorCode, severity } = outcome;
  return {
    type: "tool.ended",
    toolName,
    outcome: type,
    success: type === "succeeded",
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(severity === undefined ? {} : { severity }),
    resultCharacters: (fullText ?? text).length,
    ...(shownCharacters === undefined ? {} : { shownCharacters }),
    ...(attachments === undefined ? {} : { attachments: attachments.length }),
    ...times,
    ...(usage === undefined ? {} : { usage }),
  };
}

/** A call with its result. */
export function executed(
  { call, settings }: PlannedCall,
  times: Pick<ToolExecution, "startedAtMs" | "endedAtMs">,
  outcome: Formatted,
): CallEnd {
  const { type, text, fullText, errorCode, causeCode, severity, blockedBy } = outcome;
  const { arguments: given } = outcome;
  const { structured, attachments, metadata, failure, isShortened } = outcome;
  const { subtasks = [], startedIds = [], reportedIds = [] } = outcome;
  const execution: ToolExecution = {
    call,
    ...(given === undefined ? {} : { arguments: given }),
    type,
    text,
    ...(fullText === undefined ? {} : { fullText }),
    ...(structured === undefined ? {} : { structured }),
    ...(attachments === undefined ? {} : { attachments }),
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(causeCode === undefined ? {} : { causeCode }),
    ...(severity === undefined ? {} : { severity }),
    ...(blockedBy === undefined ? {} : { blockedBy }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(subtasks.length === 0 ? {} : { subtasks }),
    ...(startedIds.length === 0 ? {} : { startedIds }),
    ...(reportedIds.length === 0 ? {} : { reportedIds }),
    ...times,
  };
  const isToSummarize = isShortened && settings.longResults === "summarize";
  const broken = failure === undefined ? {} : { failure };
  return { type: "executed", execution, isToSummarize, ...broken };
}
