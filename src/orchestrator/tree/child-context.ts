// Builds the context of a subagent, or a refusal: applies the policies above it and the request to
// the context of its parent. set-up-child.ts calls it, and gives the context to create-agent.ts. The
// messages come from policies/inherit-context.ts.

import { BACKGROUND_TOOL_NAMES, SPAWN_TOOL_NAME, type AgentRole } from "../../agent/agent-role.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { ParentHistory } from "../../agent/effect-outcomes.ts";
import type { OrRefusal } from "./spawn-checks.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { freezeInTests } from "../../kernel/freeze-shared.ts";
import {
  collectRemovedTools,
  findUnknownToolName,
  createToolRules,
  type ChildToolFacts,
} from "../../policies/child-tools.ts";
import {
  inheritContext,
  type InheritedContext,
  type ParentContext,
} from "../../policies/inherit-context.ts";
import type { FramedResult } from "../../policies/context-notes.ts";
import type { SubagentContextPolicy } from "../../policies/subagent-context-policy.ts";
import type {
  DynamicRole,
  SpawnRefusal,
  SpawnRequest,
  SubagentResult,
} from "../../protocol/subagent.ts";
import {
  NO_TOOL_LIMITS,
  type RemovedTool,
  type ToolLimits,
  type ToolRule,
} from "../../protocol/tool-rule.ts";
import { shortenText } from "../../tools/shorten-text.ts";
import { createSubagentResult } from "./agent-report.ts";
import type { RunRuntime } from "./run-runtime.ts";
import { collectToolErrors } from "./tool-report.ts";

/** Subagent that the parent started earlier. */
export interface Sibling {
  readonly childName: string;
  readonly role: string;
  /** `undefined` if it has not ended. */
  readonly result: SubagentResult | undefined;
}

/** Context of a parent at the time of a delegation, with the role and the place of its subagent. */
export interface ChildFacts extends ParentContext {
  readonly policy: SubagentContextPolicy;
  /** Rules that apply to the parent itself. */
  readonly toolRules: readonly ToolRule[];
  /** In the order of their start. */
  readonly siblings: readonly Sibling[];
  /** Role of the subagent. */
  readonly role: string;
  /** Tools of the subagent's role. */
  readonly toolNames: readonly string[];
  /** Tools of the subagent's role and of all roles that can run below it. */
  readonly toolNamesBelow: ReadonlySet<string>;
  readonly noDepthLeft?: ChildToolFacts["noDepthLeft"];
  /** Tools that a dynamic role requested beyond its bounds. */
  readonly beyondBounds: readonly RemovedTool[];
}

/** Context of a new subagent. */
export interface ChildContext extends InheritedContext {
  readonly toolLimits: ToolLimits;
}

type ContextRequest = Pick<SpawnRequest, "includeResultsFrom" | "allowedTools" | "deniedTools">;

/**
 * Gathers the facts of a subagent that is to start at `agentPath`, as far as the policy and the
 * request need them.
 */
export function gatherChildFacts(
  run: RunRuntime,
  parent: AgentRuntime,
  child: {
    readonly role: AgentRole;
    readonly agentPath: string;
    readonly request: SpawnRequest;
  },
  { messages, steps }: ParentHistory,
): ChildFacts {
  const { role, request } = child;
  const { registry, tree } = run;
  const { contextPolicy: policy } = parent.role;
  const needsSiblings = policy.includeSiblingResults || request.includeResultsFrom !== undefined;
  return {
    agentPath: parent.identity.agentPath,
    policy,
    messages,
    metadata: parent.facts.metadata,
    toolRules: parent.toolLimits.rules,
    siblings: needsSiblings ? parent.children.map(describeSibling) : [],
    constraints: {
      remaining: policy.includeParentConstraints ? parent.account.remainingForChildren() : {},
      subagentsLeft: policy.includeParentConstraints ? tree.countSubagentsLeft(parent) : 0,
      deniedTools: parent.toolLimits.removed.map(({ toolName }) => toolName),
    },
    failedAttempts: policy.includeFailedAttempts ? collectToolErrors(steps) : [],
    role: role.name,
    toolNames: registry.getParts(role).tools.names,
    toolNamesBelow:
      request.allowedTools === undefined
        ? new Set()
        : registry.collectToolNames(registry.findReachable(role)),
    noDepthLeft: findDepthLimit(run, parent, child),
    beyondBounds: listBeyondBounds(run, parent, request.roleDefinition),
  };
}

