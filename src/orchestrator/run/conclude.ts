// Concludes a run: records how it ended, or that it is paused, and returns its result.

import { type JsonValue, deepFreeze } from "../../kernel/json.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { UsageReport } from "../../protocol/usage.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { lateFields } from "../../kernel/late-fields.ts";
import type { Model } from "../../model/model.ts";
import type { PriceOf } from "../../model/prices.ts";
import type { BudgetLedger } from "../../budget/ledger.ts";
import type { RunIdSource } from "../../run-services/event-recorder.ts";
import type { RunDefinitions } from "../../run-services/run-definitions.ts";
import { pricesUsed } from "../../budget/prices-used.ts";
import { agentRecord } from "../durability/agent-record.ts";
import {
  PAUSED_RUN_VERSION,
  type PausedAgent,
  type PausedRun,
  type PausedRunRecord,
} from "../durability/paused-run.ts";
import { snapshotOf } from "../../agent/agent-snapshot.ts";
import { questionsOf } from "../../agent/agent-state.ts";
import type { QuestionId } from "../../protocol/ids.ts";
import { rememberWaitingCalls } from "./waiting-calls.ts";
import { type LateFacts, type RunResult, runResult } from "./run-result.ts";
import { type RunningAgent, type SettledAgent, describeAgent } from "../tree/agent-report.ts";
import { type SubagentCounts, countsOf } from "../tree/run-tree.ts";
import { scopeOutsideExecutions, type RunRuntime } from "../tree/run-runtime.ts";
import type { RecordOf } from "../durability/journal-record.ts";

/** Holds nothing else of the run: results outlive their runs. */
interface LateSource {
  readonly ids: RunIdSource;
  readonly definitions: RunDefinitions;
  readonly ledger: BudgetLedger;
  readonly counts: SubagentCounts;
  readonly pricesBefore: LateFacts["prices"];
  readonly models: readonly Model[];
  readonly priceOf: PriceOf;
  readonly atMs: number;
}

const addLateFacts = lateFields<LateSource, LateFacts>({
  traceId: ({ ids }) => ids.runIds.traceId,
  prices: ({ models, priceOf, pricesBefore }) => pricesUsed(models, priceOf, pricesBefore),
  definitions: ({ definitions }) => definitions.toJSON(),
  subagentsByDepth: ({ counts }) => countsOf(counts).subagentsByDepth,
  refusalsByCode: ({ counts }) => countsOf(counts).refusalsByCode,
  accounts: ({ ledger, atMs }) => ledger.snapshot(atMs),
});

/**
 * Returns the parts of a result that are computed when they are read. `isFinal`: the run does not change any more. This closes its ledger
 * and recorder then, which releases the run: only the event `run.ended` may follow. Otherwise the parts are computed now.
 */
function lateFacts(
  { tree: { counts, pricesBefore }, ledger, recorder, definitions, settings }: RunRuntime,
  agents: Pick<LateSource, "models" | "atMs">,
  isFinal: boolean,
): LateFacts {
  if (isFinal) ledger.close();
  const ids = isFinal ? recorder.close() : recorder;
  const { priceOf } = settings;
  const source = { ...agents, ids, definitions, ledger, counts, pricesBefore, priceOf };
  const facts = addLateFacts({}, source);
  return isFinal ? facts : { ...facts };
}

/**
 * Returns the result of a run as its agents are now. `pausedRun`: `undefined` if the root has ended.
 * If no agent can change any more and the run has no store, this closes the ledger and the recorder:
 * the result keeps them, and must not keep the whole run.
 */
export function resultOf(run: RunRuntime, pausedRun?: PausedRun): RunResult<JsonValue> {
  const { runId, tree, clock } = run;
  const settled: SettledAgent[] = [];
  const detached: RunningAgent[] = [];
  // A detached agent may be paused: it continues after this result.
  let isFinal = run.journal === undefined;
  const models: Model[] = [];
  for (const node of tree.nodes) {
    const agent = describeAgent(node);
    models.push(node.model);
    if ("settled" in agent) settled.push(agent);
    else detached.push(agent);
    if (!node.hasEnded) isFinal = false;
  }
  const nowMs = clock.nowMs();
  return runResult({
    runId,
    atMs: pausedRun?.pausedAtMs ?? nowMs,
    pausedRun,
    session: run.session?.outcome,
    settled,
    detached,
    failedIds: tree.failedIds,
    late: lateFacts(run, { models, atMs: nowMs }, isFinal),
  });
}

