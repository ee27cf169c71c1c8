// Goal: the report of a run is complete, and its numbers add up.
// Method: whole reports of small runs.

import { expect, test } from "vitest";

import { formatRunReport } from "../../src/terminal/report.ts";
import { defineAgent, type StartOptions, type Usage } from "../../src/index.ts";
import { asks, says, ScriptedModel } from "../../src/testing/index.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { TASK, newTreeFixture } from "../support/terminal/tree-fixture.ts";

test("reports the tree, the budget, the usage, the refusals and the trace", async () => {
  const { lead, docs, code } = newTreeFixture();
  const fixture = newFixture();
  const budget = {
    totalTokens: 100_000,
    costUsd: 100,
    steps: 20,
    toolCalls: 10,
    timeMs: 60_000,
  };
  const run = fixture.start(lead, TASK, { budget });
  docs.open();
  code.open();
  const result = await fixture.outcome(run);

  expect(shown(formatRunReport({ ...result, traceId: TRACE_ID }))).toMatchInlineSnapshot(`
    "
    Tree
    agent            state        step  own tok  tree tok  own cost  tree cost  time  task
    lead             ✔ completed     2       30        75   $0.0600    $0.0690   0ms  1 spawn refused ·…
    ├─ researcher#1  ✔ completed     1       15        15   $0.0030    $0.0030   0ms  Read the docs.
    └─ researcher#2  ✔ completed     2       30        30   $0.0060    $0.0060   0ms  Read the code.

    Calls that failed
    lead/researcher#2 · step 1 · compile (tool_error): compile failed: no compiler

    Budget of the run
    axis          limit    spent    left
    tokens      100,000       75  99,925
    cost        $100.00  $0.0690  $99.93
    steps            20        5      15
    tool calls       10        4       6
    time         1m 00s      0ms  1m 00s

    Usage by role
    role        model calls  tool calls  input  cached  output     cost
    lead                  2           3     20       0      10  $0.0600
    researcher            3           1     30       0      15  $0.0090

    Usage by model
    model  model calls  tool calls  input  cached  output     cost
    large            2           3     20       0      10  $0.0600
    small            3           1     30       0      15  $0.0090

    ✔ completed in 0ms
    3 agents, deepest at depth 1, 1 spawn refused (unknown_role 1)
    Trace id 0af7651916cd43dd8448eb211c80319c
    "
  `);
});

proves(["D729"], "counts all executions of a resumed run in the time row", async () => {
  const fixture = newFixture();
  const worksFor = (ms: number) => () => {
    fixture.clock.advance(ms);
    return { calls: [{ toolName: "nothing", arguments: {} }] };
  };
  const model = new ScriptedModel(
    [
      worksFor(60_000),
      () => (fixture.clock.advance(10_000), says("Done.")),
      worksFor(60_000),
      () => (fixture.clock.advance(10_000), says("Done.")),
    ],
    { allowUnknownTools: true },
  );
  const lead = defineAgent({ name: "lead", instructions: "Lead.", model });
  const timeRow = async (options: StartOptions): Promise<string | undefined> => {
    const budget = { steps: 1, ...options.budget };
    const run = fixture.start(lead, TASK, { ...options, budget });
    await fixture.outcome(run);
    fixture.clock.advance(3_600_000);
    const more = [{ budget: { steps: 5 }, by: "Ada" }];
    const result = await fixture.outcome(fixture.grantOn(lead, run.snapshot(), more));
    const [row] = formatRunReport(result).match(/^time .*$/mu) ?? [];
    return row?.replaceAll(/ {2,}/gu, " | ");
  };
  expect(await timeRow({ budget: { timeMs: 100_000 } })).toBe("time | 1m 40s | 1m 10s | 30.0s");
  const deadlineAtMs = fixture.clock.nowMs() + 7_200_000;
  expect(await timeRow({ deadlineAtMs })).toBe("time | 2h 00m | 1h 01m | 58m 50s");
});

