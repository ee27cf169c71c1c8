// What a model was asked in any step of a run at rest, from its stored form alone (R173). Pure.

import type { AgentState } from "../../agent/agent-state.ts";
import {
  contextsOf,
  missingOfStep,
  persistedRequest,
  type RebuiltRequest,
} from "../../agent/shown-messages.ts";
import { checkKeys, mismatch } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import type { Definitions } from "../../protocol/definition.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { parsePausedRun, type PausedRun } from "../durability/paused-run.ts";
import { restoredFrom } from "../durability/restored-run.ts";

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
  const { readSource } = await import("./recorded-source.ts");
  return rebuiltFrom(await readSource(journal, options.agentId), options);
}

const FIELDS = ["stepNumber", "agentId"];

/** Agents as they were kept, and the texts of their run. */
export interface RequestSource {
  readonly agents: readonly {
    readonly agentId: AgentId;
    readonly agentPath: string;
    readonly state: AgentState;
  }[];
  readonly definitions: Definitions;
}

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

function checkStep(
  { agentPath, state }: RequestSource["agents"][number],
  stepNumber: number,
): void {
  const steps = contextsOf(state).length;
  if (Number.isSafeInteger(stepNumber) && stepNumber >= 1 && stepNumber <= steps) return;
  const expected =
    steps === 0
      ? `left alone, since ${agentPath} took no step`
      : `a step of ${agentPath} (1 to ${steps})`;
  throw mismatch("rebuild options.stepNumber", expected, stepNumber, "Count from 1.");
}
