// Goal: an answer names the person who decided, and the event of the answered question has the name.

import { expect, test } from "vitest";

import {
  approve,
  deny,
  provideError,
  provideResult,
  type Answer,
  type Question,
} from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { externalTool, payTool, questionOf } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, use } from "../../harness/scripted-agents.ts";

const pay = (amount: number) => ({ toolName: "pay", arguments: { amount } });

/** Returns an agent that makes two payments and two external calls, all with a question. */
function asker() {
  const { role } = soloist([calls(pay(1), pay(2), use("mail"), use("mail")), says("done")], {
    tools: [payTool(), externalTool("mail")],
  });
  return role;
}

/** Returns an answer of each type, by another person each. */
function answerAll([first, second, third, fourth]: readonly Question[]): readonly Answer[] {
  if (!first || !second || !third || !fourth) throw new Error("There are four questions.");
  return [
    approve(first, { by: "ada@example.com" }),
    deny(second, "Too much.", { by: "ben" }),
    provideResult(third, "sent", { by: "cleo" }),
    provideError(fourth, "No such box.", { by: "dan" }),
  ];
}

function readAuthors({ sink }: Fixture): readonly unknown[] {
  return sink.ofType("question.answered").map(({ answer, source, by }) => [answer, source, by]);
}

proves(["D757"], "reports the author of each answer that is passed to `resume`", async () => {
  const role = asker();
  const fixture = newFixture();
  const { questions, pausedRun } = await fixture.run(role);
  await fixture.outcome(fixture.resume(role, pausedRun, answerAll(questions)));
  expect(readAuthors(fixture)).toEqual([
    ["approved", "caller", "ada@example.com"],
    ["denied", "caller", "ben"],
    ["result", "caller", "cleo"],
    ["failure", "caller", "dan"],
  ]);
});

proves(["D757"], "reports the author of an answer from another process", async () => {
  const role = asker();
  const store = memoryStore();
  const fixture = newFixture({ store });
  const paused = await fixture.run(role);
  const other = newFixture({ store });
  await other.orchestrator.answer(paused.runId, answerAll(paused.questions));
  await fixture.outcome(await fixture.orchestrator.resume(paused.runId, { role }));
  expect(readAuthors(fixture).map(String)).toEqual([
    "approved,caller,ada@example.com",
    "denied,caller,ben",
    "result,caller,cleo",
    "failure,caller,dan",
  ]);
});

proves(
  ["D757"],
  "reports the author of the answers of an approver, and none if it names nobody",
  async () => {
    const { role } = soloist([calls(pay(1), pay(2)), says("done")], { tools: [payTool()] });
    const fixture = newFixture({
      approver: (question) =>
        question.callId === "call_1" ? approve(question, { by: "ada" }) : deny(question),
    });
    await fixture.run(role);
    expect(readAuthors(fixture)).toEqual([
      ["approved", "approver", "ada"],
      ["denied", "approver", undefined],
    ]);
  },
);

test("accepts the first of two answers that differ in their authors only", async () => {
  const { role } = soloist([calls(pay(1)), says("done")], { tools: [payTool()] });
  const fixture = newFixture({ store: memoryStore() });
  const paused = await fixture.run(role);
  const question = questionOf(paused);
  await fixture.orchestrator.answer(paused.runId, [approve(question, { by: "ada" })]);
  await expect(
    fixture.orchestrator.answer(paused.runId, [approve(question, { by: "ben" })]),
  ).rejects.toMatchObject({ code: "invalid_answer", data: { problem: "already_answered" } });
});

const REF = { questionId: "q", argumentsHash: "hash" };

test("refuses an author that is not a name", () => {
  const refused = [
    thrownBy(() => Reflect.apply(approve, undefined, [REF, { by: "" }])),
    thrownBy(() => Reflect.apply(deny, undefined, [REF, "No.", { by: 7 }])),
    thrownBy(() => Reflect.apply(provideResult, undefined, [REF, 1, { by: " " }])),
    thrownBy(() => Reflect.apply(provideError, undefined, [REF, "No.", "ada"])),
  ];
  expect(refused).toMatchObject([
    { code: "invalid_argument", data: { field: "approve options.by" } },
    { code: "invalid_argument", data: { field: "deny options.by" } },
    { code: "invalid_argument", data: { field: "provideResult options.by" } },
    { code: "invalid_argument", data: { field: "provideError options" } },
  ]);
});
