// Goal: questions of background subagents reach the root with their paths while their parent
// continues. Each is answered once, for the agent that asked, in a process that knows only the
// stored run.
// Method: real runs that are paused and resumed in fresh orchestrators. Questions, answers and
// executions are compared in full.

import { describe, expect, test } from "vitest";

import { approve, deny } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  beside,
  cancel,
  list,
  onward,
  outcomes,
  reporters,
  rests,
  settlements,
  waitFor,
  write,
} from "../../support/life-agents.ts";
import { approveAll, asked, payTool, questionOf, refusalOf } from "../../support/pause-stories.ts";
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

const BACKGROUND = { delegation: { background: true } } as const;
const pays = (amount: number) => calls({ toolName: "pay", arguments: { amount } });
const look = tool("look", () => "seen");

describe("a background child that needs an approval", () => {
  proves(
    ["R149", "X10"],
    "does not block its parent, and the run pauses once no other work is left",
    async () => {
      const pay = payTool();
      const worker = part("worker", [pays(7), says("Paid.")], { tools: [pay] });
      const lead = part(
        "lead",
        [
          calls(beside("worker")),
          calls(use("look")),
          calls(use("look")),
          says("Early."),
          says("Late."),
        ],
        { ...BACKGROUND, subagents: [worker.role], tools: [look] },
      );
      const s = newFixture();
      const run = s.start(lead.role);
      const paused = await s.outcome(run);
      expect([paused.status, asked(paused), lead.model.requests.length, pay.paid]).toEqual([
        "paused",
        [["lead/worker#1", "pay"]],
        4,
        [],
      ]);
      expect(rests(paused)).toEqual({
        lead: "paused (input_required)",
        "lead/worker#1": "paused (input_required)",
      });
      const result = await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
      expect([result.text, pay.paid, reporters(lead.model.requests[4]), settlements(s)]).toEqual([
        "Late.",
        [7],
        ["worker#1"],
        ["lead/worker#1 completed"],
      ]);
      const again = refusalOf(() => s.resume(lead.role, result.pausedRun, approveAll(paused)));
      expect(again[0]).toBe("invalid_paused_run");
      expect(s.sink.ofType("question.answered").length).toBe(1);
    },
  );

  proves(
    ["R149"],
    "asks together with a sibling and a grandchild, and each answer is used once by the agent that asked",
    async () => {
      const pay = payTool();
      const leaf = part("leaf", [pays(3), says("Leaf.")], { tools: [pay] });
      const boss = part(
        "boss",
        [calls(beside("leaf")), pays(2), says("Boss early."), says("Boss.")],
        {
          ...BACKGROUND,
          subagents: [leaf.role],
          tools: [pay],
        },
      );
      const worker = part("worker", [pays(1), says("Worker.")], { tools: [pay] });
      const lead = part(
        "lead",
        [calls(beside("worker"), beside("boss")), says("Early."), says("Late.")],
        {
          ...BACKGROUND,
          subagents: [worker.role, boss.role],
        },
      );
      const s = newFixture();
      const paused = await s.outcome(s.start(lead.role));
      expect(asked(paused)).toEqual([
        ["lead/worker#1", "pay"],
        ["lead/boss#1", "pay"],
        ["lead/boss#1/leaf#1", "pay"],
      ]);
      const answers = [
        approve(questionOf(paused, 2)),
        deny(questionOf(paused, 1), "Not the boss."),
        approve(questionOf(paused, 0), { arguments: { amount: 10 } }),
      ];
      const result = await s.outcome(s.resume(lead.role, paused.pausedRun, answers));
      expect([rests(result), pay.paid.toSorted((one, two) => one - two)]).toEqual([
        {
          lead: "completed",
          "lead/worker#1": "completed",
          "lead/boss#1": "completed",
          "lead/boss#1/leaf#1": "completed",
        },
        [3, 10],
      ]);
      expect(settlements(s).toSorted()).toEqual([
        "lead/boss#1 completed",
        "lead/boss#1/leaf#1 completed",
        "lead/worker#1 completed",
      ]);
    },
  );

  test("pauses the run once for each of its questions, and reports once", async () => {
    const pay = payTool();
    const worker = part("worker", [pays(1), pays(2), pays(3), says("Paid.")], { tools: [pay] });
    const lead = part("lead", [calls(beside("worker")), says("Early."), says("Late.")], {
      ...BACKGROUND,
      subagents: [worker.role],
    });
    const s = newFixture();
    let result = await s.outcome(s.start(lead.role));
    while (result.status === "paused")
      result = await s.outcome(s.resume(lead.role, result.pausedRun, approveAll(result)));
    expect([
      result.text,
      pay.paid,
      s.sink.ofType("run.paused").length,
      lead.model.requests.length,
    ]).toEqual(["Late.", [1, 2, 3], 3, 3]);
  });

  test("lets a working sibling run to its end, and both reports are read after the pause", async () => {
    const held = latch();
    const asking = part("asking", [pays(1), says("Paid.")], { tools: [payTool()] });
    const slow = part("slow", [says("Slow.", { after: held.opened })]);
    const lead = part(
      "lead",
      [calls(beside("asking"), beside("slow")), says("Early."), says("Late."), says("Last.")],
      {
        ...BACKGROUND,
        subagents: [asking.role, slow.role],
      },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => s.sink.ofType("agent.paused").length === 1);
    await quiet();
    expect(s.sink.ofType("run.paused")).toEqual([]);
    held.open();
    const paused = await s.outcome(run);
    const result = await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
    expect([result.status, rests(result)["lead/slow#1"]]).toEqual(["completed", "completed"]);
    const reports = lead.model.requests
      .at(-1)
      ?.messages.filter((message) => message.role === "user" && message.origin === "report");
    expect(reports?.map(({ text }) => text.slice(0, text.indexOf(","))).toSorted()).toEqual([
      "asking#1",
      "slow#1",
    ]);
  });
});

