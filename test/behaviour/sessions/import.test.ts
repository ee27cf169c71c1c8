// Goal: a program that comes from another library continues its conversations in sessions.
// Method: messages are imported into scripted sessions; runs, forks and other processes read them.

import { expect, test } from "vitest";

import type { ImportedMessage } from "../../../src/protocol/message.ts";
import { parsePausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { soloist } from "../../harness/soloist.ts";
import { newSessionFixture, placesOf, rejectionOf, said } from "../../support/session-fixture.ts";

const OLD: readonly ImportedMessage[] = [
  { role: "user", text: "Do pears grow here?" },
  {
    role: "assistant",
    text: "",
    toolCalls: [{ callId: "call_1", toolName: "search", argumentsText: "{}" }],
  },
  { role: "tool", callId: "call_1", toolName: "search", text: "They do." },
  { role: "assistant", text: "Yes." },
];
const OLD_SAID = [
  "user Do pears grow here?",
  "assistant ",
  "tool They do.",
  "assistant Yes.",
] as const;

proves(
  ["D763"],
  "saves imported messages at once, and continues them in the next run",
  async () => {
    const s = newSessionFixture();
    const session = await s.session();
    await session.importMessages(OLD);
    const { version, executions, executionCount, boundaries, usage } = session;
    expect([version, executions, executionCount, boundaries]).toEqual([1, [], 0, []]);
    expect(usage.modelCalls).toBe(0);
    const reread = await s.elsewhere();
    expect(reread.messages).toEqual(session.messages);
    expect(placesOf(session.messages)).toEqual([
      "user execution_1.m1 agent_1 execution_1 -",
      "assistant execution_1.m2 agent_1 execution_1 -",
      "tool execution_1.m3 agent_1 execution_1 -",
      "assistant execution_1.m4 agent_1 execution_1 -",
    ]);

    const { role, model } = soloist([says("Figs, too.")]);
    const result = await s.outcome(s.start(role, "And figs?", { session: reread }));
    expect(model.requests[0]?.messages).toEqual([
      { role: "system", text: "Work.", origin: "instructions" },
      { role: "user", text: "Do pears grow here?", origin: "task" },
      { role: "assistant", text: "", toolCalls: OLD[1]?.role === "assistant" && OLD[1].toolCalls },
      { role: "tool", callId: "call_1", toolName: "search", text: "They do." },
      { role: "assistant", text: "Yes.", toolCalls: [] },
      { role: "user", text: "And figs?", origin: "task" },
    ]);
    expect(said(result.newMessages)).toEqual(["user And figs?", "assistant Figs, too."]);
    const after = await s.session();
    expect(said(after.messages)).toEqual([...OLD_SAID, "user And figs?", "assistant Figs, too."]);
    expect(after.executions.map(({ runId }) => runId)).toEqual([result.runId]);
  },
);

test("continues imported messages after a pause in another process", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  await session.importMessages(OLD);
  const first = soloist([says("Figs, too.")]);
  const run = s.start(first.role, "And figs?", { session });
  run.requestPause();
  const { pausedRun } = await s.outcome(run);
  const resumed = s.orchestrator.resume(parsePausedRun(pausedRun), {
    role: first.role,
    session: await s.elsewhere(),
  });
  expect((await s.outcome(resumed)).session?.status).toBe("saved");
  const { messages } = await s.session();
  expect(said(messages)).toEqual([...OLD_SAID, "user And figs?", "assistant Figs, too."]);
});

proves(["D763"], "forks a session with its imported messages", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  await session.importMessages(OLD);
  const before = await session.fork();
  expect([said(before.messages), before.forkedFrom]).toEqual([OLD_SAID, undefined]);
  const { role } = soloist([says("Figs, too.")]);
  await s.outcome(s.start(role, "And figs?", { session }));
  const fork = await session.fork();
  expect(said(fork.messages)).toEqual(said(session.messages));
  const [imported, own] = new Set(fork.messages.map(({ executionId }) => executionId));
  expect(fork.executions.map(({ executionId }) => executionId)).toEqual([own]);
  await fork.remove(own ?? "");
  expect(said(fork.messages)).toEqual(OLD_SAID);
  expect(said((await s.elsewhere(fork.id)).messages)).toEqual(OLD_SAID);
  const ids = (messages: typeof fork.messages): readonly string[] =>
    messages.map(({ executionId }) => executionId);
  expect(new Set(ids(session.messages)).has(imported ?? "")).toBe(false);
});

proves(
  ["D763"],
  "refuses an import into a stored session, and continues that session",
  async () => {
    const s = newSessionFixture();
    const session = await s.session();
    const { role } = soloist([says("A1."), says("A2.")]);
    await s.outcome(s.start(role, "Q1?", { session }));
    expect(await rejectionOf(session.importMessages(OLD))).toBe("session_conflict");
    await s.outcome(s.start(role, "Q2?", { session }));
    expect(said((await s.elsewhere()).messages)).toEqual([
      "user Q1?",
      "assistant A1.",
      "user Q2?",
      "assistant A2.",
    ]);
    await session.clear();
    expect(await rejectionOf(session.importMessages(OLD))).toBe("session_conflict");
  },
);

proves(["D763"], "imports nothing if another process wrote the session", async () => {
  const s = newSessionFixture();
  const [session, other] = [await s.session(), await s.elsewhere()];
  await other.importMessages([{ role: "user", text: "I was first." }]);
  expect(await rejectionOf(session.importMessages(OLD))).toBe("session_conflict");
  expect(said((await s.session()).messages)).toEqual(["user I was first."]);
});

test("keeps the messages as they were when they were imported", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const mine = { role: "user" as const, text: "Hello." };
  await session.importMessages([mine]);
  mine.text = "Changed.";
  expect(said(session.messages)).toEqual(["user Hello."]);
});

test.each<[unknown, string]>([
  [
    [{ role: "user", content: "Hello." }],
    'Expected messages to be complete messages of users, models and tools, got an array. Correct them: Invalid input: expected string, received undefined at "0.text". Leave out system messages.',
  ],
  [[OLD[0], { role: "system", text: "Answer." }], ' at "1.role". Leave out system messages.'],
  [[OLD[0], OLD[1]], "Correct them: its calls and results do not match."],
  [null, "got null. Correct them: Invalid input: expected array, received null"],
])("refuses an invalid list: %j", async (messages, problem) => {
  const s = newSessionFixture();
  const session = await s.session();
  const work: unknown = Reflect.apply(session.importMessages, session, [messages]);
  await expect(work).rejects.toThrow(problem);
  expect([await rejectionOf(Promise.resolve(work)), session.version]).toEqual([
    "invalid_argument",
    0,
  ]);
  await session.importMessages(OLD);
});
