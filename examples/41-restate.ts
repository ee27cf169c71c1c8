// Two workers over a Restate server, which notices a killed worker at once. A balancer spreads the
// connections.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { freePort, startBalancer, startRestate } from "./scale-out/servers.ts";
import { compareWithCrash, startWorker, stopWorker } from "./scale-out/trial.ts";

const urls = await startRestate();
const folder = mkdtempSync(join(tmpdir(), "restate-"));
const ports = [await freePort(), await freePort()] as const;
const environment = {
  ENGINE: "restate",
  ...urls,
  WORKER_URL: await startBalancer(ports),
  RUNS_FILE: join(folder, "runs.db"), // on several machines: DATABASE_URL
  LOG: join(folder, "log.txt"),
};
const start = (port: number) => startWorker({ ...environment, PORT: `${port}` });
const workers = [await start(ports[0]), await start(ports[1])] as const;
await stopWorker(await compareWithCrash(workers, environment));

rmSync(folder, { recursive: true });
process.exit(); // ends the server, too
