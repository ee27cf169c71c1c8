// How a call is recorded: that it began and how it ended. Hooks after it see its result, and the model reads the text that is left. Nothing of
// it rejects.

import { defined, sameJson, type JsonValue } from "../../kernel/json.ts";
import type { SpanContent } from "../../protocol/message.ts";
import { resultBody } from "../../protocol/stream-piece.ts";
import { spanOf, timed, type TimeSpan } from "../../protocol/step-timing.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import type { CallEnd, ExecutedCall, PlannedCall } from "../effects.ts";
import {
  withinRetries,
  NOT_BEGUN,
  rejectedOutcome,
  type CallOutcome,
  type PausedChild,
  type FailedOutcome,
  type TextRange,
} from "./call-outcome.ts";
import type { OpenCall } from "./open-call.ts";
import type { RejectedCall } from "../../tools/rejected-call.ts";
import type { EffectPosition } from "../agent-identity.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { errorRecord } from "../error-record.ts";
import { applyChain } from "../consult.ts";
import { shortenReports } from "../../tools/shorten-reports.ts";
import { shortenText, cutText, type ShortenedText } from "../../tools/shorten-text.ts";
import { usedArguments, writtenArguments } from "./parsed-call.ts";
import type { EventBody } from "../../protocol/event.ts";
import { redactSecrets } from "../../tools/redact-secrets.ts";
import type { Tool } from "../../tools/tool.ts";

/** A call that has begun. */
export interface BegunCall {
  readonly startedAtMs: number;
  readonly queuedMs: number;
  /** The arguments as the tool is given them; undefined: it is given none. */
  readonly given: JsonValue | undefined;
}

/** Records that a call begins. `askedAtMs`: since when it waited for a slot; default: it did not. */
export function recordBegin(call: OpenCall, askedAtMs?: number): BegunCall {
  const { agent, planned, position, bound } = call;
  const startedAtMs = agent.run.clock.nowMs();
  const isResumed = planned.deferral?.type === "subagent";
  const type = isResumed ? "tool.resumed" : "tool.started";
  if (agent.run.recorder.announce(type)) {
    agent.emit(startedEvent(call, type), position);
    agent.recordContent(position, () => argumentsContent(call));
  }
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
  if (worked.type === "paused") return deferCall(call, worked, { startedAtMs, given });
  const { agent, planned, position } = call;
  const workedAtMs = agent.run.clock.nowMs();
  const showing = showOutcome(call, worked, workedAtMs);
  const { outcome, spans, endedAtMs } = showing instanceof Promise ? await showing : showing;
  const taken = given === undefined ? outcome : { arguments: given, ...outcome };
  const ended = toExecutedCall(planned, { startedAtMs, endedAtMs }, taken);
  emitResult(agent, call.effectPosition, ended);
  const durationMs = endedAtMs - startedAtMs;
  if (agent.run.recorder.announce("tool.ended")) {
    agent.recordContent(position, () => ({ type: "result", text: outcome.text }));
    agent.emit(endedEvent(call, outcome, { durationMs, queuedMs }), position);
  }
  const before = worked.spans ?? spanOf("tool", startedAtMs, workedAtMs);
  const end = timed(ended, [...before, ...spans]);
  planned.onEnd(end);
  return end;
}

/** Emits, for present and later readers, what the model will read. What is to be summarised is emitted afterwards. */
export function emitResult(
  agent: AgentRuntime,
  position: EffectPosition,
  { execution, isToSummarize }: ExecutedCall,
): void {
  if (isToSummarize) return;
  (agent.endedCalls ??= []).push(execution);
  agent.run.pieces?.result(agent.pieceSource(position), resultBody(execution));
}

/** Records that a delegation waits for a paused subagent, and returns how it continues. */
function deferCall(
  call: OpenCall,
  worked: PausedChild,
  { startedAtMs, given }: Pick<BegunCall, "startedAtMs" | "given">,
): CallEnd {
  const { agent, toolName, position } = call;
  agent.emit({ type: "tool.paused", toolName }, position);
  const { childId, subtasks, startedIds } = worked;
  const written = writtenArguments(call);
  const argumentsText = JSON.stringify(written);
  const isAsWritten = given === undefined || sameJson(given, written);
  const parsedArguments = isAsWritten ? undefined : given;
  const left = defined({ parsedArguments, subtasks, startedIds });
  const { callId } = position;
  const deferral = { type: "subagent", callId, childId, argumentsText, ...left } as const;
  const spans = spanOf("tool", startedAtMs, agent.run.clock.nowMs());
  return timed({ type: "deferred", deferral }, spans);
}

