import { deepStrictEqual, ok } from "node:assert/strict";

import { RunIdSchema, type RunId } from "../protocol/ids.ts";
import type { Ownership, StoredRun } from "../store/run-store.ts";
import type { Store } from "../store/store.ts";
import {
  collectTexts,
  ALWAYS_MS,
  check,
  createRunCheck,
  createClaimOptions,
  NEVER_MS,
  createBatch,
  NO_PROCESS_ID,
  createLivingOwner,
  expectRejection,
  run1,
  run2,
  session1,
  type StoreCheck,
  UNSUITABLE,
} from "./store-contract-support.ts";

const creation: readonly StoreCheck[] = [
  check("a created run is open, empty and owned, in epoch 1", async (store) => {
    const ownership = await store.create(run1, "the first", createLivingOwner("a"));
    deepStrictEqual(ownership, { runId: run1, token: "a", epoch: 1 });
    const run = await store.find(run1);
    const { createdAtMs = 0, updatedAtMs = 0, heartbeatAtMs = 0 } = run ?? {};
    deepStrictEqual(run, {
      runId: run1,
      status: "open",
      title: "the first",
      epoch: 1,
      recordCount: 0,
      createdAtMs,
      updatedAtMs,
      owner: createLivingOwner("a"),
      heartbeatAtMs,
      crashCount: 0,
      lastCrashAtMs: null,
      isQueued: false,
    });
    ok(Number.isSafeInteger(createdAtMs) && updatedAtMs >= createdAtMs);
    ok(heartbeatAtMs !== null && heartbeatAtMs >= createdAtMs);
    deepStrictEqual(await collectTexts(store.read(run1)), []);
  }),

  check("a run is created once", async (store) => {
    const ownership = await store.create(run1, "the first", createLivingOwner("a"));
    await expectRejection(store.create(run1, "another", createLivingOwner("b")), "run_exists", {
      runId: run1,
    });
    // A process that never got the response may repeat the creation.
    deepStrictEqual(await store.create(run1, "the first", createLivingOwner("a")), ownership);
    await store.append(ownership, { firstNumber: 1, records: ["1"] });
    await expectRejection(store.create(run1, "the first", createLivingOwner("a")), "run_exists");
    await store.release(ownership, "ended");
    await expectRejection(store.create(run1, "another", createLivingOwner("b")), "run_exists");
    const run = await store.find(run1);
    deepStrictEqual([run?.title, run?.status, run?.epoch], ["the first", "ended", 1]);
  }),

  check("one of several concurrent creations succeeds", async (store) => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 10 }, (_, index) =>
        store.create(run1, "", createLivingOwner(`${index}`)),
      ),
    );
    const winners = outcomes.flatMap((outcome) =>
      outcome.status === "fulfilled" ? [outcome.value.token] : [],
    );
    const run = await store.find(run1);
    deepStrictEqual(winners, [run?.owner?.token]);
  }),

  check("a title is stored, with unsuitable characters replaced", async (store) => {
    await store.create(
      run1,
      "half \ud800, nothing \0, \u{1F600} 'x' \"y\"\n%",
      createLivingOwner("a"),
    );
    const title = "half \uFFFD, nothing \uFFFD, \u{1F600} 'x' \"y\"\n%";
    deepStrictEqual((await store.find(run1))?.title, title);
    await store.create(run2, "long".repeat(1_000_000), createLivingOwner("a"));
    deepStrictEqual((await store.find(run2))?.title.slice(0, 8), "longlong");
  }),

  check(
    "ids of runs are compared character by character, and unsuitable ids are rejected",
    async (store) => {
      const names = ["a", "A", "a ", "á", "a\u0301", "%", "_", "'", '"', "\\", "../a", "__proto__"];
      const ids = names.map((name) => RunIdSchema().parse(name));
      for (const id of ids) await store.create(id, id, createLivingOwner(`of ${id}`));
      for (const id of ids) deepStrictEqual((await store.find(id))?.title, id);
      for (const name of ["\ud800", "\0", "x".repeat(513)]) {
        const id = RunIdSchema().parse(name);
        await expectRejection(
          store.create(id, "", createLivingOwner("a")),
          "store_failed",
          UNSUITABLE,
        );
        await expectRejection(store.claim(id, createClaimOptions("a")), "store_failed", UNSUITABLE);
        await expectRejection(store.find(id), "store_failed", UNSUITABLE);
        await expectRejection(collectTexts(store.read(id)), "store_failed", UNSUITABLE);
        await expectRejection(store.remove(id, NEVER_MS), "store_failed", UNSUITABLE);
      }
      const owners = [
        { ...createLivingOwner("a"), token: "" },
        { ...createLivingOwner("a"), hostname: "\ud800" },
        ...[-1, 0.5, Number.NaN, 2 ** 40].map((processId) => ({
          ...createLivingOwner("a"),
          processId,
        })),
      ];
      for (const owner of owners)
        await expectRejection(store.create(run1, "", owner), "store_failed", UNSUITABLE);
      deepStrictEqual(await store.find(run1), undefined);
    },
  ),

  check("an unknown run or session is not found", async (store) => {
    const ownership = { runId: run1, token: "a", epoch: 1 };
    const batch = { firstNumber: 1, records: ["1"] };
    deepStrictEqual(await store.find(run1), undefined);
    deepStrictEqual(await store.list(), []);
    deepStrictEqual(await store.remove(run1, NEVER_MS), false);
    await expectRejection(
      store.claim(run1, createClaimOptions("a", { takeOver: true })),
      "unknown_run",
      { runId: run1 },
    );
    await expectRejection(store.append(ownership, batch), "unknown_run");
    await expectRejection(store.heartbeat(ownership), "unknown_run");
    await expectRejection(store.release(ownership, "ended"), "unknown_run");
    await expectRejection(collectTexts(store.read(run1)), "unknown_run");
  }),
];

