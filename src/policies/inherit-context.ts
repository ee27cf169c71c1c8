// What a subagent begins with: the policy of its parent applied to what there is to hand on. Pure.

import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import { shared } from "../kernel/shared.ts";
import { hashOf, type InheritanceRecord } from "../protocol/context-manifest.ts";
import type { Message, UserMessage } from "../protocol/message.ts";
import type { ToolErrorRecord } from "../protocol/tool-error-record.ts";
import type { RemovedTool } from "../protocol/tool-rule.ts";
import {
  attemptsNote,
  constraintsNote,
  removedToolsNote,
  resultsNote,
  siblingsNote,
  shownAttempts,
  type ParentConstraints,
  type FramedResult,
} from "./context-notes.ts";
import { inheritedMessages } from "./inherited-messages.ts";
import type { SubagentContextPolicy } from "./subagent-context-policy.ts";

/** What a parent has to hand on. What its policy does not ask for is not looked at. */
export interface ParentContext {
  readonly agentPath: string;
  /** Its history. */
  readonly messages: readonly Message[];
  readonly metadata: JsonObject;
  readonly constraints: ParentConstraints;
  /** Its tool calls that went wrong, oldest first. */
  readonly failedAttempts: readonly ToolErrorRecord[];
}

/** What else a subagent is to know. */
export interface DelegationFacts {
  /** The parent's subagents that have ended, short enough to be shown. */
  readonly siblings: () => readonly FramedResult[];
  /** Those of them that were asked for by name, whole. */
  readonly results: readonly FramedResult[];
  /** Tools of its role that the subagent does not have. */
  readonly removedTools: readonly RemovedTool[];
}

/** What a subagent starts with besides its instructions and its task, and the record of it, but for its limits. */
export interface InheritedContext {
  readonly messages: readonly Message[];
  readonly metadata: JsonObject;
  readonly manifest: Omit<InheritanceRecord, "tightened">;
}

/**
 * Applies the policy. First come inherited messages, then, one message each, the injected texts and what else it has to know. The result
 * shares nothing that the subagent could change.
 *
 * @throws EspalierError `context_policy_failed`, if `selectMessages` breaks or gives what it may not.
 */
export function inheritContext(
  policy: SubagentContextPolicy,
  parent: ParentContext,
  { siblings: endedSiblings, results, removedTools }: DelegationFacts,
): InheritedContext {
  const messages = policy.inheritMessages
    ? inheritedMessages(parent.messages, { ...policy, agentPath: parent.agentPath })
    : [];
  const failed = policy.includeFailedAttempts ? shownAttempts(parent.failedAttempts) : [];
  // What is handed on word for word is not shown in short once more.
  const named = new Set(results.map(({ childName }) => childName));
  const siblings = policy.includeSiblingResults
    ? endedSiblings().filter(({ childName }) => !named.has(childName))
    : [];
  const notes = [
    ...(policy.includeParentConstraints ? [constraintsNote(parent.constraints)] : []),
    ...(failed.length === 0 ? [] : [attemptsNote(failed)]),
    ...(siblings.length === 0 ? [] : [siblingsNote(siblings)]),
    ...(results.length === 0 ? [] : [resultsNote(results)]),
    ...(policy.reportRemovedTools && removedTools.length > 0
      ? [removedToolsNote(removedTools)]
      : []),
  ];
  const injections = [...policy.injectedTexts, ...notes].map(injection);
  const metadata = deepFreeze(
    policy.inheritMetadata ? pick(parent.metadata, policy.metadataKeys) : {},
  );
  return shared({
    messages: [...messages, ...injections],
    metadata,
    manifest: {
      messages: portion(messages),
      injections: portion(injections),
      metadataKeys: Object.keys(metadata),
      siblingResults: siblings.map(({ childName }) => childName),
      results: results.map(({ childName }) => childName),
      failedAttempts: failed.length,
      parentConstraints: policy.includeParentConstraints,
      removedTools: removedTools.map((removed) => ({ ...removed })),
    },
  });
}

const NOTHING = { count: 0, hash: hashOf([]) };

/** Most subagents inherit nothing. */
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

function portion(messages: readonly Message[]): InheritanceRecord["messages"] {
  return messages.length === 0 ? NOTHING : { count: messages.length, hash: hashOf(messages) };
}

function injection(text: string): UserMessage {
  return { role: "user", text, origin: "injected" };
}

function pick(metadata: JsonObject, keys: readonly string[] | undefined): JsonObject {
  const entries = Object.entries(structuredClone(metadata));
  return Object.fromEntries(
    keys === undefined ? entries : entries.filter(([key]) => keys.includes(key)),
  );
}
