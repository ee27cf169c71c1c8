// What subagents inherit, as the role of their parent says.

import { checkCount, checkKeys, mismatch } from "../kernel/check.ts";
import { deepFreeze } from "../kernel/json.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";
import type { MessageSelection } from "./inherited-messages.ts";

/** Decides what the subagents of a role inherit. By default nothing: they start with their own instructions and the task. */
export interface SubagentContextPolicy {
  /** Show the parent's messages, without its instructions and without the reply that spawns. Default false; true if `selectMessages` is given. */
  readonly inheritMessages: boolean;
  /** With `inheritMessages`: how many of the last messages at most, in whole pairs of call and results. Default 0: all. */
  readonly messageWindowSize: number;
  /** Your own choice of the parent's messages, instead of a window. Default: none of your own. */
  readonly selectMessages: MessageSelection | undefined;
  /** Hand on a copy of the parent's metadata. Default false; true if `metadataKeys` is given. */
  readonly inheritMetadata: boolean;
  /** With `inheritMetadata`: only these keys. Default: all. */
  readonly metadataKeys: readonly string[] | undefined;
  /** Texts that every subagent is shown before its task. */
  readonly contextInjections: readonly string[];
  /** Show what the parent's other subagents that have ended came to, in short. Default false. */
  readonly siblingResults: boolean;
  /** Show what binds the parent: what is left of its budget, how many subagents it may start, which tools it may not use. Default false. */
  readonly parentConstraints: boolean;
  /** Show which tool calls of the parent failed, and why. Default false. */
  readonly failedAttempts: boolean;
  /** Of the tools of their role, subagents and all agents below them have only these. Default: all; an empty list means none. */
  readonly allowedTools: readonly string[] | undefined;
  /** Subagents and all agents below them have none of these tools, whatever any list allows (T4). Default: none is denied. */
  readonly deniedTools: readonly string[];
  /** Show a subagent which tools of its role it cannot use. Default true. */
  readonly tellRemovedTools: boolean;
}

const FLAGS = [
  "inheritMessages",
  "inheritMetadata",
  "siblingResults",
  "parentConstraints",
  "failedAttempts",
  "tellRemovedTools",
] as const;
const FIELDS = [
  ...FLAGS,
  "messageWindowSize",
  "selectMessages",
  "metadataKeys",
  "contextInjections",
  "allowedTools",
  "deniedTools",
];

/** The policy of a role that gives none. */
export const INHERITS_NOTHING: SubagentContextPolicy = deepFreeze({
  inheritMessages: false,
  messageWindowSize: 0,
  selectMessages: undefined,
  inheritMetadata: false,
  metadataKeys: undefined,
  contextInjections: [],
  siblingResults: false,
  parentConstraints: false,
  failedAttempts: false,
  allowedTools: undefined,
  deniedTools: [],
  tellRemovedTools: true,
});

/** The given policy over the defaults. Throws `invalid_option` for a field that does not exist, does not fit or contradicts another. */
export function subagentContextPolicy(
  field: string,
  given: Partial<SubagentContextPolicy>,
): SubagentContextPolicy {
  checkKeys(field, given, FIELDS);
  if (Object.keys(given).length === 0) return INHERITS_NOTHING;
  for (const flag of FLAGS) checkFlag(`${field}.${flag}`, given[flag]);
  checkMessages(field, given);
  checkTexts(`${field}.contextInjections`, given.contextInjections);
  checkMetadata(field, given);
  checkToolNames(`${field}.allowedTools`, given.allowedTools);
  checkToolNames(`${field}.deniedTools`, given.deniedTools);
  checkFinish(`${field}.deniedTools`, given.deniedTools);
  return deepFreeze({
    inheritMessages: given.inheritMessages ?? given.selectMessages !== undefined,
    messageWindowSize: given.messageWindowSize ?? INHERITS_NOTHING.messageWindowSize,
    selectMessages: given.selectMessages,
    inheritMetadata: given.inheritMetadata ?? given.metadataKeys !== undefined,
    metadataKeys: given.metadataKeys === undefined ? undefined : [...given.metadataKeys],
    contextInjections: [...(given.contextInjections ?? [])],
    siblingResults: given.siblingResults ?? INHERITS_NOTHING.siblingResults,
    parentConstraints: given.parentConstraints ?? INHERITS_NOTHING.parentConstraints,
    failedAttempts: given.failedAttempts ?? INHERITS_NOTHING.failedAttempts,
    allowedTools: given.allowedTools === undefined ? undefined : [...given.allowedTools],
    deniedTools: [...(given.deniedTools ?? [])],
    tellRemovedTools: given.tellRemovedTools ?? INHERITS_NOTHING.tellRemovedTools,
  });
}

