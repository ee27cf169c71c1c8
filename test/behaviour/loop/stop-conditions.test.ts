// Goal: user-defined stop conditions are checked after every step, alone or combined, synchronously
// or not; pending work never outranks them.
// Method: scripted conditions in real runs, shared between runs; hanging promises are ended by the
// manual clock.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";
import { z } from "zod";

import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import {
  allOf,
  anyOf,
  hasFinishReason,
  not,
  hasToolCall,
  type StopCondition,
  type StopContext,
} from "../../../src/policies/stop-conditions.ts";
import { approve, type Question } from "../../../src/protocol/question.ts";
import type { StopReason } from "../../../src/protocol/stop.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { tool } from "../../harness/scripted-agents.ts";
import { parsePausedRun } from "../../../src/orchestrator/durability/paused-run.ts";

const work = asks("work", {});

function reason(code: string): StopReason {
  return { code, message: `It is ${code}.`, data: {} };
}

/** Fires after the given step only. */
function after(step: number, code = "found"): StopCondition {
  return ({ steps }) => (steps.length === step ? reason(code) : undefined);
}

function signals({ sink }: Fixture): readonly (readonly [string, string | undefined])[] {
  return sink.ofType("signal.raised").map(({ signal }) => [signal.reason.code, signal.name]);
}

function ending({ status, reason, steps }: RunResult): readonly [string, string, number] {
  return [status, reason.code, steps.length];
}

proves(
  ["R5"],
  "a condition that fires before the first inference stops the run without a call",
  async () => {
    for (const condition of [after(0), async (facts: StopContext) => after(0)(facts)]) {
      const seen: StopContext[] = [];
      const watch: StopCondition = (facts) => void seen.push(facts);
      const { role, model } = soloist([says("never")], { stopWhen: [watch, condition] });
      const result = await newFixture().run(role);
      expect([ending(result), model.requests.length, result.usage.total.modelCalls]).toEqual([
        ["stopped", "found", 0],
        0,
        0,
      ]);
      expect(
        seen.map(({ steps, usage, elapsedMs }) => [steps, usage.totalTokens, elapsedMs]),
      ).toEqual([[[], 0, 0]]);
    }
  },
);

test("conditions are checked once before the first step and once after each, even across a pause", async () => {
  const seen: number[] = [];
  const watch: StopCondition = ({ steps }) => void seen.push(steps.length);
  const tools = [spyTool("work"), spyTool("pay", () => "paid", { needsApproval: true })];
  const { role } = soloist([work, asks("pay", {}), says("done")], { tools, stopWhen: [watch] });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const [question] = paused.questions;
  if (question === undefined) expect.fail("no question");
  await fixture.outcome(fixture.resume(role, paused.pausedRun, [approve(question)]));
  expect(seen).toEqual([0, 1, 2, 3]);
});

proves(
  ["S7.7", "R34"],
  "conditions receive the agent's own usage and its working time without pauses and approvals",
  async () => {
    const seen: (readonly [number, number, number, number])[] = [];
    const watch: StopCondition = ({ steps, usage, elapsedMs }) =>
      void seen.push([steps.length, usage.modelCalls, usage.totalTokens, elapsedMs]);
    const tools = [
      spyTool("work", () => (fixture.clock.advance(30), "worked")),
      spyTool("pay", () => (fixture.clock.advance(10), "paid"), { needsApproval: true }),
    ];
    const thinks = (tool: string) => () => (fixture.clock.advance(500), asks(tool, {}));
    const { role } = soloist([thinks("work"), thinks("pay"), thinks("pay"), says("done")], {
      tools,
      stopWhen: [watch],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const [question] = paused.questions;
    if (question === undefined) expect.fail("no question");
    fixture.clock.advance(60_000);
    const slow = {
      approver: async (asked: Question) => {
        fixture.clock.advance(7_000);
        return approve(asked);
      },
    };
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, [approve(question)], slow),
    );
    expect(seen).toEqual([
      [0, 0, 0, 0],
      [1, 1, 15, 530],
      [2, 2, 30, 1_040],
      [3, 3, 45, 1_550],
      [4, 4, 60, 1_550],
    ]);
    const [agent] = result.agents;
    expect([agent?.steps.map(({ telemetry }) => telemetry.elapsedMs), agent?.pausedMs]).toEqual([
      [530, 1_040, 1_550, 1_550],
      67_000,
    ]);
  },
);

