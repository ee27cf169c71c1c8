// Runs agents for tests: a manual clock, sequential ids, recorded events, and the checks that hold
// for every run.

import { readPausedRun } from "../../src/orchestrator/durability/paused-run.ts";
import { ok } from "node:assert/strict";

import { expect } from "vitest";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../src/orchestrator/tree/orchestrator-settings.ts";
import type {
  ForkOptions,
  ResumeGrant,
  StartOptions,
} from "../../src/orchestrator/run/run-options.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { PausedRun } from "../../src/orchestrator/durability/paused-run.ts";
import type { MessageContent } from "../../src/protocol/message-content.ts";
import type { Answer } from "../../src/protocol/question.ts";
import type { SettledStatus, StopSignal } from "../../src/protocol/stop.ts";
import {
  sumUsage,
  assertEvent,
  type EspalierEvent,
  isSpanContinuation,
} from "../../src/protocol/event.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { flushEventLoop } from "../../src/testing/flush-event-loop.ts";

export { latch, type Latch } from "../../src/testing/latch.ts";
export { flushEventLoop };

export interface Fixture {
  readonly clock: ManualClock;
  readonly sink: RecordingSink;
  readonly orchestrator: Orchestrator;
  /** Starts a run; `outcome` checks its events. */
  start(role: AgentRole, task?: MessageContent, options?: StartOptions): Run;
  /** Returns the result after checking everything that must hold for every run. */
  outcome(run: Run): Promise<RunResult>;
  /** Combines `start` and `outcome`. */
  run(role: AgentRole, options?: StartOptions): Promise<RunResult>;
  /**
   * Continues a paused run as a new process would: another orchestrator with the same clock, ids
   * and sink, from JSON.
   */
  resume(
    role: AgentRole,
    paused: PausedRun | undefined,
    answers?: readonly Answer[],
    more?: OrchestratorOptions,
  ): Run;
  /** Continues a run that is paused or that a limit stopped, with more budget. */
  grantOn(
    role: AgentRole,
    stored: PausedRun | undefined,
    grants: readonly ResumeGrant[],
    answers?: readonly Answer[],
  ): Run;
  /** Forks an inactive run as a new process would. */
  fork(role: AgentRole, stored: PausedRun | undefined, options?: ForkOptions): Run;
}

export function newFixture(options: OrchestratorOptions = {}): Fixture {
  const clock = new ManualClock();
  const sink = new RecordingSink();
  const sinks = [sink, ...(options.sinks ?? [])];
  const ids = sequentialIds();
  const { retryPolicy: retry } = options;
  const all = { clock, ids, ...options, retryPolicy: { random: () => 1, ...retry }, sinks };
  const orchestrator = new Orchestrator(all);
  const start: Fixture["start"] = (role, task = "Do it.", more = {}) =>
    orchestrator.start(role, task, more);
  const outcome: Fixture["outcome"] = async (run) => {
    const result = await run.settled;
    await flushEventLoop();
    checkRun(result, sink.events);
    expect(clock.pendingTimers, "timers left behind").toBe(0);
    return result;
  };
  const fresh = (more: OrchestratorOptions = {}): Orchestrator =>
    new Orchestrator({ ...all, ...more, sinks });
  return {
    clock,
    sink,
    orchestrator,
    start,
    outcome,
    run: (role, more) => outcome(start(role, "Do it.", more)),
    resume: (role, paused, answers = [], more = {}) =>
      fresh(more).resume(readPausedRun(JSON.stringify(paused)), { answers, role }),
    grantOn: (role, stored, grants, answers = []) =>
      fresh().resume(readPausedRun(JSON.stringify(stored)), { answers, role, grants }),
    fork: (role, stored, more = {}) =>
      fresh().fork(readPausedRun(JSON.stringify(stored)), { role, ...more }),
  };
}

/** Events whose form was checked: those of a continued run are emitted again, and are frozen. */
const checked = new WeakSet<EspalierEvent>();

/**
 * Checks what must hold for every run. Uses `ok` for every event, since `expect` takes longer than
 * the run.
 */
