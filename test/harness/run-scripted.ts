// The way in which tests run agents: manual clock, sequential ids, recorded events, and the checks that hold for every run.

import { expect } from "vitest";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import {
  Orchestrator,
  type OrchestratorOptions,
  type StartOptions,
} from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run.ts";
import type { RunResult } from "../../src/orchestrator/run-result.ts";
import { checkEvent, type EspalierEvent } from "../../src/protocol/event.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";

export interface Scene {
  readonly clock: ManualClock;
  readonly sink: RecordingSink;
  readonly orchestrator: Orchestrator;
  /** Starts a run; its events are checked when `outcome` is awaited. */
  start(role: AgentRole, task?: string, options?: StartOptions): Run;
  /** The result, after all that must hold for every run was checked. */
  outcome(run: Run): Promise<RunResult>;
  /** `start` and `outcome` in one. */
  run(role: AgentRole, options?: StartOptions): Promise<RunResult>;
}

export function scene(options: OrchestratorOptions = {}): Scene {
  const clock = new ManualClock();
  const sink = new RecordingSink();
  const sinks = [sink, ...(options.sinks ?? [])];
  const orchestrator = new Orchestrator({ clock, ids: sequentialIds(), ...options, sinks });
  const start: Scene["start"] = (role, task = "Do it.", more = {}) =>
    orchestrator.start(role, task, more);
  const outcome: Scene["outcome"] = async (run) => {
    const result = await run.result;
    await settled();
    checkRun(result, sink.events);
    expect(clock.pendingTimers, "timers left behind").toBe(0);
    return result;
  };
  return {
    clock,
    sink,
    orchestrator,
    start,
    outcome,
    run: (role, more) => outcome(start(role, "Do it.", more)),
  };
}

/** Lets everything run that is not waiting for a gate or for the clock. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** A promise that a test opens by hand. */
export interface Gate {
  readonly opened: Promise<void>;
  open(): void;
}

export function gate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

/** What must hold for every run, whatever happened in it. */
export function checkRun(result: RunResult, events: readonly EspalierEvent[]): void {
  const own = events.filter((event) => event.runId === result.runId);
  for (const event of own) checkEvent(event);
  expect(
    own.map((event) => event.seq),
    "E1: numbered without gaps",
  ).toEqual(own.map((_event, index) => index + 1));
  expect(new Set(own.map((event) => event.traceId)).size, "one trace").toBe(1);
  checkTerminalEvents(own);
  checkSettlement(own);
  checkSteps(own);
  checkUsage(result);
}

function checkTerminalEvents(events: readonly EspalierEvent[]): void {
  const ended = new Set<string>();
  for (const event of events) {
    if (event.executionId === null) continue;
    expect(ended.has(event.executionId), `L2: ${event.type} after the terminal event`).toBe(false);
    if (event.type === "agent.ended") ended.add(event.executionId);
  }
  const started = events
    .filter((event) => event.type === "agent.started")
    .map((event) => event.executionId);
  expect([...ended].toSorted(byText), "L2: one terminal event per execution").toEqual(
    started.toSorted(byText),
  );
  expect(events.at(-1)?.type, "the run ends last").toBe("run.ended");
  expect(events.filter((event) => event.type === "run.ended")).toHaveLength(1);
}

function checkSettlement(events: readonly EspalierEvent[]): void {
  const spawned = events
    .filter((event) => event.type === "subagent.spawned")
    .map((event) => event.childId);
  const settledChildren = events
    .filter((event) => event.type === "subagent.ended")
    .map((event) => event.childId);
  expect(settledChildren.toSorted(byText), "T1: every spawn settles once").toEqual(
    spawned.toSorted(byText),
  );
  const alive = new Set<string>();
  for (const event of events) {
    if (event.type === "agent.started") alive.add(event.agentId);
    if (event.type !== "agent.ended") continue;
    alive.delete(event.agentId);
    const orphans = events
      .filter((other) => other.type === "agent.started" && other.parentAgentId === event.agentId)
      .filter((other) => alive.has(other.agentId));
    expect(orphans, "T2: nobody ends over a living child").toEqual([]);
  }
}

function checkSteps(events: readonly EspalierEvent[]): void {
  const started = events
    .filter((event) => event.type === "step.started")
    .map((event) => event.stepId);
  const completed = events
    .filter((event) => event.type === "step.completed")
    .map((event) => event.stepId);
  expect(completed.toSorted(byText), "L4: every step completes once").toEqual(
    started.toSorted(byText),
  );
}

function checkUsage(result: RunResult): void {
  const ownTokens = result.agents.reduce((sum, agent) => sum + agent.usage.own.totalTokens, 0);
  expect(ownTokens, "X18: own usage adds up to the total").toBe(result.usage.total.totalTokens);
  for (const account of result.accounts) {
    for (const [axis, held] of Object.entries(account.reserved))
      expect(held, `${account.path} holds ${axis}`).toBe(0);
  }
}

function byText(left: string | null, right: string | null): number {
  return String(left).localeCompare(String(right));
}
