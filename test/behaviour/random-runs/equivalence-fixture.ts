// The fixture of the equivalence property: plays a world in one of several ways, to its end. In
// every way, questions get the same answers, and every pause goes through JSON to a new
// orchestrator with new roles, models, tools and hooks.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { expect } from "vitest";

import type { PhaseReport } from "../../../src/agent/phase-report.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { StartOptions } from "../../../src/orchestrator/run/run-options.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { IdSource } from "../../../src/kernel/id-source.ts";
import type { EventSink } from "../../../src/protocol/event.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { answerTo, Outside, rootRole, taskOf } from "./equivalence-agents.ts";
import { hookOf } from "./equivalence-hooks.ts";
import type { Performance } from "./equivalence-record.ts";
import type { World } from "./equivalence-world.ts";

/** How a run is driven. */
export interface Way {
  /** Iterates over the run instead of draining it. */
  readonly iterates?: boolean;
  readonly onStreamPart?: StartOptions["onStreamPart"];
  /** Leaves approvals to the caller that resumes the run, instead of an approver. */
  readonly defersApprovals?: boolean;
  /**
   * The event, or the phase of the root, at which each continuation of the run is asked to pause; 0
   * pauses it at once. Later continuations are not paused.
   */
  readonly pauses?: readonly Moment[];
}

export interface Moment {
  readonly at: "event" | "phase";
  readonly count: number;
}

export interface Played extends Performance {
  /** The phases of all iterations, over all pauses. */
  readonly phases: readonly PhaseReport[];
  readonly pauses: number;
}

/** Longer than any time limit of a world. */
const PAUSE_MS = 1_000;
const MOST_PAUSES = 500;

export async function play(world: World, way: Way = {}): Promise<Played> {
  const outside = new Outside(world);
  const watch = new Watch();
  const ids = idsOfOneLength();
  const fixture = newFixture({ ...optionsOf(world, way), ids, sinks: [watch] });
  const { clock, sink } = fixture;
  const phases: PhaseReport[] = [];
  const more = way.onStreamPart === undefined ? {} : { onStreamPart: way.onStreamPart };
  const metadata = { color: "red", size: 3 };
  let run = fixture.start(rootRole(world, outside), taskOf(world.root.key), { ...more, metadata });
  for (let pauses = 0; pauses < MOST_PAUSES; pauses += 1) {
    const moment = way.pauses?.[pauses];
    watch.pauseAt(run, moment);
    if (way.iterates === true || moment?.at === "phase")
      phases.push(...(await iterated(run, moment)));
    const result = await fixture.outcome(run);
    checkTimes(result);
    if (result.status !== "paused") {
      const { events } = sink;
      return { result, events, outside, phases, pauses };
    }
    clock.advance(PAUSE_MS);
    const answers = result.questions.map(answerTo);
    const process = { ...optionsOf(world, way), clock, ids, sinks: [sink, watch] };
    run = new Orchestrator(process).resume(readPausedRun(JSON.stringify(result.pausedRun)), {
      answers,
      role: rootRole(world, outside),
      ...more,
    });
  }
  throw new Error(`It was paused more than ${MOST_PAUSES} times.`);
}

/** Agents may start in another order and get other ids; their token counts must not differ. */
function idsOfOneLength(): IdSource {
  const ids = sequentialIds();
  return { next: (kind) => ids.next(kind).replace(/\d+$/, (number) => number.padStart(4, "0")) };
}

function optionsOf(world: World, { defersApprovals = false }: Way): OrchestratorOptions {
  return {
    limits: { maxBreadthPerParent: world.maxBreadth, maxTotalSubagents: 500 },
    hooks: world.hooks.map(hookOf),
    ...(defersApprovals ? {} : { approver: answerTo }),
  };
}

async function iterated(run: Run, moment: Moment | undefined): Promise<readonly PhaseReport[]> {
  const phases: PhaseReport[] = [];
  for await (const phase of run.iterate()) {
    phases.push(phase);
    if (moment?.at === "phase" && phases.length === moment.count) run.requestPause();
  }
  return phases;
}

/** Only pauses take time, and they count against no agent. */
function checkTimes({ agents }: RunResult): void {
  for (const { agentPath, status, durationMs, pausedMs } of agents)
    if (status !== "paused") expect(pausedMs, `${agentPath} stood still`).toBe(durationMs);
}

/** Counts the events of a run since it continued, and requests a pause during one of them. */
class Watch implements EventSink {
  #run: Run | undefined;
  #left = 0;

  pauseAt(run: Run, moment: Moment | undefined): void {
    this.#run = run;
    this.#left = moment?.at === "event" ? moment.count : 0;
    if (moment?.count === 0) run.requestPause();
  }

  emit(): void {
    this.#left -= 1;
    if (this.#left === 0) this.#run?.requestPause();
  }
}