/** Records that the run has ended and returns its result. */
export function recordRunEnd(run: RunRuntime, root: AgentRuntime): RunResult<JsonValue> {
  const result = resultOf(run);
  run.journal?.append(resultRecord(result, run.clock.nowMs()));
  const { recorder } = run;
  if (recorder.announce("run.ended"))
    recorder.record(scopeOutsideExecutions(root), runEnded(result));
  return result;
}

/** Records that the run is paused and returns its result. */
export function recordRunPause(
  run: RunRuntime,
  root: AgentRuntime,
  before: PausesBefore,
): RunResult<JsonValue> {
  const { tree, recorder } = run;
  for (const node of tree.nodes) node.close();
  const pausedRun = pausedRunOf(run, before);
  const result = resultOf(run, pausedRun);
  const { reason, questions, durationMs } = result;
  const usage = usageOf(result);
  run.journal?.append(resultRecord(result, pausedRun.pausedAtMs));
  recorder.record(scopeOutsideExecutions(root), {
    type: "run.paused",
    reason,
    questions,
    usage,
    durationMs,
  });
  const whole = { ...pausedRun, eventCount: recorder.eventCount };
  return deepFreeze({ ...result, pausedRun: run.settings.signer?.sign(whole) ?? whole });
}

function runEnded(result: RunResult): EventBody<"run.ended"> {
  const { status, reason, signals, subagentsByDepth, refusalsByCode, durationMs } = result;
  if (status === "paused") throw new Error("A paused run has not ended.");
  const error = status === "failed" ? result.agents[0]?.errors[0] : undefined;
  const failure = error === undefined ? {} : { error };
  const counts = { usage: usageOf(result), subagentsByDepth, refusalsByCode };
  return { type: "run.ended", status, reason, ...failure, signals, ...counts, durationMs };
}

/** The usage of the tree in events, which have no cuts of it. */
function usageOf({ usage: { own, descendants, total } }: RunResult): UsageReport {
  return { own, descendants, total };
}

/** Returns the record of what agents have from their roles, and of what became of the session. */
function resultRecord({ agents, prices, session }: RunResult, atMs: number) {
  const models = Map.groupBy(agents, ({ model }) => model);
  return {
    type: "result",
    atMs,
    models: [...models].map(([model, of]) => ({ model, agentIds: of.map((one) => one.agentId) })),
    removedTools: agents
      .filter(({ removedTools }) => removedTools.length > 0)
      .map(({ agentId, removedTools: removed }) => ({ agentId, removed })),
    prices,
    ...(session === undefined ? {} : { session }),
  } as const satisfies RecordOf<"result">;
}

/** How often a run was paused before, and the questions that were answered by then. */
export interface PausesBefore {
  readonly pauses: number;
  readonly answered: readonly QuestionId[];
}

/** Everything that another process needs to continue. All agents must be at rest, and their clocks closed. */
export function pausedRunOf(
  runtime: RunRuntime,
  { pauses, answered }: PausesBefore,
): PausedRunRecord {
  const { runId, tree, ledger, recorder, clock, definitions } = runtime;
  const { counts, limits, nodes } = tree;
  const { traceId, spanId, isSampled } = recorder.runIds;
  const questions = nodes.flatMap(({ settled }) =>
    settled === undefined ? [] : questionsOf(settled),
  );
  const open = new Set(questions.map(({ questionId }) => questionId));
  const run: PausedRunRecord = deepFreeze({
    version: PAUSED_RUN_VERSION,
    runId,
    pauses: pauses + 1,
    traceId,
    spanId,
    ...(isSampled === undefined ? {} : { isSampled }),
    answered: answered.filter((questionId) => !open.has(questionId)),
    pausedAtMs: clock.nowMs(),
    eventCount: recorder.eventCount,
    leaseCount: ledger.leaseCount,
    limits: { ...limits },
    ...countsOf(counts),
    questions,
    agents: nodes.map(pausedAgent),
    definitions: definitions.toJSON(),
    prices: pricesUsed(tree.models, runtime.settings.priceOf, tree.pricesBefore).map((used) =>
      structuredClone(used),
    ),
    accounts: ledger.snapshot(),
    ...(runtime.session === undefined ? {} : { session: runtime.session.ref }),
  });
  // A signed paused run needs no other verification.
  if (questions.length > 0 && runtime.settings.signer === undefined) rememberWaitingCalls(run);
  return run;
}

function pausedAgent(node: AgentRuntime): PausedAgent {
  const { identity, settled } = node;
  if (settled === undefined) throw new Error(`${identity.agentPath} is not at rest.`);
  const { breadth: children, ordinals } = node;
  return { ...agentRecord(node), children, ordinals, state: snapshotOf(settled) };
}
