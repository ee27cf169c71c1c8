// Goal: a model may write a role when it delegates, if its own role permits it, and only within the
// bounds.
// Method: real runs with scripted models; the tools and the budget of the new agent compared in
// full.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import type { DynamicRoleBounds } from "../../../src/agent/dynamic-role-bounds.ts";
import { approve } from "../../../src/protocol/question.ts";
import { says, ScriptedModel, type ScriptedCall } from "../../../src/testing/scripted-model.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, receivedTexts, tool, use } from "../../harness/scripted-agents.ts";

function draft(role: string, newRole: object, task = "Work."): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { role, task, newRole } };
}

const READ = tool("read", () => "read");
const SEARCH = tool("search", () => "found");
const WIPE = tool("wipe", () => "wiped");

function setUp(
  script: ConstructorParameters<typeof ScriptedModel>[0],
  more: Partial<DynamicRoleBounds> = {},
) {
  const fast = new ScriptedModel(() => says("Fast."), { id: "fast-model" });
  const strong = new ScriptedModel(() => says("Strong."), { id: "strong-model" });
  const dynamicRoles = {
    tools: [READ, SEARCH],
    models: { fast, strong },
    budget: { steps: 3, totalTokens: 1_000 },
    ...more,
  };
  const lead = part("lead", script, { tools: [WIPE], dynamicRoles });
  return { lead, fast, strong };
}

