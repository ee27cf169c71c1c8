// Goal: waiting for an answer consumes no time limit, to the millisecond; everything else does, and
// a fixed deadline never moves.
// Method: agent clocks over a real ledger, a manual clock; every end is recorded with its time.

import { expect, test } from "vitest";

import { AgentTime } from "../../src/agent/agent-time.ts";
import { NO_PREFIX, createPendingState } from "../../src/agent/agent-state.ts";
import { AgentRuntime } from "../../src/agent/agent-runtime.ts";
import { PersistedEffects } from "../../src/orchestrator/durability/persisted-effects.ts";
import { BudgetLedger } from "../../src/budget/ledger.ts";
import type { NewAccount } from "../../src/budget/ledger.ts";
import { AgentIdSchema, ExecutionIdSchema } from "../../src/protocol/ids.ts";
import type { StopSignal } from "../../src/protocol/stop.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { bareRun, unopenedJournal } from "../support/bare-run.ts";
import { proves } from "../harness/proves.ts";
import { soloist } from "../harness/soloist.ts";

type Times = Pick<NewAccount, "timeMs" | "deadlineAtMs">;

class ClockFixture {
  readonly clock = new ManualClock();
  readonly ledger = new BudgetLedger(this.clock);
  /** Agents that reached their deadline, and when. */
  readonly ended: (readonly [path: string, atMs: number, deadlineAtMs: number])[] = [];
  readonly #clocks = new Map<string, AgentTime>();

  /**
   * Opens the account of `path` below that of the path before its last slash, and starts its clock.
   */
  open(path: string, times: Times = {}): AgentTime {
    const above = path.slice(0, Math.max(0, path.lastIndexOf("/")));
    const parent = above === "" ? undefined : this.ledger.getAccount(AgentIdSchema().parse(above));
    const agentId = AgentIdSchema().parse(path);
    this.ledger.open({ agentId, agentPath: path, limits: {}, ...times }, parent);
    const time = this.#clocks.get(above);
    const agent = new AgentTime({
      run: { clock: this.clock },
      account: this.ledger.getAccount(agentId),
      parent: time === undefined ? undefined : { time },
      effectCount: 0,
      onDeadline: (deadlineAtMs) => {
        this.ended.push([path, this.clock.nowMs(), deadlineAtMs]);
      },
    });
    this.#clocks.set(path, agent);
    return agent;
  }

  /** Returns why the agent may start nothing: the account and the time that it has used. */
  refusal(path: string): unknown {
    const refusal = this.ledger.getAccount(AgentIdSchema().parse(path)).exhaustedForReply();
    return refusal === undefined ? undefined : [refusal.accountPath, refusal.spent];
  }

  /** Returns for how long the clock has been paused. */
  pausedMs(path: string): number {
    return this.ledger.getAccount(AgentIdSchema().parse(path)).pausedMs;
  }

  left(path: string): number | undefined {
    return this.ledger.getAccount(AgentIdSchema().parse(path)).remaining()["timeMs"];
  }
}

test("leaves an agent its whole limit of 10 s after an answer that took 60 s", () => {
  const fixture = new ClockFixture();
  const agent = fixture.open("lead", { timeMs: 10_000 });
  agent.holdClock();
  expect(fixture.clock.pendingTimers).toBe(0);
  fixture.clock.advance(60_000);
  expect([fixture.ended, fixture.refusal("lead"), fixture.left("lead")]).toEqual([
    [],
    undefined,
    10_000,
  ]);
  agent.releaseClock();
  agent.beginWork();
  fixture.clock.advance(9_999);
  expect([fixture.ended, fixture.left("lead"), fixture.refusal("lead")]).toEqual([
    [],
    1,
    undefined,
  ]);
  fixture.clock.advance(1);
  expect(fixture.ended).toEqual([["lead", 70_000, 70_000]]);
  expect([fixture.refusal("lead"), fixture.pausedMs("lead")]).toEqual([["lead", 10_000], 60_000]);
  agent.endWork();
});

test("counts time before the question and work during it against the limit", () => {
  const fixture = new ClockFixture();
  const agent = fixture.open("lead", { timeMs: 100 });
  fixture.clock.advance(30);
  agent.holdClock();
  fixture.clock.advance(1_000);
  agent.beginWork();
  fixture.clock.advance(20);
  agent.endWork();
  fixture.clock.advance(1_000);
  expect([fixture.left("lead"), fixture.pausedMs("lead")]).toEqual([50, 2_000]);
  agent.releaseClock();
  fixture.clock.advance(49);
  expect(fixture.ended).toEqual([]);
  fixture.clock.advance(1);
  expect(fixture.ended).toEqual([["lead", 2_100, 2_100]]);
});

