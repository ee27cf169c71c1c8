// Goal: every axis may be limited at any level, and the tightest on the path wins.
// Method: a chain of three accounts; one axis is tight at one of them, loose at the others; a grandchild spends until it is refused.

import { expect, test } from "vitest";

import type { BudgetRefusal } from "../../src/agent/budget-gate.ts";
import { BudgetLedger } from "../../src/orchestrator/budget/ledger.ts";
import type { NewAccount } from "../../src/orchestrator/budget/ledger-account.ts";
import type { SpendAxis } from "../../src/policies/budget.ts";
import { AccountSchema } from "../../src/protocol/account.ts";
import { AgentIdSchema } from "../../src/protocol/ids.ts";
import { proves } from "../harness/proves.ts";
import { ask, callUsage, granted, LedgerScene } from "../support/ledger-scene.ts";

const LEVELS = ["lead", "lead/a", "lead/a/b"] as const;
const LEAF = "lead/a/b";
const TIGHT = 10;
const LOOSE = 1_000;
const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };

/** A chain in which `axis` is limited to 10 at `level` and to 1,000 elsewhere. */
function chain(axis: SpendAxis, level: string): LedgerScene {
  const scene = new LedgerScene();
  for (const path of LEVELS) scene.open(path, { [axis]: path === level ? TIGHT : LOOSE });
  return scene;
}

/** The refusal of the first call that no longer fits; every call uses what it holds. */
async function spendAll(
  scene: LedgerScene,
  inputTokens: number,
  outputTokens: number,
): Promise<BudgetRefusal> {
  for (;;) {
    const { outcome } = await scene.ask(LEAF, ask(inputTokens, outputTokens, PRICE));
    if (outcome?.type === "refused") return outcome.refusal;
    if (outcome?.type !== "granted") throw new Error("Expected an answer at once.");
    const { lease } = outcome;
    const cost = {
      costMicroUsd: lease.inputTokens + lease.maxOutputTokens,
      cachedInputTokens: lease.inputTokens,
    };
    await scene.settle(lease.leaseId, callUsage(lease.inputTokens, lease.maxOutputTokens, cost));
  }
}

for (const level of LEVELS) {
  const refusal = { accountPath: level, maximum: TIGHT, spent: TIGHT };

  proves(["X3"], `steps, tightest at ${level}: 10 are allowed, then no call`, async () => {
    const scene = chain("steps", level);
    expect(await spendAll(scene, 1, 1)).toEqual({ ...refusal, axis: "steps", asked: 1 });
  });

  proves(
    ["X3"],
    `totalTokens, tightest at ${level}: the last reply is clamped, then no call`,
    async () => {
      const scene = chain("totalTokens", level);
      expect(await spendAll(scene, 1, 6)).toEqual({ ...refusal, axis: "totalTokens", asked: 2 });
    },
  );

  proves(
    ["X3"],
    `inputTokens, tightest at ${level}: a call whose input does not fit is refused`,
    async () => {
      const scene = chain("inputTokens", level);
      expect(await spendAll(scene, 5, 6)).toEqual({ ...refusal, axis: "inputTokens", asked: 5 });
    },
  );

  proves(
    ["X3"],
    `cachedInputTokens, tightest at ${level}: all input may come from a cache`,
    async () => {
      const scene = chain("cachedInputTokens", level);
      expect(await spendAll(scene, 5, 6)).toEqual({
        ...refusal,
        axis: "cachedInputTokens",
        asked: 5,
      });
    },
  );

  proves(
    ["X3"],
    `outputTokens, tightest at ${level}: the last reply is clamped, then no call`,
    async () => {
      const scene = chain("outputTokens", level);
      expect(await spendAll(scene, 5, 6)).toEqual({ ...refusal, axis: "outputTokens", asked: 1 });
    },
  );

  proves(
    ["X3"],
    `cost, tightest at ${level}: the last reply is clamped to what is payable, then no call`,
    async () => {
      const scene = chain("costMicroUsd", level);
      expect(await spendAll(scene, 1, 6)).toEqual({ ...refusal, axis: "costMicroUsd", asked: 2 });
    },
  );

  proves(["X3"], `toolCalls, tightest at ${level}: 10 are allowed, then none`, () => {
    const scene = chain("toolCalls", level);
    const gate = scene.ledger.gate(AgentIdSchema.parse(LEAF));
    const answers = Array.from({ length: 12 }, () => gate.chargeToolCall());
    const refused = { ...refusal, axis: "toolCalls", asked: 1 };
    expect(answers).toEqual([...Array.from({ length: 10 }, () => undefined), refused, refused]);
  });

  proves(
    ["X3", "R58"],
    `wall time, tightest at ${level}: nothing starts at or after the deadline`,
    async () => {
      const scene = new LedgerScene();
      scene.clock.advance(3);
      for (const path of LEVELS) scene.open(path, {}, 3 + (path === level ? TIGHT : LOOSE));
      const gate = scene.ledger.gate(AgentIdSchema.parse(LEAF));
      scene.clock.advance(9);
      expect((await scene.ask(LEAF, ask(1, 1))).outcome).toEqual(granted(1, 1, 1));
      expect([gate.exhausted(), gate.chargeToolCall(), gate.remaining()]).toEqual([
        undefined,
        undefined,
        { wallTimeMs: 1 },
      ]);
      scene.clock.advance(1);
      const late = { ...refusal, axis: "wallTimeMs", asked: 0 };
      expect((await scene.ask(LEAF, ask(1, 1))).outcome).toEqual({
        type: "refused",
        refusal: late,
        waitedMs: 0,
      });
      expect([gate.exhausted(), gate.chargeToolCall(), gate.remaining()]).toEqual([
        late,
        late,
        { wallTimeMs: 0 },
      ]);
    },
  );
}

