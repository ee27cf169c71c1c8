// Goal: the contract suite fails for every store that breaks a promise.
// Method: the store in memory, with one promise broken at a time.

import { expect, test } from "vitest";

import { SessionIdSchema, type SessionId } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { createRunEndedError } from "../../src/store/store-errors.ts";
import type { Store } from "../../src/store/store.ts";
import { storeContract } from "../../src/testing/store-contract.ts";
import { forwarding } from "../journal/forwarding-store.ts";

type Break = (real: Store) => Partial<Store>;

const BREAKS: Readonly<Record<string, Break>> = {
  "a run can be made twice": (real) => ({
    create: async (runId, title, owner) => {
      await real.remove(runId, 0);
      return await real.create(runId, title, owner);
    },
  }),
  "a claim always succeeds": (real) => ({
    claim: (runId, options) => real.claim(runId, { ...options, takeOver: true }),
  }),
  "no owner is ever stale": (real) => ({
    claim: (runId, options) => real.claim(runId, { ...options, staleAfterMs: 1e12 }),
  }),
  "a process is taken for another": (real) => ({
    claim: (runId, options) =>
      real.claim(runId, { ...options, owner: { ...options.owner, hostname: "x" } }),
  }),
  "no claim takes a run over": (real) => ({
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
  "every batch is progress": (real) => ({
    append: (ownership, batch) => real.append(ownership, { ...batch, hasProgress: true }),
  }),
  "no batch is progress": (real) => ({
    append: (ownership, batch) => real.append(ownership, { ...batch, hasProgress: false }),
  }),
  "epochs are not checked": (real) => ({
    append: async (ownership, batch) => {
      const run = await real.find(ownership.runId);
      const { owner, epoch = 0 } = run ?? {};
      await real.append({ ...ownership, epoch, token: owner?.token ?? ownership.token }, batch);
    },
  }),
  "beats are taken from any process": (real) => ({
    heartbeat: async (ownership) => void (await real.find(ownership.runId)),
  }),
  "a batch may be taken twice": (real) => ({
    append: async (ownership, batch) => {
      const { recordCount = 0 } = (await real.find(ownership.runId)) ?? {};
      await real.append(ownership, { ...batch, firstNumber: recordCount + 1 });
    },
  }),
  "a batch once more is an error": (real) => ({
    append: async (ownership, batch) => {
      const { recordCount = 0 } = (await real.find(ownership.runId)) ?? {};
      const records = batch.firstNumber <= recordCount ? ['"other"'] : batch.records;
      await real.append(ownership, { ...batch, records });
    },
  }),
  "batches are taken by halves": (real) => ({
    append: async (ownership, { firstNumber, records }) => {
      for (const [index, record] of records.entries())
        await real.append(ownership, { firstNumber: firstNumber + index, records: [record] });
    },
  }),
  "records are altered": (real) => ({
    append: (ownership, batch) =>
      real.append(ownership, { ...batch, records: batch.records.map((one) => one.normalize()) }),
  }),
  "the beginning is always read": (real) => ({ read: (runId) => real.read(runId) }),
  "all is read that there is": (real) => ({ read: (runId, from) => real.read(runId, from) }),
  "one record more is read than was asked for": (real) => ({
    read: (runId, from, limit = Infinity) => real.read(runId, from, limit + 1),
  }),
  "an unknown run reads as empty": (real) => ({
    read: async function* (...asked) {
      if ((await real.find(asked[0])) !== undefined) yield* real.read(...asked);
    },
  }),
  "every end is an end": (real) => ({ release: (ownership) => real.release(ownership, "ended") }),
  "what was posted unseen keeps a run from its end": (real) => ({
    release: (held, status, lastMail = Infinity) =>
      real.release(
        held,
        lastMail === 0 ? "open" : status,
        lastMail === Infinity ? undefined : lastMail,
      ),
  }),
  "what is given up open rests": (real) => ({
    release: (held, status, lastMail) =>
      real.release(held, status === "open" ? "paused" : status, lastMail),
  }),
  "what was posted unseen is forgotten at rest": (real) => ({
    release: (held, status) => real.release(held, status),
  }),
  "a run that rests is not opened by a post": (real) => ({
    find: async (runId) => {
      const run = await real.find(runId);
      const rests = run?.status === "open" && run.owner === null && run.recordCount > 0;
      return rests ? { ...run, status: "paused" } : run;
    },
  }),
  "a run that a post has opened cannot be given up once more": (real) => ({
    release: async (held, status) => {
      const run = await real.find(held.runId);
      const isOpened = run?.status === "open" && run.owner === null;
      await real.release(isOpened ? { ...held, epoch: 0 } : held, status);
    },
  }),
  "a post gives the run to who posts": (real) => ({
    sendMail: async (runId, post) => {
      const number = await real.sendMail(runId, post);
      await real.claim(runId, {
        owner: { token: post.key, hostname: "x", processId: 1 },
        staleAfterMs: 0,
      });
      return number;
    },
  }),
  "a key may be posted twice": (real) => ({
    sendMail: async (runId, { key, body }) => {
      const { length } = await real.readMail(runId);
      return await real.sendMail(runId, { key: key && `${key} ${length}`, body });
    },
  }),
  "a key once more opens the run": (real) => ({
    sendMail: async (runId, post) => {
      const { length } = await real.readMail(runId);
      const number = await real.sendMail(runId, post);
      const run = await real.find(runId);
      if (number <= length && run?.status === "paused")
        await real.sendMail(runId, { key: "again", body: "1" });
      return number;
    },
  }),
  "a key once more is an error of a run that has ended": (real) => ({
    sendMail: async (runId, post) => {
      if ((await real.find(runId))?.status === "ended") throw createRunEndedError(runId);
      return await real.sendMail(runId, post);
    },
  }),
  "two writers get one number": (real) => ({
    sendMail: async (runId, post) => {
      const { length } = await real.readMail(runId);
      await real.sendMail(runId, post);
      return length + 1;
    },
  }),
  "posts are listed newest first": (real) => ({
    readMail: async (runId, from) => (await real.readMail(runId, from)).toReversed(),
  }),
  "all posts are always given": (real) => ({ readMail: (runId) => real.readMail(runId) }),
  "posts are read after the one that was said": (real) => ({
    readMail: (runId, from) => real.readMail(runId, from === undefined ? from : from + 1),
  }),
  "an unknown run has no posts": (real) => ({
    readMail: async (runId, from) =>
      (await real.find(runId)) === undefined ? [] : await real.readMail(runId, from),
  }),
  "a body is altered": (real) => ({
    sendMail: (runId, { key, body }) => real.sendMail(runId, { key, body: body.trim() }),
  }),
  "keys lose their case": (real) => ({
    sendMail: (runId, { key, body }) => real.sendMail(runId, { key: key.toLowerCase(), body }),
  }),
  "oldest first": (real) => ({
    list: async (filter) => (await real.list(filter)).toReversed(),
  }),
  "every status is listed": (real) => ({
    list: ({ status: _status, ...filter } = {}) => real.list(filter),
  }),
  "a list always begins with the newest": (real) => ({
    list: ({ before: _before, ...filter } = {}) => real.list(filter),
  }),
  "before a run that is not there is nothing": (real) => ({
    list: async (filter) => {
      const { before } = filter ?? {};
      const isGone = before !== undefined && (await real.find(before)) === undefined;
      return isGone ? [] : await real.list(filter);
    },
  }),
  "there is no limit": (real) => ({
    list: (filter) => real.list({ ...filter, limit: filter?.limit ?? 1e6 }),
  }),
  "what is alive is removed": (real) => ({ remove: (runId) => real.remove(runId, 0) }),
  "versions are not checked": (real) => ({
    writeSession: async (sessionId, _expected, body) => {
      const { version = 0 } = (await real.readSession(sessionId)) ?? {};
      return await real.writeSession(sessionId, version, body);
    },
  }),
  "ids lose their case": (real) => ({
    writeSession: (sessionId, expected, body) =>
      real.writeSession(lower(sessionId), expected, body),
    readSession: (sessionId) => real.readSession(lower(sessionId)),
  }),
  "sessions are listed as they were made": (real) => ({
    listSessions: async (options) => (await real.listSessions(options)).toReversed(),
  }),
  "a session that is not there was removed": (real) => ({
    removeSession: async (sessionId) => {
      await real.removeSession(sessionId);
      return true;
    },
  }),
  "it never closes": () => ({ close: async () => undefined }),
};

function lower(sessionId: SessionId): SessionId {
  return SessionIdSchema().parse(sessionId.toLowerCase());
}

/** The real store, but for what is broken. */
function broken(how: Break): Store {
  const real = memoryStore();
  return { ...forwarding(real), ...how(real) };
}

/** The first check that fails. */
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

test("it holds for the store as it is", async () => {
  expect(await breach(() => ({}))).toBeUndefined();
});

test.each(Object.entries(BREAKS))("it fails when %s", async (_what, how) => {
  expect(await breach(how)).toBeDefined();
});

test("its checks are distinguished by their names", () => {
  const names = storeContract().map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
});
