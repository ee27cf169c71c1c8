// Laws that every tree must satisfy, derived from its events, its results, the sent requests and
// the tool bodies that ran. Nothing here knows how the tree was played.

import type { Account } from "../../../src/protocol/account.ts";
import { assertEvent, type EspalierEvent } from "../../../src/protocol/event.ts";
import { addUsage, NO_USAGE, UsageSchema, type Usage } from "../../../src/protocol/usage.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { findMessageProblems } from "../../../src/testing/check-messages.ts";
import { checkBooks } from "./tree-books.ts";
import { law, same } from "./tree-law.ts";
import { checkLives } from "./tree-lives.ts";
import { checkReports } from "./tree-reports.ts";
import { checkShape } from "./tree-shape.ts";
import { MOST_EVENTS, type Played, type PlayedRun } from "./tree-fixture.ts";
import type { World } from "./tree-world.ts";

/** Throws, naming the law, unless all of them hold. */
export function checkLaws(world: World, played: Played): void {
  for (const run of played.runs) if (run.events.length > 0) checkRun(world, played, run);
  checkRequests(played);
  checkBodies(played);
  law(played.clock.pendingTimers === 0, `${played.clock.pendingTimers} timers were left behind`);
}

function checkRun(world: World, played: Played, run: PlayedRun): void {
  const { events, results, messagesOpen } = run;
  law(events.length < MOST_EVENTS, "the run was endless");
  law(messagesOpen === 0, "X23: a delivery to an agent never resolved");
  const last = results.at(-1);
  if (last === undefined) throw new Error("A run that was played has a result.");
  checkLives(world, run);
  checkNumbers(events, played.isTraced);
  checkShape(world, run, last);
  checkPairs(events);
  checkSteps(last);
  checkNoBugs(last);
  checkBooks(world, run, last);
  checkUsage(run, last);
  checkWidth(world, events);
  checkReports(world, played, run);
  for (const result of results) checkPausedRun(result);
}

/**
 * E1: events are numbered without gaps, over all pauses; each execution of the run has one trace.
 */
function checkNumbers(events: readonly EspalierEvent[], isTraced: boolean): void {
  for (const [index, event] of events.entries())
    law(event.seq === index + 1, `E1: ${event.type} is number ${event.seq}, not ${index + 1}`);
  for (const event of events.slice(0, MOST_CHECKED)) assertEvent(event);
  const traces = new Set(events.map(({ traceId }) => traceId));
  const resumptions = events.filter(({ type }) => type === "run.resumed");
  law(
    !isTraced || traces.size === 1 + resumptions.length,
    "E1: one trace for each time that it ran",
  );
}

/** Checking the form of events takes longer than playing most worlds. */
const MOST_CHECKED = 25;

function checkPausedRun({ status, pausedRun, accounts }: RunResult): void {
  law((status === "paused") === (pausedRun !== undefined), "R28: a paused run can be resumed");
  for (const account of accounts)
    law(isFree(account), `B2: ${account.agentPath} holds something while the run rests`);
}

function isFree({ reserved }: Account): boolean {
  return Object.values(reserved).every((held) => held === 0);
}

/** L3: every request has one result for each call, in call order. */
function checkRequests({ sent }: Played): void {
  for (const { request, by } of sent)
    same(
      findMessageProblems(request.messages),
      [],
      `L3: a request of ${by?.agentPath ?? "an unknown agent"}`,
    );
}

/** X17: no tool body runs twice for one call, whatever pauses there were, nor for a denied call. */
function checkBodies({ bodies, runs }: Played): void {
  const ran = new Set<string>();
  for (const { agentPath, callId } of bodies) {
    const call = `${agentPath} ${callId}`;
    law(!ran.has(call), `X17: the body of ${call} runs twice`);
    ran.add(call);
  }
  for (const event of runs.flatMap(({ events }) => events)) {
    if (event.type !== "question.answered" || event.answer !== "denied") continue;
    const call = `${event.agentPath} ${event.callId}`;
    law(!ran.has(call), `X17: ${call} was denied and ran`);
  }
}

/** L3, L4: the record has one result for each call, in call order; steps are numbered. */
function checkSteps({ agents }: RunResult): void {
  for (const { agentPath, steps } of agents) {
    for (const { tools, number } of steps) {
      const answered = tools.executions.map(({ call }) => call.callId);
      const asked = tools.calls.map(({ callId }) => callId);
      same(answered, asked, `L3: ${agentPath} step ${number}`);
    }
    const numbers = steps.map(({ number }) => number);
    same(
      numbers,
      numbers.map((_number, index) => index + 1),
      `L4: the steps of ${agentPath}`,
    );
  }
}

/** No invariant of ours breaks, even where only a model reads the error. */
function checkNoBugs({ agents }: RunResult): void {
  for (const { agentPath, errors, reason, steps } of agents) {
    const results = steps.flatMap(({ tools }) => tools.executions.map(({ text }) => text));
    const told = [reason.message, ...errors.map(({ message }) => message), ...results];
    const bug = told.find((text) => text.includes(BUG) && !text.includes(TWIN_ID));
    law(bug === undefined, () => `${agentPath} came upon a bug: ${bug}`);
  }
}

const BUG = "This is a bug in espalier";
/** The errors of two agents with one id; foreign code assigns the ids. */
const TWIN_ID = "an account is opened once";

