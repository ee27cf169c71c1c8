// Records the begin and end of calls. `recordEnd` receives the outcomes from call-tool.ts and
// delegate.ts, and `applyToolResults` in phases/execute-tools.ts adds them to the history. Hooks
// after a call see its result and may change the text that the model reads. `cancelled-calls.ts`
// settles the calls that a cancel or a stop prevented. No promise here rejects.

import { omitUndefined, sameJson, type JsonValue } from "../../kernel/json.ts";
import type { SpanContent } from "../../protocol/message.ts";
import { createResultBody } from "../../protocol/stream-part.ts";
import { toSpans, attachTimeSpans } from "../../protocol/step-timing.ts";
import type { ToolFailure } from "../../protocol/tool-error-record.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import type { CallEnd, ExecutedCall } from "../effect-outcomes.ts";
import {
  failCall,
  createRejectedOutcome,
  type CallOutcome,
  type PausedChild,
  type FailedOutcome,
  type TextRange,
} from "./call-outcome.ts";
import { createNextDelegation, type CallInProgress } from "./open-call.ts";
import { adviseCorrection } from "../../tools/arguments/argument-problems.ts";
import { JSON_ADVICE, type RejectedCall } from "../../tools/rejected-call.ts";
import type { EffectPosition } from "../agent-identity.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { serializeError } from "../serialize-error.ts";
import { applyChain } from "../run-user-code.ts";
import { shortenReports } from "../../tools/shorten-reports.ts";
import { shortenText, cutText, type ShortenedText } from "../../tools/shorten-text.ts";
import { getUsedArguments, getWrittenArguments } from "./parsed-call.ts";
import type { EventBody } from "../../protocol/event.ts";
import { redactSecrets } from "../../tools/redact-secrets.ts";
import type { Tool } from "../../tools/tool.ts";

/** A call that has begun. */
export interface BegunCall {
  readonly startedAtMs: number;
  readonly queuedMs: number;
  /** The arguments that the tool receives. `undefined` if it receives none. */
  readonly input: JsonValue | undefined;
}

/**
 * Records that a call begins. `askedAtMs` is the start of its wait for a slot, and absent if it did
 * not wait.
 */
export function recordBegin(call: CallInProgress, askedAtMs?: number): BegunCall {
  const { agent, position, bound, deferral } = call;
  const startedAtMs = agent.run.clock.nowMs();
  const isResumed = deferral?.type === "subagent";
  const type = isResumed ? "tool.resumed" : "tool.started";
  if (!agent.run.recorder.countUnread(type)) {
    const { toolName, index, isRepaired } = call;
    const mended = omitUndefined({ isRepaired });
    const body: EventBody<"tool.started" | "tool.resumed"> = {
      type,
      toolName,
      ...describeTool(bound.tool),
      index,
      ...mended,
    };
    agent.recordWithinCall(body, position);
    agent.recordContent(position, () => createArgumentsContent(call));
  }
  return {
    startedAtMs,
    queuedMs: startedAtMs - (askedAtMs ?? startedAtMs),
    // Read before the tool runs, because the tool may change its arguments.
    input: bound.type === "rejected" ? undefined : getUsedArguments(bound),
  };
}

/**
 * Records the end of a call, after the hooks after it have seen the outcome. Without `begun` the
 * call did not run, and one event records the reason. Without hooks nothing is awaited, so that a
 * refusal is recorded before the next calls of the reply begin.
 */
