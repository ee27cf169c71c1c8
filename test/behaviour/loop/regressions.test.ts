// Goal: bugs found by a review stay fixed: charging one reservation twice, endless loops and
// waiting in the wrong order.
// Method: one small script for each, as it was first reproduced.

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { RunTree } from "../../../src/orchestrator/tree/run-tree.ts";
import { NO_PREFIX, createPendingState } from "../../../src/agent/agent-state.ts";
import { AgentRuntime } from "../../../src/agent/agent-runtime.ts";
import { BudgetLedger } from "../../../src/budget/ledger.ts";
import { AgentIdSchema, ExecutionIdSchema } from "../../../src/protocol/ids.ts";
import { bareRun } from "../../support/bare-run.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import {
  asks,
  says,
  ScriptedModel,
  type ScriptedReply,
} from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { texts } from "../../support/texts.ts";

function brokenAfter(lostOutputTokens: number): ScriptedReply {
  const error = new ModelError({
    code: "model_unavailable",
    message: "Cut.",
    retryAfterMs: 0,
    lostOutputTokens,
  });
  return { error };
}

proves(
  ["X1"],
  "a broken attempt is charged, and repeated only within the remaining budget",
  async () => {
    const options = { countTokens: (): number => 100 };
    const poor = soloist(
      Array.from({ length: 5 }, () => brokenAfter(900)),
      {},
      options,
    );
    const fixture = newFixture({ retryPolicy: { maxAttempts: 5 } });
    const spent = await fixture.run(poor.role, { budget: { totalTokens: 1_000 } });
    expect([spent.status, poor.model.requests.length, spent.usage.total.totalTokens]).toEqual([
      "stopped",
      1,
      1_000,
    ]);

    const rich = soloist([brokenAfter(50), says("done")], {}, options);
    const paid = await newFixture().run(rich.role, { budget: { totalTokens: 20_000 } });
    expect([paid.status, paid.usage.total.totalTokens, paid.usage.total.estimatedCalls]).toEqual([
      "completed",
      165,
      1,
    ]);
  },
);

proves(
  ["R9"],
  "a reply with text and a call runs the call, whatever its finish reason",
  async () => {
    const { role, model } = soloist(
      [{ ...asks("work", {}), text: "Let me see.", finishReason: "stop" }, says("done")],
      {
        tools: [spyTool("work")],
      },
    );
    const result = await newFixture().run(role);
    expect([result.status, result.text, model.requests.length]).toEqual(["completed", "done", 2]);
  },
);

proves(["R136"], "a parent receives the error code of a failed child", async () => {
  const child = defineAgent({
    name: "child",
    description: "Fails",
    instructions: "Fail.",
    model: new ScriptedModel([
      { error: new ModelError({ code: "model_invalid_request", message: "No." }) },
    ]),
  });
  const model = new ScriptedModel([
    asks("SpawnSubagent", { role: "child", task: "Try." }),
    says("Without it."),
  ]);
  const fixture = newFixture();
  const result = await fixture.run(
    defineAgent({ name: "lead", instructions: "Lead.", model, subagents: [child] }),
  );
  expect(result.agents[1]?.errors).toEqual([
    { code: "model_invalid_request", message: "No.", data: {} },
  ]);
  expect(model.requests[1]?.messages.at(-1)?.text).toContain('"error":"model_invalid_request"');
});

test("all siblings end with one slot and a budget that makes them wait", async () => {
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "Work.",
    model: new ScriptedModel(() => says("done")),
    maxOutputTokens: 2_000,
  });
  const calls = [1, 2, 3].map((part) => ({
    toolName: "SpawnSubagent",
    arguments: { role: "worker", task: `${part}` },
  }));
  const model = new ScriptedModel([{ calls }, says("all done")]);
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model,
    subagents: [worker],
    maxOutputTokens: 100,
  });
  const fixture = newFixture({ concurrency: { modelCalls: 1 } });
  const result = await fixture.run(lead, { budget: { totalTokens: 4_000 } });
  expect(result.agents.map((agent) => agent.status)).toEqual([
    "completed",
    "completed",
    "completed",
    "completed",
  ]);
});

