// A run that ends each process that executes it, and what the store shows of it.

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";
import { doings, runId, solo, type EngineWorld } from "../../support/engine/engine-world.ts";
import { mortalProcess, untilDead, type MortalProcess } from "./mortal-process.ts";

export const POISON = runId("poison");
export const HEALTHY = runId("healthy");

export interface Cast {
  /** The process that executes the run now, which the poison calls end. */
  now: MortalProcess | undefined;
  /** Calls that killed a process. */
  kills: number;
}

/** An agent whose first call ends its process after a moment. */
export function poison({ clock }: EngineWorld, cast: Cast, more: object = {}): AgentRole {
  const hold = async (): Promise<unknown> => {
    await passed(clock, 100);
    cast.kills += 1;
    return await cast.now?.die();
  };
  return solo(doings(), { name: "poison", count: 1, hold, ...more });
}

export function passed(clock: ManualClock, delayMs: number): Promise<void> {
  return new Promise((resolve) => void clock.setTimer(delayMs, resolve));
}

/** Returns the crash count of the run in the store. */
export async function crashesOf({ store }: EngineWorld, id = POISON): Promise<number | undefined> {
  return (await store.find(id))?.crashCount;
}

/** Starts the run in a process that dies of it. */
export async function startAndDie(world: EngineWorld, cast: Cast, role: AgentRole): Promise<void> {
  const life = mortalProcess(world, { roles: [role] });
  cast.now = life;
  life.orchestrator.start(role, "Go.", { runId: POISON });
  await untilDead(world, life);
}

/** Resumes the run in a process that dies of it. */
export async function recoverAndDie(
  world: EngineWorld,
  cast: Cast,
  role: AgentRole,
): Promise<void> {
  const life = mortalProcess(world, { roles: [role] });
  cast.now = life;
  await world.pushed(life.orchestrator.resume(POISON));
  await untilDead(world, life);
}
