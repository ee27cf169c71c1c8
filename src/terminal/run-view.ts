// What a run looks like from outside, folded from its events. Pure: each event gives a new view,
// which shares with the old one all that did not change.

import type { EspalierEvent, RunId, SettledStatus } from "../index.ts";
import {
  changeAt,
  findAt,
  NOTHING_SPENT,
  plus,
  spentOf,
  type Activity,
  type AgentView,
  type OpenCallView,
} from "./agent-view.ts";
import { MICRO_PER_USD } from "./amounts.ts";
import { openQuestion, type OpenQuestion } from "./open-questions.ts";

/** One run. */
export interface RunView {
  readonly runId: RunId;
  readonly traceId: string;
  /** When it started; if nothing before a resumption was seen, when it was resumed. */
  readonly startedAtMs: number;
  /** What the run may spend from then on, by axis; limited axes only. */
  readonly budget: Amounts;
  /**
   * What of it is not spent. What is held for calls in flight still counts as left: most of it
   * comes back.
   */
  readonly left: Amounts;
  /** Spawns that were refused. */
  readonly refusals: number;
  /** Undefined until its agent has started. */
  readonly root: AgentView | undefined;
  /** Open questions, in the order in which they were asked. */
  readonly questions: readonly OpenQuestion[];
  /** For how long its clock stood still, because all that was left was waiting for an answer. */
  readonly stoodMs: number;
  /** Since when it stands still now, if it does. */
  readonly standsSinceMs: number | undefined;
  /** How it settled; undefined while it runs. */
  readonly end: RunEnd | undefined;
}

interface RunEnd {
  readonly status: SettledStatus;
  readonly atMs: number;
  readonly durationMs: number;
}

type Amounts = Readonly<Record<string, number>>;

/**
 * The view after one more event; undefined before the run's first. Events that are not shown here,
 * also unknown ones, change nothing.
 */
export function nextRunView(view: RunView | undefined, event: EspalierEvent): RunView | undefined {
  if (event.type === "run.started") return openRun(event, event.budget);
  if (event.type === "run.resumed" && view?.runId !== event.runId) return openRun(event, {});
  if (view === undefined || view.runId !== event.runId) return view;
  return timed(view, after(view, event), event.atMs);
}

function after(view: RunView, event: EspalierEvent): RunView {
  switch (event.type) {
    case "agent.started":
      return addAgent(view, event);
    case "agent.resumed":
      return resumeAgent(view, event);
    case "step.started":
    case "step.completed":
      return change(view, event, { step: event.number });
    case "budget.reserved":
    case "budget.released":
      return doing(view, event, { kind: "queued" });
    case "budget.settled":
      return charge({ ...view, left: leftAfter(view.left, event) }, event);
    case "model.requested":
      return doing(view, event, { kind: "thinking" });
    case "model.retried": {
      const { error, nextModel } = event;
      const attempt = nextModel === undefined ? event.attempt + 1 : event.attempt;
      return doing(view, event, { kind: "retrying", attempt, errorCode: error.code });
    }
    case "model.replied":
    case "model.failed":
    case "continuation.evaluated":
      return doing(view, event, { kind: "preparing" });
    case "tool.started":
    case "tool.resumed":
      return openCall(view, event, event.kind === "delegation" ? "delegation" : "tool");
    case "tool.paused":
    case "tool.ended":
      return closeCall(view, event);
    case "question.asked":
      return ask(view, event);
    case "question.answered": {
      const rest = withoutQuestions(view, (one) => one.questionId === event.questionId);
      return closeCall(rest, event, "question");
    }
    case "subagent.refused":
      return countRefusal(view, event);
    case "agent.paused":
      return pauseAgent(view, event);
    case "agent.ended": {
      const rest = withoutQuestions(view, (one) => one.agentId === event.agentId);
      return endAgent(rest, event);
    }
    case "budget.granted":
      return event.parentAgentId === null ? grant(view, event) : view;
    case "run.resumed":
      return continueRun(view, event);
    case "run.paused":
    case "run.ended": {
      const { atMs, durationMs } = event;
      const isEnd = event.type === "run.ended";
      const questions = isEnd ? [] : event.questions.map(openQuestion);
      return {
        ...view,
        questions,
        end: { status: isEnd ? event.status : "paused", atMs, durationMs },
      };
    }
    default:
      return view;
  }
}

