// Goal: reading the journal of a large run blocks no other work: reading, restoring and rebuilding
// yield to the event loop.
// Method: a run of some sixty agents; the turns of the event loop that other work gets meanwhile
// are counted.

import { expect } from "vitest";

import { RunRecord } from "../../../src/orchestrator/durability/run-record.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { rebuildRecordedRequest } from "../../support/journal/rebuild-recorded-request.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { proves } from "../../harness/proves.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const WORKERS = 60;

/** Returns how many turns other work got meanwhile. */
async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    if (isOver) return;
    turns += 1;
    setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

proves(
  ["V11"],
  "yields to other work while it reads a run, its result and a rebuilt request",
  async () => {
    const store = memoryStore();
    const worker = part("worker", () => says("Worked."));
    const tasks = Array.from({ length: WORKERS }, (_, at) => spawn("worker", `Part ${at}.`));
    const lead = part("lead", [calls(...tasks), says("Done.")], { subagents: [worker.role] });
    const limits = { maxBreadthPerParent: WORKERS, maxTotalSubagents: WORKERS };
    const run = new Orchestrator({ store, limits }).start(lead.role, "Go.");
    await run.result;
    const reader = new Orchestrator({ store });
    const record = new RunRecord(store, run.runId);
    let events = 0;
    expect(
      await turnsDuring(() =>
        record.advance(() => {
          events += 1;
        }),
      ),
    ).toBeGreaterThan(5);
    expect(events).toBeGreaterThan(WORKERS * 10);
    // 200 records per turn; then 5 agents per turn, restored first and added to the result second.
    const resultTurns = await turnsDuring(() => reader.getResult(run.runId));
    expect(resultTurns).toBeGreaterThan(5 + (2 * WORKERS) / 5);
    const journal = await loadRecording(store, run.runId);
    const rebuilding = (): Promise<unknown> => rebuildRecordedRequest(journal, { stepNumber: 2 });
    expect(await turnsDuring(rebuilding)).toBeGreaterThan(5);
    // The lines of one agent, each read from the closest checkpoint.
    const [, below] = record.agentIds;
    if (below === undefined) throw new Error("a worker");
    expect(await turnsDuring(() => record.steps(below))).toBeGreaterThan(0);
  },
);