/** The outcome of a call as the model will read it. */
interface ShownOutcome<Outcome extends CallOutcome> {
  readonly outcome: Formatted<Outcome>;
  /** What the time since its work went into. */
  readonly spans: readonly TimeSpan[];
  readonly endedAtMs: number;
}

/**
 * Returns an outcome as the model will read it, once the hooks after the call have seen it. Without
 * such hooks it returns no promise: a refusal is recorded before the next calls of the reply begin.
 */
function showOutcome<Outcome extends CallOutcome>(
  call: OpenCall,
  worked: Outcome,
  workedAtMs: number,
): ShownOutcome<Outcome> | Promise<ShownOutcome<Outcome>> {
  const { agent, planned, toolName } = call;
  const counted = worked.type === "retry" ? withinRetries(planned, worked) : worked;
  const { hooks } = agent;
  const isHooked = hooks.points.has("afterTool") && hooks.chain("afterTool", toolName).length > 0;
  if (!isHooked) return cutOutcome(call, counted, workedAtMs);
  return followUp(call, counted).then((followed) => {
    const followedAtMs = agent.run.clock.nowMs();
    const { spans, ...rest } = cutOutcome(call, followed, followedAtMs);
    return { ...rest, spans: [...spanOf("hooks", workedAtMs, followedAtMs), ...spans] };
  });
}

