// Goal: the caller may intervene between any two phases, to stop or to skip calls, and the request
// takes effect at once.
// Method: runs iterated by hand, and hooks that request a stop in each phase; executions and
// answers are compared in full.

import { expect, test } from "vitest";
import { z } from "zod";

import type { Phase } from "../../../src/agent/phase-report.ts";
import { processStep, transform, type Hook } from "../../../src/hooks/hook.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { approve } from "../../../src/protocol/question.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

const work = asks("work", {});

/** Calls `act` after the first phase with the given name. */
async function at(run: Run, wanted: Phase, act: () => void): Promise<void> {
  let isDone = false;
  for await (const { phase } of run.iterate()) {
    if (phase === wanted && !isDone) act();
    isDone ||= phase === wanted;
  }
}

function answers(result: RunResult): readonly (readonly string[])[] {
  return result.steps.flatMap(({ tools }) =>
    tools.executions.map(({ call, type, errorCode = "", text }) => [
      call.toolName,
      type,
      errorCode,
      text,
    ]),
  );
}

proves(
  ["R3"],
  "calls that the caller skips between reply and tools do not run, and the model reads the reason",
  async () => {
    const tools = [spyTool("work"), spyTool("pay")];
    const { role, model } = soloist([calls(use("work"), use("pay")), says("done")], { tools });
    const fixture = newFixture();
    const run = fixture.start(role, "Do it.", { budget: { toolCalls: 9 } });
    await at(run, "evaluate", () => run.skipToolCalls("Not today."));
    const result = await fixture.outcome(run);
    const answer = ["refused", "skipped", "Not executed: Not today."];
    expect(answers(result)).toEqual([
      ["work", ...answer],
      ["pay", ...answer],
    ]);
    expect([result.status, tools.map((tool) => tool.calls.length)]).toEqual(["completed", [0, 0]]);
    expect(model.requests[1]?.messages.slice(-2).map(({ text }) => text)).toEqual([
      "Not executed: Not today.",
      "Not executed: Not today.",
    ]);
    expect([result.usage.total.toolCalls, result.agents[0]?.toolsUsed]).toEqual([0, {}]);
  },
);

test("skipping applies once, to the open calls or else to the next ones", async () => {
  for (const phase of ["prepare", "infer", "evaluate"] as const) {
    const tool = spyTool("work");
    const { role } = soloist([work, work, says("done")], { tools: [tool] });
    const fixture = newFixture();
    const run = fixture.start(role);
    await at(run, phase, () => run.skipToolCalls());
    const result = await fixture.outcome(run);
    expect(answers(result)).toEqual([
      ["work", "refused", "skipped", "Not executed: The caller left it out."],
      ["work", "succeeded", "", "work done"],
    ]);
    expect(tool.calls).toHaveLength(1);
  }
});

test("a later reason replaces an earlier one, and an unused one has no effect", async () => {
  const { role } = soloist([work, says("done")], { tools: [spyTool("work")] });
  const fixture = newFixture();
  const run = fixture.start(role);
  run.skipToolCalls("First.");
  run.skipToolCalls("Second.");
  await at(run, "applyToolResults", () => run.skipToolCalls("Never."));
  const result = await fixture.outcome(run);
  run.skipToolCalls("Too late.");
  expect([result.status, answers(result).map(([, , , text]) => text)]).toEqual([
    "completed",
    ["Not executed: Second."],
  ]);
});

test("an empty reason is rejected", async () => {
  const fixture = newFixture();
  const run = fixture.start(soloist([says("done")]).role);
  expect(() => run.skipToolCalls("")).toThrow(/reason/);
  await fixture.outcome(run);
});

test("a skipped call that needs an approval causes no question", async () => {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const { role } = soloist([asks("pay", {}), says("done")], { tools: [pay] });
  const fixture = newFixture();
  const run = fixture.start(role);
  await at(run, "evaluate", () => run.skipToolCalls("No money."));
  const result = await fixture.outcome(run);
  expect([result.status, result.questions, pay.calls.length]).toEqual(["completed", [], 0]);
  expect(fixture.sink.ofType("question.asked")).toEqual([]);
});

test("a skipped delegation starts no subagent, and counts for no limit", async () => {
  const child = part("child", [says("never")]);
  const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  await at(run, "evaluate", () => run.skipToolCalls("Do it yourself."));
  const result = await fixture.outcome(run);
  expect([result.status, result.agents.length, result.refusalsByCode]).toEqual([
    "completed",
    1,
    {},
  ]);
});

test("a skipped typed result is not accepted, and the model can return it again", async () => {
  const { role } = soloist([asks("Finish", { count: 1 }), asks("Finish", { count: 2 })], {
    output: z.object({ count: z.int() }),
  });
  const fixture = newFixture();
  const run = fixture.start(role);
  await at(run, "evaluate", () => run.skipToolCalls("Count again."));
  const result = await fixture.outcome(run);
  expect([result.status, result.output]).toEqual(["completed", { count: 2 }]);
});

/** The numbers of requests, tool runs and steps when the caller stops after a phase. */
const AFTER: readonly (readonly [Phase, requests: number, ran: number, steps: number])[] = [
  ["prepare", 0, 0, 0],
  ["infer", 1, 0, 1],
  ["evaluate", 1, 0, 1],
  ["execute", 1, 1, 1],
  ["applyToolResults", 1, 1, 1],
  ["decide", 1, 1, 1],
];

