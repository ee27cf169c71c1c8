// Goal: a call whose approval check is broken does not run, and never asks a person.
// Method: scripted runs with checks that throw, return the wrong type, or never settle.

import { describe, expect, test } from "vitest";

import { asks, says } from "../../../src/testing/scripted-model.ts";
import { calls, quiet } from "../../harness/scripted-agents.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { ending, payTool, texts } from "../../support/pause-stories.ts";

const pay = (amount: number) => ({ toolName: "pay", arguments: { amount } });

describe("an approval check of a tool", () => {
  test("decides for each call, and may return a text as the reason", async () => {
    const tool = payTool(({ amount }) => (amount > 5 ? `${amount} is much.` : false));
    const { role } = soloist([calls(pay(3), pay(9)), says("done")], { tools: [tool] });
    const paused = await newFixture().run(role);
    expect([paused.questions.map(({ reason }) => reason), tool.paid]).toEqual([
      ["9 is much."],
      [3],
    ]);
  });

  const bad: Readonly<Record<string, () => unknown>> = {
    throws: () => {
      throw new Error("broken");
    },
    "throws null": () => {
      // oxlint-disable-next-line typescript/only-throw-error -- what foreign code may do
      throw null;
    },
    rejects: () => Promise.reject(new Error("broken")),
    "gives nothing": () => undefined,
    "gives an empty text": () => "",
    "gives null": () => null,
    "gives 0": () => 0,
    "gives an object": () => ({ ok: true }),
    "gives a promise of nothing": () => Promise.resolve(),
  };
  for (const [name, check] of Object.entries(bad)) {
    test(`refuses the call without a question if it ${name}`, async () => {
      const tool = payTool(check);
      const { role } = soloist([calls(pay(3)), says("done")], { tools: [tool] });
      const fixture = newFixture();
      const result = await fixture.run(role);
      const [execution] = result.steps[0]?.tools.executions ?? [];
      expect([ending(result), tool.paid, execution?.type, execution?.errorCode]).toEqual([
        ["completed", "completed"],
        [],
        "refused",
        "approval_check_failed",
      ]);
      expect(fixture.sink.ofType("question.asked")).toEqual([]);
    });
  }

  test("refuses the call after `hookTimeoutMs` if it never settles", async () => {
    const tool = payTool(() => new Promise(() => undefined));
    const { role } = soloist([asks("pay", { amount: 3 }), says("done")], { tools: [tool] });
    const fixture = newFixture({ hookTimeoutMs: 1_000 });
    const run = fixture.start(role);
    await quiet();
    fixture.clock.advance(999);
    await quiet();
    expect(fixture.sink.ofType("tool.ended")).toEqual([]);
    fixture.clock.advance(1);
    const result = await fixture.outcome(run);
    expect([ending(result), tool.paid, texts(result)]).toEqual([
      ["completed", "completed"],
      [],
      [
        "Not executed: the approval check of pay failed (it did not answer within 1000 ms). Do without it, or answer with what you have.",
      ],
    ]);
  });

  test("delays a cancel by the grace period at most if it never settles", async () => {
    const tool = payTool(() => new Promise(() => undefined));
    const { role } = soloist([asks("pay", { amount: 3 })], { tools: [tool] });
    const fixture = newFixture({ graceMs: 50 });
    const run = fixture.start(role);
    await quiet();
    void run.cancel();
    await quiet();
    fixture.clock.advance(50);
    const result = await fixture.outcome(run);
    expect([ending(result), tool.paid]).toEqual([["cancelled", "cancelled"], []]);
  });
});
