// Goal: every fault of a session, its store or its options is reported as one coded error, and
// nothing changes.
// Method: every part of a stored session invalid once; stores that misbehave; callers that pass
// other values.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect, test } from "vitest";
import { z } from "zod";

import { EspalierError } from "../../../src/kernel/error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { SessionOptions } from "../../../src/orchestrator/sessions/session-options.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, use } from "../../harness/scripted-agents.ts";
import { thrownBy } from "../../support/thrown.ts";
import {
  codeOf,
  rejectionOf,
  newSessionFixture,
  type SessionFixture,
} from "../../support/session-fixture.ts";

async function stored(s: SessionFixture): Promise<string> {
  const session = await s.session();
  const { role } = soloist([calls(use("search")), says("A1.")], { tools: [spyTool("search")] });
  await s.outcome(s.start(role, "Q1?", { session }));
  return s.shelf.bodyOf("customer-42");
}

const JsonSchema = z.record(z.string(), z.unknown());
type Json = z.infer<typeof JsonSchema>;
const BodySchema = z.looseObject({ messages: z.array(JsonSchema) });

function broken(body: string, change: (record: Json, messages: Json[]) => void): string {
  const record = BodySchema.parse(JSON.parse(body));
  change(record, record.messages);
  return JSON.stringify(record);
}

const BODIES: Readonly<Record<string, (body: string) => string>> = {
  "invalid JSON": () => "{",
  "an empty text": () => "",
  "a list": () => "[]",
  null: () => "null",
  "truncated JSON": (body) => body.slice(0, -20),
  "a version that is text": (body) => broken(body, (one) => (one["version"] = "1")),
  "the id of another session": (body) => broken(body, (one) => (one["sessionId"] = "customer-43")),
  "an unknown key": (body) => broken(body, (one) => (one["more"] = 1)),
  "a negative count": (body) => broken(body, (one) => (one["executionCount"] = -1)),
  "a count below the number of executions": (body) =>
    broken(body, (one) => (one["executionCount"] = 0)),
  "no executions": (body) => broken(body, (one) => (one["executions"] = [])),
  "a call without its result": (body) => broken(body, (_one, list) => list.splice(2, 1)),
  "a result without its call": (body) => broken(body, (_one, list) => list.splice(1, 1)),
  "a message that occurs twice": (body) =>
    broken(body, (_one, list) => list.push(...list.slice(0, 1))),
  "a system message": (body) =>
    broken(body, (_one, list) => Object.assign(list[0] ?? {}, { role: "system" })),
  "a message of an unknown execution": (body) =>
    broken(body, (_one, list) =>
      Object.assign(list[0] ?? {}, { executionId: "execution_9", messageId: "execution_9.m2" }),
    ),
  "a message id out of range": (body) =>
    broken(body, (_one, list) => Object.assign(list[0] ?? {}, { messageId: "execution_1.m-2" })),
  "a step of another execution": (body) =>
    broken(body, (_one, list) => Object.assign(list[0] ?? {}, { stepId: "execution_2.1" })),
  "an unknown role": (body) =>
    broken(body, (_one, list) => Object.assign(list[0] ?? {}, { role: "prophet" })),
};

describe("an invalid stored session", () => {
  test.each(Object.entries(BODIES))("is refused and not changed: %s", async (_what, change) => {
    const s = newSessionFixture();
    const body = change(await stored(s));
    s.shelf.shelf.set("customer-42", { version: 1, body });
    const found = await s.elsewhere().catch((thrown: unknown) => thrown);
    if (!EspalierError.is(found)) throw new Error("It was read.");
    expect([found.code, found.data["sessionId"]]).toEqual(["invalid_session", "customer-42"]);
    expect(found.message).toContain('Cannot read session "customer-42": ');
    expect(s.shelf.bodyOf("customer-42")).toBe(body);
  });
});

proves(["D647"], "refuses a stored session of another version and does not change it", async () => {
  for (const version of [0, 2, 3]) {
    const s = newSessionFixture();
    const body = broken(await stored(s), (one) => (one["version"] = version));
    s.shelf.shelf.set("customer-42", { version: 1, body });
    await expect(s.elsewhere()).rejects.toMatchObject({
      code: "unsupported_version",
      message: `Expected session "customer-42" to have format version 1, got ${version}. Read it with the version of espalier that wrote it.`,
      data: { sessionId: "customer-42", expected: 1, got: version },
    });
    expect(s.shelf.bodyOf("customer-42")).toBe(body);
  }
});

