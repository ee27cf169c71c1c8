// Goal: waiting for an answer does not use up time limits, while fixed deadlines and the deadline
// of an answer apply.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { approve, provideResult, type Answer } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import {
  approveAll,
  ending,
  externalTool,
  leaveOpen,
  payTool,
  questionOf,
  refusalOf,
  texts,
} from "../../support/pause-stories.ts";
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

const PAY = { toolName: "pay", arguments: { amount: 3 } };
const LIMIT = { budget: { timeMs: 10_000 } };

proves(
  ["R34"],
  "an approver that takes longer than the time limit does not use it up, and the wait is reported",
  async () => {
    const answered = latch();
    const pay = payTool();
    const { role } = soloist([calls(PAY), says("done")], { tools: [pay] });
    const fixture = newFixture({
      approver: async (question) => {
        await answered.opened;
        return approve(question);
      },
    });
    const run = fixture.start(role, "Do it.", LIMIT);
    await until(() => fixture.sink.ofType("question.asked").length === 1);
    fixture.clock.advance(60_000);
    await quiet();
    answered.open();
    const result = await fixture.outcome(run);
    const [agent] = result.agents;
    expect([ending(result), pay.paid, agent?.pausedMs, agent?.durationMs]).toEqual([
      ["completed", "completed"],
      [3],
      60_000,
      60_000,
    ]);
    expect(fixture.sink.ofType("question.answered").map(({ waitedMs }) => waitedMs)).toEqual([
      60_000,
    ]);
  },
);

proves(
  ["R34"],
  "a pause longer than the time limit does not use it up, and earlier time still counts",
  async () => {
    const work = latch();
    const pay = payTool();
    const slow = tool("slow", ({ signal }) =>
      Promise.race([
        work.opened,
        new Promise((resolve) => signal.addEventListener("abort", resolve)),
      ]),
    );
    const { role } = soloist(
      [() => (fixture.clock.advance(4_000), calls(PAY)), calls(use("slow")), says("never")],
      { tools: [pay, slow] },
    );
    const fixture = newFixture();
    const paused = await fixture.outcome(fixture.start(role, "Do it.", LIMIT));
    fixture.clock.advance(60_000);
    const run = fixture.resume(role, paused.pausedRun, approveAll(paused));
    await until(() =>
      fixture.sink.ofType("tool.started").some(({ toolName }) => toolName === "slow"),
    );
    fixture.clock.advance(5_999);
    await quiet();
    expect(fixture.sink.ofType("signal.raised")).toEqual([]);
    fixture.clock.advance(1);
    const result = await fixture.outcome(run);
    expect([ending(result), pay.paid, result.agents[0]?.pausedMs]).toEqual([
      ["stopped", "time_limit"],
      [3],
      60_000,
    ]);
    expect(fixture.sink.ofType("run.resumed").map(({ pausedMs }) => pausedMs)).toEqual([60_000]);
  },
);

test("several pauses add up, and none of them counts against the time limit", async () => {
  const pay = payTool();
  const { role } = soloist([calls(PAY), calls(PAY), calls(PAY), says("done")], { tools: [pay] });
  const fixture = newFixture({ approver: leaveOpen });
  let result = await fixture.outcome(fixture.start(role, "Do it.", LIMIT));
  for (let pause = 0; pause < 3; pause += 1) {
    fixture.clock.advance(9_000);
    result = await fixture.outcome(fixture.resume(role, result.pausedRun, approveAll(result)));
  }
  expect([ending(result), pay.paid, result.agents[0]?.pausedMs]).toEqual([
    ["completed", "completed"],
    [3, 3, 3],
    27_000,
  ]);
});

test("an agent that works while another waits uses up its own time, and not that of the other", async () => {
  const held = latch();
  const pay = payTool();
  const work = tool("work", () => held.opened);
  const payer = part("payer", [calls(PAY), says("Paid.")], {
    tools: [pay],
    budget: { timeMs: 5_000 },
  });
  const worker = part("worker", [calls(use("work")), says("Worked.")], { tools: [work] });
  const lead = part("lead", [calls(spawn("payer"), spawn("worker")), says("Done.")], {
    subagents: [payer.role, worker.role],
  });
  const fixture = newFixture();
  const run = fixture.start(lead.role, "Do it.", LIMIT);
  await until(() =>
    fixture.sink.ofType("tool.started").some(({ toolName }) => toolName === "work"),
  );
  await until(() => fixture.sink.ofType("agent.paused").length === 1);
  fixture.clock.advance(9_000);
  await quiet();
  held.open();
  const paused = await fixture.outcome(run);
  fixture.clock.advance(60_000);
  const result = await fixture.outcome(
    fixture.resume(lead.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ending(result), pay.paid, result.agents.map(({ pausedMs }) => pausedMs)]).toEqual([
    ["completed", "completed"],
    [3],
    [60_000, 69_000, 0],
  ]);
});

