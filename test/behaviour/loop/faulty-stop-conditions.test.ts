// Goal: a stop condition may be slow and may break. The run waits for it, fails visibly, and never
// hangs.
// Method: conditions that throw, reject, return invalid values or never settle; the manual clock
// ends those that hang.

import { expect, test } from "vitest";
import { z } from "zod";

import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { StopCondition } from "../../../src/policies/stop-conditions.ts";
import type { StopReason } from "../../../src/protocol/stop.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { until } from "../../harness/scripted-agents.ts";

const work = asks("work", {});

function reason(code: string): StopReason {
  return { code, message: `It is ${code}.`, data: {} };
}

/** Returns several reasons after a step, and an empty list before the first. */
const lists: StopCondition = ({ steps }) =>
  Promise.resolve(steps.length === 0 ? [] : [reason("b"), reason("a"), reason("b")]);

const never: StopCondition = () => latch().opened.then(() => undefined);

function signals({ sink }: Fixture): readonly (readonly [string, string | undefined])[] {
  return sink.ofType("signal.raised").map(({ signal }) => [signal.reason.code, signal.name]);
}

function ending({ status, reason, steps }: RunResult): readonly [string, string, number] {
  return [status, reason.code, steps.length];
}

const REASON = reason("found");

proves(["R62"], "the run waits for an asynchronous condition", async () => {
  const fixture = newFixture();
  const held = latch();
  const slow: StopCondition = async ({ steps }) => {
    if (steps.length === 0) return undefined;
    await held.opened;
    return REASON;
  };
  const { role, model } = soloist([work, says("never")], {
    tools: [spyTool("work")],
    stopWhen: [slow],
  });
  const run = fixture.start(role);
  await until(() => fixture.sink.ofType("step.completed").length === 1);
  await flushEventLoop();
  expect(model.requests).toHaveLength(1);
  held.open();
  expect([ending(await fixture.outcome(run)), model.requests.length]).toEqual([
    ["stopped", "found", 1],
    1,
  ]);
});

const BROKEN: Readonly<Record<string, StopCondition>> = {
  throws: () => {
    throw new Error("broken");
  },
  rejects: () => Promise.reject(new Error("broken")),
  "rejects later": async () => {
    await flushEventLoop();
    throw new Error("broken");
  },
  "throws nothing at all": () => {
    // oxlint-disable-next-line typescript/only-throw-error -- it may
    throw undefined;
  },
  "changes what it is shown": (facts) => {
    Object.assign(facts, { steps: [] });
    return undefined;
  },
};

for (const [what, condition] of Object.entries(BROKEN)) {
  proves(["R62"], `a condition that ${what} fails the run with one error`, async () => {
    for (const step of [0, 1]) {
      const late: StopCondition = (facts) =>
        facts.steps.length === step ? condition(facts) : undefined;
      const { role, model } = soloist([work, says("never")], {
        tools: [spyTool("work")],
        stopWhen: [late],
      });
      const result = await newFixture().run(role);
      expect([ending(result), model.requests.length]).toEqual([["failed", "error", step], step]);
      expect(result.agents[0]?.errors.map(({ code, data }) => [code, data])).toEqual([
        ["stop_condition_failed", { field: "solo.stopWhen[0]", condition: "late" }],
      ]);
    }
  });
}

const NONSENSE: readonly unknown[] = [
  true,
  null,
  0,
  "stop",
  {},
  { code: "x" },
  { code: "", message: "", data: {} },
  { code: "x", message: "x", data: { at: 1n } },
  { ...REASON, more: 1 },
  [REASON, undefined],
  [[REASON]],
];

proves(
  ["R62"],
  "a condition that returns an invalid value fails the run, synchronously or asynchronously",
  async () => {
    for (const answer of NONSENSE) {
      for (const given of [answer, Promise.resolve(answer)]) {
        const { role, model } = soloist([says("never")], { stopWhen: [giving(given)] });
        const result = await newFixture().run(role);
        expect([ending(result), result.reason.data, model.requests.length]).toEqual([
          ["failed", "error", 0],
          { error: "stop_condition_failed" },
          0,
        ]);
      }
    }
  },
);