export async function recordEnd(
  call: CallInProgress,
  worked: CallOutcome,
  begun?: BegunCall,
): Promise<CallEnd> {
  const { agent, toolName } = call;
  const { clock } = agent.run;
  const workedAtMs = clock.nowMs();
  const startedAtMs = begun?.startedAtMs ?? workedAtMs;
  const spans = [...(worked.spans ?? toSpans("tool", startedAtMs, workedAtMs))];
  let outcome = worked.type === "retry" ? enforceMaxRetries(call, worked) : worked;
  let shownAtMs = workedAtMs;
  const { hooks } = agent;
  if (hooks.points.has("afterTool") && hooks.chain("afterTool", toolName).length > 0) {
    outcome = await followUp(call, outcome);
    shownAtMs = clock.nowMs();
    spans.push(...toSpans("hooks", workedAtMs, shownAtMs));
  }
  if (outcome.text.length > call.settings.maxResultCharacters) outcome = cutOutcome(call, outcome);
  const endedAtMs = clock.nowMs();
  spans.push(...toSpans("formatting", shownAtMs, endedAtMs));
  return attachTimeSpans(emitEnd(call, outcome, { startedAtMs, endedAtMs }, begun), spans);
}

/** Emits the result of a call and closes its record, without hooks. */
export function emitEnd(
  call: CallInProgress,
  outcome: CallOutcome,
  times: Pick<ToolExecution, "startedAtMs" | "endedAtMs">,
  begun?: BegunCall,
): CallEnd {
  const { agent, position } = call;
  const { recorder } = agent.run;
  const { text } = outcome;
  const end = toExecutedCall(call, times, outcome, begun?.input);
  emitResult(agent, call, end);
  if (begun === undefined && outcome.type !== "succeeded") {
    if (!recorder.countUnread("tool.rejected"))
      agent.recordWithinCall(toRejectedEvent(call, call.bound.tool, outcome), position, () => [
        createArgumentsContent(call),
        { type: "result", text },
      ]);
  } else if (!recorder.countUnread("tool.ended")) {
    agent.recordContent(position, () => ({ type: "result", text }));
    agent.recordWithinCall(toEndedEvent(call, outcome, times, begun), position);
  }
  call.onEnd(end);
  return end;
}

/**
 * Emits the text that the model will read to current and later readers. A result to be summarised
 * is emitted after its summary.
 */
export function emitResult(
  agent: AgentRuntime,
  position: EffectPosition,
  { execution, isToSummarize }: ExecutedCall,
): void {
  if (isToSummarize) return;
  agent.endedCalls ??= [];
  agent.endedCalls.push(execution);
  agent.run.pieces?.emit(agent.toPartSource(position), createResultBody(execution));
}

/** Records that a delegation waits for a paused subagent, and returns its deferral. */
export function recordPause(
  call: CallInProgress,
  worked: PausedChild,
  { startedAtMs, input }: Pick<BegunCall, "startedAtMs" | "input">,
): CallEnd {
  const { agent, toolName, position } = call;
  agent.recordWithinCall({ type: "tool.paused", toolName }, position);
  const { childId, subtasks, startedAgentIds } = worked;
  const written = getWrittenArguments(call);
  const argumentsText = JSON.stringify(written);
  const isAsWritten = input === undefined || sameJson(input, written);
  const parsedArguments = isAsWritten ? undefined : input;
  const left = omitUndefined({ parsedArguments, subtasks, startedAgentIds });
  const { callId } = position;
  const deferral = { type: "subagent", callId, childId, argumentsText, ...left } as const;
  const spans = toSpans("tool", startedAtMs, agent.run.clock.nowMs());
  return attachTimeSpans({ type: "deferred", deferral }, spans);
}

function createArgumentsContent(call: CallInProgress): SpanContent {
  return { type: "arguments", value: getWrittenArguments(call) };
}

/** Returns the call with its result. */
export function toExecutedCall(
  { call, settings, isRepaired }: CallInProgress,
  times: Pick<ToolExecution, "startedAtMs" | "endedAtMs">,
  outcome: CallOutcome,
  input?: JsonValue,
): ExecutedCall {
  const { type, text, failure, fullText, structured, attachments, isTextOnly } = outcome;
  const { errorCode, causeCode, severity, blockedBy, metadata } = outcome;
  const { subtasks, startedAgentIds, reportedAgentIds } = outcome;
  const execution: ToolExecution = {
    call,
    ...(input === undefined ? {} : { arguments: input, ...omitUndefined({ isRepaired }) }),
    type,
    text,
    // In the order of the schema, so that a stored result has the same JSON text.
    ...omitUndefined({ fullText, structured, attachments, isTextOnly, errorCode, causeCode }),
    ...omitUndefined({ severity, blockedBy, metadata }),
    ...omitUndefined({ subtasks, startedAgentIds, reportedAgentIds }),
    ...times,
  };
  const isToSummarize = fullText !== undefined && settings.longResultPolicy === "summarize";
  return { type: "executed", execution, isToSummarize, ...omitUndefined({ failure }) };
}

