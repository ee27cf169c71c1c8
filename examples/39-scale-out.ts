// Two workers that share one SQLite file. One is killed, and the other continues its run. A client
// answers, follows and cancels runs. The programs are in `examples/scale-out`.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { RunClient, storeEngine } from "espalier/engines";
import { sqliteStore } from "espalier/store/sqlite";

import { compareWithCrash, startWorker, stopWorker } from "./scale-out/trial.ts";

const folder = mkdtempSync(join(tmpdir(), "scale-out-"));
const environment = { RUNS_FILE: join(folder, "runs.db"), LOG: join(folder, "log.txt") };
const workers = [await startWorker(environment), await startWorker(environment)] as const;
const left = await compareWithCrash(workers, environment);

const store = sqliteStore(environment.RUNS_FILE);
const client = new RunClient({ store, engine: storeEngine(), rolesVersion: "v1" });

// What has happened in the run, in whichever process: numbered without a gap, each once.
for await (const event of client.attach("order-4711").events({ from: 1 }))
  if (event.type === "run.resumed") console.log(`resumed at ${event.seq}`);

const numbers: number[] = [];
for await (const { seq } of client.attach("order-4711").events()) numbers.push(seq);
assert.deepEqual(
  numbers,
  Array.from(numbers.keys(), (index) => index + 1),
);

// Ordered once more it is the same run, and has its result at once. Under its id nothing else can be ordered.
const again = await client.start("lead", "Compare three markets.", {
  runId: "order-4711",
  budget: { steps: 50 },
});
assert.equal((await again.getResult()).text, "All of them sell trees.");
await assert.rejects(client.start("lead", "Compare four.", { runId: "order-4711" }), {
  code: "run_id_conflict",
});

// A run that waits for an answer is cancelled.
const unwanted = await client.start("lead", "Compare three markets.");
assert.equal((await unwanted.getResult()).status, "paused");
await unwanted.cancel("Not needed any more.");
assert.equal((await unwanted.getResult()).status, "cancelled");

await stopWorker(left);
await store.close();
rmSync(folder, { recursive: true });