function describeSibling(sibling: AgentRuntime): Sibling {
  const { childName, role, hasEnded } = sibling;
  return {
    childName,
    role: role.name,
    result: hasEnded ? createSubagentResult(sibling) : undefined,
  };
}

/** Builds the context, or returns the problem of the request or the policy. */
export function buildChildContext(
  facts: ChildFacts,
  request: ContextRequest,
): OrRefusal<ChildContext> {
  const unknown = refuseUnknownTool(facts, request);
  if (unknown !== undefined) return { refusal: unknown };
  const { results, refusal } = findRequestedResults(facts, request.includeResultsFrom ?? []);
  if (refusal !== undefined) return { refusal };
  const { agentPath, policy, toolNames: names, noDepthLeft } = facts;
  const rules = [
    ...facts.toolRules,
    ...createToolRules(agentPath, policy),
    ...createToolRules(agentPath, request),
  ];
  const removedTools = [
    ...collectRemovedTools({ names, rules, noDepthLeft }),
    ...facts.beyondBounds,
  ];
  try {
    const inherited = inheritContext(policy, facts, {
      siblings: () => facts.siblings.flatMap((sibling) => shortenResult(sibling)),
      results,
      removedTools,
    });
    return freezeInTests({ ...inherited, toolLimits: { rules, removed: removedTools } });
  } catch (cause) {
    if (!EspalierError.is(cause) || cause.code !== "context_policy_failed") throw cause;
    const message = `Not started: selecting the messages of your conversation for ${facts.role} failed. ${getErrorMessage(cause)} Do this part yourself.`;
    return { refusal: { code: "context_policy_failed", message } };
  }
}

/**
 * Returns the refusal of an unknown tool in a request. Only its `allowedTools` must name existing
 * tools; denying an unknown tool is harmless.
 */
function refuseUnknownTool(
  facts: ChildFacts,
  { allowedTools }: ContextRequest,
): SpawnRefusal | undefined {
  const unknown = allowedTools && findUnknownToolName({ allowedTools }, facts.toolNamesBelow);
  if (unknown === undefined) return undefined;
  const { agentPath, role, toolNames } = facts;
  const { field, toolName } = unknown;
  const tools =
    toolNames.length === 0 ? "It has no tools." : `Its tools are: ${toolNames.join(", ")}.`;
  const message = `Not started: ${field} of the request by ${agentPath} names ${JSON.stringify(toolName)}, and ${role} has no such tool. ${tools} Correct the name.`;
  return { code: "context_policy_failed", message };
}

/**
 * Returns the requested results in the requested order. One unavailable result refuses the whole
 * request.
 */
function findRequestedResults(
  { siblings, agentPath }: ChildFacts,
  names: readonly string[],
): OrRefusal<{ readonly results: readonly FramedResult[] }> {
  const results: FramedResult[] = [];
  for (const name of new Set(names)) {
    const sibling = siblings.find(({ childName }) => childName === name);
    if (sibling === undefined) return { refusal: refuseUnknownSibling(agentPath, name, siblings) };
    const result = frameResult(sibling);
    if (result === undefined) {
      const message = `Not started: ${name} (${agentPath}/${name}) has not ended, so it has no result to pass on. Wait for it, or call again without it.`;
      return { refusal: { code: "subagent_running", message } };
    }
    results.push(result);
  }
  return { results };
}

function refuseUnknownSibling(
  agentPath: string,
  name: string,
  siblings: readonly Sibling[],
): SpawnRefusal {
  const ended = siblings.filter(({ result }) => result !== undefined);
  const names = ended.map(({ childName }) => childName).join(", ");
  const choice =
    names === ""
      ? "No subagent has ended yet: call again without includeResultsFrom."
      : `Ended subagents: ${names}. Call again with one of these names, or without includeResultsFrom.`;
  const message = `Not started: ${agentPath} has no subagent ${JSON.stringify(name)} whose result could be passed on. ${choice}`;
  return { code: "unknown_subagent", message };
}

