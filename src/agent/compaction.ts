// The compaction rules of a role: when and how far the history of its agents is shortened. Checks
// the values in a definition.

import { checkCount, checkFields, mismatch } from "../kernel/argument-checks.ts";

/**
 * Rules for shortening a history that has become too long. The instructions, the task and the most
 * recent messages are kept.
 *
 * @example
 * ```ts
 * const compaction: Compaction = { strategy: "summarize", maxInputTokens: 100_000 };
 * ```
 */
export interface Compaction {
  /**
   * The treatment of a history that is too long.
   *
   * - `"truncate"`: drops the oldest messages, with a notice of how many.
   * - `"summarize"`: replaces them by a summary from the agent's own model. The call counts toward
   *   the budget, but not as a step. Without budget for it, they are dropped.
   * - `"error"`: fails the agent with `model_context_overflow`, before the request is sent.
   *   Requires `maxInputTokens`.
   *
   * A summary has at most a quarter of `maxInputTokens`, 1,024 tokens and `maxOutputTokens` of the
   * role. Summaries require a `maxInputTokens` of at least 256, and a `maxOutputTokens` of at least
   * 64.
   *
   * @default "truncate"
   */
  readonly strategy?: "truncate" | "summarize" | "error";
  /**
   * Input tokens of a request above which the history is shortened.
   *
   * @default only when the model refuses a request as too long
   */
  readonly maxInputTokens?: number;
  /**
   * Maximum number of messages that are kept. A call and its results stay together. Not allowed
   * with `"error"`.
   *
   * @default 20
   */
  readonly keepMessages?: number;
  /**
   * Maximum number of attachments that are kept. Older ones become a line of text. Attachments of
   * the current task are always kept. Not allowed with `"error"`.
   *
   * @default 10
   */
  readonly keepAttachments?: number;
}

const STRATEGIES: readonly unknown[] = [
  "truncate",
  "summarize",
  "error",
] satisfies Compaction["strategy"][];

/**
 * Returns a checked and frozen copy of the rules in a definition. Throws `invalid_argument`, naming
 * the field.
 */
export function copyCompaction(
  field: string,
  rules: Compaction | undefined,
  maxOutputTokens: number,
): Compaction | undefined {
  if (rules === undefined) return undefined;
  checkFields(field, rules, {
    strategy: checkStrategy,
    maxInputTokens: checkMost,
    keepMessages: checkMost,
    keepAttachments: (name, value) => checkCount(name, value, "Leave it out for the default."),
  });
  const { strategy } = rules;
  if (strategy === "error") checkError(field, rules);
  if (strategy === "summarize") checkSummary(field, rules, maxOutputTokens);
  return Object.freeze({ ...rules });
}

function checkStrategy(field: string, value: unknown): void {
  if (STRATEGIES.includes(value)) return;
  const advice = "Leave it out for the default, which drops the oldest messages.";
  throw mismatch(field, STRATEGIES.join(", "), value, advice);
}

function checkMost(field: string, value: unknown): void {
  checkCount(field, value, "Leave it out for the default.");
  if (value === 0)
    throw mismatch(field, "at least 1", value, "With 0, the request would be empty.");
}

/** A summary takes at most this fraction of the window: one divided by this number. */
export const SUMMARY_PART = 4;
/** Minimum tokens of a summary. With less room, none is requested. */
export const FEWEST_SUMMARY_TOKENS = 64;

function checkSummary(
  field: string,
  { maxInputTokens }: Compaction,
  maxOutputTokens: number,
): void {
  const fewest = FEWEST_SUMMARY_TOKENS * SUMMARY_PART;
  if (maxInputTokens !== undefined && maxInputTokens < fewest) {
    const advice = `A summary takes at most a quarter of the window, and at least ${FEWEST_SUMMARY_TOKENS} tokens. Raise it, or choose the strategy truncate.`;
    const expected = `at least ${fewest} with the strategy summarize`;
    throw mismatch(`${field}.maxInputTokens`, expected, maxInputTokens, advice);
  }
  if (maxOutputTokens < FEWEST_SUMMARY_TOKENS) {
    const advice = `The role's maxOutputTokens is ${maxOutputTokens}, and a summary takes at least ${FEWEST_SUMMARY_TOKENS}. Raise that, or choose the strategy truncate.`;
    throw mismatch(`${field}.strategy`, "truncate or error", "summarize", advice);
  }
}

function checkError(field: string, rules: Compaction): void {
  const { maxInputTokens, keepMessages, keepAttachments } = rules;
  if (maxInputTokens === undefined) {
    const advice =
      "Set the limit, or leave the strategy out: a request that the model refuses as too long fails the agent anyway.";
    throw mismatch(
      `${field}.maxInputTokens`,
      "set with the strategy error",
      maxInputTokens,
      advice,
    );
  }
  const advice =
    "The strategy error drops nothing: leave the option out, or choose another strategy.";
  for (const [name, value] of Object.entries({ keepMessages, keepAttachments }))
    if (value !== undefined)
      throw mismatch(`${field}.${name}`, "left out with the strategy error", value, advice);
}