/**
 * Returns the outcome of a call that does not run. If a guard or a rule forbids a delegation that
 * names a role, it also counts as a refused spawn.
 */
export function toRejectedOutcome(call: CallInProgress, rejected: RejectedCall): FailedOutcome {
  const { agent } = call;
  const outcome = createRejectedOutcome(rejected);
  const { code, text: message } = rejected;
  const isForbidden = code === "blocked" || code === "tool_not_available";
  if (!isForbidden || !isDelegation(call)) return outcome;
  const refusal = { code, message };
  const input = getWrittenArguments(call);
  const delegated = createNextDelegation(call);
  const spawn = agent.run.supervisor.recordForbiddenSpawn(agent, input, refusal, delegated);
  return spawn === undefined ? outcome : { ...outcome, spawn };
}

/** True for a call of a delegation tool, even if the agent cannot use it. */
function isDelegation({ agent, toolName }: CallInProgress): boolean {
  const roleTool = agent.role.tools.find(({ name }) => name === toolName);
  return (
    (agent.tools.find(toolName) ?? roleTool)?.kind === "delegation" || toolName === SPAWN_TOOL_NAME
  );
}

/**
 * Runs the hooks after a call, which see its result and may change the text that the model reads.
 */
async function followUp(call: CallInProgress, outcome: CallOutcome): Promise<CallOutcome> {
  const { agent, stepNumber, toolName, position } = call;
  if (agent.cancelSignal.aborted) return outcome;
  const { type, text } = outcome;
  const { callId } = position;
  try {
    const { patch } = await applyChain(agent, {
      point: "afterTool",
      stepNumber,
      position,
      input: { toolName, callId, arguments: getWrittenArguments(call), outcome: type, text },
      toolName,
    });
    const { metadata } = patch;
    const rewritten =
      patch.text === undefined ? {} : { text: patch.text, words: undefined, reason: undefined };
    return { ...outcome, ...rewritten, ...omitUndefined({ metadata }) };
  } catch (cause) {
    return agent.cancelSignal.aborted ? outcome : { ...outcome, failure: serializeError(cause) };
  }
}

/** Returns the outcome, which becomes `retry_limit` if the tool has used up its retries. */
function enforceMaxRetries(
  { toolName, retryCount, settings }: CallInProgress,
  outcome: CallOutcome,
): CallOutcome {
  if (outcome.type !== "retry" || retryCount < settings.maxRetries) return outcome;
  const tries = retryCount === 1 ? "once" : `${retryCount} times`;
  const corrected = retryCount === 0 ? "" : `It was corrected ${tries} already. `;
  // Removes the advice to call again, which would contradict the text that follows.
  const advice = [adviseCorrection(toolName), JSON_ADVICE].find((ending) =>
    outcome.text.endsWith(ending),
  );
  const feedback =
    advice === undefined ? outcome.text : outcome.text.slice(0, -advice.length).trimEnd();
  const { words } = outcome;
  const ownWords = words && { start: words.start, end: Math.min(words.end, feedback.length) };
  const text = `${feedback}\n${corrected}Do not call ${toolName} again: do without it, or answer with what you have.`;
  return {
    ...outcome,
    ...failCall("retry_limit", text, { causeCode: outcome.errorCode, words: ownWords }),
  };
}

/**
 * Minimum number of characters shown of a failure without words of the tool, whatever the limit for
 * results.
 */
