// The events of a run as lines: agent, step, type, and the fields that matter, without times and
// random ids.

import { isRecord } from "../../src/kernel/json.ts";
import type { EspalierEvent, EventBody, EventType } from "../../src/protocol/event.ts";

type Telling = { readonly [T in EventType]: readonly Exclude<keyof EventBody<T>, "type">[] };

/** Fields of each event in a line. A new event must be listed here. */
const TELLING: Telling = {
  "run.started": ["role", "task", "limits", "budget"],
  "run.ended": ["status", "reason", "error", "usage", "subagentsByDepth", "refusalsByCode"],
  "run.paused": ["reason", "questions", "usage"],
  "run.resumed": ["role", "task", "answerCount"],
  "agent.started": ["role", "model", "task", "spawnCallId", "budget"],
  "agent.paused": ["reason", "stepCount"],
  "agent.resumed": ["role", "model", "task", "spawnCallId", "budget"],
  "agent.ended": ["status", "reason", "stepCount", "text", "usage", "error"],
  "step.started": ["number"],
  "step.completed": ["number", "usage", "toolCallCount", "error"],
  "model.requested": ["model", "messageCount", "toolNames", "maxOutputTokens", "streaming"],
  "model.retried": ["attempt", "error", "delayMs"],
  "model.warned": ["warning"],
  "model.replied": ["finishReason", "toolCallCount", "usage", "attemptCount"],
  "model.failed": ["error", "isRetryable", "usage", "attemptCount"],
  "tool.started": ["toolName", "kind"],
  "tool.rejected": ["toolName", "kind", "outcome", "error", "blockedBy", "reason"],
  "tool.paused": ["toolName"],
  "tool.resumed": ["toolName", "kind"],
  "tool.ended": ["toolName", "outcome", "error", "usage"],
  "tool.guarded": ["toolName", "decision", "answers"],
  "tool.retried": ["toolName", "attempt", "error", "delayMs"],
  "tool.progressed": ["toolName", "done", "total", "message"],
  "result.summarized": ["toolName", "resultCharacters", "shownCharacters", "usage"],
  "tools.filtered": ["removed"],
  "reply.filtered": ["toolName", "characters"],
  "question.asked": ["kind", "toolName"],
  "question.answered": ["toolName", "answer", "source"],
  "hook.applied": ["point", "changedBy"],
  "request.repaired": ["repairCount"],
  "conversation.compacted": ["messagesBefore", "messagesAfter", "tokensBefore", "tokensAfter"],
  "section.cleared": ["name", "count"],
  "message.delivered": ["origin"],
  "subagent.spawned": ["childPath", "task", "inherited", "subagentsByDepth"],
  "subagent.continued": ["childPath", "task", "isBackground", "execution"],
  "subagent.detached": ["childPath"],
  "subagent.refused": ["role", "error"],
  "subagent.ended": ["childPath", "outcome", "status", "reason", "usage"],
  "budget.queued": ["accountPath"],
  "budget.dequeued": ["outcome"],
  "budget.reserved": ["inputTokens", "maxOutputTokens"],
  "budget.settled": ["usage", "remaining", "runRemaining"],
  "budget.released": [],
  "budget.refused": ["axis", "accountPath", "maximum", "spent", "requested", "reserve"],
  "budget.threshold_reached": ["axis", "accountPath", "threshold", "spent", "maximum"],
  "budget.granted": ["accountPath", "budget", "by", "remaining"],
  "signal.raised": ["signal"],
  "continuation.evaluated": ["decision", "work", "vetoedBy", "signals", "reason"],
};

/** Returns one line per event. */
export function goldenLines(events: readonly EspalierEvent[]): string {
  return `${events.map(goldenLine).join("\n")}\n`;
}

function goldenLine(event: EspalierEvent): string {
  const { seq, agentPath, executionId, stepId, callId, type } = event;
  const step = stepId === null ? "" : ` #${stepId.slice(stepId.lastIndexOf(".") + 1)}`;
  const where =
    executionId === null ? "run" : `${agentPath}${step}${callId === null ? "" : ` ${callId}`}`;
  const values = new Map<string, unknown>(Object.entries(event));
  const told = TELLING[type]
    .filter((field) => values.get(field) !== undefined)
    .map((field) => `${field}=${shown(values.get(field))}`);
  return [String(seq).padStart(3), `${where}:`, type, ...told].join(" ");
}

type Fields = Readonly<Record<string, unknown>>;

/** Short forms of values, by a field that only they have. */
const SHORT: readonly (readonly [field: string, short: (value: Fields) => string])[] = [
  ["injections", shortManifest],
  ["descendants", ({ own, total }) => `${shown(own)}/${shown(total)}`],
  ["totalTokens", shortUsage],
  ["source", ({ reason, source }) => `${shown(reason)}<${shown(source)}`],
  ["questionId", ({ kind, toolName }) => `${shown(kind)}:${shown(toolName)}`],
  ["hook", ({ hook, fields }) => `${shown(hook)}:${shown(fields)}`],
  ["severity", ({ code, severity }) => `${shown(code)}/${shown(severity)}`],
  ["code", ({ code }) => String(code)],
];

/**
 * Returns the inherited context of a subagent: the number of messages of each kind, and the missing
 * tools.
 */
function shortManifest({ messages, injections, removedTools }: Fields): string {
  const [inherited, injected] = [messages, injections].map((part) =>
    isRecord(part) ? shown(part["count"]) : "?",
  );
  const lacking = Array.isArray(removedTools) ? removedTools.filter(isRecord) : [];
  const without = lacking.map(({ toolName, rule }) => `-${shown(toolName)}:${shown(rule)}`);
  return [`${inherited}i+${injected}j`, ...without].join(" ");
}

/** A usage also shows its tokens. A remaining budget has no calls. */
function shortUsage(value: Fields): string {
  if (!("modelCalls" in value)) return entries(value);
  const { modelCalls, toolCalls, totalTokens } = value;
  return `${shown(modelCalls)}m+${shown(toolCalls)}c+${shown(totalTokens)}t`;
}

function shown(value: unknown): string {
  if (typeof value === "string") return /^[\w./#-]+$/.test(value) ? value : JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(shown).join(" ")}]`;
  if (typeof value !== "object" || value === null) return String(value);
  const fields: Fields = { ...value };
  const short = SHORT.find(([field]) => field in fields)?.[1];
  return short === undefined ? entries(fields) : short(fields);
}

function entries(value: Fields): string {
  const pairs = Object.entries(value).map(([key, one]) => `${key}:${shown(one)}`);
  return `{${pairs.join(" ")}}`;
}
