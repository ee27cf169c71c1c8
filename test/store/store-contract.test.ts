// Goal: the contract suite fails for every store that breaks a promise.
// Method: the store in memory, with one promise broken at a time.

import { expect, test } from "vitest";

import { SessionIdSchema, type SessionId } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
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
  "epochs are not checked": (real) => ({
    append: async (ownership, batch) => {
      const run = await real.find(ownership.runId);
      const { owner, epoch = 0 } = run ?? {};
      await real.append({ ...ownership, epoch, token: owner?.token ?? ownership.token }, batch);
    },
  }),
  "beats are taken from any process": (real) => ({
    beat: async (ownership) => void (await real.find(ownership.runId)),
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
  "an unknown run reads as empty": (real) => ({
    read: async function* (runId, from) {
      if ((await real.find(runId)) !== undefined) yield* real.read(runId, from);
    },
  }),
  "every end is an end": (real) => ({ release: (ownership) => real.release(ownership, "ended") }),
  "oldest first": (real) => ({
    list: async (filter) => (await real.list(filter)).toReversed(),
  }),
  "every status is listed": (real) => ({
    list: (filter) => real.list(filter?.limit === undefined ? {} : { limit: filter.limit }),
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
  return SessionIdSchema.parse(sessionId.toLowerCase());
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