test("keeps its messages and version if the stored session has become unreadable", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([says("A1.")]);
  await s.outcome(s.start(role, "Q1?", { session }));
  const { messages } = session;
  s.shelf.shelf.set("customer-42", { version: 5, body: "{" });
  expect(await rejectionOf(session.reload())).toBe("invalid_session");
  expect([session.messages, session.version]).toEqual([messages, 1]);
});

describe("an invalid id", () => {
  const ids = ["", " \n", "a\0b", "\uD800", "x".repeat(513)];
  test.each([...ids, 42, null, undefined, {}, Promise.resolve("x")])(
    "is refused: %j",
    async (id) => {
      const s = newSessionFixture();
      const asked: unknown = Reflect.apply(s.session, undefined, [id ?? null]);
      expect(await rejectionOf(Promise.resolve(asked))).toBe("invalid_argument");
    },
  );
});

test("accepts ids that look like parts of objects", async () => {
  const s = newSessionFixture();
  for (const id of ["__proto__", "constructor", "a/b", "ünï 😀"]) {
    const session = await s.session(id);
    const { role } = soloist([says("A1.")]);
    const result = await s.outcome(s.start(role, "Q1?", { session }));
    expect([result.session?.status, (await s.elsewhere(id)).messages.length]).toEqual(["saved", 2]);
  }
});

const OPTIONS: readonly unknown[] = [
  { retain: {} },
  { retention: { maxMessage: 3 } },
  { retention: { maxMessages: 0 } },
  { retention: { maxMessages: -1 } },
  { retention: { maxMessages: 1.5 } },
  { retention: { maxMessages: Number.NaN } },
  { retention: { maxMessages: Infinity } },
  { retention: { maxExecutions: 0 } },
  { retention: { maxExecutions: "5" } },
  { retention: { summarizeDropped: "yes" } },
  { retention: null },
  { failedExecutionPolicy: "drop" },
  { failedExecutionPolicy: null },
  { showBoundaries: 1 },
  { store: {} },
  { store: null },
  [],
  null,
  "customer",
];

describe("invalid options", () => {
  test.each(OPTIONS)("are refused: %j", async (options) => {
    const s = newSessionFixture();
    const asked: unknown = Reflect.apply(s.orchestrator.openSession, s.orchestrator, [
      "customer-42",
      options,
    ]);
    expect(await rejectionOf(Promise.resolve(asked))).toBe("invalid_argument");
  });
});

test("requires a store for sessions", async () => {
  const { orchestrator } = newFixture();
  await expect(orchestrator.openSession("customer-42")).rejects.toThrow(
    "Expected options.store to be set, since sessions are stored there, got undefined. Set it, or session options.store.",
  );
});

describe("a value that is not a session", () => {
  test.each([null, {}, "customer-42", 42, [], Promise.resolve({})])(
    "is refused by a start: %j",
    (session) => {
      const s = newSessionFixture();
      const { role } = soloist([]);
      expect(
        codeOf(() =>
          Reflect.apply(s.orchestrator.start, s.orchestrator, [role, "Q?", { session }]),
        ),
      ).toBe("invalid_argument");
      expect(s.sink.events).toEqual([]);
    },
  );
});

test("names the way to get a session if a start gets another value", () => {
  const { role } = soloist([]);
  const start = (session: unknown) => (): unknown =>
    Reflect.apply(Orchestrator.prototype.start, new Orchestrator(), [role, "Go.", { session }]);
  expect(thrownBy(start("customer-42")).message).toBe(
    'Expected start options.session to be a session, got "customer-42". Get it from orchestrator.openSession().',
  );
});

test("leaves the session free after a start that is refused for another reason", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([says("A1.")]);
  expect(codeOf(() => s.start(role, "", { session }))).toBe("invalid_argument");
  const result = await s.outcome(s.start(role, "Q1?", { session }));
  expect(result.session?.status).toBe("saved");
});