export function checkRun(result: RunResult, events: readonly EspalierEvent[]): void {
  const own = events.filter((event) => event.runId === result.runId);
  for (const event of own) {
    if (!checked.has(event)) assertEvent(event);
    checked.add(event);
  }
  expect(
    own.map((event) => event.seq),
    "E1: numbered without gaps",
  ).toEqual(own.map((_event, index) => index + 1));
  const traces = new Set(own.map((event) => event.traceId));
  const further = own.filter((event) => event.type === "run.resumed" && !isSpanContinuation(event));
  expect(traces.size, "a trace, and one more for each time that it began anew").toBe(
    1 + further.length,
  );
  const isPaused = result.status === "paused";
  const paused = checkTerminalEvents(own, isPaused);
  checkSettlement(own, paused);
  checkSignals(own);
  checkSteps(own, isPaused);
  checkCalls(own);
  checkUsage(result, own, isPaused);
  expect(STATUS_OF.get(result.reason.code) ?? "stopped", "the reason fits the status").toBe(
    result.status,
  );
  expect(result.pausedRun !== undefined, "a paused run, and no other, can be resumed").toBe(
    isPaused,
  );
  expect(JSON.parse(JSON.stringify(result.pausedRun ?? null)), "a paused run is JSON").toEqual(
    result.pausedRun ?? null,
  );
}

/** The status of a result by the code of its reason, unless it is `stopped`. */
const STATUS_OF: ReadonlyMap<string, SettledStatus> = new Map([
  ["completed", "completed"],
  ["error", "failed"],
  ["cancelled", "cancelled"],
  ["input_required", "paused"],
  ["pause_requested", "paused"],
]);

/** Checks how executions end, and returns the paused agents. */
function checkTerminalEvents(
  events: readonly EspalierEvent[],
  isPaused: boolean,
): ReadonlySet<string> {
  const ended = new Set<string>();
  const paused = new Map<string, string>();
  const living = new Set<string>();
  let interrupted = new Set<string>();
  for (const event of events) {
    if (isRecovery(event)) interrupted = new Set(living);
    if (event.executionId === null) continue;
    ok(!ended.has(event.executionId), `L2: ${event.type} after the terminal event`);
    if (event.type === "agent.resumed") {
      const wasAtRest = paused.delete(event.executionId) || interrupted.delete(event.executionId);
      ok(wasAtRest, "resumed from a pause, or after its process died");
    }
    ok(!interrupted.has(event.executionId), `${event.type} before it was resumed`);
    if (event.type === "agent.started" || event.type === "agent.resumed")
      living.add(event.executionId);
    if (event.type === "agent.ended" || event.type === "agent.paused")
      living.delete(event.executionId);
    ok(!paused.has(event.executionId), `${event.type} while paused`);
    if (event.type === "agent.ended") ended.add(event.executionId);
    if (event.type === "agent.paused") paused.set(event.executionId, event.agentId);
  }
  const started = events
    .filter((event) => event.type === "agent.started")
    .map((event) => event.executionId);
  expect([...ended, ...paused.keys()].toSorted(byText), "L2: one terminal event each").toEqual(
    started.toSorted(byText),
  );
  expect(paused.size > 0, "agents are paused if the run is").toBe(isPaused);
  expect(events.at(-1)?.type, "the run ends last").toBe(isPaused ? "run.paused" : "run.ended");
  const rests = events.filter(({ type }) => type === "run.ended" || type === "run.paused");
  const onward = rests.slice(0, -1).map((event) => events[events.indexOf(event) + 1]?.type);
  expect(onward, "after a rest the run continues or says nothing").toEqual(
    onward.map(() => "run.resumed"),
  );
  const resumptions = events.filter((event) => event.type === "run.resumed" && !isRecovery(event));
  expect(resumptions).toHaveLength(onward.length);
  expect(["run.started", "run.resumed"], "the run begins first").toContain(events[0]?.type);
  return new Set(paused.values());
}

/**
 * True if a run continues after its process crashed: agents that were alive continue without having
 * been paused.
 */
function isRecovery(event: EspalierEvent): boolean {
  return event.type === "run.resumed" && event.recovery !== undefined;
}

function checkSettlement(events: readonly EspalierEvent[], paused: ReadonlySet<string>): void {
  const spawned = events
    .filter((event) => event.type === "subagent.spawned" || event.type === "subagent.continued")
    .map((event) => event.childId);
  const open = new Set<string>();
  const executing = new Set<string>();
  for (const event of events) {
    if (event.type === "agent.started") executing.add(event.agentId);
    if (event.type === "agent.ended") executing.delete(event.agentId);
    if (event.type === "subagent.spawned" || event.type === "subagent.continued") {
      ok(!open.has(event.childId), "T1: no subagent is started twice at once");
      open.add(event.childId);
    }
    if (event.type !== "subagent.ended") continue;
    ok(open.delete(event.childId), "T1: no subagent settles that was not started");
    ok(!executing.has(event.childId), "T1: settled after its end");
  }
  const unsettled = spawned.filter((childId) => paused.has(childId));
  expect(open, "T1: every spawn settles once").toEqual(new Set(unsettled));
  const alive = new Map<string, string | null>();
  for (const event of events) {
    if (event.type === "agent.started") alive.set(event.agentId, event.parentAgentId);
    if (event.type === "subagent.detached") alive.set(event.childId, null);
    if (event.type !== "agent.ended") continue;
    alive.delete(event.agentId);
    for (const [orphan, parentId] of alive)
      ok(parentId !== event.agentId, `T2: no parent ends over a living child: ${orphan}`);
  }
  expect(
    [...alive.keys()].filter((agentId) => !paused.has(agentId)),
    "no agent lives on after the run",
  ).toEqual([]);
}