proves(
  ["R55"],
  "a condition on `length` ends the run with that reason although there are calls",
  async () => {
    const calls = asks("work", {}, { finishReason: "length" });
    const { role, model } = soloist([calls, says("never")], {
      tools: [spyTool("work")],
      stopWhen: [hasFinishReason("length")],
    });
    const result = await newFixture().run(role);
    expect([result.status, result.reason, model.requests.length]).toEqual([
      "stopped",
      {
        code: "finish_reason",
        message: "The model's reply ended with the finish reason length.",
        data: { finishReason: "length", step: 1 },
      },
      1,
    ]);
    expect(result.steps[0]?.tools.executions.map(({ type }) => type)).toEqual(["succeeded"]);
  },
);

proves(
  ["R59", "X32"],
  "the higher of two simultaneous reasons becomes the reason, and both are recorded",
  async () => {
    const low = hasFinishReason("length");
    const high = after(1, "found");
    for (const stopWhen of [[anyOf(low, high)], [anyOf(high, low)], [low, high]]) {
      const fixture = newFixture();
      const { role } = soloist([asks("work", {}, { finishReason: "length" })], {
        tools: [spyTool("work")],
        stopWhen,
      });
      const result = await fixture.run(role);
      expect(ending(result)).toEqual(["stopped", "found", 1]);
      const codes = signals(fixture).map(([code]) => code);
      expect(codes.toSorted()).toEqual(["finish_reason", "found"]);
    }
  },
);

proves(
  ["R60", "X32"],
  "`allOf` fires once both conditions have fired, even in different steps, with the reasons of both",
  async () => {
    const fixture = newFixture();
    const both = allOf(hasToolCall("save"), hasToolCall("test"));
    const { role } = soloist([asks("save", {}), work, asks("test", {}), says("never")], {
      tools: [spyTool("save"), spyTool("work"), spyTool("test")],
      stopWhen: [both],
    });
    const result = await fixture.run(role);
    expect(ending(result)).toEqual(["stopped", "tool_called", 3]);
    expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal.reason.data)).toEqual([
      { toolName: "save", step: 1 },
      { toolName: "test", step: 3 },
    ]);
  },
);

/** A condition that records the steps after which it is checked. */
function noting(condition: StopCondition): {
  readonly asked: readonly number[];
  readonly condition: StopCondition;
} {
  const asked: number[] = [];
  return {
    asked,
    condition: (facts) => {
      asked.push(facts.steps.length);
      return condition(facts);
    },
  };
}

proves(
  ["S7.19", "R60"],
  "each part of a combination is checked once, and fired parts are restored after a pause",
  async () => {
    const slow = async (facts: StopContext) => after(1, "slow")(facts);
    const parts = [after(0, "early"), slow, after(3, "late"), not(after(2), reason("no"))];
    const notes = parts.map(noting);
    const [early, behind, late, none] = notes.map(({ condition }) => condition);
    if (!early || !behind || !late || !none) expect.fail("no parts");
    const { role } = soloist([work, asks("pay", {}), work, says("never")], {
      tools: [spyTool("work"), spyTool("pay", () => "paid", { needsApproval: true })],
      stopWhen: [() => undefined, anyOf(allOf(late, early, anyOf(allOf(behind, none))))],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const [question] = paused.questions;
    if (question === undefined) expect.fail("no question");
    expect(parsePausedRun(paused.pausedRun).agents[0]?.state.log.fired).toEqual({
      "1.0.1": [reason("early")],
      "1.0.2.0.0": [reason("slow")],
      "1.0.2.0.1": [reason("no")],
      "1.0.2": [reason("slow"), reason("no")],
    });
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, [approve(question)]),
    );
    expect([result.status, signals(fixture).map(([code]) => code)]).toEqual([
      "stopped",
      ["late", "early", "slow", "no"],
    ]);
    expect(notes.map(({ asked }) => asked)).toEqual(parts.map(() => [0, 1, 2, 3]));
  },
);

