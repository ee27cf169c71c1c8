import { deepStrictEqual, ok } from "node:assert/strict";

import type { Store } from "../store/store.ts";
import {
  ALWAYS_MS,
  check,
  createRunCheck,
  createClaimOptions,
  createBatch,
  NO_PROCESS_ID,
  createLivingOwner,
  run1,
  run2,
  type StoreCheck,
  expectRejection,
  session1,
} from "./store-contract-support.ts";
import { SessionIdSchema, type SessionId } from "../protocol/ids.ts";

/** Options of a claim for which every owner is stale. */
const ofStale = { staleAfterMs: ALWAYS_MS };

/** Promises of a store about lost owners. */
export const crashChecks: readonly StoreCheck[] = [
  createRunCheck("a claim from a lost owner counts one crash", async (store) => {
    const { createdAtMs = Infinity } = (await store.find(run1)) ?? {};
    for (const [index, token] of ["b", "c"].entries()) {
      await store.claim(run1, createClaimOptions(token, ofStale));
      const { lastCrashAtMs } = (await store.find(run1)) ?? {};
      ok(Number.isSafeInteger(lastCrashAtMs) && Number(lastCrashAtMs) >= createdAtMs);
      // An owner that never got the response may repeat the claim.
      await store.claim(run1, createClaimOptions(token, ofStale));
      deepStrictEqual(await readCrashCount(store), index + 1);
    }
    deepStrictEqual(
      (await store.list()).map(({ crashCount: crashes }) => crashes),
      [2],
    );
  }),

  check("an owner whose process has ended is lost", async (store) => {
    await store.create(run1, "", { ...createLivingOwner("a"), processId: NO_PROCESS_ID });
    await store.claim(run1, createClaimOptions("b"));
    deepStrictEqual(await readCrashCount(store), 1);
    await store.create(run2, "", { ...createLivingOwner("a"), processId: NO_PROCESS_ID });
    await store.claim(run2, createClaimOptions("b", { takeOver: true }));
    deepStrictEqual((await store.find(run2))?.crashCount, 1);
  }),

  createRunCheck("an owner that its supervisor reports as lost is lost", async (store) => {
    await store.claim(run1, createClaimOptions("b", { ownerLost: true }));
    deepStrictEqual(await readCrashCount(store), 1);
    deepStrictEqual((await store.find(run1))?.owner, createLivingOwner("b"));
  }),

  createRunCheck("a takeover from a live owner counts no crash", async (store) => {
    await store.claim(run1, createClaimOptions("b", { takeOver: true }));
    const { crashCount: crashes, lastCrashAtMs } = (await store.find(run1)) ?? {};
    deepStrictEqual([crashes, lastCrashAtMs], [0, null]);
  }),

  createRunCheck("a claim of a released run counts no crash", async (store, first) => {
    await store.release(first, "open");
    await store.claim(run1, createClaimOptions("b", ofStale));
    deepStrictEqual(await readCrashCount(store), 0);
    const third = await store.claim(run1, createClaimOptions("c", ofStale));
    await store.release(third, "open");
    await store.claim(run1, createClaimOptions("d", { ownerLost: true }));
    deepStrictEqual(await readCrashCount(store), 1);
  }),

  createRunCheck("only a batch with progress resets the number of crashes", async (store) => {
    const ownership = await store.claim(run1, createClaimOptions("b", ofStale));
    const { lastCrashAtMs } = (await store.find(run1)) ?? {};
    await store.append(ownership, createBatch(1, "1"));
    await store.heartbeat(ownership);
    await store.append(ownership, { ...createBatch(2, "2"), hasProgress: false });
    await store.sendMail(run1, { key: "a", body: "1" });
    deepStrictEqual(await readCrashCount(store), 1);
    await store.append(ownership, { ...createBatch(3, "3"), hasProgress: true });
    deepStrictEqual(await readCrashCount(store), 0);
    await store.claim(run1, createClaimOptions("c", ofStale));
    const run = await store.find(run1);
    deepStrictEqual(run?.crashCount, 1);
    ok(Number(run.lastCrashAtMs) >= Number(lastCrashAtMs));
  }),

  createRunCheck("the loss of an owner that only queued the run is not counted", async (store) => {
    const states: unknown[] = [];
    const note = async (): Promise<void> => {
      const { crashCount, isQueued } = (await store.find(run1)) ?? {};
      states.push([crashCount, isQueued]);
    };
    const first = await store.claim(run1, createClaimOptions("b", ofStale));
    await store.append(first, { ...createBatch(1, "1"), isQueued: true });
    await store.heartbeat(first);
    await note();
    const second = await store.claim(run1, createClaimOptions("c", { ownerLost: true }));
    await note();
    await store.append(second, { ...createBatch(2, "2"), isQueued: true });
    await store.append(second, createBatch(3, "3"));
    await store.append(second, { ...createBatch(2, "2"), isQueued: true });
    const third = await store.claim(run1, createClaimOptions("d", ofStale));
    await note();
    await store.append(third, { ...createBatch(4, "4"), isQueued: true });
    await store.release(third, "open");
    await note();
    deepStrictEqual(states, [
      [1, true],
      [1, false],
      [2, false],
      [2, false],
    ]);
  }),

  createRunCheck("a run that has settled has no crashes", async (store) => {
    for (const status of ["paused", "ended"] as const) {
      const ownership = await store.claim(
        run1,
        createClaimOptions(`before ${status}`, { ownerLost: true }),
      );
      await store.release(ownership, status);
      deepStrictEqual([status, await readCrashCount(store)], [status, 0]);
      await store.claim(run1, createClaimOptions(`after ${status}`));
    }
  }),
];

