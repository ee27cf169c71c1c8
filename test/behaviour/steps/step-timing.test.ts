// Goal: the time of a step is divided by its causes, and no instant counts twice.
// Method: real runs with the manual clock, one millisecond after the other; models, tools, hooks
// and results that each take a known time.

import { expect, test } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform, wrapModelCall, wrapToolCall } from "../../../src/hooks/hook.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { approve } from "../../../src/protocol/question.ts";
import { NO_TIMING, type StepTiming } from "../../../src/protocol/step-timing.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, flushEventLoop, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

/** Resolves after the given time. */
type Lasts = (ms: number) => Promise<void>;

function lastsBy(clock: ManualClock): Lasts {
  return (ms) => new Promise((resolve) => void clock.setTimer(ms, resolve));
}

interface Played {
  readonly fixture: Fixture;
  readonly result: RunResult;
}

/**
 * Advances the clock until the run has ended or paused, and checks the invariant of every step's
 * time.
 */
async function playedOut(fixture: Fixture, run: Run): Promise<RunResult> {
  const progress = { isOver: false };
  void run.settled.finally(() => (progress.isOver = true));
  await flushEventLoop();
  while (!progress.isOver) {
    fixture.clock.advance(1);
    await flushEventLoop();
    await flushEventLoop();
  }
  const result = await fixture.outcome(run);
  for (const { steps } of result.agents)
    for (const { telemetry } of steps) {
      const { inferenceMs, toolsMs, hooksMs, formattingMs } = telemetry.timing;
      const durationMs = telemetry.endedAtMs - telemetry.startedAtMs;
      expect(inferenceMs + toolsMs + hooksMs + formattingMs).toBeLessThanOrEqual(durationMs);
    }
  return result;
}

type MoreOfAgent = Partial<Omit<AgentDefinition, "model">>;

async function played(
  script: (lasts: Lasts) => readonly ScriptStep[],
  more: (lasts: Lasts, clock: ManualClock) => MoreOfAgent = () => ({}),
  options: OrchestratorOptions = {},
): Promise<Played> {
  const fixture = newFixture(options);
  const lasts = lastsBy(fixture.clock);
  const { role } = soloist(script(lasts), more(lasts, fixture.clock));
  return { fixture, result: await playedOut(fixture, fixture.start(role)) };
}

/** Creates tools that take the given times. */
const slow = (lasts: Lasts, times: Readonly<Record<string, number>>) =>
  Object.entries(times).map(([name, ms]) =>
    spyTool(name, async () => {
      await lasts(ms);
      return `${name} done`;
    }),
  );

const timings = ({ steps }: Pick<RunResult, "steps">): readonly StepTiming[] =>
  steps.map(({ telemetry }) => telemetry.timing);
const durations = ({ steps }: RunResult): readonly number[] =>
  steps.map(({ telemetry }) => telemetry.endedAtMs - telemetry.startedAtMs);

proves(
  ["R174"],
  "inference, tools, hooks and formatting add up to the step, and parallel tools have wall time and sum",
  async () => {
    const { fixture, result } = await played(
      (lasts) => [
        () => ({ ...calls(use("short"), use("long")), after: lasts(30) }),
        () => says("done", { after: lasts(20) }),
      ],
      (lasts, clock) => ({
        tools: [
          ...slow(lasts, { short: 40 }),
          spyTool("long", async () => {
            await lasts(100);
            return {
              toJSON: () => {
                clock.advance(3);
                return "long done";
              },
            };
          }),
        ],
        hooks: [
          transform("beforeTool", async ({ toolName }) => {
            if (toolName === "long") await lasts(5);
          }),
          // This hook runs after the short tool while the long one works, so its time counts as
          // tool time.
          transform("afterTool", () => lasts(7)),
        ],
      }),
    );
    expect(timings(result)).toEqual([
      { inferenceMs: 30, toolsMs: 100, toolsSumMs: 140, hooksMs: 12, formattingMs: 3 },
      { ...NO_TIMING, inferenceMs: 20 },
    ]);
    expect(durations(result)).toEqual([145, 20]);
    expect(fixture.sink.ofType("step.completed").map(({ timing }) => timing)).toEqual(
      timings(result),
    );
  },
);

proves(["R174"], "waiting for a slot counts neither as inference nor as tool time", async () => {
  const { result } = await played(
    (lasts) => [
      () => ({ ...calls(use("one"), use("two"), use("three")), after: lasts(10) }),
      says("done"),
    ],
    (lasts) => ({ tools: slow(lasts, { one: 40, two: 30, three: 20 }) }),
    { concurrency: { toolCalls: 1 } },
  );
  expect(timings(result)[0]).toEqual({
    ...NO_TIMING,
    inferenceMs: 10,
    toolsMs: 90,
    toolsSumMs: 90,
  });
});

proves(
  ["R174"],
  "two agents that share one slot for model calls each have the time of their own call",
  async () => {
    const fixture = newFixture({ concurrency: { modelCalls: 1 } });
    const lasts = lastsBy(fixture.clock);
    const helper = part("helper", [
      () => says("one", { after: lasts(30) }),
      () => says("two", { after: lasts(50) }),
    ]);
    const lead = part("lead", [calls(spawn("helper"), spawn("helper")), says("done")], {
      subagents: [helper.role],
    });
    const result = await playedOut(fixture, fixture.start(lead.role));
    const [, first, second] = result.agents;
    expect([first, second].map((agent) => timings(agent ?? { steps: [] }))).toEqual([
      [{ ...NO_TIMING, inferenceMs: 30 }],
      [{ ...NO_TIMING, inferenceMs: 50 }],
    ]);
    // A delegation counts as tool time until its subagent ends or pauses, whatever that one waits
    // for.
    expect(timings(result)[0]).toEqual({ ...NO_TIMING, toolsMs: 80, toolsSumMs: 110 });
  },
);