test("reports the limit that stopped a run, and that a run had no limits", async () => {
  const fixture = newFixture();
  const model = new ScriptedModel([{ calls: [{ toolName: "nothing", arguments: {} }] }], {
    allowUnknownTools: true,
  });
  const role = defineAgent({ name: "lead", instructions: "Lead.", model, budget: { steps: 1 } });
  const stopped = await fixture.run(role);
  expect(shown(formatRunReport({ ...stopped, traceId: TRACE_ID }, { width: 80 })))
    .toMatchInlineSnapshot(`
      "
      Tree
      agent  state         step  own tok  tree tok  tree cost  task
      lead   ■ step_limit     1       15        15    unknown  Do it. · The steps bud…

      Calls that failed
      lead · step 1 · nothing (unknown_tool): There is no tool named "nothing". You
      have no tools; answer in text.

      Budget of the run
      axis   limit  spent  left
      steps      1      1     0

      Usage by role
      role  model calls  tool calls  input  cached  output     cost
      lead            1           0     10       0       5  unknown

      Usage by model
      model     model calls  tool calls  input  cached  output     cost
      scripted            1           0     10       0       5  unknown

      ■ stopped in 0ms: The steps budget of lead allows 1; 1 is spent and 1 more was requested.
      1 agent, deepest at depth 0, no spawn refused
      Trace id 0af7651916cd43dd8448eb211c80319c
      "
    `);

  const free = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([says("Done.")]),
  });
  const completed = await newFixture().run(free);
  expect(formatRunReport(completed)).toContain("Budget of the run\nno limits\n");
});

test("shows the task of a stopped subagent and its whole reason", async () => {
  const reader = defineAgent({
    name: "reader",
    description: "Reads.",
    instructions: "Read.",
    model: new ScriptedModel([asks("nothing", {})], { allowUnknownTools: true }),
    budget: { steps: 1 },
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([
      asks("SpawnSubagent", { role: "reader", task: "Read all." }),
      says("Done."),
    ]),
    subagents: [reader],
  });
  const result = await newFixture().run(lead);
  const report = formatRunReport(result, { width: 60 });
  expect(report).toContain(
    [
      "Agents that did not complete",
      "lead/reader#1 · stopped (step_limit): The steps budget of",
      "lead/reader#1 allows 1; 1 is spent and 1 more was requested.",
    ].join("\n"),
  );
  const wide = formatRunReport(result, { width: 200 });
  expect(wide).toContain(
    "Read all. · The steps budget of lead/reader#1 allows 1; 1 is spent and 1 more was requested.",
  );
});

const FAILED = { code: "error", message: "It failed.", data: {} } as const;

test("links to the trace and to the failures if an address of Jaeger is given", async () => {
  const model = new ScriptedModel([says("Done.")]);
  const lead = defineAgent({ name: "lead", instructions: "Lead.", model });
  const completed = { ...(await newFixture().start(lead).orThrow()), traceId: TRACE_ID };
  const at = { jaegerUrl: "http://localhost:16686", width: 40 };
  expect(formatRunReport(completed, at).split("\n").slice(-2)).toEqual([
    `Trace id ${TRACE_ID}`,
    `Trace    http://localhost:16686/trace/${TRACE_ID}`,
  ]);
  expect(
    formatRunReport({ ...completed, status: "failed", reason: FAILED }, at)
      .split("\n")
      .slice(-2),
  ).toEqual([
    `Trace    http://localhost:16686/trace/${TRACE_ID}`,
    `Failures http://localhost:16686/trace/${TRACE_ID}?uiFind=error%3Dtrue%20status%3Derror`,
  ]);
  expect(() => formatRunReport(completed, { jaegerUrl: "jaeger" })).toThrow(
    expect.objectContaining({ code: "invalid_argument" }),
  );
});

proves(["R57"], "never shows an unknown price as zero", async () => {
  const model = new ScriptedModel([says("Done.")], { id: "unpriced" });
  const result = await newFixture().run(
    defineAgent({ name: "lead", instructions: "Lead.", model }),
  );
  const report = formatRunReport(result);

  expect(report.match(/unknown/g)).toHaveLength(4);
  expect(report).not.toContain("$");
});

proves(["S7.33"], "shows bounds for a limited cost that is partly unknown", async () => {
  const price = { inputUsdPerMillion: 10_000, outputUsdPerMillion: 10_000 };
  const model = new ScriptedModel([says("Done.")], { id: "priced", price });
  const role = defineAgent({ name: "lead", instructions: "Lead.", model });
  const result = await newFixture().run(role, { budget: { costUsd: 1 } });
  const { usage } = result;
  const budgetOf = (more: Partial<Usage>): string | undefined =>
    formatRunReport({ ...result, usage: { ...usage, total: { ...usage.total, ...more } } })
      .split("\n")
      .find((line) => line.startsWith("cost "));
  expect([
    budgetOf({}),
    budgetOf({ unpricedCalls: 1 }),
    budgetOf({ costUsd: 0, unpricedCalls: 1 }),
  ]).toEqual([
    "cost  $1.00  $0.1500  $0.8500",
    "cost  $1.00  ≥$0.1500  ≤$0.8500",
    "cost  $1.00  unknown  ≤$1.00",
  ]);
});

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";

function shown(report: string): string {
  return `\n${report}\n`;
}
