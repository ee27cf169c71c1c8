// Laws that every run must satisfy, checked in one pass: the checks of `outcome` scan all events
// for each agent, which is too slow for ten thousand agents.

import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { assertEvent, type EspalierEvent } from "../../src/protocol/event.ts";
import { addUsage, NO_USAGE, type Usage } from "../../src/protocol/usage.ts";

/**
 * Checking the form of some hundred thousand events would take longer than the run, so only a
 * sample is checked.
 */
const CHECKED_EVERY = 97;

/** Throws, naming the law, unless all of them hold. */
export function checkBigTree(result: RunResult, events: readonly EspalierEvent[]): void {
  checkStream(events);
  checkLives(events);
  checkAccounts(result);
}

function law(holds: boolean, rule: () => string): void {
  if (!holds) throw new Error(`Broken: ${rule()}.`);
}

/** E1: events are numbered without gaps and share one trace; the end of the run comes last. */
function checkStream(events: readonly EspalierEvent[]): void {
  for (const [index, event] of events.entries()) {
    law(event.seq === index + 1, () => `E1: ${event.type} is ${event.seq}, not ${index + 1}`);
    law(event.traceId === events[0]?.traceId, () => "one trace");
    if (index % CHECKED_EVERY === 0) assertEvent(event);
  }
  const ends = events.filter((event) => event.type === "run.ended");
  law(ends.length === 1 && ends[0] === events.at(-1), () => "the run ends once, and last");
}

/**
 * L2, T1, T2: every agent starts and ends once with no event afterwards, every spawn settles once,
 * and no agent ends while a child lives.
 */
function checkLives(events: readonly EspalierEvent[]): void {
  const living = new Set<string>();
  const ended = new Set<string>();
  const unsettled = new Set<string>();
  const children = new Map<string | null, number>();
  const count = (parent: string | null, by: number): void => {
    children.set(parent, (children.get(parent) ?? 0) + by);
  };
  for (const event of events) {
    const { agentId, parentAgentId, executionId, agentPath } = event;
    if (executionId !== null) law(!ended.has(agentId), () => `L2: ${event.type} of ${agentPath}`);
    if (event.type === "subagent.spawned") unsettled.add(event.childId);
    if (event.type === "subagent.ended")
      law(unsettled.delete(event.childId), () => `T1: ${event.childPath} settles once`);
    if (event.type === "agent.started") {
      law(!living.has(agentId), () => `${agentPath} starts once`);
      living.add(agentId);
      count(parentAgentId, 1);
    }
    if (event.type === "agent.ended") {
      law(living.delete(agentId), () => `L2: ${agentPath} ends once`);
      law((children.get(agentId) ?? 0) === 0, () => `T2: ${agentPath} ends over a living child`);
      ended.add(agentId);
      count(parentAgentId, -1);
    }
  }
  law(living.size === 0, () => `L2: ${living.size} agents have no end`);
  law(unsettled.size === 0, () => `T1: ${unsettled.size} spawns are not settled`);
}

/**
 * B1, B3, X18: an account's total is its own plus its children's, nothing is held, and no limit is
 * overdrawn.
 */
function checkAccounts({ accounts, agents, usage }: RunResult): void {
  const below = new Map<string | null, Usage>();
  for (const { parentAgentId: parentId, total } of accounts)
    below.set(parentId, addUsage(below.get(parentId) ?? NO_USAGE, total));
  const reported = new Map(agents.map((agent) => [agent.agentId, agent.usage]));
  for (const { agentId, agentPath: path, own, total, reserved, limits } of accounts) {
    const descendants = below.get(agentId) ?? NO_USAGE;
    same(total, addUsage(own, descendants), () => `B3: ${path}`);
    same(reported.get(agentId), { own, descendants, total }, () => `X18: ${path}`);
    law(
      Object.values(reserved).every((held) => held === 0),
      () => `B2: ${path} holds something`,
    );
    law(
      Object.entries(limits).every(([axis, limit]) => Reflect.get(total, axis) <= limit),
      () => `B1: ${path} is overdrawn`,
    );
  }
  law(accounts.length === agents.length, () => "every agent has one account");
  same(below.get(null), usage.total, () => "X18: the root's account is the run's");
  for (const cut of [usage.byRole, usage.byModel])
    same(Object.values(cut).reduce(addUsage, NO_USAGE), usage.total, () => "X18: every cut");
}

function same(left: unknown, right: unknown, rule: () => string): void {
  const [one, other] = [JSON.stringify(left), JSON.stringify(right)];
  law(one === other, () => `${rule()}: ${one} is not ${other}`);
}
