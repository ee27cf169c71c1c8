// Reads the result of a settled run from its journal, without its roles and without its process.

import { toSnapshot } from "../../agent/agent-snapshot.ts";
import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, omitUndefined } from "../../kernel/json.ts";
import { AGENTS_PER_TURN, type FoldedRun } from "../durability/fold-journal.ts";
import { createInvalidJournalError } from "../durability/journal-errors.ts";
import type { RecordOf } from "../durability/journal-record.ts";
import {
  PAUSED_RUN_VERSION,
  type PausedAgent,
  type PausedRun,
  type PausedRunRecord,
} from "../durability/paused-run.ts";
import type { RestoredRun } from "../durability/restored-run.ts";
import { Turns } from "../../kernel/throttle.ts";
import type { RunId } from "../../protocol/ids.ts";
import { formatContent } from "../../protocol/message-content.ts";
import { subtractUsage } from "../../protocol/usage.ts";
import { buildResult, type JsonRunResult } from "./run-result.ts";
import type { Settings } from "../tree/orchestrator-settings.ts";
import type { SettledAgent } from "../tree/agent-report.ts";

/**
 * Returns the result of an ended or paused run. Rejects with `invalid_state` for an open run, and
 * with `invalid_journal` if an agent has not settled, or the record of the result is missing.
 */
export async function readStoredResult(folded: FoldedRun): Promise<JsonRunResult> {
  const { run, status, recordCount } = folded;
  const { runId } = run;
  const resultRecord = copyResultRecord(folded);
  const { traceId, definitions, refusalsByCode, accounts, failedIds } = run;
  const { atMs, prices, session } = resultRecord;
  try {
    return buildResult({
      runId,
      atMs,
      pausedRun: status === "paused" ? await rebuildPausedRun(folded, resultRecord) : undefined,
      session: session && { execution: undefined, error: undefined, ...session },
      settled: await readSettledAgents(folded, resultRecord),
      detached: [],
      failedIds,
      late: () => ({
        traceId,
        prices,
        definitions,
        subagentsByDepth: countByDepth(run),
        refusalsByCode,
        accounts,
      }),
    });
  } catch (cause) {
    throw createInvalidJournalError(runId, recordCount, cause);
  }
}

function copyResultRecord({ run: { runId }, ...folded }: FoldedRun): RecordOf<"result"> {
  const { status, resultRecord, recordCount } = folded;
  if (status === "open") throw createUnsettledError(runId);
  // Parsing freezes only the top of a list: a copy can be frozen completely.
  if (resultRecord !== undefined) return structuredClone(resultRecord);
  const cause = new TypeError("it lacks the record of its result");
  throw createInvalidJournalError(runId, recordCount, cause);
}

/**
 * Returns the snapshot of an ended or paused run, signed if a key is set. Rejects like
 * `readStoredResult`.
 */
export async function readStoredSnapshot(
  { signer }: Pick<Settings, "signer">,
  folded: FoldedRun,
): Promise<PausedRun> {
  const settled = await rebuildPausedRun(folded, copyResultRecord(folded));
  // A snapshot counts as a pause, also after the end.
  const pauseCount = settled.pauseCount + (folded.status === "ended" ? 1 : 0);
  const run = deepFreeze({ ...settled, pauseCount });
  return signer?.sign(run) ?? run;
}

function countByDepth({ agents }: RestoredRun): Readonly<Record<string, number>> {
  const atDepth = Map.groupBy(agents.slice(1), ({ depth }) => depth);
  return Object.fromEntries([...atDepth].map(([depth, { length }]) => [depth, length]));
}

/**
 * Returns the result, with its paused run signed if a key is set. The stored run is unsigned,
 * because only the application writes the store.
 */
export function signResult(
  { signer }: Pick<Settings, "signer">,
  result: JsonRunResult,
): JsonRunResult {
  if (signer === undefined || result.status !== "paused") return result;
  return deepFreeze({ ...result, pausedRun: signer.sign(result.pausedRun) });
}

async function readSettledAgents(
  { run }: FoldedRun,
  { models, removedTools }: RecordOf<"result">,
): Promise<readonly SettledAgent[]> {
  const modelOf = new Map(
    models.flatMap(({ model, agentIds }) => agentIds.map((agentId) => [agentId, model] as const)),
  );
  const removedOf = new Map(removedTools.map(({ agentId, removed }) => [agentId, removed]));
  const accountOf = new Map(run.accounts.map((account) => [account.agentId, account]));
  const agents: SettledAgent[] = [];
  const turns = new Turns(AGENTS_PER_TURN);
  for (const { state: settled, ...agent } of run.agents) {
    await turns.did();
    const { agentId, executionId, parentAgentId, agentPath, depth, role, task, metadata } = agent;
    const account = accountOf.get(agentId);
    const model = modelOf.get(agentId);
    if (settled.status === "pending" || account === undefined || model === undefined) continue;
    const { own, total, pausedMs, otherModels } = account;
    agents.push({
      agentId,
      parentAgentId,
      agentPath,
      depth,
      executionId,
      role,
      model,
      task: formatContent(task),
      executionCount: agent.execution,
      usage: { own, descendants: subtractUsage(total, own), total },
      ...omitUndefined({ otherModels }),
      metadata,
      removedTools: removedOf.get(agentId) ?? [],
      pausedMs: pausedMs - (settled.telemetry.pausedBeforeMs ?? 0),
      settled,
    });
  }
  return agents;
}

async function rebuildPausedRun(
  { run }: FoldedRun,
  { atMs, prices }: RecordOf<"result">,
): Promise<PausedRunRecord> {
  const { leases: _none, failedIds: _derived, agents: all, ...rest } = run;
  const agents: PausedAgent[] = [];
  const turns = new Turns(AGENTS_PER_TURN);
  for (const { state, inFlight: _nothing, persistedState: _same, ...agent } of all) {
    if (state.status === "pending") throw new Error(`${agent.agentPath} is not at rest.`);
    // As in a paused run: attachments are stored once, with the message that has them.
    const task = state.log.isTaskHandled ? formatContent(agent.task) : agent.task;
    agents.push({ ...agent, task, state: toSnapshot(state) });
    await turns.did();
  }
  return { ...rest, version: PAUSED_RUN_VERSION, pausedAtMs: atMs, prices, agents };
}

function createUnsettledError(runId: RunId): EspalierError {
  return new EspalierError({
    code: "invalid_state",
    message: `Cannot read the result of run ${runId}: it is running, was released, or its process died. Await the run, or resume it.`,
    data: { runId, status: "open" },
  });
}