proves(
  ["R58"],
  "a fixed deadline that passes during the pause prevents all further work, even approved calls",
  async () => {
    const pay = payTool();
    const payer = part("payer", [calls(PAY), says("never")], {
      tools: [pay],
      budget: { timeMs: 1_000_000 },
    });
    const lead = part("lead", [calls(spawn("payer")), says("never")], { subagents: [payer.role] });
    const fixture = newFixture();
    const paused = await fixture.outcome(fixture.start(lead.role, "Do it.", { deadlineAtMs: 100 }));
    fixture.clock.advance(100);
    const run = fixture.resume(lead.role, paused.pausedRun, approveAll(paused));
    fixture.clock.advance(0);
    const result = await fixture.outcome(run);
    expect([
      ending(result),
      pay.paid,
      payer.model.requests.length,
      lead.model.requests.length,
    ]).toEqual([["stopped", "time_limit"], [], 1, 1]);
  },
);

test("a fixed deadline that has not passed applies after the pause", async () => {
  const pay = payTool();
  const { role } = soloist([calls(PAY), calls(use("work")), says("never")], {
    tools: [pay, listens("work")],
  });
  const fixture = newFixture();
  const paused = await fixture.outcome(fixture.start(role, "Do it.", { deadlineAtMs: 100 }));
  fixture.clock.advance(99);
  const run = fixture.resume(role, paused.pausedRun, approveAll(paused));
  await until(() =>
    fixture.sink.ofType("tool.started").some(({ toolName }) => toolName === "work"),
  );
  fixture.clock.advance(1);
  const result = await fixture.outcome(run);
  expect([ending(result), pay.paid]).toEqual([["stopped", "time_limit"], [3]]);
});

