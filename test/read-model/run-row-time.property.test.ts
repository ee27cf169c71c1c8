// Goal: every view shows the same duration and pauses of a run, whatever happened to it.
// Method: random lives of a run with two agents; an oracle sums the time of each state between
// acts.

import { array, assert, boolean, constantFrom, nat, property, record, tuple } from "fast-check";
import { expect } from "vitest";

import { formatRunOverview } from "../../src/cli/run-text.ts";
import { formatDuration } from "../../src/read-model/amounts.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import {
  createRunHead,
  createRunListing,
  computeRunTime,
  projectRunTime,
} from "../../src/read-model/run-row.ts";
import { proves } from "../harness/proves.ts";
import { recordedEvents } from "../support/sample-events.ts";
import { RunScript, type AgentScript } from "../support/telemetry/run-script.ts";
import { foldOf } from "../support/read-model/fold-of.ts";

const RUNS = Number(process.env["FC_RUNS"] ?? 300);
const START_MS = 1_000_000;
const ACTS = ["ask", "answer", "queue", "reserve", "pause", "resume", "crash", "recover"] as const;

type Act = (typeof ACTS)[number];
/** An agent with a reservation has a model call in flight and cannot ask. */
type AgentState = "works" | "asks" | "waits for budget" | "calls the model";

/**
 * One life of a run: a sequence of timed acts. Acts that are impossible in its state do nothing.
 */
class Life {
  readonly #run = new RunScript();
  readonly #agents: readonly AgentScript[];
  readonly #states: AgentState[] = ["works", "works"];
  readonly #times: number[] = [];
  #nowMs = START_MS;
  #lastEventMs = START_MS;
  #standing: "led" | "paused" | "dead" | "ended" = "led";
  /** The sums of the oracle. */
  totalMs = 0;
  idleMs = 0;
  /** The total without a pause that is still open. */
  untilPauseMs = 0;