test("reaches a limit while the agent works with a question open", () => {
  const fixture = new ClockFixture();
  const agent = fixture.open("lead", { timeMs: 100 });
  agent.beginWork();
  agent.holdClock();
  fixture.clock.advance(100);
  expect(fixture.ended).toEqual([["lead", 100, 100]]);
});

test("charges a working sibling's time to the parent, and not to the agent that asked", () => {
  const fixture = new ClockFixture();
  fixture.open("lead", { timeMs: 100 });
  const asker = fixture.open("lead/a", { timeMs: 50 });
  const worker = fixture.open("lead/b", { timeMs: 90 });
  asker.holdClock();
  worker.beginWork();
  fixture.clock.advance(60);
  expect(["lead", "lead/a", "lead/b"].map((path) => fixture.left(path))).toEqual([40, 40, 30]);
  expect(fixture.pausedMs("lead/a")).toBe(60);
  worker.endWork();
  fixture.clock.advance(1_000);
  // Now the parent is paused as well. The sibling asked nothing: its own time continues, and it
  // ends.
  expect(fixture.ended).toEqual([["lead/b", 90, 90]]);
  expect(fixture.left("lead")).toBe(40);
  asker.releaseClock();
  fixture.clock.advance(40);
  expect(fixture.ended.slice(1)).toEqual([["lead", 1_100, 1_100]]);
  expect(fixture.left("lead/a")).toBe(0);
});

test("pauses the clocks of all ancestors for a question two levels down", () => {
  const fixture = new ClockFixture();
  for (const path of ["lead", "lead/a"]) fixture.open(path, { timeMs: 10 });
  const asker = fixture.open("lead/a/b");
  asker.holdClock();
  fixture.clock.advance(500);
  asker.releaseClock();
  expect(fixture.left("lead/a/b")).toBe(10);
  fixture.clock.advance(10);
  expect(fixture.ended.map(([path, atMs]) => [path, atMs])).toEqual([
    ["lead", 510],
    ["lead/a", 510],
  ]);
});

proves(["R58"], "ends an agent at its fixed deadline while its clock is paused", () => {
  const fixture = new ClockFixture();
  const agent = fixture.open("lead", { timeMs: 100, deadlineAtMs: 300 });
  agent.holdClock();
  fixture.clock.advance(299);
  expect([fixture.ended, fixture.left("lead")]).toEqual([[], 1]);
  fixture.clock.advance(1);
  expect([fixture.ended, fixture.refusal("lead")]).toEqual([[["lead", 300, 300]], ["lead", 300]]);
  agent.releaseClock();
  fixture.clock.advance(1_000);
  expect([fixture.ended.length, fixture.clock.pendingTimers]).toEqual([1, 0]);
});

proves(["R58"], "does not extend a time limit beyond the fixed deadline", () => {
  const fixture = new ClockFixture();
  const agent = fixture.open("lead", { timeMs: 100, deadlineAtMs: 150 });
  agent.holdClock();
  fixture.clock.advance(60);
  agent.releaseClock();
  fixture.clock.advance(90);
  expect(fixture.ended).toEqual([["lead", 150, 150]]);
});

test("resumes the clock when the last of several questions is settled", () => {
  const fixture = new ClockFixture();
  const agent = fixture.open("lead", { timeMs: 10 });
  agent.holdClock();
  agent.holdClock();
  fixture.clock.advance(50);
  agent.releaseClock();
  fixture.clock.advance(50);
  expect(fixture.left("lead")).toBe(10);
  agent.releaseClock();
  agent.beginWork();
  agent.beginWork();
  agent.holdClock();
  agent.endWork();
  fixture.clock.advance(4);
  agent.endWork();
  fixture.clock.advance(50);
  expect([fixture.left("lead"), fixture.pausedMs("lead")]).toEqual([6, 150]);
});

