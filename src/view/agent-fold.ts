// AgentFold: one agent as its events have left it, in numbers, names and times: no content of its steps. Changed in place by its `RunFold`.

import type { InheritanceRecord } from "../protocol/context-manifest.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { AgentId, CallId, ExecutionId, QuestionId, StepId } from "../protocol/ids.ts";
import { SETTLED_STATUSES, type ExecutionEnd } from "./agent-rest.ts";
import { raiseAmounts } from "./amounts.ts";
import { BudgetUse } from "./budget-use.ts";
import { ModelCalls } from "./model-calls.ts";
import { SPAN_END_OF, SpanList, type SpanEnding } from "./span-list.ts";
import { addCall, endCall, endStep, newAttempt } from "./step-fold.ts";
import type { CallFold, CallUnderWay, StepFold } from "./step-fold.ts";
import type { ActivityName, Spent } from "./viewer-data.ts";

interface AskFold extends CallUnderWay {
  readonly kind: "question";
  readonly span: number;
}

/** Where an agent stands. */
export interface AgentPlace {
  /** From 0, in the order in which agents were first started: where it is in `RunFold.agents`. */
  readonly index: number;
  /** Undefined: it is the root. */
  readonly parent: AgentFold | undefined;
  /** When its run began: spans count from there. */
  readonly runStartedAtMs: number;
  /** What it was given at its creation; undefined: it is the root, or that was not seen. */
  readonly inherited: InheritanceRecord | undefined;
}

/**
 * One agent, as the events that its `RunFold` has taken have left it, in numbers, names and times: what it does, its steps with their calls,
 * what it has spent, and its waits. It changes with each event: copy what is to stay.
 */
export class AgentFold {
  /** From 0, in the order in which agents were first started: where it is in `RunFold.agents`. */
  readonly index: number;
  /** Undefined: it is the root. */
  readonly parent: AgentFold | undefined;
  /** Its subagents, in the order in which they were first started. */
  readonly children: AgentFold[] = [];
  /** Which agent. */
  readonly agentId: AgentId;
  /** Place in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  /** What it is. */
  readonly role: string;
  /** What it was given at its creation; undefined: it is the root, or that was not seen. */
  readonly inherited: InheritanceRecord | undefined;
  /** Of its model. */
  provider: string;
  /** The id of its model. */
  model: string;
  /** Of its last execution. */
  task: string;
  /** Of its last execution. */
  executionId: ExecutionId | null;
  /** How often it was given a task, the first included. */
  executionCount = 1;
  /** When it was first started, in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** When its last execution began, in milliseconds since the epoch. */
  executionStartedAtMs: number;
  /** What it does, or how it came to rest. */
  activity: ActivityName = "preparing";
  /** Since when it does that, in milliseconds since the epoch. */
  sinceMs: number;
  /** The attempt of its model call that comes next, and why there is one, while it is `retrying`. */
  retry:
    | {
        /** From 1. */
        readonly attempt: number;
        /** Of the attempt before it. */
        readonly errorCode: string;
      }
    | undefined;
  /** How it came to rest; undefined while it runs. */
  end: ExecutionEnd | undefined;
  /** The step it is at; 0 before the first. */
  step = 0;
  /** What it could spend when it began; limited axes only. */
  budget: Readonly<Record<string, number>>;
  /** Spawns of its own that were refused. */
  refusalCount = 0;
  /** Calls of its own that failed or had to be corrected. */
  toolErrorCount = 0;
  /** Of all executions, in order. */
  readonly steps: StepFold[] = [];
  /** What its time went into. */
  readonly spans: SpanList;
  /** The record that touched it last. */
  record = 0;
  /** Calls that have not ended, those that wait for a paused subagent too. */
  readonly #calls = new Map<CallId, CallFold>();
  /** The spans of calls that are under way. */
  readonly #callSpans = new Map<CallFold, number>();
  readonly #asks = new Map<QuestionId, AskFold>();
  readonly #modelCalls: ModelCalls;
  readonly #use: BudgetUse;
  #openTools = 0;
  #openDelegations = 0;
  /** Of the step that was opened last and is not completed. */
  #stepId: StepId | null = null;
  /** Of the time at rest; -1: it is not at rest. */
  #park = -1;
  /** The number of the event with which its last execution began. */
  #startSeq: number;
  /** How its earlier executions ended. `undefined` if it had one execution. */
  #earlierRests: ExecutionEnd[] | undefined;

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

