import { deepStrictEqual, ok } from "node:assert/strict";

import type { Mail, StoredRun } from "../store/run-store.ts";
import type { Store } from "../store/store.ts";
import {
  check,
  createRunCheck,
  createClaimOptions,
  NEVER_MS,
  createBatch,
  createLivingOwner,
  expectRejection,
  run1,
  run2,
  type StoreCheck,
  UNSUITABLE,
} from "./store-contract-support.ts";

/** Promises of a store about the mailboxes of runs. */
export const mailChecks: readonly StoreCheck[] = [
  createRunCheck("mail is numbered from 1, and read in order from any number", async (store) => {
    deepStrictEqual(await store.readMail(run1), []);
    const bodies = ["1", '"two"', "{}", "null"];
    for (const [index, body] of bodies.entries())
      deepStrictEqual(await store.sendMail(run1, { key: `key ${index}`, body }), index + 1);
    const expected = bodies.map((body, index) => ({
      number: index + 1,
      key: `key ${index}`,
      body,
    }));
    const mail = await store.readMail(run1);
    deepStrictEqual(removeMailTimes(mail), expected);
    for (const [index, { atMs }] of mail.entries())
      ok(Number.isSafeInteger(atMs) && atMs >= (mail[index - 1]?.atMs ?? 1));
    for (const [from, count] of [
      [1, 4],
      [3, 2],
      [4, 1],
      [5, 0],
      [1_000, 0],
    ] as const)
      deepStrictEqual(await store.readMail(run1, from), mail.slice(4 - count), `from ${from}`);
    for (const from of [0, -1, 1.5, Number.NaN])
      await expectRejection(store.readMail(run1, from), "invalid_argument");
  }),

  createRunCheck(
    "mail has the time of its arrival, and does not count as a heartbeat",
    async (store, ownership) => {
      const before = await store.find(run1);
      await store.sendMail(run1, { key: "a", body: "1" });
      const after = await store.find(run1);
      const [post] = await store.readMail(run1);
      const { updatedAtMs = 0 } = after ?? {};
      ok(post !== undefined && post.atMs >= (before?.createdAtMs ?? Infinity));
      ok(updatedAtMs >= post.atMs);
      deepStrictEqual(after, before && { ...before, updatedAtMs });
      await store.append(ownership, createBatch(1, "1"));
      await store.release(ownership, "paused");
    },
  ),

  check("each run has its own mailbox", async (store) => {
    for (const id of [run1, run2]) await store.create(id, "", createLivingOwner("a"));
    deepStrictEqual(await store.sendMail(run1, { key: "a", body: "1" }), 1);
    deepStrictEqual(await store.sendMail(run2, { key: "a", body: "2" }), 1);
    deepStrictEqual(await store.sendMail(run2, { key: "b", body: "3" }), 2);
    deepStrictEqual(removeMailTimes(await store.readMail(run1)), [
      { number: 1, key: "a", body: "1" },
    ]);
    deepStrictEqual(
      (await store.readMail(run2)).map(({ key }) => key),
      ["a", "b"],
    );
  }),

  createRunCheck(
    "mail with the same key is stored once, whatever its body",
    async (store, ownership) => {
      const posts = ["a", "b", "c"].map((key) => ({ key, body: `"${key}"` }));
      for (const post of posts) await store.sendMail(run1, post);
      await store.release(ownership, "paused");
      const owned = await store.claim(run1, createClaimOptions("b"));
      await store.release(owned, "paused");
      const before = [await store.readMail(run1), await store.find(run1)];
      deepStrictEqual(await store.sendMail(run1, { key: "b", body: '"b"' }), 2);
      deepStrictEqual(await store.sendMail(run1, { key: "a", body: '"another"' }), 1);
      deepStrictEqual([await store.readMail(run1), await store.find(run1)], before);
      const five = Array.from({ length: 5 }, () => store.sendMail(run1, { key: "d", body: "4" }));
      deepStrictEqual(await Promise.all(five), [4, 4, 4, 4, 4]);
      deepStrictEqual((await store.readMail(run1)).length, 4);
    },
  ),

  createRunCheck(
    "concurrent writers get distinct numbers without gaps",
    async (store, ownership) => {
      const writers = ["a", "b", "c"].map(async (writer) => {
        const numbers: number[] = [];
        for (let count = 1; count <= 10; count += 1)
          numbers.push(await store.sendMail(run1, { key: `${writer}${count}`, body: `${count}` }));
        return numbers;
      });
      const owner = (async () => {
        for (let count = 1; count <= 10; count += 1)
          await store.append(ownership, createBatch(count, `${count}`));
      })();
      const numbers = await Promise.all(writers);
      await owner;
      for (const ofOne of numbers) deepStrictEqual(ofOne, ofOne.toSorted(compareNumbers));
      deepStrictEqual(numbers.flat().toSorted(compareNumbers), countUpTo(30));
      const mail = await store.readMail(run1);
      deepStrictEqual(
        mail.map(({ number }) => number),
        countUpTo(30),
      );
      for (const [index, writer] of ["a", "b", "c"].entries())
        deepStrictEqual(
          mail.flatMap(({ key, number }) => (key.startsWith(writer) ? [number] : [])),
          numbers[index],
        );
      deepStrictEqual((await store.find(run1))?.recordCount, 10);
    },
  ),

  createRunCheck("a reader misses no earlier mail while others write", async (store) => {
    const seen: number[] = [];
    for (let count = 1; count <= 30; count += 3) {
      const reading = store.readMail(run1, seen.length + 1);
      const posting = [0, 1, 2].map((more) =>
        store.sendMail(run1, { key: `${count + more}`, body: "1" }),
      );
      const pages = await Promise.all([reading, store.readMail(run1, seen.length + 1)]);
      const [longer = []] = pages.toSorted((left, right) => right.length - left.length);
      seen.push(...longer.map(({ number }) => number));
      await Promise.all(posting);
    }
    seen.push(...(await store.readMail(run1, seen.length + 1)).map(({ number }) => number));
    deepStrictEqual(seen, countUpTo(30));
  }),

  createRunCheck("mail to a paused run opens it, without an owner", async (store, ownership) => {
    await store.append(ownership, createBatch(1, "1"));
    await store.release(ownership, "paused");
    const before = await store.find(run1);
    await store.sendMail(run1, { key: "a", body: "1" });
    const after = await store.find(run1);
    deepStrictEqual(omitTime(after), { ...omitTime(before), status: "open" });
    deepStrictEqual([after?.owner, after?.heartbeatAtMs], [null, null]);
    deepStrictEqual(await readOpenIds(store), [run1]);
    // A process that never got the response may repeat the release: the run stays open.
    await store.release(ownership, "paused");
    deepStrictEqual(await store.find(run1), after);
    await expectRejection(store.release(ownership, "ended"), "run_fenced");
    await expectRejection(store.append(ownership, createBatch(2, "2")), "run_fenced");
    const taken = await store.claim(run1, createClaimOptions("b"));
    deepStrictEqual(taken, { runId: run1, token: "b", epoch: 2 });
    await expectRejection(store.release(ownership, "paused"), "run_fenced");
    deepStrictEqual(removeMailTimes(await store.readMail(run1)), [
      { number: 1, key: "a", body: "1" },
    ]);
    await store.release(taken, "paused");
    deepStrictEqual((await store.find(run1))?.status, "paused");
  }),

  createRunCheck(
    "a run stays open on release if its owner has not seen all mail",
    async (store, ownership) => {
      const seen = await store.sendMail(run1, { key: "a", body: "1" });
      await store.sendMail(run1, { key: "b", body: "2" });
      for (const count of [1, 2]) {
        await store.release(ownership, "paused", seen);
        const run = await store.find(run1);
        deepStrictEqual([run?.status, run?.owner, count], ["open", null, count]);
      }
      deepStrictEqual(await readOpenIds(store), [run1]);
      const taken = await store.claim(run1, createClaimOptions("b"));
      await expectRejection(store.release(taken, "paused", -1), "store_failed", UNSUITABLE);
      await store.release(taken, "paused", 2);
      deepStrictEqual((await store.find(run1))?.status, "paused");
      const last = await store.claim(run1, createClaimOptions("c"));
      await store.release(last, "ended", 0);
      deepStrictEqual((await store.find(run1))?.status, "ended");
    },
  ),

  createRunCheck(
    "another owner can claim a run that was released open",
    async (store, ownership) => {
      await store.append(ownership, createBatch(1, "1"));
      for (let count = 1; count <= 2; count += 1) {
        await store.release(ownership, "open");
        const run = await store.find(run1);
        deepStrictEqual([run?.status, run?.owner, run?.epoch], ["open", null, 1]);
      }
      await expectRejection(store.release(ownership, "ended"), "run_fenced", {
        epoch: 1,
        foundEpoch: 1,
      });
      await expectRejection(store.append(ownership, createBatch(2, "2")), "run_fenced");
      deepStrictEqual(await store.sendMail(run1, { key: "a", body: "1" }), 1);
      deepStrictEqual((await store.find(run1))?.status, "open");
      const taken = await store.claim(run1, createClaimOptions("b"));
      deepStrictEqual(taken.epoch, 2);
      await expectRejection(store.release(ownership, "open"), "run_fenced", {
        epoch: 1,
        foundEpoch: 2,
      });
      await store.append(taken, createBatch(2, "2"));
      deepStrictEqual((await store.readMail(run1)).length, 1);
    },
  ),

  createRunCheck("mail to an ended run is rejected", async (store, ownership) => {
    await store.sendMail(run1, { key: "a", body: "1" });
    await store.release(ownership, "ended");
    const before = [await store.readMail(run1), await store.find(run1)];
    await expectRejection(store.sendMail(run1, { key: "b", body: "2" }), "run_ended", {
      runId: run1,
    });
    // A process that never got the response may send the same mail again.
    deepStrictEqual(await store.sendMail(run1, { key: "a", body: "1" }), 1);
    deepStrictEqual([await store.readMail(run1), await store.find(run1)], before);
  }),

  check("removing a run removes its mail", async (store) => {
    await expectRejection(store.sendMail(run1, { key: "a", body: "1" }), "unknown_run", {
      runId: run1,
    });
    await expectRejection(store.readMail(run1), "unknown_run", { runId: run1 });
    for (const id of [run1, run2]) {
      const ownership = await store.create(id, "", createLivingOwner("a"));
      await store.sendMail(id, { key: "a", body: "1" });
      await store.release(ownership, "ended");
    }
    deepStrictEqual(await store.remove(run1, NEVER_MS), true);
    await expectRejection(store.sendMail(run1, { key: "b", body: "1" }), "unknown_run");
    await expectRejection(store.readMail(run1), "unknown_run");
    deepStrictEqual((await store.readMail(run2)).length, 1);
    await store.create(run1, "", createLivingOwner("a"));
    deepStrictEqual(await store.readMail(run1), []);
    deepStrictEqual(await store.sendMail(run1, { key: "a", body: "2" }), 1);
  }),

  createRunCheck("mail of any length is stored character by character", async (store) => {
    const keys = ["a", "A", "a ", "á", "a\u0301", "%", "'", "__proto__", "\n", "x".repeat(512)];
    const long = JSON.stringify("é".repeat(3_000_000));
    const bodies = ["  1  ", '"\u2028"', '"\\\\"', "'", '"\\ud800\\u0000"', '"\u{1F600}"', long];
    const posts = keys.map((key, index) => ({ key, body: bodies[index % bodies.length] ?? "" }));
    for (const post of posts) await store.sendMail(run1, post);
    const mail = await store.readMail(run1);
    deepStrictEqual(
      mail.map(({ key }) => key),
      keys,
    );
    // Not compared as a whole, because the difference would be printed.
    deepStrictEqual(
      mail.map(({ body }, index) => body === posts[index]?.body),
      keys.map(() => true),
    );
  }),

  createRunCheck("invalid mail is rejected and uses no number", async (store, ownership) => {
    await store.release(ownership, "paused");
    const before = await store.find(run1);
    const keys = ["", "\ud800", "\0", "x".repeat(513)];
    const bodies = ["", "a\nb", "a\rb", '"\ud800"', '"\0"'];
    for (const key of keys)
      await expectRejection(store.sendMail(run1, { key, body: "1" }), "store_failed", UNSUITABLE);
    for (const body of bodies)
      await expectRejection(store.sendMail(run1, { key: "a", body }), "store_failed", UNSUITABLE);
    deepStrictEqual(await store.find(run1), before);
    const changing = { key: "a", body: "1" };
    const posting = store.sendMail(run1, changing);
    Object.assign(changing, { key: "b", body: "2" });
    deepStrictEqual(await posting, 1);
    deepStrictEqual(removeMailTimes(await store.readMail(run1)), [
      { number: 1, key: "a", body: "1" },
    ]);
  }),
];

function removeMailTimes(posts: readonly Mail[]): readonly Omit<Mail, "atMs">[] {
  return posts.map(({ atMs: _time, ...rest }) => rest);
}

function omitTime(run: StoredRun | undefined): object {
  const { updatedAtMs: _time, ...rest } = run ?? {};
  return rest;
}

async function readOpenIds(store: Store): Promise<readonly string[]> {
  return (await store.list({ status: "open" })).map(({ runId }) => runId);
}

function countUpTo(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

function compareNumbers(left: number, right: number): number {
  return left - right;
}
