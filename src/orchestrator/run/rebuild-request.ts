// What a model was asked in any step of a run at rest, from its stored form alone (R173). Pure.

import { unknownAgent } from "../../agent/agent-identity.ts";
import { requestOfStep, type RebuiltRequest } from "../../agent/shown-messages.ts";
import { checkKeys, mismatch } from "../../kernel/check.ts";
import { deepFreeze } from "../../kernel/json.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { parsePausedRun, type PausedRun } from "../durability/paused-run.ts";
import { restoredFrom } from "../durability/restored-run.ts";

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
  options: {
    /** From 1; of the last execution of the agent. The step that a pause has left open counts. */
    readonly stepNumber: number;
    /** Default: the root. */
    readonly agentId?: AgentId;
  },
): RebuiltRequest {
  checkKeys("rebuild options", options, FIELDS);
  const { agents, definitions } = restoredFrom(parsePausedRun(stored));
  const { stepNumber, agentId = agents[0]?.agentId } = options;
  const agent = agents.find((one) => one.agentId === agentId);
  if (agent === undefined) throw unknownAgent(agentId);
  const step = { field: "rebuild options.stepNumber", stepNumber, agentPath: agent.agentPath };
  const rebuilt = requestOfStep(agent.state, step, (hash) =>
    Object.hasOwn(definitions, hash) ? definitions[hash] : undefined,
  );
  return deepFreeze(rebuilt);
}

/**
 * The same from the journal of a run, as `loadRecording` gives it: of a run that has ended, that is paused, or whose process died.
 *
 * Rejects with `unsupported_version` or `invalid_journal` if it cannot be read, and with what `rebuildRequest` throws.
 */
export async function rebuildRecordedRequest(
  journal: string,
  options: Parameters<typeof rebuildRequest>[1],
): Promise<RebuiltRequest> {
  checkKeys("rebuild options", options, FIELDS);
  if (typeof journal !== "string")
    throw mismatch("journal", "text", journal, "Pass the result of loadRecording.");
  const { readRecording } = await import("../durability/run-record.ts");
  const { record, rootId } = await readRecording(journal);
  const { stepNumber, agentId = rootId } = options;
  const { model, request } = await record.request({ agentId, stepNumber });
  return deepFreeze({ model, request });
}

const FIELDS = ["stepNumber", "agentId"];
