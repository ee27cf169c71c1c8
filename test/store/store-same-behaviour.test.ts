// Goal: all stores return the same results for the same operations, in any order.
// Method: the same random operations on each; outcomes and final states are compared with those of
// the store in memory.

import * as fc from "fast-check";
import { Client } from "pg";
import { afterAll, expect, test } from "vitest";

import { EspalierError } from "../../src/kernel/error.ts";
import { RunIdSchema, SessionIdSchema, type RunId } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { postgresStore } from "../../src/store/postgres/postgres-store.ts";
import type { Ownership, StoredStatus } from "../../src/store/run-store.ts";
import { sqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../src/store/store.ts";
import { DRIVERS } from "../support/store/drivers.ts";
import { findPostgres } from "../support/store/postgres-server.ts";
import { textsOf } from "../support/store/texts-of.ts";

const found = await findPostgres();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of PostgreSQL are skipped: ${found}.`);
const schema = `espalier_same_${process.pid}`;
afterAll(async () => {
  if (server === undefined) return;
  const admin = new Client({ connectionString: server.url });
  await admin.connect();
  await admin.query(`drop schema if exists ${schema} cascade`);
  await admin.end();
  await server.close();
});

type Command = (store: Store) => Promise<unknown>;

const RUNS = ["run_1", "run_2"].map((id) => RunIdSchema().parse(id));
const SESSIONS = ["session_1", "session_2"].map((id) => SessionIdSchema().parse(id));

const runId = fc.constantFrom(...RUNS);
const sessionId = fc.constantFrom(...SESSIONS);
const owner = fc.record({
  token: fc.constantFrom("a", "b", "c"),
  hostname: fc.constant("nowhere.invalid"),
  processId: fc.constant(1),
});
const ownership = fc.record({
  runId,
  token: fc.constantFrom("a", "b", "c"),
  epoch: fc.integer({ min: 1, max: 4 }),
});
const staleAfterMs = fc.constantFrom(0, 1e12);
const record = fc.constantFrom("1", '"x"', '"\\ud800"', "not\none", '"\ud800"', "null");
const batch = fc.record({
  firstNumber: fc.integer({ min: 0, max: 6 }),
  records: fc.array(record, { maxLength: 3 }),
});
const status = fc.constantFrom<StoredStatus>("open", "paused", "ended");
const post = fc.record({
  key: fc.constantFrom("a", "b", "c", ""),
  body: fc.constantFrom("1", "2", "a\nb"),
});

/**
 * A description of the operation, and its function. Some kinds occur twice, so that runs progress.
 */
const command: fc.Arbitrary<readonly [string, Command]> = fc.oneof(
  asked("create", fc.tuple(runId, fc.string(), owner), (store, args) => store.create(...args)),
  asked(
    "claim",
    fc.tuple(runId, fc.record({ owner, staleAfterMs, takeOver: fc.boolean() })),
    (store, args) => store.claim(...args),
  ),
  asked("append", fc.tuple(ownership, batch), (store, args) => store.append(...args)),
  asked("append next", fc.tuple(runId, record), appendNext),
  asked("append next", fc.tuple(runId, record), appendNext),
  asked("append again", runId, appendAgain),
  asked("give up", fc.tuple(runId, status), giveUp),
  asked("post", fc.tuple(runId, post), (store, args) => store.sendMail(...args)),
  asked("post", fc.tuple(runId, post), (store, args) => store.sendMail(...args)),
  asked("posts", fc.tuple(runId, fc.integer({ min: 0, max: 3 })), async (store, args) =>
    (await store.readMail(...args)).map(({ atMs: _time, ...rest }) => rest),
  ),
  asked("beat", ownership, (store, held) => store.heartbeat(held)),
  asked("release", fc.tuple(ownership, status), (store, args) => store.release(...args)),
  asked("rest", fc.tuple(runId, fc.integer({ min: -1, max: 3 })), rest),
  asked(
    "read",
    fc.tuple(runId, fc.integer({ min: 0, max: 5 }), fc.option(fc.nat(3), { nil: undefined })),
    (store, args) => textsOf(store.read(...args)),
  ),
  asked("remove", fc.tuple(runId, staleAfterMs), (store, args) => store.remove(...args)),
  asked(
    "list",
    fc.record({ status, limit: fc.nat(2), before: runId }, { requiredKeys: ["limit"] }),
    async (store, filter) => (await store.list(filter)).map((run) => run.runId),
  ),
  asked(
    "write",
    fc.tuple(sessionId, fc.integer({ min: -1, max: 3 }), fc.constantFrom("1", "2", "\0")),
    (store, args) => store.writeSession(...args),
  ),
  asked("list sessions", fc.nat(2), (store, limit) => store.listSessions({ limit })),
  asked("remove session", sessionId, (store, id) => store.removeSession(id)),
);

function asked<T>(
  name: string,
  argument: fc.Arbitrary<T>,
  ask: (store: Store, argument: T) => Promise<unknown>,
): fc.Arbitrary<readonly [string, Command]> {
  return argument.map((value) => [
    `${name} ${JSON.stringify(value)}`,
    (store) => ask(store, value),
  ]);
}

/** Appends in the name of the present owner. */
async function appendNext(store: Store, [id, text]: readonly [RunId, string]): Promise<unknown> {
  const { recordCount = 0 } = (await store.find(id)) ?? {};
  return await store.append(await heldBy(store, id), {
    firstNumber: recordCount + 1,
    records: [text],
  });
}

async function appendAgain(store: Store, id: RunId): Promise<unknown> {
  const records = await textsOf(store.read(id));
  return await store.append(await heldBy(store, id), { firstNumber: 1, records });
}

async function giveUp(
  store: Store,
  [id, status]: readonly [RunId, StoredStatus],
): Promise<unknown> {
  return await store.release(await heldBy(store, id), status);
}

async function rest(store: Store, [id, lastMail]: readonly [RunId, number]): Promise<unknown> {
  return await store.release(await heldBy(store, id), "paused", lastMail);
}

/** Returns the ownership of the present owner. */
async function heldBy(store: Store, id: RunId): Promise<Ownership> {
  const run = await store.find(id);
  return { runId: id, token: run?.owner?.token ?? "a", epoch: run?.epoch ?? 1 };
}

/** Returns the outcome without times. */
async function outcomeOf(work: Promise<unknown>): Promise<unknown> {
  try {
    return { value: await work };
  } catch (error) {
    if (!EspalierError.is(error)) throw error;
    const { silentMs: _time, ...data } = error.data;
    return { code: error.code, message: error.message, data };
  }
}

async function stateOf(store: Store): Promise<unknown> {
  const runs = await store.list();
  const journals = await Promise.all(runs.map((run) => textsOf(store.read(run.runId))));
  const sessions = await Promise.all(SESSIONS.map((id) => store.readSession(id)));
  const timeless = runs.map(({ createdAtMs, updatedAtMs, heartbeatAtMs, ...rest }) => ({
    ...rest,
    areInOrder: createdAtMs <= updatedAtMs && (heartbeatAtMs ?? createdAtMs) >= createdAtMs,
  }));
  return { timeless, journals, sessions, order: await store.listSessions() };
}

async function traceOf(store: Store, commands: readonly (readonly [string, Command])[]) {
  const trace: unknown[] = [];
  for (const [words, ask] of commands) trace.push([words, await outcomeOf(ask(store))]);
  trace.push(await stateOf(store));
  return trace;
}

const commands = fc.array(command, { maxLength: 40 });

test("SQLite returns the same results as the store in memory, with each driver", async () => {
  await fc.assert(
    fc.asyncProperty(commands, async (asked) => {
      const stores = DRIVERS.map((driver) => sqliteStore(":memory:", { driver }));
      const expected = await traceOf(memoryStore(), asked);
      for (const store of stores) {
        expect(await traceOf(store, asked)).toEqual(expected);
        await store.close();
      }
    }),
    { numRuns: 150 },
  );
});

test.skipIf(server === undefined)(
  "PostgreSQL returns the same results as the store in memory",
  async () => {
    const store = postgresStore({ connectionString: server?.url ?? "", schema });
    await fc.assert(
      fc.asyncProperty(commands, async (asked) => {
        for (const id of RUNS) await store.remove(id, 0);
        for (const id of SESSIONS) await store.removeSession(id);
        expect(await traceOf(store, asked)).toEqual(await traceOf(memoryStore(), asked));
      }),
      { numRuns: 60 },
    );
    await store.close();
  },
);
