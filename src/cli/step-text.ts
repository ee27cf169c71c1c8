// One step as text: what the model was asked, what it said, and what its calls came to. Pure.

import type { Message } from "espalier";
import type { RecordedExecution, RecordedRequest, StepRow } from "espalier/view";

import { plainText, singleLine } from "../terminal/terminal-text.ts";
import { attemptLines } from "./agent-text.ts";
import { headOf } from "./head-of.ts";
import { costWords, countText, durationText } from "../view/amounts.ts";

/** A step that is over, or the one that is open. */
export type KeptStep = RecordedExecution["steps"][number] | NonNullable<RecordedExecution["open"]>;

/** Attempts that failed and were followed by others. */
export interface StepAttempts {
  readonly model: StepRow["attempts"];
  readonly byCall: ReadonlyMap<string, StepRow["attempts"]>;
}

/** What is said of a step. */
export interface ShownStepParts {
  readonly agentPath: string;
  readonly execution: number;
  /** Steps of the execution, the open one too. */
  readonly of: number;
  readonly step: KeptStep;
  /** Failed attempts of its model calls, and of its calls by their ids. */
  readonly attempts: StepAttempts;
  /** Undefined: it was not asked for. */
  readonly request: RecordedRequest | undefined;
  /** Paths of ancestors, by their ids. */
  readonly pathOf: (agentId: string) => string;
}

export function stepText(parts: ShownStepParts): string {
  const { agentPath, execution, of, step, request, attempts } = parts;
  const model = `${step.context.model.id} (${step.context.model.provider})`;
  const place = `${agentPath} · execution ${execution} · step ${step.number} of ${of}`;
  return [
    [place, [model, ...figures(step)].join(" · ")],
    request === undefined ? [] : ["Asked:", ...requestLines(request, parts.pathOf)],
    attemptLines(attempts.model),
    saidLines(step),
    callLines(step, attempts),
    "error" in step && step.error !== undefined
      ? [`✖ ${step.error.code}: ${step.error.message}`]
      : [],
  ]
    .filter((lines) => lines.length > 0)
    .map((lines) => plainText(lines.join("\n")))
    .join("\n\n");
}

function figures(step: KeptStep): readonly string[] {
  if (!("telemetry" in step)) return ["open"];
  const { usage, startedAtMs, endedAtMs } = step.telemetry;
  const { inputTokens, cachedInputTokens, outputTokens } = usage;
  const cached = cachedInputTokens === 0 ? "" : ` (${countText(cachedInputTokens)} cached)`;
  return [
    `${countText(inputTokens)} in${cached}`,
    `${countText(outputTokens)} out`,
    costWords(usage),
    durationText(endedAtMs - startedAtMs),
  ];
}

function requestLines(
  { request, inheritedFrom }: RecordedRequest,
  pathOf: ShownStepParts["pathOf"],
): readonly string[] {
  const messages = request.messages.flatMap((message, index) => {
    const from = inheritedFrom[index] ?? null;
    const origin = "origin" in message ? ` (${message.origin})` : "";
    const heir = from === null ? "" : `, from ${pathOf(from)}`;
    return [`  ${message.role}${origin}${heir}`, ...indented(messageText(message))];
  });
  const tools = request.tools.map(({ name }) => name);
  return [...messages, ...(tools.length === 0 ? [] : [`  tools: ${tools.join(", ")}`])];
}

function messageText(message: Message): string {
  switch (message.role) {
    case "assistant": {
      const calls = message.toolCalls.map(
        ({ toolName, argumentsText }) => `→ ${toolName} ${headOf(argumentsText)}`,
      );
      return [...(message.text === "" ? [] : [message.text]), ...calls].join("\n");
    }
    case "tool":
      return `${message.toolName}: ${message.text}`;
    default:
      return message.text;
  }
}

function saidLines(step: KeptStep): readonly string[] {
  if ("io" in step) {
    const { text, refusal, finishReason } = step.io;
    const said = refusal ?? text;
    const end =
      finishReason === "stop" || finishReason === "tool_calls" ? "" : ` (${finishReason})`;
    return said === "" ? [] : [`Said${end}:`, ...indented(said)];
  }
  if (step.reply === undefined) return ["The model has not replied."];
  const { text } = step.reply.message;
  return text === "" ? [] : ["Said:", ...indented(text)];
}

function callLines(step: KeptStep, { byCall }: StepAttempts): readonly string[] {
  const calls = "tools" in step ? step.tools.calls : (step.reply?.message.toolCalls ?? []);
  const executions = "tools" in step ? step.tools.executions : step.executions;
  if (calls.length === 0) return [];
  const made = new Map(executions.map((execution) => [execution.call.callId, execution]));
  const lines = calls.flatMap(({ callId, toolName, argumentsText }) => {
    const execution = made.get(callId);
    const tries = attemptLines(byCall.get(callId)).map((line) => `    ${line}`);
    const head = [`  ${singleLine(toolName)} ${headOf(argumentsText)}`, ...tries];
    if (execution === undefined) return [...head, "    … has not ended"];
    const code = execution.errorCode === undefined ? "" : ` (${execution.errorCode})`;
    const took = durationText(execution.endedAtMs - execution.startedAtMs);
    return [...head, `    ${execution.type}${code}, ${took}`, ...indented(execution.text, "    ")];
  });
  return ["Calls:", ...lines];
}

function indented(text: string, by = "    "): readonly string[] {
  return headOf(text)
    .split("\n")
    .map((line) => by + line);
}
