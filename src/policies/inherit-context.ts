// Builds the initial context of a subagent by applying its parent's policy to the parent's context.
// Pure.

import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import { freezeInTests } from "../kernel/freeze-shared.ts";
import { computeJsonHash, type InheritanceRecord } from "../protocol/context-manifest.ts";
import type { Message, UserMessage } from "../protocol/message.ts";
import type { ToolErrorRecord } from "../protocol/tool-error-record.ts";
import type { RemovedTool } from "../protocol/tool-rule.ts";
import {
  formatAttemptsNote,
  formatConstraintsNote,
  formatRemovedToolsNote,
  formatResultsNote,
  formatSiblingsNote,
  selectRecentAttempts,
  type ParentConstraints,
  type FramedResult,
} from "./context-notes.ts";
import { selectInheritedMessages } from "./inherited-messages.ts";
import type { SubagentContextPolicy } from "./subagent-context-policy.ts";

/** The context of a parent. The parts that its policy does not select are not read. */
export interface ParentContext {
  readonly agentPath: string;
  /** The parent's history. */
  readonly messages: readonly Message[];
  readonly metadata: JsonObject;
  readonly constraints: ParentConstraints;
  /** Failed tool calls of the parent, oldest first. */
  readonly failedAttempts: readonly ToolErrorRecord[];
}

/** Facts of the delegation besides the parent's context. */
export interface DelegationFacts {
  /** Returns the parent's ended subagents, with shortened results. */
  readonly siblings: () => readonly FramedResult[];
  /** Full results of the subagents that the request names. */
  readonly results: readonly FramedResult[];
  /** Tools of its role that the subagent does not have. */
  readonly removedTools: readonly RemovedTool[];
}

/**
 * The initial context of a subagent besides its instructions and task, and the record of the
 * inheritance without limits.
 */
export interface InheritedContext {
  readonly messages: readonly Message[];
  readonly metadata: JsonObject;
  readonly manifest: Omit<InheritanceRecord, "tightened">;
}

/**
 * Applies the policy. Inherited messages come first, followed by the injected texts and the notes,
 * one message each. The subagent cannot change anything that the parent still uses.
 *
 * @throws EspalierError `context_policy_failed` if `selectMessages` throws or returns an invalid
 * value.
 */
export function inheritContext(
  policy: SubagentContextPolicy,
  parent: ParentContext,
  { siblings: endedSiblings, results, removedTools }: DelegationFacts,
): InheritedContext {
  const messages = policy.inheritMessages
    ? selectInheritedMessages(parent.messages, { ...policy, agentPath: parent.agentPath })
    : [];
  const failed = policy.includeFailedAttempts ? selectRecentAttempts(parent.failedAttempts) : [];
  // A result that is passed on in full is not also summarised.
  const named = new Set(results.map(({ childName }) => childName));
  const siblings = policy.includeSiblingResults
    ? endedSiblings().filter(({ childName }) => !named.has(childName))
    : [];
  const notes = [
    ...(policy.includeParentConstraints ? [formatConstraintsNote(parent.constraints)] : []),
    ...(failed.length === 0 ? [] : [formatAttemptsNote(failed)]),
    ...(siblings.length === 0 ? [] : [formatSiblingsNote(siblings)]),
    ...(results.length === 0 ? [] : [formatResultsNote(results)]),
    ...(policy.reportRemovedTools && removedTools.length > 0
      ? [formatRemovedToolsNote(removedTools)]
      : []),
  ];
  const injections = [...policy.injectedTexts, ...notes].map(createInjection);
  const metadata = deepFreeze(
    policy.inheritMetadata ? pick(parent.metadata, policy.metadataKeys) : {},
  );
  return freezeInTests({
    messages: [...messages, ...injections],
    metadata,
    manifest: {
      messages: measurePortion(messages),
      injections: measurePortion(injections),
      metadataKeys: Object.keys(metadata),
      siblingResults: siblings.map(({ childName }) => childName),
      results: results.map(({ childName }) => childName),
      failedAttempts: failed.length,
      parentConstraints: policy.includeParentConstraints,
      removedTools: removedTools.map((removed) => ({ ...removed })),
    },
  });
}

const NOTHING = { count: 0, hash: computeJsonHash([]) };

/** The context of a subagent that inherits nothing, as most do. */
export const NOTHING_INHERITED: InheritedContext = deepFreeze({
  messages: [],
  metadata: {},
  manifest: {
    messages: NOTHING,
    injections: NOTHING,
    metadataKeys: [],
    siblingResults: [],
    results: [],
    failedAttempts: 0,
    parentConstraints: false,
    removedTools: [],
  },
});

function measurePortion(messages: readonly Message[]): InheritanceRecord["messages"] {
  return messages.length === 0
    ? NOTHING
    : { count: messages.length, hash: computeJsonHash(messages) };
}

function createInjection(text: string): UserMessage {
  return { role: "user", text, origin: "injected" };
}

function pick(metadata: JsonObject, keys: readonly string[] | undefined): JsonObject {
  const entries = Object.entries(structuredClone(metadata));
  return Object.fromEntries(
    keys === undefined ? entries : entries.filter(([key]) => keys.includes(key)),
  );
}