proves(["R60", "R62"], "a part that breaks is checked once, and later parts are not", async () => {
  const broken = noting(async () => Promise.reject(new Error("Broken.")));
  const behind = noting(after(0));
  const { role } = soloist([says("never")], {
    stopWhen: [allOf(not(broken.condition, reason("no")), behind.condition)],
  });
  const { status, agents } = await newFixture().run(role);
  expect([status, agents[0]?.errors.map(({ code }) => code), broken.asked, behind.asked]).toEqual([
    "failed",
    ["stop_condition_failed"],
    [0],
    [],
  ]);
});

proves(["R60", "R63"], "fired parts are reset in the next execution and in a fork", async () => {
  const both = allOf(hasToolCall("save"), hasToolCall("test"));
  const script = [asks("save", {}), says("saved"), asks("test", {}), says("tested")];
  const { role } = soloist(script, {
    tools: [spyTool("save"), spyTool("test")],
    stopWhen: [both],
  });
  const fixture = newFixture();
  const run = fixture.start(role);
  expect(ending(await fixture.outcome(run))).toEqual(["completed", "completed", 2]);
  const fork = fixture.fork(role, run.snapshot(), { atStep: 1, message: "And test it." });
  expect(ending(await fixture.outcome(fork))).toEqual(["completed", "completed", 2]);
});

proves(["R60"], "`allOf` does not fire if only one of its conditions does", async () => {
  const both = allOf(hasToolCall("work"), hasToolCall("test"));
  const { role } = soloist([work, work, says("done")], {
    tools: [spyTool("work"), spyTool("test")],
    stopWhen: [both],
  });
  expect(ending(await newFixture().run(role))).toEqual(["completed", "completed", 3]);
});

proves(
  ["X32"],
  "`not` fires with its own reason after the first step without the condition",
  async () => {
    const idle = not(hasToolCall("work"), reason("idle"));
    const { role } = soloist([work, asks("rest", {}), says("never")], {
      tools: [spyTool("work"), spyTool("rest")],
      stopWhen: [idle],
    });
    expect(ending(await newFixture().run(role))).toEqual(["stopped", "idle", 2]);
  },
);

proves(["R63"], "a condition serves sequential and parallel runs independently", async () => {
  const both = anyOf(
    allOf(hasToolCall("save"), async (facts) => hasToolCall("test")(facts)),
    after(4, "tired"),
  );
  const tools = [spyTool("work"), spyTool("save"), spyTool("test")];
  const start = (fixture: Fixture, ...names: readonly string[]) =>
    fixture.start(
      soloist(
        names.map((name) => asks(name, {})),
        { tools, stopWhen: [both] },
      ).role,
    );
  const fixture = newFixture();
  const first = await fixture.outcome(start(fixture, "save", "test"));
  const second = await fixture.outcome(start(fixture, "test", "work", "work", "work"));
  const atOnce = [
    start(fixture, "save", "work", "test"),
    start(fixture, "test", "test", "test", "test"),
  ];
  const [third, fourth] = await Promise.all(atOnce.map(async (run) => await fixture.outcome(run)));
  expect([first, second, third, fourth].map((result) => result && ending(result))).toEqual([
    ["stopped", "tool_called", 2],
    ["stopped", "tired", 4],
    ["stopped", "tool_called", 3],
    ["stopped", "tired", 4],
  ]);
});

/** Kinds of work that require a second step after the first. */
const WORK: Readonly<Record<string, () => Parameters<typeof soloist>>> = {
  tool_calls: () => [[work], { tools: [spyTool("work")] }],
  subtasks: () => [
    [work],
    { tools: [tool("work", ({ queueSubtask }) => queueSubtask({ role: "solo", task: "Look." }))] },
  ],
  missing_reply: () => [[{}]],
  missing_output: () => [[says("Three.")], { output: z.object({ count: z.int() }) }],
};

