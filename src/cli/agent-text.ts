// Formats an agent with its steps, and one step with its content. Pure.

import { isDeepStrictEqual } from "node:util";

import type { EspalierEvent, JsonValue, Message } from "espalier";
import type {
  AgentDetail,
  AttemptFold,
  CallFold,
  RunFold,
  StepFold,
  RecordedExecution,
  RunRecord,
} from "espalier/view";

import { formatTable, type Column } from "../terminal/table.ts";
import {
  createPainter,
  stripControlCharacters,
  formatSingleLine,
} from "../terminal/terminal-text.ts";
import {
  AXES,
  formatCost,
  describeCost,
  formatDuration,
  formatQuantity,
  formatShortCount,
  formatFullCount,
} from "../read-model/amounts.ts";
import { formatAnswer } from "../terminal/plain-view.ts";
import { formatJsonLine, parseJsonOrText } from "./json-text.ts";
import { truncateWithCount, joinSections, type OutputStyle } from "./run-text.ts";

/** Returns the report of an agent. `fold` is the fold of its run. */
export function formatAgentReport(detail: AgentDetail, fold: RunFold, style: OutputStyle): string {
  const { task, refusals } = detail;
  const refused = refusals.map(
    ({ role, code, message }) => `  ⊘ spawn of ${role} refused (${code}): ${message}`,
  );
  const steps = describeSteps(detail, fold, style);
  const sections = [describeAgentHead(detail), ["Task:", truncateWithCount(task)], steps, refused];
  return joinSections(sections.map((lines) => lines.map(stripControlCharacters)));
}

function describeAgentHead(detail: AgentDetail): readonly string[] {
  const {
    agentPath,
    role,
    provider,
    model,
    status,
    reason,
    error,
    executionCount: executions,
  } = detail;
  const why = error ?? reason;
  const again = executions === 1 ? [] : [`execution ${executions}`];
  const isBrief = why === undefined || status === "completed";
  return [
    [agentPath, status, ...again].join(" · "),
    `${role}, ${model} (${provider})`,
    ...(isBrief ? [] : [`${why.code}: ${formatSingleLine(why.message)}`]),
    `own ${describeSpent(detail.own)} · with subagents ${describeSpent(detail.subtree)}`,
    ...describeBudgetLeft(detail),
  ];
}

function describeSpent(spent: AgentDetail["own"]): string {
  return `${formatQuantity(spent.totalTokens, "token")}, ${describeCost(spent)}`;
}

function describeBudgetLeft({ depth, budget, remaining: left }: AgentDetail): readonly string[] {
  const limited = AXES.flatMap(({ axis, label, text }) => {
    const limit = budget[axis];
    if (limit === undefined) return [];
    const rest = left?.[axis];
    return [`${label} ${rest === undefined ? "" : `${text(rest)} of `}${text(limit)}`];
  });
  // A subagent cannot spend more than its parent has left.
  const base = depth > 0 ? "left (at most what its parent has left)" : "left";
  return limited.length === 0 ? [] : [`${base}: ${limited.join(" · ")}`];
}

interface Line {
  readonly step: string;
  readonly calls: string;
  readonly time: string;
  readonly tokens: string;
  readonly cost: string;
}

const COLUMNS: readonly Column<Line>[] = [
  { title: "step", cell: ({ step }) => step },
  { title: "time", align: "right", cell: ({ time }) => time, rank: 3 },
  { title: "tokens", align: "right", cell: ({ tokens }) => tokens, rank: 2 },
  { title: "cost", align: "right", cell: ({ cost }) => cost, rank: 1 },
  { title: "calls", cell: ({ calls }) => calls, minWidth: 16 },
];

function describeSteps(
  { steps, executionCount: executions }: AgentDetail,
  fold: RunFold,
  { width, hasColor }: OutputStyle,
): readonly string[] {
  if (steps.length === 0) return ["No steps yet."];
  const rows = steps.flatMap((step) => describeStepLines(step, fold, executions > 1));
  return formatTable(COLUMNS, rows, width, createPainter(hasColor));
}

