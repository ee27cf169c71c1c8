// Bugs found by review of the tools; each test reproduces one bug.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import { approve } from "../../../src/protocol/question.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import { toolFilter, type ToolFilter } from "../../../src/tools/tool-filter.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

const long = () =>
  spyTool("long", () => "x".repeat(99), { maxResultCharacters: 10, longResultPolicy: "summarize" });

test("fails only its own agent if a filter returns a promise that rejects", async () => {
  const { role } = soloist([says("never")], {
    tools: [spyTool("look")],
    toolFilters: [toolFilter(rejecting(), { name: "later" })],
  });
  const { agents } = await newFixture().run(role);
  expect(agents[0]?.errors.map(({ code }) => code)).toEqual(["tool_filter_failed"]);
});

/** Calls that a program in plain JavaScript may make. */
function rejecting(): ToolFilter["check"] {
  const check: unknown = reject;
  if (isCheck(check)) return check;
  throw new Error("A function is one.");
}

function reject(): unknown {
  return Promise.reject(new Error("no"));
}

function isCheck(value: unknown): value is ToolFilter["check"] {
  return typeof value === "function";
}

test("ends a paused child with its parent if a hook for its sibling throws", async () => {
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const kid = defineAgent({
    name: "kid",
    description: "Pays.",
    instructions: "Pay.",
    model: new ScriptedModel([asks("pay", {}), says("paid")]),
    tools: [pay],
  });
  const both = defineDelegation({
    name: "both",
    description: "Starts two.",
    inputSchema: z.object({}),
    execute: async (_input, context) => {
      const first = context.spawn({ role: "kid", task: "one" });
      await context.spawn({ role: "kid", task: "two" }).catch(() => undefined);
      return await first;
    },
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([asks("both", {}), says("done")]),
    subagents: [kid],
    tools: [both],
    hooks: [
      transform("subagentStart", ({ task }) => {
        if (task === "two") throw new Error("broken");
      }),
    ],
  });
  const { agents } = await newFixture().run(lead); // Checks spawns and parents.
  expect(agents.map(({ status }) => status)).toEqual(["failed", "cancelled"]);
});

test("does not evaluate an approved call of before the pause again because of a later batch", async () => {
  const log: string[] = [];
  const make = (): AgentRole => {
    const usage = { inputTokens: 10, outputTokens: 20 };
    const kid = defineAgent({
      name: "kid",
      description: "Helps.",
      instructions: "Help.",
      model: new ScriptedModel([says("helped", { usage })]),
      maxOutputTokens: 20,
    });
    const calls = [
      { toolName: "pay", arguments: {} },
      { toolName: "SpawnSubagent", arguments: { role: "kid", task: "help" } },
      { toolName: "alone", arguments: {} },
    ];
    return defineAgent({
      name: "lead",
      instructions: "Lead.",
      model: new ScriptedModel([{ calls }]),
      maxOutputTokens: 20,
      subagents: [kid],
      tools: [
        spyTool("pay", () => void log.push("pay"), { needsApproval: true }),
        spyTool("alone", () => void log.push("alone"), { sequential: true }),
      ],
      budget: { totalTokens: 45 },
    });
  };
  const direct = await newFixture({ approver: (question) => approve(question) }).run(make());
  const logs = [log.splice(0)];
  const fixture = newFixture();
  const paused = await fixture.run(make());
  const answers = paused.questions.map((question) => approve(question));
  const resumed = await fixture.outcome(fixture.resume(make(), paused.pausedRun, answers));
  logs.push(log);
  expect([direct.reason.code, resumed.reason.code, logs]).toEqual([
    "token_limit",
    "token_limit",
    [
      ["pay", "alone"],
      ["pay", "alone"],
    ],
  ]);
});

test("does not summarise a denial with a model call", async () => {
  const { role, model } = soloist([asks("long", {}), says("brief"), says("done")], {
    tools: [long()],
    guards: [toolGuard(() => ({ type: "deny", reason: "Never on a Sunday." }))],
  });
  const { steps } = await newFixture().run(role);
  const text = steps[0]?.tools.executions[0]?.text ?? "";
  expect([model.requests.length, text.includes("brief")]).toEqual([2, false]);
});

test("summarises nothing for an agent that fails", async () => {
  const bad = spyTool("bad", () => {
    throw new ToolError("over", { severity: "abortive" });
  });
  const calls = [
    { toolName: "long", arguments: {} },
    { toolName: "bad", arguments: {} },
  ];
  const { role, model } = soloist([{ calls }, says("brief")], { tools: [long(), bad] });
  const { status } = await newFixture().run(role);
  expect([status, model.requests.length]).toEqual(["failed", 1]);
});

function part(name: string, model: ScriptedModel): AgentRole {
  const tools = [long()];
  return defineAgent({
    name,
    description: name,
    instructions: name,
    model,
    tools,
    maxOutputTokens: 10,
  });
}

test("counts a summary's wait for the budget as waiting time", async () => {
  const held = latch();
  const counting = {
    countTokens: ({ tools }: { tools: readonly unknown[] }) => (tools.length > 0 ? 10 : 100),
  };
  const one = part(
    "one",
    new ScriptedModel([asks("long", {}), says("brief"), says("one")], counting),
  );
  const two = part(
    "two",
    new ScriptedModel([says("two", { after: held.opened })], { countTokens: () => 30 }),
  );
  const calls = ["two", "one"].map((role) => ({
    toolName: "SpawnSubagent",
    arguments: { role, task: "work" },
  }));
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    subagents: [one, two],
    model: new ScriptedModel([{ calls }, says("end")]),
    maxOutputTokens: 10,
    budget: { totalTokens: 160 },
  });
  const fixture = newFixture();
  const run = fixture.start(lead);
  await flushEventLoop();
  fixture.clock.advance(1_000);
  held.open();
  const { agents } = await fixture.outcome(run);
  const waits = fixture.sink.ofType("budget.reserved").filter(({ callId }) => callId !== null);
  const waited = agents.find(({ role }) => role === "one")?.budgetWaitMs;
  expect([waits.map(({ waitedMs }) => waitedMs), waited]).toEqual([[1_000], 1_000]);
});

test("handles an error whose severity changes when it is read like any other error", async () => {
  const outcomes = [];
  for (const changesAt of [1, 2, 3, 4, 5, 6]) {
    let looks = 0;
    const error = Object.defineProperty(new ToolError("odd"), "severity", {
      get: () => (looks++ < changesAt ? "recoverable" : "bogus"),
    });
    const tool = spyTool("look", () => {
      throw error;
    });
    const { role } = soloist([asks("look", {}), says("done")], { tools: [tool] });
    outcomes.push((await newFixture().run(role)).status);
  }
  expect(outcomes).toEqual(Array.from({ length: 6 }, () => "completed"));
});