for (const [kind, make] of Object.entries(WORK)) {
  proves(["R61"], `a condition that fires after step 1 outranks ${kind}`, async () => {
    const [script, more, options] = make();
    const fixture = newFixture();
    const { role, model } = soloist(script, { ...more, stopWhen: [after(1)] }, options);
    expect(ending(await fixture.run(role))).toEqual(["stopped", "found", 1]);
    expect(model.requests).toHaveLength(1);

    const [sameScript, sameMore, sameOptions] = make();
    const free = newFixture();
    const { role: unguarded } = soloist(
      [...sameScript, asks("Finish", { count: 3 })],
      { ...sameMore, output: z.object({ count: z.int() }) },
      sameOptions,
    );
    expect(ending(await free.run(unguarded))).toEqual(["completed", "completed", 2]);
    expect(free.sink.ofType("continuation.evaluated")[0]?.work).toContain(kind);
  });
}

proves(["R61"], "a condition that fires outranks a message from outside", async () => {
  for (const [stopWhen, end] of [
    [[], ["completed", "completed", 2]],
    [[after(1)], ["stopped", "found", 1]],
  ] as const) {
    const fixture = newFixture();
    const { role } = soloist([says("one"), says("two")], { stopWhen });
    const run = fixture.start(role);
    for await (const { phase, state } of run.iterate())
      if (phase === "infer" && state.log.steps.length === 0) void run.steer("And this?");
    expect(ending(await fixture.outcome(run))).toEqual(end);
  }
});

proves(
  ["R61"],
  "a run without a fired condition and without work after step 1 is completed",
  async () => {
    const fixture = newFixture();
    const { role } = soloist([says("done")], { stopWhen: [after(2), () => undefined] });
    expect(ending(await fixture.run(role))).toEqual(["completed", "completed", 1]);
  },
);

test("the status `stopped` follows from any code that a condition returns", async () => {
  for (const [code, status] of [
    ["step_limit", "stopped"],
    ["constructor", "stopped"],
  ] as const) {
    const { role } = soloist([work], { tools: [spyTool("work")], stopWhen: [after(1, code)] });
    expect(ending(await newFixture().run(role))).toEqual([status, code, 1]);
  }
});

test("a condition that returns a code reserved for the loop fails the run", async () => {
  for (const code of ["completed", "cancelled", "error", "input_required", "pause_requested"]) {
    const { role } = soloist([work], { tools: [spyTool("work")], stopWhen: [after(1, code)] });
    const { status, agents } = await newFixture().run(role);
    expect([status, agents[0]?.errors.map((error) => error.code)]).toEqual([
      "failed",
      ["stop_condition_failed"],
    ]);
  }
});

proves(
  ["R184"],
  "`stopWhen` is the only public way to add stop logic, and nothing is deprecated",
  () => {
    const files = [...globSync("src/**/*.ts"), ...globSync("api-reports/*.api.md")];
    const texts = files.map((file) => ({ file, text: readFileSync(file, "utf8") }));
    const old = texts.filter(({ text }) => /@deprecated|\blegacy\b/i.test(text));
    expect(old.map(({ file }) => file)).toEqual([]);
    const report = readFileSync("api-reports/espalier.api.md", "utf8");
    const fields = report
      .split("\n")
      .filter((line) => /^ {4}(readonly )?\w+\??: .*\bStopCondition\b/.test(line))
      .map((line) => line.trim());
    expect(fields).toEqual([
      "readonly stopWhen?: StopCondition<Context> | readonly StopCondition<Context>[];",
      "readonly stopWhen: readonly StopCondition<Context>[];",
    ]);
  },
);

const second: StopCondition = ({ steps }) =>
  steps.length < 2 ? undefined : { code: "second", message: "The second.", data: {} };

proves(
  ["R50"],
  "conditions are plain functions over read-only facts, and can be nested",
  async () => {
    const seen: unknown[] = [];
    const watching: StopCondition = (facts) => {
      seen.push(Object.isFrozen(facts) && facts.steps.every(Object.isFrozen));
      return undefined;
    };
    const { role, model } = soloist([asks("work", {}), asks("work", {}), says("never")], {
      tools: [spyTool("work")],
      stopWhen: [anyOf(watching, allOf(second, hasToolCall("work")))],
    });
    const { reason } = await newFixture().run(role);
    expect([reason.code, model.requests.length, seen]).toEqual(["second", 2, [true, true, true]]);
  },
);
