// What must hold for every tree, whatever happened in it: read from its events, its result and the
// requests that were sent.

import { deadlineAtMs, type AccountPath } from "../../src/orchestrator/ledger-core.ts";
import type { Account } from "../../src/protocol/account.ts";
import type { RunResult } from "../../src/orchestrator/run-result.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import { addUsage, NO_USAGE, type Usage } from "../../src/protocol/usage.ts";
import { checkMessages } from "../../src/testing/check-messages.ts";
import { checkRun } from "../harness/run-scripted.ts";
import { checkBooks } from "./tree-books.ts";
import { MOST_EVENTS, type Played } from "./tree-stage.ts";
import type { World } from "./tree-world.ts";

/** Throws, naming the law, unless all of them hold. */
export function checkLaws(world: World, played: Played): void {
  const { result, events, requests, clock } = played;
  law(events.length < MOST_EVENTS, "the run was endless");
  checkRun(result, events);
  checkShape(world, events, result);
  checkHistories(result, requests);
  checkPairs(events);
  const attempts = events.filter((event) => ATTEMPTS.has(event.type));
  law(requests.length <= attempts.length, "B4: a model was asked past its effect");
  checkBooks(events, result.accounts);
  checkAccounts(result, events);
  checkWidth(world, events);
  checkOrders(played);
  law(clock.pendingTimers === 0, `${clock.pendingTimers} timers were left behind`);
  law(played.lateText.length === 0, "S3: late text was heard");
}

/**
 * What announces an attempt of a model call; one that was announced may be cancelled before it is
 * made.
 */
const ATTEMPTS: ReadonlySet<string> = new Set(["model.requested", "model.retried"]);

function law(holds: boolean, rule: string): void {
  if (!holds) throw new Error(`Broken: ${rule}.`);
}

function same(left: unknown, right: unknown, rule: string): void {
  const [one, other] = [JSON.stringify(left), JSON.stringify(right)];
  if (one !== other) throw new Error(`Broken: ${rule}: ${one} is not ${other}.`);
}

/** T1, T3: spawns keep to the limits, refusals are true, and everything is counted. */
function checkShape({ limits }: World, events: readonly EspalierEvent[], result: RunResult): void {
  const breadth = new Map<string, number>();
  const byDepth: Record<string, number> = {};
  const refusals: Record<string, number> = {};
  let total = 0;
  for (const event of events) {
    if (event.type === "subagent.refused") {
      const { code, current, maximum } = event.refusal;
      refusals[code] = (refusals[code] ?? 0) + 1;
      const isAtLimit =
        (code === "depth_limit" && event.depth === limits.maxDepth) ||
        (code === "breadth_limit" &&
          (breadth.get(event.agentId) ?? 0) === limits.maxBreadthPerParent) ||
        (code === "total_limit" && total === limits.maxTotalSubagents);
      law(
        !code.endsWith("_limit") || (isAtLimit && current === maximum),
        `T3: ${code} with room left`,
      );
    }
    if (event.type !== "subagent.spawned") continue;
    total += 1;
    breadth.set(event.agentId, (breadth.get(event.agentId) ?? 0) + 1);
    byDepth[event.childDepth] = (byDepth[event.childDepth] ?? 0) + 1;
    law(event.childDepth === event.depth + 1 && event.childDepth <= limits.maxDepth, "T3: depth");
    law((breadth.get(event.agentId) ?? 0) <= limits.maxBreadthPerParent, "T3: breadth");
    law(total <= limits.maxTotalSubagents, "T3: total");
    same(event.subagentsByDepth, byDepth, "counts by depth as they grow");
  }
  same(result.subagentsByDepth, byDepth, "counts by depth in the result");
  same(result.refusalsByCode, refusals, "refusals by code");
  law(
    result.agents.length === total + 1,
    "T1: everybody who was started has a report, nobody else",
  );
  law(result.accounts.length === total + 1, "T3: a set-up that failed leaves no account");
}

/**
 * L3: whatever was sent, and whatever was recorded, has one result for each call, in call order.
 */
function checkHistories(result: RunResult, requests: Played["requests"]): void {
  for (const request of requests) same(checkMessages(request.messages), [], "L3: a request");
  for (const agent of result.agents) {
    for (const step of agent.steps) {
      const answered = step.tools.executions.map((execution) => execution.call.callId);
      same(
        answered,
        step.tools.calls.map((call) => call.callId),
        `L3: ${agent.agentPath} step ${step.number}`,
      );
    }
    const numbers = agent.steps.map((step) => step.number);
    same(
      numbers,
      numbers.map((_number, index) => index + 1),
      "L4: steps are numbered",
    );
  }
}

/** What begins ends once: model calls and tool calls, each within the life of its agent. */
function checkPairs(events: readonly EspalierEvent[]): void {
  const open = new Set<string>();
  const begin = (key: string): void => {
    law(!open.has(key), `${key} began twice`);
    open.add(key);
  };
  for (const event of events) {
    const call = `${event.executionId} ${event.callId}`;
    if (event.type === "model.requested") begin(`model ${event.stepId}`);
    if (event.type === "tool.started") begin(`tool ${call}`);
    if (event.type === "subagent.spawned") begin(`child ${event.childId}`);
    if (event.type === "model.replied" || event.type === "model.failed") {
      law(
        open.delete(`model ${event.stepId}`),
        `${event.type} of ${event.stepId} without a request`,
      );
    }
    if (event.type === "tool.ended")
      law(open.delete(`tool ${call}`), "a tool ended that had not started");
    if (event.type === "subagent.ended")
      law(open.delete(`child ${event.childId}`), "T1: settled twice");
  }
  same([...open], [], "what began has ended");
}

