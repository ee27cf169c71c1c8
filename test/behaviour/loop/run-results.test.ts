// Goal: the results of a run are plain, complete and free of live objects.
// Method: runtime walks over results and events, and JSON round trips.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { AgentState } from "../../../src/agent/agent-state.ts";
import { observe, transform } from "../../../src/hooks/hook.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { hasToolCall } from "../../../src/policies/stop-conditions.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import type { AssistantMessage } from "../../../src/protocol/message.ts";
import { unfrozenParts } from "../../support/frozen.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { NO_TIMING } from "../../../src/protocol/step-timing.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { agentStateOf } from "../../support/agent-state-of.ts";

const SCRIPT: readonly ScriptedReply[] = [asks("work", {}), says("the answer")];

proves(
  ["R36"],
  "the result of two steps contains its steps, status, reason, usage and text",
  async () => {
    const { status, reason, text, steps, usage } = await newFixture().run(
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
      costUsd: null,
      unpricedCalls: 2,
      estimatedCalls: 0,
    });
  },
);

proves(
  ["R43"],
  "a step contains its context, calls, executions and usage in provider-neutral form",
  async () => {
    const { steps } = await newFixture().run(soloist(SCRIPT, { tools: [spyTool("work")] }).role);
    const call = { callId: "call_1", toolName: "work", argumentsText: "{}" };
    expect(steps[0]).toEqual({
      stepId: "execution_1.1",
      number: 1,
      context: { ...steps[1]?.context, number: 1, budget: {} },
      io: { messageCount: 2, text: "", finishReason: "tool_calls" },
      tools: {
        calls: [call],
        executions: [
          {
            call,
            arguments: {},
            type: "succeeded",
            text: "work done",
            startedAtMs: 0,
            endedAtMs: 0,
          },
        ],
      },
      telemetry: {
        usage: { ...steps[1]?.telemetry.usage, toolCalls: 1 },
        startedAtMs: 0,
        endedAtMs: 0,
        elapsedMs: 0,
        timing: NO_TIMING,
      },
    });
  },
);

proves(["R46"], "no result, context or event contains a state, a function or a cycle", async () => {
  const contexts: ToolContext[] = [];
  const tool = spyTool("work", (context) => void contexts.push(context));
  const fixture = newFixture();
  const result = await fixture.run(soloist(SCRIPT, { tools: [tool] }).role);
  const values = [result, ...fixture.sink.events, ...contexts.map(withoutServices)];
  for (const value of values) {
    const plain = Object.fromEntries(
      Object.entries(value).filter(([, part]) => part !== undefined),
    );
    expect(JSON.parse(JSON.stringify(value))).toEqual(plain);
    expect(keysOf(value)).not.toContain("conversation");
  }
});

proves(["R40"], "every part of a role is a frozen copy of its definition", () => {
  const lists = {
    tools: [spyTool("work")],
    subagents: [soloist([], { name: "helper", description: "Helps." }).role],
    stopWhen: [hasToolCall("work")],
    hooks: [observe("run.ended", () => undefined), transform("stop", () => undefined)],
    compaction: { keepMessages: 5 },
    budget: { steps: 3 },
    contextPolicy: { metadataKeys: ["a"] },
  };
  const { role } = soloist([], lists);
  const { hooks, subagents, compaction, stopWhen, tools, budget, contextPolicy } = role;
  const parts = { hooks, subagents, compaction, stopWhen, tools, budget, contextPolicy };
  for (const [name, part] of Object.entries(parts)) {
    expect([name, Object.isFrozen(part)]).toEqual([name, true]);
    expect(() => Object.assign(part ?? {}, { 0: "other", steps: 99 })).toThrow(TypeError);
    expect(Object.values(lists)).not.toContain(part);
  }
  expect(hooks.every(Object.isFrozen) && subagents.every(Object.isFrozen)).toBe(true);
});

/** Returns every object in a value, including the value. */
function objectsIn(value: unknown, found = new Set<object>()): ReadonlySet<object> {
  if (typeof value !== "object" || value === null || found.has(value)) return found;
  found.add(value);
  for (const part of Object.values(value)) objectsIn(part, found);
  return found;
}

proves(["R40"], "two parallel runs of one role share no mutable object", async () => {
  const work = spyTool("work");
  const seen: object[] = [];
  const watch = transform("beforeModel", (input, context) => void seen.push(input, context));
  const script = [asks("work", {}), asks("work", {}), says("done"), says("done")];
  const { role } = soloist(script, { tools: [work], hooks: [watch] });
  const fixture = newFixture();
  const metadata = { tenant: { name: "a" } };
  const runs = [1, 2].map(() => fixture.start(role, "Do it.", { metadata }));
  const seenStates = runs.map((): AgentState[] => []);
  const phases = runs.map((run) => run.iterate());
  // One phase of each in turn, so that both are active at the same time.
  for (let isOver = false; !isOver;) {
    const next = await Promise.all(phases.map((one) => one.next()));
    for (const [index, { value }] of next.entries())
      if (value !== undefined) seenStates[index]?.push(agentStateOf(value.state));
    isOver = next.every(({ done }) => done);
  }
  const results = await Promise.all(runs.map((run) => fixture.outcome(run)));
  expect(results.map(({ status, steps }) => [status, steps.length])).toEqual([
    ["completed", 2],
    ["completed", 2],
  ]);
  expect(seenStates.map((list) => list.length)).toEqual([11, 11]);
  const [one, other] = runs.map(({ runId }, index) => {
    const isOwn = (value: object): boolean => "runId" in value && value.runId === runId;
    const own = [...seen.filter(isOwn), ...work.calls.filter(isOwn)];
    return objectsIn([seenStates[index], results[index], own]);
  });
  const shared = [...(one ?? [])].filter((part) => other?.has(part) === true);
  expect(shared.flatMap((part) => unfrozenParts(part))).toEqual([]);
  for (const state of seenStates.flat()) expect(unfrozenParts(state)).toEqual([]);
  for (const part of [metadata, metadata.tenant])
    expect([one?.has(part), other?.has(part)]).toEqual([false, false]);
  expect(new Set(work.calls.map(({ signal }) => signal)).size).toBe(2);
});

proves(
  ["R182"],
  "a run has one terminal event for its execution, with the true status",
  async () => {
    const fixture = newFixture();
    const result = await fixture.run(soloist(SCRIPT, { tools: [spyTool("work")] }).role);
    expect(
      fixture.sink.ofType("agent.ended").map(({ status, reason }) => ({ status, reason })),
    ).toEqual([{ status: result.status, reason: result.reason }]);
  },
);

proves(["R44"], "a reply that its model froze shallowly is frozen in depth", async () => {
  const toolCalls = [
    { callId: CallIdSchema().parse("call_1"), toolName: "work", argumentsText: "{}" },
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
  const fixture = newFixture();
  const run = fixture.start(role);
  for await (const { state } of run.iterate()) expect(unfrozenParts(state)).toEqual([]);
  expect((await fixture.outcome(run)).status).toBe("completed");
});

/** Returns a context without its services, each a function, and its signal. */
function withoutServices(context: ToolContext): object {
  const { signal, queueSubtask, reportProgress, ask, ...rest } = context;
  expect(signal).toBeInstanceOf(AbortSignal);
  const kinds = [queueSubtask, reportProgress, ask].map((service) => typeof service);
  expect(kinds).toEqual(["function", "function", "function"]);
  return rest;
}

function keysOf(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) => [key, ...keysOf(part)]);
}
