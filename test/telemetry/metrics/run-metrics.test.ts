// Goal: the results of a run and its agents are measured once each, with few attribute values. A
// meter never affects the run and its spans.
// Method: handwritten events, projected into a real SDK, with every series compared. Real runs are
// in metrics-of-runs.test.ts, random ones in run-metrics.property.test.ts.

import { describe, expect, test } from "vitest";

import { LeaseIdSchema } from "../../../src/protocol/ids.ts";
import { MAX_VALUES, RunMetrics } from "../../../src/telemetry/metrics/run-metrics.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { pausedRun } from "../../support/telemetry/paused-run.ts";
import {
  checkAttributes,
  linesOf,
  linesWith,
  metricRecorder,
  pointsOf,
  sumOf,
  type Readings,
} from "../../support/telemetry/recorded-metrics.ts";
import { placeAll, recorder } from "../../support/telemetry/recorded-spans.ts";
import { CANARY, ONE_CALL } from "../../support/telemetry/run-script-facts.ts";
import { measuredTeam } from "../../support/telemetry/measured-team.ts";
import { RunScript } from "../../support/telemetry/run-script.ts";

async function readingsOf(run: RunScript, legacyMetrics = false): Promise<Readings> {
  const { meter, read } = metricRecorder();
  const metrics = new RunMetrics({ meter, legacyMetrics });
  placeAll(new SpanProjector(recorder().tracer, String, { metrics }), run.drafts);
  expect(metrics.openRuns).toBe(0);
  const readings = await read();
  checkAttributes(readings);
  return readings;
}

test("records every series of a run with a subagent, tools, a refusal and a failure", async () => {
  const readings = await readingsOf(measuredTeam());
  expect(linesOf(readings)).toEqual([
    "espalier.agents.active | agent.name=lead | 0",
    "espalier.agents.active | agent.name=reader | 0",
    "espalier.agents.spawned | agent.name=reader | 1",
    "espalier.budget.utilization | agent.name=lead budget.axis=costUsd outcome=completed | 0.0014 in 1",
    "espalier.budget.utilization | agent.name=lead budget.axis=totalTokens outcome=completed | 0.012 in 1",
    "espalier.budget.utilization | agent.name=reader budget.axis=costUsd outcome=failed | 0.001398 in 1",
    "espalier.budget.utilization | agent.name=reader budget.axis=totalTokens outcome=failed | 0.011858 in 1",
    "espalier.queue.wait.duration | agent.name=lead operation.name=chat | 0.25 in 1",
    "espalier.queue.wait.duration | agent.name=lead operation.name=execute_tool | 0.04 in 4",
    "espalier.queue.wait.duration | agent.name=reader operation.name=chat | 0 in 1",
    "gen_ai.client.inference.duration | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 | 0.02 in 1",
    "gen_ai.client.inference.duration | agent.name=reader error.type=model_unavailable operation.name=chat outcome=failed provider.name=scripted request.model=model-1 | 0.01 in 1",
    "gen_ai.client.inference.operation.input_tokens | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 | 100 in 1",
    "gen_ai.client.inference.operation.input_tokens | agent.name=reader error.type=model_unavailable operation.name=chat outcome=failed provider.name=scripted request.model=model-1 | 0 in 1",
    "gen_ai.client.inference.operation.output_tokens | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 | 20 in 1",
    "gen_ai.client.inference.operation.output_tokens | agent.name=reader error.type=model_unavailable operation.name=chat outcome=failed provider.name=scripted request.model=model-1 | 0 in 1",
    "gen_ai.client.inference.usage.cache_read.input_tokens | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 token.modality=unknown | 40",
    "gen_ai.client.inference.usage.input_tokens | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 token.modality=unknown | 100",
    "gen_ai.client.inference.usage.output_tokens | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 token.modality=unknown | 20",
    "gen_ai.client.inference.usage.reasoning.output_tokens | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 token.modality=unknown | 5",
    "gen_ai.execute_tool.duration | agent.name=lead error.type=subagent_failed operation.name=execute_tool outcome=failed tool.name=SpawnSubagent | 0.12 in 1",
    "gen_ai.execute_tool.duration | agent.name=lead error.type=unknown_tool operation.name=execute_tool outcome=failed tool.name=unknown_tool | 0.01 in 1",
    "gen_ai.execute_tool.duration | agent.name=lead operation.name=execute_tool outcome=refused tool.name=wipe | 0.01 in 1",
    "gen_ai.execute_tool.duration | agent.name=lead operation.name=execute_tool outcome=succeeded tool.name=search | 0.01 in 1",
    "gen_ai.invoke_agent.duration | agent.name=lead operation.name=invoke_agent outcome=completed request.model=model-1 | 0.28 in 1",
    "gen_ai.invoke_agent.duration | agent.name=reader error.type=model_unavailable operation.name=invoke_agent outcome=failed request.model=model-1 | 0.08 in 1",
    "gen_ai.invoke_agent.inference_calls | agent.name=lead | 1 in 1",
    "gen_ai.invoke_agent.inference_calls | agent.name=reader | 0 in 1",
    "gen_ai.invoke_agent.tool_calls | agent.name=lead | 0 in 1",
    "gen_ai.invoke_agent.tool_calls | agent.name=reader | 0 in 1",
    "gen_ai.invoke_workflow.duration | operation.name=invoke_workflow outcome=completed workflow.name=lead | 0.3 in 1",
  ]);
});

