import type { RunStore } from "./run-store.ts";
import type { SessionStore } from "./session-store.ts";

/** Where runs and sessions are kept. */
export interface Store extends RunStore, SessionStore {
  /** Releases files, connections and timers. Nothing may be asked of it afterwards. */
  close(): Promise<void>;
}