/**
 * B3, X18: an account's total is its own plus its children's; results, events and accounts agree;
 * nothing is held.
 */
function checkAccounts(result: RunResult, events: readonly EspalierEvent[]): void {
  const { accounts, agents, usage } = result;
  for (const account of accounts) {
    const children = accounts.filter((other) => other.parentId === account.agentId);
    const below = sum(children.map((child) => child.total));
    same(account.total, addUsage(account.own, below), `B3: ${account.path}`);
    law(
      Object.values(account.reserved).every((held) => held === 0),
      `B2: ${account.path} holds something`,
    );
    law(Object.values(account.total).every(isCount), `${account.path} has spent no amount`);
    law(
      (account.limits.toolCalls ?? Infinity) >= account.total.toolCalls,
      `X3: tool calls of ${account.path}`,
    );
    const agent = agents.find((other) => other.agentId === account.agentId);
    same(
      agent?.usage,
      { own: account.own, descendants: below, total: account.total },
      `X18: ${account.path}`,
    );
    const steps = events.filter(
      (event) => event.type === "step.completed" && event.agentId === account.agentId,
    );
    const told = sum(
      steps.map((event) => (event.type === "step.completed" ? event.usage : NO_USAGE)),
    );
    same(told, account.own, `X18: the steps of ${account.path}`);
  }
  same(sum(Object.values(usage.byRole)), usage.total, "X18: by role");
  same(sum(Object.values(usage.byModel)), usage.total, "X18: by model");
  same(accounts[0]?.total, usage.total, "X18: the root's account");
}

function sum(usages: readonly Usage[]): Usage {
  return usages.reduce(addUsage, NO_USAGE);
}

function isCount(amount: number): boolean {
  return Number.isSafeInteger(amount) && amount >= 0;
}

/** S1, X19: no more model calls and tool bodies at once than there are slots. */
function checkWidth({ concurrency }: World, events: readonly EspalierEvent[]): void {
  const models = new Set<unknown>();
  const tools = new Set<string>();
  // A call that is rejected before it runs takes no slot. Only its end says so.
  const rejected = new Set(
    events.flatMap((event) =>
      event.type === "tool.ended" && isRejection(event) ? [callOf(event)] : [],
    ),
  );
  for (const event of events) {
    const call = callOf(event);
    if (event.type === "model.requested") models.add(event.stepId);
    if (event.type === "model.replied" || event.type === "model.failed")
      models.delete(event.stepId);
    if (event.type === "tool.started" && event.kind === "function" && !rejected.has(call))
      tools.add(call);
    if (event.type === "tool.ended") tools.delete(call);
    law(models.size <= concurrency.modelCalls, "X19: model calls at once");
    law(tools.size <= concurrency.toolCalls, "X19: tool calls at once");
  }
}

function callOf({ executionId, callId }: EspalierEvent): string {
  return `${executionId} ${callId}`;
}

/** What ends a call that no body has seen; no body of these worlds asks for a corrected call. */
const REJECTIONS: ReadonlySet<string> = new Set([
  "unknown_tool",
  "invalid_json",
  "invalid_arguments",
  "retry_limit",
]);

function isRejection({ outcome, errorCode = "" }: EspalierEvent<"tool.ended">): boolean {
  return outcome === "refused" || outcome === "not_executed" || REJECTIONS.has(errorCode);
}

const GOING_ON: ReadonlySet<string> = new Set(["model.requested", "model.replied", "tool.started"]);

/**
 * What the world asked for took effect: nothing starts after a cancel, a request to stop, or a
 * deadline.
 */
function checkOrders({ events, result, cancelledAfter, stoppedAfter }: Played): void {
  const deadlines = new Map<string, number | null>(
    result.accounts.map((account) => [
      account.agentId,
      deadlineAtMs(pathOf(account, result.accounts)),
    ]),
  );
  for (const [index, event] of events.entries()) {
    const begins = event.type === "step.started" || event.type === "subagent.spawned";
    if (cancelledAfter !== undefined && index >= cancelledAfter) {
      const goesOn = begins || GOING_ON.has(event.type);
      law(!goesOn, `T5: ${event.type} after the cancel`);
    }
    if (stoppedAfter !== undefined && index >= stoppedAfter) {
      law(!begins, `L1: ${event.type} after the request to stop`);
    }
    if (event.type === "model.requested") {
      const deadline = deadlines.get(event.agentId) ?? Infinity;
      law(event.atMs < deadline, `R58: ${event.agentPath} asks after its deadline`);
    }
  }
}

function pathOf(account: Account, all: readonly Account[]): AccountPath {
  const parent = all.find((one) => one.agentId === account.parentId);
  return parent === undefined ? [account] : [account, ...pathOf(parent, all)];
}
