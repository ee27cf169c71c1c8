// Options of a session and of a fork of it: checked at once, with a default for everything.

import { checkBoolean, checkCount, checkKeys, checkMethods, mismatch } from "../../kernel/check.ts";
import { SessionIdSchema, type SessionId } from "../../protocol/ids.ts";
import { messageRetention } from "../../policies/retention-policy.ts";
import type { SessionForkOptions } from "./session.ts";
import type { SessionRef } from "./session-ref.ts";
import type { SessionStore } from "../../store/session-store.ts";

/** How a session is used. It holds for this handle, and is not kept with the session. */
export interface SessionOptions {
  /** How much of its history the next execution begins with. The oldest goes first, and never half of a call and its results. */
  readonly retention?: {
    /**
     * Messages at most, the new task among them, the instructions not.
     *
     * @default 100
     */
    readonly maxMessages?: number | "unlimited";
    /**
     * Executions at most whose messages are there, the one that begins among them.
     *
     * @default 5
     */
    readonly maxExecutions?: number | "unlimited";
    /**
     * Puts one message in the place of what is left out: a summary by the role's model, which is charged to the run. It counts as one of
     * `maxMessages`.
     *
     * @default false
     */
    readonly summarizeDropped?: boolean;
  };
  /**
   * `keep` (default): the next execution sees what one that failed has done, so that it does not do it twice. `remove`: the messages of an
   * execution that failed are taken out, as if it had never begun; its record stays.
   */
  readonly failedExecutionPolicy?: "keep" | "remove";
  /** Shows the model where the executions before ended, each by one message. Default false. */
  readonly showBoundaries?: boolean;
  /** Where it is kept. Default: the store of the orchestrator. */
  readonly store?: SessionStore;
}

/** How a session is used, with the defaults in the place of what was left out. */
export type SessionSettings = Omit<SessionRef, "sessionId" | "version">;

/** Throws `invalid_option`. */
export function sessionSettings(options: SessionOptions): SessionSettings {
  const field = "session options";
  checkKeys(field, options, ["retention", "failedExecutionPolicy", "showBoundaries", "store"]);
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
    retention: messageRetention(`${field}.retention`, retention),
    failedExecutionPolicy,
    showBoundaries,
  });
}

/** Throws `invalid_option`. */
export function checkSessionForkOptions(options: SessionForkOptions): void {
  const field = "fork options";
  checkKeys(field, options, ["sessionId", "executionId", "atStep"]);
  const { executionId, atStep } = options;
  if (executionId !== undefined && typeof executionId !== "string")
    throw mismatch(`${field}.executionId`, "text", executionId, "See session.executions.");
  if (atStep !== undefined)
    checkCount(`${field}.atStep`, atStep, "Correct it, or leave it out to fork at the end.");
}

/** Characters. What every store can keep as an id. */
const LONGEST_ID = 512;

/** Throws `invalid_option`. */
export function checkedSessionId(field: string, id: unknown): SessionId {
  const isText = typeof id === "string" && id.trim() !== "" && id.length <= LONGEST_ID;
  if (isText && id.isWellFormed() && !id.includes("\0")) return SessionIdSchema().parse(id);
  const expected = `text of 1 to ${LONGEST_ID} characters that can be stored`;
  throw mismatch(field, expected, id, "Use the id of the customer, the thread or the ticket.");
}
