// Goal: every axis may be limited at any level, and the tightest on the path wins.
// Method: a chain of three accounts; one axis is tight at one of them, loose at the others; a grandchild spends until it is refused.

import { expect, test } from "vitest";

import type { BudgetRefusal } from "../../src/agent/budget-gate.ts";
import type { SpendAxis } from "../../src/policies/budget.ts";
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
      scene.ledger.deadlineAtMs(AgentIdSchema.parse(path)),
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
  expect(scene.ledger.remaining(AgentIdSchema.parse("lead"))).toEqual({ wallTimeMs: 0 });
});

test("a time limit of zero lets nothing start", async () => {
  const scene = new LedgerScene();
  scene.open("lead", {}, 0);
  const { outcome } = await scene.ask("lead", ask(1, 1));
  const refusal = { axis: "wallTimeMs", accountPath: "lead", maximum: 0, spent: 0, asked: 0 };
  expect(outcome).toEqual({ type: "refused", refusal, waitedMs: 0 });
});