test("a slot can be released only once", () => {
  const agentId = AgentIdSchema().parse("agent_1");
  const { role } = soloist([]);
  const ledger = new BudgetLedger(new ManualClock());
  ledger.open({ agentId, agentPath: "lead", limits: {} });
  const clock = new ManualClock();
  const node = new AgentRuntime(
    bareRun(role, clock),
    undefined,
    { role, task: "Lead.", metadata: {}, agentPath: "lead" },
    {
      agentId,
      executionId: ExecutionIdSchema().parse("execution_1"),
      model: role.model,
      state: createPendingState({ messages: [], prefix: NO_PREFIX }),
      account: ledger.getAccount(agentId),
    },
  );
  const tree = new RunTree({ maxDepth: 1, maxBreadthPerParent: 1, maxTotalSubagents: 1 });
  tree.admit(node, "child");
  tree.undoAdmission(node);
  expect(() => tree.undoAdmission(node)).toThrow("T3");
});

test("text beyond ASCII is not undercounted", async () => {
  const { role, model } = soloist(
    [says("never")],
    { instructions: "漢".repeat(3_000) },
    { countTokens: null },
  );
  const result = await newFixture().run(role, { budget: { inputTokens: 2_900 } });
  expect([result.reason.code, model.requests.length]).toEqual(["token_limit", 0]);
});

proves(["R17"], "a run cancelled during iteration yields its last state", async () => {
  const fixture = newFixture();
  const run = fixture.start(
    soloist([asks("work", {}), says("done")], { tools: [spyTool("work")] }).role,
  );
  const phases: string[] = [];
  for await (const { phase } of run.iterate()) {
    phases.push(phase);
    if (phase === "infer") void run.cancel();
  }
  expect(phases.at(-1)).toBe("ended");
  expect((await fixture.outcome(run)).status).toBe("cancelled");
});

test("a deadline ends a run whose iteration the caller has abandoned", async () => {
  const fixture = newFixture();
  const run = fixture.start(soloist([says("done")]).role, "Do it.", { budget: { timeMs: 10 } });
  const forgotten = run.iterate();
  await forgotten.next();
  fixture.clock.advance(10);
  expect((await fixture.outcome(run)).reason.code).toBe("time_limit");
});

test("a run cancelled before its iteration ends at once", async () => {
  const fixture = newFixture();
  const run = fixture.start(soloist([says("never")]).role);
  const cancelled = run.cancel();
  const phases: string[] = [];
  for await (const { phase } of run.iterate()) phases.push(phase);
  expect([(await cancelled).status, phases]).toEqual(["cancelled", ["ended"]]);
});

test("an unused reservation is released with an event", async () => {
  const fixture = newFixture();
  const run = fixture.start(soloist([says("never")]).role);
  for await (const { phase } of run.iterate()) if (phase === "prepare") run.requestStop();
  await fixture.outcome(run);
  expect(
    fixture.sink.events.map((event) => event.type).filter((type) => type.startsWith("budget")),
  ).toEqual(["budget.reserved", "budget.released"]);
});

test("text of a failed attempt does not reach the listener of the next attempt", async () => {
  const late = latch();
  const pieces: string[] = [];
  let attempt = 0;
  const model = new ScriptedModel(() => says("real"));
  const haunted = {
    provider: "own",
    id: "own",
    generate: (...[request, options]: Parameters<ScriptedModel["generate"]>) => {
      attempt += 1;
      if (attempt > 1) return late.opened.then(() => model.generate(request, options));
      void late.opened.then(() => options.onDelta?.({ type: "text", text: "GHOST" }));
      return Promise.reject(
        new ModelError({ code: "model_unavailable", message: "Gone.", retryAfterMs: 0 }),
      );
    },
  };
  const fixture = newFixture();
  const role = defineAgent({ name: "solo", instructions: "Work.", model: haunted });
  const run = fixture.start(role, "Do it.", {
    onStreamPart: texts((text) => void pieces.push(text)),
  });
  await flushEventLoop();
  late.open();
  await fixture.outcome(run);
  expect(pieces).toEqual(["real"]);
});
