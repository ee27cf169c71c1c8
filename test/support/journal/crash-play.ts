// Plays a run through deaths: a process starts it, dies at an append, the next one recovers it, and
// so on until it has ended. The outcome of a story is read from its journal, as a later reader
// would; it must equal that of the undisturbed run.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { foldJournal } from "../../../src/orchestrator/durability/fold-journal.ts";
import type { JournalRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import { localTracing } from "../local-tracing.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { StartOptions } from "../../../src/orchestrator/run/run-options.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import type { Answer, Question } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { loadRecording, type Recording } from "../../../src/testing/replay/recording.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { checkRun, type Latch } from "../../harness/run-scripted.ts";
import { dyingStore, DEATHS, type Death } from "./dying-store.ts";
import { storedRecords } from "./stored-events.ts";
import { replaysToTheSame } from "./replay-story.ts";
import { checkKept, endsOf, eventsIn, settledCalls, type Ends } from "./stored-story.ts";
import { checkRecordedOnce, recordedLines } from "./recorded-once.ts";

/** The parts of one process. Recreated for each: nothing in memory outlives a process. */
export interface Play {
  readonly role: AgentRole;
  /** Default: "Go." */
  readonly task?: string;
  readonly options?: OrchestratorOptions;
  readonly start?: StartOptions;
  /** Actions of the caller. */
  readonly callerActions?: readonly CallerAction[];
  /** Executions of tools in this process, by idempotency key. */
  readonly calls?: ReadonlyMap<string, number>;
  readonly answer?: (question: Question) => Answer;
  /** How a paused run continues. Default `recover`. */
  readonly goesOnBy?: "recover" | "resume";
  /**
   * Called once with the first result that is not a pause. If it returns another run, that is the
   * story from then on.
   */
  readonly onward?: (orchestrator: Orchestrator, run: Run, result: RunResult) => Run | Promise<Run>;
}

/** An action that the caller takes once, after an event. */
export interface CallerAction {
  readonly when: (event: EspalierEvent) => boolean;
  readonly act: (run: Run, event: EspalierEvent) => void;
  /** True for the record of this action. */
  readonly isKept: (record: JournalRecord) => boolean;
}

/** The outcome of a run. */
export interface Story {
  readonly runId: RunId;
  /** `undefined` if the process died right after the end. */
  readonly result: RunResult | undefined;
  /** The persisted result. */
  readonly kept: RunResult;
  readonly recording: Recording;
  readonly ends: Ends;
  readonly events: readonly EspalierEvent[];
  readonly deaths: number;
  /** All appends, also those of processes that died. */
  readonly appends: number;
  readonly plays: readonly Play[];
  /** Results in the order in which processes paused or ended. */
  readonly results: readonly RunResult[];
}

/** Creates the clock of a process, with the initial time of its wall clock. */
export type NewClock = (startMs: number) => ManualClock;

/** A death: at this append since the last one, over all processes. */
export interface PlannedDeath {
  readonly at: number;
  readonly how: Death;
}

export async function playThrough(
  build: () => Play,
  deaths: readonly PlannedDeath[] = [],
  newClock: NewClock = (startMs) => new ManualClock(startMs),
): Promise<Story> {
  const teller = new Teller(build, deaths, newClock);
  return await teller.tell();
}

class Teller {
  readonly #build: () => Play;
  /**
   * Each process has its own clock: timers die with it, and each begins a second later than the one
   * before.
   */
  #clock: ManualClock;
  readonly #newClock: NewClock;
  readonly #ids = sequentialIds();
  readonly #store: Store = memoryStore({ clock: new ManualClock() });
  readonly #deaths: PlannedDeath[];
  readonly #plays: Play[] = [];
  readonly #results: RunResult[] = [];
  /** Calls that had an end in the journal when a process began. */
  readonly #settled = new Map<Play, ReadonlySet<string>>();
  #died = 0;
  #appends = 0;
  /** The run and result that another run continues from. */
  #origin: readonly [Run, RunResult] | undefined;

  constructor(build: () => Play, deaths: readonly PlannedDeath[], newClock: NewClock) {
    this.#build = build;
    this.#newClock = newClock;
    this.#clock = newClock(1_000);
    this.#deaths = [...deaths];
  }

  async tell(): Promise<Story> {
    let process = this.#process();
    let run = process.orchestrator.start(
      process.play.role,
      taskOf(process.play),
      process.play.start,
    );
    process.watch(run, []);
    for (let lives = 0; lives < 50; lives += 1) {
      const result = await run.settled.catch(() => undefined);
      await turns(3);
      this.#end(process);
      if (result !== undefined) await this.#keep(run.runId, result);
      const { onward } = process.play;
      if (result !== undefined && result.status !== "paused") {
        if (onward === undefined || this.#origin !== undefined)
          return await this.#story(run.runId, result);
        this.#origin = [run, result];
        const next = this.#process();
        run = await onward(next.orchestrator, run, result);
        process = next;
        process.watch(run, []);
        continue;
      }
      process = this.#process();
      const before = await this.records(run.runId);
      this.#settled.set(process.play, settledCalls(before));
      const again = await this.#goOn(process, run.runId, result);
      if (again === undefined) return await this.#story(run.runId, undefined);
      run = again;
      process.watch(run, before);
    }
    throw new Error("The story does not end.");
  }

  /** Expects the persisted result, read without roles, to equal the one of the process. */
  async #keep(runId: RunId, result: RunResult): Promise<void> {
    this.#results.push(result);
    expect(await new Orchestrator({ store: this.#store }).getResult(runId)).toEqual(result);
  }

  async records(runId: RunId): Promise<readonly JournalRecord[]> {
    try {
      return await storedRecords(this.#store, runId);
    } catch (cause) {
      if (EspalierError.is(cause) && cause.code === "unknown_run") return [];
      throw cause;
    }
  }

  #process(): Process {
    const play = this.#build();
    this.#plays.push(play);
    this.#clock = this.#newClock(this.#clock.nowMs() + 1_000);
    return new Process(play, dyingStore(this.#store, this.#deaths[0]), {
      clock: this.#clock,
      ids: this.#ids,
    });
  }

  /** Ends a process, and subtracts its appends from those before the next death. */
  #end({ dying }: Process): void {
    this.#appends += dying.appends;
    const [next] = this.#deaths;
    if (dying.isDead) {
      this.#died += 1;
      this.#deaths.shift();
    } else if (next !== undefined) this.#deaths[0] = { ...next, at: next.at - dying.appends };
  }

  /**
   * Continues in a new process. `undefined` if the run had ended, and only its process died before
   * returning.
   */
  async #goOn(
    { orchestrator, play }: Process,
    runId: RunId,
    result: RunResult | undefined,
  ): Promise<Run | undefined> {
    const { answer, goesOnBy = "recover" } = play;
    if (result !== undefined && goesOnBy === "resume") {
      const answers = result.questions.map((question) => given(answer, question));
      return orchestrator.resume(readPausedRun(JSON.stringify(result.pausedRun)), { answers });
    }
    const answers = (result?.questions ?? []).map((question) => given(answer, question));
    try {
      return await orchestrator.resume(runId, { takeOver: true, answers });
    } catch (cause) {
      if (!EspalierError.is(cause)) throw cause;
      const isUnknown = cause.code === "unknown_run";
      if (isUnknown || cause.code === "run_ended") {
        const events = eventsIn(await this.records(runId));
        const isAgain = this.#origin !== undefined && !isOnward(events);
        if (isAgain && this.#origin !== undefined)
          return await play.onward?.(orchestrator, ...this.#origin);
        // The process died before anything outside knew of the run.
        return isUnknown ? orchestrator.start(play.role, taskOf(play), play.start) : undefined;
      }
      if (cause.code !== "invalid_answer" || result !== undefined) throw cause;
      const folded = await foldJournal(runId, this.#store.read(runId));
      const late = folded.run.questions.map((question) => given(answer, question));
      return await orchestrator.resume(runId, { takeOver: true, answers: late });
    }
  }

  async #story(runId: RunId, result: RunResult | undefined): Promise<Story> {
    const records = await this.records(runId);
    const events = eventsIn(records);
    const { run, status } = await foldJournal(runId, this.#store.read(runId));
    expect(status).toBe("ended");
    expect((await this.#store.find(runId))?.status).toBe("ended");
    expect(this.#clock.pendingTimers, "timers left behind").toBe(0);
    checkRecordedOnce(events);
    if (result !== undefined) checkKept(result, run);
    if (result !== undefined) checkRun(result, events);
    this.#checkCalls();
    return {
      runId,
      result,
      kept: await new Orchestrator({ store: this.#store }).getResult(runId),
      recording: await loadRecording(this.#store, runId),
      ends: endsOf(run, events),
      events,
      deaths: this.#died,
      appends: this.#appends,
      plays: this.#plays,
      results: this.#results,
    };
  }

  /** D2: a process executed no call that had an end in the journal when it began. */
  #checkCalls(): void {
    const repeated = this.#plays.flatMap((play) =>
      [...(play.calls?.entries() ?? [])].filter(
        ([key, count]) => count > 1 || this.#settled.get(play)?.has(key) === true,
      ),
    );
    expect(repeated, "D2: settled calls run once").toEqual([]);
  }
}

class Process {
  readonly play: Play;
  readonly dying: ReturnType<typeof dyingStore>;
  readonly orchestrator: Orchestrator;
  readonly #listeners = new Set<(event: EspalierEvent) => void>();

  constructor(
    play: Play,
    dying: ReturnType<typeof dyingStore>,
    own: Pick<OrchestratorOptions, "clock" | "ids">,
  ) {
    this.play = play;
    this.dying = dying;
    const { options = {}, role } = play;
    const take = (event: EspalierEvent): void => {
      for (const listener of this.#listeners) listener(event);
    };
    this.orchestrator = new Orchestrator({
      roles: [role],
      tracing: localTracing(), // One tracing per process, since a pause can be resumed once by each.
      ...own,
      ...options,
      store: dying.store,
      sinks: [{ emit: take }, ...(options.sinks ?? [])],
    });
  }

  /** Takes the actions of the caller that were not taken before. */
  watch(run: Run, before: readonly JournalRecord[]): void {
    const events = eventsIn(before);
    for (const callerAction of this.play.callerActions ?? []) {
      if (before.some(callerAction.isKept)) continue;
      const due = events.find(callerAction.when);
      if (due !== undefined) callerAction.act(run, due);
      else this.#await(run, callerAction);
    }
  }

  #await(run: Run, callerAction: CallerAction): void {
    const listener = (event: EspalierEvent): void => {
      if (!callerAction.when(event)) return;
      this.#listeners.delete(listener);
      queueMicrotask(() => callerAction.act(run, event));
    };
    this.#listeners.add(listener);
  }
}

/**
 * A death after an append leaves the same store as one before the next append: only some are tried.
 */
const AFTER_EVERY = 3;
/** Every fourth story is replayed. */
const REPLAYED_EVERY = 4;

export interface HowKilled {
  /** False if stories may differ from the undisturbed one. Default true. */
  readonly isSame?: boolean;
  /** The first append at which it dies. Default 1. */
  readonly from?: number;
  readonly afterEvery?: number;
  /** False if user code depends on its process, so that a replay diverges. Default true. */
  readonly isReplayed?: boolean;
  readonly newClock?: NewClock;
}

/**
 * Plays a story once without a death, then with a death at each append; each story must end like
 * the first.
 */
export async function killedEverywhere(
  build: () => Play,
  check: (story: Story, plain: Story) => void = () => undefined,
  {
    isSame = true,
    from = 1,
    afterEvery = AFTER_EVERY,
    isReplayed = true,
    newClock,
  }: HowKilled = {},
): Promise<Story> {
  const plain = await playThrough(build, [], newClock);
  check(plain, plain);
  for (const how of DEATHS) {
    for (let at = from; at <= plain.appends; at += how === "before" ? 1 : afterEvery) {
      const story = await named({ at, how }, () => playThrough(build, [{ at, how }], newClock));
      await named({ at, how }, () => {
        if (isSame) expect(story.ends).toEqual(plain.ends);
        if (isSame) expect(recordedLines(story.events)).toEqual(recordedLines(plain.events));
        check(story, plain);
      });
      if (isReplayed && at % REPLAYED_EVERY === 0)
        await named({ at, how }, () => replaysToTheSame(build(), story));
    }
  }
  return plain;
}

/** Prefixes errors with the death at which they occurred. */
export async function named<T>(death: unknown, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof Error) cause.message = `${JSON.stringify(death)}: ${cause.message}`;
    throw cause;
  }
}

/** True if the run continued from the end of another run, or its own. */
function isOnward(events: readonly EspalierEvent[]): boolean {
  return events.some(
    (event) =>
      event.type === "run.resumed" ||
      (event.type === "run.started" && event.forkedFrom !== undefined),
  );
}

/** Waits this many turns of the event loop. */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1)
    await new Promise<void>((resolve) => setImmediate(resolve));
}

/** Opens a gate once an event has occurred, also in an earlier process. */
export function opens(gate: Latch, when: CallerAction["when"]): CallerAction {
  return { when, act: () => gate.open(), isKept: () => false };
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) =>
    signal.addEventListener("abort", () => resolve(), { once: true }),
  );
}

function taskOf({ task = "Go." }: Play): string {
  return task;
}

function given(answer: Play["answer"], question: Question): Answer {
  if (answer === undefined) throw new Error(`There is no answer to ${question.questionId}.`);
  return answer(question);
}
