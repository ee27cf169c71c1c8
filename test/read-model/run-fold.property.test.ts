// Goal: the fold of any tree agrees with its result and its ledger, and a reader who received
// patches has the same state as a new reader.
// Method: the random worlds of the tree property. Each run is folded event by event; snapshots are
// taken at random records and patches applied to them.

import { asyncProperty, assert, nat, array } from "fast-check";
import { afterEach, expect, vi } from "vitest";

import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import type { AgentFold } from "../../src/read-model/agent-fold.ts";
import { RunFold } from "../../src/read-model/run-fold.ts";
import {
  SPAN_WIDTH,
  type RunOverview,
  type RunSnapshot,
} from "../../src/read-model/viewer-data.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { proves } from "../harness/proves.ts";
import { worlds } from "../support/random-trees/tree-arbitrary.ts";
import { play } from "../support/random-trees/tree-fixture.ts";
import { foldOf, patched } from "../support/read-model/fold-of.ts";

const RUNS = Number(process.env["FC_RUNS"] ?? 300);

// The worlds cause warnings on purpose; the tree property checks them.
afterEach(() => void takeWarnings());

vi.setConfig({ testTimeout: 24 * 3_600_000 });

proves(["V20"], "agrees with the result and the ledger of any tree", async () => {
  await assert(
    asyncProperty(worlds(), async (world) => {
      const { runs } = await play(world);
      for (const { events, results, origin } of runs) {
        const result = results.at(-1);
        if (result === undefined || events.length === 0) continue;
        const fold = foldOf(events);
        checkCounts(fold);
        checkResult(fold, result, origin !== undefined);
        if (origin === undefined && isOfOneRoot(events)) checkTime(fold, result);
      }
    }),
    { numRuns: RUNS },
  );
});

proves(["V21"], "turns any earlier snapshot into the current one by a patch", async () => {
  await assert(
    asyncProperty(worlds(), array(nat(), { minLength: 2, maxLength: 8 }), async (world, cuts) => {
      const { runs } = await play(world);
      for (const { events } of runs) if (events.length > 0) checkPatches(events, cuts);
    }),
    { numRuns: RUNS },
  );
});

/** Incremental counts equal the counted items. */
function checkCounts(fold: RunFold): void {
  const running = fold.agents.filter((agent) => !agent.isSettled);
  const failed = fold.agents.filter(({ end: rest }) => rest?.status === "failed");
  expect([fold.running, fold.failedAgents]).toEqual([running.length, failed.length]);
}

function checkResult(fold: RunFold, result: RunResult, isFork: boolean): void {
  expect(fold.end?.status).toBe(result.status);
  expect(fold.end?.reason).toEqual(result.reason);
  expect(fold.questions).toEqual(result.questions);
  expect(fold.root?.subtree).toEqual(spentOf(result.usage.total));
  const unpriced = Object.entries(result.usage.byModel).filter(
    ([, used]) => used.unpricedCalls > 0,
  );
  expect([...fold.unpricedModels].toSorted()).toEqual(unpriced.map(([model]) => model).toSorted());
  expect(countsOf(fold.refusals.map(({ code }) => code))).toEqual(result.refusalsByCode);
  for (const account of result.accounts) {
    const agent = fold.find(account.agentId);
    // A fork contains agents that ended before the fork; others never began.
    if (agent === undefined) continue;
    expect(agent.own, account.agentPath).toEqual(spentOf(account.own));
    expect(agent.subtree, account.agentPath).toEqual(spentOf(account.total));
  }
  for (const report of result.agents) {
    const agent = fold.find(report.agentId);
    if (agent === undefined) continue;
    expect(agent.end?.status, report.agentPath).toBe(report.status);
    expect(agent.end?.reason).toEqual(report.reason);
    const before = isFork ? 1 : 0;
    if (agent.parent !== undefined) expect(agent.executionCount + before).toBeGreaterThanOrEqual(1);
    checkSteps(agent, report, isFork);
    checkSpans(agent);
  }
}

/** A time limit continues between two executions of a root and ends with the last one. */
function isOfOneRoot(events: readonly EspalierEvent[]): boolean {
  const ends = events.filter(({ type }) => type === "run.ended").length;
  return ends < 2 && events.every(({ type }) => type !== "subagent.detached");
}

/** The clock of the root account was paused while the run was paused. */
function checkTime({ time }: RunFold, { accounts, durationMs }: RunResult): void {
  const root = accounts.find(({ parentAgentId: parentId }) => parentId === null);
  expect(Math.round(time.idleMs)).toBe(root?.pausedMs);
  expect(Math.round(time.durationMs)).toBe(durationMs);
}

type Report = RunResult["agents"][number];

/** Compares the last execution; a result contains no others. */
function checkSteps(agent: AgentFold, { steps, status }: Report, isFork: boolean): void {
  const last = agent.steps.filter(({ execution }) => execution === agent.executionCount);
  const folded = new Map(last.map((step) => [step.number, step]));
  if (!isFork && status !== "paused") expect(folded.size).toBe(steps.length);
  for (const { number, tools, telemetry } of steps) {
    const step = folded.get(number);
    // A fork includes the steps of its origin.
    if (step === undefined && isFork) continue;
    expect(step?.usage).toEqual(telemetry.usage);
    const calls = new Map(step?.calls.map((call) => [call.callId, call]));
    for (const { call, type, errorCode } of tools.executions) {
      // No event reports a call whose paused subagent was dismissed with its parent.
      if (errorCode === "subagent_cancelled") continue;
      const known = calls.get(call.callId);
      expect([known?.toolName, known?.outcome]).toEqual([call.toolName, type]);
    }
  }
}

/** No span runs backwards, and an ended agent has no open span. */
function checkSpans({ spans: { numbers }, end: rest, agentPath }: AgentFold): void {
  for (let place = 0; place < numbers.length; place += SPAN_WIDTH) {
    const [, begin = 0, end = 0] = numbers.slice(place, place + SPAN_WIDTH);
    const isOpen = end === -1;
    if (isOpen) expect(rest?.status, `${agentPath}, open span`).toBe("paused");
    else expect(end).toBeGreaterThanOrEqual(begin);
  }
}

function checkPatches(events: readonly EspalierEvent[], cuts: readonly number[]): void {
  const [first] = events;
  if (first === undefined) return;
  const at = new Set(cuts.map((cut) => (cut % events.length) + 1));
  const fold = new RunFold(first.runId);
  const kept: RunSnapshot<RunOverview>[] = [fold.snapshot()];
  for (const event of events) {
    fold.apply(event, event.seq);
    if (!at.has(event.seq)) continue;
    const now = fold.snapshot();
    for (const before of kept) expect(patched(before, fold.patchSince(before.record))).toEqual(now);
    expect(foldOf(events.slice(0, event.seq)).snapshot()).toEqual(now);
    kept.push(now);
  }
}

function spentOf({ totalTokens, costUsd, unpricedCalls }: RunResult["usage"]["total"]) {
  return { totalTokens, costUsd, unpricedCalls };
}

function countsOf(codes: readonly string[]): Readonly<Record<string, number>> {
  const alike = Map.groupBy(codes, (code) => code);
  return Object.fromEntries([...alike].map(([code, { length }]) => [code, length]));
}