describe("a role that is written at spawn", () => {
  proves(["X27"], "receives the intersection of its request and the bounds", async () => {
    const { lead, strong } = setUp([
      calls(
        draft("critic", {
          instructions: "You find faults.",
          tools: ["read", "wipe", "SpawnSubagent"],
          model: "strong",
          steps: 50,
        }),
      ),
      says("Done."),
    ]);
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(result.agents.map(({ agentPath, role, model }) => [agentPath, role, model])).toEqual([
      ["lead", "lead", "lead-model"],
      ["lead/critic#1", "critic", "strong-model"],
    ]);
    const [request] = strong.requests;
    expect(request?.messages.map(({ role, text }) => [role, text]).slice(0, 1)).toEqual([
      ["system", "You find faults."],
    ]);
    expect(request?.tools.map(({ name }) => name)).toEqual(["read"]);
    expect(result.accounts[1]?.limits).toEqual({ steps: 3, totalTokens: 1_000 });
    expect(s.sink.ofType("subagent.spawned")[0]?.inherited.removedTools).toEqual([
      { toolName: "wipe", rule: "not_allowed", source: "lead" },
      { toolName: "SpawnSubagent", rule: "not_allowed", source: "lead" },
    ]);
  });

  proves(["X27"], "is refused without permission", async () => {
    const helper = part("helper", [says("Helped.")]);
    const write = defineDelegation({
      name: "write",
      description: "Starts a subagent of a new role.",
      inputSchema: z.object({}),
      execute: (_input, { spawn }) =>
        spawn({
          role: "critic",
          task: "Work.",
          roleDefinition: { instructions: "You find faults." },
        }),
    });
    const lead = part("lead", [calls(use("write")), says("Done.")], {
      subagents: [helper.role],
      tools: [write],
    });
    const result = await newFixture().run(lead.role);
    expect([result.status, result.refusalsByCode]).toEqual(["completed", { forbidden_role: 1 }]);
    expect(receivedTexts(lead.model.requests[1])).toEqual([
      "Not started: you may not define roles. You can start: helper. Call again with one of these.",
    ]);
    expect(
      lead.model.requests[0]?.tools.find(({ name }) => name === "SpawnSubagent")?.inputSchema,
    ).not.toHaveProperty("properties.newRole");
  });

  test("receives all tools of the bounds, the first model and the budget by default", async () => {
    const { lead, fast } = setUp([
      calls(draft("helper", { instructions: "Help." })),
      says("Done."),
    ]);
    const result = await newFixture().run(lead.role);
    expect(fast.requests[0]?.tools.map(({ name }) => name)).toEqual(["read", "search"]);
    expect([result.agents[1]?.model, result.accounts[1]?.limits.steps]).toEqual(["fast-model", 3]);
  });

  test("may request fewer tools and less budget", async () => {
    const { lead, fast } = setUp([
      calls(draft("helper", { instructions: "Help.", tools: [], steps: 1 })),
      says("Done."),
    ]);
    const result = await newFixture().run(lead.role);
    expect(fast.requests[0]?.tools).toEqual([]);
    expect(result.accounts[1]?.limits).toEqual({ steps: 1, totalTokens: 1_000 });
  });

  test("is refused with advice to the model if its name or its model is invalid", async () => {
    const { lead } = setUp([
      calls(
        draft("helper", { instructions: "Help.", model: "huge" }),
        draft("lead", { instructions: "Lead." }),
        draft("a/b", { instructions: "Help." }),
      ),
      says("Done."),
    ]);
    const result = await newFixture().run(lead.role);
    expect(result.refusalsByCode).toEqual({ invalid_role: 3 });
    expect(receivedTexts(lead.model.requests[1])).toEqual([
      'Not started: there is no model "huge". Choose one of: fast, strong.',
      'Not started: there is a role "lead" already. Give yours another name, or start that one.',
      expect.stringContaining("letters, digits, _ and -"),
    ]);
  });

  test("is restored after a pause, within the bounds of the resuming process", async () => {
    const asking = new ScriptedModel([calls(use("read")), says("Read.")], { id: "fast-model" });
    const { lead } = setUp(
      [calls(draft("helper", { instructions: "Help.", tools: ["read"] })), says("Done.")],
      {
        models: { fast: asking },
      },
    );
    const s = newFixture({
      guards: [toolGuard(() => ({ type: "ask", reason: "It reads." }), { tools: ["read"] })],
    });
    const paused = await s.run(lead.role);
    const [question] = paused.questions;
    if (question === undefined) throw new Error("asked");
    const narrower = { ...lead.role, dynamicRoles: undefined };
    expect(thrownBy(() => s.resume(narrower, paused.pausedRun, [approve(question)])).message).toBe(
      'Expected a role named "helper" for lead/helper#1, got an unusable one: Not started: you may not define roles. You can start none: do this part yourself.. Resume with the roles that the run was started with.',
    );
    const result = await s.outcome(s.resume(lead.role, paused.pausedRun, [approve(question)]));
    expect(result.agents.map(({ agentPath, status, text }) => [agentPath, status, text])).toEqual([
      ["lead", "completed", "Done."],
      ["lead/helper#1", "completed", "Read."],
    ]);
  });

  test("requires a price for every model of the bounds if there is a cost limit", () => {
    const { lead } = setUp([]);
    const error = thrownBy(() =>
      newFixture().start(lead.role, "Do it.", { budget: { costUsd: 1 } }),
    );
    expect(error.code).toBe("price_unknown");
  });
});

describe("the bounds of dynamic roles", () => {
  test("throw if they are invalid", () => {
    const attempts = [
      () => setUp([], { models: {} }),
      () => setUp([], { tools: [READ, READ] }),
      () => setUp([], { budget: { steps: -1 } }),
    ];
    expect(attempts.map((attempt) => thrownBy(attempt).code)).toEqual([
      "invalid_argument",
      "duplicate_tool",
      "invalid_argument",
    ]);
  });
});

