// RunFold: what a run looks like from outside, folded from its events. Owns its agents and their index, its open questions and its refused
// spawns. The one reducer of events for all that show runs: terminal, command and viewer.
//
// 1. It is changed in place, and an event costs about a microsecond, however many agents there are.
// 2. Events that are not folded, also unknown ones, change nothing. Nor do those of another run, and those before the run's first.
// 3. What agents have spent is what the ledger was charged; what was spent before the first event that was seen is known at the end.
// 4. A patch depends on the number of a record alone, not on earlier requests.

import type { InheritanceRecord } from "../protocol/context-manifest.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { AgentId, QuestionId, RunId } from "../protocol/ids.ts";
import type { Question } from "../protocol/question.ts";
import type { ErrorRecord, SettledStatus, StopReason } from "../protocol/stop.ts";
import { AgentFold } from "./agent-fold.ts";
import type { AgentEnd } from "./agent-rest.ts";
import { agentRow } from "./agent-row.ts";
import { NOTHING_SPENT, raiseAmounts } from "./amounts.ts";
import { causesOf, isBroken } from "./causes.ts";
import type { CallFold } from "./step-fold.ts";
import type {
  ActivityName,
  AxisAmounts,
  Cause,
  QuestionRow,
  RefusalRow,
  RunOverview,
  RunPatch,
  RunSnapshot,
  RunSummary,
  RunTime,
} from "./viewer-data.ts";

/**
 * What there is to see of a run, folded from its events: live ones of a sink, or those of its journal. It changes with each event that it
 * takes, at about a microsecond an event; `snapshot` and `patchSince` give plain data.
 */
export class RunFold {
  /** Which run: events of others change nothing. */
  readonly runId: RunId;
  /** The number of the last record that was taken. */
  record = 0;
  /** 32 hexadecimal digits: the OpenTelemetry trace that shows the run; empty until it has started. */
  traceId = "";
  /** When it began; if nothing before a resumption was seen, when it was resumed. Undefined until then. */
  startedAtMs: number | undefined;
  /** When the last event happened, in milliseconds since the epoch; 0 until it has started. */
  lastAtMs = 0;
  /** What the run may spend, grants included; limited axes only. */
  budget: Readonly<Record<string, number>> = {};
  /** The run of which it is a fork. Undefined: of none. */
  forkedFrom: RunSummary["forkedFrom"];
  /** In the order in which they were first started; the root first. */
  readonly agents: AgentFold[] = [];
  /** Agents that are not at rest: neither paused nor ended. */
  running = 0;
  /** Agents whose next model call waits for budget. */
  awaitingBudget = 0;
  /** Agents whose last execution failed. */
  failedAgents = 0;
  /** Tool calls that failed or had to be corrected. */
  toolErrorCount = 0;
  /** Models for which it was charged without a known price. */
  readonly unpricedModels = new Set<string>();
  /** Spawns that were refused, newest last. */
  readonly refusals: RefusalRow[] = [];
  /** Part of its time until its last event in which it rested, see `RunTime`. */
  idleMs = 0;
  /** How it settled; undefined while it runs. */
  end:
    | {
        /** How it ended; `paused`: it may continue. */
        readonly status: SettledStatus;
        /** Why. */
        readonly reason: StopReason;
        /** What it failed of. Undefined: it did not fail. */
        readonly error?: ErrorRecord | undefined;
        /** Milliseconds since the epoch. */
        readonly atMs: number;
      }
    | undefined;
  /** The record that changed the open questions last. */
  questionsRecord = 0;
  /** The record that changed last what the run failed of. */
  causesRecord = 0;
  readonly #questions = new Map<QuestionId, Question>();
  readonly #byId = new Map<AgentId, AgentFold>();
  /** Subagents that were announced and have not begun. */
  readonly #announced = new Map<
    AgentId,
    { inherited: InheritanceRecord; call: CallFold | undefined }
  >();
  /** Of each refused spawn, the record that says so. */
  readonly #refusalRecords: number[] = [];
  #working = 0;
  /** True if nothing before a resumption was seen. */
  #isLate = false;
  /** Its time before that, which is known once it settles. */
  #unseenMs = 0;

  constructor(runId: RunId) {
    this.runId = runId;
  }

  /** Undefined until it has started. */
  get root(): AgentFold | undefined {
    return this.agents[0];
  }

