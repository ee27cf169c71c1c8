// The fixture of the tree property: plays a world from start to end, over all its pauses and
// grants, and then its fork. It triggers the moments, and finally cancels whatever hangs. A run
// that neither ends nor waits for anything is a hang.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { IdSource } from "../../../src/kernel/id-source.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { PausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import type { ResumeGrant } from "../../../src/orchestrator/run/run-options.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { Answer } from "../../../src/protocol/question.ts";
import { BUDGET_STOP_CODES } from "../../../src/protocol/stop.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { answerTo, grantsOf, REVIVAL } from "./tree-caller.ts";
import { agentRole } from "./tree-agents.ts";
import { failingIds, faultySinks, faultyTracing } from "./tree-faults.ts";
import { approverOf, enter, Outside, ticks, type Body, type Sent } from "./tree-foreign.ts";
import type { Moment, World } from "./tree-world.ts";
import { parsePausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { texts } from "../texts.ts";

/** An external request, and the number of events before it. */
export interface Order {
  readonly type: "cancel" | "request stop" | "cancel agent";
  /** The time of the request. */
  readonly at: number;
  /** The time at which it was known everywhere: a few microtasks later. */
  readonly after: number;
  readonly agentId: string | undefined;
}

/** A run, over all its pauses and continuations. */
export interface PlayedRun {
  /** The results of each pause and end. */
  readonly results: readonly RunResult[];
  readonly events: readonly EspalierEvent[];
  readonly orders: readonly Order[];
  /** The origin of a fork; `undefined` if the run was started. */
  readonly origin: PausedRun | undefined;
  /** The outcomes of messages to agents. */
  readonly messagesOpen: number;
}

/** A world that was played to its end. */
export interface Played {
  readonly runs: readonly PlayedRun[];
  readonly sent: readonly Sent[];
  readonly bodies: readonly Body[];
  readonly clock: ManualClock;
  readonly isTraced: boolean;
}

const GRACE_MS = 50;
/** No world has this many events; an endless run is cut off there. */
export const MOST_EVENTS = 6_000;
const MOST_PAUSES = 150;
/**
 * Turns of the event loop without an event after which nothing more happens by itself: no foreign
 * code takes as many.
 */
const QUIET_TURNS = 8;
/** Microtasks that a call which has begun may take before it is reported. */
const HOPS = 12;
/** Longer than any time limit or back-off. */
const LONG_MS = 20_000;

/** Plays a world. Throws if something fails on the way. */
export async function play(world: World): Promise<Played> {
  // The loop loads them late, and reading a file takes longer than the turns that a run may be
  // quiet.
  await import("../../../src/agent/hooked-model-call.ts");
  await import("../../../src/agent/phases/compact.ts");
  const outside = new Outside();
  enter(outside);
  const fixture = new Fixture(world, outside);
  try {
    return await fixture.play();
  } finally {
    outside.end();
  }
}

class Fixture {
  readonly #world: World;
  readonly #outside: Outside;
  readonly #clock = new ManualClock();
  readonly #ids: IdSource;
  readonly #pieces: string[] = [];
  #events: EspalierEvent[] = [];
  #orders: Order[] = [];
  #messages = 0;
  #run: Run | undefined;
  #isOver = false;
  /** Moments that wait for their event, and those that follow one another. */
  #atEvents: readonly Moment[];
  #inTurn: readonly Moment[];

  constructor(world: World, outside: Outside) {
    this.#world = world;
    this.#outside = outside;
    this.#ids = failingIds(world.failingId);
    this.#atEvents = world.moments.filter(({ at }) => "event" in at);
    this.#inTurn = world.moments.filter(({ at }) => "ticks" in at);
  }

  async play(): Promise<Played> {
    const first = await this.#playRun();
    const runs = [first.played];
    const { snapshot } = first;
    const steps = parsePausedRun(snapshot).agents[0]?.state.log.steps.length ?? 0;
    if (this.#world.forkAt !== undefined && steps > 0)
      runs.push(await this.#playFork(snapshot, Math.min(this.#world.forkAt, steps)));
    await this.#aftermath(runs);
    const { sent, bodies } = this.#outside;
    const isTraced = this.#world.tracing.failsAt === "nothing";
    return { runs, sent, bodies, clock: this.#clock, isTraced };
  }

  async #playRun(): Promise<{ readonly played: PlayedRun; readonly snapshot: PausedRun }> {
    const { budget, grants } = this.#world;
    const results: RunResult[] = [];
    let { revivals } = this.#world;
    let answers = this.#world.answers;
    const [root, orchestrator] = this.#process();
    let run = orchestrator.start(root, "Begin.", {
      budget,
      metadata: { shared: { list: [1, 2] } },
      onStreamPart: texts((text) => void this.#pieces.push(text)),
    });
    for (let rests = 0; rests <= MOST_PAUSES; rests += 1) {
      const result = await this.#comesToRest(run);
      results.push(result);
      const isRevived =
        result.status === "stopped" && BUDGET_STOP_CODES.has(result.reason.code) && revivals > 0;
      if (result.status !== "paused" && !isRevived) {
        const messagesOpen = this.#messages;
        const { events, orders } = this.#take();
        const played = { results, events, orders, origin: undefined, messagesOpen };
        return { played, snapshot: run.snapshot() };
      }
      if (isRevived) revivals -= 1;
      const stored = JSON.stringify(result.pausedRun ?? run.snapshot());
      this.#clock.advance(this.#world.pauseMs);
      const open = result.questions.filter(
        ({ deadlineAtMs }) => deadlineAtMs === null || this.#clock.nowMs() < deadlineAtMs,
      );
      const given = open.map((question, index) => answerTo(question, answers[index] ?? true));
      answers = answers.slice(open.length);
      const grant = isRevived ? REVIVAL : grants[rests];
      const options = grantsOf(result, grant, isRevived);
      run = this.#resumed(stored, given, options);
    }
    throw new Error(`Broken: it was paused more than ${MOST_PAUSES} times.`);
  }

  /** In a new process. An id that cannot be created is an error of the call, without any effect. */
  #resumed(stored: string, answers: readonly Answer[], grants: readonly ResumeGrant[]): Run {
    const [role, orchestrator] = this.#process();
    const onStreamPart = texts((text) => void this.#pieces.push(text));
    const resume = (): Run =>
      orchestrator.resume(readPausedRun(stored), { answers, role, grants, onStreamPart });
    try {
      return resume();
    } catch (cause) {
      if (EspalierError.is(cause)) throw cause;
      return resume();
    }
  }

  async #playFork(origin: PausedRun, atStep: number): Promise<PlayedRun> {
    const [role, orchestrator] = this.#process();
    const fork = (): Run =>
      orchestrator.fork(readPausedRun(JSON.stringify(origin)), {
        role,
        atStep,
        message: "Act otherwise.",
      });
    this.#inTurn = [];
    this.#atEvents = [];
    let run: Run;
    try {
      run = fork();
    } catch (cause) {
      if (isLeftOut(cause)) return { results: [], events: [], orders: [], origin, messagesOpen: 0 };
      if (EspalierError.is(cause)) throw cause;
      run = fork();
    }
    const results: RunResult[] = [];
    for (let rests = 0; rests <= MOST_PAUSES; rests += 1) {
      const result = await this.#comesToRest(run);
      results.push(result);
      if (result.status !== "paused") break;
      const now = this.#clock.nowMs();
      const open = result.questions.filter(
        (one) => one.deadlineAtMs === null || now < one.deadlineAtMs,
      );
      run = this.#resumed(
        JSON.stringify(result.pausedRun),
        open.map((question) => answerTo(question, true)),
        [],
      );
    }
    const messagesOpen = this.#messages;
    return { results, ...this.#take(), origin, messagesOpen };
  }

  #take(): Pick<PlayedRun, "events" | "orders"> {
    const taken = { events: this.#events, orders: this.#orders };
    this.#events = [];
    this.#orders = [];
    return taken;
  }

  /** The parts of a process that runs the world: its own roles, models, tools and hooks. */
  #process(): readonly [AgentRole, Orchestrator] {
    const { limits, concurrency, maxAttempts } = this.#world;
    const [root, ...others] = this.#world.roles.map((role, index) =>
      agentRole(role, index, this.#outside),
    );
    if (root === undefined) throw new Error("A world has a root.");
    const { answerTimeoutMs, unansweredPolicy } = this.#world.approver;
    const approver = approverOf(this.#world, this.#outside);
    const orchestrator = new Orchestrator({
      clock: this.#clock,
      ids: this.#ids,
      sinks: [{ emit: (event) => this.#takeEvent(event) }, ...faultySinks(this.#world.sink)],
      tracing: faultyTracing(this.#world.tracing, this.#outside),
      limits,
      concurrency,
      graceMs: GRACE_MS,
      retryPolicy: { maxAttempts },
      roles: others,
      unansweredPolicy,
      ...(approver === undefined ? {} : { approver }),
      ...(answerTimeoutMs === undefined ? {} : { answerTimeoutMs }),
    });
    return [root, orchestrator];
  }

  #takeEvent(event: EspalierEvent): void {
    this.#events.push(event);
    this.#outside.events += 1;
    const { length } = this.#events;
    if (length === MOST_EVENTS) void this.#run?.cancel();
    for (const { at, act } of this.#atEvents)
      if ("event" in at && at.event === length) this.#happens(act);
  }

  #happens(act: Moment["act"]): void {
    const run = this.#run;
    if (run === undefined || this.#isOver) return;
    switch (act.type) {
      case "advance":
        // No clock fires its timers within other code.
        setImmediate(() => this.#clock.advance(act.byMs));
        return;
      case "cancel":
        this.#order(act.type);
        void run.cancel("The world says so.");
        return;
      case "request stop":
        this.#order(act.type);
        run.requestStop("The world asks.");
        return;
      case "pause":
        run.requestPause();
        return;
      case "cancel agent": {
        const one = this.#agent(act.which);
        if (one === undefined) return;
        this.#order(act.type, one.agentId);
        run.cancelAgent(one.agentId);
        return;
      }
      case "steer": {
        const one = this.#agent(act.which);
        if (one === undefined) return;
        this.#messages += 1;
        void run.steer("Hurry.", one.agentId).then(() => {
          this.#messages -= 1;
        });
        return;
      }
      case "grant": {
        const one = this.#agent(act.which);
        if (one !== undefined) this.#grant(run, one, act.amount);
      }
    }
  }

  /**
   * Effects that need no pause when the request comes, such as the other calls of a reply, may
   * still begin.
   */
  #order(type: Order["type"], agentId?: string): void {
    const { length } = this.#events;
    const order = { type, at: length, after: length, agentId };
    this.#orders.push(order);
    void (async () => {
      for (let hop = 0; hop < HOPS; hop += 1) await Promise.resolve();
      order.after = this.#events.length;
    })();
  }

  /** Grants more steps; agents without such a limit of their own are refused. */
  #grant(run: Run, { agentPath }: EspalierEvent, amount: number): void {
    try {
      run.grant({ steps: amount }, { by: "world", agentPath });
    } catch (cause) {
      if (!EspalierError.is(cause) || cause.code !== "invalid_argument") throw cause;
    }
  }

  #agent(which: number): EspalierEvent | undefined {
    const started = this.#events.filter(({ type }) => type === "agent.started");
    return started[which % Math.max(1, started.length)];
  }

  /**
   * Plays until the run is inactive: its moments, then time, then a cancel for whatever still
   * hangs.
   */
  async #comesToRest(run: Run): Promise<RunResult> {
    let over: RunResult | undefined;
    let broken: unknown;
    this.#run = run;
    this.#isOver = false;
    const rested = run.settled.then(
      (result) => {
        over = result;
        this.#isOver = true;
      },
      (cause: unknown) => {
        broken = { cause };
      },
    );
    let isCancelled = false;
    for (;;) {
      await this.#quiet(() => over !== undefined || broken !== undefined);
      if (broken !== undefined) await Promise.reject(unwrapped(broken));
      if (over !== undefined) break;
      const [moment, ...later] = this.#inTurn;
      if (moment !== undefined) {
        this.#inTurn = later;
        this.#happens(moment.act);
      } else if (this.#clock.pendingTimers > 0) this.#clock.advance(LONG_MS);
      else if (isCancelled)
        throw new Error(
          `Broken: T5: the run continues after its grace period: ${this.#lastEvents()}.`,
        );
      else if (this.#outside.waiting === 0)
        throw new Error(`Broken: the run hangs: ${this.#lastEvents()}.`);
      else {
        isCancelled = true;
        this.#order("cancel");
        void run.cancel("The world is at its end.");
      }
    }
    await rested;
    await ticks(1);
    return over;
  }

  /** Waits until something is over, a moment is due, or nothing happens any more. */
  async #quiet(isOver: () => boolean): Promise<void> {
    let seen = this.#events.length;
    let turns = 0;
    const at = this.#inTurn[0]?.at;
    const due = at !== undefined && "ticks" in at ? at.ticks : Infinity;
    for (let quiet = 0; quiet < QUIET_TURNS && !isOver() && turns < due; quiet += 1) {
      await ticks(1);
      turns += 1;
      if (this.#events.length === seen) continue;
      seen = this.#events.length;
      quiet = 0;
    }
  }

  /** Lets all abandoned work settle in the end: no listener may be called. */
  async #aftermath(runs: readonly PlayedRun[]): Promise<void> {
    const written = JSON.stringify(runs.map(({ results }) => results));
    const heard = this.#pieces.length;
    this.#outside.end();
    await ticks(3);
    const isAsItWas =
      this.#events.length === 0 &&
      this.#pieces.length === heard &&
      JSON.stringify(runs.map(({ results }) => results)) === written;
    if (!isAsItWas) throw new Error("Broken: S3: what came late was handed on.");
  }

  #lastEvents(): string {
    return this.#events
      .slice(-8)
      .map((event) => `${event.agentPath} ${event.type}`)
      .join(", ");
  }
}

function unwrapped(broken: unknown): unknown {
  return typeof broken === "object" && broken !== null && "cause" in broken ? broken.cause : broken;
}

/** A fork at a step whose history was compacted. */
function isLeftOut(cause: unknown): boolean {
  return EspalierError.is(cause) && cause.code === "invalid_argument";
}
