// Goal: what an execution that failed has added can be taken out, exactly that, and what is left is a valid history.
// Method: scripted sessions with a failure in the middle; the pure function over hand-made histories.

import { describe, expect, test } from "vitest";

import { ExecutionIdSchema } from "../../src/protocol/ids.ts";
import { removeMessages } from "../../src/policies/message-groups.ts";
import { findMessageProblems } from "../../src/testing/check-messages.ts";
import { says } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";
import { calls, use } from "../tree/scripted-agents.ts";
import { historyOf, rejectionOf, said, newSessionFixture } from "./session-fixture.ts";

const BROKEN = { error: new TypeError("Broken.") };
const SCRIPT = [says("A1."), calls(use("search")), BROKEN, says("A3.")];

const KEPT = ["user Q1?", "assistant A1."];
const FAILED = ["user Q2?", "assistant ", "tool search done"];
const LAST = ["user Q3?", "assistant A3."];

proves(
  ["R99"],
  'with failedExecutionPolicy: "remove" the next execution sees exactly what was there before the failed one, which stays on record',
  async () => {
    const s = newSessionFixture();
    const session = await s.session("customer-42", { failedExecutionPolicy: "remove" });
    const { role, model } = soloist(SCRIPT, { tools: [spyTool("search")] });
    await s.outcome(s.start(role, "Q1?", { session }));
    const before = session.messages;
    const failed = await s.outcome(s.start(role, "Q2?", { session }));
    expect([failed.status, said(failed.newMessages)]).toEqual(["failed", FAILED]);
    expect(session.messages).toEqual(before);
    expect(session.executions.map(({ status, isRemoved }) => [status, isRemoved])).toEqual([
      ["completed", false],
      ["failed", true],
    ]);
    await s.outcome(s.start(role, "Q3?", { session }));
    const shown = model.requests.at(-1)?.messages ?? [];
    expect(findMessageProblems(shown)).toEqual([]);
    expect(shown.map(({ text }) => text)).toEqual(["Work.", "Q1?", "A1.", "Q3?"]);
    expect([said(session.messages), session.usage.modelCalls]).toEqual([[...KEPT, ...LAST], 4]);
  },
);

describe.each(["failed", "stopped"] as const)("by default", (status) => {
  test(`what an execution that ${status} has done stays, so that it is not done twice`, async () => {
    const s = newSessionFixture();
    const session = await s.session();
    const { role } = soloist(SCRIPT, { tools: [spyTool("search")] });
    await s.outcome(s.start(role, "Q1?", { session }));
    const budget = status === "stopped" ? { steps: 1 } : {};
    const ended = await s.outcome(s.start(role, "Q2?", { session, budget }));
    expect(ended.status).toBe(status);
    expect(said(session.messages)).toEqual([...KEPT, ...FAILED]);
  });
});

test("only a failure is taken out, not what was stopped or cancelled", async () => {
  const s = newSessionFixture();
  const session = await s.session("customer-42", { failedExecutionPolicy: "remove" });
  const { role } = soloist(SCRIPT, { tools: [spyTool("search")] });
  await s.outcome(s.start(role, "Q1?", { session }));
  await s.outcome(s.start(role, "Q2?", { session, budget: { steps: 1 } }));
  expect(said(session.messages)).toEqual([...KEPT, ...FAILED]);
});

proves(
  ["R99"],
  "any execution can be taken out by its id, afterwards, and the next request is valid",
  async () => {
    const s = newSessionFixture();
    const session = await s.session();
    const { role, model } = soloist(SCRIPT, { tools: [spyTool("search")] });
    await s.outcome(s.start(role, "Q1?", { session }));
    await s.outcome(s.start(role, "Q2?", { session }));
    await session.remove("execution_2");
    expect([said(session.messages), session.version]).toEqual([KEPT, 3]);
    await s.outcome(s.start(role, "Q3?", { session }));
    expect(findMessageProblems(model.requests.at(-1)?.messages ?? [])).toEqual([]);
    const found = await s.elsewhere();
    expect(said(found.messages)).toEqual([...KEPT, ...LAST]);
    expect(await rejectionOf(session.remove("execution_9"))).toBe("invalid_argument");
    expect(session.version).toBe(4);
  },
);

test("what stands for older messages stays when the execution in which they went is taken out", async () => {
  const s = newSessionFixture();
  const session = await s.session("customer-42", {
    failedExecutionPolicy: "remove",
    retention: { maxMessages: 2, summarizeDropped: true },
  });
  const { role } = soloist([says("A1."), says("They greeted."), BROKEN]);
  await s.outcome(s.start(role, "Q1?", { session }));
  const failed = await s.outcome(s.start(role, "Q2?", { session }));
  expect(failed.status).toBe("failed");
  expect(said(session.messages)).toEqual([
    "user Summary of earlier messages, which were removed to save space:\nThey greeted.",
  ]);
  const found = await s.elsewhere();
  expect(found.messages).toEqual(session.messages);
});

test("merging a failed run into a session that leaves failures out adds its record only", async () => {
  const s = newSessionFixture();
  const [session, other] = [
    await s.session(),
    await s.session("customer-42", { failedExecutionPolicy: "remove" }),
  ];
  const { role } = soloist([says("A1."), BROKEN]);
  await s.outcome(s.start(role, "Q1?", { session }));
  const failed = await s.outcome(s.start(role, "Q2?", { session: other }));
  await other.merge(failed);
  expect([said(other.messages), other.executions.map(({ status }) => status)]).toEqual([
    KEPT,
    ["completed", "failed"],
  ]);
});

test("nothing to take out: the same list", () => {
  const history = historyOf([{ tasks: 1, callsEach: 2 }, { tasks: 1 }]);
  expect(removeMessages(history, ExecutionIdSchema().parse("execution_9"))).toBe(history);
  const left = removeMessages(history, ExecutionIdSchema().parse("execution_1"));
  expect(left.map(({ role, executionId }) => `${role} ${executionId}`)).toEqual([
    "system execution_1",
    "user execution_2",
    "assistant execution_2",
  ]);
});
