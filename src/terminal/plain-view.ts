// PlainView: runs as plain lines, one for each event that is worth it. Owns when the active runs began. A
// stream that breaks silences it.

import type { EspalierEvent, EventSink, RunId, Usage } from "../index.ts";
import { durationText, countText, costWords, numberOf } from "../view/amounts.ts";
import type { TerminalStream } from "./live-area.ts";
import { HeldRows, PrintedText } from "./printed-text.ts";
import { questionText } from "./question-lines.ts";
import { firstLine, shortLine } from "./terminal-text.ts";

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
    const line = plainLine(event);
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

  /** Time since the start of the run, or since it was resumed, and which run if there are several. */
  #stamp({ runId, atMs }: EspalierEvent): string {
    const sinceMs = atMs - (this.#startedAtMs.get(runId) ?? atMs);
    const time = durationText(sinceMs).padStart(TIME_WIDTH);
    return this.#startedAtMs.size > 1 ? `${time}  ${runId}` : time;
  }

  readonly #onBroken = (): void => {
    this.#isStopped = true;
    this.#startedAtMs.clear();
    this.#stream.off("error", this.#onBroken);
  };
}

const LONGEST_TEXT = 160;
/** Events have no longer messages of failed calls. */
const LONGEST_REASON = 500;
const PERCENT = 100;

/** The line for an event, without its time; undefined if the event is not worth one. */
export function plainLine(event: EspalierEvent): string | undefined {
  const text = describeAgentEvent(event) ?? describeCallEvent(event) ?? describePauseEvent(event);
  return text === undefined ? undefined : `${shortLine(event.agentPath)} ${text}`;
}

/** What an agent does, and what is done to it. */
function describeAgentEvent(event: EspalierEvent): string | undefined {
  switch (event.type) {
    case "agent.started":
      return `started: ${firstLine(event.task, LONGEST_TEXT)}`;
    case "agent.ended":
      return endText(event);
    case "step.completed": {
      const { number, usage, toolCallCount } = event;
      const asked = toolCallCount === 0 ? "" : `, ${numberOf(toolCallCount, "tool call")}`;
      return `step ${number}: ${spentText(usage)}${asked}`;
    }
    case "subagent.refused": {
      const { code, message } = event.refusal;
      return `spawn of ${shortLine(event.role)} refused (${code}): ${short(message)}`;
    }
    case "conversation.compacted": {
      const { messagesBefore, messagesAfter, tokensBefore, tokensAfter } = event;
      const messages = `${countText(messagesBefore)} to ${numberOf(messagesAfter, "message")}`;
      const tokens = `${countText(tokensBefore)} to ${numberOf(tokensAfter, "token")}`;
      return `conversation compacted: ${messages}, ${tokens}`;
    }
    case "message.delivered": {
      // A signal from inside the run is shown where it arose.
      const { origin, characters } = event;
      return origin === "steering"
        ? `was steered: ${numberOf(characters, "character")}`
        : undefined;
    }
    case "budget.granted":
      return `was granted more by ${short(event.by)}: ${Object.keys(event.budget).join(", ")}`;
    case "budget.threshold_reached":
      return `has spent ${Math.round(event.threshold * PERCENT)} % of its ${event.axis} budget`;
    default:
      return undefined;
  }
}

function endText(event: EspalierEvent<"agent.ended">): string {
  const { status, reason, stepCount, usage, durationMs } = event;
  const why = status === "completed" ? "" : ` (${reason.code}: ${short(reason.message)})`;
  const subtree = usage.descendants.totalTokens === 0 ? "" : `, subtree ${spentText(usage.total)}`;
  const spent = `${numberOf(stepCount, "step")}, ${spentText(usage.own)}${subtree}`;
  return `${status}${why}: ${spent}, ${durationText(durationMs)}`;
}

