// Goal: what a run gives back is plain, whole and holds nothing alive.
// Method: runtime walks over results and events, and JSON round trips.

import { expect } from "vitest";

import { defineAgent } from "../../src/agent/agent-role.ts";
import type { ModelReply } from "../../src/model/model.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import type { AssistantMessage } from "../../src/protocol/message.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { asks, says, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { scene } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";
import type { ToolContext } from "../../src/tools/tool.ts";

const SCRIPT: readonly ScriptedReply[] = [asks("work", {}), says("the answer")];

proves(
  ["R36"],
  "the result of two steps has its steps, status, reason, usage and text",
  async () => {
    const { status, reason, text, steps, usage } = await scene().run(
      soloist(SCRIPT, { tools: [spyTool("work")] }).role,
    );
    expect([status, reason.code, text, steps.length]).toEqual([
      "completed",
      "completed",
      "the answer",
      2,
    ]);
    expect(usage.total).toEqual({
      modelCalls: 2,
      steps: 2,
      toolCalls: 1,
      inputTokens: 20,
      cachedInputTokens: 0,
      outputTokens: 10,
      reasoningTokens: 0,
      totalTokens: 30,
      costMicroUsd: 0,
      unpricedCalls: 2,
      estimatedCalls: 0,
    });
  },
);

proves(
  ["R43"],
  "a step tells what was asked, what ran and what it cost, in our own words",
  async () => {
    const { steps } = await scene().run(soloist(SCRIPT, { tools: [spyTool("work")] }).role);
    const call = { callId: "call_1", toolName: "work", argumentsText: "{}" };
    expect(steps[0]).toEqual({
      stepId: "execution_1.1",
      number: 1,
      io: { messageCount: 2, text: "", finishReason: "tool_calls" },
      tools: {
        calls: [call],
        executions: [{ call, type: "succeeded", text: "work done", startedAtMs: 0, endedAtMs: 0 }],
      },
      telemetry: {
        usage: { ...steps[1]?.telemetry.usage, toolCalls: 1 },
        startedAtMs: 0,
        endedAtMs: 0,
      },
    });
  },
);

proves(["R46"], "no result, context or event holds a state, a function or a cycle", async () => {
  const contexts: ToolContext[] = [];
  const tool = spyTool("work", (context) => void contexts.push(context));
  const stage = scene();
  const result = await stage.run(soloist(SCRIPT, { tools: [tool] }).role);
  const values = [
    result,
    ...stage.sink.events,
    ...contexts.map(({ signal: _signal, queueSubtask: _service, ...rest }) => rest),
  ];
  for (const value of values) {
    const plain = Object.fromEntries(
      Object.entries(value).filter(([, part]) => part !== undefined),
    );
    expect(JSON.parse(JSON.stringify(value))).toEqual(plain);
    expect(keysOf(value)).not.toContain("conversation");
  }
});

proves(
  ["R40"],
  "two runs of one role share nothing that could change, and the role is frozen",
  async () => {
    const { role } = soloist([...SCRIPT, ...SCRIPT], { tools: [spyTool("work")] });
    expect(
      [role, role.tools, role.budget, role.context, role.stopWhen].every(Object.isFrozen),
    ).toBe(true);
    const stage = scene();
    const [first, second] = [stage.start(role), stage.start(role)];
    const results = await Promise.all([first.result, second.result]);
    expect(results.map((result) => result.agents.map((agent) => agent.agentId))).toEqual([
      ["agent_1"],
      ["agent_2"],
    ]);
    expect(results[0]?.runId).not.toBe(results[1]?.runId);
  },
);

proves(
  ["R182"],
  "a run has one terminal event for its execution, with the true status",
  async () => {
    const stage = scene();
    const result = await stage.run(soloist(SCRIPT, { tools: [spyTool("work")] }).role);
    expect(stage.sink.of("agent.ended").map(({ status, reason }) => ({ status, reason }))).toEqual([
      { status: result.status, reason: result.reason },
    ]);
  },
);

proves(
  ["R44"],
  "a reply that its model froze at the top only is frozen to its leaves",
  async () => {
    const toolCalls = [
      { callId: CallIdSchema.parse("call_1"), toolName: "work", argumentsText: "{}" },
    ];
    const replies: readonly AssistantMessage[] = [
      Object.freeze({ role: "assistant", text: "", toolCalls }),
      Object.freeze({ role: "assistant", text: "done", toolCalls: [] }),
    ];
    let count = 0;
    const generate = (): Promise<ModelReply> => {
      const message = replies[count] ?? { role: "assistant", text: "more", toolCalls: [] };
      count += 1;
      return Promise.resolve({ message, finishReason: "stop" });
    };
    const model = { provider: "own", id: "own", generate };
    const role = defineAgent({
      name: "solo",
      instructions: "Work.",
      model,
      tools: [spyTool("work")],
    });
    const stage = scene();
    const run = stage.start(role);
    for await (const { state } of run.iterate()) expect(unfrozenParts(state)).toEqual([]);
    expect((await stage.outcome(run)).status).toBe("completed");
  },
);

function keysOf(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) => [key, ...keysOf(part)]);
}