/** Returns a line for the step with its first call, and one for each further call. */
function describeStepLines(step: StepFold, fold: RunFold, isNumbered: boolean): readonly Line[] {
  const { execution, number, startedAtMs, endedAtMs, usage, error } = step;
  const calls = step.calls.flatMap((call) => [
    formatCallReport(call, fold),
    ...describeFailedAttempts(call.attempts).map((line) => `  ${line}`),
    ...(call.error?.message ? [`  ${formatSingleLine(call.error.message)}`] : []),
  ]);
  const broke = error === undefined ? [] : [`✖ ${error.code}: ${formatSingleLine(error.message)}`];
  const { repliedBy } = step;
  const instead =
    repliedBy === undefined ? [] : [formatSingleLine(`answered by ${nameFallback(repliedBy)}`)];
  const [first = "", ...others] = [
    ...describeFailedAttempts(step.attempts),
    ...instead,
    ...calls,
    ...broke,
  ];
  const blank = { step: "", time: "", tokens: "", cost: "" };
  const line = {
    step: isNumbered ? `${execution}.${number}` : String(number),
    time: endedAtMs === undefined ? "open" : formatDuration(endedAtMs - startedAtMs),
    tokens: usage === undefined ? "" : formatShortCount(usage.totalTokens),
    cost: usage === undefined ? "" : formatCost(usage),
    calls: first,
  };
  return [line, ...others.map((text) => ({ ...blank, calls: text }))];
}

function nameFallback({ model, insteadOf }: NonNullable<StepFold["repliedBy"]>): string {
  return `${model} (instead of ${insteadOf})`;
}

/** Returns a line for each failed attempt. */
export function describeFailedAttempts(attempts: readonly AttemptFold[] = []): readonly string[] {
  return attempts.map((failed) => {
    const { attempt, code, message } = failed;
    const why = message === "" ? "" : `: ${message}`;
    return formatSingleLine(
      `↻ attempt ${attempt} failed (${describeAttemptSequel(failed)}): ${code}${why}`,
    );
  });
}

/** Returns the reaction to a failed attempt. */
function describeAttemptSequel({ delayMs, nextModel }: AttemptFold): string {
  if (nextModel !== undefined) return `then ${nextModel}`;
  return delayMs === undefined ? "gave up" : `waited ${formatDuration(delayMs)}`;
}

const OUTCOMES: Readonly<Record<CallFold["outcome"], string>> = {
  open: "…",
  succeeded: "✔",
  retry: "✖ needs correction",
  failed: "✖",
  refused: "⊘ refused",
  not_executed: "– not executed",
  cancelled: "⊘ cancelled",
};

function formatCallReport(
  { toolName, outcome, error, durationMs, children }: CallFold,
  fold: RunFold,
): string {
  const path = fold.agents[children[0] ?? -1]?.agentPath;
  return [
    formatSingleLine(toolName),
    OUTCOMES[outcome],
    ...(error === undefined ? [] : [error.code]),
    ...(error?.name === undefined || error.name === error.code ? [] : [`(${error.name})`]),
    ...(durationMs === undefined ? [] : [formatDuration(durationMs)]),
    ...(path === undefined ? [] : [`→ ${path}`]),
  ].join(" ");
}

/** A completed or open step. */
export type KeptStep = RecordedExecution["steps"][number] | NonNullable<RecordedExecution["open"]>;

/** Failed attempts after which the step continued. */
export interface StepAttempts {
  readonly model: readonly AttemptFold[] | undefined;
  readonly byCall: ReadonlyMap<string, readonly AttemptFold[]>;
}

/** Parts of the text about a step. */
interface ShownStepParts {
  readonly agentPath: string;
  readonly execution: number;
  /** Number of steps in the execution, including an open one. */
  readonly stepCount: number;
  readonly step: KeptStep;
  /** Failed attempts of its model call, and of its tool calls by their ids. */
  readonly attempts: StepAttempts;
  /** Fallback model that answered the step. */
  readonly repliedBy: StepFold["repliedBy"];
  /** `undefined` if the request is not shown. */
  readonly request: Awaited<ReturnType<RunRecord["request"]>> | undefined;
  /** Answers to questions about its calls, by the ids of the calls. */
  readonly answers: ReadonlyMap<string, EspalierEvent<"question.answered">>;
  /** Returns the path of an ancestor by its id. */
  readonly findPath: (agentId: string) => string;
}

export function formatStepReport(parts: ShownStepParts): string {
  const { agentPath, execution, stepCount, step, request, attempts, repliedBy, answers } = parts;
  const model =
    repliedBy === undefined
      ? `${step.context.model.id} (${step.context.model.provider})`
      : nameFallback(repliedBy);
  const place = `${agentPath} · execution ${execution} · step ${step.number} of ${stepCount}`;
  return [
    [place, [model, ...describeStepFigures(step)].join(" · ")],
    request === undefined ? [] : ["Asked:", ...formatRequestLines(request, parts.findPath)],
    describeFailedAttempts(attempts.model),
    describeStepReply(step),
    describeCalls(step, attempts, answers),
    "error" in step && step.error !== undefined
      ? [`✖ ${step.error.code}: ${step.error.message}`]
      : [],
  ]
    .filter((lines) => lines.length > 0)
    .map((lines) => stripControlCharacters(lines.join("\n")))
    .join("\n\n");
}

