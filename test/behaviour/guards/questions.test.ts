// Goal: there is one question per call with all reasons; its answer decides, and guards are not
// asked about twice.
// Method: guards that ask beside tools, wrappers and deadlines that ask; runs that pause and
// continue in a new orchestrator.

import { describe, expect, test } from "vitest";

import { approve, deny, provideResult } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { withApproval } from "../../../src/tools/wrappers/with-approval.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  approveAll,
  asked,
  ending,
  externalTool,
  payTool,
  questionOf,
  refusalOf,
} from "../../support/pause-stories.ts";
import { calls, quiet, receivedTexts, use } from "../../harness/scripted-agents.ts";
import {
  ALLOW,
  allows,
  asksAbout,
  denies,
  fates,
  guardings,
  refusal,
  watch,
  write,
  writeTool,
} from "../../support/guard-stories.ts";

describe("the question about a call", () => {
  test("combines guards, repetition, the tool and a wrapper, in this order", async () => {
    const inner = spyTool("pay", () => "paid", {
      needsApproval: () => "It is money.",
      maxIdenticalCalls: 0,
    });
    const tool = withApproval(inner, { reason: "The house wants it." });
    const questions: string[] = [];
    const { role } = soloist([asks("pay", {}), says("done")], {
      tools: [tool],
      guards: [asksAbout("First.", { name: "a" }), allows(), asksAbout("Second.", { name: "b" })],
    });
    const fixture = newFixture({
      approver: (question) => {
        questions.push(question.reason);
        return approve(question);
      },
    });
    const result = await fixture.run(role);
    expect(questions).toEqual([
      "First. Second. Each call of pay needs approval. It is money. The house wants it.",
    ]);
    expect([fates(result), inner.calls.length]).toEqual([[["succeeded"]], 1]);
    expect(fixture.sink.ofType("question.asked").length).toBe(1);
  });

  proves(
    ["R116"],
    "is asked for a wrapped tool, not for an unwrapped one, and not if a guard denies",
    async () => {
      const twin = spyTool("plain");
      const tool = withApproval(spyTool("wrapped"));
      const script = [calls(use("wrapped"), use("plain")), says("done")];
      const fixture = newFixture();
      const paused = await fixture.run(soloist(script, { tools: [tool, twin] }).role);
      expect([asked(paused), twin.calls.length]).toEqual([[["solo", "wrapped"]], 1]);
      const denied = soloist(script, { tools: [tool, twin], guards: [denies()] });
      const result = await newFixture().run(denied.role);
      expect([ending(result), result.questions]).toEqual([["completed", "completed"], []]);
    },
  );

  test("is not asked of the tool's own check if a guard denies", async () => {
    let checks = 0;
    const tool = payTool(() => {
      checks += 1;
      return true;
    });
    const { role } = soloist([asks("pay", { amount: 3 }), says("done")], {
      tools: [tool],
      guards: [denies()],
    });
    const result = await newFixture().run(role);
    expect([fates(result), checks]).toEqual([[["refused", "blocked", "deny"]], 0]);
  });

  test("is asked for a tool that needs approval although a guard allows", async () => {
    const { role } = soloist([asks("pay", { amount: 3 })], {
      tools: [payTool()],
      guards: [allows()],
    });
    const paused = await newFixture().run(role);
    expect(paused.questions.map(({ reason }) => reason)).toEqual(["pay needs approval."]);
  });

  test("is not asked if the check of the tool throws, which refuses the call", async () => {
    const tool = payTool(() => {
      throw new Error("no rates");
    });
    const { role } = soloist([asks("pay", { amount: 3 }), says("done")], {
      tools: [tool],
      guards: [asksAbout()],
    });
    const result = await newFixture().run(role);
    expect([fates(result), tool.paid]).toEqual([[["refused", "approval_check_failed"]], []]);
  });
});