  /** Open ones, in the order in which they were asked. */
  get questions(): readonly Question[] {
    return [...this.#questions.values()];
  }

  /** What of its budget is not spent, by axis. What is held for calls in flight still counts as left. */
  get remaining(): Record<string, number> {
    return this.root?.remaining ?? { ...this.budget };
  }

  /** Its time until its last event. */
  get time(): RunTime {
    const { startedAtMs: seenAtMs = 0, lastAtMs, end, idleMs, isIdle } = this;
    const startedAtMs = seenAtMs - this.#unseenMs;
    return {
      startedAtMs,
      ...(end === undefined || end.status === "paused" ? {} : { endedAtMs: end.atMs }),
      durationMs: lastAtMs - startedAtMs,
      idleMs: idleMs + this.#unseenMs, // It took nothing of the budget of the resumption.
      isIdle,
    };
  }

  /** True while it is paused, or all of its agents wait for answers. */
  get isIdle(): boolean {
    if (this.end !== undefined) return this.end.status === "paused";
    return this.#questions.size > 0 && this.#working === 0 && this.awaitingBudget === 0;
  }

  /** Undefined: no such agent was seen. */
  find(agentId: AgentId): AgentFold | undefined {
    return this.#byId.get(agentId);
  }

  /**
   * Takes an event in. `record`: the number of the record of the journal that holds it, which never goes back; left out: no patches are
   * needed. A snapshot and a patch are exact between two records.
   */
  apply(event: EspalierEvent, record = 0): void {
    if (event.runId !== this.runId) return;
    const opens = event.type === "run.started" || event.type === "run.resumed";
    if (this.startedAtMs === undefined && !opens) return;
    this.record = record;
    // How long the run rested before it was resumed is in that event.
    if (this.isIdle && event.type !== "run.resumed") this.idleMs += event.atMs - this.lastAtMs;
    const agent = event.type.startsWith("run.") ? undefined : this.#byId.get(event.agentId);
    if (agent === undefined) this.#ofRun(event);
    else {
      const {
        isWorking,
        isSettled: isAtRest,
        toolErrorCount: toolErrorCount,
        end: rest,
        activity,
      } = agent;
      const unpricedCalls = event.type === "agent.ended" ? agent.own.unpricedCalls : 0;
      agent.touch(record);
      agent.apply(event);
      if (agent.isWorking !== isWorking) this.#working += isWorking ? -1 : 1;
      if (agent.isSettled !== isAtRest) this.running += isAtRest ? 1 : -1;
      this.awaitingBudget += awaitsBudget(agent.activity) - awaitsBudget(activity);
      this.toolErrorCount += agent.toolErrorCount - toolErrorCount;
      if (agent.end !== rest) this.#countRest(rest, agent.end);
      if (event.type === "agent.ended") this.#touchPath(agent);
      // What it spent before a resumption, unseen, is known at its end.
      if (event.type === "agent.ended" && agent.own.unpricedCalls > unpricedCalls)
        this.unpricedModels.add(agent.model);
      this.#ofTree(agent, event);
    }
    this.lastAtMs = event.atMs;
  }

  /** All that is known. What only the store knows of the run is put in by `runHead`. */
  snapshot(): RunSnapshot<RunOverview> {
    const { record, agents, refusals } = this;
    return {
      record,
      run: this.#facts(),
      agents: agents.map(agentRow),
      spans: agents.map(({ spans }) => [...spans.numbers]),
      questions: this.#questionRows(),
      causes: this.causes(),
      refusals: [...refusals],
    };
  }

  /** What is new since a record, for a reader that knows all up to it. */
  patchSince(record: number): RunPatch<RunOverview> {
    const touched = this.agents.filter((agent) => agent.record > record);
    const known = this.#refusalRecords.findLastIndex((refused) => refused <= record) + 1;
    const refusals = this.refusals.slice(known);
    return {
      record: this.record,
      run: this.#facts(),
      agents: touched.map((agent) => [agent.index, agentRow(agent)]),
      spans: touched.flatMap((agent) => {
        const from = agent.spans.newSince(record);
        const numbers = agent.spans.numbers.slice(from);
        return numbers.length === 0 ? [] : [[agent.index, from, numbers]];
      }),
      ...(this.questionsRecord > record ? { questions: this.#questionRows() } : {}),
      ...(this.causesRecord > record ? { causes: this.causes() } : {}),
      ...(refusals.length === 0 ? {} : { refusals }),
    };
  }

  /**
   * Why it ended, at most 20, first cause first. Of a run that failed or was stopped: where that began, and its way up to the root. Of any
   * other: why agents failed; then, with `isLimit`, every limit that stopped an agent or refused a spawn, with the agent that came to it first. Empty:
   * nothing failed, and no limit was met.
   */
  causes(): readonly Cause[] {
    return causesOf(this.agents, this.refusals);
  }

  /** Events of the run as a whole, and those with which an agent is first seen. */
  #ofRun(event: EspalierEvent): void {
    switch (event.type) {
      case "run.started":
        this.#open(event, event.budget);
        this.forkedFrom = originOf(event);
        return;
      case "run.resumed":
        if (this.startedAtMs === undefined) this.#open(event, {});
        else this.#resume(event);
        return;
      case "run.paused":
      case "run.ended":
        this.#settle(event);
        return;
      case "agent.started":
      case "agent.resumed":
        this.#add(event);
        return;
      default:
    }
  }

  /** What an event of an agent means for others and for the run. */
  #ofTree(agent: AgentFold, event: EspalierEvent): void {
    switch (event.type) {
      case "agent.resumed":
        if (agent.parent === undefined) this.#learnBudget(event);
        return;
      case "agent.ended":
        this.#dropQuestionsOf(agent);
        return;
      case "budget.settled":
        this.#charge(agent, event);
        return;
      case "budget.granted":
        if (agent.parent === undefined) this.budget = raiseAmounts(this.budget, event.budget);
        return;
      case "question.asked":
        this.#questions.set(event.question.questionId, event.question);
        this.questionsRecord = this.record;
        return;
      case "question.answered":
        this.#dropQuestion(event.questionId);
        return;
      case "subagent.spawned": {
        const call = agent.findCall(event.callId);
        this.#announced.set(event.childId, { inherited: event.inherited, call });
        return;
      }
      case "subagent.continued": {
        const child = this.#byId.get(event.childId);
        if (child !== undefined) agent.findCall(event.callId)?.children.push(child.index);
        return;
      }
      case "subagent.refused": {
        const { atMs, role, refusal } = event;
        const { code, message } = refusal;
        this.refusals.push({ agent: agent.index, step: agent.step, atMs, role, code, message });
        this.#refusalRecords.push(this.record);
        this.causesRecord = this.record;
        return;
      }
      default:
    }
  }

  #open(event: EspalierEvent<"run.started" | "run.resumed">, budget: AxisAmounts): void {
    this.startedAtMs = event.atMs;
    this.#isLate = event.type === "run.resumed";
    this.traceId = event.traceId;
    this.budget = budget;
  }

