// Rebuilds the model request of any step of an ended or paused run, from its stored form alone.
// Pure.

import { createUnknownAgentError } from "../../agent/agent-identity.ts";
import { rebuildStepRequest, type RebuiltRequest } from "../../agent/shown-messages.ts";
import { checkKeys } from "../../kernel/argument-checks.ts";
import { deepFreeze } from "../../kernel/json.ts";
import type { AgentId } from "../../protocol/ids.ts";
import { parsePausedRun, type PausedRun } from "../durability/paused-run.ts";
import { restorePausedRun } from "../durability/restored-run.ts";

/**
 * Rebuilds the exact model request of a step from a paused or ended run. The request contains all
 * changes by hooks and sections, the offered tools and the parameters. `stored` is the `pausedRun`
 * of a result, the `snapshot()` of a run, or its JSON text. Roles are not needed, and nothing is
 * executed. The result is frozen.
 *
 * @throws EspalierError `unsupported_version` or `invalid_paused_run` if `stored` cannot be read.
 * @throws EspalierError `unknown_agent` if the run has no agent with this id.
 * @throws EspalierError `invalid_argument` if the agent has no such step in its last execution.
 *
 * @example
 * ```ts
 * await run.settled;
 * const { model, request } = rebuildRequest(run.snapshot(), { stepNumber: 1 });
 * console.log(model.id, request.messages.length);
 * ```
 */
export function rebuildRequest(
  stored: PausedRun | string,
  options: {
    /**
     * Number of the step, from 1, in the last execution of the agent. The open step of a paused
     * agent counts.
     */
    readonly stepNumber: number;
    /**
     * Agent whose step is rebuilt.
     *
     * @default the root
     */
    readonly agentId?: AgentId;
  },
): RebuiltRequest {
  checkKeys("rebuild options", options, FIELDS);
  const { agents, definitions } = restorePausedRun(parsePausedRun(stored));
  const { stepNumber, agentId = agents[0]?.agentId } = options;
  const agent = agents.find((candidate) => candidate.agentId === agentId);
  if (agent === undefined) throw createUnknownAgentError(agentId);
  const step = { field: "rebuild options.stepNumber", stepNumber, agentPath: agent.agentPath };
  const rebuilt = rebuildStepRequest(agent.state, step, (hash) =>
    Object.hasOwn(definitions, hash) ? definitions[hash] : undefined,
  );
  return deepFreeze(rebuilt);
}

const FIELDS = ["stepNumber", "agentId"];