describe("an agent with a written role", () => {
  proves(
    ["X27"],
    "is bound by the budget of the bounds and by its parent's remaining budget",
    async () => {
      const fast = new ScriptedModel(() => ({ calls: [{ toolName: "read", arguments: {} }] }), {
        id: "fast-model",
      });
      const { lead } = setUp(
        [calls(draft("helper", { instructions: "Help.", steps: 99 })), says("Done.")],
        { models: { fast }, budget: { steps: 50 } },
      );
      const s = newFixture();
      const result = await s.run(lead.role, { budget: { steps: 4 } });
      expect([result.agents[1]?.steps.length, fast.requests.length]).toEqual([3, 3]);
      expect(s.sink.ofType("subagent.spawned")[0]?.inherited.tightened).toEqual([
        { field: "budget.steps", requested: 50, granted: 3, source: "lead" },
      ]);
    },
  );

  test("has no `SpawnSubagent` tool, so it neither starts subagents nor writes roles", async () => {
    const fast = new ScriptedModel(
      [{ calls: [draft("another", { instructions: "Help." })] }, says("Fast.")],
      { id: "fast-model", allowUnknownTools: true },
    );
    const { lead } = setUp([calls(draft("helper", { instructions: "Help." })), says("Done.")], {
      models: { fast },
    });
    const result = await newFixture().run(lead.role);
    expect([
      result.agents.length,
      fast.requests[0]?.tools.map(({ name }) => name),
      result.status,
    ]).toEqual([2, ["read", "search"], "completed"]);
  });

  proves(
    ["X27", "X10"],
    "continues across a pause in a fresh orchestrator with the written role",
    async () => {
      const asking = new ScriptedModel([says("Once."), calls(use("read")), says("Twice.")], {
        id: "fast-model",
      });
      const { lead } = setUp(
        [
          calls(draft("helper", { instructions: "You help.", tools: ["read"] })),
          calls({
            toolName: "SpawnSubagent",
            arguments: { role: "helper", task: "More.", continue: "helper#1" },
          }),
          says("Done."),
        ],
        { models: { fast: asking } },
      );
      const s = newFixture({
        guards: [toolGuard(() => ({ type: "ask", reason: "It reads." }), { tools: ["read"] })],
      });
      const paused = await s.run(lead.role);
      const [question] = paused.questions;
      if (question === undefined) throw new Error("asked");
      const result = await s.outcome(s.resume(lead.role, paused.pausedRun, [approve(question)]));
      expect([result.status, result.agents[1]?.executionCount, result.agents[1]?.text]).toEqual([
        "completed",
        2,
        "Twice.",
      ]);
      expect(asking.requests.at(-1)?.messages[0]?.text).toBe("You help.");
      expect(asking.requests.map(({ tools }) => tools.map(({ name }) => name))).toEqual([
        ["read"],
        ["read"],
        ["read"],
      ]);
    },
  );

  test("continues with its instructions in a fork", async () => {
    const { lead, fast } = setUp([
      calls(draft("helper", { instructions: "You help." })),
      says("Original."),
      calls({
        toolName: "SpawnSubagent",
        arguments: { role: "helper", task: "More.", continue: "helper#1" },
      }),
      says("Forked."),
    ]);
    const s = newFixture();
    const run = s.start(lead.role);
    await s.outcome(run);
    const forked = await s.outcome(s.fork(lead.role, run.snapshot(), { atStep: 1 }));
    expect([forked.text, fast.requests.length, fast.requests[1]?.messages[0]?.text]).toEqual([
      "Forked.",
      2,
      "You help.",
    ]);
  });

  test("receives the next number and its own instructions if its name is reused", async () => {
    const { lead, fast } = setUp([
      calls(
        draft("helper", { instructions: "First." }),
        draft("helper", { instructions: "Second." }),
      ),
      says("Done."),
    ]);
    const result = await newFixture().run(lead.role);
    expect(result.agents.map(({ agentPath }) => agentPath)).toEqual([
      "lead",
      "lead/helper#1",
      "lead/helper#2",
    ]);
    expect(fast.requests.map(({ messages }) => String(messages[0]?.text)).toSorted()).toEqual([
      "First.",
      "Second.",
    ]);
  });

  test("runs in the background within the denials of its ancestors", async () => {
    const fast = new ScriptedModel(() => says("Fast."), { id: "fast-model" });
    const lead = part(
      "lead",
      [
        calls({
          toolName: "SpawnSubagent",
          arguments: {
            role: "helper",
            task: "Work.",
            background: true,
            newRole: { instructions: "Help." },
          },
        }),
        says("Early."),
        says("Late."),
      ],
      {
        dynamicRoles: { tools: [READ, SEARCH], models: { fast } },
        delegation: { background: true },
        contextPolicy: { deniedTools: ["search"] },
      },
    );
    const result = await newFixture().run(lead.role);
    expect([result.status, fast.requests[0]?.tools.map(({ name }) => name)]).toEqual([
      "completed",
      ["read"],
    ]);
  });
});