  /** The last part of its path, such as `surveyor#3`. */
  get name(): string {
    return this.agentPath.slice(this.agentPath.lastIndexOf("/") + 1);
  }

  /** The agent whose budget its model call waits for. `undefined` if it waits for none. */
  get waitsForBudgetOf(): AgentFold | undefined {
    const path = this.#modelCalls.lackingPath;
    return path === undefined ? undefined : accountHolder(this, path);
  }

  /** What it has spent by its own calls. */
  get own(): Spent {
    return this.#use.own;
  }

  /** What it and all below it have spent. */
  get subtree(): Spent {
    return this.#use.subtree;
  }

  /** What is left to it now, on limited axes. Calls in flight are not counted. */
  get remaining(): Record<string, number> {
    return this.#use.left();
  }

  /** What it has used of its budget by itself, without its subagents. Limited axes only. */
  get used(): Readonly<Record<string, number>> {
    return this.#use.within(this.budget);
  }

  /** Calls and questions that are under way, in the order in which they began; questions last. */
  get openCalls(): readonly CallUnderWay[] {
    const calls = [...this.#calls.values()].filter((call) => this.#callSpans.has(call));
    return [...calls, ...this.#asks.values()];
  }

  /** True unless it rests, or does nothing but wait for subagents and answers. */
  get isWorking(): boolean {
    return !IDLE.has(this.activity);
  }

  /** Returns how its last execution before an event had ended. `undefined` if none had. */
  findEndBefore(seq: number): ExecutionEnd | undefined {
    const { end: end } = this;
    if (end !== undefined && end.endSeq < seq) return end;
    return this.#earlierRests?.findLast(({ endSeq }) => endSeq < seq);
  }

  /** True if it is paused or has ended. */
  get isSettled(): boolean {
    return SETTLED_STATUSES.some((status) => status === this.activity);
  }

  /** A record changes it: its row is new to readers that know only earlier records. */
  touch(record: number): void {
    this.record = record;
    this.spans.record = record;
  }

  /** Takes in what an event says of the agent itself. */
  apply(event: EspalierEvent): void {
    this.#use.take(event);
    switch (event.type) {
      case "agent.started":
      case "agent.resumed":
        this.#begin(event);
        return;
      case "agent.paused":
      case "agent.ended":
        this.#settle(event);
        return;
      case "step.started":
        this.#openStep(event);
        return;
      case "step.completed":
        this.#completeStep(event);
        return;
      case "budget.queued":
        this.#modelCalls.awaitBudget(
          event,
          this.#stepOf(event),
          accountHolder(this, event.accountPath)?.index,
        );
        break;
      case "budget.dequeued":
        this.#modelCalls.endBudgetWait(event);
        break;
      case "budget.reserved":
        this.#modelCalls.reserve(event, this.#stepOf(event));
        break;
      case "budget.denied":
      case "budget.released":
      case "budget.settled":
        this.#modelCalls.endWaits(event, "failed");
        break;
      case "budget.granted":
        this.budget = raiseAmounts(this.budget, event.budget);
        return;
      case "model.requested":
        this.#modelCalls.open(event, this.step);
        break;
      case "model.retried":
        this.#retry(event);
        return;
      case "model.replied":
        this.#modelCalls.close(event);
        break;
      case "model.failed":
        this.#modelCalls.close(event);
        if (event.error.code !== "cancelled")
          this.#stepAt(this.step, event.atMs).attempts.push(newAttempt(event));
        break;
      default:
        this.#takeCall(event);
        return;
    }
    this.#updateActivity(event.atMs);
  }

  #takeCall(event: EspalierEvent): void {
    switch (event.type) {
      case "tool.started":
      case "tool.resumed":
        this.#openCall(event);
        return;
      case "tool.paused":
        this.#pauseCall(event);
        return;
      case "tool.rejected":
      case "tool.ended":
        this.#closeCall(event);
        return;
      case "tool.retried":
        this.findCall(event.callId)?.attempts.push(newAttempt(event));
        return;
      case "question.asked":
        this.#ask(event);
        return;
      case "question.answered":
        this.#answer(event);
        return;
      case "subagent.refused":
        this.refusalCount += 1;
        return;
      default:
    }
  }

