// From a delegation to a subagent that is set up and announced, or to the reason why there is none: all of it happens, or nothing.
//
// T3. What was taken for a subagent that could not be set up is given back, whatever threw: its place, its account, its timer.

import type { DelegatedCall } from "../../agent/local-options.ts";
import type { ContextManifest } from "../../protocol/context-manifest.ts";
import type { SpawnRefusal, SpawnRequest } from "../../protocol/subagent.ts";
import { admit, setupFailed } from "./admission.ts";
import type { AgentNode } from "./agent-node.ts";
import { bringToLife } from "./create-agent.ts";
import { childBudget } from "./child-budget.ts";
import { childContext } from "./child-context.ts";
import { childFacts, parentFacts } from "./child-facts.ts";
import type { RunShared } from "./run-shared.ts";
import type { SpawnPermit } from "./run-tree.ts";
import type { SpawnGroup } from "./spawn-group.ts";

interface SetUp {
  readonly call: DelegatedCall;
  readonly group: SpawnGroup | undefined;
  /** Says that the subagent is there. The last that may throw: once it has returned, the subagent is led to its end (T1). */
  readonly announce: (child: AgentNode, context: ContextManifest) => void;
}

/** Admits a subagent, sets it up and announces it, or says why not. */
export function setUp(
  scope: RunShared,
  parent: AgentNode,
  request: SpawnRequest,
  { call, group, announce }: SetUp,
): AgentNode | SpawnRefusal {
  if (group?.decision !== undefined)
    return { code: "group_decided", message: `Not started: ${group.decision}` };
  let permit: SpawnPermit | undefined;
  let child: AgentNode | undefined;
  try {
    const admitted = admit(scope, parent, request);
    if ("code" in admitted) return admitted;
    ({ permit } = admitted);
    const { role } = admitted;
    const { callId, stepId } = call;
    const { childPath: agentPath, childDepth: depth } = permit;
    const budget = childBudget(scope, parent, role, { group: call.group, members: group });
    const { limits, wallTimeMs, tightened } = budget;
    const place = { parent, role, agentPath, depth };
    const facts = childFacts(scope, place, { tightened, draft: request.draft });
    const context = childContext(parentFacts(scope, parent, call), facts, request);
    if ("code" in context) {
      permit.giveBack();
      return context;
    }
    child = bringToLife(scope, {
      role,
      task: request.task,
      agentPath,
      depth,
      parent,
      spawnCallId: callId,
      spawnStepId: stepId,
      inherited: context.messages,
      metadata: context.metadata,
      toolLimits: context.toolLimits,
      draft: request.draft,
      limits,
      wallTimeMs,
    });
    announce(child, context.manifest);
    return child;
  } catch (cause) {
    if (child !== undefined) {
      scope.tree.remove(child);
      scope.ledger.forget(child.identity.agentId);
    }
    permit?.giveBack();
    return setupFailed(request.role, cause);
  }
}
