// Goal: a run, its tree and its failures can be reconstructed from its events alone.
// Method: one tree with every kind of end; the tree is rebuilt from its events and compared with
// the result.

import { describe, expect, test } from "vitest";

import {
  assertEvent,
  type EspalierEvent,
  type EventSink,
  sumUsage,
} from "../../../src/protocol/event.ts";
import { describeReceived } from "../../../src/kernel/argument-checks.ts";
import { NO_USAGE } from "../../../src/protocol/usage.ts";
import { formatEventTree } from "../../../src/testing/event-tree.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, spawn, tool, use } from "../../harness/scripted-agents.ts";
import { fiveEndings } from "../../support/five-endings.ts";

const SOME_NUMBER: unknown = expect.any(Number);
const SOME_TEXT: unknown = expect.any(String);

describe("the events of a run", () => {
  proves(["R176"], "suffice to rebuild its tree", async () => {
    const { s, result } = await fiveEndings();
    const read: unknown = JSON.parse(JSON.stringify(s.sink.events));
    expect(read).toEqual(s.sink.events);
    expect(rebuilt(s.sink.events)).toEqual(
      result.agents.map((agent) => ({
        agentId: agent.agentId,
        parentAgentId: agent.parentAgentId,
        executionId: agent.executionId,
        agentPath: agent.agentPath,
        depth: agent.depth,
        role: agent.role,
        model: agent.model,
        task: agent.task,
        spawnedBy: agent.parentAgentId === null ? null : "a call of its parent",
        status: agent.status,
        reason: agent.reason,
        text: agent.text,
        usage: agent.usage,
        steps: agent.steps.map((step) => ({
          stepId: step.stepId,
          usage: step.telemetry.usage,
          calls: step.tools.executions.map(({ call, type }) => [call.callId, call.toolName, type]),
        })),
      })),
    );
  });

  proves(
    ["R176"],
    "contain the ids of run, agent and parent, and of step and call where they apply",
    async () => {
      const { s, result } = await fiveEndings();
      const agents = new Map(result.agents.map((agent) => [agent.agentId, agent]));
      for (const event of s.sink.events) {
        const agent = agents.get(event.agentId) ?? expect.fail(`${event.type} of no agent`);
        const { parentAgentId, agentPath, depth, executionId } = agent;
        const ofRun = event.type === "run.started" || event.type === "run.ended";
        const ofAccount = event.type === "budget.threshold_reached";
        expect(event).toMatchObject({
          runId: result.runId,
          traceId: result.traceId,
          parentAgentId,
          agentPath,
          depth,
          executionId: ofRun || ofAccount ? null : executionId,
        });
        const ofStep = /^(step|model|tool|budget|subagent)\./.test(event.type) && !ofAccount;
        if (ofStep) expect(event.stepId, event.type).toMatch(`${executionId}.`);
        const ofCall = /^(tool|subagent)\./.test(event.type);
        expect(event.callId === null, event.type).toBe(!ofCall);
      }
    },
  );

  proves(["R177"], "contain a tool's name, place, duration and outcome when it ends", async () => {
    const s = newFixture();
    const slow = tool("slow", () => s.clock.advance(70));
    const broken = tool("broken", () => {
      throw new Error("No disk.");
    });
    const helper = part("helper", [calls(use("slow")), calls(use("broken")), says("Ok.")], {
      tools: [slow, broken],
    });
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
    });
    await s.run(lead.role);
    const place = {
      runId: "run_1",
      agentId: "agent_2",
      parentAgentId: "agent_1",
      agentPath: "lead/helper#1",
      depth: 1,
      executionId: "execution_2",
      stepId: "execution_2.1",
    };
    const some = {
      seq: SOME_NUMBER,
      traceId: SOME_TEXT,
      spanId: SOME_TEXT,
    };
    const used = {
      ...NO_USAGE,
      modelCalls: 3,
      steps: 3,
      toolCalls: 2,
      inputTokens: 30,
      outputTokens: 15,
    };
    expect(s.sink.ofType("tool.ended")).toEqual([
      {
        ...some,
        ...place,
        type: "tool.ended",
        atMs: 70,
        callId: "call_1",
        toolName: "slow",
        outcome: "succeeded",
        success: true,
        resultCharacters: 0,
        durationMs: 70,
        queuedMs: 0,
      },
      {
        ...some,
        ...place,
        stepId: "execution_2.2",
        type: "tool.ended",
        atMs: 70,
        callId: "call_2",
        toolName: "broken",
        outcome: "failed",
        success: false,
        error: { code: "tool_error", message: "No disk.", severity: "recoverable" },
        resultCharacters: "broken failed: No disk.".length,
        durationMs: 0,
        queuedMs: 0,
      },
      {
        ...some,
        ...place,
        agentId: "agent_1",
        parentAgentId: null,
        agentPath: "lead",
        depth: 0,
        executionId: "execution_1",
        stepId: "execution_1.1",
        type: "tool.ended",
        atMs: 70,
        callId: "call_1",
        toolName: "SpawnSubagent",
        outcome: "succeeded",
        success: true,
        resultCharacters: SOME_NUMBER,
        durationMs: 70,
        queuedMs: 0,
        usage: { ...used, totalTokens: 45, costUsd: null, unpricedCalls: 3 },
      },
    ]);
  });

  proves(
    ["R177"],
    "are rejected by their schema if they have an extra, missing or unknown field",
    async () => {
      const { s } = await fiveEndings();
      const types = new Map(s.sink.events.map((event) => [event.type, event]));
      expect(types.size).toBeGreaterThan(15);
      for (const event of types.values()) {
        expect(() => assertEvent(event)).not.toThrow();
        expect(() => assertEvent({ ...event, extra: 1 }), event.type).toThrow();
        expect(() => assertEvent({ ...event, agentId: undefined }), event.type).toThrow();
        expect(() => assertEvent({ ...event, type: `${event.type}.again` }), event.type).toThrow();
        const { seq: _seq, ...unnumbered } = event;
        expect(() => assertEvent(unnumbered), event.type).toThrow();
      }
    },
  );

  proves(["D731"], "are narrowed by `assertEvent`, which rejects unknown types", async () => {
    const { s } = await fiveEndings();
    const [first] = s.sink.events;
    const value: unknown = JSON.parse(JSON.stringify(first));
    assertEvent(value);
    expect<EspalierEvent>(value).toEqual(first);
    const advice = "Use the version of espalier that wrote the event.";
    for (const type of ["none", "toString", "__proto__", "", undefined])
      expect(thrownBy(() => assertEvent({ ...value, type }))).toMatchObject({
        code: "invalid_argument",
        message: `Expected event.type to be a type of event, got ${describeReceived(type)}. ${advice}`,
      });
    for (const other of [undefined, null, "run.started"])
      expect(thrownBy(() => assertEvent(other)).code).toBe("invalid_argument");
    expect(thrownBy(() => assertEvent({ ...first, seq: "1" }))).toEqual({
      code: "invalid_argument",
      message: `Expected an event of type run.started, got another value at seq: Invalid input: expected number, received string. ${advice}`,
      data: {},
    });
  });

  proves(
    ["R181"],
    "report usage once per step, and the steps add up to the usage of the run",
    async () => {
      const { s, result } = await fiveEndings();
      const steps = s.sink.ofType("step.completed");
      expect(new Set(steps.map((event) => event.stepId)).size).toBe(steps.length);
      const sum = sumUsage(s.sink.events);
      expect(sum).toEqual(result.usage.total);
      expect(s.sink.ofType("run.ended")[0]?.usage.total).toEqual(sum);
    },
  );

  proves(
    ["R182"],
    "contain one terminal event for each of five kinds of end, after all other events of the agent",
    async () => {
      const { s, result } = await fiveEndings();
      expect(formatEventTree(s.sink.events)).toBe(
        [
          "lead completed (completed) 2 steps, 30 of 125 tokens",
          "├─ step 1 asked for 4",
          "│  ├─ SpawnSubagent succeeded",
          "│  │  └─ lead/completes#1 completed (completed) 1 steps, 15 of 15 tokens",
          "│  │     └─ step 1 answered",
          "│  ├─ SpawnSubagent failed (subagent_no_output)",
          "│  │  └─ lead/stops#1 stopped (step_limit) 2 steps, 30 of 30 tokens",
          "│  │     ├─ step 1 asked for 1",
          "│  │     │  └─ nothing failed (unknown_tool)",
          "│  │     └─ step 2 asked for 1",
          "│  │        └─ nothing failed (unknown_tool)",
          "│  ├─ SpawnSubagent failed (subagent_failed)",
          "│  │  └─ lead/fails#1 failed (error) 1 steps, 0 of 0 tokens",
          "│  │     └─ step 1 model_invalid_reply",
          "│  └─ SpawnSubagent cancelled (subagent_cancelled)",
          "│     └─ lead/waits#1 cancelled (cancelled) 2 steps, 25 of 50 tokens",
          "│        ├─ step 1 asked for 1",
          "│        │  └─ SpawnSubagent failed (subagent_partial)",
          "│        │     └─ lead/waits#1/cut#1 stopped (finish_reason) 1 steps, 25 of 25 tokens",
          "│        │        └─ step 1 answered",
          "│        └─ step 2 cancelled",
          "└─ step 2 answered",
        ].join("\n"),
      );
      const ended = new Map(s.sink.ofType("agent.ended").map((event) => [event.agentId, event]));
      expect(ended.size).toBe(s.sink.ofType("agent.ended").length);
      for (const agent of result.agents) {
        const { status, reason, text, usage } = agent;
        expect(ended.get(agent.agentId)).toMatchObject({ status, reason, text, usage });
        const last = s.sink.events.findLast((event) => event.executionId === agent.executionId);
        expect(last).toBe(ended.get(agent.agentId));
      }
    },
  );

  test("are frozen, so one sink cannot change them for the next", async () => {
    const seen: EspalierEvent[] = [];
    const vandal: EventSink = {
      emit: (event) => {
        expect(Reflect.set(event, "seq", 0)).toBe(false);
        if (event.type === "agent.ended")
          expect(Reflect.set(event.usage.own, "steps", 0)).toBe(false);
        seen.push(event);
      },
    };
    const s = newFixture({ sinks: [vandal] });
    await s.run(part("lead", [says("Done.")]).role);
    expect(seen).toEqual(s.sink.events);
  });
});

