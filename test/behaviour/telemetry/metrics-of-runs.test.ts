// Goal: the metrics of real runs agree with the usage that the runs report, and no up-down counter
// stays up.
// Method: scripted models under the manual clock, one meter for all processes of a run. The sums
// are compared with the usage in the results, and the specifics of each run line by line.

import { trace } from "@opentelemetry/api";
import { expect, test } from "vitest";

import { wrapModelCall } from "../../../src/hooks/hook.ts";
import { approve, deny } from "../../../src/protocol/question.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  aborted,
  calls,
  part,
  quiet,
  spawn,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import {
  checkMetrics,
  linesWith,
  metricRecorder,
  sumOf,
  type MetricRecorder,
} from "../../support/telemetry/recorded-metrics.ts";

interface MeteredFixture extends Fixture {
  readonly recording: MetricRecorder;
}

function setUp(options: OrchestratorOptions = {}): MeteredFixture {
  const recording = metricRecorder();
  const { meter } = recording;
  const tracing = openTelemetry({ tracer: trace.getTracer("none"), meter });
  return { ...newFixture({ ...options, tracing }), recording };
}

proves(
  ["X18"],
  "sums up to the usage of a run with tools, refusals, subagents and a failing model",
  async () => {
    const { recording, ...s } = setUp({ limits: { maxBreadthPerParent: 1 } });
    const failing = part("failing", [{ error: new Error("down") }]);
    const lead = part(
      "lead",
      [
        calls(
          use("look"),
          use("nothing-like-it"),
          spawn("failing"),
          spawn("failing"),
          spawn("ghost"),
        ),
        says("Done.", {
          usage: { inputTokens: 100, cachedInputTokens: 40, outputTokens: 20, reasoningTokens: 7 },
        }),
      ],
      {
        subagents: [failing.role],
        tools: [tool("look", () => "seen")],
        budget: { totalTokens: 1_000, steps: 10, toolCalls: 20 },
      },
    );
    const result = await s.run(lead.role);
    const readings = await recording.read();
    checkMetrics(readings, [result]);
    const { totalTokens } = result.usage.total;
    expect([result.status, totalTokens]).toEqual(["completed", 135]);
    expect(linesWith(readings, "execute_tool.duration")).toEqual([
      "gen_ai.execute_tool.duration | agent.name=lead error.type=subagent_failed operation.name=execute_tool outcome=failed tool.name=SpawnSubagent | 0 in 1",
      "gen_ai.execute_tool.duration | agent.name=lead error.type=unknown_tool operation.name=execute_tool outcome=failed tool.name=unknown_tool | 0 in 1",
      "gen_ai.execute_tool.duration | agent.name=lead operation.name=execute_tool outcome=refused tool.name=SpawnSubagent | 0 in 2",
      "gen_ai.execute_tool.duration | agent.name=lead operation.name=execute_tool outcome=succeeded tool.name=look | 0 in 1",
    ]);
    expect(linesWith(readings, "utilization")).toEqual([
      "espalier.budget.utilization | agent.name=failing budget.axis=steps outcome=failed | 0.111111 in 1",
      "espalier.budget.utilization | agent.name=failing budget.axis=toolCalls outcome=failed | 0 in 1",
      "espalier.budget.utilization | agent.name=failing budget.axis=totalTokens outcome=failed | 0 in 1",
      "espalier.budget.utilization | agent.name=lead budget.axis=steps outcome=completed | 0.3 in 1",
      "espalier.budget.utilization | agent.name=lead budget.axis=toolCalls outcome=completed | 0.2 in 1",
      "espalier.budget.utilization | agent.name=lead budget.axis=totalTokens outcome=completed | 0.135 in 1",
    ]);
  },
);

test("counts no approval as pending while the run is paused, and measures its wait in another process", async () => {
  const { recording, ...s } = setUp();
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const { role } = soloist([calls(use("pay"), use("pay")), says("Done.")], {
    tools: [pay],
    budget: { totalTokens: 100 },
  });
  const paused = await s.run(role);
  const standing = await recording.read();
  expect([paused.status, sumOf(standing, "pendingApprovals")]).toEqual(["paused", 0]);
  expect(sumOf(standing, "activeAgents")).toBe(0);
  s.clock.advance(60_000);
  const answers = paused.questions.map((one, index) => (index === 0 ? approve(one) : deny(one)));
  const result = await s.outcome(s.resume(role, paused.pausedRun, answers));
  const readings = await recording.read();
  checkMetrics(readings, [result]);
  expect(linesWith(readings, "approval")).toEqual([
    "espalier.approval.wait.duration | agent.name=solo outcome=approved tool.name=pay | 60 in 1",
    "espalier.approval.wait.duration | agent.name=solo outcome=denied tool.name=pay | 60 in 1",
    "espalier.approvals.pending | agent.name=solo tool.name=pay | 0",
  ]);
  expect(linesWith(readings, "utilization")).toEqual([
    "espalier.budget.utilization | agent.name=solo budget.axis=totalTokens outcome=completed | 0.3 in 1",
  ]);
  expect(linesWith(readings, "invoke_agent.duration")).toEqual([
    "gen_ai.invoke_agent.duration | agent.name=solo operation.name=invoke_agent outcome=completed request.model=scripted | 0 in 1",
    "gen_ai.invoke_agent.duration | agent.name=solo operation.name=invoke_agent outcome=suspended request.model=scripted | 0 in 1",
  ]);
});

