// Goal: all answers are checked before anything runs. A wrong answer changes nothing, and the same
// paused run accepts the right ones.

import { expect, test } from "vitest";

import type { JsonValue } from "../../../src/kernel/json.ts";
import {
  approve,
  computeArgumentsHash,
  deny,
  provideResult,
  provideError,
  type Answer,
} from "../../../src/protocol/question.ts";
import { QuestionIdSchema } from "../../../src/protocol/ids.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import {
  approveAll,
  ending,
  externalTool,
  payTool,
  questionOf,
  refusalOf,
} from "../../support/pause-stories.ts";
import { calls, use } from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 3 } };

/** A run that is paused for an approval and an external call. */
async function pausedOverTwo() {
  const fixture = newFixture();
  const tool = payTool();
  const { role, model } = soloist([calls(PAY, use("mail")), says("done")], {
    tools: [tool, externalTool("mail")],
  });
  const paused = await fixture.run(role);
  const approval = questionOf(paused, 0);
  const external = questionOf(paused, 1);
  const good = [approve(approval), provideResult(external, "sent")];
  return { fixture, tool, role, model, paused, approval, external, good };
}

proves(
  ["R30", "X17"],
  "missing, unknown, duplicate, altered and mismatched answers are refused, and the run stays resumable",
  async () => {
    const { fixture, tool, role, model, paused, approval, external, good } = await pausedOverTwo();
    const stranger = { ...approval, questionId: QuestionIdSchema().parse("execution_9.1.0") };
    const otherHash = { ...approval, argumentsHash: computeArgumentsHash("pay", { amount: 4 }) };
    const other = provideResult(external, "sent");
    const wrong: Readonly<Record<string, readonly Answer[]>> = {
      "none at all": [],
      "one missing": [approve(approval)],
      unknown: [...good, approve(stranger)],
      "unknown instead": [approve(stranger), other],
      "twice the same": [...good, approve(approval)],
      contradicting: [approve(approval), deny(approval), other],
      "altered hash": [approve(otherHash), other],
      "empty hash": [{ ...approve(approval), argumentsHash: "" }, other],
      "hash of the other": [approve({ ...approval, argumentsHash: external.argumentsHash }), other],
      "result for an approval": [provideResult(approval, "paid"), other],
      "failure for an approval": [provideError(approval, "no"), other],
      "approval for an external call": [approve(approval), approve(external)],
      "denial for an external call": [approve(approval), deny(external)],
    };
    const eventCount = fixture.sink.events.length;
    const refusals = Object.entries(wrong).map(([name, answers]) => [
      name,
      ...refusalOf(() => fixture.resume(role, paused.pausedRun, answers)),
    ]);
    expect(refusals).toEqual([
      ["none at all", "invalid_answer", "missing"],
      ["one missing", "invalid_answer", "missing"],
      ["unknown", "invalid_answer", "unknown"],
      ["unknown instead", "invalid_answer", "unknown"],
      ["twice the same", "invalid_answer", "duplicate"],
      ["contradicting", "invalid_answer", "duplicate"],
      ["altered hash", "invalid_answer", "altered"],
      ["empty hash", "invalid_answer", "altered"],
      ["hash of the other", "invalid_answer", "altered"],
      ["result for an approval", "invalid_answer", "wrong_kind"],
      ["failure for an approval", "invalid_answer", "wrong_kind"],
      ["approval for an external call", "invalid_answer", "wrong_kind"],
      ["denial for an external call", "invalid_answer", "wrong_kind"],
    ]);
    expect([fixture.sink.events.length, tool.paid, model.requests.length]).toEqual([
      eventCount,
      [],
      1,
    ]);
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, good));
    expect([ending(result), tool.paid]).toEqual([["completed", "completed"], [3]]);
  },
);

proves(
  ["X17"],
  "a second resume of a pause and an answer from an earlier pause are refused",
  async () => {
    const fixture = newFixture();
    const tool = payTool();
    const script = [asks("pay", { amount: 1 }), asks("pay", { amount: 2 }), says("done")];
    const { role } = soloist(script, { tools: [tool] });
    const first = await fixture.run(role);
    const pausedRun = first.pausedRun ?? expect.fail("not paused");
    const [answer] = approveAll(first);
    if (answer === undefined) expect.fail("no question");
    const { orchestrator } = fixture;
    const second = await fixture.outcome(
      orchestrator.resume(pausedRun, { answers: [answer], role }),
    );
    expect(refusalOf(() => orchestrator.resume(pausedRun, { answers: [answer], role }))).toEqual([
      "already_resumed",
      undefined,
    ]);
    const denial = [deny(questionOf(first))];
    expect(refusalOf(() => orchestrator.resume(pausedRun, { answers: denial, role }))).toEqual([
      "already_resumed",
      undefined,
    ]);
    const replayed = [...approveAll(second), answer];
    expect(refusalOf(() => fixture.resume(role, second.pausedRun, replayed))).toEqual([
      "invalid_answer",
      "already_answered",
    ]);
    expect(tool.paid).toEqual([1]);
    const result = await fixture.outcome(
      fixture.resume(role, second.pausedRun, approveAll(second)),
    );
    expect([ending(result), tool.paid]).toEqual([
      ["completed", "completed"],
      [1, 2],
    ]);
  },
);

