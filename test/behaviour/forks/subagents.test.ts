// Goal: a fork includes the subagents that the run had started by the step if they and their
// descendants have ended, and the queued subtasks.
// Method: real runs and their forks; the agents, their names and their messages compared in full.

import { describe, expect, test } from "vitest";
import { approve } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  beside,
  onward,
  outcomes,
  reporters,
  rested,
  rests,
  settlements,
  waitFor,
  newWideFixture,
} from "../../support/life-agents.ts";
import { payTool } from "../../support/pause-stories.ts";
import { planner } from "../../support/subtask-stories.ts";
import {
  calls,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";
import { look, shown, PAY } from "../../support/life-forks.ts";

describe("subagents of a forked run", () => {
  proves(
    ["X24"],
    "are included if they had ended, and continue in the fork with their history",
    async () => {
      const worker = part("worker", [says("Original."), says("In the fork."), says("Another.")]);
      const lead = part(
        "lead",
        [
          calls(spawn("worker", "First.")),
          says("Original."),
          calls(onward("worker#1", "Second."), spawn("worker", "Third.")),
          says("Forked."),
        ],
        { subagents: [worker.role] },
      );
      const s = newFixture();
      const { result, snapshot } = await rested(s, s.start(lead.role));
      const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 1 }));
      expect(shown(worker, 1)).toEqual([
        "system: You are worker.",
        "user: First.",
        "assistant: Original.",
        "user: Second.",
      ]);
      expect(rests(forked)).toEqual({
        lead: "completed",
        "lead/worker#1": "completed",
        "lead/worker#2": "completed",
      });
      expect([
        forked.subagentsByDepth,
        result.agents[1]?.executionCount,
        forked.agents[1]?.executionCount,
      ]).toEqual([{ "1": 2 }, 1, 2]);
      expect(outcomes(receivedTexts(lead.model.requests[3]))).toMatchObject([
        { subagent: "worker#1", text: "In the fork." },
        { subagent: "worker#2", text: "Another." },
      ]);
    },
  );

  proves(
    ["X24"],
    "are included with their descendants, and not if they started later",
    async () => {
      const leaf = part("leaf", () => says("Leaf."));
      const middle = part(
        "middle",
        [calls(spawn("leaf")), says("Middle."), calls(onward("leaf#1", "More.")), says("Again.")],
        {
          subagents: [leaf.role],
        },
      );
      const late = part("late", () => says("Late."));
      const lead = part(
        "lead",
        [
          calls(spawn("middle")),
          calls(spawn("late")),
          says("Original."),
          calls(onward("middle#1", "More.")),
          says("Forked."),
        ],
        { subagents: [middle.role, late.role] },
      );
      const s = newFixture();
      const { snapshot } = await rested(s, s.start(lead.role));
      const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 1 }));
      expect([Object.keys(rests(forked)), forked.subagentsByDepth, forked.status]).toEqual([
        ["lead", "lead/middle#1", "lead/middle#1/leaf#1"],
        { "1": 1, "2": 1 },
        "completed",
      ]);
      expect(shown(leaf, 1)).toEqual([
        "system: You are leaf.",
        "user: Work.",
        "assistant: Leaf.",
        "user: More.",
      ]);
      expect(forked.refusalsByCode).toEqual({});
    },
  );

  proves(["X24"], "count against the limits, and numbering continues", async () => {
    const worker = part("worker", () => says("Worked."));
    const lead = part(
      "lead",
      [
        calls(spawn("worker", "1"), spawn("worker", "2")),
        says("Original."),
        calls(spawn("worker", "3"), spawn("worker", "4")),
        says("Forked."),
      ],
      { subagents: [worker.role] },
    );
    const s = newFixture({ limits: { maxBreadthPerParent: 3 } });
    const { snapshot } = await rested(s, s.start(lead.role));
    const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 1 }));
    expect([Object.keys(rests(forked)), forked.refusalsByCode]).toEqual([
      ["lead", "lead/worker#1", "lead/worker#2", "lead/worker#3"],
      { breadth_limit: 1 },
    ]);
  });

  test("are not included while they are alive, and their names are not reused", async () => {
    const worker = part("worker", [calls(PAY), says("In the fork.")], { tools: [payTool()] });
    const lead = part(
      "lead",
      [
        calls(beside("worker", "1")),
        calls(use("look")),
        says("Waiting."),
        calls(spawn("worker", "2")),
        says("Forked."),
      ],
      { delegation: { background: true }, subagents: [worker.role], tools: [look] },
    );
    const s = newFixture();
    const { result, snapshot } = await rested(s, s.start(lead.role));
    expect(result.status).toBe("paused");
    const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 2 }));
    expect(rests(forked)).toEqual({ lead: "completed", "lead/worker#2": "completed" });
  });

  test("are not included if they continued after the step, and their names are not reused", async () => {
    const worker = part("worker", () => says("Worked."));
    const lead = part(
      "lead",
      [
        calls(spawn("worker", "1")),
        calls(onward("worker#1", "2")),
        says("Original."),
        calls(spawn("worker", "3")),
        says("Forked."),
      ],
      { subagents: [worker.role] },
    );
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 1 }));
    expect(Object.keys(rests(forked))).toEqual(["lead", "lead/worker#2"]);
  });

  test("are included in a fork of a fork", async () => {
    const worker = part("worker", [says("One."), says("Two.")]);
    const lead = part(
      "lead",
      [
        calls(spawn("worker", "1")),
        says("Original."),
        calls(use("look")),
        says("Fork."),
        calls(onward("worker#1", "2")),
        says("Fork of the fork."),
      ],
      { subagents: [worker.role], tools: [look] },
    );
    const s = newFixture();
    const original = await rested(s, s.start(lead.role));
    const first = await rested(s, s.fork(lead.role, original.snapshot, { atStep: 1 }));
    const result = await s.outcome(s.fork(lead.role, first.snapshot, { atStep: 1 }));
    expect([result.text, result.refusalsByCode, Object.keys(rests(result))]).toEqual([
      "Fork of the fork.",
      {},
      ["lead", "lead/worker#1"],
    ]);
  });

  test("report in the fork if the root had not read their report by the step", async () => {
    const worker = part("worker", [says("Worked.")]);
    const held = latch();
    const lead = part(
      "lead",
      [
        calls(beside("worker")),
        calls(use("hold")),
        says("Original."),
        says("Forked."),
        says("Forked and read."),
      ],
      {
        delegation: { background: true },
        subagents: [worker.role],
        tools: [tool("hold", async () => (await held.opened, "held"))],
      },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => settlements(s).length === 1);
    await quiet();
    held.open();
    const { result, snapshot } = await rested(s, run);
    expect([result.text, lead.model.requests.map(reporters)]).toEqual([
      "Original.",
      [[], [], ["worker#1"]],
    ]);
    const early = await s.outcome(s.fork(lead.role, snapshot, { atStep: 1 }));
    expect([early.status, lead.model.requests.slice(3).map(reporters)]).toEqual([
      "completed",
      [["worker#1"]],
    ]);
    const late = await s.outcome(s.fork(lead.role, snapshot, { atStep: 3, message: "More." }));
    expect([late.status, lead.model.requests.slice(4).map(reporters)]).toEqual([
      "completed",
      [["worker#1"]],
    ]);
  });

  test("do not report again if the root has read their result", async () => {
    const worker = part("worker", [says("Worked.")]);
    const lead = part(
      "lead",
      [calls(beside("worker")), calls(waitFor()), says("Original."), says("Forked.")],
      { delegation: { background: true }, subagents: [worker.role] },
    );
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 2 }));
    expect([forked.text, lead.model.requests.map(reporters).flat()]).toEqual(["Forked.", []]);
  });
});

