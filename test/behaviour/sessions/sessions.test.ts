// Goal: successive root executions share a stored history, and each begins from a defined state.
// Method: scripted runs over one session, by one handle and by several, as in several processes.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect, test } from "vitest";

import type { TerminalStatus } from "../../../src/protocol/stop.ts";
import { NO_USAGE } from "../../../src/protocol/usage.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { calls, use } from "../../harness/scripted-agents.ts";
import {
  codeOf,
  rejectionOf,
  said,
  newSessionFixture,
  storeOf,
} from "../../support/session-fixture.ts";

proves(
  ["R152"],
  "has one boundary with the id of the first execution after two, which no model receives",
  async () => {
    const s = newSessionFixture();
    const session = await s.session();
    const { role, model } = soloist([says("One."), says("Two.")]);
    const first = await s.outcome(s.start(role, "First?", { session }));
    expect(session.boundaries).toEqual([]);
    s.clock.advance(5);
    await s.outcome(s.start(role, "Second?", { session }));
    expect(session.boundaries).toEqual([
      { execution: session.executions[0], afterMessageId: "execution_1.m3" },
    ]);
    expect(session.executions).toEqual([
      {
        executionId: "execution_1",
        agentId: "agent_1",
        runId: "run_1",
        role: "solo",
        status: "completed",
        reason: first.reason,
        startedAtMs: 0,
        endedAtMs: 0,
        stepCount: 1,
        repliedSteps: [1],
        usage: first.usage.total,
        isRemoved: false,
      },
      expect.objectContaining({ executionId: "execution_2", startedAtMs: 5, endedAtMs: 5 }),
    ]);
    expect(model.requests[1]?.messages.map(({ text }) => text)).toEqual([
      "Work.",
      "First?",
      "One.",
      "Second?",
    ]);
  },
);

const ended = (id: string): string =>
  `[Execution ${id} of solo ended here: completed, 1970-01-01T00:00:00.000Z]`;

proves(
  ["R152"],
  "shows the end of each execution to the model if showBoundaries is set",
  async () => {
    const s = newSessionFixture();
    const session = await s.session("customer-42", { showBoundaries: true });
    const { role, model } = soloist([says("One."), says("Two."), says("Three.")]);
    for (const task of ["First?", "Second?", "Third?"])
      await s.outcome(s.start(role, task, { session }));
    expect(model.requests.map(({ messages }) => messages.map(({ text }) => text))).toEqual([
      ["Work.", "First?"],
      ["Work.", "First?", "One.", ended("execution_1"), "Second?"],
      [
        "Work.",
        "First?",
        "One.",
        ended("execution_1"),
        "Second?",
        "Two.",
        ended("execution_2"),
        "Third?",
      ],
    ]);
    expect(said(session.messages).filter((line) => line.includes("ended here"))).toEqual([]);
  },
);

/** How an execution may end before another one follows. */
const ENDINGS: Readonly<
  Record<TerminalStatus, { readonly script: readonly ScriptStep[]; readonly steps?: number }>
> = {
  completed: { script: [calls(use("search")), says("One.")] },
  stopped: { script: [calls(use("search"))], steps: 1 },
  failed: { script: [calls(use("search")), { error: new TypeError("Broken.") }] },
  cancelled: { script: [calls(use("search")), says("One.")] },
};

describe.each(Object.entries(ENDINGS))(
  "after an execution that is %s",
  (status, { script, steps }) => {
    proves(
      ["R158"],
      `starts the next execution with the history and new counters [${status}]`,
      async () => {
        const s = newSessionFixture();
        const session = await s.session();
        const failing = spyTool("search", () => {
          throw new Error("No network.");
        });
        const budget = { errorBudget: { maxToolErrors: 1, maxConsecutiveErrors: 1 } };
        const { role } = soloist(script, { tools: [failing], errorBudget: budget.errorBudget });
        const run = s.start(role, "First?", {
          session,
          ...(steps === undefined ? {} : { budget: { steps } }),
        });
        if (status === "cancelled")
          for await (const { phase } of run.iterate())
            if (phase === "applyToolResults") void run.cancel();
        const first = await s.outcome(run);
        expect([first.status, first.session?.status]).toEqual([status, "saved"]);
        expect(session.executions.map((one) => one.status)).toEqual([status]);
        const { role: next, model } = soloist([calls(use("search")), says("Two.")], {
          tools: [failing],
          errorBudget: budget.errorBudget,
        });
        const second = await s.outcome(s.start(next, "Second?", { session }));
        expect([second.status, second.steps.map(({ number }) => number)]).toEqual([
          "completed",
          [1, 2],
        ]);
        expect(second.agents[0]?.errors).toEqual([]);
        expect(second.agents[0]?.toolErrors).toHaveLength(1);
        expect(second.usage.own.steps).toBe(2);
        expect(model.requests[0]?.messages.map(({ text }) => text)).toEqual([
          "Work.",
          ...first.messages.slice(1).map(({ text }) => text),
          "Second?",
        ]);
      },
    );
  },
);

test("sends each role its own instructions, and stores none of them in the history", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const asker = soloist([says("One.")]);
  const other = soloist([says("Two.")], { name: "other", instructions: "Judge." });
  await s.outcome(s.start(asker.role, "First?", { session }));
  await s.outcome(s.start(other.role, "Second?", { session }));
  expect(other.model.requests[0]?.messages.map(({ role, text }) => `${role} ${text}`)).toEqual([
    "system Judge.",
    "user First?",
    "assistant One.",
    "user Second?",
  ]);
  expect(session.executions.map(({ role }) => role)).toEqual(["solo", "other"]);
});

