// Goal: the contract suite fails for every store that violates the contract.
// Method: the store in memory, with one violation at a time.

import { expect, test } from "vitest";

import { SessionIdSchema, type SessionId } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { createRunEndedError } from "../../src/store/store-errors.ts";
import type { Store } from "../../src/store/store.ts";
import { storeContract } from "../../src/testing/store-contract.ts";
import { forwarding } from "../support/journal/forwarding-store.ts";

type Break = (real: Store) => Partial<Store>;

const BREAKS: Readonly<Record<string, Break>> = {
  "a run can be created twice": (real) => ({
    create: async (runId, title, owner) => {
      await real.remove(runId, 0);
      return await real.create(runId, title, owner);
    },
  }),
  "a claim always succeeds": (real) => ({
    claim: (runId, options) => real.claim(runId, { ...options, takeOver: true }),
  }),
  "no owner is stale after silence": (real) => ({
    claim: (runId, options) => real.claim(runId, { ...options, staleAfterMs: 1e12 }),
  }),
  "the process of a claimant is not identified": (real) => ({
    claim: (runId, options) =>
      real.claim(runId, { ...options, owner: { ...options.owner, hostname: "x" } }),
  }),
  "takeOver has no effect": (real) => ({
    claim: (runId, options) => real.claim(runId, { ...options, takeOver: false }),
  }),
  "no crash is counted": (real) => ({
    find: async (runId) => {
      const found = await real.find(runId);
      return found && { ...found, crashCount: 0 };
    },
  }),
  "every takeover counts as a crash": (real) => ({
    claim: (runId, options) =>
      real.claim(runId, options.takeOver === true ? { ...options, ownerLost: true } : options),
  }),
  "every batch counts as progress": (real) => ({
    append: (ownership, batch) => real.append(ownership, { ...batch, hasProgress: true }),
  }),
  "no batch counts as progress": (real) => ({
    append: (ownership, batch) => real.append(ownership, { ...batch, hasProgress: false }),
  }),
  "the loss of an owner that only queued the run counts as a crash": (real) => ({
    append: (ownership, batch) => real.append(ownership, { ...batch, isQueued: false }),
  }),
  "an owner stays queued": (real) => ({
    append: (ownership, batch) =>
      real.append(ownership, {
        ...batch,
        isQueued: batch.firstNumber > 1 || batch.isQueued === true,
      }),
  }),
  "epochs are not checked": (real) => ({
    append: async (ownership, batch) => {
      const run = await real.find(ownership.runId);
      const { owner, epoch = 0 } = run ?? {};
      await real.append({ ...ownership, epoch, token: owner?.token ?? ownership.token }, batch);
    },
  }),
  "heartbeats are accepted from any process": (real) => ({
    heartbeat: async (ownership) => void (await real.find(ownership.runId)),
  }),
  "a batch can be appended twice": (real) => ({
    append: async (ownership, batch) => {
      const { recordCount = 0 } = (await real.find(ownership.runId)) ?? {};
      await real.append(ownership, { ...batch, firstNumber: recordCount + 1 });
    },
  }),
  "a repeated batch is an error": (real) => ({
    append: async (ownership, batch) => {
      const { recordCount = 0 } = (await real.find(ownership.runId)) ?? {};
      const records = batch.firstNumber <= recordCount ? ['"other"'] : batch.records;
      await real.append(ownership, { ...batch, records });
    },
  }),
  "batches are appended in part": (real) => ({
    append: async (ownership, { firstNumber, records }) => {
      for (const [index, record] of records.entries())
        await real.append(ownership, { firstNumber: firstNumber + index, records: [record] });
    },
  }),
  "records are altered": (real) => ({
    append: (ownership, batch) =>
      real.append(ownership, { ...batch, records: batch.records.map((one) => one.normalize()) }),
  }),
  "reads always start at the first record": (real) => ({ read: (runId) => real.read(runId) }),
  "the limit of a read has no effect": (real) => ({
    read: (runId, from) => real.read(runId, from),
  }),
  "a read returns one record more than its limit": (real) => ({
    read: (runId, from, limit = Infinity) => real.read(runId, from, limit + 1),
  }),
  "an unknown run reads as empty": (real) => ({
    read: async function* (...asked) {
      if ((await real.find(asked[0])) !== undefined) yield* real.read(...asked);
    },
  }),
  "a released run always has ended": (real) => ({
    release: (ownership) => real.release(ownership, "ended"),
  }),
  "unseen mail prevents the end of a run": (real) => ({
    release: (held, status, lastMail = Infinity) =>
      real.release(
        held,
        lastMail === 0 ? "open" : status,
        lastMail === Infinity ? undefined : lastMail,
      ),
  }),
  "a run that is released open is paused": (real) => ({
    release: (held, status, lastMail) =>
      real.release(held, status === "open" ? "paused" : status, lastMail),
  }),
  "unseen mail does not reopen a paused run": (real) => ({
    release: (held, status) => real.release(held, status),
  }),
  "mail does not reopen a paused run": (real) => ({
    find: async (runId) => {
      const run = await real.find(runId);
      const rests = run?.status === "open" && run.owner === null && run.recordCount > 0;
      return rests ? { ...run, status: "paused" } : run;
    },
  }),
  "a release of a run that mail has reopened is refused": (real) => ({
    release: async (held, status) => {
      const run = await real.find(held.runId);
      const isOpened = run?.status === "open" && run.owner === null;
      await real.release(isOpened ? { ...held, epoch: 0 } : held, status);
    },
  }),
  "the sender of mail becomes the owner": (real) => ({
    sendMail: async (runId, post) => {
      const number = await real.sendMail(runId, post);
      await real.claim(runId, {
        owner: { token: post.key, hostname: "x", processId: 1 },
        staleAfterMs: 0,
      });
      return number;
    },
  }),
  "one key creates two mails": (real) => ({
    sendMail: async (runId, { key, body }) => {
      const { length } = await real.readMail(runId);
      return await real.sendMail(runId, { key: key && `${key} ${length}`, body });
    },
  }),
  "a repeated key reopens the run": (real) => ({
    sendMail: async (runId, post) => {
      const { length } = await real.readMail(runId);
      const number = await real.sendMail(runId, post);
      const run = await real.find(runId);
      if (number <= length && run?.status === "paused")
        await real.sendMail(runId, { key: "again", body: "1" });
      return number;
    },
  }),
  "a repeated key is an error after the end of the run": (real) => ({
    sendMail: async (runId, post) => {
      if ((await real.find(runId))?.status === "ended") throw createRunEndedError(runId);
      return await real.sendMail(runId, post);
    },
  }),
  "concurrent senders get the same number": (real) => ({
    sendMail: async (runId, post) => {
      const { length } = await real.readMail(runId);
      await real.sendMail(runId, post);
      return length + 1;
    },
  }),
  "the newest mail is read first": (real) => ({
    readMail: async (runId, from) => (await real.readMail(runId, from)).toReversed(),
  }),
  "all mails are always read": (real) => ({ readMail: (runId) => real.readMail(runId) }),
  "mails are read from the next number on": (real) => ({
    readMail: (runId, from) => real.readMail(runId, from === undefined ? from : from + 1),
  }),
  "an unknown run reads as without mail": (real) => ({
    readMail: async (runId, from) =>
      (await real.find(runId)) === undefined ? [] : await real.readMail(runId, from),
  }),
  "the body of a mail is altered": (real) => ({
    sendMail: (runId, { key, body }) => real.sendMail(runId, { key, body: body.trim() }),
  }),
  "keys are case-insensitive": (real) => ({
    sendMail: (runId, { key, body }) => real.sendMail(runId, { key: key.toLowerCase(), body }),
  }),
  "the oldest run is listed first": (real) => ({
    list: async (filter) => (await real.list(filter)).toReversed(),
  }),
  "runs of every status are listed": (real) => ({
    list: ({ status: _status, ...filter } = {}) => real.list(filter),
  }),
  "a list always begins with the newest run": (real) => ({
    list: ({ before: _before, ...filter } = {}) => real.list(filter),
  }),
  "a list before a missing run is empty": (real) => ({
    list: async (filter) => {
      const { before } = filter ?? {};
      const isGone = before !== undefined && (await real.find(before)) === undefined;
      return isGone ? [] : await real.list(filter);
    },
  }),
  "lists have no default limit": (real) => ({
    list: (filter) => real.list({ ...filter, limit: filter?.limit ?? 1e6 }),
  }),
  "active runs can be removed": (real) => ({ remove: (runId) => real.remove(runId, 0) }),
  "versions of sessions are not checked": (real) => ({
    writeSession: async (sessionId, _expected, body) => {
      const { version = 0 } = (await real.readSession(sessionId)) ?? {};
      return await real.writeSession(sessionId, version, body);
    },
  }),
  "ids of sessions are case-insensitive": (real) => ({
    writeSession: (sessionId, expected, body) =>
      real.writeSession(lower(sessionId), expected, body),
    readSession: (sessionId) => real.readSession(lower(sessionId)),
  }),
  "sessions are listed in reverse order": (real) => ({
    listSessions: async (options) => (await real.listSessions(options)).toReversed(),
  }),
  "a missing session is reported as removed": (real) => ({
    removeSession: async (sessionId) => {
      await real.removeSession(sessionId);
      return true;
    },
  }),
  "`close` has no effect": () => ({ close: async () => undefined }),
};

function lower(sessionId: SessionId): SessionId {
  return SessionIdSchema().parse(sessionId.toLowerCase());
}

/** Returns the store in memory with this violation. */
function broken(how: Break): Store {
  const real = memoryStore();
  return forwarding(real, { ...how(real) });
}

/** Returns the name of the first failing check. */
async function breach(how: Break): Promise<string | undefined> {
  for (const { name, run } of storeContract()) {
    try {
      await run(async () => broken(how));
    } catch {
      return name;
    }
  }
  return undefined;
}

test("accepts the store in memory", async () => {
  expect(await breach(() => ({}))).toBeUndefined();
});

test.each(Object.entries(BREAKS))("fails a store in which %s", async (_what, how) => {
  expect(await breach(how)).toBeDefined();
});

test("gives each check a name of its own", () => {
  const names = storeContract().map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
});
