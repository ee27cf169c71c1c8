// Goal: a session can be forked at the end of a step; the fork continues on its own, and its origin
// never changes.
// Method: scripted sessions; the bytes of the origin before and after.

import { describe, expect, test } from "vitest";

import { NO_USAGE } from "../../../src/protocol/usage.ts";
import { findMessageProblems } from "../../../src/testing/check-messages.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, use } from "../../harness/scripted-agents.ts";
import {
  placesOf,
  rejectionOf,
  said,
  newSessionFixture,
  type SessionFixture,
} from "../../support/session-fixture.ts";

const STEPS = [calls(use("search"), use("search")), calls(use("search")), says("A1.")];

async function threeSteps(s: SessionFixture) {
  const session = await s.session();
  const { role } = soloist(STEPS, { tools: [spyTool("search")] });
  await s.outcome(s.start(role, "Q1?", { session }));
  return session;
}

proves(
  ["R156"],
  "contains only the messages up to the chosen step, with the results of all calls",
  async () => {
    const s = newSessionFixture();
    const session = await threeSteps(s);
    expect(session.messages).toHaveLength(7);
    const fork = await session.fork({ atStep: 1 });
    expect(said(fork.messages)).toEqual([
      "user Q1?",
      "assistant ",
      "tool search done",
      "tool search done",
    ]);
    expect(findMessageProblems(fork.messages)).toEqual([]);
    expect(
      fork.executions.map(({ status, reason, stepCount: steps }) => [status, reason.code, steps]),
    ).toEqual([["stopped", "forked", 1]]);
    const two = await session.fork({ atStep: 2 });
    expect(said(two.messages)).toEqual(said(session.messages).slice(0, 6));
    const whole = await session.fork({ atStep: 3 });
    expect(said(whole.messages)).toEqual(said(session.messages));
    expect(whole.executions[0]?.status).toBe("completed");
  },
);

describe("a missing step", () => {
  test.each([0, 4, -1, 1.5, Number.NaN, Infinity])("is refused: %s", async (atStep) => {
    const s = newSessionFixture();
    const session = await threeSteps(s);
    expect(await rejectionOf(session.fork({ atStep }))).toBe("invalid_argument");
    expect(s.shelf.shelf.size).toBe(1);
  });
});

proves(["R156"], "names the valid steps if a step is out of range", async () => {
  const s = newSessionFixture();
  const session = await threeSteps(s);
  await expect(session.fork({ atStep: 4 })).rejects.toThrow(
    "Expected fork options.atStep to be a step of execution_1 (1 to 3), got 4. Correct it, or leave it out to fork at the end.",
  );
});

proves(
  ["R157"],
  "has ids of its own, no usage and its origin, and leaves the origin unchanged byte for byte as it continues",
  async () => {
    const s = newSessionFixture();
    const session = await threeSteps(s);
    const { usage } = session;
    const before = s.shelf.bodyOf("customer-42");
    const fork = await session.fork({ sessionId: "customer-42-again", atStep: 1 });
    expect([fork.id, fork.version, fork.usage, fork.forkedFrom]).toEqual([
      "customer-42-again",
      1,
      NO_USAGE,
      { sessionId: "customer-42", executionId: "execution_1", stepNumber: 1, usage },
    ]);
    expect(fork.executions[0]).toMatchObject({
      executionId: "execution_2",
      agentId: "agent_2",
      usage: NO_USAGE,
      forkedFrom: { sessionId: "customer-42", executionId: "execution_1" },
    });
    expect(placesOf(fork.messages)).toEqual([
      "user execution_2.m2 agent_2 execution_2 -",
      "assistant execution_2.m3 agent_2 execution_2 execution_2.1",
      "tool execution_2.m4 agent_2 execution_2 execution_2.1",
      "tool execution_2.m5 agent_2 execution_2 execution_2.1",
    ]);
    const other = soloist([says("Otherwise.")]);
    await s.outcome(s.start(other.role, "Else?", { session: fork }));
    expect(s.shelf.bodyOf("customer-42")).toBe(before);
    const own = soloist([says("A2.")]);
    await s.outcome(s.start(own.role, "Q2?", { session }));
    expect(said(fork.messages).slice(-2)).toEqual(["user Else?", "assistant Otherwise."]);
    expect(said(session.messages).slice(-3)).toEqual([
      "assistant A1.",
      "user Q2?",
      "assistant A2.",
    ]);
    const ids = [...session.messages, ...fork.messages].map(({ messageId }) => messageId);
    expect(new Set(ids).size).toBe(ids.length);
    expect([fork.usage.modelCalls, session.usage.modelCalls]).toEqual([1, 4]);
    const found = await s.elsewhere("customer-42-again");
    expect(found.messages).toEqual(fork.messages);
  },
);