  /** It is started, or continues after a pause or after its process died. */
  #begin(event: EspalierEvent<"agent.started" | "agent.resumed">): void {
    const { atMs, task, executionId } = event;
    if (event.type === "agent.started" && executionId !== this.executionId) {
      if (this.end !== undefined) (this.#earlierRests ??= []).push(this.end);
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
    this.#do("preparing", atMs);
  }

  /** It comes to rest. What was under way of it, but for questions of one that is paused, is over. */
  #settle(event: EspalierEvent<"agent.paused" | "agent.ended">): void {
    const { atMs, reason } = event;
    this.#cut(atMs);
    const at = { execution: this.executionCount, startSeq: this.#startSeq, endSeq: event.seq };
    if (event.type === "agent.paused") {
      const durationMs = atMs - this.executionStartedAtMs;
      this.end = { status: "paused", reason, atMs, durationMs, step: this.step, ...at };
      this.#park = this.spans.open("park", atMs, this.step);
    } else {
      const { status, error, durationMs, steps } = event;
      this.end = { status, reason, error, atMs, durationMs, step: steps, ...at };
      this.step = steps;
      this.#dropAsks(atMs);
      this.#calls.clear();
    }
    this.#do(this.end.status, atMs);
  }

  /** Its process died at `atMs`. */
  markLost(atMs: number): void {
    this.#cut(atMs);
    this.#dropAsks(atMs);
    if (this.#park === -1) this.#park = this.spans.open("park", atMs, this.step);
    this.#do("paused", atMs);
  }

  /** Ends what is under way but for questions. */
  #cut(atMs: number): void {
    for (const call of this.#calls.values()) this.#rest(call, atMs, "cut");
    this.#modelCalls.cut(atMs);
  }

  #dropAsks(atMs: number): void {
    for (const ask of this.#asks.values()) this.spans.close(ask.span, atMs, "cut");
    this.#asks.clear();
  }

  #do(activity: ActivityName, atMs: number): void {
    if (activity === this.activity) return;
    this.activity = activity;
    this.sinceMs = atMs;
  }

  /** The step of a call that begins: a call of the agent itself may be that of the next step. */
  #stepOf({ callId, stepId }: EspalierEvent): number {
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
    endStep(this.#stepAt(number, atMs), event);
    this.#calls.clear();
  }

  #retry(event: EspalierEvent<"model.retried">): void {
    const { error, nextModel } = event;
    const attempt = nextModel === undefined ? event.attempt + 1 : event.attempt;
    this.#stepAt(this.step, event.atMs).attempts.push(newAttempt(event));
    this.retry = { attempt, errorCode: error.code };
    this.#modelCalls.retry(event);
    this.#updateActivity(event.atMs);
  }

