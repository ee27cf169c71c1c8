import { deepStrictEqual } from "node:assert/strict";

import { RunIdSchema } from "../protocol/ids.ts";
import {
  collectTexts,
  check,
  createRunCheck,
  createClaimOptions,
  createBatch,
  createLivingOwner,
  expectRejection,
  run1,
  type StoreCheck,
  UNSUITABLE,
} from "./store-contract-support.ts";

/** Promises of a store about journals. */
export const journalChecks: readonly StoreCheck[] = [
  createRunCheck("records are read in order, from any number", async (store, ownership) => {
    await store.append(ownership, { firstNumber: 1, records: ["1"] });
    await store.append(ownership, { firstNumber: 2, records: ["2", "3", "4"] });
    await store.append(ownership, { firstNumber: 5, records: ["5"] });
    deepStrictEqual(await collectTexts(store.read(run1)), ["1", "2", "3", "4", "5"]);
    deepStrictEqual(await collectTexts(store.read(run1, 1)), ["1", "2", "3", "4", "5"]);
    deepStrictEqual(await collectTexts(store.read(run1, 4)), ["4", "5"]);
    deepStrictEqual(await collectTexts(store.read(run1, 6)), []);
    deepStrictEqual(await collectTexts(store.read(run1, 1_000)), []);
    deepStrictEqual((await store.find(run1))?.recordCount, 5);
    for (const from of [0, -1, 1.5, Number.NaN])
      await expectRejection(collectTexts(store.read(run1, from)), "invalid_argument");
  }),

  createRunCheck("a read returns as many records as requested", async (store, ownership) => {
    const records = Array.from({ length: 3_000 }, (_, index) => `${index + 1}`);
    await store.append(ownership, { firstNumber: 1, records });
    deepStrictEqual(await collectTexts(store.read(run1, 1, 2)), ["1", "2"]);
    deepStrictEqual(await collectTexts(store.read(run1, undefined, 1)), ["1"]);
    deepStrictEqual(await collectTexts(store.read(run1, 7, 3)), ["7", "8", "9"]);
    deepStrictEqual(await collectTexts(store.read(run1, 500, 1_700)), records.slice(499, 2_199));
    deepStrictEqual(await collectTexts(store.read(run1, 2_999, 3)), ["2999", "3000"]);
    deepStrictEqual(await collectTexts(store.read(run1, 3_001, 3)), []);
    deepStrictEqual(await collectTexts(store.read(run1, 7, 0)), []);
    for (const limit of [-1, 1.5, Number.NaN])
      await expectRejection(collectTexts(store.read(run1, 1, limit)), "invalid_argument");
  }),

  createRunCheck("a repeated batch changes nothing", async (store, ownership) => {
    const batches = [
      { firstNumber: 1, records: ["1", "2"] },
      { firstNumber: 3, records: ["3"] },
    ];
    for (const batch of [...batches, ...batches]) await store.append(ownership, batch);
    deepStrictEqual(await collectTexts(store.read(run1)), ["1", "2", "3"]);
    await Promise.all(
      Array.from({ length: 5 }, () => store.append(ownership, createBatch(4, "4"))),
    );
    deepStrictEqual(await collectTexts(store.read(run1)), ["1", "2", "3", "4"]);
    deepStrictEqual((await store.find(run1))?.recordCount, 4);
  }),

  createRunCheck(
    "a batch that does not continue the journal is rejected as a whole",
    async (store, ownership) => {
      await expectRejection(store.append(ownership, createBatch(2, "2")), "journal_conflict", {
        runId: run1,
        firstNumber: 2,
        recordCount: 0,
      });
      await store.append(ownership, createBatch(1, "1", "2", "3"));
      const unfitting = [
        createBatch(5, "5"), // A record before it is missing.
        createBatch(1, "1", "other", "3"),
        createBatch(2, "1"),
        createBatch(3, "3", "4"), // Half of the batch exists already.
        createBatch(1, "1", "2", "3", "4"),
        createBatch(2 ** 31 - 1, "1"),
      ];
      for (const records of unfitting)
        await expectRejection(store.append(ownership, records), "journal_conflict");
      deepStrictEqual(await collectTexts(store.read(run1)), ["1", "2", "3"]);
      await store.append(ownership, createBatch(4, "4"));
      deepStrictEqual(await collectTexts(store.read(run1, 4)), ["4"]);
    },
  ),

  createRunCheck(
    "a batch with an invalid record is rejected as a whole",
    async (store, ownership) => {
      const batches = [
        { firstNumber: 1, records: [] },
        ...["a\nb", "a\rb", "", '"\ud800"', '"\udc00x"', '"\0"'].map((bad) =>
          createBatch(1, "1", bad),
        ),
        ...[0, -1, 1.5, Number.NaN, Infinity].map((number) => createBatch(number, "1")),
      ];
      for (const batch of batches)
        await expectRejection(store.append(ownership, batch), "store_failed", UNSUITABLE);
      deepStrictEqual(await collectTexts(store.read(run1)), []);
    },
  ),

  check("later changes of the caller's objects do not change the store", async (store) => {
    const owner = { ...createLivingOwner("a") };
    const creation = store.create(run1, "", owner);
    owner.token = "b";
    const ownership = await creation;
    const records = ["1", "2"];
    const append = store.append(ownership, { firstNumber: 1, records });
    records.splice(0, 2, "a\nb");
    await append;
    deepStrictEqual(await collectTexts(store.read(run1)), ["1", "2"]);
    deepStrictEqual((await store.find(run1))?.owner, createLivingOwner("a"));
  }),

  createRunCheck("records are stored character by character", async (store, ownership) => {
    const values = [
      "\ud800",
      "\0",
      "\n",
      "\u{1F600}",
      "\u2028",
      "\uFEFF",
      "é",
      "e\u0301",
      "\uFFFF",
    ];
    const raw = [
      "null",
      "NULL",
      "{}",
      '{"a":"{1,2}"}',
      "  1  ",
      '"\u2028"',
      '"\\\\"',
      "'",
      '"\u007F"',
    ];
    const records = [...values.map((value) => JSON.stringify(value)), ...raw];
    await store.append(ownership, { firstNumber: 1, records });
    deepStrictEqual(await collectTexts(store.read(run1)), records);
  }),

  createRunCheck("a record may exceed a megabyte", async (store, ownership) => {
    const records = [1, 2, 3].map((number) => JSON.stringify(`${number}é`.repeat(700_000)));
    await store.append(ownership, { firstNumber: 1, records });
    await store.append(ownership, { firstNumber: 4, records: ["4"] });
    await store.append(ownership, { firstNumber: 1, records });
    deepStrictEqual(
      (await collectTexts(store.read(run1))).join("") === [...records, "4"].join(""),
      true,
    );
  }),

  createRunCheck("a journal may have ten thousand records", async (store, ownership) => {
    const records = Array.from({ length: 10_000 }, (_, index) => `{"number":${index + 1}}`);
    await store.append(ownership, { firstNumber: 1, records: records.slice(0, 9_000) });
    for (let from = 9_000; from < 10_000; from += 100)
      await store.append(ownership, createBatch(from + 1, ...records.slice(from, from + 100)));
    deepStrictEqual(await collectTexts(store.read(run1)), records);
    deepStrictEqual(await collectTexts(store.read(run1, 9_990)), records.slice(9_989));
  }),

  check("concurrent writes of many runs succeed, even if one is rejected", async (store) => {
    const ids = Array.from({ length: 30 }, (_, index) => RunIdSchema().parse(`run_${index}`));
    const owned = await Promise.all(ids.map((id) => store.create(id, id, createLivingOwner(id))));
    const lost = owned[7] ?? { runId: run1, token: "", epoch: 0 };
    await store.claim(lost.runId, createClaimOptions("thief", { takeOver: true }));
    for (const number of [1, 2, 3]) {
      const outcomes = await Promise.allSettled(
        owned.map((ownership) =>
          store.append(ownership, createBatch(number, `"${ownership.runId}"`)),
        ),
      );
      deepStrictEqual(
        outcomes.flatMap(({ status }, index) => (status === "rejected" ? [index] : [])),
        [7],
      );
    }
    for (const { runId } of owned)
      deepStrictEqual(
        await collectTexts(store.read(runId)),
        runId === lost.runId ? [] : Array.from({ length: 3 }, () => `"${runId}"`),
      );
  }),

  createRunCheck("a reader may stop early while others read", async (store, ownership) => {
    const records = Array.from({ length: 3_000 }, (_, index) => `${index}`);
    await store.append(ownership, { firstNumber: 1, records });
    for await (const record of store.read(run1)) {
      deepStrictEqual(record, "0");
      break;
    }
    const both = await Promise.all([
      collectTexts(store.read(run1)),
      collectTexts(store.read(run1, 1_500)),
    ]);
    deepStrictEqual(both, [records, records.slice(1_499)]);
    await store.append(ownership, createBatch(3_001, '"more"'));
  }),
];
