// What a model was asked in any step of a run at rest, from its stored form alone (R173). Pure.

import {
  missingOfStep,
  persistedRequest,
  type RebuiltRequest,
} from "../../agent/persisted-request.ts";
import { checkKeys, mismatch } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, isRecord } from "../../kernel/json.ts";
import { RunIdSchema, type AgentId, type RunId } from "../../protocol/ids.ts";
import { foldJournal } from "../durability/fold-journal.ts";
import { parsePausedRun, type PausedRun } from "../durability/paused-run.ts";
import { restoredFrom, type RestoredAgent } from "../durability/restored-run.ts";

/** Which request is meant. */
export interface RebuildOptions {
  /** From 1; of the last execution of the agent. The step that a pause has left open counts. */
  readonly stepNumber: number;
  /** Default: the root. */
  readonly agentId?: AgentId;
}

/**
 * The exact request of a step, from a run at rest: its messages with what hooks, sections and notices made of them, the tools that were
 * offered, and the parameters. `stored`: the `pausedRun` of a result or the `snapshot()` of a run, or its JSON text. Frozen. Nothing of
 * the roles is needed, and nothing runs.
 *
 * @throws EspalierError `unsupported_version` or `invalid_paused_run` if it cannot be read, or a text of the step is not in it;
 * `unknown_agent`; `invalid_option` if the agent took no such step in its last execution.
 */
export function rebuildRequest(
  stored: PausedRun | string,
  options: RebuildOptions,
): RebuiltRequest {
  checkKeys("rebuild options", options, FIELDS);
  return rebuiltFrom(restoredFrom(parsePausedRun(stored)), options);
}

/**
 * The same from the journal of a run, as `recordingOf` gives it: of a run that has ended, that is paused, or whose process died.
 *
 * Rejects with `unsupported_version` or `invalid_journal` if it cannot be read, and with what `rebuildRequest` throws.
 */
export async function rebuildRecordedRequest(
  journal: string,
  options: RebuildOptions,
): Promise<RebuiltRequest> {
  checkKeys("rebuild options", options, FIELDS);
  if (typeof journal !== "string")
    throw mismatch("journal", "text", journal, "Hand in what recordingOf gave.");
  const lines = journal.split("\n").filter((line) => line.trim() !== "");
  const { run } = await foldJournal(runIdIn(lines[0]), lines);
  return rebuiltFrom(run, options);
}

const FIELDS = ["stepNumber", "agentId"];

/** The run that a journal says it is of; where it says nothing, reading it will show. */
function runIdIn(line: string | undefined): RunId {
  try {
    const head: unknown = JSON.parse(line ?? "");
    if (isRecord(head)) return RunIdSchema.parse(head["runId"]);
  } catch {
    // Said by the one who reads the line.
  }
  return RunIdSchema.parse("unknown");
}

type RecordedAgent = Pick<RestoredAgent, "agentId" | "agentPath" | "state">;
type RequestSource = Pick<PausedRun, "definitions"> & {
  readonly agents: readonly RecordedAgent[];
};

function rebuiltFrom(
  { agents, definitions }: RequestSource,
  { stepNumber, agentId }: RebuildOptions,
): RebuiltRequest {
  const agent = agentId === undefined ? agents[0] : agents.find((one) => one.agentId === agentId);
  if (agent === undefined)
    throw new EspalierError({
      code: "unknown_agent",
      message: `Expected the id of an agent of this run, got ${JSON.stringify(agentId)}. Take it from an event.`,
      data: { agentId: String(agentId) },
    });
  checkStep(agent, stepNumber);
  const rebuilt = persistedRequest(agent.state, stepNumber, (hash) =>
    Object.hasOwn(definitions, hash) ? definitions[hash] : undefined,
  );
  if (rebuilt !== undefined) return deepFreeze(rebuilt);
  throw missingOfStep(agent.agentPath, stepNumber);
}

function checkStep({ agentPath, state }: RecordedAgent, stepNumber: number): void {
  const isOpen = state.status === "paused" && state.step !== undefined;
  const steps = state.log.steps.length + (isOpen ? 1 : 0);
  if (Number.isSafeInteger(stepNumber) && stepNumber >= 1 && stepNumber <= steps) return;
  const expected =
    steps === 0
      ? `left alone, since ${agentPath} took no step`
      : `a step of ${agentPath} (1 to ${steps})`;
  throw mismatch("rebuild options.stepNumber", expected, stepNumber, "Count from 1.");
}