/**
 * Checks that the end of an execution lists its signals in order, and the end of the run those of
 * the root.
 */
function checkSignals(events: readonly EspalierEvent[]): void {
  const raised = new Map<string | null, readonly StopSignal[]>();
  let ofRoot: readonly StopSignal[] = [];
  for (const event of events) {
    const { executionId } = event;
    const before = raised.get(executionId) ?? [];
    if (event.type === "signal.raised") raised.set(executionId, [...before, event.signal]);
    if (event.type === "agent.ended") {
      expect(event.signals, "an end lists its signals").toEqual(before);
      if (event.parentAgentId === null) ofRoot = event.signals;
    }
    if (event.type === "run.ended")
      expect(event.signals, "a run lists the signals of its root").toEqual(ofRoot);
  }
}

function checkSteps(events: readonly EspalierEvent[], isPaused: boolean): void {
  const started = events
    .filter((event) => event.type === "step.started")
    .map((event) => event.stepId);
  const completed = events
    .filter((event) => event.type === "step.completed")
    .map((event) => event.stepId);
  const isDone = new Set(completed);
  const expected = isPaused ? started.filter((id) => isDone.has(id)) : started;
  expect(completed.toSorted(byText), "L4: every step completes once").toEqual(
    expected.toSorted(byText),
  );
  expect(new Set(started).size, "no step starts twice").toBe(started.length);
}

const CALL_EVENTS = ["tool.started", "tool.paused", "tool.resumed", "tool.ended", "tool.rejected"];

/**
 * Returns one word for each event of a call, in order. A subagent that is paused when its parent
 * stops leaves its call open.
 */
const COURSE = /^(rejected|started( paused resumed)*( ended| paused| paused ended)?)$/u;

function checkCalls(events: readonly EspalierEvent[]): void {
  // A call that was running when its process crashed is reported once more.
  if (events.some(isRecovery)) return;
  const courses = new Map<string, Map<string | null, string>>();
  for (const { type, executionId, stepId, callId } of events) {
    if (!CALL_EVENTS.includes(type)) continue;
    const step = `${executionId} ${stepId}`;
    const calls = courses.get(step) ?? new Map<string | null, string>();
    courses.set(step, calls);
    const before = calls.get(callId);
    const word = type.slice("tool.".length);
    calls.set(callId, before === undefined ? word : `${before} ${word}`);
  }
  for (const event of events) {
    if (event.type !== "step.completed") continue;
    const calls =
      courses.get(`${event.executionId} ${event.stepId}`) ?? new Map<string | null, string>();
    ok(calls.size === event.toolCallCount, "E4: every call of a step is told");
    for (const course of calls.values())
      ok(COURSE.test(course), `E4: a call runs or is rejected: ${course}`);
  }
}

function checkUsage(result: RunResult, events: readonly EspalierEvent[], isPaused: boolean): void {
  if (!isPaused) {
    expect(sumUsage(events), "R181: events add up to the result").toEqual(result.usage.total);
    const byAgent = Map.groupBy(events, ({ agentId }) => agentId);
    for (const { agentId, agentPath, usage } of result.agents)
      expect(sumUsage(byAgent.get(agentId) ?? []), `R181: ${agentPath}`).toEqual(usage.own);
  }
  const ownTokens = result.agents.reduce((sum, agent) => sum + agent.usage.own.totalTokens, 0);
  expect(ownTokens, "X18: own usage adds up to the total").toBe(result.usage.total.totalTokens);
  for (const account of result.accounts) {
    for (const [axis, held] of Object.entries(account.reserved))
      ok(held === 0, `${account.agentPath} holds ${held} of ${axis}`);
  }
}

function byText(left: string | null, right: string | null): number {
  return String(left).localeCompare(String(right));
}
