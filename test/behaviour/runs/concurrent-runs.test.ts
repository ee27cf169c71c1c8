// Goal: an orchestrator executes at most `maxConcurrentRuns` runs at once, first come, first
// served.
// Method: scripted models held at latches; a manual clock; runs that end in every way while others
// wait.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { loadRecording, replay } from "../../../src/testing/index.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import {
  asks,
  says,
  ScriptedModel,
  type ScriptedReply,
} from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { latch, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";

/** Runs that are held at a latch each, and the order of their model calls. */
class HeldRuns {
  readonly begun: string[] = [];
  readonly #latches = new Map<string, () => void>();

  role(name: string): AgentRole {
    const { opened, open } = latch();
    this.#latches.set(name, open);
    const reply = (): ScriptedReply => {
      this.begun.push(name);
      return says(`${name} is done.`, { after: opened });
    };
    return defineAgent({ name, instructions: "Work.", model: new ScriptedModel([reply]) });
  }

  open(name: string): void {
    this.#latches.get(name)?.();
  }
}

function world(options: OrchestratorOptions = {}) {
  const clock = new ManualClock();
  const sink = new RecordingSink();
  const all = { clock, ids: sequentialIds(), sinks: [sink], maxConcurrentRuns: 1, ...options };
  const orchestrator = new Orchestrator(all);
  const queuedMs = (): readonly unknown[] =>
    sink.events.flatMap((event) =>
      event.type === "run.started" || event.type === "run.resumed" ? [event.queuedMs] : [],
    );
  return { clock, sink, orchestrator, queuedMs, held: new HeldRuns() };
}

const textOf = async (run: Run): Promise<string> => (await run.result).text;

proves(["D477"], "runs two of four runs at once and starts the others in their order", async () => {
  const { orchestrator, held, clock, queuedMs } = world({ maxConcurrentRuns: 2 });
  const runs = ["a", "b", "c", "d"].map((name) => orchestrator.start(held.role(name), "Go."));
  await flushEventLoop();
  expect(held.begun).toEqual(["a", "b"]);
  clock.advance(70);
  held.open("b");
  await flushEventLoop();
  expect(held.begun).toEqual(["a", "b", "c"]);
  clock.advance(30);
  held.open("a");
  await flushEventLoop();
  expect(held.begun).toEqual(["a", "b", "c", "d"]);
  held.open("c");
  held.open("d");
  expect(await Promise.all(runs.map(textOf))).toEqual(
    ["a", "b", "c", "d"].map((name) => `${name} is done.`),
  );
  expect(queuedMs()).toEqual([0, 0, 70, 100]);
});

proves(["D477"], "emits no queuedMs without a limit", async () => {
  const clock = new ManualClock();
  const sink = new RecordingSink();
  const orchestrator = new Orchestrator({ clock, sinks: [sink] });
  await orchestrator.start(soloist([says("Done.")]).role, "Go.").result;
  expect(sink.events[0]).not.toHaveProperty("queuedMs");
});

proves(["D478"], "ends a cancelled run in the queue without starting it", async () => {
  const { orchestrator, held } = world();
  const first = orchestrator.start(held.role("a"), "Go.");
  const second = orchestrator.start(held.role("b"), "Go.");
  const third = orchestrator.start(held.role("c"), "Go.");
  await flushEventLoop();
  const cancelled = await second.cancel("Not needed.");
  expect([cancelled.status, cancelled.reason.message]).toEqual(["cancelled", "Not needed."]);
  expect(held.begun).toEqual(["a"]);
  held.open("a");
  held.open("c");
  expect([await textOf(first), await textOf(third)]).toEqual(["a is done.", "c is done."]);
  expect(held.begun).toEqual(["a", "c"]);
});

proves(["D478"], "ends a queued run whose signal is aborted", async () => {
  const { orchestrator, held } = world();
  const controller = new AbortController();
  const first = orchestrator.start(held.role("a"), "Go.");
  const second = orchestrator.start(held.role("b"), "Go.", { signal: controller.signal });
  await flushEventLoop();
  controller.abort();
  expect((await second.result).status).toBe("cancelled");
  held.open("a");
  await first.result;
  expect(held.begun).toEqual(["a"]);
});

proves(["D478"], "counts no queued time against the time limit of a run", async () => {
  const { orchestrator, held, clock } = world();
  const first = orchestrator.start(held.role("a"), "Go.");
  const timed = { budget: { timeMs: 100 } };
  const second = orchestrator.start(held.role("b"), "Go.", timed);
  await flushEventLoop();
  clock.advance(5_000);
  held.open("a");
  await first.result;
  await flushEventLoop();
  clock.advance(99);
  held.open("b");
  expect((await second.result).status).toBe("completed");
});

proves(["D478"], "stops a queued run at its absolute deadline", async () => {
  const { orchestrator, held, clock } = world();
  const first = orchestrator.start(held.role("a"), "Go.");
  const deadlineAtMs = clock.nowMs() + 50;
  const second = orchestrator.start(held.role("b"), "Go.", { deadlineAtMs });
  await flushEventLoop();
  clock.advance(60);
  const { status, reason } = await second.result;
  expect([status, reason.code]).toEqual(["stopped", "time_limit"]);
  held.open("a");
  await first.result;
  expect(held.begun).toEqual(["a"]);
});

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  inputSchema: z.object({ eur: z.number() }),
  needsApproval: true,
  execute: () => "paid",
});