test("an account without any limit refuses nothing", async () => {
  const scene = new LedgerScene();
  scene.open("lead");
  scene.open("lead/a");
  expect((await scene.ask("lead/a", ask(1_000_000, 1_000_000))).outcome).toEqual(
    granted(1, 1_000_000, 1_000_000),
  );
});

proves(
  ["R58"],
  "a child that asks for a later deadline than its parent's gets the parent's",
  () => {
    const scene = new LedgerScene();
    scene.open("lead", {}, 50);
    scene.open("lead/a", {}, 80);
    scene.open("lead/b", {}, 20);
    scene.open("lead/c");
    const deadlines = ["lead", "lead/a", "lead/b", "lead/c"].map((path) =>
      scene.ledger.gate(AgentIdSchema.parse(path)).deadlineAtMs(),
    );
    expect(deadlines).toEqual([50, 50, 20, 50]);
  },
);

test("a deadline is refused in the name of the ancestor that set it, counted from its start", async () => {
  const scene = new LedgerScene();
  scene.clock.advance(100);
  scene.open("lead", {}, 150);
  scene.clock.advance(20);
  scene.open("lead/a", {}, 900);
  scene.clock.advance(40);
  const { outcome } = await scene.ask("lead/a", ask(1, 1));
  const refusal = { axis: "wallTimeMs", accountPath: "lead", maximum: 50, spent: 60, asked: 0 };
  expect(outcome).toEqual({ type: "refused", refusal, waitedMs: 0 });
});

test("when a deadline is past, no time is left, and never less", () => {
  const scene = new LedgerScene();
  scene.open("lead", {}, 10);
  scene.clock.advance(25);
  expect(scene.ledger.gate(AgentIdSchema.parse("lead")).remaining()).toEqual({ wallTimeMs: 0 });
});

test("a time limit of zero lets nothing start", async () => {
  const scene = new LedgerScene();
  scene.open("lead", {}, 0);
  const { outcome } = await scene.ask("lead", ask(1, 1));
  const refusal = { axis: "wallTimeMs", accountPath: "lead", maximum: 0, spent: 0, asked: 0 };
  expect(outcome).toEqual({ type: "refused", refusal, waitedMs: 0 });
});

type Times = Pick<NewAccount, "wallTimeMs" | "deadlineAtMs">;

/** Three accounts below each other; each may have a limit in time or a fixed deadline. */
function timed(...times: readonly Times[]): LedgerScene {
  const scene = new LedgerScene();
  for (const [index, time] of times.entries()) {
    const path = LEVELS[index] ?? LEAF;
    const above = LEVELS[index - 1];
    const parentId = above === undefined ? null : AgentIdSchema.parse(above);
    scene.ledger.open({ agentId: AgentIdSchema.parse(path), path, limits: {}, ...time }, parentId);
  }
  return scene;
}

