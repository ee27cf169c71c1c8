// Goal: no approver is asked about an impossible spawn, counting the spawns before it in the same
// reply.

import { expect } from "vitest";

import { approve, deny } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { calls, part, spawn, tool, use } from "../../harness/scripted-agents.ts";

const REFUSED = "Not started: you have started 2 of at most 2 subagents.";

proves(
  ["S7.12"],
  "refuses the third of three parallel spawns without a question when two are allowed",
  async () => {
    for (const limits of [{ maxBreadthPerParent: 2 }, { maxTotalSubagents: 2 }]) {
      const asked: unknown[] = [];
      const worker = part("worker", () => says("Worked."));
      const lead = part(
        "lead",
        [calls(spawn("worker", "A."), spawn("worker", "B."), spawn("worker", "C.")), says("Done.")],
        {
          subagents: [worker.role],
          limits,
          guards: [toolGuard(() => ({ type: "ask", reason: "Sure?" }))],
        },
      );
      const s = newFixture({
        approver: (question) => {
          asked.push(question.callId);
          return approve(question);
        },
      });
      const result = await s.run(lead.role);
      expect(asked).toEqual(["call_1", "call_2"]);
      expect(s.sink.ofType("tool.guarded").map(({ callId }) => callId)).toEqual([
        "call_1",
        "call_2",
      ]);
      expect(result.agents.length).toBe(3);
      const [rejected] = s.sink.ofType("tool.rejected");
      expect([rejected?.callId, rejected?.spawn?.error.current]).toEqual(["call_3", 2]);
      expect(rejected?.error.code).toMatch(/_limit$/);
    }
  },
);

proves(["S7.12"], "a denied spawn leaves room for the next reply", async () => {
  const worker = part("worker", () => says("Worked."));
  const both = calls(spawn("worker", "A."), spawn("worker", "B."), spawn("worker", "C."));
  const lead = part("lead", [both, calls(spawn("worker", "D.")), says("Done.")], {
    subagents: [worker.role],
    limits: { maxBreadthPerParent: 2 },
    guards: [toolGuard(() => ({ type: "ask", reason: "Sure?" }))],
  });
  const s = newFixture({
    approver: (question) =>
      question.callId === "call_1" ? deny(question, "Not A.") : approve(question),
  });
  const result = await s.run(lead.role);
  expect(result.agents.map(({ agentPath }) => agentPath)).toEqual([
    "lead",
    "lead/worker#1",
    "lead/worker#2",
  ]);
  const texts = result.steps[0]?.tools.executions.map(({ text }) => text) ?? [];
  expect(texts[2]).toContain(REFUSED);
});

proves(["S7.12"], "a denied spawn leaves room for later calls of the same reply", async () => {
  // 64 calls begin in one turn of the event loop; the last one begins in the next.
  const most = 64;
  const worker = part("worker", () => says("Worked."));
  const tasks = Array.from({ length: most + 1 }, (_none, at) => spawn("worker", `Part ${at}.`));
  const lead = part("lead", [calls(...tasks), says("Done.")], {
    subagents: [worker.role],
    guards: [
      toolGuard(({ callId }) =>
        callId === "call_1" ? { type: "deny", reason: "Not this." } : { type: "allow" },
      ),
    ],
  });
  const limits = { maxBreadthPerParent: most, maxTotalSubagents: 2 * most };
  const result = await newFixture({ limits }).run(lead.role);
  expect([result.agents.length, result.refusalsByCode]).toEqual([1 + most, { blocked: 1 }]);
});

proves(
  ["D785"],
  "a spawn that its approver turns into a continuation leaves room for later calls of the reply",
  async () => {
    const worker = part("worker", () => says("Worked."));
    const pause = { ...tool("pause", () => "waited"), sequential: true };
    const reply = calls(spawn("worker", "B."), use("pause"), spawn("worker", "C."));
    const lead = part("lead", [calls(spawn("worker", "A.")), reply, says("Done.")], {
      subagents: [worker.role],
      tools: [pause],
      limits: { maxBreadthPerParent: 2 },
      guards: [
        toolGuard(({ toolName }) =>
          toolName === "pause" ? { type: "allow" } : { type: "ask", reason: "Sure?" },
        ),
      ],
    });
    const s = newFixture({
      approver: (question) =>
        approve(
          question,
          question.callId === "call_2"
            ? { arguments: { role: "worker", task: "B.", continue: "worker#1" } }
            : {},
        ),
    });
    const result = await s.run(lead.role);
    expect(result.agents.map(({ agentPath }) => agentPath)).toEqual([
      "lead",
      "lead/worker#1",
      "lead/worker#2",
    ]);
    expect([s.sink.ofType("subagent.continued").length, result.refusalsByCode]).toEqual([1, {}]);
  },
);

proves(
  ["S7.12"],
  "the count in a refusal never exceeds the limit, however many calls are ahead",
  async () => {
    for (const limits of [{ maxBreadthPerParent: 2 }, { maxTotalSubagents: 2 }]) {
      const worker = part("worker", () => says("Worked."));
      const three = calls(spawn("worker", "A."), spawn("worker", "B."), spawn("worker", "Again."));
      const lead = part("lead", [calls(spawn("worker", "Again.")), three, says("Done.")], {
        subagents: [worker.role],
        limits,
        delegation: { maxIdenticalDelegations: 1 },
      });
      const s = newFixture();
      const result = await s.run(lead.role);
      expect(result.agents.length).toBe(3);
      // The last call is checked for a question and has two ahead of it; the second finds no room.
      expect(
        s.sink.ofType("subagent.refused").map(({ callId, error }) => [callId, error.current]),
      ).toEqual([
        ["call_4", 2],
        ["call_3", 2],
      ]);
    }
  },
);