async function readCrashCount(store: Store): Promise<number | undefined> {
  return (await store.find(run1))?.crashCount;
}

/** Promises of a store about sessions. */
export const sessionStoreChecks: readonly StoreCheck[] = [
  check("a session is written and read, with versions from 1", async (store) => {
    deepStrictEqual(await store.readSession(session1), undefined);
    deepStrictEqual(await store.writeSession(session1, 0, '{"a":1}'), 1);
    deepStrictEqual(await store.readSession(session1), { version: 1, body: '{"a":1}' });
    deepStrictEqual(await store.writeSession(session1, 1, '{"a":2}'), 2);
    deepStrictEqual(await store.readSession(session1), { version: 2, body: '{"a":2}' });
  }),

  check("a write with another version is rejected and changes nothing", async (store) => {
    await expectRejection(store.writeSession(session1, 1, "1"), "session_conflict", {
      expected: 1,
      found: 0,
    });
    deepStrictEqual(await store.readSession(session1), undefined);
    await store.writeSession(session1, 0, "1");
    await store.writeSession(session1, 1, "2");
    for (const expected of [0, 1, 3])
      await expectRejection(store.writeSession(session1, expected, "3"), "session_conflict", {
        expected,
        found: 2,
      });
    // Writing the same text twice is two writes: two writers cannot both win.
    await expectRejection(store.writeSession(session1, 1, "2"), "session_conflict");
    deepStrictEqual(await store.readSession(session1), { version: 2, body: "2" });
  }),

  check("one of several concurrent writers succeeds", async (store) => {
    for (const version of [0, 1]) {
      const writes = Array.from({ length: 10 }, (_, index) =>
        store.writeSession(session1, version, `"${version}.${index}"`),
      );
      const outcomes = await Promise.allSettled(writes);
      const winners = outcomes.flatMap((outcome, index) =>
        outcome.status === "fulfilled" ? [{ version: outcome.value, index }] : [],
      );
      deepStrictEqual(
        winners.map((winner) => winner.version),
        [version + 1],
      );
      const body = `"${version}.${winners[0]?.index}"`;
      deepStrictEqual(await store.readSession(session1), { version: version + 1, body });
      const losers = outcomes.filter((outcome) => outcome.status === "rejected");
      await Promise.all(
        losers.map(({ reason }) => expectRejection(Promise.reject(reason), "session_conflict")),
      );
    }
  }),

  check("sessions are listed, the last written first", async (store) => {
    deepStrictEqual(await store.listSessions(), []);
    const ids = Array.from({ length: 103 }, (_, index) => createSessionId(`session_${index}`));
    for (const id of ids) await store.writeSession(id, 0, "0");
    const [first = session1, second = session1] = ids;
    await store.writeSession(first, 1, "1");
    const order = [first, ...ids.slice(1).toReversed()];
    deepStrictEqual(await store.listSessions(), order.slice(0, 100));
    deepStrictEqual(await store.listSessions({ limit: 2 }), order.slice(0, 2));
    deepStrictEqual(await store.listSessions({ limit: 0 }), []);
    deepStrictEqual(await store.listSessions({ limit: 1_000 }), order);
    await store.removeSession(second);
    deepStrictEqual(await store.listSessions({ limit: 1_000 }), order.slice(0, -1));
    for (const limit of [-1, 0.5, Number.NaN])
      await expectRejection(store.listSessions({ limit }), "invalid_argument");
  }),

  check("a removed session is gone, and a new one can have its id", async (store) => {
    deepStrictEqual(await store.removeSession(session1), false);
    await store.writeSession(session1, 0, "1");
    await store.writeSession(session1, 1, "2");
    deepStrictEqual(await store.removeSession(session1), true);
    deepStrictEqual(await store.removeSession(session1), false);
    deepStrictEqual(await store.readSession(session1), undefined);
    await expectRejection(store.writeSession(session1, 2, "3"), "session_conflict", { found: 0 });
    deepStrictEqual(await store.writeSession(session1, 0, "4"), 1);
  }),

  check("a session of any length is stored character by character", async (store) => {
    const lines = '{\n  "text": "\u{1F600} \u2028 \\ud800 \\u0000 \\" \'"\r\n}';
    await store.writeSession(session1, 0, lines);
    deepStrictEqual((await store.readSession(session1))?.body, lines);
    const long = JSON.stringify("é".repeat(5_000_000));
    await store.writeSession(session1, 1, long);
    deepStrictEqual((await store.readSession(session1))?.body === long, true);
  }),

  check("ids of sessions are compared character by character", async (store) => {
    const names = ["a", "A", "a ", " a", "á", "a\u0301", "%", "_", "'", '"', "\\", "../a", "é"];
    const ids = names.map(createSessionId);
    for (const [index, id] of ids.entries()) await store.writeSession(id, 0, String(index));
    for (const [index, id] of ids.entries())
      deepStrictEqual(await store.readSession(id), { version: 1, body: String(index) });
    deepStrictEqual(await store.listSessions(), ids.toReversed());
  }),

  check("a session that cannot be stored unchanged is rejected", async (store) => {
    const failure = { reason: "unsuitable", isTransient: false };
    for (const body of ['"\ud800"', '"\0"'])
      await expectRejection(store.writeSession(session1, 0, body), "store_failed", failure);
    const long = createSessionId("x".repeat(513));
    for (const id of [createSessionId("\udc00"), createSessionId("\0"), long]) {
      await expectRejection(store.writeSession(id, 0, "1"), "store_failed", failure);
      await expectRejection(store.readSession(id), "store_failed", failure);
      await expectRejection(store.removeSession(id), "store_failed", failure);
    }
    for (const version of [-1, 0.5, Number.NaN, Infinity])
      await expectRejection(store.writeSession(session1, version, "1"), "invalid_argument");
    deepStrictEqual(await store.listSessions(), []);
  }),
];

function createSessionId(text: string): SessionId {
  return SessionIdSchema().parse(text);
}
