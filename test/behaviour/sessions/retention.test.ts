// Goal: a stored history does not grow without limit: the oldest messages are dropped in complete
// groups, and may be summarised.
// Method: the pure policy over hand-made histories; scripted sessions that exceed their limits.

import { expect, test } from "vitest";

import {
  DEFAULT_MESSAGE_RETENTION,
  resolveMessageRetention,
  retainMessages,
} from "../../../src/policies/retention-policy.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { parsePausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { calls, use } from "../../harness/scripted-agents.ts";
import { historyOf, said, newSessionFixture } from "../../support/session-fixture.ts";

const policy = (more: Parameters<typeof resolveMessageRetention>[1] = {}) =>
  resolveMessageRetention("retention", more);

test("has documented defaults, and resolves to a frozen policy", () => {
  expect(DEFAULT_MESSAGE_RETENTION).toEqual({
    maxMessages: 100,
    maxExecutions: "unlimited",
    summarizeDropped: false,
  });
  expect(policy()).toEqual(DEFAULT_MESSAGE_RETENTION);
  expect(Object.isFrozen(policy())).toBe(true);
});

proves(
  ["R153"],
  "drops the oldest of 101 messages, keeps the instructions, and does not change 100",
  () => {
    const hundred = historyOf([{ tasks: 50 }]);
    expect(retainMessages(hundred, policy())).toEqual({ retained: hundred, dropped: [] });
    expect(retainMessages(hundred, policy()).retained).toBe(hundred);
    const history = historyOf([{ tasks: 51 }]).slice(0, -1);
    const [system, ...others] = history;
    expect([system?.role, others.length]).toEqual(["system", 101]);
    const { retained: kept, dropped } = retainMessages(history, policy());
    expect(dropped).toEqual(others.slice(0, 1));
    expect(kept).toEqual([system, ...others.slice(1)]);
  },
);

proves(["R153"], "drops or keeps a reply together with its results", () => {
  const history = historyOf([{ tasks: 1, callsEach: 3 }, { tasks: 1 }]);
  const roles = (maxMessages: number): readonly string[] =>
    retainMessages(history, policy({ maxMessages })).retained.map(({ role }) => role);
  const last = ["user", "assistant"];
  const group = ["assistant", "tool", "tool", "tool"];
  expect(roles(8)).toEqual(["system", "user", ...group, "assistant", ...last]);
  expect(roles(7)).toEqual(["system", ...group, "assistant", ...last]);
  for (const maxMessages of [6, 5, 4, 3])
    expect(roles(maxMessages)).toEqual(["system", "assistant", ...last]);
  expect(roles(2)).toEqual(["system", ...last]);
  expect(roles(1)).toEqual(["system", "assistant"]);
});

test("keeps the last group, regardless of its length", () => {
  const [system, task, ...group] = historyOf([{ tasks: 1, callsEach: 3 }]).slice(0, -1);
  const { retained: kept } = retainMessages(
    [system, task, ...group].filter((one) => one !== undefined),
    policy({ maxMessages: 1 }),
  );
  expect(kept.map(({ role }) => role)).toEqual(["system", "assistant", "tool", "tool", "tool"]);
});

const pairs = (from: number, to: number): readonly string[] =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index).flatMap((one) => [
    `Q${one}?`,
    `A${one}.`,
  ]);

proves(["R154"], "keeps the messages of every execution by default", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role, model } = soloist(Array.from({ length: 7 }, (_, index) => says(`A${index + 1}.`)));
  for (const number of [1, 2, 3, 4, 5, 6, 7])
    await s.outcome(s.start(role, `Q${number}?`, { session }));
  const shown = model.requests[6]?.messages.map(({ text }) => text);
  expect(shown).toEqual(["Work.", ...pairs(1, 6), "Q7?"]);
  expect(session.messages.map(({ text }) => text)).toEqual(pairs(1, 7));
  expect(s.sink.ofType("conversation.compacted")).toEqual([]);
});

proves(
  ["R154"],
  "drops the messages of the first execution in the sixth with a limit of five",
  async () => {
    const s = newSessionFixture();
    const session = await s.session("customer-42", { retention: { maxExecutions: 5 } });
    const { role, model } = soloist(
      Array.from({ length: 7 }, (_, index) => says(`A${index + 1}.`)),
    );
    for (const number of [1, 2, 3, 4, 5, 6, 7])
      await s.outcome(s.start(role, `Q${number}?`, { session }));
    const shown = (index: number): readonly string[] =>
      model.requests[index]?.messages.map(({ text }) => text) ?? [];
    expect(shown(4)).toEqual(["Work.", ...pairs(1, 4), "Q5?"]);
    expect(shown(5)).toEqual(["Work.", ...pairs(2, 5), "Q6?"]);
    expect(shown(6)).toEqual(["Work.", ...pairs(3, 6), "Q7?"]);
    expect(session.messages.map(({ text }) => text)).toEqual(pairs(3, 7));
    expect([session.executions.length, session.executionCount]).toEqual([7, 7]);
    expect(s.sink.ofType("conversation.compacted").map((event) => event.messagesAfter)).toEqual([
      10, 10,
    ]);
  },
);

