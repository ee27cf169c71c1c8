// What a subagent begins with, or why there is none: the policies above it and the request, applied to the affairs of its parent. Pure.

import { EspalierError, messageOf } from "../../kernel/error.ts";
import { defined } from "../../kernel/json.ts";
import { shared } from "../../kernel/shared.ts";
import type { Tightening } from "../../protocol/context-manifest.ts";
import type { SpawnRefusal, SpawnRequest, SubagentResult } from "../../protocol/subagent.ts";
import type { RemovedTool, ToolLimits, ToolRule } from "../../protocol/tool-rule.ts";
import {
  toolsTakenAway,
  unknownToolName,
  toolRules,
  type ChildToolFacts,
} from "../../policies/child-tools.ts";
import {
  inheritContext,
  type InheritedContext,
  type ParentContext,
} from "../../policies/inherit-context.ts";
import type { FramedResult } from "../../policies/result-frame.ts";
import type { SubagentContextPolicy } from "../../policies/subagent-context-policy.ts";
import { shortenText } from "../../tools/shorten-text.ts";

/** A subagent that the parent started before. */
export interface Sibling {
  readonly childName: string;
  readonly role: string;
  /** Undefined: it has not ended. */
  readonly result: SubagentResult | undefined;
}

/** The affairs of the parent. Those that cost something to gather are read only if they are needed. */
export interface ParentFacts extends ParentContext {
  readonly policy: SubagentContextPolicy;
  /** Those that hold for the parent itself. */
  readonly toolRules: readonly ToolRule[];
  /** In the order of their start. */
  readonly siblings: readonly Sibling[];
}

/** What the role of the subagent and its place in the tree say. */
export interface ChildFacts {
  readonly role: string;
  /** The tools of its role. */
  readonly toolNames: readonly string[];
  /** The tools of its role and of all roles that can live below it: costs something to gather. */
  readonly toolNamesBelow: () => ReadonlySet<string>;
  readonly noDepthLeft?: NonNullable<ChildToolFacts["noDepthLeft"]>;
  readonly tightened: readonly Tightening[];
  /** Tools that were asked for with a new role and that its bounds does not have (X27). */
  readonly beyondBounds: readonly RemovedTool[];
}

/** What a subagent begins with. */
export interface ChildContext extends InheritedContext {
  readonly toolLimits: ToolLimits;
}

type Asked = Pick<SpawnRequest, "resultsOf" | "allowedTools" | "deniedTools">;

/** Puts it together, or says what is wrong with the request or with the policy. */
export function childContext(
  parent: ParentFacts,
  child: ChildFacts,
  request: Asked,
): ChildContext | SpawnRefusal {
  const unknown = unknownToolRefusal(parent, child, request);
  if (unknown !== undefined) return unknown;
  const results = request.resultsOf === undefined ? [] : askedResults(parent, request.resultsOf);
  if ("code" in results) return results;
  const { toolNames: names, noDepthLeft, tightened, beyondBounds } = child;
  const rules = [
    ...parent.toolRules,
    ...toolRules(parent.agentPath, parent.policy),
    ...toolRules(parent.agentPath, request),
  ];
  const removed = toolsTakenAway({ names, rules, ...defined({ noDepthLeft }) });
  const removedTools = [...removed, ...beyondBounds];
  try {
    const inherited = inheritContext(parent.policy, parent, {
      siblings: () => parent.siblings.flatMap((sibling) => inShort(sibling)),
      results,
      removedTools,
      tightened,
    });
    return shared({ ...inherited, toolLimits: { rules, removed: removedTools } });
  } catch (cause) {
    if (!EspalierError.is(cause) || cause.code !== "invalid_context") throw cause;
    const message = `Not started: what ${child.role} is to see of your conversation could not be picked. ${messageOf(cause)} Until then do this part yourself.`;
    return { code: "invalid_context", message };
  }
}

/** Only a list of what is allowed must name tools that there are: what is not there may be denied all the same. */
function unknownToolRefusal(
  { agentPath }: ParentFacts,
  child: ChildFacts,
  { allowedTools }: Asked,
): SpawnRefusal | undefined {
  const unknown = allowedTools && unknownToolName({ allowedTools }, child.toolNamesBelow());
  if (unknown === undefined) return undefined;
  const { role, toolNames } = child;
  const { field, toolName } = unknown;
  const tools =
    toolNames.length === 0 ? "It has no tools." : `Its tools are: ${toolNames.join(", ")}.`;
  const message = `Not started: ${field} of the request by ${agentPath} names ${JSON.stringify(toolName)}, and ${role} has no such tool. ${tools} Correct the name.`;
  return { code: "invalid_context", message };
}

/** The results that were asked for by name, in that order; the first name that cannot be served refuses the whole. */
function askedResults(
  { siblings, agentPath }: ParentFacts,
  names: readonly string[],
): readonly FramedResult[] | SpawnRefusal {
  const results: FramedResult[] = [];
  for (const name of new Set(names)) {
    const sibling = siblings.find(({ childName }) => childName === name);
    if (sibling === undefined) return unknownSibling(agentPath, name, siblings);
    const result = framedResult(sibling);
    if (result === undefined) {
      const message = `Not started: ${name} (${agentPath}/${name}) has not ended, so there is no result of it to hand on. Wait for it, or call again without it.`;
      return { code: "subagent_running", message };
    }
    results.push(result);
  }
  return results;
}

function unknownSibling(
  agentPath: string,
  name: string,
  siblings: readonly Sibling[],
): SpawnRefusal {
  const ended = siblings.filter(({ result }) => result !== undefined);
  const names = ended.map(({ childName }) => childName).join(", ");
  const choice =
    names === ""
      ? "None has ended yet: call again without it."
      : `Those that have ended are: ${names}. Call again with one of those, or without it.`;
  const message = `Not started: ${agentPath} has no subagent ${JSON.stringify(name)} whose result could be handed on. ${choice}`;
  return { code: "unknown_subagent", message };
}

function framedResult({ childName, role, result }: Sibling): FramedResult | undefined {
  if (result === undefined) return undefined;
  const { outcome, text, output } = result;
  return { childName, role, outcome, text: output === undefined ? text : JSON.stringify(output) };
}

/** What a subagent sees at most of each sibling that it did not ask for. */
const LONGEST_RESULT = 1_000;

function inShort(sibling: Sibling): readonly FramedResult[] {
  const result = framedResult(sibling);
  if (result === undefined) return [];
  const { text } = result;
  const { isShortened, shownCharacters } = shortenText(text, LONGEST_RESULT);
  if (!isShortened) return [result];
  const shown = text.slice(0, shownCharacters);
  return [{ ...result, text: `${shown}\n[${shownCharacters} of ${text.length} characters]` }];
}