test("changes no time if questions and work begin and end in one millisecond", () => {
  const fixture = new ClockFixture();
  const agent = fixture.open("lead", { timeMs: 10 });
  fixture.clock.advance(3);
  for (const isWorkFirst of [false, true]) {
    agent.holdClock();
    agent.beginWork();
    agent.holdClock();
    if (isWorkFirst) agent.endWork();
    agent.releaseClock();
    if (!isWorkFirst) agent.endWork();
    agent.releaseClock();
  }
  expect([fixture.pausedMs("lead"), fixture.left("lead"), fixture.clock.pendingTimers]).toEqual([
    0, 7, 1,
  ]);
  fixture.clock.advance(7);
  expect(fixture.ended).toEqual([["lead", 10, 10]]);
});

test("sets no timer for work without a question", () => {
  const fixture = new ClockFixture();
  let timers = 0;
  const clock = {
    nowMs: () => fixture.clock.nowMs(),
    monotonicMs: () => fixture.clock.monotonicMs(),
    setTimer: (delayMs: number, wake: () => void) => {
      timers += 1;
      return fixture.clock.setTimer(delayMs, wake);
    },
  };
  const agentId = AgentIdSchema().parse("lead");
  fixture.ledger.open({ agentId, agentPath: "lead", limits: {}, timeMs: 10 });
  const account = fixture.ledger.getAccount(agentId);
  const agent = new AgentTime({
    run: { clock },
    account,
    parent: undefined,
    effectCount: 0,
    onDeadline: () => undefined,
  });
  for (let call = 0; call < 100; call += 1) {
    agent.beginWork();
    agent.endWork();
  }
  expect(timers).toBe(1);
});

test("extends no limit by a question in the millisecond in which time runs out", () => {
  const fixture = new ClockFixture();
  let agent: AgentTime | undefined;
  fixture.clock.setTimer(10, () => agent?.holdClock());
  agent = fixture.open("lead", { timeMs: 10 });
  fixture.clock.advance(100);
  expect(fixture.ended).toEqual([["lead", 10, 10]]);
  expect(fixture.refusal("lead")).toEqual(["lead", 10]);
});

test("leaves one millisecond to an agent that asks one millisecond before its limit", () => {
  const fixture = new ClockFixture();
  const agent = fixture.open("lead", { timeMs: 10 });
  fixture.clock.advance(9);
  agent.holdClock();
  fixture.clock.advance(100);
  agent.releaseClock();
  expect([fixture.ended, fixture.left("lead")]).toEqual([[], 1]);
  fixture.clock.advance(1);
  expect(fixture.ended).toEqual([["lead", 110, 110]]);
});

test("ends an agent at once that starts with its time over", () => {
  const fixture = new ClockFixture();
  fixture.clock.advance(5);
  fixture.open("lead", { deadlineAtMs: 3 });
  fixture.open("other", { timeMs: 0 });
  fixture.clock.advance(0);
  expect(fixture.ended).toEqual([
    ["lead", 5, 3],
    ["other", 5, 5],
  ]);
});

test("sets timers only for agents with their own limit", () => {
  const fixture = new ClockFixture();
  fixture.open("lead", { timeMs: 10 });
  fixture.open("lead/a");
  fixture.open("lead/a/b");
  expect(fixture.clock.pendingTimers).toBe(1);
});

test("stops the timer of an ended agent, and ignores its open questions and work in all clocks", () => {
  const fixture = new ClockFixture();
  const lead = fixture.open("lead", { timeMs: 100 });
  const child = fixture.open("lead/a", { timeMs: 100 });
  child.holdClock();
  fixture.clock.advance(30);
  child.close();
  child.close();
  expect([
    fixture.pausedMs("lead/a"),
    fixture.pausedMs("lead"),
    fixture.clock.pendingTimers,
  ]).toEqual([30, 30, 1]);
  fixture.clock.advance(20);
  child.releaseClock();
  child.holdClock();
  child.beginWork();
  fixture.clock.advance(20);
  expect([fixture.pausedMs("lead/a"), fixture.pausedMs("lead"), fixture.left("lead")]).toEqual([
    30, 30, 60,
  ]);
  lead.close();
  expect(fixture.clock.pendingTimers).toBe(0);
});

test("ignores work that an ended agent left open in the clocks of its ancestors", () => {
  const fixture = new ClockFixture();
  const lead = fixture.open("lead", { timeMs: 100 });
  const child = fixture.open("lead/a");
  child.beginWork();
  lead.holdClock();
  fixture.clock.advance(10);
  child.close();
  fixture.clock.advance(40);
  child.endWork();
  fixture.clock.advance(40);
  expect([fixture.pausedMs("lead"), fixture.left("lead")]).toEqual([80, 90]);
});