describe("subtasks of a forked run", () => {
  test("run once in the fork if the step had queued them", async () => {
    const helper = part("helper", (request) =>
      says(`Helped with ${request.messages.at(-1)?.text ?? ""}`),
    );
    const lead = part("lead", [calls(use("plan")), says("Original."), says("Forked.")], {
      subagents: [helper.role],
      tools: [planner({ role: "helper", task: "A" }, { role: "helper", task: "B" })],
    });
    const s = newWideFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 1 }));
    const requests = lead.model.requests.map(({ messages }) =>
      messages
        .filter((message) => message.role === "user" && message.origin === "subtask")
        .map(({ text }) => text.slice(0, 70)),
    );
    expect([forked.text, requests[2]]).toEqual(["Forked.", requests[1]]);
    expect(requests[2]).toHaveLength(2);
  });

  test("do not run again if they ran before the original stopped", async () => {
    const helper = part("helper", () => says("Helped."));
    const lead = part("lead", [calls(use("plan")), says("Forked.")], {
      subagents: [helper.role],
      tools: [planner({ role: "helper", task: "A" })],
    });
    const s = newWideFixture();
    const { result, snapshot } = await rested(
      s,
      s.start(lead.role, "Do it.", { budget: { steps: 2 } }),
    );
    expect([result.status, helper.model.requests.length]).toEqual(["stopped", 1]);
    const forked = await s.outcome(s.fork(lead.role, snapshot));
    const subtasks = lead.model.requests[1]?.messages.filter(
      (message) => message.role === "user" && message.origin === "subtask",
    );
    expect([forked.text, helper.model.requests.length, subtasks?.length]).toEqual([
      "Forked.",
      1,
      1,
    ]);
  });

  proves(
    ["D516"],
    "run before the first step of the fork, which can then be paused and resumed",
    async () => {
      const helper = part("helper", () => says("Helped."));
      const pay = payTool();
      const lead = part(
        "lead",
        [calls(use("plan")), says("Original."), asks("pay", { amount: 1 }), says("Forked.")],
        { subagents: [helper.role], tools: [planner({ role: "helper", task: "A" }), pay] },
      );
      const s = newWideFixture();
      const budget = { steps: 9 };
      const { snapshot } = await rested(s, s.start(lead.role, "Do it.", { budget }));
      const paused = await s.outcome(s.fork(lead.role, snapshot, { atStep: 1 }));
      const answers = paused.questions.map((question) => approve(question));
      if (paused.pausedRun === undefined) expect.fail("It is not paused.");
      const result = await s.outcome(s.resume(lead.role, paused.pausedRun, answers));
      expect([result.status, result.text, pay.paid]).toEqual(["completed", "Forked.", [1]]);
    },
  );
});