  /** If its process had died, all agents that worked have stood still since its last event. */
  #resume(event: EspalierEvent<"run.resumed">): void {
    this.traceId = event.traceId;
    this.idleMs += event.pausedMs + (event.queuedMs ?? 0);
    this.end = undefined;
    if (event.recovery === undefined) return;
    for (const agent of this.agents) {
      if (agent.isSettled) continue;
      agent.touch(this.record);
      agent.markLost(this.lastAtMs);
      this.#dropQuestionsOf(agent);
    }
    this.running = 0;
    this.awaitingBudget = 0;
    this.#working = 0;
  }

  /** An agent that was not seen before joins the tree. */
  #add(event: EspalierEvent<"agent.started" | "agent.resumed">): void {
    const { agentId, parentAgentId } = event;
    const { root } = this;
    if (root === undefined && parentAgentId !== null) return;
    // Of a run that is seen from a resumption on, the parent may have ended before.
    const parent = parentAgentId === null ? undefined : (this.#byId.get(parentAgentId) ?? root);
    const announced = this.#announced.get(agentId);
    const runStartedAtMs = this.startedAtMs ?? event.atMs;
    const place = {
      index: this.agents.length,
      parent,
      runStartedAtMs,
      inherited: announced?.inherited,
    };
    const agent = new AgentFold(event, place);
    agent.touch(this.record);
    this.#byId.set(agentId, agent);
    this.agents.push(agent);
    if (announced !== undefined) {
      this.#announced.delete(agentId);
      announced.call?.children.push(agent.index);
    }
    if (parent !== undefined) parent.children.push(agent);
    this.running += 1;
    this.#working += 1;
    if (parent === undefined && event.type === "agent.resumed") this.#learnBudget(event);
  }

  /** Takes what is left to the run from the event with which its root continues. */
  #learnBudget({ budget }: EspalierEvent<"agent.resumed">): void {
    if (Object.keys(this.budget).length === 0) this.budget = budget;
  }

  #countRest(before: AgentEnd | undefined, after: AgentEnd | undefined): void {
    if (before?.status === "failed") this.failedAgents -= 1;
    if (after?.status === "failed") this.failedAgents += 1;
    if (isBroken(before) || isBroken(after)) this.causesRecord = this.record;
  }

  #settle(event: EspalierEvent<"run.paused" | "run.ended">): void {
    const { atMs, reason, durationMs } = event;
    const seenMs = atMs - (this.startedAtMs ?? atMs);
    if (this.#isLate) this.#unseenMs = Math.max(0, durationMs - seenMs);
    const isEnd = event.type === "run.ended";
    const status = isEnd ? event.status : "paused";
    const error = isEnd ? event.error : undefined;
    this.end = { status, reason, error, atMs };
    this.#questions.clear();
    if (!isEnd) for (const one of event.questions) this.#questions.set(one.questionId, one);
    this.questionsRecord = this.record;
    this.causesRecord = this.record;
  }

  #dropQuestion(questionId: QuestionId): void {
    if (this.#questions.delete(questionId)) this.questionsRecord = this.record;
  }

  #dropQuestionsOf({ agentId }: AgentFold): void {
    for (const one of this.#questions.values())
      if (one.agentId === agentId) this.#dropQuestion(one.questionId);
  }

  #charge(
    agent: AgentFold,
    { usage, otherModels = [], lostCall }: EspalierEvent<"budget.settled">,
  ): void {
    this.#touchPath(agent);
    let { unpricedCalls } = usage;
    for (const other of otherModels) {
      unpricedCalls -= other.usage.unpricedCalls;
      if (other.usage.unpricedCalls > 0) this.unpricedModels.add(other.model);
    }
    if (unpricedCalls > 0) this.unpricedModels.add(lostCall?.model ?? agent.model);
  }

  /** The use of an agent is part of that of every agent above it. */
  #touchPath(agent: AgentFold): void {
    for (let at: AgentFold | undefined = agent; at !== undefined; at = at.parent)
      at.touch(this.record);
  }

  #facts(): RunOverview {
    const { lastAtMs, end, root } = this;
    const isOver = end !== undefined && end.status !== "paused";
    const open = this.#questions.size > 0 ? "input_required" : (end?.status ?? "working");
    return {
      status: isOver ? end.status : open,
      traceId: this.traceId,
      agentCount: this.agents.length,
      running: this.running,
      awaitingBudget: this.awaitingBudget,
      failedAgents: this.failedAgents,
      lastAtMs,
      ...this.time,
      spent: root?.subtree ?? NOTHING_SPENT,
      budget: this.budget,
      remaining: this.remaining,
      ...(end === undefined ? {} : { reason: whyOf(end) }),
      ...(this.forkedFrom === undefined ? {} : { forkedFrom: this.forkedFrom }),
      ...(this.unpricedModels.size === 0 ? {} : { unpricedModels: [...this.unpricedModels] }),
      refusalCount: this.refusals.length,
      toolErrorCount: this.toolErrorCount,
    };
  }

  #questionRows(): readonly QuestionRow[] {
    return this.questions.map((question) => {
      const { role = "", task = "" } = this.#byId.get(question.agentId) ?? {};
      return { ...question, runId: this.runId, role, task };
    });
  }
}

/** Returns the error of a run that failed. Of any other, the reason for which it settled. */
function whyOf({ error, reason }: NonNullable<RunFold["end"]>): RunSummary["reason"] {
  const { code, message } = error ?? reason;
  return { code, message };
}

function awaitsBudget(activity: ActivityName): 0 | 1 {
  return activity === "awaiting_budget" ? 1 : 0;
}

function originOf({ forkedFrom }: EspalierEvent<"run.started">): RunSummary["forkedFrom"] {
  return forkedFrom && { runId: forkedFrom.runId, stepNumber: forkedFrom.stepNumber };
}
