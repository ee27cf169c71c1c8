// Goal: an ended subagent can be continued: the same agent with its history, its account and its
// own subagents.
// Method: real runs; the model's messages are compared in full, across pauses, after every kind of
// end, in foreground and background.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { says } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  beside,
  cancel,
  onward,
  outcomes,
  reporters,
  settlements,
  waitFor,
  newWideFixture,
  write,
} from "../../support/life-agents.ts";
import {
  calls,
  listens,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const BACKGROUND = {
  delegation: { background: true, maxIdenticalDelegations: "unlimited" },
} as const;

const isMore = (input: unknown): boolean => JSON.stringify(input).includes('"continue"');

const lines = (
  request:
    | { readonly messages: readonly { readonly role: string; readonly text: string }[] }
    | undefined,
) => request?.messages.map(({ role, text }) => `${role}: ${text}`);

const finish = (value: number) => calls({ toolName: "Finish", arguments: { value } });

describe("an ended subagent", () => {
  proves(
    ["X10"],
    "continues in the foreground with its history, path, id and account",
    async () => {
      const worker = part("worker", [calls(use("look")), says("One."), says("Two.")], {
        tools: [tool("look", () => "seen")],
      });
      const lead = part(
        "lead",
        [calls(spawn("worker", "First.")), calls(onward("worker#1", "Second.")), says("Done.")],
        { subagents: [worker.role] },
      );
      const s = newFixture();
      const result = await s.run(lead.role);
      expect(lines(worker.model.requests[2])).toEqual([
        "system: You are worker.",
        "user: First.",
        "assistant: ",
        "tool: seen",
        "assistant: One.",
        "user: Second.",
      ]);
      const ids = s.sink
        .ofType("agent.started")
        .map(({ agentId, executionId, agentPath }) => [agentPath, agentId, executionId]);
      expect(ids).toEqual([
        ["lead", "agent_1", "execution_1"],
        ["lead/worker#1", "agent_2", "execution_2"],
        ["lead/worker#1", "agent_2", "execution_3"],
      ]);
      expect(s.sink.ofType("subagent.continued")).toMatchObject([
        {
          childId: "agent_2",
          childPath: "lead/worker#1",
          task: "Second.",
          isBackground: false,
          execution: 2,
        },
      ]);
      expect(settlements(s)).toEqual(["lead/worker#1 completed", "lead/worker#1 completed"]);
      expect([
        result.accounts.length,
        result.usage.total.totalTokens,
        result.subagentsByDepth,
      ]).toEqual([2, 90, { "1": 1 }]);
      expect(receivedTexts(lead.model.requests[2])).toEqual([
        '{"outcome":"completed","steps":1,"subagent":"worker#1","text":"Two.","totalTokens":45}',
      ]);
    },
  );

  proves(
    ["X10"],
    "continues in the background with a receipt and a report of its own",
    async () => {
      const worker = part("worker", [says("One."), says("Two.")]);
      const lead = part(
        "lead",
        [
          calls(spawn("worker", "First.")),
          calls(onward("worker#1", "Second.", { background: true })),
          says("Early."),
          says("Late."),
        ],
        { ...BACKGROUND, subagents: [worker.role] },
      );
      const s = newFixture();
      const result = await s.run(lead.role);
      expect([result.status, settlements(s)]).toEqual([
        "completed",
        ["lead/worker#1 completed", "lead/worker#1 completed"],
      ]);
      expect(outcomes(receivedTexts(lead.model.requests[2]))).toMatchObject([
        { status: "running", subagent: "worker#1" },
      ]);
      expect(
        lead.model.requests
          .map(reporters)
          .filter(({ length }) => length > 0)
          .at(-1),
      ).toEqual(["worker#1"]);
    },
  );

  proves(["X10"], "continues once its report was read, and each result is read once", async () => {
    const worker = part("worker", (request) =>
      says(request.messages.some(({ text }) => text === "Second.") ? "Two." : "One."),
    );
    const pause = latch();
    const lead = part(
      "lead",
      [
        calls(beside("worker", "First.")),
        { ...calls(use("look")), after: pause.opened },
        calls(onward("worker#1", "Second.", { background: true })),
        says("Early."),
        says("Late."),
      ],
      { ...BACKGROUND, subagents: [worker.role], tools: [tool("look", () => "seen")] },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => settlements(s).length === 1);
    pause.open();
    const result = await s.outcome(run);
    expect([result.text, settlements(s).length]).toEqual(["Late.", 2]);
    const reports = lead.model.requests
      .at(-1)
      ?.messages.filter(({ text }) => text.includes("in the background, has ended"));
    expect(reports?.map(({ text }) => /"text":"([^"]*)"/u.exec(text)?.[1])).toEqual([
      "One.",
      "Two.",
    ]);
  });

  test("is refused a continuation until its report was read, so no result is lost", async () => {
    const worker = part("worker", [says("One."), says("Two.")]);
    const held = latch();
    const lead = part(
      "lead",
      [
        calls(beside("worker", "First.")),
        calls(use("hold"), onward("worker#1", "Second.", { background: true })),
        calls(onward("worker#1", "Second.", { background: true })),
        says("Early."),
        says("Late."),
      ],
      {
        ...BACKGROUND,
        subagents: [worker.role],
        tools: [tool("hold", async () => (await held.opened, "held"))],
        guards: [
          toolGuard(async (call) => {
            if (isMore(call.arguments)) await held.opened;
            return { type: "allow" };
          }),
        ],
      },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => settlements(s).length === 1);
    await quiet();
    held.open();
    const result = await s.outcome(run);
    expect([result.status, settlements(s).length]).toEqual(["completed", 2]);
    expect(receivedTexts(lead.model.requests[2])[1]).toContain("you have not read its result yet");
  });

  test("continues several times with one report each", async () => {
    const worker = part("worker", () => says("More."));
    const replies = [2, 3, 4, 5].map((n) => calls(onward("worker#1", `Task ${n}.`)));
    const lead = part("lead", [calls(spawn("worker", "Task 1.")), ...replies, says("Done.")], {
      subagents: [worker.role],
    });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([
      result.agents[1]?.executionCount,
      result.subagentsByDepth,
      settlements(s).length,
    ]).toEqual([5, { "1": 1 }, 5]);
    expect(
      worker.model.requests
        .at(-1)
        ?.messages.filter(({ role }) => role === "user")
        .map(({ text }) => text),
    ).toEqual([1, 2, 3, 4, 5].map((n) => `Task ${n}.`));
  });

  describe("cannot be continued with", () => {
    const draft = { instructions: "You are another." };
    const asked: Readonly<Record<string, readonly [object, code: string, text: string]>> = {
      "a new role": [
        { newRole: draft },
        "invalid_role",
        'Not continued: worker#1 (lead/worker#1) keeps its role "worker". Call again without newRole, or start another subagent with it, without continue.',
      ],
      "another role": [
        { role: "helper" },
        "invalid_role",
        'Not continued: worker#1 (lead/worker#1) has the role "worker", not "helper". Call again with its own role, or start another subagent, without continue.',
      ],
      "results of others": [
        { includeResultsFrom: ["worker#2"] },
        "context_policy_failed",
        "Not continued: results of other subagents are passed only to a new subagent. Call again without includeResultsFrom and write into the task what worker#1 (lead/worker#1) has to know.",
      ],
    };
    for (const [what, [more, code, text]] of Object.entries(asked)) {
      proves(["S7.26"], what, async () => {
        const worker = part("worker", [says("One."), says("Other."), says("Two.")]);
        const helper = part("helper", []);
        const lead = part(
          "lead",
          [
            calls(spawn("worker", "First."), spawn("worker", "Other.")),
            calls(onward("worker#1", "Second.", more)),
            calls(onward("worker#1", "Second.")),
            says("Done."),
          ],
          {
            subagents: [worker.role, helper.role],
            dynamicRoles: { models: { small: worker.model } },
          },
        );
        const s = newFixture();
        const result = await s.run(lead.role);
        expect(receivedTexts(lead.model.requests[2])).toEqual([text]);
        expect(result.refusalsByCode).toEqual({ [code]: 1 });
        expect(outcomes(receivedTexts(lead.model.requests[3]))).toMatchObject([{ text: "Two." }]);
        expect(result.agents[1]?.executionCount).toBe(2);
      });
    }
  });

  test("is refused a second continuation in one reply while it runs", async () => {
    const worker = part("worker", [says("One."), says("Two.")]);
    const lead = part(
      "lead",
      [
        calls(spawn("worker", "First.")),
        calls(onward("worker#1", "Second."), onward("worker#1", "Third.")),
        says("Done."),
      ],
      { subagents: [worker.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([receivedTexts(lead.model.requests[2])[1], result.refusalsByCode]).toEqual([
      "Not continued: worker#1 (lead/worker#1) has not ended. Wait for its result, or write to it while it runs.",
      { subagent_running: 1 },
    ]);
  });

  test("continues after a failure, a limit, a cancellation and a cut-off reply", async () => {
    const worker = part(
      "worker",
      [
        { error: new Error("gone") },
        says("After the failure."),
        { text: "I", finishReason: "length" },
        says("After the cut."),
        calls(use("listen")),
        says("After the cancellation."),
      ],
      { tools: [listens("listen")] },
    );
    const lead = part(
      "lead",
      [
        calls(spawn("worker", "1")),
        calls(onward("worker#1", "2")),
        calls(onward("worker#1", "3")),
        calls(onward("worker#1", "4")),
        calls(onward("worker#1", "5", { background: true })),
        calls(cancel("worker#1", "Not needed.")),
        calls(onward("worker#1", "6")),
        says("Done."),
      ],
      { ...BACKGROUND, subagents: [worker.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([result.status, settlements(s).map((text) => text.split(" ")[1])]).toEqual([
      "completed",
      ["failed", "completed", "partial", "completed", "cancelled", "completed"],
    ]);
    expect(lines(worker.model.requests.at(-1))).toEqual([
      "system: You are worker.",
      "user: 1",
      "user: 2",
      "assistant: After the failure.",
      "user: 3",
      "assistant: I",
      "user: 4",
      "assistant: After the cut.",
      "user: 5",
      "assistant: ",
      expect.stringMatching(/^tool: /u),
      "user: 6",
    ]);
    expect(result.agents[1]?.executionCount).toBe(6);
  });

  test("returns a typed result from each execution", async () => {
    const worker = part("worker", [finish(1), finish(2)], {
      output: z.object({ value: z.number() }),
    });
    const lead = part(
      "lead",
      [calls(spawn("worker", "First.")), calls(onward("worker#1", "Second.")), says("Done.")],
      { subagents: [worker.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(outcomes(receivedTexts(lead.model.requests[2]))).toEqual([
      { outcome: "completed", output: { value: 2 }, subagent: "worker#1" },
    ]);
    expect(result.agents[1]?.output).toEqual({ value: 2 });
  });

  test("may return its typed result in a later execution if the first one failed", async () => {
    const worker = part(
      "worker",
      [says("no"), says("no"), says("no"), calls({ toolName: "Finish", arguments: { value: 3 } })],
      { output: z.object({ value: z.number() }) },
    );
    const lead = part(
      "lead",
      [calls(spawn("worker", "First.")), calls(onward("worker#1", "Second.")), says("Done.")],
      { subagents: [worker.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([settlements(s), result.agents[1]?.output]).toEqual([
      ["lead/worker#1 failed", "lead/worker#1 completed"],
      { value: 3 },
    ]);
  });
});

test("a message reaches the second execution of a subagent", async () => {
  const hold = latch();
  const worker = part(
    "worker",
    (request) => {
      const last = request.messages.at(-1)?.text;
      if (last === "Second.") return calls(use("hold"));
      return says(request.messages.some(({ text }) => text === "Hurry.") ? "Hurried." : "One.");
    },
    { tools: [tool("hold", async () => (await hold.opened, "held"))] },
  );
  const lead = part(
    "lead",
    [
      calls(spawn("worker", "First.")),
      calls(onward("worker#1", "Second.", { background: true })),
      calls(write("worker#1", "Hurry.")),
      () => (hold.open(), calls(waitFor("worker#1"))),
      says("Done."),
    ],
    { ...BACKGROUND, subagents: [worker.role] },
  );
  const s = newWideFixture();
  const result = await s.run(lead.role);
  expect([result.text, outcomes(receivedTexts(lead.model.requests[4]))]).toEqual([
    "Done.",
    [{ outcome: "completed", subagent: "worker#1", text: "Hurried." }],
  ]);
});
