// Options of sessions and forks of sessions: validated at once, with defaults.

import {
  checkBoolean,
  checkCount,
  checkKeys,
  checkMethods,
  mismatch,
} from "../../kernel/argument-checks.ts";
import { adviseOnOption } from "../../kernel/option-names.ts";
import { SessionIdSchema, type SessionId } from "../../protocol/ids.ts";
import { resolveMessageRetention } from "../../policies/retention-policy.ts";
import type { SessionForkOptions } from "./session.ts";
import type { SessionRef } from "./session-ref.ts";
import type { SessionStore } from "../../store/session-store.ts";

/**
 * Options of `orchestrator.openSession`. They apply to this handle, and are not stored with the
 * session.
 *
 * @example
 * ```ts
 * const session = await orchestrator.openSession("customer-42", {
 *   retention: { maxMessages: 40, summarizeDropped: true },
 *   failedExecutionPolicy: "remove",
 * });
 * ```
 */
export interface SessionOptions {
  /**
   * Limits on the history with which the next run begins. The oldest messages are dropped first; a
   * reply is dropped together with the results of its calls. Dropped messages leave the session for
   * good once that run has ended.
   *
   * @example
   * ```ts
   * const session = await orchestrator.openSession("customer-42", {
   *   retention: { maxMessages: 40, summarizeDropped: true },
   * });
   * ```
   */
  readonly retention?: {
    /**
     * Maximum number of messages. The new task counts, instructions do not.
     *
     * @default 100
     */
    readonly maxMessages?: number | "unlimited";
    /**
     * Maximum number of executions whose messages are kept. The new one counts.
     *
     * @default "unlimited"
     */
    readonly maxExecutions?: number | "unlimited";
    /**
     * Replaces dropped messages by one summary, which the role's model writes. The summary counts
     * towards `maxMessages`, and its cost is charged to the run. Without enough budget for it,
     * messages are dropped without a summary.
     *
     * @default false
     */
    readonly summarizeDropped?: boolean;
  };
  /**
   * Handling of the messages of a failed execution. `keep` shows them to the next run, which can
   * avoid repeating completed actions. `remove` removes them; the record of the execution stays.
   *
   * @default "keep"
   */
  readonly failedExecutionPolicy?: "keep" | "remove";
  /**
   * Adds a notice to the history wherever an earlier execution ended.
   *
   * @default false
   */
  readonly showBoundaries?: boolean;
  /**
   * Store of the session.
   *
   * @default the store of the orchestrator
   * @example
   * ```ts
   * const session = await orchestrator.openSession("draft", { store: memoryStore() });
   * ```
   */
  readonly store?: SessionStore;
}

/** Session options with defaults. */
export type SessionSettings = Omit<SessionRef, "sessionId" | "version">;

/** Validates options and adds defaults. Throws `invalid_argument`. */
export function resolveSessionOptions(options: SessionOptions): SessionSettings {
  const field = "session options";
  const known = ["retention", "failedExecutionPolicy", "showBoundaries", "store"];
  checkKeys(field, options, known, adviseOnOption);
  const { retention = {}, failedExecutionPolicy = "keep", showBoundaries = false, store } = options;
  if (!["keep", "remove"].includes(failedExecutionPolicy))
    throw mismatch(
      `${field}.failedExecutionPolicy`,
      '"keep" or "remove"',
      failedExecutionPolicy,
      "Default: keep.",
    );
  checkBoolean(`${field}.showBoundaries`, showBoundaries, "Default: false.");
  if (store !== undefined) checkMethods(`${field}.store`, store, ["readSession", "writeSession"]);
  return Object.freeze({
    retention: resolveMessageRetention(`${field}.retention`, retention),
    failedExecutionPolicy,
    showBoundaries,
  });
}

/** Throws `invalid_argument`. */
export function checkSessionForkOptions(options: SessionForkOptions): void {
  const field = "fork options";
  checkKeys(field, options, ["sessionId", "executionId", "atStep"]);
  const { executionId, atStep } = options;
  if (executionId !== undefined && typeof executionId !== "string")
    throw mismatch(`${field}.executionId`, "text", executionId, "See session.executions.");
  if (atStep !== undefined)
    checkCount(`${field}.atStep`, atStep, "Correct it, or leave it out to fork at the end.");
}

/** Maximum length of an id in code units, which every store accepts. */
const LONGEST_ID = 512;

/** Throws `invalid_argument`. */
export function readSessionId(field: string, id: unknown): SessionId {
  const isText = typeof id === "string" && id.trim() !== "" && id.length <= LONGEST_ID;
  if (isText && id.isWellFormed() && !id.includes("\0")) return SessionIdSchema().parse(id);
  const expected = `text of 1 to ${LONGEST_ID} characters that can be stored`;
  throw mismatch(field, expected, id, "Use the id of the customer, the thread or the ticket.");
}