/** Rebuilds all agents with their steps and calls from events alone. */
function rebuilt(events: readonly EspalierEvent[]): readonly unknown[] {
  const of = <T extends EspalierEvent["type"]>(type: T, place: Partial<EspalierEvent>) =>
    events.filter((event): event is Extract<EspalierEvent, { readonly type: T }> => {
      return (
        event.type === type &&
        Object.entries(place).every(([key, id]) => Reflect.get(event, key) === id)
      );
    });
  return of("agent.started", {}).map((started) => {
    const { agentId, parentAgentId, executionId, agentPath, depth, role, model, task } = started;
    const [ended] = of("agent.ended", { executionId });
    const { spawnCallId } = started;
    const spawned =
      parentAgentId === null
        ? []
        : of("subagent.spawned", { agentId: parentAgentId, callId: spawnCallId });
    const spawnedBy = spawned.some((event) => event.childId === agentId)
      ? "a call of its parent"
      : null;
    const steps = of("step.completed", { executionId }).map(({ stepId, usage }) => ({
      stepId,
      usage,
      calls: [
        ...of("tool.started", { executionId, stepId }).map(({ callId, toolName }) => {
          return [callId, toolName, of("tool.ended", { executionId, stepId, callId })[0]?.outcome];
        }),
        ...of("tool.rejected", { executionId, stepId }).map(({ callId, toolName, outcome }) => {
          return [callId, toolName, outcome];
        }),
      ],
    }));
    const place = {
      agentId,
      parentAgentId,
      executionId,
      agentPath,
      depth,
      role,
      model,
      task,
      spawnedBy,
    };
    return {
      ...place,
      status: ended?.status,
      reason: ended?.reason,
      text: ended?.text,
      usage: ended?.usage,
      steps,
    };
  });
}