const { role: ROLE } = soloist([]);

function node(
  fixture: ClockFixture,
  parent: AgentRuntime | undefined,
  path: string,
  signals: readonly StopSignal[] = [],
): AgentRuntime {
  const first = createPendingState({ messages: [], prefix: NO_PREFIX });
  const agentId = AgentIdSchema().parse(path);
  const above = parent && fixture.ledger.getAccount(parent.identity.agentId);
  fixture.ledger.open({ agentId, agentPath: path, limits: {}, timeMs: 10 }, above);
  return new AgentRuntime(
    bareRun(ROLE, fixture.clock),
    parent,
    { role: ROLE, task: "Wait.", metadata: {}, agentPath: path },
    {
      agentId,
      executionId: ExecutionIdSchema().parse(`execution of ${path}`),
      model: ROLE.model,
      state: { ...first, log: { ...first.log, signals } },
      account: fixture.ledger.getAccount(agentId),
    },
  );
}

const STOP_REQUEST: StopSignal = {
  source: "caller",
  reason: { code: "stop_requested", message: "Time for lunch.", data: {} },
};

test("pauses an agent's time with its questions, and aborts the agent and its subagents at the deadline", () => {
  const fixture = new ClockFixture();
  const lead = node(fixture, undefined, "lead");
  const child = node(fixture, lead, "lead/a");
  child.beginWork();
  fixture.clock.advance(4);
  child.endWork();
  child.holdClock();
  fixture.clock.advance(50);
  child.releaseClock();
  expect([lead.account.pausedMs, child.account.pausedMs]).toEqual([50, 50]);
  fixture.clock.advance(5);
  expect([lead.cancelSignal.aborted, child.cancelSignal.aborted]).toEqual([false, false]);
  fixture.clock.advance(1);
  const reason: unknown = lead.cancelSignal.reason;
  expect(reason).toEqual({
    type: "deadline",
    message: "The time limit of lead allows 10 ms; that time is over.",
    deadlineAtMs: 60,
    maximumMs: 10,
    agentId: "lead",
    agentPath: "lead",
  });
  expect(child.cancelSignal.reason).toBe(reason);
  child.close();
  lead.close();
  expect(fixture.clock.pendingTimers).toBe(0);
});

test("starts nothing in an agent after a stop request, and lets its current work continue", () => {
  const fixture = new ClockFixture();
  const lead = node(fixture, undefined, "lead");
  const child = node(fixture, lead, "lead/a");
  expect([child.noStartSignal.aborted, child.noStartSignal]).toEqual([false, child.noStartSignal]);
  child.requestStop(STOP_REQUEST);
  child.requestStop(STOP_REQUEST);
  expect([child.noStartSignal.aborted, child.cancelSignal.aborted]).toEqual([true, false]);
  expect([lead.noStartSignal.aborted, child.takeStopRequests()]).toEqual([
    false,
    [STOP_REQUEST, STOP_REQUEST],
  ]);
});

test("starts nothing in an agent that must end, and sends no signal to an ended agent", () => {
  const fixture = new ClockFixture();
  const lead = node(fixture, undefined, "lead");
  const [child, over] = [node(fixture, lead, "lead/a"), node(fixture, lead, "lead/b")];
  over.close();
  lead.cancel("Enough.");
  expect([lead, child, over].map(({ noStartSignal }) => noStartSignal.aborted)).toEqual([
    true,
    true,
    false,
  ]);
  const late = node(fixture, lead, "lead/c");
  expect(late.noStartSignal.aborted).toBe(true);
});

proves(
  ["S7.17"],
  "omits a signal that was logged before a crash once, and keeps further ones",
  () => {
    const other: StopSignal = {
      ...STOP_REQUEST,
      reason: { ...STOP_REQUEST.reason, message: "Time for tea." },
    };
    const agent = node(new ClockFixture(), undefined, "lead", [STOP_REQUEST]);
    const effects = new PersistedEffects(unopenedJournal(agent.run.clock), agent, undefined);
    agent.requestStop(STOP_REQUEST);
    agent.requestStop(STOP_REQUEST);
    agent.requestStop(other);
    expect(effects.filterUnlogged(agent.takeStopRequests())).toEqual([STOP_REQUEST, other]);
  },
);
