// A store whose process dies at one append: before the batch is stored, or after, so that its
// acknowledgement is lost. From then on nothing reaches the store, as after `kill -9`; stored
// batches remain for the next process.

import { EspalierError } from "../../../src/kernel/error.ts";
import type { Store } from "../../../src/store/store.ts";
import { forwarding } from "./forwarding-store.ts";

/**
 * `before`: the batch at which it dies is not stored. `after`: it is stored, and not acknowledged.
 */
export type Death = "before" | "after";

export const DEATHS: readonly Death[] = ["before", "after"];

/** When a process dies: at its append of this number, from 1. */
export interface Kill {
  readonly at: number;
  readonly how: Death;
}

export interface DyingStore {
  readonly store: Store;
  /** Appends that were requested. */
  readonly appends: number;
  readonly isDead: boolean;
}

/** Returns the same store for a process that dies at `kill`. Without `kill` it never dies. */
export function dyingStore(store: Store, kill?: Kill): DyingStore {
  let appends = 0;
  let isDead = false;
  const alive = async <T>(ask: () => Promise<T>): Promise<T> => {
    if (isDead) throw dead();
    return await ask();
  };
  return {
    store: forwarding(store, {
      create: (...given) => alive(() => store.create(...given)),
      claim: (...given) => alive(() => store.claim(...given)),
      heartbeat: (...given) => alive(() => store.heartbeat(...given)),
      release: (...given) => alive(() => store.release(...given)),
      append: (...given) =>
        alive(async () => {
          appends += 1;
          if (appends !== kill?.at) return await store.append(...given);
          isDead = true;
          if (kill.how === "after") await store.append(...given);
          throw dead();
        }),
    }),
    get appends() {
      return appends;
    },
    get isDead() {
      return isDead;
    },
  };
}

function dead(): EspalierError {
  return new EspalierError({
    code: "store_failed",
    message: "Expected a process that lives, got one that died. Recover the run in another.",
    data: { isTransient: false },
  });
}