proves(
  ["R155"],
  "replaces dropped messages by one summary, whose model call is charged to the run but not counted as a step",
  async () => {
    const s = newSessionFixture();
    const session = await s.session("customer-42", {
      retention: { maxMessages: 3, summarizeDropped: true },
    });
    const first = soloist([says("A1."), says("A2.")]);
    await s.outcome(s.start(first.role, "Q1?", { session }));
    await s.outcome(s.start(first.role, "Q2?", { session }));
    expect(s.sink.ofType("conversation.compacted")).toEqual([]);
    const events = s.sink.events.length;
    const { role, model } = soloist([says("They greeted."), says("A3.")]);
    const run = s.start(role, "Q3?", { session, budget: { steps: 1 } });
    const result = await s.outcome(run);
    const told = parsePausedRun(run.snapshot()).agents[0]?.state.telemetry.usage;
    expect(told).toEqual(result.usage.own);
    const [asked, shown] = model.requests;
    expect([asked?.messages.map((one) => one.role), asked?.tools]).toEqual([
      ["system", "user"],
      [],
    ]);
    for (const text of ["Q1?", "A1.", "Q2?"]) expect(asked?.messages[1]?.text).toContain(text);
    expect(asked?.messages[1]?.text).not.toContain("A2.");
    const summary = "Summary of earlier messages, which were removed to save space:\nThey greeted.";
    expect(shown?.messages.map(({ text }) => text)).toEqual(["Work.", summary, "A2.", "Q3?"]);
    expect([result.status, result.usage.own]).toEqual([
      "completed",
      expect.objectContaining({ modelCalls: 2, steps: 1, totalTokens: 30 }),
    ]);
    const later = s.sink.events.slice(events).map(({ type }) => type);
    expect(later.filter((type) => /^budget.(reserved|settled)$/.test(type))).toEqual([
      "budget.reserved",
      "budget.settled",
      "budget.reserved",
      "budget.settled",
    ]);
    expect(said(result.newMessages)).toEqual(["user Q3?", "assistant A3."]);
    expect(said(session.messages)).toEqual([
      `user ${summary}`,
      "assistant A2.",
      "user Q3?",
      "assistant A3.",
    ]);
    expect(session.messages.map(({ note, executionId }) => [note, executionId])).toEqual([
      ["left_out", "execution_3"],
      [undefined, "execution_2"],
      [undefined, "execution_3"],
      [undefined, "execution_3"],
    ]);
  },
);

proves(["R155"], "adds no replacement for dropped messages by default", async () => {
  const s = newSessionFixture();
  const session = await s.session("customer-42", { retention: { maxMessages: 1 } });
  const { role, model } = soloist([says("A1."), says("A2.")]);
  await s.outcome(s.start(role, "Q1?", { session }));
  const result = await s.outcome(s.start(role, "Q2?", { session }));
  expect(model.requests[1]?.messages.map(({ text }) => text)).toEqual(["Work.", "Q2?"]);
  expect(result.usage.own.modelCalls).toBe(1);
});

test("charges a failed or empty summary, and drops the messages without it", async () => {
  for (const empty of [
    says(""),
    says("", { refusal: "No." }),
    { error: new TypeError("Broken.") },
  ]) {
    const s = newSessionFixture();
    const session = await s.session("customer-42", {
      retention: { maxMessages: 2, summarizeDropped: true },
    });
    const { role } = soloist([says("A1.")]);
    await s.outcome(s.start(role, "Q1?", { session }));
    const next = soloist([empty, says("A2.")]);
    const ended = await s.outcome(s.start(next.role, "Q2?", { session }));
    expect([ended.status, ended.text]).toEqual(["completed", "A2."]);
    expect(next.model.requests[1]?.messages.map(({ text }) => text)).toEqual(["Work.", "Q2?"]);
    expect(ended.usage.own.modelCalls).toBe(2);
  }
});

test("includes the previous summary in the next one", async () => {
  const s = newSessionFixture();
  const retention = { maxMessages: 2, summarizeDropped: true };
  const session = await s.session("customer-42", { retention });
  const script = [says("A1."), says("S1."), says("A2."), says("S2."), says("A3.")];
  const { role, model } = soloist(script);
  for (const task of ["Q1?", "Q2?", "Q3?"]) await s.outcome(s.start(role, task, { session }));
  expect(model.requests[3]?.messages[1]?.text).toContain("S1.");
  expect(model.requests[4]?.messages.map(({ text }) => text.split("\n").at(-1))).toEqual([
    "Work.",
    "S2.",
    "Q3?",
  ]);
});

test("keeps all messages that an execution adds while it runs, regardless of the limits", async () => {
  const s = newSessionFixture();
  const session = await s.session("customer-42", { retention: { maxMessages: 2 } });
  const script = [calls(use("search")), calls(use("search")), says("A1.")];
  const { role } = soloist(script, { tools: [spyTool("search")] });
  await s.outcome(s.start(role, "Q1?", { session }));
  expect(session.messages).toHaveLength(6);
  const next = soloist([says("A2.")]);
  await s.outcome(s.start(next.role, "Q2?", { session }));
  expect(next.model.requests[0]?.messages.map(({ text }) => text)).toEqual(["Work.", "A1.", "Q2?"]);
});

test("drops nothing with unlimited messages and executions", () => {
  const history = historyOf(Array.from({ length: 8 }, () => ({ tasks: 30 })));
  const unlimited = policy({ maxMessages: "unlimited", maxExecutions: "unlimited" });
  expect(retainMessages(history, unlimited).retained).toBe(history);
  const { retained: kept } = retainMessages(
    history,
    policy({ maxMessages: "unlimited", maxExecutions: 2 }),
  );
  expect(new Set(kept.slice(1).map(({ executionId }) => executionId))).toEqual(
    new Set(["execution_7", "execution_8"]),
  );
});