test("records the same values under the old names in addition", async () => {
  const lines = linesOf(await readingsOf(measuredTeam(), true));
  expect(lines.filter((line) => /client\.(operation|token)\./.test(line))).toEqual([
    "gen_ai.client.operation.duration | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 | 0.02 in 1",
    "gen_ai.client.operation.duration | agent.name=reader error.type=model_unavailable operation.name=chat outcome=failed provider.name=scripted request.model=model-1 | 0.01 in 1",
    "gen_ai.client.token.usage | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 token.type=input | 100 in 1",
    "gen_ai.client.token.usage | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 token.type=output | 20 in 1",
    "gen_ai.client.token.usage | agent.name=reader operation.name=chat provider.name=scripted request.model=model-1 token.type=input | 0 in 1",
    "gen_ai.client.token.usage | agent.name=reader operation.name=chat provider.name=scripted request.model=model-1 token.type=output | 0 in 1",
  ]);
  const newest = lines.filter((line) => !/client\.(operation|token)\./.test(line));
  expect(newest).toEqual(linesOf(await readingsOf(measuredTeam())));
});

test("ends all measurements at a pause and starts new ones when the run is resumed", async () => {
  const lines = linesOf(await readingsOf(pausedRun()));
  expect(lines.filter((line) => !line.startsWith("gen_ai.client"))).toEqual([
    "espalier.agents.active | agent.name=lead | 0",
    "espalier.agents.active | agent.name=reader | 0",
    "espalier.agents.spawned | agent.name=reader | 1",
    "espalier.approval.wait.duration | agent.name=reader outcome=approved tool.name=write | 60 in 1",
    "espalier.approvals.pending | agent.name=reader tool.name=write | 0",
    "espalier.budget.utilization | agent.name=lead budget.axis=costUsd outcome=completed | 0.001398 in 1",
    "espalier.budget.utilization | agent.name=lead budget.axis=totalTokens outcome=completed | 0.011858 in 1",
    "espalier.budget.utilization | agent.name=reader budget.axis=costUsd outcome=completed | 0.001398 in 1",
    "espalier.budget.utilization | agent.name=reader budget.axis=totalTokens outcome=completed | 0.011858 in 1",
    "espalier.queue.wait.duration | agent.name=lead operation.name=chat | 0 in 1",
    "espalier.queue.wait.duration | agent.name=lead operation.name=execute_tool | 0 in 1",
    "espalier.queue.wait.duration | agent.name=reader operation.name=chat | 0 in 1",
    "espalier.queue.wait.duration | agent.name=reader operation.name=execute_tool | 0 in 1",
    "gen_ai.execute_tool.duration | agent.name=lead operation.name=execute_tool outcome=succeeded tool.name=SpawnSubagent | 0.09 in 1",
    "gen_ai.execute_tool.duration | agent.name=lead operation.name=execute_tool outcome=suspended tool.name=SpawnSubagent | 0.1 in 1",
    "gen_ai.execute_tool.duration | agent.name=reader operation.name=execute_tool outcome=succeeded tool.name=write | 0.01 in 1",
    "gen_ai.invoke_agent.duration | agent.name=lead operation.name=invoke_agent outcome=completed request.model=model-1 | 0.13 in 1",
    "gen_ai.invoke_agent.duration | agent.name=lead operation.name=invoke_agent outcome=suspended request.model=model-1 | 0.17 in 1",
    "gen_ai.invoke_agent.duration | agent.name=reader operation.name=invoke_agent outcome=completed request.model=model-1 | 0.06 in 1",
    "gen_ai.invoke_agent.duration | agent.name=reader operation.name=invoke_agent outcome=suspended request.model=model-1 | 0.07 in 1",
    "gen_ai.invoke_agent.inference_calls | agent.name=lead | 1 in 2",
    "gen_ai.invoke_agent.inference_calls | agent.name=reader | 1 in 2",
    "gen_ai.invoke_agent.tool_calls | agent.name=lead | 0 in 2",
    "gen_ai.invoke_agent.tool_calls | agent.name=reader | 0 in 2",
    "gen_ai.invoke_workflow.duration | operation.name=invoke_workflow outcome=completed workflow.name=lead | 0.15 in 1",
    "gen_ai.invoke_workflow.duration | operation.name=invoke_workflow outcome=suspended workflow.name=lead | 0.19 in 1",
  ]);
});

