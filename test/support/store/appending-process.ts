// A process that appends to one run of a file until it is ended, or until another process has
// claimed the run.
// Arguments: the file, the id of the run, its token, the maximum number of batches. It prints the
// number of acknowledged records after each batch.

import { writeSync } from "node:fs";
import { hostname } from "node:os";

import { EspalierError } from "../../../src/kernel/error.ts";
import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { BATCH_SIZE, recordOf } from "./appended-records.ts";

const [path = "", run = "", token = "", most = ""] = process.argv.slice(2);
const runId = RunIdSchema().parse(run);
const store = sqliteStore(path);
const owner = { token, hostname: hostname(), processId: process.pid };

async function appendAll(): Promise<void> {
  const found = await store.find(runId);
  const ownership =
    found === undefined
      ? await store.create(runId, "", owner)
      : await store.claim(runId, { owner, staleAfterMs: Infinity });
  let count = found?.recordCount ?? 0;
  for (let batch = 0; batch < Number(most); batch += 1) {
    const records = Array.from({ length: BATCH_SIZE }, (_, index) => recordOf(count + 1 + index));
    await store.append(ownership, { firstNumber: count + 1, records });
    count += BATCH_SIZE;
    writeSync(1, `${count}\n`);
  }
  await store.release(ownership, "ended");
}

try {
  await appendAll();
} catch (error) {
  if (!EspalierError.is(error)) throw error;
  const { reason } = error.data;
  writeSync(1, `${error.code}${typeof reason === "string" ? ` ${reason}` : ""}\n`);
}
await store.close();
