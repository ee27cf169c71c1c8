import { deepStrictEqual, fail } from "node:assert/strict";
import { hostname } from "node:os";

import { EspalierError, type ErrorCode } from "../kernel/error.ts";
import type { JsonObject } from "../kernel/json.ts";
import { RunIdSchema, SessionIdSchema, type RunId, type SessionId } from "../protocol/ids.ts";
import type { ClaimOptions, JournalBatch, Ownership, RunOwner } from "../store/run-store.ts";
import type { Store } from "../store/store.ts";

/** Check of a promise of a store. */
export interface StoreCheck {
  /** Promise as a sentence, for the name of the test. */
  readonly name: string;
  /**
   * Runs the check, and rejects if the promise is broken. `make` must return an empty store; the
   * check closes it.
   */
  run(make: () => Promise<Store>): Promise<void>;
}

/** Creates a check of a store that closes the store in any case. */
export function check(name: string, promise: (store: Store) => Promise<void>): StoreCheck {
  return {
    name,
    run: async (make) => {
      const store = await make();
      try {
        await promise(store);
      } finally {
        await store.close();
      }
    },
  };
}

/** Creates a check of a store that contains the run `run_1`, owned by `a`. */
export function createRunCheck(
  name: string,
  promise: (store: Store, ownership: Ownership) => Promise<void>,
): StoreCheck {
  return check(
    name,
    async (store) => await promise(store, await store.create(run1, "", createLivingOwner("a"))),
  );
}

/** Fails unless the work rejects with this code and this part of its data. */
export async function expectRejection(
  work: Promise<unknown>,
  code: ErrorCode,
  data: JsonObject = {},
): Promise<void> {
  let result: unknown;
  try {
    result = await work;
  } catch (error) {
    if (!EspalierError.is(error)) throw error;
    const actual = Object.fromEntries(Object.keys(data).map((key) => [key, error.data[key]]));
    deepStrictEqual({ code: error.code, data: actual }, { code, data });
    return;
  }
  fail(`Expected ${code}, got ${JSON.stringify(result)}.`);
}

/** Collects the texts of an iterable. */
export async function collectTexts(texts: AsyncIterable<string>): Promise<readonly string[]> {
  const problems: string[] = [];
  for await (const text of texts) problems.push(text);
  return problems;
}

export const run1: RunId = RunIdSchema().parse("run_1");
export const run2: RunId = RunIdSchema().parse("run_2");
export const session1: SessionId = SessionIdSchema().parse("session_1");

/** Returns an owner in this process, which is alive. */
export function createLivingOwner(token: string): RunOwner {
  return { token, hostname: hostname(), processId: process.pid };
}

/** Higher than the id of any process that a system hands out. */
export const NO_PROCESS_ID = 2 ** 30;

/** Time after which no owner is stale. */
export const NEVER_MS = Number.MAX_SAFE_INTEGER;
/** Time after which every owner is stale. */
export const ALWAYS_MS = 0;

/** Returns the options of a claim by a living owner. By default the run must have no owner. */
export function createClaimOptions(
  token: string,
  options: Omit<Partial<ClaimOptions>, "owner"> = {},
): ClaimOptions {
  return { owner: createLivingOwner(token), staleAfterMs: NEVER_MS, ...options };
}

/** Returns a batch of records that starts at a number. */
export function createBatch(firstNumber: number, ...records: readonly string[]): JournalBatch {
  return { firstNumber, records };
}

/** `data` of the error for values that no store accepts. */
export const UNSUITABLE = { reason: "unsuitable", isTransient: false };
