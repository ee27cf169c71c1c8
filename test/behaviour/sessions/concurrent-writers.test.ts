// Goal: several writers of one session, and a failing store, lose nothing: each writer learns the
// fate of what it added.
// Method: two handles of one session, as in two processes; a store that fails at each point;
// recovered runs.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { expect, test } from "vitest";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Store } from "../../../src/store/store.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { calls, use } from "../../harness/scripted-agents.ts";
import {
  codeOf,
  rejectionOf,
  said,
  newSessionFixture,
  storeOf,
} from "../../support/session-fixture.ts";

test("reports a conflict for a paused run if another run has used the session meanwhile, and merges its result later", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist(
    [calls({ toolName: "pay", arguments: { amount: 3 } }), says("Meanwhile."), says("Paid.")],
    { tools: [payTool()] },
  );
  const paused = await s.outcome(s.start(role, "Pay.", { session }));
  await s.outcome(s.start(role, "And?", { session }));
  const { pausedRun } = paused;
  expect(
    codeOf(() =>
      s.orchestrator.resume(readPausedRun(pausedRun ?? ""), {
        answers: approveAll(paused),
        role,
        session,
      }),
    ),
  ).toBe("session_conflict");
  const result = await s.outcome(
    s.resume(role, pausedRun, approveAll(paused), { store: storeOf(s.shelf) }),
  );
  expect([result.status, result.session?.status, result.session?.error?.code]).toEqual([
    "completed",
    "conflict",
    "session_conflict",
  ]);
  await session.merge(result);
  expect(said(session.messages)).toEqual([
    "user And?",
    "assistant Meanwhile.",
    "user Pay.",
    "assistant ",
    "tool paid 3",
    "assistant Paid.",
  ]);
});

test("keeps the result of the second of two concurrent processes, and merges it after the first", async () => {
  const s = newSessionFixture();
  const [session, other] = [await s.session(), await s.session()];
  const { role } = soloist([says("One."), says("Two."), says("Three.")]);
  await s.outcome(s.start(role, "First?", { session }));
  const result = await s.outcome(s.start(role, "Second?", { session: other }));
  expect([result.status, result.text, result.session?.status]).toEqual([
    "completed",
    "Two.",
    "conflict",
  ]);
  expect([other.version, other.messages]).toEqual([0, []]);
  expect(codeOf(() => s.start(role, "Third?", { session: other }))).toBe("session_conflict");
  await other.merge(structuredClone(result));
  await other.merge(result); // A repeated merge changes nothing.
  expect([other.version, s.shelf.writes]).toEqual([2, 3]);
  expect(said(other.messages)).toEqual([
    "user First?",
    "assistant One.",
    "user Second?",
    "assistant Two.",
  ]);
  expect(other.executions.map(({ executionId }) => executionId)).toEqual([
    "execution_1",
    "execution_2",
  ]);
  await s.outcome(s.start(role, "Third?", { session: other }));
  expect([other.executionCount, other.usage.modelCalls]).toEqual([3, 3]);
});

test("continues after a reload with the messages that others have added", async () => {
  const s = newSessionFixture();
  const [session, other] = [await s.session(), await s.session()];
  const { role } = soloist([says("One."), says("Two."), says("Three.")]);
  await s.outcome(s.start(role, "First?", { session }));
  await s.outcome(s.start(role, "Second?", { session: other }));
  await other.reload();
  await s.outcome(s.start(role, "Third?", { session: other }));
  expect(said(other.messages)).toEqual([
    "user First?",
    "assistant One.",
    "user Third?",
    "assistant Three.",
  ]);
});

test("keeps the result if the store fails, and merges it once the store works", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([says("One."), says("Two.")]);
  s.shelf.beforeWrite = () => {
    throw new RangeError("The disk is full.");
  };
  const result = await s.outcome(s.start(role, "First?", { session }));
  expect([result.status, result.session?.status, result.session?.error?.code]).toEqual([
    "completed",
    "failed",
    "store_failed",
  ]);
  expect(result.session?.error?.message).toContain("The disk is full.");
  s.shelf.beforeWrite = () => undefined;
  await session.merge(result);
  await s.outcome(s.start(role, "Second?", { session }));
  expect([session.version, session.messages.length]).toEqual([2, 4]);
});

test("counts an execution once if the answer of the store was lost", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([says("One."), says("Two.")]);
  s.shelf.afterWrite = () => {
    s.shelf.afterWrite = () => undefined;
    throw new Error("connection reset");
  };
  const result = await s.outcome(s.start(role, "First?", { session }));
  expect([result.session?.status, result.session?.version]).toEqual(["saved", 1]);
  await s.outcome(s.start(role, "Second?", { session }));
  expect([session.version, session.executionCount]).toEqual([2, 2]);
});

/**
 * Returns the store of a process that dies during this operation: its request is never answered.
 */
function dying(store: Store, at: "writeSession" | "release", isDone: boolean): Store {
  const never = new Promise<never>(() => undefined);
  const cut =
    <Asked extends readonly unknown[]>(ask: (...asked: Asked) => Promise<unknown>) =>
    async (...asked: Asked): Promise<never> => {
      if (isDone) await ask(...asked);
      return await never;
    };
  const whole = forwarding(store);
  return at === "release"
    ? { ...whole, release: cut(whole.release) }
    : { ...whole, writeSession: cut(whole.writeSession) };
}

const DEATHS = [
  ["before its session is written", "writeSession", false],
  ["after its session was written, before it knows", "writeSession", true],
] as const;

test.each(
  DEATHS.flatMap((death) => [[...death, "finds"] as const, [...death, "hands in"] as const]),
)(
  "saves a run once if its process dies %s (%s, %s), and the recovering process %s the handle",
  async (_when, at, isDone, handle) => {
    const store = memoryStore();
    const s = newFixture({ store: dying(store, at, isDone) });
    const session = await s.orchestrator.openSession("customer-42");
    const { role, model } = soloist([calls(use("search")), says("A1.")], {
      tools: [spyTool("search")],
    });
    const run = s.start(role, "Q1?", { session });
    while (model.requests.length < 2) await flushEventLoop();
    for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
    const other = new Orchestrator({ clock: s.clock, store });
    const given = handle === "finds" ? {} : { session: await other.openSession("customer-42") };
    const recovered = await other.resume(run.runId, { role, takeOver: true, ...given });
    const result = await recovered.result;
    expect([result.text, result.session?.status, result.session?.version]).toEqual([
      "A1.",
      "saved",
      1,
    ]);
    const found = await other.openSession("customer-42");
    expect([said(found.messages), found.executionCount, found.version]).toEqual([
      ["user Q1?", "assistant ", "tool search done", "assistant A1."],
      1,
      1,
    ]);
  },
);

test("saves a run to its session if its end was recorded but it was not released", async () => {
  const store = memoryStore();
  const s = newFixture({ store: dying(store, "release", false) });
  const session = await s.orchestrator.openSession("customer-42");
  const { role, model } = soloist([says("A1.")]);
  const run = s.start(role, "Q1?", { session });
  while (model.requests.length < 1) await flushEventLoop();
  for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
  const other = new Orchestrator({ clock: s.clock, store });
  expect(await rejectionOf(other.resume(run.runId, { role, takeOver: true }))).toBe("run_ended");
  expect(said((await other.openSession("customer-42")).messages)).toEqual([
    "user Q1?",
    "assistant A1.",
  ]);
});