function checkMessages(field: string, given: Partial<SubagentContextPolicy>): void {
  const { inheritMessages, messageWindowSize, selectMessages } = given;
  if (messageWindowSize !== undefined) checkCount(`${field}.messageWindowSize`, messageWindowSize);
  const hasWindow = (messageWindowSize ?? 0) > 0;
  if (selectMessages === undefined) {
    if (inheritMessages === true || !hasWindow) return;
    const advice = "Switch inheritMessages on.";
    const expected = "left out without inheritMessages";
    throw mismatch(`${field}.messageWindowSize`, expected, messageWindowSize, advice);
  }
  if (typeof selectMessages !== "function") {
    const advice = "It is handed the messages and gives those that subagents see.";
    throw mismatch(`${field}.selectMessages`, "a function", selectMessages, advice);
  }
  if (inheritMessages === false) {
    const expected = "left out when inheritMessages is false";
    throw mismatch(`${field}.selectMessages`, expected, selectMessages, ONE_OF_THE_TWO);
  }
  if (!hasWindow) return;
  const expected = "left out with selectMessages";
  throw mismatch(`${field}.messageWindowSize`, expected, messageWindowSize, ONE_OF_THE_TWO);
}

const ONE_OF_THE_TWO = "Leave one of the two out.";

function checkMetadata(
  field: string,
  { inheritMetadata, metadataKeys }: Partial<SubagentContextPolicy>,
): void {
  checkTexts(`${field}.metadataKeys`, metadataKeys);
  if (inheritMetadata !== false || metadataKeys === undefined) return;
  const expected = "left out when inheritMetadata is false";
  throw mismatch(`${field}.metadataKeys`, expected, metadataKeys, ONE_OF_THE_TWO);
}

/** What every provider takes for the name of a tool. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

function checkToolNames(field: string, names: readonly string[] | undefined): void {
  if (names === undefined) return;
  if (!Array.isArray(names))
    throw mismatch(field, "a list of names of tools", names, "Put it in brackets.");
  for (const [index, name] of Array.from(names).entries()) {
    const at = `${field}[${index}]`;
    if (typeof name !== "string" || !TOOL_NAME.test(name)) {
      const advice = "Name each tool as the model calls it; there are no wildcards.";
      throw mismatch(at, "the name of a tool", name, advice);
    }
    if (names.indexOf(name) !== index)
      throw mismatch(at, "listed once", name, "Leave one of them out.");
  }
}

/** An agent with a typed result could not end. */
function checkFinish(field: string, names: readonly string[] | undefined): void {
  const index = names?.indexOf(FINISH_TOOL_NAME) ?? -1;
  if (index < 0) return;
  const advice = "An agent that has it needs it to end.";
  throw mismatch(`${field}[${index}]`, "any tool but Finish", FINISH_TOOL_NAME, advice);
}

function checkTexts(field: string, texts: readonly string[] | undefined): void {
  if (texts === undefined) return;
  if (!Array.isArray(texts)) throw mismatch(field, "a list of texts", texts, "Put it in brackets.");
  for (const [index, text] of Array.from(texts).entries()) {
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
