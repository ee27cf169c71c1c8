// Entry `espalier/engines`: runs that an engine has led by workers, on one machine or several: the client, the engine on the store alone, and
// the port for engines of your own. `espalier/pg-boss` and `espalier/restate` are engines, too.

export { RunClient, type RemoteRun, type RunClientOptions } from "./orchestrator/run/run-client.ts";
export type { Worker, WorkerOptions } from "./orchestrator/run/worker.ts";
export type { ExecuteOptions } from "./orchestrator/run/execute-request.ts";
export type { RunCommand } from "./orchestrator/run/run-mail.ts";
export type { RunRequest } from "./orchestrator/run/run-mail.ts";
export { storeEngine, type StoreEngineOptions } from "./engine/store-engine.ts";
export type {
  Engine,
  EngineWorker,
  RunExecutor,
  ExecutorResult,
  RunTicket,
} from "./engine/engine.ts";
