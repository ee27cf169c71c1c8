// A worker on any machine that has the store and the engine: executes runs of its roles.

import { Orchestrator } from "espalier";

import { engine, store } from "./engine.ts";
import { lead, researcher } from "./roles.ts";

const orchestrator = new Orchestrator({ roles: [lead, researcher], store });
const worker = await orchestrator.startWorker(engine, {
  rolesVersion: "v1",
  maxRuns: 20,
});
console.log("ready");

async function close(): Promise<void> {
  // Releases its runs; other workers continue them.
  await worker.close({ graceMs: 10_000 });
  await engine.close?.();
  await store.close();
}
process.once("SIGTERM", () => void close());
