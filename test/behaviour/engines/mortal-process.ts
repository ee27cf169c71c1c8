// A process of a test that ends as by `kill -9`: from then on none of its writes reach the store,
// and none of its promises settle.

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { Store } from "../../../src/store/store.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { turns, type EngineWorld } from "../../support/engine/engine-world.ts";

/** Short, so that a dead owner is soon recognised. */
const SIGNS_OF_LIFE = { heartbeatIntervalMs: 5, staleAfterMs: 10 };

const NEVER = new Promise<never>(() => undefined);

export interface MortalProcess {
  readonly orchestrator: Orchestrator;
  readonly isDead: boolean;
  /** Ends the process. The returned promise never settles. */
  die(): Promise<never>;
}

export function mortalProcess(
  { clock, store }: EngineWorld,
  options: OrchestratorOptions,
): MortalProcess {
  const life = { isDead: false };
  const alive = <T>(ask: () => Promise<T>): Promise<T> =>
    life.isDead ? NEVER : ask().then((answer) => (life.isDead ? NEVER : answer));
  const real = options.store ?? store;
  const own: Store = forwarding(real, {
    create: (...given) => alive(() => real.create(...given)),
    claim: (...given) => alive(() => real.claim(...given)),
    append: (...given) => alive(() => real.append(...given)),
    heartbeat: (...given) => alive(() => real.heartbeat(...given)),
    release: (...given) => alive(() => real.release(...given)),
    sendMail: (...given) => alive(() => real.sendMail(...given)),
    readMail: (...given) => alive(() => real.readMail(...given)),
    find: (...given) => alive(() => real.find(...given)),
    list: (...given) => alive(() => real.list(...given)),
  });
  const die = (): Promise<never> => {
    life.isDead = true;
    return NEVER;
  };
  const orchestrator = new Orchestrator({ clock, ...SIGNS_OF_LIFE, ...options, store: own });
  return {
    orchestrator,
    die,
    get isDead() {
      return life.isDead;
    },
  };
}

/**
 * Advances time until the process is dead and others know it. Returns for how many milliseconds it
 * lived.
 */
export async function untilDead({ clock }: EngineWorld, life: MortalProcess): Promise<number> {
  const beganMs = clock.nowMs();
  for (let steps = 0; steps < 10_000 && !life.isDead; steps += 1) {
    await turns(10);
    if (!life.isDead) clock.advance(10);
  }
  if (!life.isDead) throw new Error("It does not die.");
  const livedMs = clock.nowMs() - beganMs;
  clock.advance(SIGNS_OF_LIFE.staleAfterMs);
  return livedMs;
}
