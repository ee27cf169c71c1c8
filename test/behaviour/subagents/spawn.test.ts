// Goal: a delegation is one call and one result for the parent, and a complete execution for the
// child.
// Method: real runs with scripted models; requests, results and golden trees compared in full.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { ModelError } from "../../../src/model/model-error.ts";
import { formatEventTree } from "../../../src/testing/event-tree.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  byTask,
  calls,
  part,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

describe("starting a subagent", () => {
  proves(
    ["R126"],
    "offers roles by name, and lists the names if the model uses an unknown one",
    async () => {
      const finder = part("finder", [says("Found.")]);
      const writer = part("writer", [says("Written.")]);
      const script = [
        calls(spawn("finder", "Find.")),
        calls(spawn("nobody", "Hide.")),
        says("Done."),
      ];
      const lead = part("lead", script, { subagents: [finder.role, writer.role] });
      const s = newFixture();
      const result = await s.run(lead.role);

      expect(lead.model.requests[0]?.tools).toEqual([
        {
          name: "SpawnSubagent",
          description: [
            "Delegates a part of your task to a subagent and returns its result.",
            "Call it several times in one reply to let subagents work in parallel.",
            "Subagents:",
            "- finder: Works as finder.",
            "- writer: Works as writer.",
          ].join("\n"),
          inputSchema: {
            type: "object",
            properties: {
              role: {
                type: "string",
                description: "Which subagent to start. Not needed with continue.",
                enum: ["finder", "writer"],
              },
              task: {
                type: "string",
                description:
                  "The task of the subagent. Make it self-contained: the subagent sees nothing of your conversation unless configured.",
                minLength: 1,
              },
              continue: {
                type: "string",
                description:
                  "Name of an ended subagent to continue with its history. Leave it out or empty to start a new one.",
              },
              includeResultsFrom: {
                type: "array",
                description:
                  "Names of ended subagents whose results the subagent receives word for word.",
                items: { type: "string", minLength: 1 },
              },
            },
            required: ["task"],
          },
        },
      ]);
      expect(receivedTexts(lead.model.requests[2])).toEqual([
        'Not started: there is no subagent "nobody". You can start: finder, writer. Call again with one of these.',
      ]);
      expect(result.refusalsByCode).toEqual({ unknown_role: 1 });
      expect(writer.model.requests).toEqual([]);
      expect(formatEventTree(s.sink.events)).toBe(
        [
          "lead completed (completed) 3 steps, 45 of 60 tokens",
          "├─ step 1 asked for 1",
          "│  └─ SpawnSubagent succeeded",
          "│     └─ lead/finder#1 completed (completed) 1 steps, 15 of 15 tokens",
          "│        └─ step 1 answered",
          "├─ step 2 asked for 1",
          "│  └─ SpawnSubagent refused (unknown_role)",
          "└─ step 3 answered",
        ].join("\n"),
      );
    },
  );

  test("is refused for invalid arguments, which are returned to the model", async () => {
    const helper = part("helper", []);
    const script = [
      calls(
        { toolName: "SpawnSubagent", arguments: { role: "helper" } },
        { toolName: "SpawnSubagent", arguments: { role: "helper", task: "" } },
        { toolName: "SpawnSubagent", arguments: '{"role":' },
      ),
      says("I see."),
    ];
    const lead = part("lead", script, { subagents: [helper.role] });
    const result = await newFixture().run(lead.role);
    expect(result.subagentsByDepth).toEqual({});
    expect(
      result.steps[0]?.tools.executions.map(({ type, errorCode }) => [type, errorCode]),
    ).toEqual([
      ["retry", "invalid_arguments"],
      ["retry", "invalid_arguments"],
      ["retry", "invalid_json"],
    ]);
    expect(helper.model.requests).toEqual([]);
  });

  test("may happen twice for one role in one reply, and the two agents do not mix", async () => {
    const read = tool("read", ({ agentPath }) => `read by ${agentPath}`);
    const script = byTask({ A: [calls(use("read")), says("A done.")], B: [says("B done.")] });
    const reader = part("reader", script, { tools: [read] });
    const both = calls(spawn("reader", "A"), spawn("reader", "B"));
    const lead = part("lead", [both, says("Both.")], { subagents: [reader.role] });
    const s = newFixture();
    await s.run(lead.role);
    expect(formatEventTree(s.sink.events)).toBe(
      [
        "lead completed (completed) 2 steps, 30 of 75 tokens",
        "├─ step 1 asked for 2",
        "│  ├─ SpawnSubagent succeeded",
        "│  │  └─ lead/reader#1 completed (completed) 2 steps, 30 of 30 tokens",
        "│  │     ├─ step 1 asked for 1",
        "│  │     │  └─ read succeeded",
        "│  │     └─ step 2 answered",
        "│  └─ SpawnSubagent succeeded",
        "│     └─ lead/reader#2 completed (completed) 1 steps, 15 of 15 tokens",
        "│        └─ step 1 answered",
        "└─ step 2 answered",
      ].join("\n"),
    );
    const answers = reader.model.requests.map((request) => receivedTexts(request).at(-1));
    expect(answers).toEqual(["A", "B", "read by lead/reader#1"]);
  });

  test("returns results in call order if the children end in reverse", async () => {
    const latches = [latch(), latch(), latch()];
    const replies = latches.map(({ opened }, index) => {
      return [`${index}`, [says(`Result ${index}.`, { after: opened })]] as const;
    });
    const script = byTask(Object.fromEntries(replies));
    const helper = part("helper", script);
    const three = calls(spawn("helper", "0"), spawn("helper", "1"), spawn("helper", "2"));
    const lead = part("lead", [three, says("Done.")], { subagents: [helper.role] });
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => helper.model.requests.length === 3);
    const ended = (): readonly string[] =>
      s.sink.ofType("subagent.ended").map((event) => event.childPath);
    for (const [index, one] of latches.toReversed().entries()) {
      one.open();
      await until(() => ended().length === index + 1);
    }
    await s.outcome(run);
    expect(ended()).toEqual(["lead/helper#3", "lead/helper#2", "lead/helper#1"]);
    const texts = receivedTexts(lead.model.requests[1]).map((text): unknown => JSON.parse(text));
    expect(texts).toEqual(
      [0, 1, 2].map((index) => ({
        subagent: `helper#${index + 1}`,
        outcome: "completed",
        text: `Result ${index}.`,
        steps: 1,
        totalTokens: 15,
      })),
    );
  });
});