test("is read by another process with all ids, the usage and the version", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([calls(use("search")), says("One.")], { tools: [spyTool("search")] });
  const { usage } = await s.outcome(s.start(role, "First?", { session }));
  const found = await s.elsewhere();
  expect({
    id: found.id,
    version: found.version,
    messages: found.messages,
    executions: found.executions,
    boundaries: found.boundaries,
    executionCount: found.executionCount,
    usage: found.usage,
    forkedFrom: found.forkedFrom,
  }).toEqual({
    id: "customer-42",
    version: 1,
    messages: session.messages,
    executions: session.executions,
    boundaries: [],
    executionCount: 1,
    usage: usage.total,
    forkedFrom: undefined,
  });
});

test("uses the store of the orchestrator by default", async () => {
  const s = newFixture({ store: memoryStore() });
  const session = await s.orchestrator.openSession("customer-42");
  const { role } = soloist([says("One."), says("Two.")]);
  await s.outcome(s.start(role, "First?", { session }));
  const again = await s.orchestrator.openSession("customer-42");
  await s.outcome(s.start(role, "Second?", { session: again }));
  expect(said(again.messages)).toEqual([
    "user First?",
    "assistant One.",
    "user Second?",
    "assistant Two.",
  ]);
});

test("adds up the usage of the whole tree, and charges each execution once, also after a grant", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([calls(use("search")), says("Found.")], { tools: [spyTool("search")] });
  const run = s.start(role, "Do it.", { session, budget: { steps: 1 } });
  await s.outcome(run);
  const grants = [{ budget: { steps: 3 }, by: "Ada" }];
  const result = await s.outcome(s.orchestrator.resume(run.snapshot(), { role, grants, session }));
  expect(session.executions.map(({ status, usage }) => [status, usage.steps])).toEqual([
    ["stopped", 1],
    ["completed", 1],
  ]);
  expect([session.usage, session.version]).toEqual([result.usage.total, 2]);
});

test("is not written while a run is paused, and is written at its end in another process", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([calls({ toolName: "pay", arguments: { amount: 3 } }), says("Paid.")], {
    tools: [payTool()],
  });
  const paused = await s.outcome(s.start(role, "Pay.", { session }));
  expect([paused.session, s.shelf.writes]).toEqual([
    {
      sessionId: "customer-42",
      status: "open",
      version: 0,
      execution: undefined,
      error: undefined,
    },
    0,
  ]);
  const result = await s.outcome(
    s.resume(role, paused.pausedRun, approveAll(paused), { store: storeOf(s.shelf) }),
  );
  expect([result.session?.status, result.session?.version]).toEqual(["saved", 1]);
  await session.reload();
  expect(said(session.messages)).toEqual([
    "user Pay.",
    "assistant ",
    "tool paid 3",
    "assistant Paid.",
  ]);
});

test("continues a paused run with the given handle, which then has the added messages", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([calls({ toolName: "pay", arguments: { amount: 3 } }), says("Paid.")], {
    tools: [payTool()],
  });
  const paused = await s.outcome(s.start(role, "Pay.", { session }));
  const resumed = s.orchestrator.resume(readPausedRun(paused.pausedRun ?? ""), {
    answers: approveAll(paused),
    role,
    session,
  });
  const result = await s.outcome(resumed);
  expect([result.session?.status, session.version, session.messages.length]).toEqual([
    "saved",
    1,
    4,
  ]);
});

test("refuses a second run and every change while a run uses the handle or is written", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const [answer, disk] = [latch(), latch()];
  const { role } = soloist([says("One.", { after: answer.opened }), says("Two.")]);
  s.shelf.beforeWrite = () => disk.opened;
  const run = s.start(role, "First?", { session });
  const tried = async (): Promise<readonly (string | undefined)[]> => [
    codeOf(() => s.start(role, "Second?", { session })),
    await rejectionOf(session.clear()),
    await rejectionOf(session.remove("execution_1")),
    await rejectionOf(session.reload()),
  ];
  const refused = ["invalid_state", "invalid_state", "invalid_state", "invalid_state"];
  expect(await tried()).toEqual(refused);
  answer.open();
  await flushEventLoop();
  expect([s.shelf.writes, await tried()]).toEqual([1, refused]);
  disk.open();
  await s.outcome(run);
  await s.outcome(s.start(role, "Second?", { session }));
  expect(session.messages).toHaveLength(4);
});

test("keeps its usage when it is cleared", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role, model } = soloist([says("One."), says("Two.")]);
  const { usage } = await s.outcome(s.start(role, "First?", { session }));
  await session.clear();
  expect([session.messages, session.executions, session.usage, session.version]).toEqual([
    [],
    [],
    usage.total,
    2,
  ]);
  await s.outcome(s.start(role, "Second?", { session }));
  expect(model.requests[1]?.messages.map(({ text }) => text)).toEqual(["Work.", "Second?"]);
});

test("is empty and not stored before its first use", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  expect([session.version, session.messages, session.executions, session.usage]).toEqual([
    0,
    [],
    [],
    NO_USAGE,
  ]);
  expect(s.shelf.shelf.size).toBe(0);
});

test("records a run that was cancelled before its start, without messages", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([says("Never.")]);
  const run = s.start(role, "First?", { session });
  await run.cancel();
  await s.outcome(run);
  expect([session.executions.map(({ status }) => status), session.messages]).toEqual([
    ["cancelled"],
    [],
  ]);
});

test("exposes frozen values only", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  await s.outcome(s.start(soloist([says("One.")]).role, "First?", { session }));
  for (const part of [session.messages, session.executions, session.usage, session.messages[0]])
    expect(Object.isFrozen(part)).toBe(true);
});