const setUp = (...verbs: readonly ReturnType<typeof list>[]) => {
  const pay = payTool();
  const worker = part("worker", [pays(1), says("Paid.")], { tools: [pay] });
  const settledFirst = tool("settle", async () => {
    await until(() => s.sink.ofType("agent.paused").length === 1);
    return "settled";
  });
  const lead = part(
    "lead",
    [calls(beside("worker")), calls(use("settle")), calls(...verbs), says("Early."), says("Late.")],
    { ...BACKGROUND, subagents: [worker.role], tools: [settledFirst] },
  );
  const s = newFixture();
  return { s, lead, pay };
};

describe("a parent whose background child is paused", () => {
  test("lists it, waits without blocking, and learns that it cannot be written to or continued", async () => {
    const { s, lead } = setUp(
      list(),
      waitFor(),
      waitFor("worker#1"),
      write("worker#1", "Hurry."),
      onward("worker#1", "More."),
    );
    const paused = await s.outcome(s.start(lead.role));
    expect(paused.status).toBe("paused");
    expect(receivedTexts(lead.model.requests[3])).toEqual([
      '[{"role":"worker","status":"paused","subagent":"worker#1","task":"Work.","totalTokens":15}]',
      "None of your subagents is running.",
      '{"status":"paused","subagent":"worker#1"}',
      "Not done: worker#1 (lead/worker#1) is paused until a question is answered. Continue without it.",
      expect.stringContaining("has not ended"),
    ]);
    const result = await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
    expect([result.text, settlements(s)]).toEqual(["Late.", ["lead/worker#1 completed"]]);
  });

  proves(
    ["X10", "R149"],
    "cancels it, which withdraws the question, and the run does not pause",
    async () => {
      const { s, lead, pay } = setUp(cancel("worker#1", "Not needed."));
      const result = await s.outcome(s.start(lead.role));
      expect([result.status, result.text, result.questions, pay.paid]).toEqual([
        "completed",
        "Early.",
        [],
        [],
      ]);
      expect(outcomes(receivedTexts(lead.model.requests[3]))).toEqual([
        {
          subagent: "worker#1",
          outcome: "cancelled",
          reason: "cancelled",
          explanation: "Not needed.",
          text: "",
        },
      ]);
      expect(
        s.sink.ofType("question.answered").map(({ answer, source }) => [answer, source]),
      ).toEqual([["denied", "end"]]);
    },
  );
});

test("a foreground child that waits for an approval settles once if a call of the same reply cancels it", async () => {
  const worker = part("worker", [pays(1), says("Paid.")], { tools: [payTool()] });
  const lead = part(
    "lead",
    [calls(spawn("worker"), cancel("worker#1", "Not needed.")), says("Done.")],
    {
      ...BACKGROUND,
      subagents: [worker.role],
      guards: [
        toolGuard(
          async () => {
            await until(() => s.sink.ofType("agent.paused").length === 1);
            return { type: "allow" };
          },
          { tools: ["CancelSubagent"] },
        ),
      ],
    },
  );
  const s = newFixture();
  const result = await s.outcome(s.start(lead.role));
  expect([result.status, result.questions, settlements(s)]).toEqual([
    "completed",
    [],
    ["lead/worker#1 cancelled"],
  ]);
});
