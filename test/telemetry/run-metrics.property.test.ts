// Goal: metrics agree with what runs report, whatever happens in them, also if their process dies.
// Method: the events of random trees, and of a run that dies at each of its appends, measured as
// they stand; the sums are compared with the results.

import { sample } from "fast-check";
import { expect, test } from "vitest";

import { defineAgent } from "../../src/agent/agent-role.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import type { RunResult } from "../../src/orchestrator/run-result.ts";
import { RunMetrics } from "../../src/telemetry/metrics/run-metrics.ts";
import { SpanProjector } from "../../src/telemetry/spans/span-projector.ts";
import { proves } from "../harness/proves.ts";
import { takeWarnings } from "../harness/set-up.ts";
import { playThrough, type Play } from "../journal/crash-play.ts";
import { DEATHS } from "../journal/dying-store.ts";
import { countedTool, spawnCall, thinker } from "../journal/thinkers.ts";
import { worlds } from "../properties/tree-arbitrary.ts";
import { play } from "../properties/tree-stage.ts";
import { checkMetrics, countOf, metricRecorder, type Readings } from "./recorded-metrics.ts";
import { recorder } from "./recorded-spans.ts";

const SEED = 4_711;
const WORLDS = 120;

proves(["X18"], "of any tree, over all its pauses, the sums are those of its result", async () => {
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

test("of a run whose process dies, nothing is counted twice and nothing is left out", async () => {
  const { appends } = await playThrough(team);
  let lost = 0;
  for (let at = 2; at <= appends; at += 1)
    for (const how of DEATHS) {
      const { events, result } = await playThrough(team, [{ at, how }]);
      if (result === undefined) continue;
      checkMetrics(await measured(events), [result]);
      lost += events.filter((event) => event.type === "run.resumed" && hasLost(event)).length;
    }
  expect(lost, "calls of which nobody knows what became").toBeGreaterThan(3);
});

function hasLost({ recovery }: EspalierEvent<"run.resumed">): boolean {
  return recovery !== undefined && recovery.lostCalls > 0;
}

/** A fork reports the subagents of its origin, too: they were not started in it. */
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
    projector.place({ seq, atMs, correlation: event, body: event });
  }
  expect([metrics.openRuns, projector.openSpans], "nothing is kept of what is over").toEqual([
    0, 0,
  ]);
  return await read();
}

/** A lead with a worker beside it and one that it waits for. */
function team(): Play {
  const calls = new Map<string, number>();
  const worker = defineAgent({
    name: "worker",
    purpose: "Works.",
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
