// Goal: a continued subagent still has its own subagents, and continues across pauses like any
// other. Impossible continuations are refused.
// Method: real runs; the model's messages, the live agents and the usage compared in full.

import { describe, expect, test } from "vitest";
import { approve } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import {
  beside,
  cancel,
  endings,
  list,
  onward,
  rests,
  settlements,
  waitFor,
} from "../../support/life-agents.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import {
  calls,
  listens,
  part,
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

const asksBeforeMore = toolGuard((call) =>
  isMore(call.arguments) ? { type: "ask", reason: "Once more?" } : { type: "allow" },
);

const PAY = { toolName: "pay", arguments: { amount: 1 } };

const lines = (
  request:
    | { readonly messages: readonly { readonly role: string; readonly text: string }[] }
    | undefined,
) => request?.messages.map(({ role, text }) => `${role}: ${text}`);

describe("subagents of a continued subagent", () => {
  proves(["X10"], "can be reached by name and continue with their history", async () => {
    const leaf = part("leaf", [says("L1."), says("L2.")]);
    const middle = part(
      "middle",
      [
        calls(spawn("leaf", "Leaf first.")),
        says("M1."),
        calls(list()),
        calls(onward("leaf#1", "Leaf second.")),
        says("M2."),
      ],
      { ...BACKGROUND, subagents: [leaf.role] },
    );
    const lead = part(
      "lead",
      [calls(spawn("middle", "First.")), calls(onward("middle#1", "Second.")), says("Done.")],
      { subagents: [middle.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(receivedTexts(middle.model.requests[3])).toEqual([
      '[{"role":"leaf","status":"completed","subagent":"leaf#1","task":"Leaf first.","totalTokens":15}]',
    ]);
    expect([result.status, rests(result), result.refusalsByCode]).toEqual([
      "completed",
      { lead: "completed", "lead/middle#1": "completed", "lead/middle#1/leaf#1": "completed" },
      {},
    ]);
    expect(result.agents.map(({ executionCount: executions }) => executions)).toEqual([1, 2, 2]);
    expect(result.usage.total.totalTokens).toBe(15 * 10);
  });

  test("keep counting: names and limits continue where they were", async () => {
    const leaf = part("leaf", () => says("Leaf."));
    const middle = part(
      "middle",
      [
        calls(spawn("leaf", "a"), spawn("leaf", "b")),
        says("M1."),
        calls(spawn("leaf", "c"), spawn("leaf", "d")),
        says("M2."),
      ],
      { subagents: [leaf.role] },
    );
    const lead = part(
      "lead",
      [calls(spawn("middle", "First.")), calls(onward("middle#1", "Second.")), says("Done.")],
      { subagents: [middle.role] },
    );
    const s = newFixture({ limits: { maxBreadthPerParent: 3 } });
    const result = await s.run(lead.role);
    expect(Object.keys(rests(result))).toEqual([
      "lead",
      "lead/middle#1",
      "lead/middle#1/leaf#1",
      "lead/middle#1/leaf#2",
      "lead/middle#1/leaf#3",
    ]);
    expect([result.refusalsByCode, result.subagentsByDepth]).toEqual([
      { breadth_limit: 1 },
      { "1": 1, "2": 3 },
    ]);
  });

  test("are cancelled with the tree although an earlier execution started them", async () => {
    const leaf = part("leaf", [says("L1."), calls(use("listen"))], { tools: [listens("listen")] });
    const middle = part(
      "middle",
      [calls(spawn("leaf", "1")), says("M1."), calls(onward("leaf#1", "2")), says("Never.")],
      { subagents: [leaf.role] },
    );
    const lead = part(
      "lead",
      [calls(spawn("middle", "First.")), calls(onward("middle#1", "Second.")), says("Never.")],
      { subagents: [middle.role] },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => s.sink.ofType("tool.started").some(({ toolName }) => toolName === "listen"));
    void run.cancel("Enough.");
    const result = await s.outcome(run);
    expect([endings(s).slice(-3), rests(result)]).toEqual([
      ["lead/middle#1/leaf#1", "lead/middle#1", "lead"],
      {
        lead: "cancelled (cancelled)",
        "lead/middle#1": "cancelled (cancelled)",
        "lead/middle#1/leaf#1": "cancelled (cancelled)",
      },
    ]);
  });

  test("are known to the second execution if the first detached them, which can cancel them", async () => {
    const leaf = part("leaf", () => calls(use("listen")), { tools: [listens("listen")] });
    const middle = part(
      "middle",
      [
        calls(beside("leaf", "1")),
        says("M1."),
        calls(list()),
        calls(cancel("leaf#1")),
        says("M2."),
      ],
      { delegation: { background: true, parentEndPolicy: "detach" }, subagents: [leaf.role] },
    );
    const lead = part(
      "lead",
      [calls(spawn("middle", "First.")), calls(onward("middle#1", "Second.")), says("Done.")],
      { subagents: [middle.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([result.status, rests(result)["lead/middle#1/leaf#1"], settlements(s)]).toEqual([
      "completed",
      "cancelled (cancelled)",
      ["lead/middle#1 completed", "lead/middle#1/leaf#1 cancelled", "lead/middle#1 completed"],
    ]);
  });
});

describe("continuing across a pause", () => {
  proves(
    ["X10"],
    "continues a subagent that ended before the pause, in a fresh orchestrator",
    async () => {
      const worker = part("worker", [calls(use("look")), says("One."), says("Two.")], {
        tools: [tool("look", () => "seen")],
      });
      const lead = part(
        "lead",
        [
          calls(spawn("worker", "First.")),
          calls(PAY),
          calls(onward("worker#1", "Second.")),
          says("Done."),
        ],
        { subagents: [worker.role], tools: [payTool()] },
      );
      const s = newFixture();
      const paused = await s.outcome(s.start(lead.role));
      const result = await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
      expect([result.status, result.agents[1]?.executionCount]).toEqual(["completed", 2]);
      expect(lines(worker.model.requests[2])).toEqual([
        "system: You are worker.",
        "user: First.",
        "assistant: ",
        "tool: seen",
        "assistant: One.",
        "user: Second.",
      ]);
    },
  );

  proves(["X10"], "pauses and resumes a second execution like a first one", async () => {
    for (const more of [{}, { background: true }]) {
      const pay = payTool();
      const worker = part("worker", [says("One."), calls(PAY), says("Two.")], { tools: [pay] });
      const lead = part(
        "lead",
        [
          calls(spawn("worker", "First.")),
          calls(onward("worker#1", "Second.", more)),
          says("Early."),
          says("Late."),
        ],
        { ...BACKGROUND, subagents: [worker.role] },
      );
      const s = newFixture();
      const paused = await s.outcome(s.start(lead.role));
      expect(paused.questions.map(({ agentPath }) => agentPath)).toEqual(["lead/worker#1"]);
      const result = await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
      expect([result.status, pay.paid, result.agents[1]?.executionCount, settlements(s)]).toEqual([
        "completed",
        [1],
        2,
        ["lead/worker#1 completed", "lead/worker#1 completed"],
      ]);
    }
  });

  test("runs a continuation once it is approved", async () => {
    const worker = part("worker", [says("One."), says("Two.")]);
    const lead = part(
      "lead",
      [
        calls(spawn("worker", "First.")),
        calls(onward("worker#1", "Second.", { background: true })),
        says("Early."),
        says("Late."),
      ],
      {
        ...BACKGROUND,
        subagents: [worker.role],
        guards: [asksBeforeMore],
      },
    );
    const s = newFixture();
    const paused = await s.outcome(s.start(lead.role));
    const result = await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
    expect([result.status, settlements(s).length]).toEqual(["completed", 2]);
  });

  test("refuses an approved continuation whose result another call of the reply is waiting for", async () => {
    const worker = part("worker", [says("One."), calls(use("listen"))], {
      tools: [listens("listen")],
    });
    const lead = part(
      "lead",
      [
        calls(beside("worker", "First.")),
        calls(waitFor("worker#1"), onward("worker#1", "Second.", { background: true })),
        says("Done."),
      ],
      {
        delegation: { background: true, parentEndPolicy: "cancel" },
        subagents: [worker.role],
        guards: [asksBeforeMore],
      },
    );
    const s = newFixture();
    const paused = await s.outcome(s.start(lead.role));
    expect(paused.status).toBe("paused");
    const [question] = paused.questions;
    if (question === undefined) expect.fail("no question");
    const result = await s.outcome(s.resume(lead.role, paused.pausedRun, [approve(question)]));
    expect([result.status, settlements(s), endings(s).at(-1)]).toEqual([
      "completed",
      ["lead/worker#1 completed"],
      "lead",
    ]);
    expect(receivedTexts(lead.model.requests[2])).toEqual([
      expect.stringContaining('"text":"One."'),
      "Not continued: another call of the same reply gives you the result of worker#1 (lead/worker#1). Read it first, and continue it then.",
    ]);
  });
});

describe("an impossible continuation", () => {
  test("is refused with advice if the subagent is unknown or still running", async () => {
    const worker = part("worker", [calls(use("listen"))], { tools: [listens("listen")] });
    const lead = part(
      "lead",
      [
        calls(onward("worker#1", "More.")),
        calls(beside("worker", "First.")),
        calls(onward("worker#1", "More."), onward("worker", "More."), onward("lead", "More.")),
        says("Done."),
      ],
      { delegation: { background: true, parentEndPolicy: "cancel" }, subagents: [worker.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(receivedTexts(lead.model.requests[1])).toEqual([
      'Not done: lead has no subagent "worker#1". You have started none.',
    ]);
    expect(receivedTexts(lead.model.requests[3])).toEqual([
      "Not continued: worker#1 (lead/worker#1) has not ended. Wait for its result, or write to it while it runs.",
      'Not done: lead has no subagent "worker". Yours are: worker#1.',
      'Not done: lead has no subagent "lead". Yours are: worker#1.',
    ]);
    expect(result.refusalsByCode).toEqual({ unknown_subagent: 3, subagent_running: 1 });
  });

  test("is refused for a subagent of another parent", async () => {
    const leaf = part("leaf", () => says("Leaf."));
    const middle = part("middle", [calls(spawn("leaf")), says("Middle.")], {
      subagents: [leaf.role],
    });
    const lead = part(
      "lead",
      [
        calls(spawn("middle")),
        calls(onward("leaf#1", "More."), onward("middle#1/leaf#1", "More.")),
        says("Done."),
      ],
      { subagents: [middle.role, leaf.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(result.refusalsByCode).toEqual({ unknown_subagent: 2 });
  });

  test("is stopped if the subagent has no budget left, and the others continue", async () => {
    const worker = part("worker", [says("One.")], { budget: { steps: 1 } });
    const lead = part(
      "lead",
      [calls(spawn("worker", "1")), calls(onward("worker#1", "2")), says("Done.")],
      { subagents: [worker.role] },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([result.status, settlements(s)]).toEqual([
      "completed",
      ["lead/worker#1 completed", "lead/worker#1 no_output"],
    ]);
  });

  test("is refused if the tree has no budget left", async () => {
    const worker = part("worker", [says("One.")]);
    const lead = part(
      "lead",
      [calls(spawn("worker", "1")), calls(onward("worker#1", "2")), says("Done.")],
      {
        subagents: [worker.role],
        budget: { steps: 4 },
        delegation: { reserve: { steps: 1 } },
      },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([result.text, result.refusalsByCode]).toEqual(["Done.", { budget_exhausted: 1 }]);
    expect(receivedTexts(lead.model.requests[2])[0]).toContain("reserved for the answer of lead");
  });
});
