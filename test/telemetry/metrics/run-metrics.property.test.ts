// Goal: metrics agree with the results of runs, whatever happens in them, even if their process
// dies.
// Method: the events of random trees, measured as they are, and a run whose store fails at each of
// its appends, measured by the processes themselves. The sums are compared with the results.

import { sample } from "fast-check";
import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { METRICS } from "../../../src/telemetry/metrics/metric-names.ts";
import { RunMetrics } from "../../../src/telemetry/metrics/run-metrics.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { proves } from "../../harness/proves.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { playThrough, type Play } from "../../support/journal/crash-play.ts";
import { DEATHS } from "../../support/journal/dying-store.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";
import { worlds } from "../../support/random-trees/tree-arbitrary.ts";
import { play } from "../../support/random-trees/tree-fixture.ts";
import {
  checkAttributes,
  checkMetrics,
  countOf,
  metricRecorder,
  sumOf,
  type Readings,
} from "../../support/telemetry/recorded-metrics.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";

const SEED = 4_711;
const WORLDS = 120;

proves(["X18"], "sums up to the result of any tree, over all its pauses", async () => {
  const seen = { runs: 0, forks: 0, pauses: 0, approvals: 0, cancelled: 0, failures: 0 };
  for (const world of sample(worlds(), { numRuns: WORLDS, seed: SEED })) {
    const { runs } = await play(world);
    for (const { events, results, origin } of runs) {
      const last = results.at(-1);
      if (last === undefined) continue;
      const readings = await measured(events);
      checkMetrics(readings, [origin === undefined ? last : { ...last, ...startedIn(events) }]);
      seen.runs += 1;
      seen.forks += origin === undefined ? 0 : 1;
      seen.pauses += results.length - 1;
      seen.approvals += countOf(readings, "approvalWait");
      seen.cancelled += last.status === "cancelled" ? 1 : 0;
      seen.failures += events.filter(({ type }) => type === "model.failed").length;
    }
  }
  takeWarnings();
  expect(Object.entries(seen).filter(([, times]) => times < 10)).toEqual([]);
});

test("omits nothing of a run whose store fails, and also counts emitted work that was not persisted", async () => {
  const { appends } = await playThrough(team);
  const seen = { lost: 0, exact: 0, besides: 0 };
  for (let at = 2; at <= appends; at += 1)
    for (const how of DEATHS) {
      const { meter, read } = metricRecorder();
      const told: EspalierEvent[] = [];
      const build = (): Play => {
        const metrics = new RunMetrics({ meter });
        const tracing = new SpanProjector(recorder().tracer, String, { metrics });
        return { ...team(), options: { tracing, sinks: [{ emit: (event) => told.push(event) }] } };
      };
      const { events, result } = await playThrough(build, [{ at, how }]);
      if (result === undefined) continue;
      const readings = await read();
      const measuredTokens = sumOf(readings, "inputTokens");
      const keptTokens = result.usage.total.inputTokens;
      expect(measuredTokens, "what processes told").toBe(bookedIn(told));
      expect(bookedIn(events), "what is kept").toBe(keptTokens);
      expect(measuredTokens).toBeGreaterThanOrEqual(keptTokens);
      for (const { sum } of readings.get(METRICS.activeAgents.name) ?? [])
        expect(sum, "what goes up comes down").toBe(0);
      checkAttributes(readings);
      seen.lost += events.filter((event) => event.type === "run.resumed" && hasLost(event)).length;
      seen[measuredTokens === keptTokens ? "exact" : "besides"] += 1;
    }
  expect(Object.entries(seen).filter(([, times]) => times < 4)).toEqual([]);
});

/** Returns the input tokens of all model calls that were settled. */
function bookedIn(events: readonly EspalierEvent[]): number {
  return events.reduce(
    (sum, event) => sum + (event.type === "budget.settled" ? event.usage.inputTokens : 0),
    0,
  );
}

function hasLost({ recovery }: EspalierEvent<"run.resumed">): boolean {
  return recovery !== undefined && recovery.lostCallCount > 0;
}

/** Returns the subagents that were started in this run. A fork also reports those of its origin. */
function startedIn(events: readonly EspalierEvent[]): Pick<RunResult, "subagentsByDepth"> {
  return { subagentsByDepth: { "1": events.filter(isSpawn).length } };
}

function isSpawn({ type }: EspalierEvent): boolean {
  return type === "subagent.spawned";
}

async function measured(events: readonly EspalierEvent[]): Promise<Readings> {
  const { meter, read } = metricRecorder();
  const metrics = new RunMetrics({ meter });
  const projector = new SpanProjector(recorder().tracer, String, { metrics });
  for (const event of events) {
    const { seq, atMs } = event;
    projector.traceEvent({ seq, atMs, scope: event, body: event });
  }
  expect([metrics.openRuns, projector.openSpans], "nothing is kept of what is over").toEqual([
    0, 0,
  ]);
  return await read();
}

/** Creates a lead with a worker in the background and one that it waits for. */
function team(): Play {
  const calls = new Map<string, number>();
  const worker = defineAgent({
    name: "worker",
    description: "Works.",
    instructions: "You work.",
    model: thinker("worker", ({ results, task }) =>
      results.length < 2
        ? { calls: [["work", { thing: `${task}${results.length}` }]] }
        : { text: `Worked on ${task}.` },
    ),
    tools: [countedTool(calls, "work", ({ thing }) => `worked ${thing}`)],
  });
  const role = defineAgent({
    name: "lead",
    instructions: "You lead.",
    delegation: { background: true },
    model: thinker("lead", ({ results, heard }) =>
      results.length === 0
        ? { calls: [spawnCall("worker", "a", { background: true }), spawnCall("worker", "b")] }
        : { text: `Led with ${heard.length}` },
    ),
    subagents: [worker],
  });
  return { role, calls };
}