  #openCall(event: EspalierEvent<"tool.started" | "tool.resumed">): void {
    const { callId, toolName, atMs, index = 0 } = event;
    if (callId === null) return;
    const kind = event.kind === "delegation" ? "delegation" : "tool";
    const call = this.#calls.get(callId) ?? this.#addCall({ callId, toolName, kind, index }, atMs);
    if (!this.#callSpans.has(call)) {
      const span = this.spans.open(kind === "tool" ? "tool" : "wait", atMs, this.step);
      this.#callSpans.set(call, span);
      if (kind === "tool") this.#openTools += 1;
      else this.#openDelegations += 1;
    }
    this.#updateActivity(atMs);
  }

  #pauseCall({ callId, atMs }: EspalierEvent<"tool.paused">): void {
    const call = callId === null ? undefined : this.#calls.get(callId);
    if (call !== undefined) this.#rest(call, atMs, "cut");
    this.#updateActivity(atMs);
  }

  #closeCall(event: EspalierEvent<"tool.ended" | "tool.rejected">): void {
    const { callId, toolName, atMs, outcome } = event;
    if (outcome === "failed" || outcome === "retry") this.toolErrorCount += 1;
    if (callId === null) return;
    const isEnd = event.type === "tool.ended";
    const kind = !isEnd && event.kind === "delegation" ? "delegation" : "tool";
    const index = isEnd ? 0 : (event.index ?? 0);
    const call = this.#calls.get(callId) ?? this.#addCall({ callId, toolName, kind, index }, atMs);
    if (isEnd && event.queuedMs > 0) {
      const beganAtMs = call.startedAtMs - event.queuedMs;
      this.spans.add("queue", { beganAtMs, atMs: call.startedAtMs, end: "ok" }, this.step);
    }
    if (!isEnd && !this.#callSpans.has(call))
      this.spans.add("tool", { beganAtMs: atMs, atMs, end: "rejected" }, this.step);
    this.#rest(call, atMs, SPAN_END_OF[outcome]);
    endCall(call, event);
    this.#calls.delete(callId);
    this.#updateActivity(atMs);
  }

  /** The call that has started or resumed an agent, as far as it is known. */
  findCall(callId: CallId | null): CallFold | undefined {
    return callId === null ? undefined : this.#calls.get(callId);
  }

  #ask({ question, atMs }: EspalierEvent<"question.asked">): void {
    const { questionId, toolName } = question;
    if (!this.#asks.has(questionId)) {
      const span = this.spans.open("ask", atMs, this.step);
      this.#asks.set(questionId, { toolName, kind: "question", span });
    }
    this.#updateActivity(atMs);
  }

  #answer({ questionId, answer, atMs }: EspalierEvent<"question.answered">): void {
    const ask = this.#asks.get(questionId);
    if (ask === undefined) return;
    const isGiven = answer === "approved" || answer === "result";
    this.spans.close(ask.span, atMs, isGiven ? "ok" : "rejected");
    this.#asks.delete(questionId);
    this.#updateActivity(atMs);
  }

  /** What it does follows from what is under way. */
  #updateActivity(atMs: number): void {
    if (this.end !== undefined) return;
    const { state } = this.#modelCalls;
    if (this.#openTools > 0) this.#do("calling", atMs);
    else if (state !== undefined) this.#do(state, atMs);
    else if (this.#asks.size > 0) this.#do("asking", atMs);
    else if (this.#openDelegations > 0) this.#do("delegating", atMs);
    else this.#do("preparing", atMs);
  }

  /** A call is not under way any more. */
  #rest(call: CallFold, atMs: number, end: SpanEnding): void {
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
    // A view that began in the middle of a step has not seen it open.
    const call = addCall(this.#stepAt(this.step, startedAtMs), { ...named, startedAtMs });
    this.#calls.set(call.callId, call);
    return call;
  }

  #stepAt(number: number, atMs: number): StepFold {
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

/** Returns the agent, or the ancestor of it, that holds the account. */
function accountHolder(agent: AgentFold | undefined, path: string): AgentFold | undefined {
  return agent === undefined || agent.agentPath === path
    ? agent
    : accountHolder(agent.parent, path);
}
