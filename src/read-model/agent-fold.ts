// AgentFold: the state of an agent, folded from its events: numbers, names and times, without the
// content of its steps. Updated in place by its `RunFold`.

import type { InheritanceRecord } from "../protocol/context-manifest.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import { handleEvent, type EventHandlers } from "../protocol/event-handlers.ts";
import type { AgentId, CallId, ExecutionId, QuestionId, StepId } from "../protocol/ids.ts";
import { SETTLED_STATUSES, type ExecutionEnd } from "./agent-end.ts";
import { raiseAmounts } from "./amounts.ts";
import { BudgetUse } from "./budget-use.ts";
import { ModelCalls } from "./model-calls.ts";
import { SPAN_END_OF, SpanList, type SpanEnding } from "./span-list.ts";
import { addCall, endCall, endStep, createAttempt } from "./step-fold.ts";
import type { CallFold, CallUnderWay, StepFold } from "./step-fold.ts";
import type { ActivityName, Spent } from "./viewer-data.ts";

interface AskFold extends CallUnderWay {
  readonly kind: "question";
  readonly span: number;
}

/** Position of an agent in the tree of its run. */
export interface AgentPlace {
  /** Position in `RunFold.agents`, from 0. */
  readonly index: number;
  /** Parent agent. `undefined` for the root. */
  readonly parent: AgentFold | undefined;
  /** Start of the run in milliseconds since the epoch. Spans are relative to it. */
  readonly runStartedAtMs: number;
  /**
   * Context that the agent inherited from its parent. `undefined` for the root, or if the spawn was
   * not folded.
   */
  readonly inherited: InheritanceRecord | undefined;
}

/**
 * State of an agent, folded from its events: activity, steps, tool calls, costs and waits. Without
 * prompts, arguments and results.
 *
 * `RunFold` updates the agent in place with each event. Copy values that must not change.
 *
 * @example
 * ```ts
 * import type { AgentFold } from "espalier/view";
 *
 * function printTree(agent: AgentFold): void {
 *   console.log(`${"  ".repeat(agent.depth)}${agent.name}: ${agent.activity}, step ${agent.step}`);
 *   for (const child of agent.children) printTree(child);
 * }
 * if (fold.root !== undefined) printTree(fold.root);
 * ```
 */
export class AgentFold {
  /** Position in `RunFold.agents`, from 0. */
  readonly index: number;
  /** Parent agent. `undefined` for the root. */
  readonly parent: AgentFold | undefined;
  /** Subagents in the order of their first start. */
  readonly children: AgentFold[] = [];
  /** Id of the agent. */
  readonly agentId: AgentId;
  /** Path in the agent tree, for example `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth in the agent tree; 0 for the root. */
  readonly depth: number;
  /** Name of the agent's role. */
  readonly role: string;
  /**
   * Context that the agent inherited from its parent. `undefined` for the root, or if the spawn was
   * not folded.
   */
  readonly inherited: InheritanceRecord | undefined;
  /** Provider of the agent's model, for example `openai`. */
  provider: string;
  /** Id of the agent's model, for example `gpt-5-mini`. */
  model: string;
  /** Task of the last execution. */
  task: string;
  /** Id of the last execution. */
  executionId: ExecutionId | null;
  /** Number of executions: 1, plus 1 for each follow-up task after an end. */
  executionCount = 1;
  /** First start of the agent in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Start of the last execution in milliseconds since the epoch. */
  executionStartedAtMs: number;
  /**
   * Current activity, or the status with which the agent paused or ended.
   *
   * @example
   * ```ts
   * const waiting = fold.agents.filter(({ activity }) => activity === "awaiting_budget");
   * for (const { name, waitsForBudgetOf } of waiting)
   *   console.log(name, "waits for budget of", waitsForBudgetOf?.name);
   * ```
   */
  activity: ActivityName = "preparing";
  /** Start of the current activity in milliseconds since the epoch. */
  sinceMs: number;
  /**
   * Latest retry of a model call. Use it while `activity` is `retrying`. `undefined` if no model
   * call was retried.
   *
   * @example
   * ```ts
   * for (const { name, activity, retry } of fold.agents)
   *   if (activity === "retrying") console.log(name, retry?.attempt, retry?.code);
   * ```
   */
  retry:
    | {
        /** Number of the next attempt, from 1. */
        readonly attempt: number;
        /** Error code of the failed attempt, for example `model_rate_limited`. */
        readonly code: string;
      }
    | undefined;
  /**
   * How the last execution ended or paused. `undefined` while the agent is active, or after a crash
   * of its process.
   */
  end: ExecutionEnd | undefined;
  /** Number of the current step in the last execution; 0 before the first step. */
  step = 0;
  /** Budget of the agent at its start plus later grants, by axis. Only limited axes are present. */
  budget: Readonly<Record<string, number>>;
  /** Number of refused spawns of this agent. */
  refusalCount = 0;
  /** Number of this agent's tool calls that failed or had to be corrected by the model. */
  toolErrorCount = 0;
  /**
   * Steps of all executions, oldest first.
   *
   * @example
   * ```ts
   * for (const { number, calls } of fold.root?.steps ?? [])
   *   for (const { toolName, outcome } of calls) console.log(number, toolName, outcome);
   * ```
   */
  readonly steps: StepFold[] = [];
  /** Timeline of the agent: its model calls, tool calls and waits. */
  readonly spans: SpanList;
  /** Number of the journal record that last changed the agent. */
  record = 0;
  /** Calls that have not ended, also calls that wait for a paused subagent. */
  readonly #calls = new Map<CallId, CallFold>();
  /** Open spans of running calls. */
  readonly #callSpans = new Map<CallFold, number>();
  readonly #asks = new Map<QuestionId, AskFold>();
  readonly #modelCalls: ModelCalls;
  readonly #use: BudgetUse;
  #openTools = 0;
  #openDelegations = 0;
  /** Id of the open step. */
  #stepId: StepId | null = null;
  /** Position of the span of the present pause; -1 while the agent is active. */
  #park = -1;
  /** Number of the event that began the last execution. */
  #startSeq: number;
  /** Ends of earlier executions. `undefined` if there was only one execution. */
  #earlierRests: readonly ExecutionEnd[] | undefined;

