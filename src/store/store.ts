import type { RunStore } from "./run-store.ts";
import type { SessionStore } from "./session-store.ts";

/**
 * Port for stores of runs and sessions. Pass a store to the orchestrator as `store`.
 *
 * @example
 * ```ts
 * import { sqliteStore } from "espalier/store/sqlite";
 *
 * const inTests: Store = memoryStore();
 * const onOneMachine: Store = sqliteStore("runs.db");
 * ```
 */
export interface Store extends RunStore, SessionStore {
  /** Closes files, connections and timers. The store cannot be used afterwards. */
  close(): Promise<void>;
}