const ownership: readonly StoreCheck[] = [
  createRunCheck("a run with a live owner is not taken over", async (store, first) => {
    await store.append(first, createBatch(1, "1"));
    const before = await store.find(run1);
    await expectRejection(store.claim(run1, createClaimOptions("b")), "run_active", {
      runId: run1,
    });
    await expectRejection(
      store.claim(run1, createClaimOptions("b", { staleAfterMs: Infinity })),
      "run_active",
    );
    await expectRejection(store.remove(run1, NEVER_MS), "run_active");
    deepStrictEqual(await store.find(run1), before);
    await store.append(first, createBatch(2, "2"));
    for (const staleAfterMs of [-1, Number.NaN]) {
      await expectRejection(
        store.claim(run1, createClaimOptions("b", { staleAfterMs })),
        "invalid_argument",
      );
      await expectRejection(store.remove(run1, staleAfterMs), "invalid_argument");
    }
  }),

  check("an owner without heartbeats is lost", async (store) => {
    await store.create(run1, "", createLivingOwner("a"));
    const second = await store.claim(run1, createClaimOptions("b", { staleAfterMs: ALWAYS_MS }));
    deepStrictEqual(second, { runId: run1, token: "b", epoch: 2 });
    await expectRejection(store.claim(run1, createClaimOptions("c")), "run_active");
  }),

  check("an owner whose process on this machine has ended may be replaced", async (store) => {
    const dead = { ...createLivingOwner("a"), processId: NO_PROCESS_ID };
    await store.create(run1, "", dead);
    deepStrictEqual((await store.claim(run1, createClaimOptions("b"))).epoch, 2);
    await store.create(run2, "", { ...dead, hostname: "another-machine.invalid" });
    await expectRejection(store.claim(run2, createClaimOptions("b")), "run_active");
    await expectRejection(store.remove(run2, NEVER_MS), "run_active");
    const third = await store.claim(run2, createClaimOptions("c", { staleAfterMs: ALWAYS_MS }));
    await store.release(third, "paused");
    await store.remove(run2, NEVER_MS);
    await store.create(run2, "", dead);
    deepStrictEqual(await store.remove(run2, NEVER_MS), true);
  }),

  check("a takeover replaces the present owner", async (store) => {
    await store.create(run1, "", createLivingOwner("a"));
    for (const [index, token] of ["b", "c"].entries()) {
      const taken = await store.claim(run1, createClaimOptions(token, { takeOver: true }));
      deepStrictEqual(taken, { runId: run1, token, epoch: index + 2 });
      deepStrictEqual((await store.find(run1))?.owner, createLivingOwner(token));
    }
    // An owner that never got the response may repeat the claim.
    deepStrictEqual((await store.claim(run1, createClaimOptions("c"))).epoch, 3);
  }),

  createRunCheck("one of several concurrent claims succeeds", async (store, first) => {
    await store.release(first, "paused");
    const outcomes = await Promise.allSettled(
      Array.from({ length: 10 }, (_, index) => store.claim(run1, createClaimOptions(`${index}`))),
    );
    const winners = outcomes.flatMap((outcome) =>
      outcome.status === "fulfilled" ? [outcome.value] : [],
    );
    const run = await store.find(run1);
    deepStrictEqual(winners, [{ runId: run1, token: run?.owner?.token, epoch: 2 }]);
  }),

  createRunCheck("writes of a replaced owner are rejected", async (store, first) => {
    await store.append(first, createBatch(1, "1"));
    const second = await store.claim(run1, createClaimOptions("b", { takeOver: true }));
    const lost = { runId: run1, epoch: 1, foundEpoch: 2 };
    const attempts: readonly (() => Promise<void>)[] = [
      () => store.append(first, createBatch(2, '"late"')),
      () => store.append(first, createBatch(1, "1")), // refused although it was accepted before
      () => store.heartbeat(first),
      () => store.release(first, "ended"),
    ];
    for (const attempt of attempts) await expectRejection(attempt(), "run_fenced", lost);
    await store.append(second, createBatch(2, "2"));
    await store.release(second, "ended");
    for (const attempt of attempts) await expectRejection(attempt(), "run_fenced", lost);
    deepStrictEqual(await collectTexts(store.read(run1)), ["1", "2"]);
    deepStrictEqual((await store.find(run1))?.status, "ended");
  }),

  createRunCheck("an ownership with another token or epoch is rejected", async (store, real) => {
    const forged: readonly Ownership[] = [
      { ...real, token: "b" },
      { ...real, epoch: 2 },
      { ...real, epoch: 0 },
    ];
    for (const forgery of forged) {
      await expectRejection(store.append(forgery, createBatch(1, "1")), "run_fenced");
      await expectRejection(store.heartbeat(forgery), "run_fenced");
      await expectRejection(store.release(forgery, "ended"), "run_fenced");
    }
    await store.append({ ...real }, createBatch(1, "1"));
  }),

  check("a released run has the given status and no owner", async (store) => {
    let ownership = await store.create(run1, "", createLivingOwner("a"));
    for (const status of ["paused", "open", "ended", "paused"] as const) {
      await store.release(ownership, status);
      const { epoch } = ownership;
      const run = await store.find(run1);
      const [owner, heartbeatAtMs] = [run?.owner, run?.heartbeatAtMs];
      deepStrictEqual(
        { status: run?.status, owner, heartbeatAtMs, epoch: run?.epoch },
        { status, owner: null, heartbeatAtMs: null, epoch },
      );
      // A process that never got the response may repeat the release, but nothing else.
      await store.release(ownership, status);
      const other = status === "ended" ? "paused" : "ended";
      await expectRejection(store.release(ownership, other), "run_fenced", {
        epoch,
        foundEpoch: epoch,
      });
      await expectRejection(store.append(ownership, createBatch(1, "1")), "run_fenced");
      await expectRejection(store.heartbeat(ownership), "run_fenced");
      ownership = await store.claim(run1, createClaimOptions(`after ${status} ${epoch}`));
      deepStrictEqual([ownership.epoch, (await store.find(run1))?.status], [epoch + 1, "open"]);
    }
  }),

  createRunCheck("an append and a heartbeat count as signs of life", async (store, ownership) => {
    const heartbeats = [(await store.find(run1))?.heartbeatAtMs ?? Infinity];
    const signs = [
      () => store.heartbeat(ownership),
      () => store.append(ownership, createBatch(1, "1")),
      () => store.append(ownership, createBatch(1, "1")),
    ];
    for (const sign of signs) {
      await sign();
      heartbeats.push((await store.find(run1))?.heartbeatAtMs ?? Infinity);
    }
    deepStrictEqual(
      heartbeats,
      heartbeats.toSorted((left, right) => left - right),
    );
  }),
];

