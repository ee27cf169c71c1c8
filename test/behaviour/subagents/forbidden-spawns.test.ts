// Goal: a spawn whose tool is forbidden by a guard, a hook, a rule or a filter is an ordinary
// refusal: reported, counted and persisted.
// Method: real runs with scripted models; counters, events, texts, and the results of the store and
// of a replay compared in full.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { transform } from "../../../src/hooks/hook.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { deny } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { toolGuard, type GuardDecision } from "../../../src/tools/tool-guard.ts";
import { asksAbout, denies, refusal } from "../../support/guard-stories.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { gist } from "../../fixtures/journals/play.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { approveAll } from "../../support/pause-stories.ts";
import {
  calls,
  part,
  spawn,
  receivedTexts,
  tool,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";

const DENIED = refusal("SpawnSubagent", "Do it yourself.");

function delegating(more: Parameters<typeof part>[2] = {}): Part {
  const worker = part("worker", [says("Worked."), says("Worked on.")]);
  return part("lead", [calls(spawn("worker")), says("Done.")], {
    subagents: [worker.role],
    ...more,
  });
}

/** A manager whose lead denies its descendants the spawn tool. */
function ruled(): { readonly lead: Part; readonly middle: Part } {
  const leaf = part("leaf", []);
  const middle = part("middle", [calls(spawn("leaf")), says("Alone.")], {
    subagents: [leaf.role],
  });
  const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
    subagents: [middle.role],
    contextPolicy: { deniedTools: ["SpawnSubagent"] },
  });
  return { lead, middle };
}

/** Returns the type of each event about the calls, with its refusal. */
function tellings({ sink }: Fixture): readonly unknown[] {
  return sink.events.flatMap((event) => {
    if (event.type === "subagent.refused") return [[event.type, event.role, event.error.code]];
    if (event.type === "tool.rejected")
      return [[event.type, event.error.code, event.spawn?.error.message]];
    return event.type === "tool.guarded" || event.type === "tool.started" ? [[event.type]] : [];
  });
}

/** Runs the role, and compares the result with those of the store and of a replay. */
async function ran(
  role: () => AgentRole,
  options: OrchestratorOptions = {},
): Promise<{ readonly result: RunResult; readonly s: Fixture }> {
  const store = memoryStore();
  const s = newFixture({ store, ...options });
  const result = await s.run(role());
  expect(gist(await new Orchestrator({ store }).getResult(result.runId))).toEqual(gist(result));
  const recording = await loadRecording(store, result.runId);
  await replaysToTheSame({ role: role(), options }, { recording, result });
  return { result, s };
}

