// Goal: in any order of begins, ends and closes, an agent's clock is paused exactly while a
// question is open below it and nothing works there, and the agent is ended exactly at its own
// limit.
// Method: random sequences over a small tree; after each operation, everything is derived again
// from the log, millisecond by millisecond.

import * as fc from "fast-check";
import { test } from "vitest";

import { AgentTime } from "../../src/agent/agent-time.ts";
import { BudgetLedger } from "../../src/budget/ledger.ts";
import { AgentIdSchema, type AgentId } from "../../src/protocol/ids.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

interface Plan {
  /** The index of an earlier agent, modulo their number; the first is the root. */
  readonly parent: number;
  readonly limitMs: number | undefined;
  readonly lifeMs: number | undefined;
}

type Operation =
  | { readonly type: "working" | "asking" | "close"; readonly agent: number }
  | { readonly type: "end"; readonly opened: number }
  | { readonly type: "advance"; readonly byMs: number };

/** One effect or question in the log. */
interface Period {
  readonly type: "working" | "asking";
  readonly agent: number;
  readonly fromMs: number;
  untilMs: number;
}

interface Agent extends Plan {
  readonly id: AgentId;
  readonly clock: AgentTime;
  /** From the agent up to the root. */
  readonly path: readonly number[];
  closedAtMs: number;
}

const nat = fc.nat({ max: 100 });
const plan: fc.Arbitrary<Plan> = fc.record({
  parent: nat,
  limitMs: fc.option(fc.integer({ min: 0, max: 30 }), { nil: undefined, freq: 3 }),
  lifeMs: fc.option(fc.integer({ min: 0, max: 60 }), { nil: undefined, freq: 2 }),
});
const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ type: fc.constantFrom("working", "asking"), agent: nat }),
  },
  { weight: 8, arbitrary: fc.record({ type: fc.constant("end" as const), opened: nat }) },
  {
    weight: 6,
    arbitrary: fc.record({ type: fc.constant("advance" as const), byMs: fc.nat({ max: 12 }) }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("close" as const), agent: nat }) },
);

class Player {
  readonly #time = new ManualClock();
  readonly #ledger = new BudgetLedger(this.#time);
  readonly #agents: Agent[] = [];
  readonly #log: Period[] = [];
  readonly #ended = new Map<number, number>();

  constructor(plans: readonly Plan[]) {
    for (const one of plans) this.#open(one);
  }