function frameResult({ childName, role, result }: Sibling): FramedResult | undefined {
  if (result === undefined) return undefined;
  const { outcome, text, output } = result;
  return { childName, role, outcome, text: output === undefined ? text : JSON.stringify(output) };
}

/** Maximum number of characters of a sibling's result that the request does not name. */
const LONGEST_RESULT = 1_000;

function shortenResult(sibling: Sibling): readonly FramedResult[] {
  const result = frameResult(sibling);
  if (result === undefined) return [];
  const { text } = result;
  const { isShortened, shownCharacters } = shortenText(text, LONGEST_RESULT);
  if (!isShortened) return [result];
  const shown = text.slice(0, shownCharacters);
  return [{ ...result, text: `${shown}\n[${shownCharacters} of ${text.length} characters]` }];
}

/** Returns the tool limits of a root, which only the depth limit can restrict. */
export function deriveRootToolLimits(
  run: RunRuntime,
  root: { readonly role: AgentRole; readonly agentPath: string },
): ToolLimits {
  const noDepthLeft = findDepthLimit(run, undefined, root);
  if (noDepthLeft === undefined) return NO_TOOL_LIMITS;
  const { names } = run.registry.getParts(root.role).tools;
  return { rules: [], removed: collectRemovedTools({ names, rules: [], noDepthLeft }) };
}

/** Returns the tool limits that follow from the rules that an agent had before a pause. */
export function restoreToolLimits(
  run: RunRuntime,
  parent: AgentRuntime | undefined,
  child: {
    readonly role: AgentRole;
    readonly agentPath: string;
    readonly toolRules: readonly ToolRule[];
    readonly draft?: DynamicRole | undefined;
  },
): ToolLimits {
  if (parent === undefined) return deriveRootToolLimits(run, child);
  const { role, toolRules: rules, draft } = child;
  const names = run.registry.getParts(role).tools.names;
  const noDepthLeft = findDepthLimit(run, parent, child);
  const removed = collectRemovedTools({ names, rules, noDepthLeft });
  return { rules, removed: [...removed, ...listBeyondBounds(run, parent, draft)] };
}

/**
 * Returns the requested tools of a dynamic role that its bounds do not allow, as they are reported.
 */
function listBeyondBounds(
  { registry }: RunRuntime,
  { role, identity }: AgentRuntime,
  draft: DynamicRole | undefined,
): readonly RemovedTool[] {
  if (draft?.tools === undefined) return [];
  const allowed = new Set(role.dynamicRoles?.tools.map(({ name }) => name));
  const known = registry.collectToolNames(registry.all);
  return draft.tools.flatMap((toolName): readonly RemovedTool[] => {
    if (allowed.has(toolName)) return [];
    const rule = known.has(toolName) ? "not_allowed" : "unknown";
    return [{ toolName, rule, source: identity.agentPath }];
  });
}

const DELEGATION_TOOLS = [SPAWN_TOOL_NAME, ...BACKGROUND_TOOL_NAMES];

/**
 * Returns the delegation tools and the depth limit if no agent may start below a place. Otherwise
 * `undefined`.
 */
function findDepthLimit(
  { tree }: RunRuntime,
  parent: AgentRuntime | undefined,
  { role, agentPath }: { readonly role: AgentRole; readonly agentPath: string },
): ChildToolFacts["noDepthLeft"] {
  const depth = parent === undefined ? 0 : parent.identity.depth + 1;
  const isTight = ({ limits }: AgentRole): boolean => (limits.maxDepth ?? Infinity) <= depth;
  let source = isTight(role) ? agentPath : undefined;
  for (let node = parent; node !== undefined; node = node.parent)
    if (isTight(node.role)) source = node.identity.agentPath;
  if (tree.limits.maxDepth <= depth) source = parent?.root.identity.agentPath ?? agentPath;
  return source === undefined ? undefined : { toolNames: DELEGATION_TOOLS, source };
}
