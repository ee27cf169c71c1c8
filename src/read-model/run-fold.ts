// RunFold: the state of a run, folded from its events. Owns the agents and their index, the open
// questions and the refused spawns. The only event reducer of the terminal, the command and the
// viewer.
//
// 1. A fold is updated in place. An event costs about a microsecond, however many agents there are.
// 2. Unknown and unfolded events change nothing. Nor do events of other runs, and events before the
//    run's first.
// 3. Costs are the amounts that the ledger charged. Costs before the first folded event become
//    known at the end.
// 4. A patch depends on the number of a record only, not on earlier requests.

import type { InheritanceRecord } from "../protocol/context-manifest.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import { handleEvent, type EventHandlers } from "../protocol/event-handlers.ts";
import type { AgentId, QuestionId, RunId, SessionId } from "../protocol/ids.ts";
import { toQuestion, type Question } from "../protocol/question.ts";
import type { ErrorRecord, SettledStatus, StopReason } from "../protocol/stop.ts";
import { AgentFold } from "./agent-fold.ts";
import type { AgentEnd } from "./agent-end.ts";
import { createAgentRow } from "./agent-row.ts";
import { NOTHING_SPENT, raiseAmounts } from "./amounts.ts";
import { findCauses, isBroken } from "./causes.ts";
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
 * State of a run, folded from its events: agents, steps, costs, open questions and causes of
 * failure. Feed the fold from an `EventSink` of a live run, or from the journal of a stored run.
 *
 * The fold is mutable: each event updates it in place. `snapshot` and `patchSince` return plain
 * data.
 *
 * @example
 * ```ts
 * let fold: RunFold | undefined;
 * const folding: EventSink = { emit: (event) => (fold ??= new RunFold(event.runId)).apply(event) };
 * const orchestrator = new Orchestrator({ sinks: [folding] });
 *
 * const { text } = await orchestrator.start(researcher, "Compare pears and plums.").result;
 * console.log(text, fold?.root?.subtree.costUsd);
 * ```
 * @example
 * ```ts
 * const stored = new RunFold(run.runId);
 * const record = new RunRecord(store, run.runId);
 * await record.advance((event, line) => stored.apply(event, line));
 * ```
 */
export class RunFold {
  /** Id of the run. Events of other runs are ignored. */
  readonly runId: RunId;
  /** Number of the last journal record that was applied. */
  record = 0;
  /** OpenTelemetry trace id of the run, 32 hexadecimal digits. Empty before the run starts. */
  traceId = "";
  /** Session that the run continues. `undefined` if the run has no session. */
  sessionId: SessionId | undefined;
  /**
   * Start of the run in milliseconds since the epoch. `undefined` before the first event.
   *
   * If the first applied event is `run.resumed`, the time of that resumption.
   */
  startedAtMs: number | undefined;
  /** Time of the last event in milliseconds since the epoch; 0 before the first event. */
  lastAtMs = 0;
  /**
   * Budget of the run by axis, grants included. Only limited axes are present.
   *
   * If the first applied event is `run.resumed`, the budget that was left at that time.
   *
   * @example
   * ```ts
   * const { costUsd: limitUsd } = fold.budget; // for example { costUsd: 0.5, steps: 30 }
   * if (limitUsd !== undefined) console.log(`$${fold.remaining["costUsd"]} of $${limitUsd} left`);
   * ```
   */
  budget: Readonly<Record<string, number>> = {};
  /** Run and step from which this run was forked. `undefined` if the run is not a fork. */
  forkedFrom: RunSummary["forkedFrom"];
  /**
   * Agents in the order of their first start; the root agent is first.
   *
   * @example
   * ```ts
   * for (const { agentPath, activity, own } of fold.agents)
   *   console.log(agentPath, activity, own.totalTokens);
   * ```
   */
  readonly agents: AgentFold[] = [];
  /** Number of agents that are neither paused nor ended. */
  running = 0;
  /** Number of agents whose next model call waits for budget. */
  awaitingBudget = 0;
  /** Number of agents whose last execution failed. */
  failedAgents = 0;
  /** Number of tool calls that failed or had to be corrected by the model. */
  toolErrorCount = 0;
  /** Ids of the models whose price is unknown: their calls are missing in costs. */
  readonly unpricedModels = new Set<string>();
  /** Refused spawns, newest last. */
  readonly refusals: RefusalRow[] = [];
  /** Idle time that the fold has counted so far, in milliseconds. Prefer `time.idleMs`. */
  idleMs = 0;
  /**
   * How the run ended or paused. `undefined` while the run is active.
   *
   * @example
   * ```ts
   * if (fold.end?.status === "failed") console.error(fold.end.error?.message);
   * else if (fold.end?.status === "stopped") console.warn(fold.end.reason.code); // "cost_limit"
   * ```
   */
  end:
    | {
        /** Status at the end, or `paused` if the run can be resumed. */
        readonly status: SettledStatus;
        /** Reason of the end or the pause. */
        readonly reason: StopReason;
        /** Error of a failed run. `undefined` if the run did not fail. */
        readonly error?: ErrorRecord | undefined;
        /** Time of the end or the pause in milliseconds since the epoch. */
        readonly atMs: number;
      }
    | undefined;
  /** Number of the journal record that last changed `questions`. */
  questionsRecord = 0;
  /** Number of the journal record that last changed the result of `causes`. */
  causesRecord = 0;
  readonly #questions = new Map<QuestionId, Question>();
  readonly #byId = new Map<AgentId, AgentFold>();
  /** Spawned subagents that have not started. */
  readonly #announced = new Map<
    AgentId,
    { inherited: InheritanceRecord; call: CallFold | undefined }
  >();
  /** Number of the journal record of each refused spawn. */
  readonly #refusalRecords: number[] = [];
  #working = 0;
  /** True if the fold began at a resumption. */
  #isLate = false;
  /** Duration before that resumption in milliseconds. Known once the run settles. */
  #unseenMs = 0;