const lists: readonly StoreCheck[] = [
  check("runs are listed newest first, filtered by status, up to a limit", async (store) => {
    const ids = Array.from({ length: 103 }, (_, index) => RunIdSchema().parse(`run_${index}`));
    const ownerships: Ownership[] = [];
    for (const id of ids) ownerships.push(await store.create(id, "", createLivingOwner(id)));
    for (const [index, run] of ownerships.entries()) {
      if (index % 3 === 1) await store.release(run, "paused");
      if (index % 3 === 2) await store.release(run, "ended");
    }
    const newestFirst = ids.toReversed();
    deepStrictEqual(getRunIds(await store.list()), newestFirst.slice(0, 100));
    deepStrictEqual(getRunIds(await store.list({ limit: 3 })), newestFirst.slice(0, 3));
    deepStrictEqual(getRunIds(await store.list({ limit: 0 })), []);
    deepStrictEqual(getRunIds(await store.list({ limit: 1_000 })), newestFirst);
    const paused = ids.filter((_, index) => index % 3 === 1).toReversed();
    deepStrictEqual(getRunIds(await store.list({ status: "paused" })), paused);
    deepStrictEqual(
      getRunIds(await store.list({ status: "paused", limit: 2 })),
      paused.slice(0, 2),
    );
    const [newest] = await store.list({ limit: 1 });
    deepStrictEqual(newest, await store.find(newest?.runId ?? run1));
    for (const limit of [-1, 0.5, Number.NaN])
      await expectRejection(store.list({ limit }), "invalid_argument");
  }),

  check("a list continues before a given run", async (store) => {
    const ids = ["a", "b", "c", "d", "e"].map((name) => RunIdSchema().parse(`run_${name}`));
    const ownerships: Ownership[] = [];
    for (const id of ids) ownerships.push(await store.create(id, "", createLivingOwner(id)));
    const [first = run1, second = run1, third = run1, , last = run1] = ids;
    deepStrictEqual(getRunIds(await store.list({ before: last })), ids.slice(0, 4).toReversed());
    deepStrictEqual(getRunIds(await store.list({ before: third, limit: 1 })), [second]);
    deepStrictEqual(getRunIds(await store.list({ before: first })), []);
    for (const [index, run] of ownerships.entries())
      if (index % 2 === 0) await store.release(run, "paused");
    const filter = { status: "paused", before: last } as const;
    deepStrictEqual(getRunIds(await store.list(filter)), [third, first]);
    deepStrictEqual(getRunIds(await store.list({ ...filter, before: second })), [first]);
    await store.remove(third, ALWAYS_MS);
    await expectRejection(store.list({ before: third }), "unknown_run", { runId: third });
    await expectRejection(
      store.list({ before: RunIdSchema().parse("\0") }),
      "store_failed",
      UNSUITABLE,
    );
  }),

  check("removing a run removes its journal, and its id can be used again", async (store) => {
    const stored = await store.create(run2, "", createLivingOwner("a"));
    await store.append(stored, createBatch(1, '"kept"'));
    const ownership = await store.create(run1, "", createLivingOwner("a"));
    await store.append(ownership, createBatch(1, "1", "2"));
    await store.release(ownership, "ended");
    deepStrictEqual(await store.remove(run1, NEVER_MS), true);
    deepStrictEqual(await store.remove(run1, NEVER_MS), false);
    deepStrictEqual(await store.find(run1), undefined);
    await expectRejection(collectTexts(store.read(run1)), "unknown_run");
    await expectRejection(store.append(ownership, createBatch(3, "3")), "unknown_run");
    const anew = await store.create(run1, "", createLivingOwner("b"));
    deepStrictEqual([anew.epoch, await collectTexts(store.read(run1))], [1, []]);
    await expectRejection(store.append(ownership, createBatch(1, "1")), "run_fenced");
    deepStrictEqual(await store.remove(run1, ALWAYS_MS), true);
    deepStrictEqual(getRunIds(await store.list()), [run2]);
    deepStrictEqual(await collectTexts(store.read(run2)), ['"kept"']);
  }),

  createRunCheck("a closed store rejects all calls", async (store, ownership) => {
    const last = store.append(ownership, createBatch(1, "1"));
    await last;
    await store.close();
    await store.close();
    const closed = { reason: "closed", isTransient: false };
    for (const attempt of createStoreAttempts(store, ownership))
      await expectRejection(attempt(), "store_failed", closed);
  }),
];

/** Returns calls of all methods of a store. */
function createStoreAttempts(
  store: Store,
  ownership: Ownership,
): readonly (() => Promise<unknown>)[] {
  return [
    () => store.create(run2, "", createLivingOwner("a")),
    () => store.claim(run1, createClaimOptions("b", { takeOver: true })),
    () => store.append(ownership, createBatch(2, "2")),
    () => store.heartbeat(ownership),
    () => store.release(ownership, "ended"),
    () => collectTexts(store.read(run1)),
    () => store.sendMail(run1, { key: "a", body: "1" }),
    () => store.readMail(run1),
    () => store.find(run1),
    () => store.list(),
    () => store.remove(run1, ALWAYS_MS),
    () => store.listSessions(),
    () => store.readSession(session1),
    () => store.writeSession(session1, 0, "1"),
    () => store.removeSession(session1),
  ];
}

/** Promises of a store about runs. */
export const runStoreChecks: readonly StoreCheck[] = [...creation, ...ownership, ...lists];

function getRunIds(runs: readonly StoredRun[]): readonly RunId[] {
  return runs.map(({ runId }) => runId);
}