function describeStepFigures(step: KeptStep): readonly string[] {
  if (!("telemetry" in step)) return ["open"];
  const { usage, startedAtMs, endedAtMs } = step.telemetry;
  const { inputTokens, cachedInputTokens, outputTokens } = usage;
  const cached = cachedInputTokens === 0 ? "" : ` (${formatFullCount(cachedInputTokens)} cached)`;
  return [
    `${formatFullCount(inputTokens)} in${cached}`,
    `${formatFullCount(outputTokens)} out`,
    describeCost(usage),
    formatDuration(endedAtMs - startedAtMs),
  ];
}

function formatRequestLines(
  { request, inheritedFrom }: NonNullable<ShownStepParts["request"]>,
  findPath: ShownStepParts["findPath"],
): readonly string[] {
  const messages = request.messages.flatMap((message, index) => {
    const from = inheritedFrom[index] ?? null;
    const origin = "origin" in message ? ` (${message.origin})` : "";
    const heir = from === null ? "" : `, from ${findPath(from)}`;
    return [`  ${message.role}${origin}${heir}`, ...indentLines(formatRequestMessage(message))];
  });
  const tools = request.tools.map(({ name }) => name);
  return [...messages, ...(tools.length === 0 ? [] : [`  tools: ${tools.join(", ")}`])];
}

function formatRequestMessage(message: Message): string {
  switch (message.role) {
    case "assistant": {
      const calls = message.toolCalls.map(
        ({ toolName, argumentsText }) => `→ ${toolName} ${truncateWithCount(argumentsText)}`,
      );
      return [...(message.text === "" ? [] : [message.text]), ...calls].join("\n");
    }
    case "tool":
      return `${message.toolName}: ${message.text}`;
    default:
      return message.text;
  }
}

function describeStepReply(step: KeptStep): readonly string[] {
  if ("io" in step) {
    const { text, refusal, finishReason } = step.io;
    const reply = refusal ?? text;
    const end =
      finishReason === "stop" || finishReason === "tool_calls" ? "" : ` (${finishReason})`;
    return reply === "" ? [] : [`Said${end}:`, ...indentLines(reply)];
  }
  if (step.reply === undefined) return ["No reply yet."];
  const { text } = step.reply.message;
  return text === "" ? [] : ["Said:", ...indentLines(text)];
}

function describeCalls(
  step: KeptStep,
  { byCall }: StepAttempts,
  answers: ShownStepParts["answers"],
): readonly string[] {
  const calls = "tools" in step ? step.tools.calls : (step.reply?.message.toolCalls ?? []);
  const executions = "tools" in step ? step.tools.executions : step.executions;
  if (calls.length === 0) return [];
  const executed = new Map(executions.map((execution) => [execution.call.callId, execution]));
  const lines = calls.flatMap(({ callId, toolName, argumentsText }) => {
    const execution = executed.get(callId);
    const tries = describeFailedAttempts(byCall.get(callId)).map((line) => `    ${line}`);
    const answered = answers.get(callId);
    const head = [
      `  ${formatSingleLine(toolName)} ${truncateWithCount(argumentsText)}`,
      ...(answered === undefined ? [] : [`    ${formatAnswer(answered)}`]),
      ...describeChangedArguments(argumentsText, execution?.arguments),
      ...tries,
    ];
    if (execution === undefined) return [...head, "    … has not ended"];
    const code = execution.errorCode === undefined ? "" : ` (${execution.errorCode})`;
    const took = formatDuration(execution.endedAtMs - execution.startedAtMs);
    return [
      ...head,
      `    ${execution.type}${code}, ${took}`,
      ...indentLines(execution.text, "    "),
    ];
  });
  return ["Calls:", ...lines];
}

/** Returns a line with the arguments that the tool received, unless the model wrote the same. */
function describeChangedArguments(
  argumentsText: string,
  received: JsonValue | undefined,
): readonly string[] {
  if (received === undefined || isDeepStrictEqual(parseJsonOrText(argumentsText), received))
    return [];
  return [`    received ${truncateWithCount(formatJsonLine(received))}`];
}

function indentLines(text: string, by = "    "): readonly string[] {
  return truncateWithCount(text)
    .split("\n")
    .map((line) => by + line);
}
