// Goal: a model continues a subagent by its name alone, and an empty name starts a new one.
// Method: each way to name the subagent, with a role and without; the schema that the model reads.

import { describe, expect } from "vitest";

import { approve, type Question } from "../../../src/protocol/question.ts";
import { says, type ScriptedCall } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { outcomes, newWideFixture } from "../../support/life-agents.ts";
import { calls, part, spawn, receivedTexts } from "../../harness/scripted-agents.ts";

function continuing(more: object): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { task: "Second.", ...more } };
}

describe("a delegation with a `continue` argument", () => {
  proves(["S7.24"], "needs no role", async () => {
    const worker = part("worker", [says("One."), says("Two.")]);
    const lead = part(
      "lead",
      [
        calls(spawn("worker", "First.")),
        calls(continuing({ continue: "worker#1" })),
        says("Done."),
      ],
      { subagents: [worker.role] },
    );
    const result = await newWideFixture().run(lead.role);
    expect(outcomes(receivedTexts(lead.model.requests[2]))).toEqual([
      { outcome: "completed", subagent: "worker#1", text: "Two." },
    ]);
    expect(result.agents.map(({ executionCount: executions }) => executions)).toEqual([1, 2]);
  });

  for (const empty of ["", "  "]) {
    proves(["S7.24"], `starts another subagent if it is ${JSON.stringify(empty)}`, async () => {
      const worker = part("worker", [says("One."), says("Two.")]);
      const lead = part(
        "lead",
        [
          calls(spawn("worker", "First.")),
          calls(continuing({ continue: empty, role: "worker" })),
          says("Done."),
        ],
        { subagents: [worker.role] },
      );
      const result = await newWideFixture().run(lead.role);
      expect(result.agents.map(({ agentPath }) => agentPath)).toEqual([
        "lead",
        "lead/worker#1",
        "lead/worker#2",
      ]);
    });

    proves(
      ["S7.24", "S7.12"],
      `is refused without a question if it is ${JSON.stringify(empty)} and no other subagent may start`,
      async () => {
        const worker = part("worker", [says("One.")]);
        const lead = part(
          "lead",
          [
            calls(spawn("worker", "First.")),
            calls(continuing({ continue: empty, role: "worker" })),
            says("Done."),
          ],
          {
            subagents: [worker.role],
            limits: { maxTotalSubagents: 1 },
            guards: [toolGuard(() => ({ type: "ask", reason: "Sure?" }))],
          },
        );
        const asked: unknown[] = [];
        const approver = (question: Question) => {
          asked.push(question.callId);
          return approve(question);
        };
        const result = await newFixture({ approver }).run(lead.role);
        expect([asked, result.refusalsByCode]).toEqual([["call_1"], { total_limit: 1 }]);
      },
    );

    proves(
      ["S7.24"],
      `returns the missing arguments if it is ${JSON.stringify(empty)} and no role is given`,
      async () => {
        const worker = part("worker", []);
        const lead = part("lead", [calls(continuing({ continue: empty })), says("Done.")], {
          subagents: [worker.role],
        });
        const result = await newWideFixture().run(lead.role);
        const [execution] = result.agents[0]?.steps[0]?.tools.executions ?? [];
        expect(execution?.errorCode).toBe("invalid_arguments");
        expect(execution?.text).toContain(
          "Set role to start a subagent, or continue to continue one.",
        );
      },
    );
  }

  proves(["S7.24"], "describes `role` and `continue` in the schema of the tool", async () => {
    const worker = part("worker", []);
    const lead = part("lead", [says("Done.")], { subagents: [worker.role] });
    await newWideFixture().run(lead.role);
    const [tool] = lead.model.requests[0]?.tools ?? [];
    const schema = JSON.stringify(tool?.inputSchema);
    expect(schema).toContain('"required":["task"]');
    expect(schema).toContain("Which subagent to start. Not needed with continue.");
    expect(schema).toContain("Leave it out or empty to start a new one.");
  });

  proves(
    ["S7.24"],
    "describes `role` and `continue` in the schema for a model that may write roles",
    async () => {
      const worker = part("worker", []);
      const lead = part("lead", [says("Done.")], {
        dynamicRoles: { models: { small: worker.model } },
      });
      await newWideFixture().run(lead.role);
      const [tool] = lead.model.requests[0]?.tools ?? [];
      const schema = JSON.stringify(tool?.inputSchema);
      expect(schema).toContain('"required":["task"]');
      expect(schema).toContain(
        "Which subagent to start, or a name for newRole. Not needed with continue.",
      );
    },
  );
});
