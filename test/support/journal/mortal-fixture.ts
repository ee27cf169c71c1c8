// Plays a random world of the tree property through deaths of its processes, until its run has
// ended. Only its journal is checked.

import { checkRecord } from "./checked-record.ts";
import { expect } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import { foldJournal } from "../../../src/orchestrator/durability/fold-journal.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import type { Answer, Question } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { checkRun } from "../../harness/run-scripted.ts";
import { answerTo } from "../random-trees/tree-caller.ts";
import { agentRole } from "../random-trees/tree-agents.ts";
import { approverOf, enter, Outside, ticks } from "../random-trees/tree-foreign.ts";
import type { Moment, World } from "../random-trees/tree-world.ts";
import type { PlannedDeath } from "./crash-play.ts";
import { dyingStore } from "./dying-store.ts";
import { storedRecords } from "./stored-events.ts";
import { checkKept, eventsIn } from "./stored-story.ts";
import { checkRecordedOnce } from "./recorded-once.ts";

const GRACE_MS = 50;
/** Longer than any time limit or back-off. */
const LONG_MS = 20_000;
const MOST_LIVES = 60;
/** The number of events after which an endless run is cancelled. */
const MOST_EVENTS = 3_000;
/** Turns of the event loop without an event after which no more events are expected. */
const QUIET_TURNS = 16;

/** Plays a world; returns how often it died. Throws if a law is broken. */
export async function playMortally(
  world: World,
  deaths: readonly PlannedDeath[],
): Promise<{ readonly deaths: number; readonly recoveries: number }> {
  const outside = new Outside();
  enter(outside);
  try {
    return await new MortalFixture(world, outside, deaths).play();
  } finally {
    outside.end();
  }
}

class MortalFixture {
  readonly #world: World;
  readonly #outside: Outside;
  readonly #deaths: PlannedDeath[];
  readonly #ids = sequentialIds();
  readonly #store = memoryStore({ clock: new ManualClock() });
  #clock = new ManualClock();
  #moments: readonly Moment[];
  #events = 0;
  #started: EspalierEvent[] = [];
  #run: Run | undefined;
  #died = 0;

  constructor(world: World, outside: Outside, deaths: readonly PlannedDeath[]) {
    this.#world = world;
    this.#outside = outside;
    this.#deaths = [...deaths];
    this.#moments = world.moments;
  }