describe("approvals", () => {
  test("are pending until they are answered, by anyone, or their agent ends", async () => {
    const run = new RunScript();
    const { root: lead } = run;
    const { meter, read } = metricRecorder();
    const projector = new SpanProjector(recorder().tracer, String, {
      metrics: new RunMetrics({ meter }),
    });
    const pending = async (): Promise<readonly string[]> => {
      placeAll(projector, run.drafts.splice(0));
      return linesWith(await read(), "espalier.approvals.pending");
    };
    run.started();
    lead.started();
    lead.asks();
    lead.asksLeave("call_1", "pay");
    lead.asksLeave("call_2", "pay");
    lead.asksLeave("call_2", "pay");
    lead.asksLeave("call_3", "mail", "external");
    expect(await pending()).toEqual(pendingOf(2));
    lead.isAnswered("call_1", "pay", { source: "approver", answer: "denied", waitedMs: 1_500 });
    expect(await pending()).toEqual(pendingOf(1));
    lead.isAnswered("call_3", "mail", { answer: "result" });
    lead.isAnswered("call_1", "pay", { waitedMs: 0 });
    expect(await pending(), "an answer that is told twice comes down once").toEqual(pendingOf(1));
    lead.ended("cancelled");
    expect(await pending(), "the end of its agent").toEqual(pendingOf(0));
    run.ended("cancelled");
    placeAll(projector, run.drafts);
    expect(linesWith(await read(), "espalier.approval.wait")).toEqual([
      "espalier.approval.wait.duration | agent.name=lead outcome=approved tool.name=pay | 0 in 1",
      "espalier.approval.wait.duration | agent.name=lead outcome=denied tool.name=pay | 1.5 in 1",
    ]);
  });

  test("are recorded as abandoned if they are open when their agent ends", async () => {
    const run = new RunScript();
    run.started();
    run.root.started();
    run.root.asksLeave("call_1", "pay");
    run.root.isAnswered("call_1", "pay", { source: "end", answer: "denied", waitedMs: 2_000 });
    run.root.ended("cancelled");
    run.ended("cancelled");
    expect(linesWith(await readingsOf(run), "espalier.approval")).toEqual([
      "espalier.approval.wait.duration | agent.name=lead outcome=abandoned tool.name=pay | 2 in 1",
      "espalier.approvals.pending | agent.name=lead tool.name=pay | 0",
    ]);
  });
});

