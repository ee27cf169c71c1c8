// Engines and workers that are closed after the test, and tickets for them.

import type { Engine, EngineWorker, RunTicket } from "../../src/engine/engine.ts";
import { RunIdSchema } from "../../src/protocol/ids.ts";
import { afterwards } from "../harness/afterwards.ts";
import type { FakeExecutor } from "./fake-executor.ts";

export function ticketOf(runId: string, role = "lead", version = "v1"): RunTicket {
  return { runId: RunIdSchema().parse(runId), role, version };
}

/** An engine that is closed after the test, before the place goes away. */
export function opened(open: () => Engine): Engine {
  const engine = open();
  afterwards(() => engine.close?.());
  return engine;
}

/** Returns a worker that is closed after the test. Its executions are abandoned then. */
export async function served(engine: Engine, executor: FakeExecutor): Promise<EngineWorker> {
  const worker = await engine.serve(executor);
  afterwards(async () => {
    executor.giveUp();
    await worker.close();
  });
  return worker;
}
