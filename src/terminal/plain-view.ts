// PlainView: shows runs as plain lines, one for each important event. Owns the start times of
// active runs. If the stream breaks, it stops.

import type { EspalierEvent, EventSink, RunId, Usage } from "../index.ts";
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
export function formatEventLine(event: EspalierEvent): string | undefined {
  const text = describeAgentEvent(event) ?? describeCallEvent(event) ?? describePauseEvent(event);
  return text === undefined ? undefined : `${formatShortLine(event.agentPath)} ${text}`;
}

/** Describes the activity of an agent, and external influences on it. */
function describeAgentEvent(event: EspalierEvent): string | undefined {
  switch (event.type) {
    case "agent.started":
      return `started: ${formatFirstLine(event.task, LONGEST_TEXT)}`;
    case "agent.ended":
      return describeAgentEnd(event);
    case "step.completed": {
      const { number, usage } = event;
      const { toolCalls } = usage; // as reports count them: Finish is none
      const calls = toolCalls === 0 ? "" : `, ${formatQuantity(toolCalls, "tool call")}`;
      return `step ${number}: ${describeSpending(usage)}${calls}`;
    }
    case "subagent.refused": {
      const { code, message } = event.error;
      return `spawn of ${formatShortLine(event.role)} refused (${code}): ${shortenDetail(message)}`;
    }
    case "conversation.compacted": {
      const { messagesBefore, messagesAfter, tokensBefore, tokensAfter } = event;
      const messages = `${formatFullCount(messagesBefore)} to ${formatQuantity(messagesAfter, "message")}`;
      const tokens = `${formatFullCount(tokensBefore)} to ${formatQuantity(tokensAfter, "token")}`;
      return `conversation compacted: ${messages}, ${tokens}`;
    }
    case "message.delivered": {
      // A signal from inside the run is shown at its origin.
      const { origin, characters } = event;
      return origin === "steering"
        ? `was steered: ${formatQuantity(characters, "character")}`
        : undefined;
    }
    case "budget.granted":
      return `was granted more by ${shortenDetail(event.by)}: ${Object.keys(event.budget).join(", ")}`;
    case "budget.threshold_reached":
      return `has spent ${Math.round(event.threshold * PERCENT)} % of its ${event.axis} budget`;
    default:
      return undefined;
  }
}

function describeAgentEnd(event: EspalierEvent<"agent.ended">): string {
  const { status, reason, stepCount, usage, durationMs } = event;
  const why = status === "completed" ? "" : ` (${reason.code}: ${shortenDetail(reason.message)})`;
  const subtree =
    usage.descendants.totalTokens === 0 ? "" : `, subtree ${describeSpending(usage.total)}`;
  const spent = `${formatQuantity(stepCount, "step")}, ${describeSpending(usage.own)}${subtree}`;
  return `${status}${why}: ${spent}, ${formatDuration(durationMs)}`;
}

/** Describes problems of a model call or a tool call, and the reactions to them. */
function describeCallEvent(event: EspalierEvent): string | undefined {
  switch (event.type) {
    case "model.warned":
      return `the model warned: ${shortenDetail(event.warning)}`;
    case "model.retried":
    case "tool.retried": {
      const { attempt, error, delayMs } = event;
      const model = event.type === "model.retried" ? event.nextModel?.model : undefined;
      const tool = event.type === "tool.retried" ? ` of ${formatShortLine(event.toolName)}` : "";
      const next =
        model === undefined
          ? `next attempt in ${formatDuration(delayMs)}`
          : `continuing with ${formatShortLine(model)}`;
      return `attempt ${attempt}${tool} failed (${error.code}), ${next}: ${shortenDetail(error.message)}`;
    }
    case "tool.rejected":
    case "tool.ended": {
      if (!isNews(event)) return undefined;
      const { toolName, outcome, error } = event;
      const { reason, spawn } = event.type === "tool.rejected" ? event : {};
      if (spawn !== undefined) return undefined; // `subagent.refused` has its own line.
      return `${formatShortLine(toolName)} ${outcome} (${error?.code})${formatReason(reason ?? error?.message)}`;
    }
    case "result.summarized": {
      const { toolName, resultCharacters, usage } = event;
      const size = formatQuantity(resultCharacters, "character");
      return `result of ${formatShortLine(toolName)} summarised: ${size}, ${describeSpending(usage)}`;
    }
    case "hook.applied": {
      // Only changed arguments are shown, because the call then differs from the model's reply.
      if (event.after === undefined) return undefined;
      const hooks = event.changedBy.map(({ hook }) => formatShortLine(hook)).join(", ");
      return `arguments of a call changed by ${hooks}`;
    }
    default:
      return undefined;
  }
}

/** Describes pauses and resumes. */
function describePauseEvent(event: EspalierEvent): string | undefined {
  switch (event.type) {
    case "agent.paused":
      return `paused (${formatShortLine(event.reason.code)}: ${shortenDetail(event.reason.message)})`;
    case "agent.resumed":
      return `resumed: ${formatFirstLine(event.task, LONGEST_TEXT)}`;
    case "run.paused": {
      const { questions, usage, durationMs } = event;
      const spent = `${describeSpending(usage.total)}, ${formatDuration(durationMs)}`;
      if (questions.length === 0) return `run paused: ${spent}`;
      return `run paused: ${formatQuantity(questions.length, "answer")} needed, ${spent}`;
    }
    case "run.resumed": {
      const answers = formatQuantity(event.answerCount, "answer");
      return `run resumed after ${formatDuration(event.pausedMs)}, with ${answers}`;
    }
    case "question.asked": {
      const { toolName, arguments: input, reason } = formatQuestion(event);
      return `input required: ${toolName} ${input}: ${reason}`;
    }
    case "question.answered":
      return `${formatShortLine(event.toolName)} ${formatAnswer(event)}`;
    default:
      return undefined;
  }
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