describe("after a pause", () => {
  test("guards check an approved call again, without a second question", async () => {
    const watching = watch(() => ({ type: "ask", reason: "Sure?" }));
    const tool = writeTool();
    const { role } = soloist([calls(write("/a"), write("/b")), says("done")], {
      tools: [tool],
      guards: [watching.guard],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const answers = [approve(questionOf(paused, 0)), deny(questionOf(paused, 1), "Not b.")];
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
    expect([fates(result), tool.written]).toEqual([[["succeeded"], ["refused", "denied"]], ["/a"]]);
    expect([watching.asked.length, guardings(fixture).length]).toEqual([3, 3]);
    expect(fixture.sink.ofType("question.asked").length).toBe(2);
  });

  test("guards check the calls of later steps, and may pause again", async () => {
    const watching = watch(() => ({ type: "ask", reason: "Sure?" }));
    const tool = writeTool();
    const script = [calls(write("/a")), calls(write("/b")), says("done")];
    const { role } = soloist(script, { tools: [tool], guards: [watching.guard] });
    const fixture = newFixture();
    const first = await fixture.run(role);
    const second = await fixture.outcome(fixture.resume(role, first.pausedRun, approveAll(first)));
    expect([second.status, tool.written, watching.seen()]).toEqual([
      "paused",
      ["/a"],
      [{ path: "/a" }, { path: "/a" }, { path: "/b" }],
    ]);
    const result = await fixture.outcome(
      fixture.resume(role, second.pausedRun, approveAll(second)),
    );
    expect([ending(result), tool.written]).toEqual([
      ["completed", "completed"],
      ["/a", "/b"],
    ]);
  });

  test("guards check calls of later batches only when their turn comes", async () => {
    const watching = watch(({ toolName }) =>
      toolName === "first" ? { type: "ask", reason: "Sure?" } : ALLOW,
    );
    const first = spyTool("first", undefined, { sequential: true });
    const second = spyTool("second");
    const { role } = soloist([calls(use("first"), use("second")), says("done")], {
      tools: [first, second],
      guards: [watching.guard],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect(watching.asked.map(([{ toolName }]) => toolName)).toEqual(["first"]);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused)),
    );
    expect(watching.asked.map(([{ toolName }]) => toolName)).toEqual(["first", "first", "second"]);
    expect(fates(result)).toEqual([["succeeded"], ["succeeded"]]);
  });

  test("a question is kept if the pause was requested while its guard was running", async () => {
    const slow = latch();
    const watching = watch(async () => {
      await slow.opened;
      return { type: "ask", reason: "Sure?" };
    });
    const tool = writeTool();
    const { role } = soloist([calls(write("/a")), says("done")], {
      tools: [tool],
      guards: [watching.guard],
    });
    const fixture = newFixture({ unansweredPolicy: "deny" });
    const run = fixture.start(role);
    await quiet();
    run.requestPause();
    await quiet();
    expect(fixture.sink.ofType("run.paused")).toEqual([]);
    slow.open();
    const paused = await fixture.outcome(run);
    expect(paused.questions.map(({ reason }) => reason)).toEqual(["Sure?"]);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused)),
    );
    expect([fates(result), tool.written, watching.asked.length]).toEqual([
      [["succeeded"]],
      ["/a"],
      2,
    ]);
  });
});

test("converts -0 of the model to 0 in a question", async () => {
  const tool = payTool();
  const { role } = soloist([asks("pay", '{"amount":-0}'), says("done")], { tools: [tool] });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect(tool.paid).toEqual([0]);
});