test("measures work that is open at the end of a run like its span, and lowers the counters", async () => {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.asks();
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.spawns("call_1", reader);
  reader.started("call_1");
  reader.asks();
  reader.asksLeave("call_9", "pay");
  run.ended("cancelled", 1);
  const lines = linesOf(await readingsOf(run));
  expect(lines.filter((line) => line.includes("cancelled")).map(withoutModel)).toEqual([
    "gen_ai.client.inference.duration | agent.name=lead operation.name=chat outcome=cancelled | 0.08 in 1",
    "gen_ai.client.inference.duration | agent.name=reader operation.name=chat outcome=cancelled | 0.02 in 1",
    "gen_ai.execute_tool.duration | agent.name=lead operation.name=execute_tool outcome=cancelled tool.name=SpawnSubagent | 0.07 in 1",
    "gen_ai.invoke_agent.duration | agent.name=lead operation.name=invoke_agent outcome=cancelled | 0.11 in 1",
    "gen_ai.invoke_agent.duration | agent.name=reader operation.name=invoke_agent outcome=cancelled | 0.05 in 1",
    "gen_ai.invoke_workflow.duration | operation.name=invoke_workflow outcome=cancelled workflow.name=lead | 0.12 in 1",
  ]);
  expect(lines.filter((line) => /active|pending|utilization/.test(line))).toEqual([
    "espalier.agents.active | agent.name=lead | 0",
    "espalier.agents.active | agent.name=reader | 0",
    "espalier.approvals.pending | agent.name=reader tool.name=pay | 0",
  ]);
});

test("records no durations for a run that is released to another process, and lowers the counters", async () => {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  lead.calls("call_1", "pay");
  lead.asksLeave("call_1", "pay");
  const { meter, read } = metricRecorder();
  const metrics = new RunMetrics({ meter });
  const projector = new SpanProjector(recorder().tracer, String, { metrics });
  placeAll(projector, run.drafts);
  projector.release({ seq: 99, atMs: 5_000, scope: lead.scope() }, "released");
  const readings = await read();
  expect(metrics.openRuns).toBe(0);
  expect(
    linesOf(readings).filter((line) => /active|pending|_calls|agent.dur|tool.dur|flow/.test(line)),
  ).toEqual([
    "espalier.agents.active | agent.name=lead | 0",
    "espalier.approvals.pending | agent.name=lead tool.name=pay | 0",
    "gen_ai.invoke_agent.inference_calls | agent.name=lead | 1 in 1",
    "gen_ai.invoke_agent.tool_calls | agent.name=lead | 0 in 1",
  ]);
});

test("counts a call that was lost with its process for its agent when the agent continues", async () => {
  const run = new RunScript();
  const lead = run.root;
  run.resumed();
  const place = { ...lead.scope(), executionId: null, stepId: null };
  const settled = run.drafts.length;
  lead.asks();
  lead.hears();
  const [booked] = run.drafts.splice(settled).filter(({ body }) => body.type === "budget.settled");
  run.add(place, booked?.body ?? expect.fail("nothing booked"));
  lead.resumes();
  lead.ended();
  run.ended();
  const readings = await readingsOf(run);
  expect(linesWith(readings, "usage.input_tokens")).toEqual([
    "gen_ai.client.inference.usage.input_tokens | agent.name=lead operation.name=chat provider.name=scripted request.model=model-1 token.modality=unknown | 100",
  ]);
  expect(sumOf(readings, "agentInferenceCalls")).toBe(1);
});

