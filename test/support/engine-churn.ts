// Many runs that are executed again and again by workers that start and close, and the promises
// that hold for every engine meanwhile.

import { expect } from "vitest";

import type { Engine, EngineWorker, RunExecutor } from "../../src/engine/engine.ts";
import { sleep } from "../../src/kernel/cancel-signal.ts";
import { systemClock } from "../../src/kernel/clock.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import type { RunId } from "../../src/protocol/ids.ts";
import { opened, ticketOf } from "./opened-engine.ts";

const RUNS = 12;
const LEADS_OF_EACH = 40;
const ROUNDS_OF_WORKERS = 6;

class Churn {
  /** Counter of all events, for comparisons of their order. */
  #moment = 0;
  readonly #asked = new Map<RunId, number>();
  readonly #begun = new Map<RunId, number>();
  readonly #underWay = new Set<RunId>();
  readonly ledTwice: RunId[] = [];

  /** Ends most runs, cannot lead every seventh, lets every fifth wait for a moment. */
  executor(): RunExecutor {
    return {
      roles: ["lead"],
      version: "v1",
      maxRuns: 5,
      execute: async (runId, leave) => {
        this.#moment += 1;
        const moment = this.#moment;
        this.#begun.set(runId, moment);
        if (this.#underWay.has(runId)) this.ledTwice.push(runId);
        this.#underWay.add(runId);
        await sleep(systemClock, moment % 50, leave);
        this.#underWay.delete(runId);
        if (leave.aborted || moment % 7 === 0)
          throw new EspalierError({ code: "run_released", message: "Expected time, got none." });
        if (moment % 5 === 0) return { type: "waiting", untilMs: Date.now() + 100 };
        return { type: "ended" };
      },
    };
  }

  async lead(engine: Engine, name: string): Promise<void> {
    const ticket = ticketOf(name);
    this.#moment += 1;
    this.#asked.set(ticket.runId, this.#moment);
    await engine.enqueue(ticket);
  }

  /** The runs that no worker has begun to lead since they were last asked for. */
  unseen(): readonly RunId[] {
    return [...this.#asked.keys()].filter(
      (runId) => (this.#begun.get(runId) ?? 0) < (this.#asked.get(runId) ?? 0),
    );
  }
}

/** Rejects if two executions of a run overlapped, or if no execution followed its last request. */
export async function churn(open: () => Engine): Promise<void> {
  const [first, second, client, other] = [opened(open), opened(open), opened(open), opened(open)];
  const churn = new Churn();
  const workers: EngineWorker[] = [
    await first.serve(churn.executor()),
    await second.serve(churn.executor()),
  ];
  const names = Array.from({ length: RUNS }, (_, index) => `run_${index}`);
  const leads = names.map(async (name, index) => {
    for (let lead = 0; lead < LEADS_OF_EACH; lead += 1)
      await churn.lead((lead + index) % 2 === 0 ? client : other, name);
  });
  for (let round = 0; round < ROUNDS_OF_WORKERS; round += 1) {
    await workers.shift()?.close();
    workers.push(await (round % 2 === 0 ? first : second).serve(churn.executor()));
  }
  await Promise.all(leads);
  await expect.poll(() => churn.unseen()).toEqual([]);
  expect(churn.ledTwice).toEqual([]);
}
