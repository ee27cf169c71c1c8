// PlainView: shows runs as plain lines, one for each important event. Owns the start times of
// active runs. If the stream breaks, it stops.

import type { EspalierEvent, EventSink, EventType, RunId, Usage } from "../index.ts";
import {
  formatDuration,
  formatFullCount,
  describeCost,
  formatQuantity,
} from "../read-model/amounts.ts";
import type { TerminalStream } from "./live-area.ts";
import { HeldRows, PrintedText } from "./printed-text.ts";
import { formatQuestion } from "./question-lines.ts";
import { formatFirstLine, formatShortLine } from "./terminal-text.ts";

const TIME_WIDTH = 7;

export class PlainView implements EventSink {
  readonly isLive = false;
  readonly #stream: TerminalStream;
  readonly #startedAtMs = new Map<RunId, number>();
  readonly #text = new PrintedText();
  readonly #rows: HeldRows;
  #isStopped = false;

  constructor(stream: TerminalStream) {
    this.#stream = stream;
    this.#rows = new HeldRows((rows) => {
      if (!this.#isStopped) stream.write(rows);
    });
  }

  emit(event: EspalierEvent): void {
    if (this.#isStopped) return;
    if (event.type === "run.started" || event.type === "run.resumed") this.#begin(event);
    const line = formatEventLine(event);
    if (line !== undefined) this.#rows.add(`${this.#stamp(event)}  ${line}\n`);
    if (event.type === "run.ended" || event.type === "run.paused") this.#end(event.runId);
  }

  print(text: string): void {
    if (this.#isStopped) return;
    const rows = this.#text.take(text, Infinity);
    this.#rows.add(this.#startedAtMs.size > 0 ? rows : rows + this.#text.end());
  }

  suspend(): () => void {
    return this.#rows.suspend();
  }

  stop(): void {
    if (this.#isStopped) return;
    this.#rows.add(this.#text.end());
    this.#rows.flush();
    this.#onBroken();
  }

  #begin({ runId, atMs }: EspalierEvent<"run.started" | "run.resumed">): void {
    if (this.#startedAtMs.size === 0) this.#stream.on("error", this.#onBroken);
    this.#startedAtMs.set(runId, atMs);
  }

  #end(runId: RunId): void {
    this.#startedAtMs.delete(runId);
    if (this.#startedAtMs.size > 0) return;
    this.#rows.add(this.#text.end());
    this.#stream.off("error", this.#onBroken);
  }

  /**
   * Returns the time since the start or resume of the run, and the run id if several are active.
   */
  #stamp({ runId, atMs }: EspalierEvent): string {
    const sinceMs = atMs - (this.#startedAtMs.get(runId) ?? atMs);
    const time = formatDuration(sinceMs).padStart(TIME_WIDTH);
    return this.#startedAtMs.size > 1 ? `${time}  ${runId}` : time;
  }

  readonly #onBroken = (): void => {
    this.#isStopped = true;
    this.#startedAtMs.clear();
    this.#stream.off("error", this.#onBroken);
  };
}

const LONGEST_TEXT = 160;
/** Limit of error messages in events. */
const LONGEST_REASON = 500;
const PERCENT = 100;

/** Returns the line for an event, without its time. `undefined` for an unimportant event. */
export function formatEventLine<T extends EventType>(event: EspalierEvent<T>): string | undefined {
  const text = LINES[event.type]?.(event);
  return text === undefined ? undefined : `${formatShortLine(event.agentPath)} ${text}`;
}

const LINES: { readonly [T in EventType]?: (event: EspalierEvent<T>) => string | undefined } = {
  "agent.started": ({ task }) => `started: ${formatFirstLine(task, LONGEST_TEXT)}`,
  "agent.resumed": ({ task }) => `resumed: ${formatFirstLine(task, LONGEST_TEXT)}`,
  "agent.paused": ({ reason: { code, message } }) =>
    `paused (${formatShortLine(code)}: ${shortenDetail(message)})`,
  "agent.ended": describeAgentEnd,
  "step.completed": ({ number, usage }) => {
    const { toolCalls } = usage; // as reports count them: Finish is none
    const calls = toolCalls === 0 ? "" : `, ${formatQuantity(toolCalls, "tool call")}`;
    return `step ${number}: ${describeSpending(usage)}${calls}`;
  },
  "subagent.refused": ({ role, error: { code, message } }) =>
    `spawn of ${formatShortLine(role)} refused (${code}): ${shortenDetail(message)}`,
  "conversation.compacted": ({ messagesBefore, messagesAfter, tokensBefore, tokensAfter }) => {
    const messages = `${formatFullCount(messagesBefore)} to ${formatQuantity(messagesAfter, "message")}`;
    const tokens = `${formatFullCount(tokensBefore)} to ${formatQuantity(tokensAfter, "token")}`;
    return `conversation compacted: ${messages}, ${tokens}`;
  },
  // A signal from inside the run is shown at its origin.
  "message.delivered": ({ origin, characters }) =>
    origin === "steering" ? `was steered: ${formatQuantity(characters, "character")}` : undefined,
  "budget.granted": ({ by, budget }) =>
    `was granted more by ${shortenDetail(by)}: ${Object.keys(budget).join(", ")}`,
  "budget.threshold_reached": ({ threshold, axis }) =>
    `has spent ${Math.round(threshold * PERCENT)} % of its ${axis} budget`,
  "model.warned": ({ warning }) => `the model warned: ${shortenDetail(warning)}`,
  "model.retried": (event) => {
    const { nextModel } = event;
    const next = nextModel && `continuing with ${formatShortLine(nextModel.model)}`;
    return describeFailedAttempt(event, "", next);
  },
  "tool.retried": (event) => describeFailedAttempt(event, ` of ${formatShortLine(event.toolName)}`),
  // `subagent.refused` has its own line.
  "tool.rejected": (event) =>
    event.spawn === undefined ? describeFailedCall(event, event.reason) : undefined,
  "tool.ended": (event) => describeFailedCall(event),
  "result.summarized": ({ toolName, resultCharacters, usage }) => {
    const size = formatQuantity(resultCharacters, "character");
    return `result of ${formatShortLine(toolName)} summarised: ${size}, ${describeSpending(usage)}`;
  },
  // Only changed arguments are shown, because the call then differs from the model's reply.
  "hook.applied": ({ after, changedBy }) => {
    if (after === undefined) return undefined;
    const hooks = changedBy.map(({ hook }) => formatShortLine(hook)).join(", ");
    return `arguments of a call changed by ${hooks}`;
  },
  "run.paused": ({ questions, usage, durationMs }) => {
    const spent = `${describeSpending(usage.total)}, ${formatDuration(durationMs)}`;
    if (questions.length === 0) return `run paused: ${spent}`;
    return `run paused: ${formatQuantity(questions.length, "answer")} needed, ${spent}`;
  },
  "run.resumed": ({ answerCount, pausedMs }) =>
    `run resumed after ${formatDuration(pausedMs)}, with ${formatQuantity(answerCount, "answer")}`,
  "question.asked": (event) => {
    const { toolName, arguments: input, reason } = formatQuestion(event);
    return `input required: ${toolName} ${input}: ${reason}`;
  },
  "question.answered": (event) => `${formatShortLine(event.toolName)} ${formatAnswer(event)}`,
};

function describeAgentEnd(event: EspalierEvent<"agent.ended">): string {
  const { status, reason, stepCount, usage, durationMs } = event;
  const why = status === "completed" ? "" : ` (${reason.code}: ${shortenDetail(reason.message)})`;
  const subtree =
    usage.descendants.totalTokens === 0 ? "" : `, subtree ${describeSpending(usage.total)}`;
  const spent = `${formatQuantity(stepCount, "step")}, ${describeSpending(usage.own)}${subtree}`;
  return `${status}${why}: ${spent}, ${formatDuration(durationMs)}`;
}

function describeFailedAttempt(
  { attempt, error, delayMs }: EspalierEvent<"model.retried" | "tool.retried">,
  tool: string,
  next = `next attempt in ${formatDuration(delayMs)}`,
): string {
  return `attempt ${attempt}${tool} failed (${error.code}), ${next}: ${shortenDetail(error.message)}`;
}

function describeFailedCall(
  event: EspalierEvent<"tool.rejected" | "tool.ended">,
  reason = event.error?.message,
): string | undefined {
  const { toolName, outcome, error } = event;
  return isNews(event)
    ? `${formatShortLine(toolName)} ${outcome} (${error?.code})${formatReason(reason)}`
    : undefined;
}

type Answered = EspalierEvent<"question.answered">;

/** Returns the answer, its author or source, and the arguments that it changed, without the name of the tool. */
export function formatAnswer({
  answer,
  source,
  by,
  waitedMs,
  reason,
  arguments: changed,
}: Answered): string {
  const change =
    changed === undefined ? "" : ` with ${formatShortLine(JSON.stringify(changed), LONGEST_TEXT)}`;
  const decider = by === undefined ? SOURCES[source] : `by ${formatShortLine(by)}`;
  return `${ANSWERS[answer]} ${decider}${change} after ${formatDuration(waitedMs)}${formatReason(reason)}`;
}

const ANSWERS: Readonly<Record<Answered["answer"], string>> = {
  approved: "was approved",
  denied: "was denied",
  result: "was given its result",
  failure: "was reported as failed",
};

const SOURCES: Readonly<Record<Answered["source"], string>> = {
  approver: "by the approver",
  caller: "by the caller",
  deadline: "by its deadline",
  nobody: "because no approver is configured",
  end: "because its agent ended",
};

/**
 * Returns true for failures of tools, and for calls that a limit or a hook refused. Failures of
 * subagents, refused spawns and denials have their own lines.
 */
function isNews({ outcome, error }: EspalierEvent<"tool.rejected" | "tool.ended">): boolean {
  if (outcome === "retry") return true;
  if (outcome === "failed") return error?.code.startsWith("subagent_") !== true;
  return outcome === "refused" && REFUSALS.has(error?.code ?? "");
}

const REFUSALS: ReadonlySet<string> = new Set([
  "tool_call_limit",
  "tool_not_available",
  "blocked",
  "approval_check_failed",
]);

function describeSpending(usage: Usage): string {
  return `${formatQuantity(usage.totalTokens, "token")}, ${describeCost(usage)}`;
}

function formatReason(reason: string | undefined): string {
  return reason === undefined ? "" : `: ${formatShortLine(reason, LONGEST_REASON)}`;
}

function shortenDetail(text: string): string {
  return formatShortLine(text, LONGEST_TEXT);
}
