// When and how far the history of a role's agents is made shorter: what a definition may say, checked.

import { checkCount, checkFields, mismatch } from "../kernel/check.ts";

/** How a history that grew too long is made shorter. Instructions and task stay, and so does what was said last. */
export interface Compaction {
  /**
   * What is done with a history that is too long. Default `truncate`: its oldest messages are left out, and a notice says how many.
   * `summarize`: one message says what was in them, written by the agent's own model in a call of its own, which is paid for and counted
   * like any other and is no step; if there is no budget for it or nothing comes of it, they are left out. It takes at most a quarter of
   * `maxInputTokens`, 1,024 tokens and the role's `maxOutputTokens`, and is asked for only where it has room for 64 tokens: the window must
   * be 256 at least, and `maxOutputTokens` 64. `error`: the agent fails with
   * `model_context_overflow`, before anything is asked of the model.
   */
  readonly strategy?: "truncate" | "summarize" | "error";
  /**
   * Input tokens of a request from which on it is done. Default: when the model refuses a request as too long. Has to be given for
   * `error`.
   */
  readonly maxInputTokens?: number;
  /** Messages that are kept, at most; a call and its results stay together. Default 20. Not for `error`, which leaves nothing out. */
  readonly keepMessages?: number;
  /**
   * Attachments that are kept, at most: of older ones their lines stay. Those of the task that is worked on stay in any case. Nothing of
   * the history is changed for this between compactions, so that prompt caches hit. Default 10. Not for `error`.
   */
  readonly keepAttachments?: number;
}

const STRATEGIES: readonly unknown[] = [
  "truncate",
  "summarize",
  "error",
] satisfies Compaction["strategy"][];

/** What a definition says of it, checked and frozen. Throws `invalid_option`, naming the field. */
export function compactionOf(
  field: string,
  given: Compaction | undefined,
  maxOutputTokens: number,
): Compaction | undefined {
  if (given === undefined) return undefined;
  checkFields(field, given, {
    strategy: checkStrategy,
    maxInputTokens: checkMost,
    keepMessages: checkMost,
    keepAttachments: (name, value) => checkCount(name, value, "Leave it out for the default."),
  });
  const { strategy } = given;
  if (strategy === "error") checkError(field, given);
  if (strategy === "summarize") checkSummary(field, given, maxOutputTokens);
  return Object.freeze({ ...given });
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

/** A summary takes at most this part of the window. */
export const SUMMARY_PART = 4;
/** In less room than this many tokens nothing worth its price can be said: no summary is asked for. */
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

function checkError(field: string, given: Compaction): void {
  const { maxInputTokens, keepMessages, keepAttachments } = given;
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
  for (const [name, kept] of Object.entries({ keepMessages, keepAttachments }))
    if (kept !== undefined)
      throw mismatch(`${field}.${name}`, "left out with the strategy error", kept, advice);
}