for (const level of LEVELS) {
  proves(
    ["X3"],
    `time that ${level} is given runs out at its end, whoever of those below asks`,
    async () => {
      const scene = timed(
        ...LEVELS.map((path) => ({ wallTimeMs: path === level ? TIGHT : LOOSE })),
      );
      const gate = scene.ledger.gate(AgentIdSchema.parse(LEAF));
      scene.clock.advance(9);
      expect([gate.exhausted(), gate.remaining()]).toEqual([undefined, { wallTimeMs: 1 }]);
      scene.clock.advance(1);
      const late = { axis: "wallTimeMs", accountPath: level, maximum: 10, spent: 10, asked: 0 };
      expect([gate.exhausted(), gate.chargeToolCall()]).toEqual([late, late]);
      expect((await scene.ask(LEAF, ask(1, 1))).outcome).toEqual({
        type: "refused",
        refusal: late,
        waitedMs: 0,
      });
    },
  );

  test(`while the clock of ${level} stands still its time is not used up, and no request is refused for it`, async () => {
    const scene = timed(...LEVELS.map((path) => ({ wallTimeMs: path === level ? TIGHT : LOOSE })));
    const [owner, leaf] = [AgentIdSchema.parse(level), AgentIdSchema.parse(LEAF)];
    const gate = scene.ledger.gate(leaf);
    scene.clock.advance(4);
    scene.ledger.gate(owner).stopTime();
    scene.clock.advance(60);
    expect([gate.exhausted(), gate.remaining()]).toEqual([undefined, { wallTimeMs: 6 }]);
    expect((await scene.ask(LEAF, ask(1, 1))).outcome).toEqual(granted(1, 1, 1));
    scene.clock.advance(40);
    scene.ledger.gate(owner).resumeTime();
    expect([scene.ledger.gate(owner).stoodMs, scene.ledger.gate(leaf).deadlineAtMs()]).toEqual([
      100, 110,
    ]);
    scene.clock.advance(6);
    expect(gate.exhausted()).toEqual({
      axis: "wallTimeMs",
      accountPath: level,
      maximum: 10,
      spent: 10,
      asked: 0,
    });
  });

  proves(
    ["R58"],
    `a fixed deadline of ${level} comes also while every clock stands still`,
    async () => {
      const scene = timed(
        ...LEVELS.map((path) => (path === level ? { deadlineAtMs: TIGHT } : { wallTimeMs: 5 })),
      );
      scene.clock.advance(1);
      for (const path of LEVELS) scene.ledger.gate(AgentIdSchema.parse(path)).stopTime();
      scene.clock.advance(8);
      expect((await scene.ask(LEAF, ask(1, 1))).outcome).toEqual(granted(1, 1, 1));
      scene.clock.advance(1);
      const refusal = { axis: "wallTimeMs", accountPath: level, maximum: 10, spent: 10, asked: 0 };
      expect((await scene.ask(LEAF, ask(1, 1))).outcome).toEqual({
        type: "refused",
        refusal,
        waitedMs: 0,
      });
    },
  );
}

test("of a limit in time and a fixed deadline of one account the earlier one holds", () => {
  const lead = AgentIdSchema.parse("lead");
  const scene = timed({ wallTimeMs: 10, deadlineAtMs: 15 });
  expect([
    scene.ledger.gate(lead).deadlineAtMs(),
    scene.ledger.gate(lead).ownDeadlineAtMs(),
  ]).toEqual([10, 10]);
  scene.ledger.gate(lead).excludeTime(4);
  expect([
    scene.ledger.gate(lead).deadlineAtMs(),
    scene.ledger.gate(lead).ownDeadlineAtMs(),
  ]).toEqual([14, 14]);
  scene.ledger.gate(lead).excludeTime(4);
  expect([
    scene.ledger.gate(lead).deadlineAtMs(),
    scene.ledger.gate(lead).ownDeadlineAtMs(),
  ]).toEqual([15, 15]);
  scene.clock.advance(15);
  expect(scene.ledger.gate(lead).exhaustedForChild()).toEqual({
    axis: "wallTimeMs",
    accountPath: "lead",
    maximum: 15,
    spent: 15,
    asked: 0,
  });
});