test("omits later executions at the end or in the middle of an earlier one", async () => {
  const s = newSessionFixture();
  const session = await threeSteps(s);
  const { role } = soloist([says("A2.")]);
  await s.outcome(s.start(role, "Q2?", { session }));
  const early = await session.fork({ executionId: "execution_1" });
  expect(said(early.messages)).toEqual(said(session.messages).slice(0, 7));
  expect([early.executionCount, early.executions[0]?.status]).toEqual([1, "completed"]);
  const middle = await session.fork({ executionId: "execution_1", atStep: 2 });
  expect(said(middle.messages)).toEqual(said(session.messages).slice(0, 6));
  const late = await session.fork();
  expect(said(late.messages)).toEqual(said(session.messages));
  expect(late.boundaries).toHaveLength(1);
  expect(await rejectionOf(session.fork({ executionId: "execution_9" }))).toBe("invalid_argument");
});

test("omits messages that were added to the execution after the step", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([calls(use("search")), says("A1.")], { tools: [spyTool("search")] });
  const run = s.start(role, "Q1?", { session });
  for await (const { phase, state } of run.iterate())
    if (phase === "decide" && state.log.steps.length === 1) void run.steer("Stop soon.");
  await s.outcome(run);
  expect(said(session.messages)).toContain("user Stop soon.");
  const fork = await session.fork({ atStep: 1 });
  expect(said(fork.messages)).toEqual(["user Q1?", "assistant ", "tool search done"]);
});

test("refuses a step whose history a compaction has dropped", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const long = "word ".repeat(60);
  const script = [calls(use("search")), calls(use("search")), calls(use("search")), says("A1.")];
  const { role } = soloist(
    script,
    {
      tools: [spyTool("search", () => long)],
      compaction: { maxInputTokens: 40, keepMessages: 2 },
    },
    { countTokens: null },
  );
  await s.outcome(s.start(role, "Q1?", { session }));
  expect(await rejectionOf(session.fork({ atStep: 1 }))).toBe("invalid_argument");
  const fork = await session.fork({ atStep: 4 });
  expect(fork.messages.length).toBe(session.messages.length);
});

test("contains the summary of older messages that a later execution made", async () => {
  const s = newSessionFixture();
  const session = await s.session("customer-42", {
    retention: { maxMessages: 4, summarizeDropped: true },
  });
  const { role } = soloist([says("A1."), says("A2."), says("S."), says("A3.")]);
  for (const task of ["Q1?", "Q2?", "Q3?"]) await s.outcome(s.start(role, task, { session }));
  const fork = await session.fork({ executionId: "execution_2" });
  expect(fork.messages.map(({ text, note }) => [text.split("\n").at(-1), note])).toEqual([
    ["S.", "left_out"],
    ["Q2?", undefined],
    ["A2.", undefined],
  ]);
  const found = await s.elsewhere(fork.id);
  expect(found.messages).toEqual(fork.messages);
  const next = soloist([says("Otherwise.")]);
  await s.outcome(s.start(next.role, "Else?", { session: found }));
  expect(found.messages).toHaveLength(5);
});

test("refuses an id that is taken or invalid, and changes nothing", async () => {
  const s = newSessionFixture();
  const session = await threeSteps(s);
  const before = s.shelf.bodyOf("customer-42");
  expect(await rejectionOf(session.fork({ sessionId: "customer-42" }))).toBe("session_conflict");
  expect(await rejectionOf(session.fork({ sessionId: " " }))).toBe("invalid_argument");
  expect([s.shelf.bodyOf("customer-42"), s.shelf.shelf.size]).toEqual([before, 1]);
});

test("is empty if the session has no history", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const fork = await session.fork();
  expect([fork.messages, fork.executions, fork.version]).toEqual([[], [], 1]);
  expect(await rejectionOf(session.fork({ atStep: 1 }))).toBe("invalid_argument");
});
