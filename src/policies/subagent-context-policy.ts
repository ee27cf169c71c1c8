// What subagents inherit, as the role of their parent says.

import {
  checkBoolean,
  checkCount,
  checkFields,
  mismatch,
  type FieldChecks,
} from "../kernel/check.ts";
import { deepFreeze, defined } from "../kernel/json.ts";
import type { Message } from "../protocol/message.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";

/** Decides what the subagents of a role inherit. By default nothing: they start with their own instructions and the task. */
export interface SubagentContextPolicy {
  /** Show the parent's messages, without its instructions and without the reply that spawns. Default false; true if `selectMessages` is given. */
  readonly inheritMessages: boolean;
  /** With `inheritMessages`: how many of the last messages at most, in whole pairs of call and results. Default 0: all. */
  readonly messageWindowSize: number;
  /**
   * Your own choice of the parent's messages, instead of a window. Called once for each subagent, before its first step, with the messages
   * that may be picked, oldest first: no instructions, and not the reply that spawns. Must be pure and answer at once. Returns some of
   * these messages, in their order, a reply always with all results of its calls; an empty list means none. If it throws or returns
   * anything else, the subagent is not started (`context_policy_failed`). Default: none of your own.
   */
  readonly selectMessages: ((messages: readonly Message[]) => readonly Message[]) | undefined;
  /** Hand on a copy of the parent's metadata. Default false; true if `metadataKeys` is given. */
  readonly inheritMetadata: boolean;
  /** With `inheritMetadata`: only these keys. Default: all. */
  readonly metadataKeys: readonly string[] | undefined;
  /** Texts that every subagent is shown before its task. */
  readonly injectedTexts: readonly string[];
  /** Show what the parent's other subagents that have ended came to, in short. Default false. */
  readonly includeSiblingResults: boolean;
  /** Show what binds the parent: what is left of its budget, how many subagents it may start, which tools it may not use. Default false. */
  readonly includeParentConstraints: boolean;
  /** Show which tool calls of the parent failed, and why. Default false. */
  readonly includeFailedAttempts: boolean;
  /** Of the tools of their role, subagents and all agents below them have only these. Default: all; an empty list means none. */
  readonly allowedTools: readonly string[] | undefined;
  /** Subagents and all agents below them have none of these tools, whatever any list allows. Default: none is denied. */
  readonly deniedTools: readonly string[];
  /** Show a subagent which tools of its role it cannot use. Default true. */
  readonly reportRemovedTools: boolean;
}

const CHECKS: FieldChecks = {
  inheritMessages: checkBoolean,
  inheritMetadata: checkBoolean,
  includeSiblingResults: checkBoolean,
  includeParentConstraints: checkBoolean,
  includeFailedAttempts: checkBoolean,
  reportRemovedTools: checkBoolean,
  messageWindowSize: checkCount,
  selectMessages: checkSelection,
  injectedTexts: checkTextList,
  metadataKeys: checkTextList,
  allowedTools: checkToolNames,
  deniedTools: checkDeniedTools,
};

/** The policy of a role that gives none. */
export const INHERITS_NOTHING: SubagentContextPolicy = deepFreeze({
  inheritMessages: false,
  messageWindowSize: 0,
  selectMessages: undefined,
  inheritMetadata: false,
  metadataKeys: undefined,
  injectedTexts: [],
  includeSiblingResults: false,
  includeParentConstraints: false,
  includeFailedAttempts: false,
  allowedTools: undefined,
  deniedTools: [],
  reportRemovedTools: true,
});

/** The given policy over the defaults. Throws `invalid_option` for a field that does not exist, does not fit or contradicts another. */
export function subagentContextPolicy(
  field: string,
  given: Partial<SubagentContextPolicy>,
): SubagentContextPolicy {
  checkFields(field, given, CHECKS);
  if (Object.keys(given).length === 0) return INHERITS_NOTHING;
  checkTogether(field, given);
  const { selectMessages, metadataKeys, injectedTexts, allowedTools, deniedTools } = given;
  return deepFreeze({
    ...INHERITS_NOTHING,
    inheritMessages: selectMessages !== undefined,
    inheritMetadata: metadataKeys !== undefined,
    ...defined({
      ...given,
      metadataKeys: metadataKeys && [...metadataKeys],
      injectedTexts: injectedTexts && [...injectedTexts],
      allowedTools: allowedTools && [...allowedTools],
      deniedTools: deniedTools && [...deniedTools],
    }),
  });
}

/** Throws for what contradicts something else. */
function checkTogether(field: string, given: Partial<SubagentContextPolicy>): void {
  const { inheritMessages, selectMessages, inheritMetadata, metadataKeys } = given;
  const { messageWindowSize = 0 } = given;
  const refuse = (name: string, expected: string, value: unknown, advice: string): void => {
    throw mismatch(`${field}.${name}`, `left out ${expected}`, value, advice);
  };
  const advice = "Leave one of the two out.";
  if (selectMessages !== undefined && inheritMessages === false)
    refuse("selectMessages", "when inheritMessages is false", selectMessages, advice);
  if (messageWindowSize > 0 && selectMessages !== undefined)
    refuse("messageWindowSize", "with selectMessages", messageWindowSize, advice);
  if (messageWindowSize > 0 && selectMessages === undefined && inheritMessages !== true) {
    const expected = "without inheritMessages";
    refuse("messageWindowSize", expected, messageWindowSize, "Switch inheritMessages on.");
  }
  if (inheritMetadata === false && metadataKeys !== undefined)
    refuse("metadataKeys", "when inheritMetadata is false", metadataKeys, advice);
}

function checkSelection(field: string, value: unknown): void {
  if (typeof value === "function") return;
  const advice = "Pass a function that receives the messages and returns those for the subagent.";
  throw mismatch(field, "a function", value, advice);
}

/** What every provider takes for the name of a tool. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

function checkToolNames(field: string, given: unknown): readonly unknown[] {
  if (!Array.isArray(given))
    throw mismatch(field, "an array of tool names", given, "Pass an array: [a, b].");
  const names: readonly unknown[] = Array.from(given);
  for (const [index, name] of names.entries()) {
    const at = `${field}[${index}]`;
    if (typeof name !== "string" || !TOOL_NAME.test(name)) {
      const advice = "Name each tool as the model calls it; there are no wildcards.";
      throw mismatch(at, "the name of a tool", name, advice);
    }
    if (names.indexOf(name) !== index)
      throw mismatch(at, "listed once", name, "Remove the duplicate.");
  }
  return names;
}

/** An agent with a typed result could not end. */
function checkDeniedTools(field: string, given: unknown): void {
  const index = checkToolNames(field, given).indexOf(FINISH_TOOL_NAME);
  if (index < 0) return;
  const advice = "Remove it: an agent with Finish needs it to end.";
  throw mismatch(`${field}[${index}]`, "any tool but Finish", FINISH_TOOL_NAME, advice);
}

function checkTextList(field: string, texts: unknown): void {
  if (!Array.isArray(texts))
    throw mismatch(field, "an array of strings", texts, "Pass an array: [a, b].");
  for (const [index, text] of Array.from(texts).entries()) {
    if (typeof text === "string" && text.trim() !== "") continue;
    const advice = "Pass some text, or remove the entry.";
    throw mismatch(`${field}[${index}]`, "a non-empty string", text, advice);
  }
}