  /** Creates an empty fold for the events of one run. */
  constructor(runId: RunId) {
    this.runId = runId;
  }

  /**
   * Root agent. `undefined` before the run starts.
   *
   * @example
   * ```ts
   * console.log(fold.root?.subtree); // { totalTokens: 41203, costUsd: 0.12, unpricedCalls: 0 }
   * ```
   */
  get root(): AgentFold | undefined {
    return this.agents[0];
  }

  /**
   * Open questions, oldest first. Includes questions whose answer is in the mailbox of the run, and
   * was not read yet: `orchestrator.listQuestions` leaves these out.
   *
   * @example
   * ```ts
   * for (const { kind, agentPath, toolName } of fold.questions)
   *   if (kind === "approval") console.log(`${agentPath} wants to call ${toolName}`);
   * ```
   */
  get questions(): readonly Question[] {
    return [...this.#questions.values()];
  }

  /**
   * Unspent budget by axis. Reservations of calls in flight count as unspent. Only limited axes are
   * present.
   */
  get remaining(): Record<string, number> {
    return this.root?.remaining ?? { ...this.budget };
  }

  /**
   * Start, end, duration and idle time of the run, up to the last event.
   *
   * @example
   * ```ts
   * const { durationMs, idleMs } = fold.time;
   * console.log(`worked ${(durationMs - idleMs) / 1_000} s, waited ${idleMs / 1_000} s`);
   * ```
   */
  get time(): RunTime {
    const { startedAtMs: seenAtMs = 0, lastAtMs, end, idleMs, isIdle } = this;
    const startedAtMs = seenAtMs - this.#unseenMs;
    return {
      startedAtMs,
      ...(end === undefined || end.status === "paused" ? {} : { endedAtMs: end.atMs }),
      durationMs: lastAtMs - startedAtMs,
      idleMs: idleMs + this.#unseenMs, // Not charged to the budget of the resumption.
      isIdle,
    };
  }

  /** True while the run is paused, or only waits for answers to its questions. */
  get isIdle(): boolean {
    if (this.end !== undefined) return this.end.status === "paused";
    return this.#questions.size > 0 && this.#working === 0 && this.awaitingBudget === 0;
  }

  /**
   * Returns the agent with this id, or `undefined` if no such agent has started.
   *
   * @example
   * ```ts
   * for (const { agentId, toolName } of fold.questions)
   *   console.log(toolName, "asked during:", fold.find(agentId)?.task);
   * ```
   */
  find(agentId: AgentId): AgentFold | undefined {
    return this.#byId.get(agentId);
  }

  /**
   * Applies the next event of the run. Ignores events of other runs, and events before
   * `run.started` or `run.resumed`.
   *
   * `record` is the number of the journal record that contains the event, and must never decrease.
   * Only `patchSince` needs it. Call `snapshot` and `patchSince` after all events of a record.
   *
   * @example
   * ```ts
   * const record = new RunRecord(store, fold.runId);
   * await record.advance((event, line) => fold.apply(event, line));
   * ```
   */
  apply(event: EspalierEvent, record = 0): void {
    if (event.runId !== this.runId) return;
    const opens = event.type === "run.started" || event.type === "run.resumed";
    if (this.startedAtMs === undefined && !opens) return;
    this.record = record;
    // `run.resumed` contains the duration of the pause.
    if (this.isIdle && event.type !== "run.resumed") this.idleMs += event.atMs - this.lastAtMs;
    const agent = event.type.startsWith("run.") ? undefined : this.#byId.get(event.agentId);
    if (agent === undefined) handleEvent(RunFold.#RUN_HANDLERS, event, this);
    else {
      const { isWorking, isSettled: isAtRest, toolErrorCount, end: rest, activity } = agent;
      const unpricedCalls = event.type === "agent.ended" ? agent.own.unpricedCalls : 0;
      agent.touch(record);
      agent.apply(event);
      if (agent.isWorking !== isWorking) this.#working += isWorking ? -1 : 1;
      if (agent.isSettled !== isAtRest) this.running += isAtRest ? 1 : -1;
      this.awaitingBudget += countAwaitingBudget(agent.activity) - countAwaitingBudget(activity);
      this.toolErrorCount += agent.toolErrorCount - toolErrorCount;
      if (agent.end !== rest) this.#countRest(rest, agent.end);
      if (event.type === "agent.ended") this.#touchPath(agent);
      // Costs before the first folded event become known at the end of the agent.
      if (event.type === "agent.ended" && agent.own.unpricedCalls > unpricedCalls)
        this.unpricedModels.add(agent.model);
      handleEvent(RunFold.#TREE_HANDLERS, event, agent, this);
    }
    this.lastAtMs = event.atMs;
  }

  /**
   * Returns the whole run as JSON-compatible data. Facts of the store, such as the owner process,
   * are not included.
   *
   * @example
   * ```ts
   * const { run: overview, agents, causes } = fold.snapshot();
   * console.log(overview.status, `${agents.length} agents`, causes[0]?.message);
   * ```
   */
  snapshot(): RunSnapshot<RunOverview> {
    const { record, agents, refusals } = this;
    return {
      record,
      run: this.#buildFacts(),
      agents: agents.map(createAgentRow),
      spans: agents.map(({ spans }) => [...spans.numbers]),
      questions: this.#buildQuestionRows(),
      causes: this.causes(),
      refusals: [...refusals],
    };
  }

  /**
   * Returns the changes since a journal record, for a reader that knows everything up to that
   * record.
   *
   * @example
   * ```ts
   * const { record } = fold.snapshot();
   * // … more events are applied with `fold.apply(event, line)` …
   * const { agents: changedRows } = fold.patchSince(record);
   * ```
   */
  patchSince(record: number): RunPatch<RunOverview> {
    const touched = this.agents.filter((agent) => agent.record > record);
    const known = this.#refusalRecords.findLastIndex((refused) => refused <= record) + 1;
    const refusals = this.refusals.slice(known);
    return {
      record: this.record,
      run: this.#buildFacts(),
      agents: touched.map((agent) => [agent.index, createAgentRow(agent)]),
      spans: touched.flatMap((agent) => {
        const from = agent.spans.newSince(record);
        const numbers = agent.spans.numbers.slice(from);
        return numbers.length === 0 ? [] : [[agent.index, from, numbers]];
      }),
      ...(this.questionsRecord > record ? { questions: this.#buildQuestionRows() } : {}),
      ...(this.causesRecord > record ? { causes: this.causes() } : {}),
      ...(refusals.length === 0 ? {} : { refusals }),
    };
  }

  /**
   * Returns why the run ended, root cause first, at most 20 entries.
   *
   * For a failed or stopped run: the chain from the root cause up to the root agent. For any other
   * run: the causes of each failed agent, then each limit that stopped an agent or refused a spawn.
   * These have `isLimit`. Empty if nothing failed and no limit was reached.
   *
   * @example
   * ```ts
   * for (const { agentPath, step, code, message } of fold.causes())
   *   console.error(`${agentPath}, step ${step ?? 0}: ${code}: ${message}`);
   * ```
   */
  causes(): readonly Cause[] {
    return findCauses(this.agents, this.refusals);
  }

  /** Handlers of events of the run as a whole, and of the first event of an agent. */
  static readonly #RUN_HANDLERS: EventHandlers<[RunFold]> = {
    "run.started": (event, run) => {
      run.#open(event, event.budget);
      run.forkedFrom = readForkOrigin(event);
    },
    "run.resumed": (event, run) => {
      if (run.startedAtMs === undefined) run.#open(event, {});
      else run.#resume(event);
    },
    "run.paused": (event, run) => run.#settle(event),
    "run.ended": (event, run) => run.#settle(event),
    "agent.started": (event, run) => run.#add(event),
    "agent.resumed": (event, run) => run.#add(event),
  };

  /** Handlers of the effects of an agent's event on other agents and on the run. */
  static readonly #TREE_HANDLERS: EventHandlers<[AgentFold, RunFold]> = {
    "agent.resumed": (event, agent, run) => {
      if (agent.parent === undefined) run.#learnBudget(event);
    },
    "agent.ended": (_event, agent, run) => run.#dropQuestionsOf(agent),
    "budget.settled": (event, agent, run) => run.#charge(agent, event),
    "budget.granted": ({ budget }, agent, run) => {
      if (agent.parent === undefined) run.budget = raiseAmounts(run.budget, budget);
    },
    "question.asked": (event, _agent, run) => {
      run.#questions.set(event.questionId, toQuestion(event));
      run.questionsRecord = run.record;
    },
    "question.answered": ({ questionId }, _agent, run) => run.#dropQuestion(questionId),
    "subagent.spawned": ({ childId, callId, inherited }, agent, run) => {
      run.#announced.set(childId, { inherited, call: agent.findCall(callId) });
    },
    "subagent.continued": ({ childId, callId }, agent, run) => {
      const child = run.#byId.get(childId);
      if (child !== undefined) agent.findCall(callId)?.children.push(child.index);
    },
    "subagent.refused": ({ atMs, role, error: { code, message } }, agent, run) => {
      run.refusals.push({ agent: agent.index, step: agent.step, atMs, role, code, message });
      run.#refusalRecords.push(run.record);
      run.causesRecord = run.record;
    },
  };

  #open(event: EspalierEvent<"run.started" | "run.resumed">, budget: AxisAmounts): void {
    this.startedAtMs = event.atMs;
    this.#isLate = event.type === "run.resumed";
    this.traceId = event.traceId;
    this.sessionId = event.sessionId;
    this.budget = budget;
  }

  /** Resumes the run. After a crash, all active agents have been idle since the last event. */
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

  /** Adds an agent to the tree. */
  #add(event: EspalierEvent<"agent.started" | "agent.resumed">): void {
    const { agentId, parentAgentId } = event;
    const { root } = this;
    if (root === undefined && parentAgentId !== null) return;
    // If the fold began at a resumption, the parent may have ended before.
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

  /** Takes the budget of the run from the resumption of its root. */
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
    if (!isEnd)
      for (const question of event.questions) this.#questions.set(question.questionId, question);
    this.questionsRecord = this.record;
    this.causesRecord = this.record;
  }

  #dropQuestion(questionId: QuestionId): void {
    if (this.#questions.delete(questionId)) this.questionsRecord = this.record;
  }

  #dropQuestionsOf({ agentId }: AgentFold): void {
    for (const question of this.#questions.values())
      if (question.agentId === agentId) this.#dropQuestion(question.questionId);
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

  /** Marks an agent and all its ancestors as changed: their usage includes that of the agent. */
  #touchPath(agent: AgentFold): void {
    for (let at: AgentFold | undefined = agent; at !== undefined; at = at.parent)
      at.touch(this.record);
  }

  #buildFacts(): RunOverview {
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
      ...(this.sessionId === undefined ? {} : { sessionId: this.sessionId }),
      spent: root?.subtree ?? NOTHING_SPENT,
      budget: this.budget,
      remaining: this.remaining,
      ...(end === undefined ? {} : { reason: getEndReason(end) }),
      ...(this.forkedFrom === undefined ? {} : { forkedFrom: this.forkedFrom }),
      ...(this.unpricedModels.size === 0 ? {} : { unpricedModels: [...this.unpricedModels] }),
      refusalCount: this.refusals.length,
      toolErrorCount: this.toolErrorCount,
    };
  }

  #buildQuestionRows(): readonly QuestionRow[] {
    return this.questions.map((question) => {
      const { role = "", task = "" } = this.#byId.get(question.agentId) ?? {};
      return { ...question, runId: this.runId, role, task };
    });
  }
}

/** Returns the error of a failed run, otherwise the reason of its end or pause. */
function getEndReason({ error, reason }: NonNullable<RunFold["end"]>): RunSummary["reason"] {
  const { code, message } = error ?? reason;
  return { code, message };
}

function countAwaitingBudget(activity: ActivityName): 0 | 1 {
  return activity === "awaiting_budget" ? 1 : 0;
}

function readForkOrigin({ forkedFrom }: EspalierEvent<"run.started">): RunSummary["forkedFrom"] {
  return forkedFrom && { runId: forkedFrom.runId, stepNumber: forkedFrom.stepNumber };
}
