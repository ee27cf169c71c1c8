// Two workers over PostgreSQL and pg-boss. A killed worker is replaced after 10 seconds without a
// heartbeat.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { startPostgres } from "./scale-out/servers.ts";
import { compareWithCrash, startWorker, stopWorker } from "./scale-out/trial.ts";

const DATABASE_URL = await startPostgres();
const folder = mkdtempSync(join(tmpdir(), "pg-boss-"));
const environment = { ENGINE: "pg-boss", DATABASE_URL, LOG: join(folder, "log.txt") };
const workers = [await startWorker(environment), await startWorker(environment)] as const;
await stopWorker(await compareWithCrash(workers, environment));

rmSync(folder, { recursive: true });
process.exit(); // ends the server, too
