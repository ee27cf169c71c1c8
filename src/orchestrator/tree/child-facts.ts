// What has to be known of a parent, and of the place of its subagent, before the subagent is created. Costly facts are gathered on demand.

import { BACKGROUND_TOOL_NAMES, SPAWN_TOOL_NAME, type AgentRole } from "../../agent/agent-role.ts";
import type { DelegatedCall } from "../../agent/run-ports.ts";
import { toolsTakenAway } from "../../policies/child-tools.ts";
import type { Tightening } from "../../protocol/context-manifest.ts";
import type { DynamicRole } from "../../protocol/subagent.ts";
import {
  NO_TOOL_LIMITS,
  type RemovedTool,
  type ToolLimits,
  type ToolRule,
} from "../../protocol/tool-rule.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { ChildFacts, ParentFacts } from "./child-context.ts";
import { resultOfEnded } from "./agent-report.ts";
import type { RunRuntime } from "./run-runtime.ts";
import { toolErrors } from "./tool-report.ts";

/** The affairs of a parent at the time of a delegation. */
export class DelegatingParent implements ParentFacts {
  readonly agentPath: ParentFacts["agentPath"];
  readonly policy: ParentFacts["policy"];
  readonly messages: ParentFacts["messages"];
  readonly metadata: ParentFacts["metadata"];
  readonly toolRules: ParentFacts["toolRules"];
  readonly #run: RunRuntime;
  readonly #agent: AgentRuntime;
  readonly #steps: DelegatedCall["history"]["steps"];

  constructor(run: RunRuntime, agent: AgentRuntime, { history }: DelegatedCall) {
    this.agentPath = agent.identity.agentPath;
    this.policy = agent.role.context;
    this.messages = history.messages;
    this.metadata = agent.metadata;
    this.toolRules = agent.toolLimits.rules;
    this.#run = run;
    this.#agent = agent;
    this.#steps = history.steps;
  }

  get siblings(): ParentFacts["siblings"] {
    return this.#agent.subagents.map((child) => ({
      childName: child.childName,
      role: child.role.name,
      result: child.hasEnded ? resultOfEnded(child) : undefined,
    }));
  }

  get constraints(): ParentFacts["constraints"] {
    const { account, toolLimits } = this.#agent;
    return {
      remaining: account.remainingForChildren(),
      subagentsLeft: this.#run.tree.subagentsLeft(this.#agent),
      deniedTools: toolLimits.removed.map(({ toolName }) => toolName),
    };
  }

  get failedAttempts(): ParentFacts["failedAttempts"] {
    return toolErrors(this.#steps);
  }
}

/** A place in the tree below a parent. */
export interface ChildPlace {
  readonly parent: AgentRuntime;
  readonly role: AgentRole;
  readonly agentPath: string;
  readonly depth: number;
}

/** What the role and the place of a subagent say. */
export function childFacts(
  run: RunRuntime,
  place: ChildPlace,
  asked: { readonly tightened: readonly Tightening[]; readonly draft: DynamicRole | undefined },
): ChildFacts {
  const { role, parent } = place;
  const { tightened, draft } = asked;
  const { registry } = run;
  const noDepthLeft = depthLimit(run, place);
  return {
    role: role.name,
    toolNames: run.partsOf(role).tools.names,
    toolNamesBelow: () => registry.toolNamesOf(registry.reachableFrom(role)),
    ...(noDepthLeft === undefined ? {} : { noDepthLeft }),
    tightened,
    beyondBounds: boundsRemovals(run, parent, draft),
  };
}

/** What the rules that an agent had before a pause take away from it. */
export function restoredToolLimits(
  run: RunRuntime,
  place: Omit<ChildPlace, "parent"> & { readonly parent: AgentRuntime | undefined },
  asked: { readonly rules: readonly ToolRule[]; readonly draft: DynamicRole | undefined },
): ToolLimits {
  const { rules, draft } = asked;
  const { parent, role } = place;
  if (parent === undefined) return NO_TOOL_LIMITS;
  const names = run.partsOf(role).tools.names;
  const noDepthLeft = depthLimit(run, { ...place, parent });
  const removed = toolsTakenAway({
    names,
    rules,
    ...(noDepthLeft === undefined ? {} : { noDepthLeft }),
  });
  return { rules, removed: [...removed, ...boundsRemovals(run, parent, draft)] };
}

/** The tools that a model asks for with a role that it writes and that the bounds do not have, as they are reported. */
function boundsRemovals(
  { registry }: RunRuntime,
  { role, identity }: AgentRuntime,
  draft: DynamicRole | undefined,
): readonly RemovedTool[] {
  if (draft?.tools === undefined) return [];
  const allowed = new Set(role.dynamicRoles?.tools.map(({ name }) => name));
  const known = registry.toolNamesOf(registry.all);
  return draft.tools.flatMap((toolName): readonly RemovedTool[] => {
    if (allowed.has(toolName)) return [];
    const rule = known.has(toolName) ? "not_allowed" : "unknown";
    return [{ toolName, rule, source: identity.agentPath }];
  });
}

const DELEGATION_TOOLS = [SPAWN_TOOL_NAME, ...BACKGROUND_TOOL_NAMES];

/** Set if no agent may start below a place: the delegation tools, of no use there, and the highest limit that forbids it. */
function depthLimit(
  { tree }: RunRuntime,
  { parent, role, agentPath, depth }: ChildPlace,
): ChildFacts["noDepthLeft"] {
  const isTight = ({ limits }: AgentRole): boolean => (limits.maxDepth ?? Infinity) <= depth;
  let source = isTight(role) ? agentPath : undefined;
  for (let node: AgentRuntime | undefined = parent; node !== undefined; node = node.parent)
    if (isTight(node.role)) source = node.identity.agentPath;
  if (tree.limits.maxDepth <= depth) source = parent.root.identity.agentPath;
  return source === undefined ? undefined : { toolNames: DELEGATION_TOOLS, source };
}