const STORES: Readonly<Record<string, SessionOptions["store"]>> = {
  "throws synchronously": misbehaving(() => {
    throw new Error("No network.");
  }),
  "rejects with undefined": misbehaving(() => Promise.reject(undefined)),
  "returns no version": misbehaving(() => Promise.resolve({ body: "{}" })),
  "returns version 0": misbehaving(() => Promise.resolve({ version: 0, body: "{}" })),
  "returns null": misbehaving(() => Promise.resolve(null)),
};

function misbehaving(read: () => unknown): SessionOptions["store"] {
  const store: unknown = {
    readSession: read,
    writeSession: () => Promise.resolve("1"),
    listSessions: () => Promise.resolve([]),
    removeSession: () => Promise.resolve(false),
  };
  return isStore(store) ? store : undefined;
}

function isStore(value: unknown): value is NonNullable<SessionOptions["store"]> {
  return value !== undefined;
}

describe("a store that cannot be read", () => {
  test.each(Object.entries(STORES))("is reported as store_failed: %s", async (_what, store) => {
    const asked = new Orchestrator().openSession(
      "customer-42",
      store === undefined ? {} : { store },
    );
    expect(await rejectionOf(asked)).toBe("store_failed");
  });
});

test("reports a session as not saved if the store returns an invalid version", async () => {
  const s = newSessionFixture();
  const store = misbehaving(() => Promise.resolve(undefined));
  const session = await s.session("customer-42", store === undefined ? {} : { store });
  const result = await s.outcome(s.start(soloist([says("A1.")]).role, "Q1?", { session }));
  expect([result.status, result.session?.status, result.session?.error?.code]).toEqual([
    "completed",
    "failed",
    "store_failed",
  ]);
});

describe("a merge", () => {
  test.each([null, undefined, {}, { session: {} }, "result", Promise.resolve({})])(
    "refuses a value that is not a result: %j",
    async (result) => {
      const s = newSessionFixture();
      const session = await s.session();
      const asked: unknown = Reflect.apply(session.merge, session, [result]);
      expect(await rejectionOf(Promise.resolve(asked))).toBe("invalid_argument");
      expect(s.shelf.writes).toBe(0);
    },
  );

  test("refuses the result of a paused run, which has not ended", async () => {
    const s = newSessionFixture();
    const session = await s.session();
    const { role } = soloist([calls(use("ask"))], {
      tools: [spyTool("ask", () => "asked", { needsApproval: true })],
    });
    const paused = await s.outcome(s.start(role, "Q1?", { session }));
    expect([paused.status, paused.session?.sessionId]).toEqual(["paused", "customer-42"]);
    expect(await rejectionOf(session.merge(paused))).toBe("invalid_argument");
    expect(session.messages).toEqual([]);
  });

  test("refuses the result of another session, and of a run without a session", async () => {
    const s = newSessionFixture();
    const [session, other] = [await s.session(), await s.session("other")];
    const { role } = soloist([says("A1."), says("A2.")]);
    const result = await s.outcome(s.start(role, "Q1?", { session: other }));
    expect(await rejectionOf(session.merge(result))).toBe("invalid_argument");
    const alone = await s.outcome(s.start(role, "Q2?"));
    expect(await rejectionOf(session.merge(alone))).toBe("invalid_argument");
    expect(session.messages).toEqual([]);
  });
});

test("refuses to resume a paused run without the store of its session, or on another session", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role } = soloist([calls(use("ask")), says("A1.")], {
    tools: [spyTool("ask", () => "asked", { needsApproval: true })],
  });
  const { pausedRun } = await s.outcome(s.start(role, "Q1?", { session }));
  const answers = [] as const;
  expect(codeOf(() => s.resume(role, pausedRun, answers))).toBe("invalid_argument");
  const other = await s.session("other");
  expect(
    codeOf(() =>
      s.orchestrator.resume(readPausedRun(pausedRun ?? ""), { answers, role, session: other }),
    ),
  ).toBe("invalid_argument");
  const alone = await s.outcome(s.start(soloist([says("A.")]).role, "Q?", { session: other }));
  expect(alone.session?.status).toBe("saved");
});