proves(["R174"], "waiting for an answer counts for none of the four kinds", async () => {
  const fixture = newFixture({
    approver: async (question) => {
      await lastsBy(fixture.clock)(60);
      return approve(question);
    },
  });
  const lasts = lastsBy(fixture.clock);
  const pay = spyTool("pay", () => lasts(8).then(() => "paid"), { needsApproval: true });
  const { role } = soloist([() => ({ ...calls(use("pay")), after: lasts(5) }), says("done")], {
    tools: [pay],
  });
  const result = await playedOut(fixture, fixture.start(role));
  expect([timings(result)[0], durations(result)[0]]).toEqual([
    { ...NO_TIMING, inferenceMs: 5, toolsMs: 8, toolsSumMs: 8 },
    73,
  ]);
});

proves(["R174"], "the time before a pause is kept, and the pause does not count", async () => {
  const fixture = newFixture();
  const lasts = lastsBy(fixture.clock);
  const pay = spyTool("pay", () => lasts(8).then(() => "paid"), { needsApproval: true });
  const { role } = soloist(
    [() => ({ ...calls(use("look"), use("pay")), after: lasts(5) }), says("done")],
    {
      tools: [...slow(lasts, { look: 40 }), pay],
      hooks: [transform("beforeTool", () => lasts(3))],
    },
  );
  const paused = await playedOut(fixture, fixture.start(role));
  const [question] = paused.questions;
  if (question === undefined) throw new Error("Expected a question.");
  fixture.clock.advance(5_000);
  const result = await playedOut(
    fixture,
    fixture.resume(role, paused.pausedRun, [approve(question)]),
  );
  expect(timings(result)[0]).toEqual({
    inferenceMs: 5,
    toolsMs: 48,
    toolsSumMs: 48,
    hooksMs: 3,
    formattingMs: 0,
  });
});

proves(["R174"], "hooks around a call have their own time, separate from the call's", async () => {
  const { result } = await played(
    (lasts) => [
      () => ({ ...calls(use("work"), use("work")), after: lasts(30) }),
      () => says("done", { after: lasts(1) }),
    ],
    (lasts) => ({
      tools: slow(lasts, { work: 50 }),
      hooks: [
        wrapModelCall(async (_call, next) => {
          await lasts(4);
          const reply = await next();
          await lasts(6);
          return reply;
        }),
        wrapToolCall(async (_call, next) => {
          await lasts(2);
          await next();
          const again = await next();
          await lasts(5);
          return again;
        }),
      ],
    }),
    { concurrency: { toolCalls: 1 } },
  );
  expect(timings(result)).toEqual([
    { inferenceMs: 30, toolsMs: 200, toolsSumMs: 200, hooksMs: 10 + 14, formattingMs: 0 },
    { ...NO_TIMING, inferenceMs: 1, hooksMs: 10 },
  ]);
});

proves(
  ["R174"],
  "attempts of a model call and the delays between them count as inference",
  async () => {
    const busy = new ModelError({
      code: "model_overloaded",
      message: "Later.",
      retryAfterMs: 25,
    });
    const { fixture, result } = await played((lasts) => [
      () => ({ error: busy, after: lasts(10) }),
      () => says("done", { after: lasts(10) }),
    ]);
    expect(fixture.sink.ofType("model.retried").map(({ delayMs }) => delayMs)).toEqual([28]);
    expect(timings(result)).toEqual([{ ...NO_TIMING, inferenceMs: 48 }]);
  },
);

proves(["R174"], "the summary of a long result counts as inference of its step", async () => {
  const { result } = await played(
    (lasts) => [
      () => ({ ...calls(use("read")), after: lasts(10) }),
      () => says("short", { after: lasts(15) }),
      says("done"),
    ],
    (lasts) => ({
      tools: [
        spyTool("read", () => lasts(5).then(() => "x".repeat(90)), {
          maxResultCharacters: 20,
          longResultPolicy: "summarize",
        }),
      ],
    }),
  );
  expect(timings(result)[0]).toEqual({
    ...NO_TIMING,
    inferenceMs: 25,
    toolsMs: 5,
    toolsSumMs: 5,
  });
});

test("a cancelled tool call counts its time until its end", async () => {
  const fixture = newFixture();
  const lasts = lastsBy(fixture.clock);
  const { role } = soloist([() => ({ ...calls(use("work")), after: lasts(10) })], {
    tools: [
      spyTool("work", async ({ signal }) => {
        await lasts(12);
        void run.cancel("Enough.");
        signal.throwIfAborted();
        return "never";
      }),
    ],
  });
  const run = fixture.start(role);
  const result = await playedOut(fixture, run);
  expect([result.status, timings(result)]).toEqual([
    "cancelled",
    [{ ...NO_TIMING, inferenceMs: 10, toolsMs: 12, toolsSumMs: 12 }],
  ]);
});

test("a cancelled model call counts its time until the cancel", async () => {
  const fixture = newFixture();
  const { role } = soloist([{ after: new Promise(() => undefined) }]);
  const run = fixture.start(role);
  fixture.clock.setTimer(40, () => void run.cancel("Enough."));
  const result = await playedOut(fixture, run);
  expect([result.status, timings(result)]).toEqual([
    "cancelled",
    [{ ...NO_TIMING, inferenceMs: 40 }],
  ]);
});

test("a refused, unknown or skipped call takes no time", async () => {
  const { result } = await played(() => [
    calls(use("nobody"), { toolName: "nothing", arguments: "{" }),
    says("done"),
  ]);
  expect(timings(result)).toEqual([NO_TIMING, NO_TIMING]);
});
