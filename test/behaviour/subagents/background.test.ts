// Goal: a background subagent returns a receipt at once and its result as a message, and its parent
// may manage it meanwhile.
// Method: real runs with scripted models and latches; requests and results compared in full.

import { describe, expect, test } from "vitest";
import { says } from "../../../src/testing/scripted-model.ts";
import type { ScriptedCall } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  calls,
  listens,
  part,
  quiet,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const BACKGROUND = { delegation: { background: true } } as const;

function beside(role: string, task = "Work."): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { role, task, background: true } };
}

function verb(name: string, input: object = {}): ScriptedCall {
  return { toolName: name, arguments: input };
}

const RECEIPT =
  '{"note":"It runs in the background. Its result will arrive as a message.","status":"running","subagent":"worker#1"}';

const RESULT =
  '{"outcome":"completed","steps":1,"subagent":"worker#1","text":"Worked.","totalTokens":15}';

const REPORT = `worker#1, which ran in the background, has ended. Its result: ${RESULT}`;

describe("a background subagent", () => {
  proves(
    ["X10"],
    "returns a receipt at once, and its result arrives with the parent's next request after its end",
    async () => {
      const done = latch();
      const worker = part("worker", [says("Worked.", { after: done.opened })]);
      const pause = latch();
      const lead = part(
        "lead",
        [calls(beside("worker")), { ...calls(use("look")), after: pause.opened }, says("Done.")],
        { ...BACKGROUND, subagents: [worker.role], tools: [tool("look", () => "seen")] },
      );
      const s = newFixture();
      const run = s.start(lead.role);
      await until(() => lead.model.requests.length === 2);
      expect(receivedTexts(lead.model.requests[1])).toEqual([RECEIPT]);
      done.open();
      await until(() => s.sink.ofType("subagent.ended").length === 1);
      pause.open();
      const result = await s.outcome(run);
      expect([result.status, result.text]).toEqual(["completed", "Done."]);
      expect(lead.model.requests[2]?.messages.slice(-3)).toMatchObject([
        { role: "assistant" },
        { role: "tool", text: "seen" },
        { role: "user", origin: "report", text: REPORT },
      ]);
    },
  );

  proves(["X9"], "keeps its parent from ending, which then reads the report", async () => {
    const done = latch();
    const worker = part("worker", [says("Worked.", { after: done.opened })]);
    const lead = part("lead", [calls(beside("worker")), says("Early."), says("Late.")], {
      ...BACKGROUND,
      subagents: [worker.role],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => lead.model.requests.length === 2);
    await quiet();
    expect(s.sink.ofType("agent.ended")).toEqual([]);
    done.open();
    const result = await s.outcome(run);
    expect(result.text).toBe("Late.");
    expect(receivedTexts(lead.model.requests[2])).toEqual([REPORT]);
  });

  proves(
    ["X9"],
    'is cancelled before its parent ends with `parentEndPolicy: "cancel"`',
    async () => {
      const worker = part("worker", [calls(use("listen")), says("Never.")], {
        tools: [listens("listen")],
      });
      const lead = part("lead", [calls(beside("worker")), says("Done.")], {
        delegation: { background: true, parentEndPolicy: "cancel" },
        subagents: [worker.role],
      });
      const s = newFixture();
      const result = await s.run(lead.role);
      expect(result.agents.map(({ agentPath, status }) => [agentPath, status])).toEqual([
        ["lead", "completed"],
        ["lead/worker#1", "cancelled"],
      ]);
      expect(s.sink.ofType("agent.ended").map(({ agentPath }) => agentPath)).toEqual([
        "lead/worker#1",
        "lead",
      ]);
    },
  );

  proves(
    ["X9"],
    'outlives its parent with `parentEndPolicy: "detach"`, and the run settles after it',
    async () => {
      const done = latch();
      const worker = part("worker", [says("Worked.", { after: done.opened })]);
      const lead = part("lead", [calls(beside("worker")), says("Done.")], {
        delegation: { background: true, parentEndPolicy: "detach" },
        subagents: [worker.role],
      });
      const s = newFixture();
      const run = s.start(lead.role);
      const early = await run.result;
      expect([early.status, early.agents.map(({ agentPath }) => agentPath)]).toEqual([
        "completed",
        ["lead"],
      ]);
      expect(early.detached.map(({ agentId }) => agentId)).toEqual(["agent_2"]);
      done.open();
      const result = await s.outcome(run);
      expect(result.agents.map(({ agentPath, status }) => [agentPath, status])).toEqual([
        ["lead", "completed"],
        ["lead/worker#1", "completed"],
      ]);
      expect(result.usage.total.totalTokens).toBe(45);
    },
  );
});

describe("a parent of working background subagents", () => {
  proves(["X10"], "can list them, write to them, wait for them and cancel them", async () => {
    const first = latch();
    const worker = part(
      "worker",
      (request) => {
        const isFirst = request.messages.some(({ text }) => text === "First.");
        const hasRead = request.messages.some(({ text }) => text === "Hurry.");
        if (!isFirst) return calls(use("listen"));
        return hasRead ? says("Hurried.") : calls(use("wait"));
      },
      { tools: [listens("listen"), tool("wait", async () => (await first.opened, "waited"))] },
    );
    const lead = part(
      "lead",
      [
        calls(beside("worker", "First."), beside("worker", "Second.")),
        calls(verb("ListSubagents")),
        calls(verb("MessageSubagent", { subagent: "worker#1", message: "Hurry." })),
        () => (first.open(), calls(verb("WaitForSubagents", { subagents: ["worker#1"] }))),
        calls(verb("CancelSubagent", { subagent: "worker#2", reason: "Not needed." })),
        calls(
          verb("MessageSubagent", { subagent: "worker#1", message: "Too late." }),
          verb("CancelSubagent", { subagent: "worker#3" }),
          verb("WaitForSubagents"),
        ),
        says("Done."),
      ],
      { ...BACKGROUND, subagents: [worker.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(result.status).toBe("completed");
    const answers = lead.model.requests.map((request) => receivedTexts(request)).slice(2);
    expect(answers).toMatchInlineSnapshot(`
      [
        [
          "[{"role":"worker","status":"running","subagent":"worker#1","task":"First.","totalTokens":15},{"role":"worker","status":"running","subagent":"worker#2","task":"Second.","totalTokens":15}]",
        ],
        [
          "worker#1 will read it before its next step, if it takes one.",
        ],
        [
          "{"outcome":"completed","steps":2,"subagent":"worker#1","text":"Hurried.","totalTokens":30}",
        ],
        [
          "{"explanation":"Not needed.","outcome":"cancelled","reason":"cancelled","steps":1,"subagent":"worker#2","text":"","totalTokens":15}",
        ],
        [
          "Not done: worker#1 (lead/worker#1) has ended (completed). To give it another task, call SpawnSubagent with "continue": "worker#1".",
          "Not done: lead has no subagent "worker#3". Yours are: worker#1, worker#2.",
          "None of your subagents is running.",
        ],
      ]
    `);
  });

  proves(["X10"], "stops waiting after `timeoutSeconds`", async () => {
    const done = latch();
    const worker = part("worker", [says("Worked.", { after: done.opened })]);
    const lead = part(
      "lead",
      [
        calls(beside("worker")),
        calls(verb("WaitForSubagents", { timeoutSeconds: 2 })),
        () => (done.open(), calls(verb("WaitForSubagents"))),
        says("Done."),
      ],
      { ...BACKGROUND, subagents: [worker.role] },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => s.clock.pendingTimers === 1);
    s.clock.advance(2_000);
    const result = await s.outcome(run);
    expect(lead.model.requests.slice(2).map(receivedTexts)).toEqual([
      ['{"status":"running","subagent":"worker#1"}'],
      [RESULT],
    ]);
    expect(result.text).toBe("Done.");
  });

  proves(
    ["X10"],
    "an ended subagent continues with its history, under the same id and account",
    async () => {
      const worker = part("worker", [says("One."), says("Two.")], { budget: { steps: 2 } });
      const lead = part(
        "lead",
        [
          calls({ toolName: "SpawnSubagent", arguments: { role: "worker", task: "First." } }),
          calls({
            toolName: "SpawnSubagent",
            arguments: { role: "worker", task: "Second.", continue: "worker#1" },
          }),
          calls({
            toolName: "SpawnSubagent",
            arguments: { role: "worker", task: "Third.", continue: "worker#1" },
          }),
          says("Done."),
        ],
        { subagents: [worker.role] },
      );
      const s = newFixture({ limits: { maxTotalSubagents: 1 } });
      const result = await s.run(lead.role);
      expect(worker.model.requests[1]?.messages.map(({ role, text }) => [role, text])).toEqual([
        ["system", "You are worker."],
        ["user", "First."],
        ["assistant", "One."],
        ["user", "Second."],
      ]);
      expect(
        result.agents.map(({ agentPath, status, executionCount: executions }) => [
          agentPath,
          status,
          executions,
        ]),
      ).toEqual([
        ["lead", "completed", 1],
        ["lead/worker#1", "stopped", 3],
      ]);
      expect(result.subagentsByDepth).toEqual({ "1": 1 });
      expect(receivedTexts(lead.model.requests[3])).toMatchObject([
        expect.stringContaining("step_limit"),
      ]);
    },
  );
});

test("cancelling a parent cancels its background subagents, leaves first", async () => {
  const leaf = part("leaf", [calls(use("listen")), says("Never.")], { tools: [listens("listen")] });
  const worker = part("worker", [calls(beside("leaf")), calls(use("listen")), says("Never.")], {
    ...BACKGROUND,
    subagents: [leaf.role],
    tools: [listens("listen")],
  });
  const lead = part("lead", [calls(beside("worker")), calls(use("listen")), says("Never.")], {
    ...BACKGROUND,
    subagents: [worker.role],
    tools: [listens("listen")],
  });
  const s = newFixture();
  const run = s.start(lead.role);
  await until(
    () =>
      s.sink.ofType("tool.started").filter(({ toolName }) => toolName === "listen").length === 3,
  );
  void run.cancel("Enough.");
  const result = await s.outcome(run);
  expect(s.sink.ofType("agent.ended").map(({ agentPath, status }) => [agentPath, status])).toEqual([
    ["lead/worker#1/leaf#1", "cancelled"],
    ["lead/worker#1", "cancelled"],
    ["lead", "cancelled"],
  ]);
  expect(result.status).toBe("cancelled");
});

describe("a paused run with background subagents", () => {
  test("resumes active subagents, and reports subagents that ended before the pause", async () => {
    const held = latch();
    const slow = part("slow", [{ ...calls(use("look")), after: held.opened }, says("Slow.")], {
      tools: [tool("look", () => "seen")],
    });
    const quick = part("quick", [says("Quick.")]);
    const wait = latch();
    const lead = part(
      "lead",
      [
        calls(beside("slow"), beside("quick")),
        { ...calls(use("look")), after: wait.opened },
        says("Early."),
        says("Late."),
      ],
      { ...BACKGROUND, subagents: [slow.role, quick.role], tools: [tool("look", () => "seen")] },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => s.sink.ofType("subagent.ended").length === 1);
    run.requestPause();
    held.open();
    wait.open();
    const paused = await s.outcome(run);
    expect([paused.status, paused.agents.map(({ status }) => status)]).toEqual([
      "paused",
      ["paused", "paused", "completed"],
    ]);
    const result = await s.outcome(s.resume(lead.role, paused.pausedRun));
    expect([result.status, result.text]).toEqual(["completed", "Late."]);
    const requests = lead.model.requests.map((request) =>
      receivedTexts(request).filter((text) => text.includes("background, has")),
    );
    expect(requests.map((texts) => texts.map((text) => text.slice(0, 7)))).toEqual([
      [],
      [],
      ["quick#1"],
      ["slow#1,"],
    ]);
  });
});