test("counts a lost call of an agent that does not continue without a name", async () => {
  const run = new RunScript();
  run.resumed();
  const stray = run.root.child("reader");
  stray.notes({
    type: "budget.settled",
    leaseId: LeaseIdSchema().parse("lease_1"),
    usage: ONE_CALL,
    remaining: {},
    runRemaining: {},
  });
  run.ended();
  expect(linesWith(await readingsOf(run), "usage.output_tokens")).toEqual([
    "gen_ai.client.inference.usage.output_tokens | agent.name=unknown operation.name=chat provider.name=unknown request.model=unknown token.modality=unknown | 20",
  ]);
});

describe("attribute values", () => {
  test("are combined in one series for names that models make up", async () => {
    const run = new RunScript();
    const lead = run.root;
    run.started();
    lead.started();
    for (let index = 0; index < 3 * MAX_VALUES; index += 1) {
      const made = lead.child(`made-up-${index}`);
      lead.spawns(undefined, made);
      made.started();
      made.asksLeave(`call_${index}`, `tool-${index}`);
      made.ended();
    }
    lead.ended();
    run.ended("completed", 3 * MAX_VALUES);
    const readings = await readingsOf(run);
    const spawned = pointsOf(readings, "spawnedAgents");
    expect(spawned.length).toBeLessThanOrEqual(MAX_VALUES + 1);
    expect(sumOf(readings, "spawnedAgents")).toBe(3 * MAX_VALUES);
    const others = spawned.filter(({ attributes }) => attributes["gen_ai.agent.name"] === "_OTHER");
    expect(others.map(({ sum }) => sum)).toEqual([2 * MAX_VALUES + 1]);
    for (const metric of ["activeAgents", "pendingApprovals"] as const)
      expect(pointsOf(readings, metric).filter(({ sum }) => sum !== 0)).toEqual([]);
  });

  test("are combined with others for names that are too long", async () => {
    const run = new RunScript();
    const lead = run.root;
    const made = lead.child("x".repeat(2_000_000));
    run.started();
    lead.started();
    lead.spawns(undefined, made);
    made.lives();
    lead.ended();
    run.ended("completed", 1);
    const spawned = pointsOf(await readingsOf(run), "spawnedAgents");
    expect(spawned.map(({ attributes }) => attributes["gen_ai.agent.name"])).toEqual(["_OTHER"]);
    await flushEventLoop();
    expect(takeWarnings().length).toBeGreaterThan(0); // Spans warn of the attributes that were cut.
  });

  test("contain no name of an unknown tool, whatever the outcome of its call is", async () => {
    const run = new RunScript();
    const lead = run.root;
    run.started();
    lead.started();
    for (const [index, code] of (["unknown_tool", "blocked", "skipped"] as const).entries()) {
      const callId = `call_${index}`;
      lead.callsNobody(callId);
      lead.gets(callId, CANARY, { outcome: "refused", code });
    }
    lead.callsNobody("c");
    lead.ended("cancelled");
    run.ended("cancelled");
    const lines = linesOf(await readingsOf(run));
    expect(lines.join("\n")).not.toContain(CANARY);
    expect(lines.filter((line) => line.includes("unknown_tool"))).toHaveLength(2);
  });

  test("contain no text of users, models or tools", async () => {
    const lines = linesOf(await readingsOf(measuredTeam(), true)).concat(
      linesOf(await readingsOf(pausedRun())),
    );
    expect(lines.join("\n")).not.toContain(CANARY);
    expect(JSON.stringify(measuredTeam().drafts)).toContain(CANARY);
  });
});

function pendingOf(count: number): readonly string[] {
  return [`espalier.approvals.pending | agent.name=lead tool.name=pay | ${count}`];
}

function withoutModel(line: string): string {
  return line.replace(" provider.name=scripted", "").replace(" request.model=model-1", "");
}
