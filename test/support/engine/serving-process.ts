// A worker in its own process, for tests that freeze or kill it: prints when it executes a run, and
// when it has released it.

import { systemClock } from "../../../src/kernel/clock.ts";
import { pgBossEngine } from "../../../src/engine/pg-boss/pg-boss-engine.ts";
import { FakeExecutor } from "../fake-executor.ts";

const [connectionString = "", schema = ""] = process.argv.slice(2);
const engine = pgBossEngine({ connectionString, schema, pollIntervalMs: 100 });
const executor = new FakeExecutor();
await engine.serve(executor);
process.stdout.write("serves\n");
const run = await executor.next();
process.stdout.write("leads\n");
await run.left;
run.fail("run_released");
process.stdout.write("left\n");
// Keeps the process alive until it is killed.
systemClock.setTimer(600_000, () => undefined);
