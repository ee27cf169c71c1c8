// What a subagent inherits. Pure: the parent's history and metadata in, the child's out.

import { checkCount, checkKeys, mismatch } from "../kernel/check.ts";
import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import type { Message, UserMessage } from "../protocol/message.ts";

/** Decides what the subagents of a role inherit. By default nothing: they start with their own instructions and the task. */
export interface SubagentContextPolicy {
  /** Show the parent's messages, without its instructions and without the reply that spawns. Default false. */
  readonly inheritMessages: boolean;
  /** With `inheritMessages`: how many of the last messages at most, in whole pairs of call and results. Default 0: all. */
  readonly messageWindowSize: number;
  /** Hand on a copy of the parent's metadata. Default false; true if `metadataKeys` is given. */
  readonly inheritMetadata: boolean;
  /** With `inheritMetadata`: only these keys. Default: all. */
  readonly metadataKeys: readonly string[] | undefined;
  /** Texts that every subagent is shown before its task. */
  readonly contextInjections: readonly string[];
}

/** What a child starts with besides its instructions and its task. */
export interface InheritedContext {
  readonly messages: readonly Message[];
  readonly inheritedMessages: number;
  readonly injectedMessages: number;
  readonly metadata: JsonObject;
}

const FIELDS = [
  "inheritMessages",
  "messageWindowSize",
  "inheritMetadata",
  "metadataKeys",
  "contextInjections",
];

/** The given policy over the defaults. Throws `invalid_option` for a field that does not exist, does not fit or contradicts another. */
export function subagentContextPolicy(
  field: string,
  given: Partial<SubagentContextPolicy>,
): SubagentContextPolicy {
  checkKeys(field, given, FIELDS);
  checkFlag(`${field}.inheritMessages`, given.inheritMessages);
  checkFlag(`${field}.inheritMetadata`, given.inheritMetadata);
  if (given.messageWindowSize !== undefined)
    checkCount(`${field}.messageWindowSize`, given.messageWindowSize);
  checkTexts(`${field}.contextInjections`, given.contextInjections);
  checkTexts(`${field}.metadataKeys`, given.metadataKeys);
  if (given.inheritMetadata === false && given.metadataKeys !== undefined) {
    const advice = "Leave one of the two out.";
    throw mismatch(
      `${field}.metadataKeys`,
      "left out when inheritMetadata is false",
      given.metadataKeys,
      advice,
    );
  }
  if (given.inheritMessages !== true && (given.messageWindowSize ?? 0) > 0) {
    const advice = "Switch inheritMessages on.";
    throw mismatch(
      `${field}.messageWindowSize`,
      "left out without inheritMessages",
      given.messageWindowSize,
      advice,
    );
  }
  return deepFreeze({
    inheritMessages: given.inheritMessages ?? false,
    messageWindowSize: given.messageWindowSize ?? 0,
    inheritMetadata: given.inheritMetadata ?? given.metadataKeys !== undefined,
    metadataKeys: given.metadataKeys === undefined ? undefined : [...given.metadataKeys],
    contextInjections: [...(given.contextInjections ?? [])],
  });
}

/** Applies the policy to a parent's history and metadata. The result shares nothing that the child could change. */
export function inheritContext(
  policy: SubagentContextPolicy,
  parent: { readonly messages: readonly Message[]; readonly metadata: JsonObject },
): InheritedContext {
  const inherited = policy.inheritMessages
    ? inheritMessages(parent.messages, policy.messageWindowSize)
    : [];
  const injected = policy.contextInjections.map(injection);
  return deepFreeze({
    messages: [...inherited, ...injected],
    inheritedMessages: inherited.length,
    injectedMessages: injected.length,
    metadata: policy.inheritMetadata ? pick(parent.metadata, policy.metadataKeys) : {},
  });
}

function checkTexts(field: string, texts: readonly string[] | undefined): void {
  if (texts === undefined) return;
  if (!Array.isArray(texts)) throw mismatch(field, "a list of texts", texts, "Put it in brackets.");
  for (const [index, text] of texts.entries()) {
    if (typeof text === "string" && text.trim() !== "") continue;
    throw mismatch(
      `${field}[${index}]`,
      "text that is not empty",
      text,
      "Say it, or leave it out.",
    );
  }
}

function checkFlag(field: string, flag: boolean | undefined): void {
  if (flag !== undefined && typeof flag !== "boolean")
    throw mismatch(field, "true or false", flag, "Say which.");
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

function inheritMessages(messages: readonly Message[], windowSize: number): readonly Message[] {
  const groups = wholeGroups(messages.filter((message) => message.role !== "system"));
  const kept: (readonly Message[])[] = [];
  let count = 0;
  for (const group of groups.toReversed()) {
    count += group.length;
    if (windowSize > 0 && count > windowSize) break;
    kept.unshift(group);
  }
  return kept.flat().map(asInherited);
}

/** Groups that may not be torn: a reply with the results of its calls, or a single message. Calls without result are left out: the reply that spawns is one. */
function wholeGroups(messages: readonly Message[]): readonly (readonly Message[])[] {
  const groups: Message[][] = [];
  for (const message of messages) {
    if (message.role === "tool") groups.at(-1)?.push(message);
    else groups.push([message]);
  }
  return groups.filter(
    ([first, ...results]) =>
      first?.role !== "assistant" || first.toolCalls.length === results.length,
  );
}

function asInherited(message: Message): Message {
  return message.role === "user" ? { ...message, origin: "inherited" } : message;
}