function watched(...times: readonly Times[]): readonly (number | null)[] {
  const scene = timed(...times);
  return LEVELS.map((path) => scene.ledger.gate(AgentIdSchema.parse(path)).ownDeadlineAtMs());
}

test("an agent watches only deadlines of its own that can come before those above", () => {
  expect(watched({ deadlineAtMs: 50 }, {}, {})).toEqual([50, null, null]);
  expect(watched({ deadlineAtMs: 50 }, { wallTimeMs: 50 }, { wallTimeMs: 49 })).toEqual([
    50,
    null,
    49,
  ]);
  expect(watched({ deadlineAtMs: 50 }, { deadlineAtMs: 60 }, { deadlineAtMs: 40 })).toEqual([
    50,
    null,
    40,
  ]);
  // The parent's clock may stand still while the child's goes: then the child's limit comes first.
  expect(watched({ wallTimeMs: 50 }, { wallTimeMs: 50 }, {})).toEqual([50, 50, null]);
});

proves(
  ["X2"],
  "a waiter whose time stood still in the line is refused at its moved deadline",
  async () => {
    const scene = timed({}, { wallTimeMs: 10 });
    scene.ledger.open(
      { agentId: AgentIdSchema.parse("lead/a/b"), path: LEAF, limits: { steps: 2 } },
      AgentIdSchema.parse("lead/a"),
    );
    await scene.ask(LEAF, ask(1, 1));
    await scene.ask(LEAF, ask(1, 1));
    const waiter = await scene.ask(LEAF, ask(1, 1));
    const parent = AgentIdSchema.parse("lead/a");
    scene.ledger.gate(parent).stopTime();
    scene.clock.advance(30);
    await scene.ask("lead", ask(1, 1));
    expect(waiter.outcome).toBeUndefined();
    scene.ledger.gate(parent).resumeTime();
    scene.clock.advance(9);
    await scene.ask("lead", ask(1, 1));
    expect(waiter.outcome).toBeUndefined();
    scene.clock.advance(1);
    await scene.ask("lead", ask(1, 1));
    const refusal = { axis: "wallTimeMs", accountPath: "lead/a", maximum: 10, spent: 10, asked: 0 };
    expect(waiter.outcome).toEqual({ type: "refused", refusal, waitedMs: 40 });
  },
);

test("the time between pause and resume counts only against fixed deadlines", () => {
  const scene = new LedgerScene();
  const [lead, child] = [AgentIdSchema.parse("lead"), AgentIdSchema.parse("lead/a")];
  scene.ledger.open({ agentId: lead, path: "lead", limits: {}, wallTimeMs: 10 }, null);
  scene.ledger.open({ agentId: child, path: "lead/a", limits: {}, deadlineAtMs: 1_500 }, lead);
  scene.clock.advance(4);
  scene.ledger.gate(lead).stopTime();
  scene.clock.advance(3);
  const stored = JSON.stringify(scene.ledger.snapshot());
  scene.clock.advance(993);
  const resumed = new BudgetLedger(scene.clock);
  resumed.restore(AccountSchema.array().parse(JSON.parse(stored)), 0);
  resumed.gate(lead).excludeTime(993);
  expect([resumed.gate(lead).stoodMs, resumed.gate(lead).remaining()]).toEqual([
    996,
    { wallTimeMs: 6 },
  ]);
  resumed.gate(lead).excludeTime(1_000);
  expect(resumed.gate(child).remaining()).toEqual({ wallTimeMs: 500 });
  for (const ms of [-1, Number.NaN, Infinity])
    expect(() => resumed.gate(lead).excludeTime(ms)).toThrow("for a time from 0 up");
});

test("a clock stands still once at a time", () => {
  const { ledger } = timed({});
  const lead = AgentIdSchema.parse("lead");
  expect(() => ledger.gate(lead).resumeTime()).toThrow("a clock that stands still can go on");
  ledger.gate(lead).stopTime();
  expect(() => ledger.gate(lead).stopTime()).toThrow("a clock that goes can stand still");
  ledger.gate(lead).resumeTime();
  expect(ledger.gate(lead).stoodMs).toBe(0);
});