  /** Creates the agent from its first event. Called by `RunFold`. */
  constructor(event: EspalierEvent<"agent.started" | "agent.resumed">, place: AgentPlace) {
    this.index = place.index;
    this.parent = place.parent;
    this.inherited = place.inherited;
    this.spans = new SpanList(place.runStartedAtMs);
    this.#modelCalls = new ModelCalls(this.spans);
    this.agentId = event.agentId;
    this.agentPath = event.agentPath;
    this.depth = event.depth;
    this.role = event.role;
    this.provider = event.provider;
    this.model = event.model;
    this.task = event.task;
    this.executionId = event.executionId;
    this.budget = event.budget;
    this.#use = new BudgetUse(
      place.parent === undefined ? undefined : place.parent.#use,
      event.budget,
    );
    this.startedAtMs = event.atMs;
    this.executionStartedAtMs = event.atMs;
    this.#startSeq = event.seq;
    this.sinceMs = event.atMs;
  }

  /** Last part of the path, for example `researcher#2`. */
  get name(): string {
    return this.agentPath.slice(this.agentPath.lastIndexOf("/") + 1);
  }

  /**
   * Agent whose budget must free up before the next model call: this agent or an ancestor.
   * `undefined` if no model call waits for budget.
   */
  get waitsForBudgetOf(): AgentFold | undefined {
    const path = this.#modelCalls.lackingPath;
    return path === undefined ? undefined : findAccountHolder(this, path);
  }

  /** Tokens and cost of the agent's own model calls. */
  get own(): Spent {
    return this.#use.own;
  }

  /** Tokens and cost of the agent and all its descendants. */
  get subtree(): Spent {
    return this.#use.subtree;
  }

  /**
   * Unspent budget by axis, never more than the parent has. Reservations of calls in flight count
   * as unspent. Only limited axes are present.
   */
  get remaining(): Record<string, number> {
    return this.#use.computeLeft();
  }

  /**
   * Amounts that the agent itself used of its budget, without its subagents. Only limited axes are
   * present.
   */
  get used(): Readonly<Record<string, number>> {
    return this.#use.computeUsed(this.budget);
  }

  /**
   * Running tool calls, oldest first, then open questions.
   *
   * @example
   * ```ts
   * for (const { name, openCalls } of fold.agents)
   *   console.log(name, openCalls.map(({ kind, toolName }) => `${kind} ${toolName}`).join(", "));
   * ```
   */
  get openCalls(): readonly CallUnderWay[] {
    const calls = [...this.#calls.values()].filter((call) => this.#callSpans.has(call));
    return [...calls, ...this.#asks.values()];
  }

  /** True unless the agent is paused or ended, or only waits for budget, subagents or answers. */
  get isWorking(): boolean {
    return !IDLE.has(this.activity);
  }

  /**
   * Returns how the last execution that settled before event number `seq` ended or paused.
   * `undefined` if no execution had settled.
   */
  findEndBefore(seq: number): ExecutionEnd | undefined {
    const { end } = this;
    if (end !== undefined && end.endSeq < seq) return end;
    return this.#earlierRests?.findLast(({ endSeq }) => endSeq < seq);
  }

  /** True if the agent is paused or ended. */
  get isSettled(): boolean {
    return SETTLED_STATUSES.some((status) => status === this.activity);
  }

  /** Records that a journal record changed the agent. Called by `RunFold`. */
  touch(record: number): void {
    this.record = record;
    this.spans.record = record;
  }

  /** Applies one event of this agent. Called by `RunFold.apply`. */
  apply(event: EspalierEvent): void {
    this.#use.take(event);
    handleEvent(AgentFold.#HANDLERS, event, this);
    if (AgentFold.#CALL_HANDLERS[event.type] === undefined) return;
    handleEvent(AgentFold.#CALL_HANDLERS, event, this);
    this.#updateActivity(event.atMs);
  }

  static readonly #HANDLERS: EventHandlers<[AgentFold]> = {
    "agent.started": (event, agent) => agent.#begin(event),
    "agent.resumed": (event, agent) => agent.#begin(event),
    "agent.paused": (event, agent) => agent.#settle(event),
    "agent.ended": (event, agent) => agent.#settle(event),
    "step.started": (event, agent) => agent.#openStep(event),
    "step.completed": (event, agent) => agent.#completeStep(event),
    "budget.granted": ({ budget }, agent) => {
      agent.budget = raiseAmounts(agent.budget, budget);
    },
    "tool.retried": (event, agent) => {
      agent.findCall(event.callId)?.attempts.push(createAttempt(event));
    },
    "subagent.refused": (_event, agent) => {
      agent.refusalCount += 1;
    },
  };

  /** Handlers of events that can change the activity of a working agent. */
  static readonly #CALL_HANDLERS: EventHandlers<[AgentFold]> = {
    "budget.queued": (event, agent) => {
      const account = findAccountHolder(agent, event.accountPath)?.index;
      agent.#modelCalls.awaitBudget(event, agent.#findStepNumber(event), account);
    },
    "budget.dequeued": (event, agent) => agent.#modelCalls.endBudgetWait(event),
    "budget.reserved": (event, agent) =>
      agent.#modelCalls.reserve(event, agent.#findStepNumber(event)),
    "budget.refused": (event, agent) => agent.#modelCalls.endWaits(event, "failed"),
    "budget.released": (event, agent) => agent.#modelCalls.endWaits(event, "failed"),
    "budget.settled": (event, agent) => agent.#modelCalls.endWaits(event, "failed"),
    "model.requested": (event, agent) => agent.#modelCalls.open(event, agent.step),
    "model.retried": (event, agent) => agent.#retry(event),
    "model.replied": (event, agent) => {
      agent.#modelCalls.close(event);
      const { repliedBy, atMs } = event;
      if (repliedBy !== undefined) agent.#getStep(agent.step, atMs).repliedBy = repliedBy;
    },
    "model.failed": (event, agent) => {
      agent.#modelCalls.close(event);
      if (event.error.code !== "cancelled")
        agent.#getStep(agent.step, event.atMs).attempts.push(createAttempt(event));
    },
    "tool.started": (event, agent) => agent.#openCall(event),
    "tool.resumed": (event, agent) => agent.#openCall(event),
    "tool.paused": (event, agent) => agent.#pauseCall(event),
    "tool.rejected": (event, agent) => agent.#closeCall(event),
    "tool.ended": (event, agent) => agent.#closeCall(event),
    "question.asked": (event, agent) => agent.#ask(event),
    "question.answered": (event, agent) => agent.#answer(event),
  };

  /** Starts an execution, or continues it after a pause or a crash. */
  #begin(event: EspalierEvent<"agent.started" | "agent.resumed">): void {
    const { atMs, task, executionId } = event;
    if (event.type === "agent.started" && executionId !== this.executionId) {
      if (this.end !== undefined) this.#earlierRests = [...(this.#earlierRests ?? []), this.end];
      this.executionCount += 1;
      this.#startSeq = event.seq;
      this.executionStartedAtMs = atMs;
      this.step = 0;
      this.task = task;
    }
    this.executionId = executionId;
    this.provider = event.provider;
    this.model = event.model;
    this.end = undefined;
    if (this.#park !== -1) this.spans.close(this.#park, atMs, "ok");
    this.#park = -1;
    this.#setActivity("preparing", atMs);
  }

  /** Ends or pauses the agent, and everything in flight. Questions of a paused agent stay open. */
  #settle(event: EspalierEvent<"agent.paused" | "agent.ended">): void {
    const { atMs, reason } = event;
    this.#cut(atMs);
    const at = { execution: this.executionCount, startSeq: this.#startSeq, endSeq: event.seq };
    if (event.type === "agent.paused") {
      const durationMs = atMs - this.executionStartedAtMs;
      this.end = { status: "paused", reason, atMs, durationMs, step: this.step, ...at };
      this.#park = this.spans.open("park", atMs, this.step);
    } else {
      const { status, error, durationMs, stepCount } = event;
      this.end = { status, reason, error, atMs, durationMs, step: stepCount, ...at };
      this.step = stepCount;
      this.#dropAsks(atMs);
      this.#calls.clear();
    }
    this.#setActivity(this.end.status, atMs);
  }

  /** Marks the agent as paused, since its process died at `atMs`. Called by `RunFold`. */
  markLost(atMs: number): void {
    this.#cut(atMs);
    this.#dropAsks(atMs);
    if (this.#park === -1) this.#park = this.spans.open("park", atMs, this.step);
    this.#setActivity("paused", atMs);
  }

  /** Ends everything in flight except questions. */
  #cut(atMs: number): void {
    for (const call of this.#calls.values()) this.#closeCallSpan(call, atMs, "cut");
    this.#modelCalls.cut(atMs);
  }

  #dropAsks(atMs: number): void {
    for (const ask of this.#asks.values()) this.spans.close(ask.span, atMs, "cut");
    this.#asks.clear();
  }

  #setActivity(activity: ActivityName, atMs: number): void {
    if (activity === this.activity) return;
    this.activity = activity;
    this.sinceMs = atMs;
  }

  /**
   * Returns the step of a starting model call. A call outside an open step belongs to the next
   * step.
   */
  #findStepNumber({ callId, stepId }: EspalierEvent): number {
    const isOfOpenStep = stepId !== null && stepId === this.#stepId;
    return callId === null && !isOfOpenStep ? this.step + 1 : this.step;
  }

  #openStep({ number, atMs, stepId }: EspalierEvent<"step.started">): void {
    this.#stepId = stepId;
    this.step = number;
    const last = this.steps.at(-1);
    if (last?.number === number && last.execution === this.executionCount) return;
    this.#addStep(number, atMs);
  }

  #completeStep(event: EspalierEvent<"step.completed">): void {
    const { number, atMs } = event;
    this.#stepId = null;
    this.step = number;
    endStep(this.#getStep(number, atMs), event);
    this.#calls.clear();
  }

  #retry(event: EspalierEvent<"model.retried">): void {
    const { error, nextModel } = event;
    const attempt = nextModel === undefined ? event.attempt + 1 : event.attempt;
    this.#getStep(this.step, event.atMs).attempts.push(createAttempt(event));
    this.retry = { attempt, code: error.code };
    this.#modelCalls.retry(event);
  }

  #openCall(event: EspalierEvent<"tool.started" | "tool.resumed">): void {
    const { callId, toolName, atMs, index } = event;
    if (callId === null) return;
    const kind = event.kind === "delegation" ? "delegation" : "tool";
    const call = this.#calls.get(callId) ?? this.#addCall({ callId, toolName, kind, index }, atMs);
    if (!this.#callSpans.has(call)) {
      const span = this.spans.open(kind === "tool" ? "tool" : "wait", atMs, this.step);
      this.#callSpans.set(call, span);
      if (kind === "tool") this.#openTools += 1;
      else this.#openDelegations += 1;
    }
  }

  #pauseCall({ callId, atMs }: EspalierEvent<"tool.paused">): void {
    const call = callId === null ? undefined : this.#calls.get(callId);
    if (call !== undefined) this.#closeCallSpan(call, atMs, "cut");
  }

  #closeCall(event: EspalierEvent<"tool.ended" | "tool.rejected">): void {
    const { callId, toolName, atMs, outcome } = event;
    if (outcome === "failed" || outcome === "retry") this.toolErrorCount += 1;
    if (callId === null) return;
    const isEnd = event.type === "tool.ended";
    const kind = !isEnd && event.kind === "delegation" ? "delegation" : "tool";
    const index = isEnd ? 0 : event.index;
    const call = this.#calls.get(callId) ?? this.#addCall({ callId, toolName, kind, index }, atMs);
    if (isEnd && event.queuedMs > 0) {
      const beganAtMs = call.startedAtMs - event.queuedMs;
      this.spans.add("queue", { beganAtMs, atMs: call.startedAtMs, end: "ok" }, this.step);
    }
    if (!isEnd && !this.#callSpans.has(call))
      this.spans.add("tool", { beganAtMs: atMs, atMs, end: "rejected" }, this.step);
    this.#closeCallSpan(call, atMs, SPAN_END_OF[outcome]);
    endCall(call, event);
    this.#calls.delete(callId);
  }

  /** Returns the open tool call with this id, or `undefined` if no such call is open. */
  findCall(callId: CallId | null): CallFold | undefined {
    return callId === null ? undefined : this.#calls.get(callId);
  }

  #ask({ questionId, toolName, atMs }: EspalierEvent<"question.asked">): void {
    if (!this.#asks.has(questionId)) {
      const span = this.spans.open("ask", atMs, this.step);
      this.#asks.set(questionId, { toolName, kind: "question", span });
    }
  }

  #answer({ questionId, answer, atMs }: EspalierEvent<"question.answered">): void {
    const ask = this.#asks.get(questionId);
    if (ask === undefined) return;
    const isGiven = answer === "approved" || answer === "result";
    this.spans.close(ask.span, atMs, isGiven ? "ok" : "rejected");
    this.#asks.delete(questionId);
  }

  /** Derives the activity from the calls and questions in flight. */
  #updateActivity(atMs: number): void {
    if (this.end !== undefined) return;
    const { state } = this.#modelCalls;
    if (this.#openTools > 0) this.#setActivity("calling", atMs);
    else if (state !== undefined) this.#setActivity(state, atMs);
    else if (this.#asks.size > 0) this.#setActivity("asking", atMs);
    else if (this.#openDelegations > 0) this.#setActivity("delegating", atMs);
    else this.#setActivity("preparing", atMs);
  }

  /** Closes the span of a call. */
  #closeCallSpan(call: CallFold, atMs: number, end: SpanEnding): void {
    const span = this.#callSpans.get(call);
    if (span === undefined) return;
    this.spans.close(span, atMs, end);
    this.#callSpans.delete(call);
    if (call.kind === "tool") this.#openTools -= 1;
    else this.#openDelegations -= 1;
  }

  #addCall(
    named: Pick<CallFold, "callId" | "toolName" | "kind" | "index">,
    startedAtMs: number,
  ): CallFold {
    // A fold that began in the middle of a step has no `step.started`.
    const call = addCall(this.#getStep(this.step, startedAtMs), { ...named, startedAtMs });
    this.#calls.set(call.callId, call);
    return call;
  }

  #getStep(number: number, atMs: number): StepFold {
    const last = this.steps.at(-1);
    const isIt = last?.number === number && last.execution === this.executionCount;
    return isIt ? last : this.#addStep(number, atMs);
  }

  #addStep(number: number, startedAtMs: number): StepFold {
    const { executionCount: execution } = this;
    const step: StepFold = { execution, number, startedAtMs, calls: [], attempts: [] };
    this.steps.push(step);
    return step;
  }
}

const IDLE: ReadonlySet<ActivityName> = new Set<ActivityName>([
  "awaiting_budget",
  "delegating",
  "asking",
  ...SETTLED_STATUSES,
]);

/** Returns the agent, or its ancestor, that has the account. */
function findAccountHolder(agent: AgentFold | undefined, path: string): AgentFold | undefined {
  return agent === undefined || agent.agentPath === path
    ? agent
    : findAccountHolder(agent.parent, path);
}