describe("a question that is not answered in time", () => {
  test("is denied while the approver is asked, and after a pause", async () => {
    const tool = writeTool();
    const { role, model } = soloist([calls(write("/a")), says("done")], {
      tools: [tool],
      guards: [asksAbout()],
    });
    const fixture = newFixture({ approver: () => new Promise(() => {}), answerTimeoutMs: 100 });
    const run = fixture.start(role);
    await quiet();
    fixture.clock.advance(100);
    await quiet();
    fixture.clock.advance(0);
    const result = await fixture.outcome(run);
    expect([fates(result), tool.written, receivedTexts(model.requests[1])]).toEqual([
      [["refused", "denied"]],
      [],
      [refusal("write", "Nobody answered in time.", "Look at it first.")],
    ]);
    const later = soloist([calls(write("/a")), says("done")], {
      tools: [tool],
      guards: [asksAbout()],
    });
    const other = newFixture({ answerTimeoutMs: 100 });
    const paused = await other.run(later.role);
    expect(questionOf(paused).deadlineAtMs).toBe(100);
    other.clock.advance(100);
    const late = (): unknown => other.resume(later.role, paused.pausedRun, approveAll(paused));
    expect(refusalOf(late)).toEqual(["invalid_answer", "late"]);
    const ended = await other.outcome(other.resume(later.role, paused.pausedRun));
    expect([fates(ended), tool.written]).toEqual([[["refused", "denied"]], []]);
    expect(other.sink.ofType("question.answered").map(({ source }) => source)).toEqual([
      "deadline",
    ]);
  });

  test("has its time from the moment of asking, not of guarding", async () => {
    const slow = latch();
    const watching = watch(async () => {
      await slow.opened;
      return { type: "ask", reason: "Sure?" };
    });
    const { role } = soloist([calls(write("/a"))], {
      tools: [writeTool()],
      guards: [watching.guard],
    });
    const fixture = newFixture({ answerTimeoutMs: 100 });
    const run = fixture.start(role);
    await quiet();
    fixture.clock.advance(1_000);
    slow.open();
    const paused = await fixture.outcome(run);
    const { askedAtMs, deadlineAtMs } = questionOf(paused);
    expect([askedAtMs, deadlineAtMs]).toEqual([1_000, 1_100]);
  });
});

describe("an external tool", () => {
  const script = [asks("mail", { to: "x" }), says("done")];

  test("is denied by its guard without a question", async () => {
    const watching = watch(() => ({ type: "deny", reason: "No mail." }));
    const { role, model } = soloist(script, {
      tools: [externalTool("mail")],
      guards: [watching.guard],
    });
    const result = await newFixture().run(role);
    expect([ending(result), fates(result), receivedTexts(model.requests[1])]).toEqual([
      ["completed", "completed"],
      [["refused", "blocked", "watch"]],
      [refusal("mail", "No mail.")],
    ]);
    expect(watching.asked.map(([{ kind }]) => kind)).toEqual(["external"]);
  });

  test("has one question with a guard's reason, whose answer is the result", async () => {
    const { role, model } = soloist(script, {
      tools: [externalTool("mail")],
      guards: [allows(), asksAbout("Is this spam?")],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect(paused.questions.map(({ kind, reason }) => [kind, reason])).toEqual([
      ["external", "mail is executed elsewhere. Is this spam?"],
    ]);
    expect(refusalOf(() => fixture.resume(role, paused.pausedRun, approveAll(paused)))).toEqual([
      "invalid_answer",
      "wrong_kind",
    ]);
    const answers = [provideResult(questionOf(paused), "sent")];
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
    expect([fates(result), receivedTexts(model.requests[1])]).toEqual([[["succeeded"]], ["sent"]]);
    expect([fixture.sink.ofType("question.asked").length, guardings(fixture).length]).toEqual([
      1, 1,
    ]);
  });

  test("fails if no approver can be asked", async () => {
    const { role } = soloist(script, { tools: [externalTool("mail")], guards: [asksAbout()] });
    const fixture = newFixture({ unansweredPolicy: "deny" });
    const result = await fixture.run(role);
    expect(fates(result)).toEqual([["failed", "tool_error"]]);
    expect(fixture.sink.ofType("question.asked").length).toBe(1);
  });

  test("has its own question beside approvals of the same reply", async () => {
    const { role } = soloist([calls(use("mail"), write("/a"), use("mail")), says("done")], {
      tools: [externalTool("mail"), writeTool()],
      guards: [asksAbout("Sure?")],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect(paused.questions.map(({ kind, reason }) => [kind, reason])).toEqual([
      ["external", "mail is executed elsewhere. Sure?"],
      ["approval", "Sure?"],
      ["external", "mail is executed elsewhere. Sure?"],
    ]);
  });
});
