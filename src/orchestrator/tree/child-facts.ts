// What has to be known of a parent, and of the place of its subagent, before the subagent is born. Costly facts are gathered on demand.

import { BACKGROUND_TOOL_NAMES, SPAWN_TOOL_NAME, type AgentRole } from "../../agent/agent-role.ts";
import type { DelegatedCall } from "../../agent/local-options.ts";
import type { ParentConstraints } from "../../policies/context-notes.ts";
import { childTools } from "../../policies/child-tools.ts";
import type { Tightening } from "../../protocol/context-manifest.ts";
import type { RoleDraft } from "../../protocol/subagent.ts";
import {
  NO_TOOL_LIMITS,
  type RemovedTool,
  type ToolLimits,
  type ToolRule,
} from "../../protocol/tool-rule.ts";
import type { AgentNode } from "./agent-node.ts";
import type { ChildFacts, ParentFacts, Sibling } from "./child-context.ts";
import { beyondCeiling } from "./dynamic-role.ts";
import { resultOfEnded } from "../run/run-result.ts";
import type { RunShared } from "./run-shared.ts";
import { toolErrors } from "./tool-report.ts";

/** The affairs of a parent at the time of a delegation. */
export function parentFacts(
  scope: RunShared,
  parent: AgentNode,
  { history }: DelegatedCall,
): ParentFacts {
  const { identity, role, metadata, toolLimits } = parent;
  return {
    agentPath: identity.agentPath,
    policy: role.context,
    messages: history.messages,
    metadata,
    toolRules: toolLimits.rules,
    get siblings() {
      return parent.subagents.map((child) => siblingOf(scope, child));
    },
    get constraints() {
      return constraintsOf(scope, parent);
    },
    get failedAttempts() {
      return toolErrors(history.steps);
    },
  };
}

function siblingOf(scope: RunShared, child: AgentNode): Sibling {
  const { childName, role } = child;
  const result = child.hasEnded ? resultOfEnded(child, scope.ledger) : undefined;
  return { childName, role: role.name, result };
}

function constraintsOf({ ledger, tree }: RunShared, parent: AgentNode): ParentConstraints {
  const { identity, toolLimits } = parent;
  return {
    remaining: ledger.remainingForChildren(identity.agentId),
    subagentsLeft: tree.subagentsLeft(parent),
    deniedTools: toolLimits.removed.map(({ toolName }) => toolName),
  };
}

/** A place in the tree below a parent. */
export interface ChildPlace {
  readonly parent: AgentNode;
  readonly role: AgentRole;
  readonly agentPath: string;
  readonly depth: number;
}

/** What the role and the place of a subagent say. */
export function childFacts(
  scope: RunShared,
  place: ChildPlace,
  asked: { readonly tightened: readonly Tightening[]; readonly draft: RoleDraft | undefined },
): ChildFacts {
  const { role, parent } = place;
  const { tightened, draft } = asked;
  const { registry } = scope;
  const noDepthLeft = depthLimit(scope, place);
  return {
    role: role.name,
    toolNames: scope.toolsOf(role).names,
    get toolNamesBelow() {
      const below = [...registry.reachableFrom(role)];
      return new Set(below.flatMap((one) => scope.toolsOf(one).names));
    },
    ...(noDepthLeft === undefined ? {} : { noDepthLeft }),
    tightened,
    beyondCeiling: ceilingRemovals(scope, parent, draft),
  };
}

/** What the rules that an agent had before a pause take away from it. */
export function restoredToolLimits(
  scope: RunShared,
  place: Omit<ChildPlace, "parent"> & { readonly parent: AgentNode | undefined },
  asked: { readonly rules: readonly ToolRule[]; readonly draft: RoleDraft | undefined },
): ToolLimits {
  const { rules, draft } = asked;
  const { parent, role } = place;
  if (parent === undefined) return NO_TOOL_LIMITS;
  const names = scope.toolsOf(role).names;
  const noDepthLeft = depthLimit(scope, { ...place, parent });
  const { removed } = childTools({
    names,
    rules,
    ...(noDepthLeft === undefined ? {} : { noDepthLeft }),
  });
  return { rules, removed: [...removed, ...ceilingRemovals(scope, parent, draft)] };
}

function ceilingRemovals(
  scope: RunShared,
  { role, identity }: AgentNode,
  draft: RoleDraft | undefined,
): readonly RemovedTool[] {
  if (draft === undefined) return [];
  const { agentPath } = identity;
  return beyondCeiling({ role, agentPath, isTool: (name) => isTool(scope, name) }, draft);
}

/** True for a tool of any role, or of what a ceiling gives to roles that are yet to be written. */
function isTool(scope: RunShared, toolName: string): boolean {
  return [...scope.registry.all].some(
    (role) =>
      scope.toolsOf(role).names.includes(toolName) ||
      role.ceiling?.tools.some(({ name }) => name === toolName) === true,
  );
}

const DELEGATION_TOOLS = [SPAWN_TOOL_NAME, ...BACKGROUND_TOOL_NAMES];

/** Set if nobody may live below a place: then the tools for it are of no use, and somebody's limit says so. */
function depthLimit(scope: RunShared, place: ChildPlace): ChildFacts["noDepthLeft"] {
  const limiter = limiters(scope, place).find(({ maxDepth }) => maxDepth <= place.depth);
  return limiter === undefined
    ? undefined
    : { toolNames: DELEGATION_TOOLS, source: limiter.source };
}

interface Limiter {
  readonly source: string;
  readonly maxDepth: number;
}

/** All whose limits hold for a place, from the run down to the role of the place itself. */
function limiters({ tree }: RunShared, place: ChildPlace): readonly Limiter[] {
  const { parent, role, agentPath } = place;
  const own: Limiter[] = [limiterOf(agentPath, role)];
  for (let node: AgentNode | undefined = parent; node !== undefined; node = node.parent)
    own.unshift(limiterOf(node.identity.agentPath, node.role));
  const { maxDepth } = tree.limits;
  return [{ source: parent.root.identity.agentPath, maxDepth }, ...own];
}

function limiterOf(source: string, { limits }: AgentRole): Limiter {
  return { source, maxDepth: limits.maxDepth ?? Infinity };
}