for (const [phase, requests, ran, steps] of AFTER) {
  proves(["R3", "R21"], `a stop after ${phase} prevents all further work`, async () => {
    const tool = spyTool("work");
    const { role, model } = soloist([work, says("never")], { tools: [tool] });
    const fixture = newFixture();
    const run = fixture.start(role);
    await at(run, phase, () => run.requestStop("Enough."));
    const result = await fixture.outcome(run);
    expect([result.status, result.reason]).toEqual([
      "stopped",
      { code: "stop_requested", message: "Enough.", data: {} },
    ]);
    expect([model.requests.length, tool.calls.length, result.steps.length]).toEqual([
      requests,
      ran,
      steps,
    ]);
    expect(answers(result)).toHaveLength(steps);
  });
}

proves(
  ["R21"],
  "a stop after one tool prevents the calls that have not begun, and they get results",
  async () => {
    const tools = [spyTool("one"), spyTool("two"), spyTool("three")];
    const stop = transform("afterTool", (_input, { requestStop }) => requestStop("Seen enough."));
    const { role, model } = soloist([calls(use("one"), use("two"), use("three")), says("never")], {
      tools,
      hooks: [stop],
    });
    const result = await newFixture({ concurrency: { toolCalls: 1 } }).run(role);
    expect(answers(result).map((answer) => answer.slice(0, 3))).toEqual([
      ["one", "succeeded", ""],
      ["two", "not_executed", "not_executed"],
      ["three", "not_executed", "not_executed"],
    ]);
    expect([tools.map(({ calls }) => calls.length), model.requests.length]).toEqual([[1, 0, 0], 1]);
    expect([result.status, result.reason.code, result.reason.message]).toEqual([
      "stopped",
      "stop_requested",
      "Seen enough.",
    ]);
  },
);

/** Hooks that request a stop at a point, with the numbers of requests and tool runs by then. */
const STOPPING: Readonly<Record<string, readonly [hook: Hook, requests: number, ran: number]>> = {
  "before the model call": [
    transform("beforeModel", (_input, { requestStop }) => requestStop("Enough.")),
    0,
    0,
  ],
  "before a tool call": [
    transform("beforeTool", (_input, { requestStop }) => requestStop("Enough.")),
    1,
    0,
  ],
  "after the step": [processStep((_step, { requestStop }) => requestStop("Enough.")), 1, 1],
};

for (const [when, [hook, requests, ran]] of Object.entries(STOPPING)) {
  proves(["R21"], `a stop requested ${when} takes effect before further work starts`, async () => {
    const tool = spyTool("work");
    const { role, model } = soloist([work, says("never")], { tools: [tool], hooks: [hook] });
    const result = await newFixture().run(role);
    expect([result.reason.code, model.requests.length, tool.calls.length]).toEqual([
      "stop_requested",
      requests,
      ran,
    ]);
  });
}

proves(["R3"], "a stop of the caller prevents further work of subagents as well", async () => {
  const tool = spyTool("work");
  const script: readonly (() => ScriptedReply)[] = [
    () => {
      run.requestStop("Enough.");
      return calls(use("work"));
    },
  ];
  const child = part("child", script, { tools: [tool] });
  const root = part("root", [calls(spawn("child"))], { subagents: [child.role] });
  const fixture = newFixture();
  const run = fixture.start(root.role);
  const result = await fixture.outcome(run);
  expect(result.agents.map(({ status, reason }) => [status, reason.code])).toEqual([
    ["stopped", "stop_requested"],
    ["stopped", "stop_requested"],
  ]);
  expect(tool.calls).toHaveLength(0);
});

proves(
  ["R3", "R21"],
  "a stop between reply and tools prevents subagents, questions and typed results",
  async () => {
    const child = part("child", [says("never")]);
    const pay = spyTool("pay", () => "paid", { needsApproval: true });
    const finish = { toolName: "Finish", arguments: { count: 1 } };
    const root = part("root", [calls(spawn("child"), use("pay"), finish)], {
      subagents: [child.role],
      tools: [pay],
      output: z.object({ count: z.int() }),
    });
    const fixture = newFixture();
    const run = fixture.start(root.role);
    await at(run, "evaluate", () => run.requestStop("Enough."));
    const result = await fixture.outcome(run);
    expect([result.status, result.output, result.agents.length]).toEqual(["stopped", undefined, 1]);
    const text = "Not executed: the agent stopped before this call (stop_requested).";
    expect(answers(result)).toEqual(
      ["SpawnSubagent", "pay", "Finish"].map((name) => [
        name,
        "not_executed",
        "not_executed",
        text,
      ]),
    );
    expect(fixture.sink.ofType("question.asked")).toEqual([]);
  },
);

test("a question that was open at a pause is skipped after it, despite an approval", async () => {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const { role } = soloist([asks("pay", {}), says("done")], { tools: [pay] });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const run = fixture.resume(
    role,
    paused.pausedRun,
    paused.questions.map((one) => approve(one)),
  );
  run.skipToolCalls("Changed my mind.");
  const result = await fixture.outcome(run);
  expect([result.status, answers(result), pay.calls.length]).toEqual([
    "completed",
    [["pay", "refused", "skipped", "Not executed: Changed my mind."]],
    0,
  ]);
});