type Placed = Pick<EspalierEvent, "agentPath">;
type InCall = Pick<EspalierEvent, "agentPath" | "callId">;

function openRun(event: EspalierEvent<"run.started" | "run.resumed">, budget: Amounts): RunView {
  const { runId, traceId, atMs: startedAtMs } = event;
  return {
    runId,
    traceId,
    startedAtMs,
    budget,
    left: budget,
    refusals: 0,
    root: undefined,
    questions: [],
    stoodMs: 0,
    standsSinceMs: undefined,
    end: undefined,
  };
}

/** The time of the pause counts for nothing. */
function continueRun(view: RunView, { traceId, pausedMs }: EspalierEvent<"run.resumed">): RunView {
  const startedAtMs = view.startedAtMs + pausedMs;
  return { ...view, traceId, startedAtMs, questions: [], end: undefined };
}

/** Keeps the time in which the run stood still: only while there are questions it can. */
function timed(before: RunView, view: RunView, atMs: number): RunView {
  if (view.questions.length === 0 && before.standsSinceMs === undefined) return view;
  const stoodMs = view.stoodMs + (atMs - (before.standsSinceMs ?? atMs));
  const stands = view.end === undefined && view.questions.length > 0 && !isWorking(view.root);
  return { ...view, stoodMs, standsSinceMs: stands ? atMs : undefined };
}

function isWorking(agent: AgentView | undefined): boolean {
  if (agent === undefined) return false;
  const { activity } = agent;
  const isIdle =
    activity.kind === "settled" ||
    (activity.kind === "calling" && activity.calls.every(({ kind }) => kind !== "tool"));
  return !isIdle || agent.children.some(isWorking);
}

/** An agent that was not seen before joins the tree; of the root one learns what is left. */
function resumeAgent(view: RunView, event: EspalierEvent<"agent.resumed">): RunView {
  const { parentAgentId, budget: left } = event;
  const isUnlimited = Object.keys(view.budget).length === 0;
  const budgeted =
    parentAgentId === null ? { ...view, left, budget: isUnlimited ? left : view.budget } : view;
  return findAt(view.root, event.agentPath) === undefined
    ? addAgent(budgeted, event)
    : doing(budgeted, event, { kind: "preparing" });
}

function pauseAgent(view: RunView, event: EspalierEvent<"agent.paused">): RunView {
  const { agentPath, atMs, reason } = event;
  const durationMs = atMs - (findAt(view.root, agentPath)?.startedAtMs ?? atMs);
  return doing(view, event, { kind: "settled", status: "paused", reason, durationMs });
}

/** What it spent before a resumption, unseen, is known at its end; its ancestors' part of it too. */
function endAgent(view: RunView, event: EspalierEvent<"agent.ended">): RunView {
  const { agentPath, status, reason, durationMs, steps: step, usage } = event;
  const known = findAt(view.root, agentPath);
  if (known === undefined) return view;
  const own = spentOf(usage.own);
  const subtree = spentOf(usage.total);
  const unseen = plus(subtree, known.subtree, -1);
  const activity: Activity = { kind: "settled", status, reason, durationMs };
  return changeTree(
    view,
    agentPath,
    (agent) => ({ ...agent, activity, step, own, subtree }),
    (ancestor) => ({ ...ancestor, subtree: plus(ancestor.subtree, unseen) }),
  );
}

function ask(view: RunView, event: EspalierEvent<"question.asked">): RunView {
  const { question } = event;
  const questions = [...view.questions, openQuestion(question)];
  const at = { agentPath: event.agentPath, callId: question.callId, toolName: question.toolName };
  return openCall({ ...view, questions }, at, "question");
}

function withoutQuestions(view: RunView, isGone: (one: OpenQuestion) => boolean): RunView {
  if (!view.questions.some(isGone)) return view;
  return { ...view, questions: view.questions.filter((one) => !isGone(one)) };
}

