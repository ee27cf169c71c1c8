// The stage for the tree property: plays a world from its start to its end, makes its moments
// happen, and sees to it that whatever hangs is told to end at last.

import { z } from "zod";

import { defineAgent, type AgentRole } from "../../src/agent/agent-role.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run.ts";
import type { RunResult } from "../../src/orchestrator/run-result.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import type { EventSink } from "../../src/protocol/event-sink.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import {
  failingIds,
  faultySinks,
  faultyTracing,
  modelOf,
  openBackstage,
  ticks,
  TOOLS,
} from "./tree-foreign.ts";
import { nameOf, type World, type WorldRole } from "./tree-world.ts";

/** A run that was played to its end. */
export interface Played {
  readonly result: RunResult;
  readonly events: readonly EspalierEvent[];
  readonly requests: readonly ModelRequest[];
  readonly clock: ManualClock;
  /** The last event before the run was told to cancel, and before it was asked to stop. */
  readonly cancelledAfter: number | undefined;
  readonly stoppedAfter: number | undefined;
  /** Pieces of text that came after the end. */
  readonly lateText: readonly string[];
}

const GRACE_MS = 50;
/** No world has so many; a run that goes on for ever is cut off there. */
export const MOST_EVENTS = 5_000;

/**
 * Plays a world. Throws if the run rejects, or does not end although everything was done for it.
 */
export async function play(world: World): Promise<Played> {
  const stage = new Stage(world);
  const run = stage.start();
  let over: RunResult | undefined;
  const done = run.result.then((result) => {
    over = result;
  });
  for (const moment of world.moments) {
    await ticks(moment.afterTicks);
    stage.happens(run, moment.act);
  }
  const isOver = (): boolean => over !== undefined;
  await stage.comesToEnd(run, isOver);
  await done;
  if (over === undefined) throw new Error("unreachable: the run is over");
  return await stage.aftermath(over);
}

class Stage {
  readonly #world: World;
  readonly #clock = new ManualClock();
  readonly #sink = new RecordingSink();
  readonly #requests: ModelRequest[] = [];
  readonly #pieces: string[] = [];
  #cancelledAfter: number | undefined;
  #stoppedAfter: number | undefined;

  constructor(world: World) {
    this.#world = world;
  }

  start(): Run {
    const { limits, concurrency, maxAttempts, budget } = this.#world;
    const roles = this.#world.roles.map((role, index) => this.#role(role, index));
    let run: Run | undefined;
    const fuse: EventSink = { take: ({ seq }) => void (seq === MOST_EVENTS && run?.cancel()) };
    const [root, ...others] = roles;
    if (root === undefined) throw new Error("a world has a root");
    const orchestrator = new Orchestrator({
      clock: this.#clock,
      ids: failingIds(this.#world.failingId),
      sinks: [this.#sink, fuse, ...faultySinks(this.#world.sink)],
      tracing: faultyTracing(this.#world.tracing),
      limits,
      concurrency,
      graceMs: GRACE_MS,
      retry: { maxAttempts },
      roles: others,
    });
    const metadata = { shared: { list: [1, 2] } };
    run = orchestrator.start(root, "Begin.", {
      budget,
      metadata,
      onText: (piece) => void this.#pieces.push(piece.text),
    });
    return run;
  }

  happens(run: Run, act: World["moments"][number]["act"]): void {
    switch (act.type) {
      case "advance":
        this.#clock.advance(act.byMs);
        return;
      case "cancel":
        this.#cancelledAfter ??= this.#sink.events.length;
        void run.cancel("The world says so.");
        return;
      case "request stop":
        this.#stoppedAfter ??= this.#sink.events.length;
        run.requestStop("The world asks.");
        return;
      case "cancel agent": {
        const started = this.#sink.of("agent.started");
        const one = started[act.which % Math.max(1, started.length)];
        if (one !== undefined) run.cancelAgent(one.agentId);
      }
    }
  }

  /**
   * Back-offs are waited for; then what still hangs is cancelled, and after the grace period it
   * must be over.
   */
  async comesToEnd(run: Run, isOver: () => boolean): Promise<void> {
    for (let round = 0; round < 12 && !isOver(); round += 1) {
      await ticks(6);
      this.#clock.advance(20_000);
    }
    if (isOver()) return;
    this.#cancelledAfter ??= this.#sink.events.length;
    void run.cancel("The world is at its end.");
    await ticks(10);
    this.#clock.advance(GRACE_MS);
    await ticks(10);
    if (!isOver())
      throw new Error(`Broken: T5: the run goes on after its grace period: ${this.#lastEvents()}.`);
  }

  /** Lets everything that was left behind settle at last: nobody may hear of it. */
  async aftermath(result: RunResult): Promise<Played> {
    const { length } = this.#sink.events;
    const written = JSON.stringify(result);
    const heard = this.#pieces.length;
    openBackstage();
    await ticks(3);
    const isAsItWas = this.#sink.events.length === length && JSON.stringify(result) === written;
    if (!isAsItWas) throw new Error("Broken: S3: what came late was heard.");
    return {
      result,
      events: this.#sink.events,
      requests: this.#requests,
      clock: this.#clock,
      cancelledAfter: this.#cancelledAfter,
      stoppedAfter: this.#stoppedAfter,
      lateText: this.#pieces.slice(heard),
    };
  }

  #lastEvents(): string {
    return this.#sink.events
      .slice(-6)
      .map((event) => `${event.agentPath} ${event.type}`)
      .join(", ");
  }

  #role(role: WorldRole, index: number): AgentRole {
    const { budget, maxOutputTokens, hasOutput, inherits, windowSize } = role;
    const messages = inherits ? { inheritMessages: true, messageWindowSize: windowSize } : {};
    return defineAgent({
      name: nameOf(index),
      purpose: "Acts.",
      instructions: "Act.",
      model: modelOf(role, nameOf(index), this.#requests),
      tools: TOOLS,
      subagents: role.subagents.flatMap((isOne, other) => (isOne ? [nameOf(other)] : [])),
      budget,
      maxOutputTokens,
      context: { ...messages, inheritMetadata: inherits },
      ...(hasOutput ? { output: OUTPUT } : {}),
    });
  }
}

const OUTPUT = z.object({ value: z.number() });
