// Goal: a paused run whose orchestrator has an approver asks it again, and unanswered questions
// stay open.

import { describe, expect, test } from "vitest";

import type { Approver } from "../../../src/agent/approver.ts";
import { approve, deny, type Question } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { soloist } from "../../harness/soloist.ts";
import { approveAll, ending, externalTool, payTool } from "../../support/pause-stories.ts";
import { calls, use } from "../../harness/scripted-agents.ts";

/** Runs one call that needs an approval, with the given approver. */
async function payingWith(approver: Approver) {
  const tool = payTool();
  const { role } = soloist([calls({ toolName: "pay", arguments: { amount: 3 } }), says("done")], {
    tools: [tool],
  });
  const fixture = newFixture({ approver });
  return { fixture, tool, role, result: await fixture.run(role) };
}

describe("an approver of a paused run", () => {
  test("is asked the open approvals if the run is resumed without answers", async () => {
    const { fixture, tool, role, result: paused } = await payingWith(() => undefined);
    const questions: Question[] = [];
    const approver: Approver = (question) => {
      questions.push(question);
      return approve(question);
    };
    const resumed = fixture.resume(role, paused.pausedRun, [], { approver });
    const result = await fixture.outcome(resumed);
    expect([ending(result), tool.paid, questions]).toEqual([
      ["completed", "completed"],
      [3],
      paused.questions,
    ]);
    expect(
      fixture.sink.ofType("question.answered").map(({ answer, source }) => [answer, source]),
    ).toEqual([["approved", "approver"]]);
  });

  test("is not asked a question whose answer is passed to `resume`", async () => {
    const { fixture, tool, role, result: paused } = await payingWith(() => undefined);
    let count = 0;
    const approver: Approver = (question) => {
      count += 1;
      return deny(question, "No money.");
    };
    const resumed = fixture.resume(role, paused.pausedRun, approveAll(paused), { approver });
    await fixture.outcome(resumed);
    expect([count, tool.paid]).toEqual([0, [3]]);
  });

  test("pauses the run again with the same question if it returns nothing on resume", async () => {
    const { fixture, tool, role, result: paused } = await payingWith(() => undefined);
    const again = await fixture.outcome(fixture.resume(role, paused.pausedRun));
    expect([ending(again), tool.paid, again.questions]).toEqual([
      ["paused", "input_required"],
      [],
      paused.questions,
    ]);
  });

  test("is named once in the reason of the question if it fails on each resume", async () => {
    const broken: Approver = () => Promise.reject(new Error("broken"));
    const { fixture, role, result: paused } = await payingWith(broken);
    const again = await fixture.outcome(fixture.resume(role, paused.pausedRun));
    takeWarnings();
    expect(again.questions.map(({ reason }) => reason)).toEqual([
      "pay needs approval. The approver returned no usable answer (broken).",
    ]);
  });

  test("leaves the question unchanged without a warning if it rejects because of a requested pause", async () => {
    const tool = payTool();
    const { role } = soloist([calls({ toolName: "pay", arguments: { amount: 3 } }), says("done")], {
      tools: [tool],
    });
    const asking = latch();
    const approver: Approver = async (_question, { signal }) => {
      asking.open();
      const { promise, reject } = Promise.withResolvers<never>();
      signal.addEventListener("abort", () => reject(signal.reason));
      return await promise;
    };
    const fixture = newFixture({ approver });
    const run = fixture.start(role);
    await asking.opened;
    run.requestPause();
    const paused = await fixture.outcome(run);
    expect([paused.questions.map(({ reason }) => reason), takeWarnings()]).toEqual([
      ["pay needs approval."],
      [],
    ]);
  });

  test("cannot answer an external call, and the error names the missing answer and its question", async () => {
    const { role } = soloist([calls(use("mail")), says("done")], { tools: [externalTool("mail")] });
    const fixture = newFixture({ approver: (question) => approve(question) });
    const paused = await fixture.run(role);
    expect(() => fixture.resume(role, paused.pausedRun)).toThrow(
      'Expected an answer to every open question, got none to execution_1.1.0 (mail of solo). Add an answer to it. Its questions are in pausedRun.questions or, with a store, in (await orchestrator.getResult("run_1")).questions.',
    );
  });
});
