// Rules of the messages, metadata and tools that the subagents of a role inherit.

import {
  checkBoolean,
  checkCount,
  checkFields,
  type FieldChecks,
  mismatch,
  NO_LIMIT_ADVICE,
} from "../kernel/argument-checks.ts";
import { deepFreeze, omitUndefined } from "../kernel/json.ts";
import type { Message } from "../protocol/message.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";

/**
 * The context that the subagents of a role inherit. By default a subagent has only its own
 * instructions and its task.
 *
 * @example
 * ```ts
 * const contextPolicy: Partial<SubagentContextPolicy> = {
 *   inheritMessages: true,
 *   messageWindowSize: 4,
 *   metadataKeys: ["customerId"],
 *   injectedTexts: ["House rule: quote the page."],
 *   deniedTools: ["write_note"],
 * };
 * ```
 */
export interface SubagentContextPolicy {
  /**
   * Shows the parent's messages, without its instructions and without the reply that starts the
   * subagent.
   *
   * @default false, or true if `selectMessages` is set
   */
  readonly inheritMessages: boolean;
  /**
   * Maximum number of inherited messages, counted from the last one. A call and its results stay
   * together. Requires `inheritMessages`. 0 means no maximum.
   *
   * @default 0
   */
  readonly messageWindowSize: number;
  /**
   * Selects the inherited messages, in place of a window. The function receives the messages that
   * may be inherited, oldest first, and returns some of them in the same order. A reply must be
   * returned with all results of its calls.
   *
   * The function must be synchronous and pure, and is called once per subagent. If it throws or
   * returns anything else, the subagent is refused with `context_policy_failed`.
   *
   * @default no selection
   *
   * @example
   * ```ts
   * const contextPolicy: Partial<SubagentContextPolicy> = {
   *   selectMessages: (messages) => messages.filter(({ role }) => role === "user"),
   * };
   * ```
   */
  readonly selectMessages: ((messages: readonly Message[]) => readonly Message[]) | undefined;
  /**
   * Passes a copy of the parent's metadata to the subagent.
   *
   * @default false, or true if `metadataKeys` is set
   */
  readonly inheritMetadata: boolean;
  /**
   * The keys of the parent's metadata that are inherited.
   *
   * @default all keys, with `inheritMetadata`
   *
   * @example
   * ```ts
   * const contextPolicy: Partial<SubagentContextPolicy> = { metadataKeys: ["customerId"] };
   * ```
   */
  readonly metadataKeys: readonly string[] | undefined;
  /**
   * Texts that every subagent reads before its task, one message for each.
   *
   * @default []
   *
   * @example
   * ```ts
   * const contextPolicy: Partial<SubagentContextPolicy> = {
   *   injectedTexts: ["Answer in German.", "Quote the page of each fact."],
   * };
   * ```
   */
  readonly injectedTexts: readonly string[];
  /**
   * Shows the results of the parent's other subagents that have ended, at most 1,000 characters of
   * each.
   *
   * @default false
   */
  readonly includeSiblingResults: boolean;
  /**
   * Shows the parent's remaining budget, the number of subagents that it may still start, and the
   * tools that it may not use.
   *
   * @default false
   */
  readonly includeParentConstraints: boolean;
  /**
   * Shows the last 20 failed tool calls of the parent, with the reasons.
   *
   * @default false
   */
  readonly includeFailedAttempts: boolean;
  /**
   * The tools of their role that subagents, and all agents below them, may use. An empty array
   * allows none.
   *
   * @default all tools
   *
   * @example
   * ```ts
   * const contextPolicy: Partial<SubagentContextPolicy> = { allowedTools: ["search", "read"] };
   * ```
   */
  readonly allowedTools: readonly string[] | undefined;
  /**
   * The tools that subagents, and all agents below them, may not use. A denied tool stays denied
   * whatever `allowedTools` contains.
   *
   * @default []
   *
   * @example
   * ```ts
   * const contextPolicy: Partial<SubagentContextPolicy> = { deniedTools: ["send_mail"] };
   * ```
   */
  readonly deniedTools: readonly string[];
  /**
   * Shows a subagent which tools of its role it cannot use.
   *
   * @default true
   */
  readonly reportRemovedTools: boolean;
}

const CHECKS: FieldChecks = {
  inheritMessages: checkBoolean,
  inheritMetadata: checkBoolean,
  includeSiblingResults: checkBoolean,
  includeParentConstraints: checkBoolean,
  includeFailedAttempts: checkBoolean,
  reportRemovedTools: checkBoolean,
  messageWindowSize: (field, value) => checkCount(field, value, NO_LIMIT_ADVICE),
  selectMessages: checkSelection,
  injectedTexts: checkTextList,
  metadataKeys: checkTextList,
  allowedTools: checkToolNames,
  deniedTools: checkDeniedTools,
};

/** The policy of a role that sets none. */
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

/**
 * Returns the given policy merged over the defaults. Throws `invalid_argument` if a field is unknown,
 * invalid or contradicts another one.
 */
export function resolveContextPolicy(
  field: string,
  options: Partial<SubagentContextPolicy>,
): SubagentContextPolicy {
  checkFields(field, options, CHECKS);
  if (Object.keys(options).length === 0) return INHERITS_NOTHING;
  checkTogether(field, options);
  const { selectMessages, metadataKeys, injectedTexts, allowedTools, deniedTools } = options;
  return deepFreeze({
    ...INHERITS_NOTHING,
    inheritMessages: selectMessages !== undefined,
    inheritMetadata: metadataKeys !== undefined,
    ...omitUndefined({
      ...options,
      metadataKeys: metadataKeys && [...metadataKeys],
      injectedTexts: injectedTexts && [...injectedTexts],
      allowedTools: allowedTools && [...allowedTools],
      deniedTools: deniedTools && [...deniedTools],
    }),
  });
}

/** Throws `invalid_argument` for fields that contradict each other. */
function checkTogether(field: string, options: Partial<SubagentContextPolicy>): void {
  const { inheritMessages, selectMessages, inheritMetadata, metadataKeys } = options;
  const { messageWindowSize = 0 } = options;
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

/** The names of tools that every provider accepts. */
const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;

function checkToolNames(field: string, value: unknown): readonly unknown[] {
  if (!Array.isArray(value))
    throw mismatch(field, "an array of tool names", value, "Pass an array: [a, b].");
  const names: readonly unknown[] = Array.from(value);
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

/**
 * Throws `invalid_argument` for invalid names, and for `Finish`: without it an agent with a typed
 * result could not end.
 */
function checkDeniedTools(field: string, value: unknown): void {
  const index = checkToolNames(field, value).indexOf(FINISH_TOOL_NAME);
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