/** Model calls and tool calls end once each, within the life of their agent. */
function checkPairs(events: readonly EspalierEvent[]): void {
  const open = new Set<string>();
  const begin = (key: string): void => {
    law(!open.has(key), `${key} began twice`);
    open.add(key);
  };
  const end = (key: string): void => law(open.delete(key), `${key} ended and had not begun`);
  for (const event of events) {
    const model = `model ${event.stepId} ${event.callId}`;
    const call = `tool ${event.executionId} ${event.callId}`;
    if (event.type === "model.requested") begin(model);
    if (event.type === "model.replied" || event.type === "model.failed") end(model);
    if (event.type === "tool.started" || event.type === "tool.resumed") begin(call);
    if (event.type === "tool.ended" || event.type === "tool.paused") end(call);
  }
  same([...open], [], "what began has ended");
}

/**
 * B3, X18: an account's total is its own plus its children's; results, events and accounts agree.
 */
function checkUsage({ events, origin }: PlayedRun, { accounts, agents, usage }: RunResult): void {
  const told = new Map<string, Usage>();
  for (const event of events) {
    if (event.type !== "step.completed") continue;
    told.set(event.agentId, addUsage(told.get(event.agentId) ?? NO_USAGE, event.usage));
  }
  for (const account of accounts) {
    const { agentId, agentPath: path, own, total } = account;
    const children = accounts.filter(({ parentAgentId: parentId }) => parentId === agentId);
    const below = sum(children.map((child) => child.total));
    same(total, addUsage(own, below), `B3: ${path}`);
    law(UsageSchema().safeParse(total).success, `${path} has spent no amount`);
    const agent = agents.find((one) => one.agentId === agentId);
    same(agent?.usage, { own, descendants: below, total }, `X18: ${path}`);
    same(told.get(agentId) ?? NO_USAGE, own, `X18: the steps of ${path}`);
  }
  const tokens = sum(events.flatMap((event) => (isCharge(event) ? [event.usage] : [])));
  same({ ...tokens, toolCalls: 0 }, { ...usage.total, toolCalls: 0 }, "X18: the model calls");
  same(sum(agents.map((agent) => agent.usage.own)), usage.total, "X18: the agents' own");
  same(sum(Object.values(usage.byRole)), usage.total, "X18: by role");
  same(sum(Object.values(usage.byModel)), usage.total, "X18: by model");
  same(accounts[0]?.total, usage.total, "X18: the root's account");
  const rest = events.at(-1);
  if (rest?.type === "run.ended") same(rest.usage.total, usage.total, "X18: the last event");
  law(
    origin === undefined || origin.runId !== events[0]?.runId,
    "C27: a fork has an id of its own",
  );
}

function isCharge(event: EspalierEvent): event is EspalierEvent<"budget.settled"> {
  return event.type === "budget.settled";
}

function sum(usages: readonly Usage[]): Usage {
  return usages.reduce(addUsage, NO_USAGE);
}

/** S1, X19: model calls and tool bodies never exceed their slots. */
function checkWidth({ concurrency }: World, events: readonly EspalierEvent[]): void {
  const models = new Set<string>();
  const tools = new Set<string>();
  // A call that is rejected before it runs takes no slot. Only its end reveals that.
  const rejected = new Set(
    events.flatMap((event) =>
      event.type === "tool.ended" && isRejection(event) ? [callOf(event)] : [],
    ),
  );
  const holdsSlot = turnsOf(events);
  for (const event of events) {
    const call = callOf(event);
    if (holdsSlot.has(event)) models.add(modelCallOf(event));
    if (event.type === "model.replied") models.delete(modelCallOf(event));
    if (event.type === "tool.started" && event.kind === "function" && !rejected.has(call))
      tools.add(call);
    if (event.type === "tool.ended") tools.delete(call);
    law(models.size <= concurrency.modelCalls, "X19: model calls at once");
    law(tools.size <= concurrency.toolCalls, "X19: tool calls at once");
  }
}

/**
 * The events from which on a model call had a slot until its reply. A failed call releases it, and
 * no event reports when it gets another.
 */
function turnsOf(events: readonly EspalierEvent[]): ReadonlySet<EspalierEvent> {
  const begun = new Map<string, EspalierEvent>();
  const turns = new Set<EspalierEvent>();
  for (const event of events) {
    const call = modelCallOf(event);
    const before = begun.get(call);
    if (event.type === "model.requested") begun.set(call, event);
    if (event.type === "model.retried") begun.delete(call);
    if (event.type === "model.replied" && before !== undefined) turns.add(before);
  }
  return turns;
}

function modelCallOf({ stepId, callId }: EspalierEvent): string {
  return `${stepId} ${callId}`;
}

function callOf({ executionId, callId }: EspalierEvent): string {
  return `${executionId} ${callId}`;
}

/** Outcomes of a call that no body has seen; no body of these worlds requests a corrected call. */
const REJECTIONS: ReadonlySet<string> = new Set([
  "unknown_tool",
  "invalid_json",
  "invalid_arguments",
  "retry_limit",
]);

function isRejection({ outcome, error }: EspalierEvent<"tool.ended">): boolean {
  return outcome === "refused" || outcome === "not_executed" || REJECTIONS.has(error?.code ?? "");
}