proves(
  ["D477"],
  "frees the slot of a paused run, and queues the run again when it is resumed",
  async () => {
    const { orchestrator, held, clock, queuedMs } = world();
    const { role } = soloist([asks("pay", { eur: 5 }), says("Paid.")], { tools: [pay] });
    const paused = await orchestrator.start(role, "Pay.").result;
    const other = orchestrator.start(held.role("a"), "Go.");
    await flushEventLoop();
    expect(held.begun).toEqual(["a"]);
    const [question] = paused.questions;
    if (question === undefined || paused.pausedRun === undefined) throw new Error("It has paused.");
    const resumed = orchestrator.resume(paused.pausedRun, { answers: [approve(question)], role });
    await flushEventLoop();
    clock.advance(40);
    held.open("a");
    await other.result;
    expect(await textOf(resumed)).toBe("Paid.");
    expect(queuedMs()).toEqual([0, 0, 40]);
  },
);

proves(
  ["D478"],
  "persists a queued run, which another process resumes after its release",
  async () => {
    const store = memoryStore();
    const { orchestrator, held } = world({ store });
    const first = orchestrator.start(held.role("a"), "Go.");
    const role = held.role("b");
    const second = orchestrator.start(role, "Go.");
    await second.whenPersisted();
    expect(await second.release()).toBe(true);
    expect((await rejectionOf(second.result)).code).toBe("run_released");
    const elsewhere = new Orchestrator({ store, roles: [role] });
    const recovered = await elsewhere.resume(second.runId);
    held.open("b");
    expect(await textOf(recovered)).toBe("b is done.");
    held.open("a");
    await first.result;
    expect(held.begun).toEqual(["a", "b"]);
  },
);

proves(["D477"], "frees the slot of a run that the store refuses", async () => {
  const store = memoryStore();
  const { orchestrator } = world({ store });
  const start = (): Run =>
    new Orchestrator({ store }).start(soloist([says("Done.")]).role, "Go.", { runId: "one" });
  await start().result;
  const refused = orchestrator.start(soloist([says("Again.")]).role, "Go.", { runId: "one" });
  await rejectionOf(refused.result);
  expect(await textOf(orchestrator.start(soloist([says("Next.")]).role, "Go."))).toBe("Next.");
});

proves(["D478"], "starts a run within a tool of another run without queueing it", async () => {
  const { orchestrator } = world();
  const inner = soloist([says("Inside.")]).role;
  const nest = defineTool({
    name: "nest",
    description: "Starts a run.",
    inputSchema: z.object({}),
    execute: async () => await textOf(orchestrator.start(inner, "Go.")),
  });
  const { role } = soloist([asks("nest", {}), says("Outside.")], { tools: [nest] });
  expect(await textOf(orchestrator.start(role, "Go."))).toBe("Outside.");
});

proves(["D478"], "closes after queued runs have ended", async () => {
  const { orchestrator, held } = world();
  const runs = ["a", "b"].map((name) => orchestrator.start(held.role(name), "Go."));
  held.open("a");
  held.open("b");
  await orchestrator.close();
  expect(await Promise.all(runs.map(textOf))).toEqual(["a is done.", "b is done."]);
});

proves(["D477"], "replays the recording of a queued run without a difference", async () => {
  const store = memoryStore();
  const { orchestrator, held, clock } = world({ store });
  const first = orchestrator.start(held.role("a"), "Go.");
  const { role } = soloist([says("Done.")]);
  const second = orchestrator.start(role, "Go.");
  await flushEventLoop();
  clock.advance(25);
  held.open("a");
  await Promise.all([first.result, second.result]);
  const recording = await loadRecording(store, second.runId);
  expect((await replay(recording, { role })).text).toBe("Done.");
});

proves(["D477"], "offers engines at most `maxConcurrentRuns` runs per worker", async () => {
  const { role } = soloist([says("Done.")]);
  const orchestrator = new Orchestrator({
    store: memoryStore(),
    roles: [role],
    maxConcurrentRuns: 3,
  });
  const offered: number[] = [];
  const engine: Engine = {
    enqueue: () => Promise.resolve(),
    serve: ({ maxRuns }) => {
      offered.push(maxRuns);
      return Promise.resolve({ close: () => Promise.resolve() });
    },
  };
  await (await orchestrator.startWorker(engine)).close();
  await (await orchestrator.startWorker(engine, { maxRuns: 2 })).close();
  expect(offered).toEqual([3, 2]);
});

test("refuses a limit that is not a whole number from 1 up", () => {
  const given = (maxConcurrentRuns: number): string =>
    thrownBy(() => new Orchestrator({ maxConcurrentRuns })).message;
  expect([given(0), given(1.5)]).toEqual([
    "Expected maxConcurrentRuns to be a whole number from 1 up, got 0. Leave it out for no limit.",
    "Expected maxConcurrentRuns to be a whole number from 1 up, got 1.5. Leave it out for no limit.",
  ]);
});