describe("the result of a subagent", () => {
  proves(["R135"], "reports steps, tools and usage of the subagent", async () => {
    const helper = part("helper", [calls(use("look")), says("Seen.")], {
      tools: [tool("look", () => "x")],
    });
    const lead = part("lead", [calls(spawn("helper", "Look.")), says("Done.")], {
      subagents: [helper.role],
      contextPolicy: { inheritMetadata: true },
    });
    const result = await newFixture().run(lead.role, { metadata: { repository: "r" } });
    const used = {
      modelCalls: 2,
      steps: 2,
      toolCalls: 1,
      inputTokens: 20,
      cachedInputTokens: 0,
      outputTokens: 10,
      reasoningTokens: 0,
      totalTokens: 30,
      costUsd: null,
      unpricedCalls: 2,
      estimatedCalls: 0,
    };
    const none = Object.fromEntries(Object.keys(used).map((axis) => [axis, 0]));
    const { steps, ...report } = result.agents[1] ?? expect.fail("no report of the helper");
    expect(steps).toHaveLength(2);
    expect(report).toEqual({
      agentId: "agent_2",
      executionId: "execution_2",
      parentAgentId: "agent_1",
      agentPath: "lead/helper#1",
      depth: 1,
      role: "helper",
      model: "helper-model",
      task: "Look.",
      status: "completed",
      reason: { code: "completed", message: "The agent gave its answer.", data: {} },
      text: "Seen.",
      output: undefined,
      toolsUsed: { look: 1 },
      usage: { own: used, descendants: none, total: used },
      signals: [
        {
          source: "loop",
          reason: { code: "completed", message: "The agent gave its answer.", data: {} },
        },
      ],
      errors: [],
      toolErrors: [],
      metadata: { repository: "r" },
      removedTools: [],
      executionCount: 1,
      durationMs: 0,
      budgetWaitMs: 0,
      pausedMs: 0,
    });
    expect(receivedTexts(lead.model.requests[1])).toEqual([
      '{"outcome":"completed","steps":2,"subagent":"helper#1","text":"Seen.","totalTokens":30}',
    ]);
  });

  proves(
    ["R136"],
    "contains the failure of a child, and its parent continues and completes",
    async () => {
      const error = new ModelError({ code: "model_invalid_request", message: "Too long." });
      const helper = part("helper", [says("", { calls: [use("nothing")] }), { error }]);
      const lead = part("lead", [calls(spawn("helper")), says("Without it, then.")], {
        subagents: [helper.role],
      });
      const s = newFixture();
      const result = await s.run(lead.role);
      expect(
        receivedTexts(lead.model.requests[1]).map((text): unknown => JSON.parse(text)),
      ).toEqual([
        {
          error: "model_invalid_request",
          subagent: "helper#1",
          outcome: "failed",
          reason: "error",
          explanation: "Too long.",
          text: "",
          steps: 2,
          totalTokens: 15,
        },
      ]);
      expect([result.status, result.text]).toEqual(["completed", "Without it, then."]);
      expect(result.agents[1]?.errors).toEqual([
        { code: "model_invalid_request", message: "Too long.", data: {} },
      ]);
      expect(result.agents[1]?.usage.total.totalTokens).toBe(15);
      expect(formatEventTree(s.sink.events)).toBe(
        [
          "lead completed (completed) 2 steps, 30 of 45 tokens",
          "├─ step 1 asked for 1",
          "│  └─ SpawnSubagent failed (subagent_failed)",
          "│     └─ lead/helper#1 failed (error) 2 steps, 15 of 15 tokens",
          "│        ├─ step 1 asked for 1",
          "│        │  └─ nothing failed (unknown_tool)",
          "│        └─ step 2 model_invalid_request",
          "└─ step 2 answered",
        ].join("\n"),
      );
    },
  );

  test("does not affect siblings or the order of results if the child fails", async () => {
    const late = latch();
    const error = new ModelError({ code: "model_unauthorized", message: "No." });
    const script = byTask({ bad: [{ error }], good: [says("Good.", { after: late.opened })] });
    const helper = part("helper", script);
    const both = calls(spawn("helper", "bad"), spawn("helper", "good"));
    const lead = part("lead", [both, says("Half.")], { subagents: [helper.role] });
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => s.sink.ofType("subagent.ended").length === 1);
    late.open();
    const result = await s.outcome(run);
    const ends = result.agents.map((agent) => [agent.agentPath, agent.status]);
    expect(ends).toEqual([
      ["lead", "completed"],
      ["lead/helper#1", "failed"],
      ["lead/helper#2", "completed"],
    ]);
  });

  proves(
    ["R147"],
    "adds one call and one result to the parent's history, however many messages the child has",
    async () => {
      const helper = part(
        "helper",
        [calls(use("look")), calls(use("look")), says("Six messages.")],
        {
          tools: [tool("look", () => "x")],
        },
      );
      const lead = part("lead", [calls(spawn("helper", "Look.")), says("Done.")], {
        subagents: [helper.role],
      });
      await newFixture().run(lead.role);
      expect(helper.model.requests[2]?.messages).toHaveLength(6);
      const argumentsText = '{"role":"helper","task":"Look."}';
      expect(lead.model.requests[1]?.messages).toEqual([
        { role: "system", text: "You are lead.", origin: "instructions" },
        { role: "user", text: "Do it.", origin: "task" },
        {
          role: "assistant",
          text: "",
          toolCalls: [{ callId: "call_1", toolName: "SpawnSubagent", argumentsText }],
        },
        {
          role: "tool",
          callId: "call_1",
          toolName: "SpawnSubagent",
          text: '{"outcome":"completed","steps":3,"subagent":"helper#1","text":"Six messages.","totalTokens":45}',
        },
      ]);
    },
  );

  test("reaches its parent as JSON if it is typed", async () => {
    const output = z.object({ title: z.string(), pages: z.number() });
    const helper = part("helper", [asks("Finish", { title: "T", pages: 3 })], { output });
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
    });
    const result = await newFixture().run(lead.role);
    expect(result.agents[1]?.output).toEqual({ title: "T", pages: 3 });
    expect(receivedTexts(lead.model.requests[1])).toEqual([
      '{"outcome":"completed","output":{"pages":3,"title":"T"},"steps":1,"subagent":"helper#1","totalTokens":15}',
    ]);
  });

  test("counts as completed if it is typed and arrives as the tokens run out", async () => {
    const output = z.object({ pages: z.number() });
    const helper = part("helper", [asks("Finish", { pages: 3 })], {
      output,
      budget: { totalTokens: 15 },
    });
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
    });
    const result = await newFixture().run(lead.role);
    const { status, output: given } = result.agents[1] ?? expect.fail("no report of the helper");
    expect({ status, given }).toEqual({ status: "completed", given: { pages: 3 } });
  });

  test("reports a child without text as failed, and one cut off as stopped", async () => {
    const script = byTask({
      silent: [says(""), says("")],
      cut: [says("Half a", { finishReason: "length" })],
    });
    const helper = part("helper", script);
    const both = calls(spawn("helper", "silent"), spawn("helper", "cut"));
    const lead = part("lead", [both, says("Done.")], { subagents: [helper.role] });
    const result = await newFixture().run(lead.role);
    const ends = result.agents
      .slice(1)
      .map((agent) => [agent.status, agent.reason.code, agent.text]);
    expect(ends).toEqual([
      ["failed", "error", ""],
      ["stopped", "finish_reason", "Half a"],
    ]);
  });
});