describe("a forbidden spawn", () => {
  proves(
    ["S7.27", "X14"],
    "is counted as a refusal by a guard, with the guard's reason for the model",
    async () => {
      const guards = [denies("Do it yourself.", { tools: ["SpawnSubagent"] })];
      const { result, s } = await ran(() => delegating({ guards }).role);
      expect([result.status, result.refusalsByCode]).toEqual(["completed", { blocked: 1 }]);
      expect(result.steps[0]?.tools.executions[0]?.text).toBe(DENIED);
      expect(tellings(s)).toEqual([
        ["tool.guarded"],
        ["subagent.refused", "worker", "blocked"],
        ["tool.rejected", "blocked", DENIED],
      ]);
      expect(s.sink.ofType("run.ended")[0]?.refusalsByCode).toEqual({ blocked: 1 });
    },
  );

  proves(["S7.27", "X14"], "is counted as a refusal by a hook", async () => {
    const hooks = [transform("beforeTool", () => ({ deny: "Do it yourself." }))];
    const { result } = await ran(() => delegating({ hooks }).role);
    expect(result.refusalsByCode).toEqual({ blocked: 1 });
  });

  proves(["S7.27", "X14", "X16"], "is counted as a refusal by a rule of an ancestor", async () => {
    const { lead, middle } = ruled();
    const plain = newFixture();
    const first = await plain.run(lead.role);
    const text =
      "Not executed: you cannot use SpawnSubagent (denied by lead). You have no tools in this step; answer in text.";
    expect(receivedTexts(middle.model.requests[1])).toEqual([text]);
    expect(first.refusalsByCode).toEqual({ tool_not_available: 1 });
    expect(tellings(plain)).toEqual([
      ["tool.started"],
      ["subagent.refused", "leaf", "tool_not_available"],
      ["tool.rejected", "tool_not_available", text],
    ]);
    const { result } = await ran(() => ruled().lead.role);
    expect(result.refusalsByCode).toEqual({ tool_not_available: 1 });
  });

  proves(["S7.27", "X14"], "is counted as a refusal by a tool filter", async () => {
    const toolFilters = [toolFilter(() => false, { tools: ["SpawnSubagent"] })];
    const { result } = await ran(() => delegating({ toolFilters }).role);
    expect(result.refusalsByCode).toEqual({ tool_not_available: 1 });
  });

  proves(["S7.27"], "is counted with the role of the subagent to continue", async () => {
    const guards = [
      toolGuard(({ arguments: input }): GuardDecision =>
        JSON.stringify(input).includes("worker#1")
          ? { type: "deny", reason: "Do it yourself." }
          : { type: "allow" },
      ),
    ];
    const again = { toolName: "SpawnSubagent", arguments: { task: "More.", continue: "worker#1" } };
    const leadOf = (): AgentRole => {
      const worker = part("worker", [says("Worked.")]);
      const script = [calls(spawn("worker")), calls(again), says("Done.")];
      return part("lead", script, { subagents: [worker.role], guards }).role;
    };
    const { result, s } = await ran(leadOf);
    expect(result.refusalsByCode).toEqual({ blocked: 1 });
    expect(s.sink.ofType("subagent.refused").map(({ role }) => role)).toEqual(["worker"]);
  });

  proves(["S7.27"], "is counted for a delegation of the user that names its role", async () => {
    const assign = defineDelegation({
      name: "assign",
      description: "Assigns a task.",
      inputSchema: z.object({ role: z.string(), task: z.string() }),
      execute: (request, { spawn: start }) => start(request),
    });
    const delegatingBy = (more: Parameters<typeof part>[2] = {}): AgentRole => {
      const worker = part("worker", [says("Worked.")]);
      const assignment = { toolName: "assign", arguments: { role: "worker", task: "Work." } };
      const script = [calls(assignment), says("Done.")];
      return part("lead", script, { subagents: [worker.role], tools: [assign], ...more }).role;
    };
    const denied = await ran(() => delegatingBy({ guards: [denies("Do it yourself.")] }));
    expect(denied.result.refusalsByCode).toEqual({ blocked: 1 });
    const ruledOut = await ran(() => {
      const contextPolicy = { deniedTools: ["assign"] };
      const script = [calls(spawn("lead")), says("Done.")];
      return part("top", script, { subagents: [delegatingBy()], contextPolicy }).role;
    });
    expect(ruledOut.result.refusalsByCode).toEqual({ tool_not_available: 1 });
    expect(ruledOut.s.sink.ofType("subagent.refused").map(({ role }) => role)).toEqual(["worker"]);
  });

  proves(["S7.27"], "is counted if a guard denies it when the run resumes", async () => {
    let answer: GuardDecision = { type: "ask", reason: "Sure?" };
    const guards = [toolGuard(() => answer)];
    const store = memoryStore();
    const s = newFixture({ store });
    const { role } = delegating({ guards });
    const paused = await s.run(role);
    expect(paused.refusalsByCode).toEqual({});
    answer = { type: "deny", reason: "Do it yourself." };
    const result = await s.outcome(s.resume(role, paused.pausedRun, approveAll(paused)));
    expect(result.refusalsByCode).toEqual({ blocked: 1 });
    expect(gist(await new Orchestrator({ store }).getResult(result.runId))).toEqual(gist(result));
    const recording = await loadRecording(store, result.runId);
    await replaysToTheSame({ role: delegating({ guards }).role }, { recording, result });
  });
});

test("a denied call of another tool and a spawn denied by a person do not count as refusals", async () => {
  const look = tool("look", () => "seen");
  const lead = delegating({ guards: [asksAbout("Sure?", { tools: ["SpawnSubagent"] })] });
  const other = part("lead", [calls(use("look")), says("Done.")], {
    tools: [look],
    guards: [denies()],
  });
  const s = newFixture({ approver: (question) => deny(question, "No.") });
  const denied = await s.run(lead.role);
  expect(denied.steps[0]?.tools.executions[0]?.errorCode).toBe("denied");
  expect(denied.refusalsByCode).toEqual({});
  expect((await newFixture().run(other.role)).refusalsByCode).toEqual({});
});