describe("the deadline of an answer", () => {
  proves(
    ["X17"],
    "denies the call if the approver has not answered by then, and ignores its late approval",
    async () => {
      const late = latch();
      const signals: AbortSignal[] = [];
      const pay = payTool();
      const { role } = soloist([calls(PAY), says("done")], { tools: [pay] });
      const fixture = newFixture({
        answerTimeoutMs: 1_000,
        approver: async (question, { signal }) => {
          signals.push(signal);
          await late.opened;
          return approve(question);
        },
      });
      const run = fixture.start(role);
      await until(() => signals.length === 1);
      fixture.clock.advance(999);
      await quiet();
      expect(fixture.sink.ofType("question.answered")).toEqual([]);
      fixture.clock.advance(1);
      await quiet();
      fixture.clock.advance(0);
      const result = await fixture.outcome(run);
      late.open();
      await quiet();
      expect([ending(result), pay.paid, texts(result), signals[0]?.aborted]).toEqual([
        ["completed", "completed"],
        [],
        [
          "Not executed: pay was denied. Nobody answered in time. Do without it, or answer with what you have.",
        ],
        true,
      ]);
      const answers = fixture.sink.ofType("question.answered");
      expect(answers.map(({ answer, source, waitedMs }) => [answer, source, waitedMs])).toEqual([
        ["denied", "deadline", 1_000],
      ]);
    },
  );

  test("denies the call if the approver answers just after it", async () => {
    const pay = payTool();
    const { role } = soloist([calls(PAY), says("done")], { tools: [pay] });
    const fixture = newFixture({
      answerTimeoutMs: 1_000,
      approver: (question) => {
        fixture.clock.advance(1_000);
        return approve(question);
      },
    });
    const result = await fixture.run(role);
    expect([ending(result), pay.paid]).toEqual([["completed", "completed"], []]);
    expect(fixture.sink.ofType("question.answered").map(({ source }) => source)).toEqual([
      "deadline",
    ]);
  });

  test("accepts an answer one millisecond earlier", async () => {
    const answered = latch();
    const pay = payTool();
    const { role } = soloist([calls(PAY), says("done")], { tools: [pay] });
    const fixture = newFixture({
      answerTimeoutMs: 1_000,
      approver: async (question) => {
        await answered.opened;
        return approve(question);
      },
    });
    const run = fixture.start(role);
    await until(() => fixture.sink.ofType("question.asked").length === 1);
    fixture.clock.advance(999);
    answered.open();
    const result = await fixture.outcome(run);
    expect([ending(result), pay.paid]).toEqual([["completed", "completed"], [3]]);
  });

  proves(
    ["X17", "R30"],
    "lets a paused run continue with denial and failure, and refuses late answers",
    async () => {
      const pay = payTool();
      const { role, model } = soloist([calls(PAY, use("mail")), says("done")], {
        tools: [pay, externalTool("mail")],
      });
      const fixture = newFixture({ answerTimeoutMs: 1_000 });
      const paused = await fixture.run(role);
      const answers = [
        approve(questionOf(paused, 0)),
        provideResult(questionOf(paused, 1), "sent"),
      ];
      fixture.clock.advance(1_000);
      expect(refusalOf(() => fixture.resume(role, paused.pausedRun, answers))).toEqual([
        "invalid_answer",
        "late",
      ]);
      expect([pay.paid, model.requests.length]).toEqual([[], 1]);
      const result = await fixture.outcome(fixture.resume(role, paused.pausedRun));
      expect([ending(result), pay.paid, texts(result)]).toEqual([
        ["completed", "completed"],
        [],
        [
          "Not executed: pay was denied. Nobody answered in time. Do without it, or answer with what you have.",
          "mail failed: Nobody answered in time.",
        ],
      ]);
      expect(fixture.sink.ofType("question.answered").map(({ source }) => source)).toEqual([
        "deadline",
        "deadline",
      ]);
    },
  );

  test("requires answers before it to all questions, and afterwards to the open ones only", async () => {
    const pay = payTool();
    const script = [calls(PAY), says("Paid.")];
    const early = part("early", script, { tools: [pay] });
    const held = latch();
    const later = part("later", [{ ...calls(PAY), after: held.opened }, says("Paid.")], {
      tools: [pay],
    });
    const lead = part("lead", [calls(spawn("early"), spawn("later")), says("Done.")], {
      subagents: [early.role, later.role],
    });
    const fixture = newFixture({ answerTimeoutMs: 1_000 });
    const run = fixture.start(lead.role);
    await until(() => fixture.sink.ofType("agent.paused").length === 1);
    fixture.clock.advance(600);
    held.open();
    const paused = await fixture.outcome(run);
    expect(paused.questions.map(({ deadlineAtMs }) => deadlineAtMs)).toEqual([1_000, 1_600]);
    const [overdue, open] = [questionOf(paused, 0), questionOf(paused, 1)];
    const resume = (...answers: readonly Answer[]) =>
      fixture.resume(lead.role, paused.pausedRun, answers);
    fixture.clock.advance(399);
    expect(refusalOf(() => resume(approve(open)))).toEqual(["invalid_answer", "missing"]);
    fixture.clock.advance(1);
    expect(refusalOf(() => resume(approve(open), approve(overdue)))).toEqual([
      "invalid_answer",
      "late",
    ]);
    expect(refusalOf(() => resume())).toEqual(["invalid_answer", "missing"]);
    const result = await fixture.outcome(resume(approve(open)));
    expect([ending(result), pay.paid, receivedTexts(early.model.requests[1])]).toEqual([
      ["completed", "completed"],
      [3],
      [
        "Not executed: pay was denied. Nobody answered in time. Do without it, or answer with what you have.",
      ],
    ]);
  });

  test("denies the call at once if it is zero, without a pause", async () => {
    const pay = payTool();
    const { role } = soloist([calls(PAY), says("done")], { tools: [pay] });
    const result = await newFixture({ answerTimeoutMs: 0 }).run(role);
    expect([ending(result), pay.paid]).toEqual([["completed", "completed"], []]);
  });
});

proves(
  ["R34"],
  "an agent without a time limit counts a wait as paused once its running calls have ended",
  async () => {
    const [work, decision] = [latch(), latch()];
    const body = defineTool({
      name: "work",
      description: "Works.",
      inputSchema: z.object({}),
      execute: async () => {
        await work.opened;
        return "Worked.";
      },
    });
    const pay = defineTool({
      name: "pay",
      description: "Pays.",
      inputSchema: z.object({}),
      needsApproval: true,
      execute: () => "Paid.",
    });
    const asked = Promise.withResolvers<void>();
    const fixture = newFixture({
      approver: async (question) => {
        asked.resolve();
        await decision.opened;
        return approve(question);
      },
    });
    const script = [calls(use("work"), use("pay")), says("Done.")];
    const run = fixture.start(soloist(script, { tools: [body, pay] }).role);
    await asked.promise;
    fixture.clock.advance(10); // The tool `work` is running.
    work.open();
    await flushEventLoop();
    fixture.clock.advance(20);
    decision.open();
    const { agents, durationMs } = await fixture.outcome(run);
    expect([durationMs, agents.map(({ pausedMs }) => pausedMs)]).toEqual([30, [20]]);
  },
);
