// What a process sees of a run that it released: no snapshot and no event number twice. And the
// subagents that a result leaves to the run.

import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { sameJson } from "../../../src/kernel/json.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { addUsage } from "../../../src/protocol/usage.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { proves } from "../../harness/proves.ts";
import { aborted } from "../../support/journal/crash-play.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";
import { doings, engineWorld, latch, solo, turns } from "../../support/engine/engine-world.ts";

const ID = "order-4711";

/** Returns the numbers of the events of a sink. */
const numbersOf = ({ events }: RecordingSink): readonly number[] => events.map(({ seq }) => seq);
const upTo = (last: number): readonly number[] =>
  Array.from({ length: last }, (_value, index) => index + 1);

/** Creates two processes that share one sink. */
function sharedSink(store?: Store, clock?: ManualClock) {
  const world = engineWorld(store, clock);
  const sink = new RecordingSink();
  const process = (role: AgentRole) => {
    const made = world.process({ roles: [role] });
    made.sink.emit = (event) => sink.emit(event);
    return made;
  };
  return { ...world, process, shared: sink };
}

proves(["D472"], "refuses a snapshot of a released run, and names the remedy", async () => {
  const { process, pushed } = engineWorld();
  const role = solo(doings(), { hold: (_nth, signal) => aborted(signal) });
  const one = process({ roles: [role] });
  const run = one.start(role, "Go.", { runId: ID });
  await turns(15);
  expect(await pushed(run.release({ graceMs: 100 }), 100)).toBe(true);
  expect(thrownBy(() => run.snapshot())).toMatchObject({
    code: "run_released",
    message: `Cannot take a snapshot: this process no longer owns run ${ID}. Resume the run, and take the snapshot of the resumed run.`,
    data: { runId: ID },
  });
  expect(await rejectionOf(run.result)).toMatchObject({ code: "run_released" });
});

proves(["D472"], "emits each event number once to a sink that both owners share", async () => {
  const { process, pushed, shared, clock } = sharedSink();
  const hanging = solo(doings(), { hold: (_nth, signal) => aborted(signal) });
  const run = process(hanging).start(hanging, "Go.", { runId: ID });
  await turns(15);
  expect(await pushed(run.release({ graceMs: 100 }), 100)).toBe(true);
  await turns(5);
  clock.advance(60_000); // The aborted calls end.
  await turns(5);
  const left = shared.events.length;
  expect(numbersOf(shared)).toEqual(upTo(left));
  const role = solo(doings());
  const recovered = await process(role).resume(ID);
  expect(await pushed(recovered.result)).toMatchObject({ status: "completed" });
  expect(shared.events[left]?.type).toBe("run.resumed");
  expect(numbersOf(shared)).toEqual(upTo(shared.events.length));
});

proves(
  ["D472"],
  "emits no event of a call that reports while the store releases the run",
  async () => {
    const clock = new ManualClock(1_000_000);
    const inner = memoryStore({ clock });
    const [told, gate] = [latch(), latch()];
    const isSlow = { now: false };
    const { process, pushed, shared } = sharedSink(
      forwarding(inner, {
        append: async (...given: Parameters<typeof inner.append>) => {
          await inner.append(...given);
          if (!isSlow.now) return;
          told.open();
          await gate.opened;
        },
      }),
      clock,
    );
    const reports: (() => void)[] = [];
    const worker = (hold: (signal: AbortSignal) => Promise<unknown>) =>
      defineAgent({
        name: "worker",
        description: "Works.",
        instructions: "You work.",
        model: thinker("worker", ({ results }) =>
          results.length === 0 ? { calls: [["work", { thing: "0" }]] } : { text: "Done." },
        ),
        tools: [
          countedTool(new Map(), "work", async (_input, { signal, reportProgress }) => {
            reports.push(() => reportProgress({ message: "Half." }));
            await hold(signal);
            return "worked";
          }),
        ],
      });
    const slow = worker(aborted);
    const run = process(slow).start(slow, "Go.", { runId: ID });
    await turns(15);
    const report = (): void => {
      for (const tell of reports) tell();
    };
    report(); // Recorded, since the run is not released yet.
    isSlow.now = true;
    // Shorter than the delay after which batches of events alone are written.
    const leaving = pushed(run.release({ graceMs: 10 }), 5);
    await told.opened;
    report(); // Not recorded any more.
    isSlow.now = false;
    gate.open();
    expect(await leaving).toBe(true);
    report();
    await turns(5);
    const left = numbersOf(shared);
    expect(shared.ofType("tool.progressed")).toHaveLength(1);
    const quick = worker(() => Promise.resolve());
    const recovered = await process(quick).resume(ID);
    expect(await pushed(recovered.result)).toMatchObject({ text: "Done." });
    expect(left).toEqual(upTo(left.length));
    expect(numbersOf(shared)).toEqual(upTo(shared.events.length));
  },
);

/** A lead that ends before its subagent. */
function detaching(hold: (nth: number, signal: AbortSignal) => Promise<unknown> | undefined) {
  return defineAgent({
    name: "lead",
    description: "Leads.",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0
        ? { calls: [["SpawnSubagent", { role: "solo", task: "Go.", background: true }]] }
        : { text: "Begun." },
    ),
    subagents: [solo(doings(), { hold })],
    delegation: { background: true, parentEndPolicy: "detach" },
  });
}

proves(
  ["D473"],
  "lists the subagents that still work in the result, with their usage so far",
  async () => {
    const { process, pushed } = engineWorld();
    const hanging = detaching((nth, signal) => (nth === 0 ? aborted(signal) : undefined));
    const run = process({ roles: [hanging] }).start(hanging, "Go.", { runId: ID });
    const early = await run.result;
    const worker = {
      agentId: "agent_2",
      parentAgentId: "agent_1",
      agentPath: "lead/solo#1",
      depth: 1,
      executionId: "execution_2",
      role: "solo",
      model: "solo",
      task: "Go.",
      executionCount: 1,
      metadata: {},
      removedTools: [],
    };
    expect(early.detached).toMatchObject([{ ...worker, pausedMs: 0 }]);
    expect(early.agents.map(({ agentPath }) => agentPath)).toEqual(["lead"]);
    expect(addsUp(early)).toBe(true);
    expect(JSON.parse(JSON.stringify(early))).toMatchObject({ detached: early.detached });

    await turns(15);
    expect(await pushed(run.release({ graceMs: 100 }), 100)).toBe(true);
    const gate = latch();
    const role = detaching(() => gate.opened);
    const recovered = await process({ roles: [role] }).resume(ID);
    const later = await pushed(recovered.result);
    expect(later.detached).toMatchObject([worker]);
    expect(later.detached[0]?.usage.own.modelCalls).toBe(1);
    expect(addsUp(later)).toBe(true);
    gate.open();
    const { detached, agents } = await pushed(recovered.settled);
    expect([detached, agents.map(({ agentPath }) => agentPath)]).toEqual([
      [],
      ["lead", "lead/solo#1"],
    ]);
  },
);

/** True if the usage by role and by model adds up to the total. */
function addsUp({ usage }: RunResult): boolean {
  return [usage.byRole, usage.byModel].every((cut) =>
    sameJson(Object.values(cut).reduce(addUsage), usage.total),
  );
}