/** What went wrong with a model call or a tool call, or was done about it. */
function describeCallEvent(event: EspalierEvent): string | undefined {
  switch (event.type) {
    case "model.warned":
      return `the model warned: ${short(event.warning)}`;
    case "model.retried":
    case "tool.retried": {
      const { attempt, error, delayMs } = event;
      const model = event.type === "model.retried" ? event.nextModel?.model : undefined;
      const tool = event.type === "tool.retried" ? ` of ${shortLine(event.toolName)}` : "";
      const next =
        model === undefined
          ? `next attempt in ${durationText(delayMs)}`
          : `continuing with ${shortLine(model)}`;
      return `attempt ${attempt}${tool} failed (${error.code}), ${next}: ${short(error.message)}`;
    }
    case "tool.rejected":
    case "tool.ended": {
      if (!isNews(event)) return undefined;
      const { toolName, outcome, errorCode, message } = event;
      const { reason, spawn } = event.type === "tool.rejected" ? event : {};
      if (spawn !== undefined) return undefined; // `subagent.refused` has a line of its own.
      return `${shortLine(toolName)} ${outcome} (${errorCode})${whyText(reason ?? message)}`;
    }
    case "result.summarized": {
      const { toolName, resultCharacters, usage } = event;
      const size = numberOf(resultCharacters, "character");
      return `result of ${shortLine(toolName)} summarised: ${size}, ${spentText(usage)}`;
    }
    case "hook.applied": {
      // Only what changes the arguments of a call: then something else is done than the model wrote.
      if (event.after === undefined) return undefined;
      const hooks = event.changedBy.map(({ hook }) => shortLine(hook)).join(", ");
      return `arguments of a call changed by ${hooks}`;
    }
    default:
      return undefined;
  }
}

/** What leads to a pause, and out of it. */
function describePauseEvent(event: EspalierEvent): string | undefined {
  switch (event.type) {
    case "agent.paused":
      return `paused (${shortLine(event.reason.code)}: ${short(event.reason.message)})`;
    case "agent.resumed":
      return `resumed: ${firstLine(event.task, LONGEST_TEXT)}`;
    case "run.paused": {
      const { questions, usage, durationMs } = event;
      const spent = `${spentText(usage.total)}, ${durationText(durationMs)}`;
      if (questions.length === 0) return `run paused: ${spent}`;
      return `run paused: ${numberOf(questions.length, "answer")} needed, ${spent}`;
    }
    case "run.resumed": {
      const answers = numberOf(event.answerCount, "answer");
      return `run resumed after ${durationText(event.pausedMs)}, with ${answers}`;
    }
    case "question.asked": {
      const { toolName, arguments: given, reason } = questionText(event.question);
      return `needs you: ${toolName} ${given}: ${reason}`;
    }
    case "question.answered": {
      const { toolName, answer, by, waitedMs, reason } = event;
      const said = `${ANSWERS[answer]} ${DECIDERS[by]}`;
      return `${shortLine(toolName)} ${said} after ${durationText(waitedMs)}${whyText(reason)}`;
    }
    default:
      return undefined;
  }
}

type Answered = EspalierEvent<"question.answered">;

const ANSWERS: Readonly<Record<Answered["answer"], string>> = {
  approved: "was approved",
  denied: "was denied",
  result: "was given its result",
  failure: "was reported as failed",
};

const DECIDERS: Readonly<Record<Answered["by"], string>> = {
  approver: "by the approver",
  caller: "by the caller",
  deadline: "by its deadline",
  nobody: "because no approver is configured",
  end: "because its agent ended",
};

/**
 * Failures of tools, and calls that a limit or a hook refused. Those of subagents, refused spawns
 * and denials have a line of their own already.
 */
function isNews({ outcome, errorCode }: EspalierEvent<"tool.rejected" | "tool.ended">): boolean {
  if (outcome === "retry") return true;
  if (outcome === "failed") return errorCode?.startsWith("subagent_") !== true;
  return outcome === "refused" && REFUSALS.has(errorCode ?? "");
}

const REFUSALS: ReadonlySet<string> = new Set([
  "tool_call_limit",
  "tool_not_available",
  "blocked",
  "approval_check_failed",
]);

function spentText(usage: Usage): string {
  return `${numberOf(usage.totalTokens, "token")}, ${costWords(usage)}`;
}

function whyText(reason: string | undefined): string {
  return reason === undefined ? "" : `: ${shortLine(reason, LONGEST_REASON)}`;
}

function short(text: string): string {
  return shortLine(text, LONGEST_TEXT);
}