  async play(): Promise<{ readonly deaths: number; readonly recoveries: number }> {
    let dying = dyingStore(this.#store, this.#deaths[0]);
    let runId: RunId | undefined;
    let result: RunResult | undefined;
    for (let lives = 0; lives < MOST_LIVES; lives += 1) {
      const settled = runId === undefined ? new Set<string>() : await this.#settledCalls(runId);
      const bodies = this.#outside.bodies.length;
      const run: Run | undefined = await this.#life(dying.store, runId, result);
      if (run === undefined) return await this.#judged(runId, undefined);
      runId = run.runId;
      result = await this.#comesToRest(run);
      const repeated = this.#outside.bodies
        .slice(bodies)
        .filter(({ agentPath, callId }) => settled.has(`${agentPath} ${callId}`));
      expect(repeated, "D2: settled calls run once").toEqual([]);
      const [next] = this.#deaths;
      if (dying.isDead) {
        this.#died += 1;
        this.#deaths.shift();
        result = undefined;
      } else if (next !== undefined) this.#deaths[0] = { ...next, at: next.at - dying.appends };
      if (result !== undefined && result.status !== "paused")
        return await this.#judged(runId, result);
      dying = dyingStore(this.#store, this.#deaths[0]);
    }
    throw new Error("Broken: it never ends.");
  }

  /** Starts the run, or continues it, in a new process. `undefined` if it has already ended. */
  async #life(
    store: ReturnType<typeof memoryStore>,
    runId: RunId | undefined,
    result: RunResult | undefined,
  ): Promise<Run | undefined> {
    const { limits, concurrency, maxAttempts, budget } = this.#world;
    const [root, ...others] = this.#world.roles.map((role, index) =>
      agentRole(role, index, this.#outside),
    );
    if (root === undefined) throw new Error("A world has a root.");
    const { answerTimeoutMs, unansweredPolicy } = this.#world.approver;
    const approver = approverOf(this.#world, this.#outside);
    this.#clock = new ManualClock(this.#clock.nowMs() + 1);
    const orchestrator = new Orchestrator({
      clock: this.#clock,
      ids: this.#ids,
      store,
      sinks: [{ emit: (event) => this.#take(event) }],
      limits,
      concurrency,
      graceMs: GRACE_MS,
      retryPolicy: { maxAttempts },
      roles: others,
      unansweredPolicy,
      ...(approver === undefined ? {} : { approver }),
      ...(answerTimeoutMs === undefined ? {} : { answerTimeoutMs }),
    });
    if (runId === undefined) return orchestrator.start(root, "Begin.", { budget });
    const options = { role: root, takeOver: true };
    try {
      const answers = (result?.questions ?? []).flatMap((one) => this.#answer(one));
      return await orchestrator.resume(runId, { ...options, answers });
    } catch (cause) {
      if (!EspalierError.is(cause)) throw cause;
      if (cause.code === "run_ended") return undefined;
      if (cause.code === "unknown_run") return orchestrator.start(root, "Begin.", { budget });
      if (cause.code !== "invalid_answer" || result !== undefined) throw cause;
      const { run } = await foldJournal(runId, this.#store.read(runId));
      const answers = run.questions.flatMap((one) => this.#answer(one));
      return await orchestrator.resume(runId, { ...options, answers });
    }
  }

  #answer(question: Question): readonly Answer[] {
    const isLate = question.deadlineAtMs !== null && this.#clock.nowMs() >= question.deadlineAtMs;
    return isLate ? [] : [answerTo(question, question.questionId.length % 2 === 0)];
  }

  #take(event: EspalierEvent): void {
    this.#events += 1;
    this.#outside.events += 1;
    if (event.type === "agent.started") this.#started.push(event);
    if (this.#events === MOST_EVENTS)
      this.#request((run) => void run.cancel().catch(() => undefined));
  }

  #request(act: (run: Run) => void): void {
    const run = this.#run;
    if (run === undefined) return;
    try {
      act(run);
    } catch (cause) {
      if (!EspalierError.is(cause)) throw cause; // An agent of another process, or one without such a limit.
    }
  }

  #happens(act: Moment["act"]): void {
    const agent = "which" in act ? this.#agent(act.which) : undefined;
    this.#request((run) => {
      if (act.type === "advance") this.#clock.advance(act.byMs);
      if (act.type === "cancel") void run.cancel("So it is.").catch(() => undefined);
      if (act.type === "request stop") run.requestStop("Stop.");
      if (act.type === "pause") run.requestPause();
      if (agent === undefined) return;
      const { agentId, agentPath } = agent;
      if (act.type === "cancel agent") run.cancelAgent(agentId);
      if (act.type === "steer") void run.steer("Hurry.", agentId).catch(() => undefined);
      if (act.type === "grant") run.grant({ steps: act.amount }, { by: "world", agentPath });
    });
  }

  #agent(which: number): EspalierEvent | undefined {
    return this.#started[which % Math.max(1, this.#started.length)];
  }

  /** Returns `undefined` if the process died. */
  async #comesToRest(run: Run): Promise<RunResult | undefined> {
    this.#run = run;
    let isOver = false;
    let result: RunResult | undefined;
    void run.settled.then(
      (given) => {
        result = given;
        isOver = true;
      },
      () => {
        isOver = true;
      },
    );
    for (let pushes = 0; pushes < 40; pushes += 1) {
      await this.#quiet(() => isOver);
      if (isOver) {
        await ticks(4);
        return result;
      }
      const [moment, ...later] = this.#moments;
      this.#moments = later;
      if (moment !== undefined) this.#happens(moment.act);
      else if (pushes < 20) this.#clock.advance(LONG_MS);
      else {
        void run.cancel("The world is at its end.").catch(() => undefined);
        await ticks(2);
        this.#clock.advance(LONG_MS);
      }
    }
    throw new Error("Broken: the run hangs.");
  }

  async #quiet(isOver: () => boolean): Promise<void> {
    let seen = this.#events;
    for (let quiet = 0; quiet < QUIET_TURNS && !isOver(); quiet += 1) {
      await ticks(1);
      if (this.#events === seen) continue;
      seen = this.#events;
      quiet = 0;
    }
  }

  async #settledCalls(runId: RunId): Promise<ReadonlySet<string>> {
    const events = eventsIn(await storedRecords(this.#store, runId).catch(() => []));
    return new Set(
      events.flatMap((event) =>
        event.type === "tool.ended" ? [`${event.agentPath} ${event.callId}`] : [],
      ),
    );
  }

  async #judged(
    runId: RunId | undefined,
    result: RunResult | undefined,
  ): Promise<{ readonly deaths: number; readonly recoveries: number }> {
    if (runId === undefined) throw new Error("Broken: there was no run.");
    const events = eventsIn(await storedRecords(this.#store, runId));
    const { run, status } = await foldJournal(runId, this.#store.read(runId));
    expect(status).toBe("ended");
    await checkRecord(this.#store, runId);
    checkRecordedOnce(events);
    if (result !== undefined) {
      checkRun(result, events);
      checkKept(result, run);
    }
    const recoveries = events.filter(
      (event) => event.type === "run.resumed" && event.recovery !== undefined,
    ).length;
    return { deaths: this.#died, recoveries };
  }
}
