// Goal: events and step records report calls that are not executed, and the arguments of the
// others.
// Method: one reply with a call of every kind.

import { expect } from "vitest";
import { z } from "zod";

import { transform } from "../../../src/hooks/hook.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const seen: unknown[] = [];
const find = defineTool({
  name: "find",
  description: "Finds files.",
  inputSchema: z.object({
    name: z.string().transform((name) => name.toUpperCase()),
    most: z.int().default(10),
  }),
  execute: (input) => {
    seen.push(structuredClone(input));
    // Mutations of the input by the tool do not change the recorded arguments.
    Object.assign(input, { most: 0 });
    return "found";
  },
});
const wipe = defineTool({
  name: "wipe",
  description: "Wipes.",
  inputSchema: z.object({}),
  execute: () => "wiped",
});

proves(
  ["S7.22"],
  "emits one tool.rejected event for each call that is not executed, and no start",
  async () => {
    const lead = part(
      "lead",
      [
        calls(
          { toolName: "find", arguments: { name: "a", most: "3" } },
          { toolName: "nothing", arguments: {} },
          { toolName: "find", arguments: "{" },
          { toolName: "find", arguments: { name: 1, most: [] } },
          { toolName: "wipe", arguments: {} },
          spawn("nobody"),
        ),
        says("Done."),
      ],
      {
        tools: [find, wipe],
        subagents: [part("helper", []).role],
        guards: [
          toolGuard(() => ({ type: "deny", reason: "Not today." }), {
            name: "calendar",
            tools: ["wipe"],
          }),
        ],
      },
    );
    const s = newFixture();
    await s.run(lead.role);
    expect(eventsOfCalls(s.sink.events)).toEqual([
      ["tool.started", "find"],
      ["tool.rejected", "nothing", "failed", "unknown_tool"],
      ["tool.rejected", "find", "retry", "invalid_json"],
      ["tool.rejected", "find", "retry", "invalid_arguments"],
      ["tool.rejected", "SpawnSubagent", "refused", "unknown_role"],
      ["tool.ended", "find", "succeeded"],
      ["tool.rejected", "wipe", "refused", "blocked"],
    ]);
    const [unknown] = s.sink.ofType("tool.rejected");
    const { seq, atMs, traceId, spanId, ...said } = unknown ?? expect.fail("no event");
    expect([typeof seq, atMs, traceId.length, spanId.length]).toEqual(["number", 0, 32, 16]);
    expect(said).toEqual({
      type: "tool.rejected",
      runId: "run_1",
      agentId: "agent_1",
      parentAgentId: null,
      agentPath: "lead",
      depth: 0,
      executionId: "execution_1",
      stepId: "execution_1.1",
      callId: "call_2",
      index: 1,
      toolName: "nothing",
      kind: "function",
      description: "",
      outcome: "failed",
      error: {
        code: "unknown_tool",
        message: 'There is no tool named "nothing". Your tools are: find, wipe, SpawnSubagent.',
        severity: "recoverable",
      },
      resultCharacters: 76,
    });
    const denied = s.sink.ofType("tool.rejected").find(({ toolName }) => toolName === "wipe");
    expect([denied?.kind, denied?.description, denied?.blockedBy, denied?.reason]).toEqual([
      "function",
      "Wipes.",
      "calendar",
      "Not today.",
    ]);
    const refused = s.sink.ofType("tool.rejected").find(({ kind }) => kind === "delegation");
    const error = s.sink.ofType("subagent.refused")[0]?.error ?? expect.fail("no refusal");
    expect(refused?.spawn).toEqual({ role: "nobody", error });
    expect(refused?.error.message).toBe(error.message);
  },
);

proves(
  ["D740"],
  "reports index and message to the model of each call that is not executed",
  async () => {
    const lead = part(
      "lead",
      [calls(spawn("nobody"), { toolName: "wipe", arguments: {} }), calls(spawn("helper"))],
      {
        tools: [wipe],
        subagents: [part("helper", []).role],
        guards: [toolGuard(() => ({ type: "deny", reason: "No." }), { tools: ["wipe"] })],
      },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    for await (const { phase, state } of run.iterate())
      if (phase === "infer" && state.log.steps.length === 1) run.requestStop();
    const { steps } = await run.result;
    const rejected = s.sink.ofType("tool.rejected");
    const texts = steps.flatMap(({ tools }) => tools.executions.map(({ text }) => text));
    expect(rejected.map(({ index, error }) => [index, error.message])).toEqual([
      [0, texts[0]],
      [1, texts[1]],
      [0, "Not executed: the agent stopped before this call (stop_requested)."],
    ]);
    expect(rejected.at(-1)?.error.message).toBe(texts[2]);
  },
);

proves(
  ["S7.22"],
  "records the arguments as written by the model and as passed to the tool",
  async () => {
    seen.length = 0;
    const written = { name: "a", most: "3" };
    const lead = part(
      "lead",
      [
        calls(
          { toolName: "find", arguments: written },
          { toolName: "find", arguments: { name: "b" } },
          { toolName: "wipe", arguments: {} },
        ),
        says("Done."),
      ],
      {
        tools: [find, wipe],
        guards: [toolGuard(() => ({ type: "deny", reason: "No." }), { tools: ["wipe"] })],
        hooks: [
          transform("beforeTool", ({ toolName, arguments: input }) =>
            toolName === "find"
              ? { arguments: { ...z.record(z.string(), z.json()).parse(input), name: "hooked" } }
              : undefined,
          ),
        ],
      },
    );
    const result = await newFixture().run(lead.role);
    const executions = result.steps[0]?.tools.executions ?? [];
    expect(executions.map((one) => [one.call.argumentsText, one.arguments])).toEqual([
      [JSON.stringify(written), { name: "HOOKED", most: 3 }],
      ['{"name":"b"}', { name: "HOOKED", most: 10 }],
      ["{}", undefined],
    ]);
    expect(executions.slice(0, 2).map((one) => one.arguments)).toEqual(seen);
  },
);

function eventsOfCalls(events: readonly EspalierEvent[]): readonly unknown[] {
  return events.flatMap((event) => {
    switch (event.type) {
      case "tool.started":
        return [[event.type, event.toolName]];
      case "tool.ended":
        return [[event.type, event.toolName, event.outcome]];
      case "tool.rejected":
        return [[event.type, event.toolName, event.outcome, event.error.code]];
      default:
        return [];
    }
  });
}
