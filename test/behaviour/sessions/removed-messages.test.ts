// Goal: exactly the messages that a failed execution has added can be removed, and the remaining
// history is valid.
// Method: scripted sessions with a failure in the middle; the pure function over hand-made
// histories.

import { describe, expect, test } from "vitest";

import { ExecutionIdSchema } from "../../../src/protocol/ids.ts";
import { removeMessages } from "../../../src/policies/message-groups.ts";
import { findMessageProblems } from "../../../src/testing/check-messages.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, use } from "../../harness/scripted-agents.ts";
import { historyOf, rejectionOf, said, newSessionFixture } from "../../support/session-fixture.ts";

const BROKEN = { error: new TypeError("Broken.") };
const SCRIPT = [says("A1."), calls(use("search")), BROKEN, says("A3.")];

const KEPT = ["user Q1?", "assistant A1."];
const FAILED = ["user Q2?", "assistant ", "tool search done"];
const LAST = ["user Q3?", "assistant A3."];

proves(
  ["R99"],
  'removes the messages of a failed execution with failedExecutionPolicy "remove", and keeps its record',
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
  test(`keeps the messages of an execution that ${status}, so that nothing is done twice`, async () => {
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

test("does not remove the messages of a stopped execution", async () => {
  const s = newSessionFixture();
  const session = await s.session("customer-42", { failedExecutionPolicy: "remove" });
  const { role } = soloist(SCRIPT, { tools: [spyTool("search")] });
  await s.outcome(s.start(role, "Q1?", { session }));
  await s.outcome(s.start(role, "Q2?", { session, budget: { steps: 1 } }));
  expect(said(session.messages)).toEqual([...KEPT, ...FAILED]);
});

proves(
  ["R99"],
  "removes any execution by its id later, and leaves a valid history for the next request",
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

test("keeps the summary of older messages if the execution that made it is removed", async () => {
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

test("adds only the record of a failed run that is merged if failures are removed", async () => {
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

test("returns the same list if there is nothing to remove", () => {
  const history = historyOf([{ tasks: 1, callsEach: 2 }, { tasks: 1 }]);
  expect(removeMessages(history, ExecutionIdSchema().parse("execution_9"))).toBe(history);
  const left = removeMessages(history, ExecutionIdSchema().parse("execution_1"));
  expect(left.map(({ role, executionId }) => `${role} ${executionId}`)).toEqual([
    "system execution_1",
    "user execution_2",
    "assistant execution_2",
  ]);
});