test("counts an approval as pending while the approver decides", async () => {
  const mayAnswer = latch();
  const { recording, ...s } = setUp({
    approver: async (question) => {
      await mayAnswer.opened;
      return approve(question);
    },
  });
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const { role } = soloist([asks("pay", {}), says("Done.")], { tools: [pay] });
  const run = s.start(role);
  await until(() => s.sink.ofType("question.asked").length === 1);
  expect(sumOf(await recording.read(), "pendingApprovals")).toBe(1);
  expect(sumOf(await recording.read(), "activeAgents")).toBe(1);
  s.clock.advance(2_500);
  mayAnswer.open();
  const result = await s.outcome(run);
  const readings = await recording.read();
  checkMetrics(readings, [result]);
  expect(linesWith(readings, "approval.wait")).toEqual([
    "espalier.approval.wait.duration | agent.name=solo outcome=approved tool.name=pay | 2.5 in 1",
  ]);
});

test("measures subagents in the background and a cancellation", async () => {
  const { recording, ...s } = setUp();
  const worker = part("worker", [calls(use("work"))], {
    tools: [tool("work", ({ signal }) => aborted(signal))],
  });
  const beside = {
    toolName: "SpawnSubagent",
    arguments: { role: "worker", task: "Work.", background: true },
  };
  const lead = part("lead", [calls(beside), says("Waiting.")], {
    delegation: { background: true },
    subagents: [worker.role],
  });
  const run = s.start(lead.role);
  await until(() => s.sink.ofType("tool.started").some(({ toolName }) => toolName === "work"));
  expect(sumOf(await recording.read(), "activeAgents")).toBe(2);
  await run.cancel("Enough.");
  const result = await s.outcome(run);
  const readings = await recording.read();
  checkMetrics(readings, [result]);
  expect(linesWith(readings, "duration").filter((line) => line.includes("cancelled"))).toEqual([
    "gen_ai.execute_tool.duration | agent.name=worker operation.name=execute_tool outcome=cancelled tool.name=work | 0 in 1",
    "gen_ai.invoke_agent.duration | agent.name=lead operation.name=invoke_agent outcome=cancelled request.model=lead-model | 0 in 1",
    "gen_ai.invoke_agent.duration | agent.name=worker operation.name=invoke_agent outcome=cancelled request.model=worker-model | 0 in 1",
    "gen_ai.invoke_workflow.duration | operation.name=invoke_workflow outcome=cancelled workflow.name=lead | 0 in 1",
  ]);
});

test("counts both calls of a hook that calls the model twice at once", async () => {
  const { recording, ...s } = setUp();
  const { role } = soloist([says("One."), says("Two.")], {
    hooks: [
      wrapModelCall(async (_call, next) => {
        const [one] = await Promise.all([next(), next()]);
        return one;
      }),
    ],
  });
  const result = await s.run(role);
  const readings = await recording.read();
  expect(result.usage.total.modelCalls).toBe(2);
  checkMetrics(readings, [result]);
});

test("measures a call that waits for a slot together with its wait", async () => {
  const { recording, ...s } = setUp({ concurrency: { toolCalls: 1 } });
  const slow = latch();
  const { role } = soloist([calls(use("first"), use("second")), says("Done.")], {
    tools: [spyTool("first", () => slow.opened.then(() => "done")), spyTool("second")],
  });
  const run = s.start(role);
  await quiet();
  s.clock.advance(700);
  slow.open();
  const result = await s.outcome(run);
  const readings = await recording.read();
  checkMetrics(readings, [result]);
  expect(linesWith(readings, "queue.wait")).toEqual([
    "espalier.queue.wait.duration | agent.name=solo operation.name=chat | 0 in 2",
    "espalier.queue.wait.duration | agent.name=solo operation.name=execute_tool | 0.7 in 2",
  ]);
});