/** Cuts what is too long for the model; the whole is kept with the call (R111). */
export function formatOutcome<Outcome extends CallOutcome>(
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

/** Returns the outcome cut to what the model will read. */
function cutOutcome<Outcome extends CallOutcome>(
  { agent, planned }: OpenCall,
  worked: Outcome,
  workedAtMs: number,
): ShownOutcome<Outcome> {
  const outcome = formatOutcome(planned, worked);
  const endedAtMs = agent.run.clock.nowMs();
  return { outcome, spans: spanOf("formatting", workedAtMs, endedAtMs), endedAtMs };
}

function argumentsContent(call: OpenCall): SpanContent {
  return { type: "arguments", value: writtenArguments(call) };
}

/** Returns the call with its result. */
export function toExecutedCall(
  { call, settings, bound }: PlannedCall,
  times: Pick<ToolExecution, "startedAtMs" | "endedAtMs">,
  outcome: Formatted,
): ExecutedCall {
  const { type, text, arguments: given, failure, isShortened } = outcome;
  const { fullText, structured, attachments, isTextOnly, errorCode, causeCode } = outcome;
  const { severity, blockedBy, metadata, subtasks, startedIds, reportedIds } = outcome;
  const execution: ToolExecution = {
    call,
    ...defined({ arguments: given, isMended: given === undefined ? undefined : isMended(bound) }),
    type,
    text,
    ...defined({
      fullText,
      structured,
      attachments,
      isTextOnly,
      errorCode,
      causeCode,
      severity,
      blockedBy,
      metadata,
      subtasks,
      startedIds,
      reportedIds,
    }),
    ...times,
  };
  const isToSummarize = isShortened && settings.longResults === "summarize";
  const broken = failure === undefined ? {} : { failure };
  return { type: "executed", execution, isToSummarize, ...broken };
}

// A call that does not run: one event records that, and why.

/** Records that a call does not run, once the hooks after it have seen why. */
export async function reject(call: OpenCall, refused: FailedOutcome): Promise<CallEnd> {
  const startedAtMs = call.agent.run.clock.nowMs();
  const showing = showOutcome(call, refused, startedAtMs);
  const { outcome, spans } = showing instanceof Promise ? await showing : showing;
  return timed(recordRejected(call, startedAtMs, outcome), spans);
}

/** A call of which nothing has happened when its agent has to end: hooks do not see it. */
export function rejectUnbegun(call: OpenCall, startedAtMs = call.agent.run.clock.nowMs()): CallEnd {
  return recordRejected(call, startedAtMs, { ...NOT_BEGUN, isShortened: false });
}

function recordRejected(
  call: OpenCall,
  startedAtMs: number,
  outcome: Formatted<FailedOutcome>,
): CallEnd {
  const { agent, planned, position } = call;
  if (agent.run.recorder.announce("tool.rejected"))
    agent.emit(rejectedEvent(call, outcome), position, () => [
      argumentsContent(call),
      { type: "result", text: outcome.text },
    ]);
  const end = toExecutedCall(planned, { startedAtMs, endedAtMs: agent.run.clock.nowMs() }, outcome);
  emitResult(agent, call.effectPosition, end);
  planned.onEnd(end);
  return end;
}

/** The outcome of a call that does not run. One that would have started a subagent, and that a guard or a rule forbids, is a refused spawn (X14). */
export function forbiddenOutcome(call: OpenCall, rejected: RejectedCall): FailedOutcome {
  const { agent } = call;
  const outcome = rejectedOutcome(rejected);
  const { code, text: message } = rejected;
  const isForbidden = code === "blocked" || code === "tool_not_available";
  if (call.toolName !== SPAWN_TOOL_NAME || !isForbidden) return outcome;
  const refusal = { code, message };
  const input = writtenArguments(call);
  const spawn = agent.run.subagents.forbid(agent, input, refusal, call.delegation());
  return spawn === undefined ? outcome : { ...outcome, spawn };
}

// The hooks that see a call when its result is known.

/** Lets the hooks that follow a call see its result, and change what the model reads of it. */
async function followUp<Outcome extends CallOutcome>(
  call: OpenCall,
  outcome: Outcome,
): Promise<Outcome> {
  const { agent, effectPosition, toolName, position } = call;
  if (agent.signal.aborted) return outcome;
  const { type, text } = outcome;
  const { callId } = position;
  try {
    const { patch } = await applyChain(agent, {
      point: "afterTool",
      stepNumber: effectPosition.stepNumber,
      position,
      input: { toolName, callId, arguments: writtenArguments(call), outcome: type, text },
      toolName,
    });
    const { metadata } = patch;
    const rewritten = patch.text === undefined ? {} : { text: patch.text, words: undefined };
    return { ...outcome, ...rewritten, ...defined({ metadata }) };
  } catch (cause) {
    return agent.signal.aborted ? outcome : { ...outcome, failure: errorRecord(cause) };
  }
}

// An outcome as the model will read it: cut where it is too long for the model; the whole is kept with the call (R111).

/** So much of what is said of a failure besides the tool's own words is shown, however short results are to be. */
const ROOM_FOR_ADVICE = 2_000;

/** Of a failure the tool's own words are cut, of what a delegation gave the texts in its JSON, and anything else at its end. */
function shortenedOutcome({ bound, settings }: PlannedCall, outcome: CallOutcome): ShortenedText {
  const { maxResultCharacters: most } = settings;
  const { type, text, words } = outcome;
  if (words !== undefined) return shortenWords(text, words, most);
  const isLong = text.length > most;
  const isDelegated = isLong && bound.tool?.kind === "delegation";
  const reports = isDelegated ? shortenReports(text, most) : undefined;
  const room = type === "succeeded" ? most : Math.max(most, ROOM_FOR_ADVICE);
  return reports ?? shortenText(text, room);
}

function shortenWords(text: string, { start, end }: TextRange, most: number): ShortenedText {
  const part = shortenText(text.slice(start, end), most);
  const totalCharacters = text.length;
  return {
    text: `${text.slice(0, start)}${part.text}${text.slice(end)}`,
    isShortened: part.isShortened,
    totalCharacters,
    shownCharacters: totalCharacters - part.totalCharacters + part.shownCharacters,
  };
}

/** An outcome as the model will read it. */
export type Formatted<Outcome extends CallOutcome = CallOutcome> = Outcome & {
  readonly isShortened: boolean;
  /** The whole text, if it was cut. */
  readonly fullText?: string;
  /** How much of it is shown. */
  readonly shownCharacters?: number;
};

function startedEvent(
  { toolName, bound, planned }: OpenCall,
  type: "tool.started" | "tool.resumed",
): EventBody<"tool.started" | "tool.resumed"> {
  const mended = defined({ isMended: isMended(planned.bound) });
  return { type, toolName, ...descriptorOf(bound.tool), ...placeOf(planned.index), ...mended };
}

function endedEvent(
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

function rejectedEvent(
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
function isMended(bound: PlannedCall["bound"]): true | undefined {
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