test("answers of one run are refused by another, even for the same call in the same place", async () => {
  const one = newFixture();
  const tool = payTool();
  const role = () => soloist([asks("pay", { amount: 3 }), says("done")], { tools: [tool] }).role;
  const mine = await one.run(role());
  const second = role();
  const yours = await one.run(second);
  expect(questionOf(mine).questionId).not.toBe(questionOf(yours).questionId);
  expect(refusalOf(() => one.resume(second, yours.pausedRun, approveAll(mine)))).toEqual([
    "invalid_answer",
    "unknown",
  ]);
});

test("malformed answers are refused with the problem `malformed`", async () => {
  const { fixture, role, paused, approval, good } = await pausedOverTwo();
  const answer = approve(approval);
  const malformed: readonly unknown[] = [
    undefined,
    null,
    "yes",
    true,
    {},
    { ...answer, type: "maybe" },
    { ...answer, arguments: [1] },
    { ...answer, arguments: null },
    { ...answer, arguments: { amount: Number.NaN } },
    { ...answer, arguments: { amount: 1n } },
    { ...answer, by: "" },
    { ...answer, author: "me" },
    { type: "approved", questionId: answer.questionId },
    { type: "denied", questionId: answer.questionId, argumentsHash: answer.argumentsHash },
    { ...provideResult(approval, null), result: () => 1 },
    { ...answer, questionId: "" },
  ];
  for (const [index, one] of malformed.entries()) {
    const given: Answer[] = [...good];
    Reflect.set(given, 2, one);
    const refusal = refusalOf(() => fixture.resume(role, paused.pausedRun, given));
    expect([index, ...refusal]).toEqual([index, "invalid_answer", "malformed"]);
  }
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, good));
  expect(result.status).toBe("completed");
});

test("an approval with other arguments is refused unless they fit the tool", async () => {
  const { fixture, tool, role, paused, approval, external } = await pausedOverTwo();
  const other = provideResult(external, "sent");
  const misfit = [approve(approval, { arguments: { amount: "all" } }), other];
  expect(refusalOf(() => fixture.resume(role, paused.pausedRun, misfit))).toEqual([
    "invalid_answer",
    "invalid_arguments",
  ]);
  const fit = [approve(approval, { arguments: { amount: 1 } }), other];
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, fit));
  expect([ending(result), tool.paid]).toEqual([["completed", "completed"], [1]]);
});

test("a refused resume does not use up the pause on its orchestrator", async () => {
  const { fixture, tool, role, paused, good } = await pausedOverTwo();
  const pausedRun = paused.pausedRun ?? expect.fail("not paused");
  const { orchestrator } = fixture;
  expect(refusalOf(() => orchestrator.resume(pausedRun, { role }))[0]).toBe("invalid_answer");
  const result = await fixture.outcome(orchestrator.resume(pausedRun, { answers: good, role }));
  expect([ending(result), tool.paid]).toEqual([["completed", "completed"], [3]]);
});

test("answers that are changed after they were passed have no effect", async () => {
  const { fixture, tool, role, paused, approval, external } = await pausedOverTwo();
  const answer = approve(approval, { arguments: { amount: 1 } });
  const answers = [answer, provideResult(external, "sent")];
  const run = fixture.resume(role, paused.pausedRun, answers);
  if (answer.type === "approved" && answer.arguments !== undefined)
    Reflect.set(answer.arguments, "amount", 1_000);
  Reflect.set(answer, "type", "denied");
  answers.length = 0;
  const result = await fixture.outcome(run);
  expect([ending(result), tool.paid]).toEqual([["completed", "completed"], [1]]);
});

test("results of any JSON type are accepted unchanged", async () => {
  const cases: readonly (readonly [JsonValue, string])[] = [
    ["plain", "plain"],
    ["", ""],
    [null, "null"],
    [0, "0"],
    [false, "false"],
    [["a", { b: 1 }], '["a",{"b":1}]'],
  ];
  for (const [given, text] of cases) {
    const fixture = newFixture();
    const { role } = soloist([calls(use("mail")), says("done")], { tools: [externalTool("mail")] });
    const paused = await fixture.run(role);
    const answers = [provideResult(questionOf(paused), given)];
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
    expect([given, result.steps[0]?.tools.executions[0]?.text]).toEqual([given, text]);
  }
});

proves(["X17"], "an answer applies to the newest call if a server reuses one call id", async () => {
  const fixture = newFixture();
  const tool = payTool();
  const pay = (amount: number) =>
    calls({ toolName: "pay", arguments: { amount }, callId: "call_0" });
  const { role } = soloist([pay(1), pay(2), says("done")], { tools: [tool] });
  const first = await fixture.run(role);
  const second = await fixture.outcome(fixture.resume(role, first.pausedRun, approveAll(first)));
  const result = await fixture.outcome(fixture.resume(role, second.pausedRun, approveAll(second)));
  expect([ending(result), tool.paid]).toEqual([
    ["completed", "completed"],
    [1, 2],
  ]);
});
