// A store, a clock, and any number of processes that execute runs there, for tests of runs that
// move between processes.

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { storeEngine } from "../../../src/engine/store-engine.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { RunClient } from "../../../src/orchestrator/run/run-client.ts";
import type { Worker, WorkerOptions } from "../../../src/orchestrator/run/worker.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import { parseId, type RunId } from "../../../src/protocol/ids.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import type { Model } from "../../../src/model/model.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { latch, type Latch } from "../../harness/run-scripted.ts";
import { turns } from "../journal/crash-play.ts";
import { countedTool, thinker, type Thought } from "../journal/thinkers.ts";

export interface EngineWorld {
  readonly clock: ManualClock;
  readonly store: Store;
  /** Creates an orchestrator as a separate process would. */
  process(options: OrchestratorOptions): Orchestrator & { readonly sink: RecordingSink };
  /** Advances time until the work settles, and returns its result. */
  pushed<T>(work: Promise<T>, stepMs?: number): Promise<T>;
}

export function engineWorld(store?: Store, clock = new ManualClock(1_000_000)): EngineWorld {
  const kept = store ?? memoryStore({ clock });
  const ids = sequentialIds();
  return {
    clock,
    store: kept,
    process: (options) => {
      const sink = new RecordingSink();
      const made = new Orchestrator({ clock, ids, store: kept, ...options, sinks: [sink] });
      return Object.assign(made, { sink });
    },
    pushed: (work, stepMs) => pushed(clock, work, stepMs),
  };
}

/** Returns a client in a process without a worker. */
export function clientOf({ clock, store }: EngineWorld, rolesVersion = "1"): RunClient {
  return new RunClient({ store, engine: storeEngine({ clock }), clock, rolesVersion });
}

/** Starts a worker in its own process. */
export async function workerIn(
  { clock, process }: EngineWorld,
  options: OrchestratorOptions,
  work: WorkerOptions = {},
): Promise<Worker> {
  const engine = storeEngine({ clock });
  return await process(options).startWorker(engine, { context: () => undefined, ...work });
}

/** Advances time until the work has settled. */
async function pushed<T>(clock: ManualClock, work: Promise<T>, stepMs = 50): Promise<T> {
  const over = { isSo: false };
  const note = (): void => void (over.isSo = true);
  work.then(note, note);
  for (let pushes = 0; pushes < 4_000; pushes += 1) {
    await turns(5);
    if (over.isSo) return await work;
    clock.advance(stepMs);
  }
  throw new Error("It never settles.");
}

/** Counts of the effects of agents in all processes together. */
export interface Doings {
  /** Model calls that began: the agent and how many tool results it had. */
  readonly asked: string[];
  /** Executions of tools by idempotency key. */
  readonly calls: Map<string, number>;
}

export function doings(): Doings {
  return { asked: [], calls: new Map() };
}

/** Returns how often each call was executed. */
export function counts({ calls }: Doings): readonly number[] {
  return [...calls.values()];
}

/**
 * Returns an agent that calls `work` `count` times, one after the other, and replies with the
 * results. A call waits for `hold`, which gets its number.
 */
export function solo(
  done: Doings,
  {
    name = "solo",
    count = 2,
    hold = () => undefined,
    more = {},
    tool = {},
  }: {
    readonly name?: string;
    readonly count?: number;
    readonly hold?: (nth: number, signal: AbortSignal) => Promise<unknown> | undefined;
    readonly more?: { readonly model?: Model; readonly budget?: Budget };
    readonly tool?: Parameters<typeof countedTool>[3];
  } = {},
): AgentRole {
  return defineAgent({
    name,
    description: "Works.",
    instructions: "You work.",
    model: thinker(name, ({ results, task }): Thought => {
      done.asked.push(`${name} ${results.length}`);
      return results.length < count
        ? { calls: [["work", { thing: `${results.length}` }]] }
        : { text: `${task} ${results.join(", ")}.` };
    }),
    tools: [
      countedTool(
        done.calls,
        "work",
        async ({ thing }, { signal }) => {
          await hold(Number(thing), signal);
          return `worked ${thing}`;
        },
        tool,
      ),
    ],
    ...more,
  });
}

export const runId = (text: string): RunId => parseId<"RunId">(text);

export { latch, turns, type Latch };