  #open(one: Plan): void {
    const index = this.#agents.length;
    const above = this.#agents[one.parent % Math.max(1, index)];
    const path = `agent_${index}`;
    const id = AgentIdSchema().parse(path);
    const times = { timeMs: one.limitMs, deadlineAtMs: one.lifeMs };
    this.#ledger.open(
      { agentId: id, agentPath: path, limits: {}, ...times },
      above && this.#ledger.getAccount(above.id),
    );
    const clock = new AgentTime({
      run: { clock: this.#time },
      account: this.#ledger.getAccount(id),
      parent: above === undefined ? undefined : { time: above.clock },
      effectCount: 0,
      onDeadline: () => {
        check(!this.#ended.has(index), `${path} is ended once`);
        this.#ended.set(index, this.#time.nowMs());
      },
    });
    const agentPath = [index, ...(above?.path ?? [])];
    this.#agents.push({ ...one, id, clock, path: agentPath, closedAtMs: Infinity });
  }

  apply(one: Operation): void {
    if (one.type === "advance") this.#time.advance(one.byMs);
    else if (one.type === "end") this.#end(one.opened);
    else this.#act(one.type, one.agent % this.#agents.length);
  }

  #act(type: Period["type"] | "close", index: number): void {
    const agent = this.#agents[index];
    if (agent === undefined) return;
    const nowMs = this.#time.nowMs();
    if (type === "close") {
      agent.clock.close();
      agent.closedAtMs = Math.min(agent.closedAtMs, nowMs);
      return;
    }
    if (type === "working") agent.clock.beginWork();
    else agent.clock.holdClock();
    this.#log.push({ type, agent: index, fromMs: nowMs, untilMs: Infinity });
  }

  /** Ends an effect unless it has ended. */
  #end(opened: number): void {
    const period = this.#log[opened % Math.max(1, this.#log.length)];
    if (period === undefined || period.untilMs < Infinity) return;
    const clock = this.#agents[period.agent]?.clock;
    if (period.type === "working") clock?.endWork();
    else clock?.releaseClock();
    period.untilMs = this.#time.nowMs();
  }

  compare(): void {
    this.#time.advance(0);
    const nowMs = this.#time.nowMs();
    let timers = 0;
    let thresholds = 0;
    for (const [index, agent] of this.#agents.entries()) {
      const aboveMs = this.#above(agent);
      const fixedMs = (agent.lifeMs ?? Infinity) < aboveMs ? (agent.lifeMs ?? Infinity) : Infinity;
      let pausedMs = 0;
      let overAtMs: number | undefined;
      for (let atMs = 0; atMs <= nowMs; atMs += 1) {
        const isOver =
          atMs >= fixedMs || (atMs < aboveMs && atMs - pausedMs >= (agent.limitMs ?? Infinity));
        if (isOver && atMs <= agent.closedAtMs) overAtMs ??= atMs;
        if (atMs < nowMs && this.#isStill(index, atMs)) pausedMs += 1;
      }
      check(
        this.#ledger.getAccount(agent.id).pausedMs === pausedMs,
        `${agent.id} stood ${pausedMs} ms`,
      );
      this.#checkEnd(index, overAtMs);
      const isOver = overAtMs !== undefined;
      if (this.#isWatched(index, { pausedMs, isOver })) timers += 1;
      // An agent that need not watch its limit, since it ends before, may still watch a threshold
      // of it.
      else if (!isOver && agent.closedAtMs === Infinity && agent.limitMs !== undefined)
        thresholds += 1;
    }
    const { pendingTimers } = this.#time;
    check(
      pendingTimers >= timers && pendingTimers <= timers + thresholds,
      `${timers} to ${timers + thresholds} timers, got ${pendingTimers}`,
    );
  }

  /** An agent that closed in the millisecond of its end may or may not have been ended before. */
  #checkEnd(index: number, overAtMs: number | undefined): void {
    const endedAtMs = this.#ended.get(index);
    if (endedAtMs === undefined && overAtMs === this.#agents[index]?.closedAtMs) return;
    check(endedAtMs === overAtMs, `agent_${index} is ended at ${String(overAtMs)}`);
  }

  /** True if a timer of the agent runs. */
  #isWatched(
    index: number,
    state: { readonly pausedMs: number; readonly isOver: boolean },
  ): boolean {
    const agent = this.#agents[index];
    if (agent === undefined || agent.closedAtMs < Infinity || state.isOver) return false;
    const above = this.#above(agent);
    if ((agent.lifeMs ?? Infinity) < above) return true;
    if (agent.limitMs === undefined || this.#isStill(index, this.#time.nowMs())) return false;
    return agent.limitMs + state.pausedMs < above;
  }

  /** Returns the earliest fixed deadline of the ancestors, which they watch themselves. */
  #above({ path }: Agent): number {
    return Math.min(...path.slice(1).map((above) => this.#agents[above]?.lifeMs ?? Infinity));
  }

  /** True if the clock is paused from this millisecond to the next. */
  #isStill(index: number, atMs: number): boolean {
    const open = this.#log.filter(({ agent, fromMs, untilMs }) => {
      const path = this.#agents[agent]?.path ?? [];
      const upTo = path.slice(0, path.indexOf(index) + 1);
      const closedAtMs = upTo.map((one) => this.#agents[one]?.closedAtMs ?? Infinity);
      const lastMs = Math.min(untilMs, ...closedAtMs);
      return upTo.length > 0 && fromMs <= atMs && atMs < lastMs;
    });
    return (
      open.some(({ type }) => type === "asking") && open.every(({ type }) => type === "asking")
    );
  }

  /** When all agents have closed, no clock is paused and no timer runs. */
  close(): void {
    for (const { clock } of this.#agents.toReversed()) clock.close();
    check(this.#time.pendingTimers === 0, "no timer is left");
    const before = JSON.stringify(this.#ledger.snapshot());
    this.#time.advance(50);
    for (const opened of this.#log.keys()) this.#end(opened);
    check(JSON.stringify(this.#ledger.snapshot()) === before, "no clock stands still for ever");
  }
}

function check(holds: boolean, expected: string): void {
  if (!holds) throw new Error(`Expected: ${expected}.`);
}

test("pauses clocks and ends agents as the log requires in 3,000 random sequences", () => {
  fc.assert(
    fc.property(
      fc.array(plan, { minLength: 1, maxLength: 5, size: "max" }),
      fc.array(operation, { maxLength: 30, size: "max" }),
      (plans, operations) => {
        const player = new Player(plans);
        for (const one of operations) {
          player.apply(one);
          player.compare();
        }
        player.close();
      },
    ),
    { seed: 20_261_122, numRuns: 3_000 },
  );
});