function addAgent(view: RunView, event: EspalierEvent<"agent.started" | "agent.resumed">): RunView {
  const { agentId, agentPath, role, task, atMs: startedAtMs } = event;
  const agent: AgentView = {
    agentId,
    agentPath,
    role,
    task,
    startedAtMs,
    activity: { kind: "preparing" },
    step: 0,
    own: NOTHING_SPENT,
    subtree: NOTHING_SPENT,
    refusals: 0,
    children: [],
  };
  const parentPath = agentPath.slice(0, Math.max(0, agentPath.lastIndexOf("/")));
  if (parentPath === "") return { ...view, root: agent };
  return changeTree(view, parentPath, (parent) => ({
    ...parent,
    children: [...parent.children, agent],
  }));
}

/** `changeAt` for the tree of a run, if it has one. */
function changeTree(view: RunView, path: string, ...changes: TreeChanges): RunView {
  return view.root === undefined ? view : { ...view, root: changeAt(view.root, path, ...changes) };
}

type AgentChange = (agent: AgentView) => AgentView;
type TreeChanges = readonly [target: AgentChange, onPath?: AgentChange];

function change(view: RunView, { agentPath }: Placed, fields: Partial<AgentView>): RunView {
  return changeTree(view, agentPath, (agent) => ({ ...agent, ...fields }));
}

function doing(view: RunView, at: Placed, activity: Activity): RunView {
  return change(view, at, { activity });
}

function calls(
  view: RunView,
  { agentPath }: Placed,
  next: (open: readonly OpenCallView[]) => readonly OpenCallView[],
): RunView {
  return changeTree(view, agentPath, (agent) => {
    const open = next(agent.activity.kind === "calling" ? agent.activity.calls : []);
    const activity: Activity =
      open.length === 0 ? { kind: "preparing" } : { kind: "calling", calls: open };
    return { ...agent, activity };
  });
}

function openCall(
  view: RunView,
  at: InCall & Pick<OpenCallView, "toolName">,
  kind: OpenCallView["kind"],
): RunView {
  const { callId, toolName } = at;
  return calls(view, at, (open) => [...open, { callId, toolName, kind }]);
}

/** `kind`: what of it is over, of a call whose tool has asked a question. Default: all. */
function closeCall(view: RunView, at: InCall, kind?: OpenCallView["kind"]): RunView {
  return calls(view, at, (open) =>
    open.filter((call) => call.callId !== at.callId || (kind ?? call.kind) !== call.kind),
  );
}

function charge(view: RunView, { agentPath, usage }: EspalierEvent<"budget.settled">): RunView {
  const onPath = (agent: AgentView): AgentView => ({
    ...agent,
    subtree: plus(agent.subtree, usage),
  });
  const payer = (agent: AgentView): AgentView => onPath({ ...agent, own: plus(agent.own, usage) });
  return changeTree(view, agentPath, payer, onPath);
}

/** Tool calls are charged without an event of their own: for them the ledger says what is left. */
function leftAfter(left: Amounts, event: EspalierEvent<"budget.settled">): Amounts {
  const used: Amounts = { ...event.usage };
  return eachAmount(left, (axis, amount) => {
    const byLedger = axis === "toolCalls" ? event.runRemaining[axis] : undefined;
    return byLedger ?? Math.max(0, amount - (used[axis] ?? 0));
  });
}

function eachAmount(amounts: Amounts, next: (axis: string, amount: number) => number): Amounts {
  return Object.fromEntries(
    Object.entries(amounts).map(([axis, amount]) => [axis, next(axis, amount)]),
  );
}

/** More for the root is more for the run. */
function grant(view: RunView, { budget }: EspalierEvent<"budget.granted">): RunView {
  const { costUsd = 0, ...others } = budget;
  const more: Amounts = { ...others, costMicroUsd: Math.round(costUsd * MICRO_PER_USD) };
  const raised = (amounts: Amounts): Amounts =>
    eachAmount(amounts, (axis, amount) => amount + (more[axis] ?? 0));
  return { ...view, budget: raised(view.budget), left: raised(view.left) };
}

function countRefusal(view: RunView, { agentPath }: Placed): RunView {
  const refusals = view.refusals + 1;
  return changeTree({ ...view, refusals }, agentPath, (agent) => ({
    ...agent,
    refusals: agent.refusals + 1,
  }));
}