  constructor() {
    const lead = this.#run.root;
    this.#agents = [lead, lead.child("reader")];
    this.#run.started();
    for (const agent of this.#agents) agent.started();
    this.#stamp();
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  get events(): readonly EspalierEvent[] {
    return recordedEvents(this.#run).map((event, index) => {
      const timed = { ...event, atMs: this.#times[index] ?? 0 };
      return timed.type === "run.resumed" ? this.#pausedBefore(timed, index) : timed;
    });
  }

  /** The entry of the run as a store lists it. */
  get listed() {
    const hasOwner = this.#standing === "led";
    const status = this.#standing === "led" || this.#standing === "dead" ? "open" : this.#standing;
    return {
      runId: this.#run.runId,
      title: "lead: survey",
      status,
      createdAtMs: START_MS,
      updatedAtMs: this.#lastEventMs,
      owner: hasOwner ? { hostname: "here", processId: 7 } : null,
      heartbeatAtMs: hasOwner ? this.#nowMs : null,
    } as const;
  }

  /** Advances the time. */
  pass(ms: number): void {
    this.#nowMs += ms;
    if (this.#standing === "ended") return;
    this.totalMs += ms;
    this.#countUntilPause();
    const isAsking = this.#states.includes("asks");
    const isIdle = isAsking && this.#states.every((state) => state === "asks");
    if (this.#standing !== "led" || isIdle) this.idleMs += ms;
  }

  do(act: Act, at: number): void {
    const [agent, state] = [this.#agents[at], this.#states[at]];
    if (agent === undefined) return;
    const callId = `call_${at}`;
    const hasOwner = this.#standing === "led";
    if (act === "ask" && hasOwner && state === "works") {
      agent.asksLeave(callId, "write");
      this.#states[at] = "asks";
    } else if (act === "answer" && hasOwner && state === "asks") {
      agent.isAnswered(callId, "write");
      this.#states[at] = "works";
    } else if (act === "queue" && hasOwner && state === "works") {
      agent.notes({ type: "budget.queued", accountPath: "lead" });
      this.#states[at] = "waits for budget";
    } else if (act === "reserve" && hasOwner && state === "waits for budget") {
      agent.isReserved();
      this.#states[at] = "calls the model";
    } else if (act === "pause" && hasOwner && !this.#states.includes("waits for budget"))
      this.#pause();
    else if (act === "resume" && this.#standing === "paused") this.#resume();
    else if (act === "crash" && hasOwner) this.#crash();
    else if (act === "recover" && this.#standing === "dead") this.#recover();
    this.#stamp();
  }

  end(): void {
    if (this.#standing === "paused") this.#resume();
    if (this.#standing === "dead") this.#recover();
    for (const agent of this.#agents.toReversed()) agent.ended("cancelled");
    this.#run.ended("cancelled");
    this.#standing = "ended";
    this.#stamp();
  }

  #pause(): void {
    for (const agent of this.#agents) agent.pauses();
    const asking = this.#agents.filter((_agent, at) => this.#states[at] === "asks");
    this.#run.paused(asking[0]);
    this.#standing = "paused";
  }

  /** All questions have been answered at this point. */
  #resume(): void {
    this.#run.resumed();
    this.#agents.forEach((agent, at) => {
      agent.resumes();
      if (this.#states[at] === "asks") agent.isAnswered(`call_${at}`, "write");
      this.#states[at] = "works";
    });
    this.#standing = "led";
    this.#countUntilPause();
  }

  #countUntilPause(): void {
    if (this.#standing !== "paused") this.untilPauseMs = this.totalMs;
  }

  /** The last event of the process precedes its end, which nobody observed. */
  #crash(): void {
    this.#agents[0]?.warns();
    this.#standing = "dead";
  }

  /** Agents ask again. */
  #recover(): void {
    this.#run.resumed({ lostCallCount: 0, isSpanOpen: false });
    this.#agents.forEach((agent, at) => {
      agent.resumes();
      if (this.#states[at] === "asks") agent.asksLeave(`call_${at}`, "write");
      else this.#states[at] = "works";
    });
    this.#standing = "led";
  }

  /** Assigns the new events their time. */
  #stamp(): void {
    while (this.#times.length < this.#run.drafts.length) {
      this.#times.push(this.#nowMs);
      this.#lastEventMs = this.#nowMs;
    }
  }

  #pausedBefore(event: EspalierEvent<"run.resumed">, index: number): EspalierEvent {
    return { ...event, pausedMs: event.atMs - (this.#times[index - 1] ?? 0) };
  }
}

const HERE = { hostname: "here", processId: 7 };

function checkViews(life: Life, laterMs: number): void {
  const fold = foldOf(life.events);
  const { run, questions } = fold.snapshot();
  const at = { ...HERE, nowMs: life.nowMs };
  // A page receives the head of a run and continues its time itself.
  const head = createRunHead(life.listed, run, at);
  expect([head.durationMs, head.idleMs]).toEqual([life.totalMs, life.idleMs]);
  life.pass(laterMs);
  const { nowMs, totalMs, idleMs } = life;
  const time = { durationMs: totalMs, idleMs };
  expect(projectRunTime(head, nowMs)).toEqual(time);
  // The row of a list is built again.
  const listing = createRunListing(life.listed, run, { ...HERE, nowMs });
  expect(computeRunTime(run, listing, nowMs)).toMatchObject(time);
  // This is what `show` prints in its header.
  const now = { ...head, ...time };
  const text = formatRunOverview(
    { fold, head: now, questions, nowMs },
    { width: 200, hasColor: false },
  );
  const lasted = formatDuration(totalMs);
  const rested = idleMs < 1_000 ? "" : `, paused for ${formatDuration(idleMs)} of it`;
  expect(text).toContain(` · lasted ${lasted}${rested} · `);
  // The line below the tree of a paused run shows the time until the pause.
  const lines = text.split("\n");
  expect(lines.find((line) => line.includes("2 agents") && !line.includes("lasted"))).toContain(
    `${formatDuration(life.untilPauseMs)}  2 agents`,
  );
}

proves(
  ["D625"],
  "shows the same duration of a run in every view, whatever happened to the run",
  () => {
    const acts = array(tuple(constantFrom(...ACTS), nat(1), nat(5_000)), { maxLength: 30 });
    const lives = record({ acts, laterMs: nat(5_000), hasEnded: boolean() });
    assert(
      property(lives, ({ acts: done, laterMs, hasEnded }) => {
        const life = new Life();
        for (const [act, at, ms] of done) {
          life.do(act, at);
          life.pass(ms);
        }
        if (hasEnded) life.end();
        checkViews(life, laterMs);
      }),
      { numRuns: RUNS },
    );
  },
);