/** A condition that returns any value, as an untyped caller could write it. */
function giving(answer: unknown): StopCondition {
  return () => z.custom<ReturnType<StopCondition>>().parse(answer);
}

proves(
  ["R62"],
  "several reasons are recorded in their order, and an empty list is ignored",
  async () => {
    const fixture = newFixture();
    const { role } = soloist([work], {
      tools: [spyTool("work")],
      stopWhen: [lists, ({ steps }) => (steps.length === 1 ? reason("c") : undefined)],
    });
    expect(ending(await fixture.run(role))).toEqual(["stopped", "b", 1]);
    expect(signals(fixture)).toEqual([
      ["b", "lists"],
      ["a", "lists"],
      ["b", "lists"],
      ["c", "solo.stopWhen[1]"],
    ]);
  },
);

proves(["R62"], "a condition that never settles fails the run after `hookTimeoutMs`", async () => {
  for (const step of [0, 1]) {
    const fixture = newFixture({ hookTimeoutMs: 100 });
    const hangs: StopCondition = ({ steps }) =>
      steps.length === step ? latch().opened.then(() => undefined) : undefined;
    const { role, model } = soloist([work, says("never")], {
      tools: [spyTool("work")],
      stopWhen: [hangs],
    });
    const run = fixture.start(role);
    await until(() => fixture.clock.pendingTimers > 0);
    fixture.clock.advance(99);
    await flushEventLoop();
    expect(fixture.sink.ofType("agent.ended")).toEqual([]);
    fixture.clock.advance(1);
    const result = await fixture.outcome(run);
    expect([ending(result), model.requests.length]).toEqual([["failed", "error", step], step]);
    expect(result.reason.message).toContain("it did not answer within");
  }
});

test("a rejection of a condition after its timeout is ignored", async () => {
  const fixture = newFixture({ hookTimeoutMs: 100 });
  const held = latch();
  const late: StopCondition = async () => {
    await held.opened;
    throw new Error("late");
  };
  const run = fixture.start(soloist([says("never")], { stopWhen: [late] }).role);
  await until(() => fixture.clock.pendingTimers > 0);
  fixture.clock.advance(100);
  const result = await fixture.outcome(run);
  held.open();
  await flushEventLoop();
  expect(result.agents[0]?.errors).toHaveLength(1);
});

for (const [what, act, end] of [
  ["a cancel", (_stage: Fixture, run: Run) => void run.cancel(), "cancelled"],
  ["a deadline", ({ clock }: Fixture) => clock.advance(50), "stopped"],
] as const) {
  test(`${what} while a condition hangs ends the run with its status within the grace period`, async () => {
    const fixture = newFixture({ hookTimeoutMs: 60_000, graceMs: 10 });
    const { role } = soloist([says("never")], { stopWhen: [never] });
    const run = fixture.start(role, "Do it.", { budget: { timeMs: 50 } });
    await until(() => fixture.clock.pendingTimers > 1);
    act(fixture, run);
    await flushEventLoop();
    fixture.clock.advance(10);
    const result = await fixture.outcome(run);
    expect([result.status, result.agents[0]?.errors]).toEqual([end, []]);
  });
}

test("a stop requested while a condition hangs waits for the condition, and then applies", async () => {
  const fixture = newFixture();
  const held = latch();
  const slow: StopCondition = () => held.opened.then(() => undefined);
  const { role, model } = soloist([says("never")], { stopWhen: [slow] });
  const run = fixture.start(role);
  await flushEventLoop();
  run.requestStop();
  held.open();
  expect([ending(await fixture.outcome(run)), model.requests.length]).toEqual([
    ["stopped", "stop_requested", 0],
    0,
  ]);
});
