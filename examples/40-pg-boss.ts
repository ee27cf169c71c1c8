// The same over PostgreSQL and pg-boss: what workers on several machines need is the database alone. A worker that is killed is missed when it
// has given no sign of life for 10 seconds.

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