const ROOM_FOR_ADVICE = 2_000;

/**
 * Shortens an outcome that is too long for the model. The call keeps the whole text. In a failure
 * only the tool's own words are shortened, in the report of a subagent the texts in its JSON, and
 * any other text at its end.
 */
function cutOutcome({ bound, settings }: CallInProgress, outcome: CallOutcome): CallOutcome {
  const { maxResultCharacters: limit } = settings;
  const { type, text, words } = outcome;
  // A failure also contains advice. The tool's own words in it have their own limit.
  const isSubagentReport = words === undefined && bound.tool?.kind === "delegation";
  const room = type === "succeeded" ? limit : Math.max(limit, ROOM_FOR_ADVICE);
  const cut =
    words === undefined
      ? ((isSubagentReport ? shortenReports(text, limit) : undefined) ?? shortenText(text, room))
      : shortenWords(text, words, limit);
  if (!cut.isShortened) return outcome;
  return { ...outcome, text: cut.text, fullText: text, shownCharacters: cut.shownCharacters };
}

function shortenWords(text: string, { start, end }: TextRange, limit: number): ShortenedText {
  const part = shortenText(text.slice(start, end), limit);
  const totalCharacters = text.length;
  return {
    text: `${text.slice(0, start)}${part.text}${text.slice(end)}`,
    isShortened: part.isShortened,
    totalCharacters,
    shownCharacters: totalCharacters - part.totalCharacters + part.shownCharacters,
  };
}

function toEndedEvent(
  call: CallInProgress,
  outcome: CallOutcome,
  { startedAtMs, endedAtMs }: Pick<ToolExecution, "startedAtMs" | "endedAtMs">,
  begun: BegunCall | undefined,
): EventBody<"tool.ended"> {
  const { type, text, fullText = text, attachments, shownCharacters, usage } = outcome;
  return {
    type: "tool.ended",
    toolName: call.toolName,
    outcome: type,
    success: type === "succeeded",
    resultCharacters: fullText.length,
    ...(type === "succeeded" ? {} : { error: toToolFailure(outcome, outcome.reason) }),
    ...omitUndefined({ shownCharacters, attachmentCount: attachments?.length, usage }),
    durationMs: endedAtMs - startedAtMs,
    queuedMs: begun?.queuedMs ?? 0,
  };
}

/**
 * Returns the event of a call that does not run. `tool` is `undefined` if there is no such tool.
 */
export function toRejectedEvent(
  { toolName, index }: Pick<CallInProgress, "toolName" | "index">,
  tool: Tool | undefined,
  outcome: FailedOutcome,
): EventBody<"tool.rejected"> {
  const { type, text, fullText = text, blockedBy, reason, spawn, shownCharacters } = outcome;
  return {
    type: "tool.rejected",
    toolName,
    ...describeTool(tool),
    index,
    outcome: type,
    error: toToolFailure(outcome),
    resultCharacters: fullText.length,
    ...omitUndefined({ blockedBy, reason, spawn, shownCharacters }),
  };
}

/** Returns the event fields of a tool. `tool` is `undefined` if there is no such tool. */
function describeTool(
  tool: Tool | undefined,
): Pick<EventBody<"tool.started">, "kind" | "description"> {
  return { kind: tool?.kind ?? "function", description: tool?.description ?? "" };
}

/** Maximum length of the message of a failed call in events. The step has the whole text. */
const LONGEST_MESSAGE = 500;

/**
 * Returns the error of a call, without secrets. Its message is the given reason, the tool's own
 * words, or the text that the model reads.
 */
function toToolFailure(outcome: FailedOutcome, reason?: string): ToolFailure {
  const { errorCode: code, severity, errorName: name, text, fullText = text, words } = outcome;
  const fullMessage = reason ?? (words ? fullText.slice(words.start, words.end) : fullText);
  const message = cutText(redactSecrets(fullMessage), LONGEST_MESSAGE);
  return { code, message, severity, ...omitUndefined({ name }) };
}
