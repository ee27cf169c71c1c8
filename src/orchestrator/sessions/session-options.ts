// Options of a session and of a fork of it: checked at once, with a default for everything.

import { checkBoolean, checkCount, checkKeys, checkMethods, mismatch } from "../../kernel/check.ts";
import { SessionIdSchema, type SessionId } from "../../protocol/ids.ts";
import { messageRetention, type MessageRetentionPolicy } from "../../policies/retention-policy.ts";
import type { SessionRef } from "./session-ref.ts";
import type { SessionStore } from "../../store/session-store.ts";

/** What becomes of the messages of an execution that failed. */
export type FailedExecutionPolicy = "keep" | "remove";

/** How a session is used. It holds for this handle, and is not kept with the session. */
export interface SessionOptions {
  /** How much of its history the next execution begins with. */
  readonly retention?: Partial<MessageRetentionPolicy>;
  /**
   * `keep` (default): the next execution sees what one that failed has done, so that it does not do it twice. `remove`: the messages of an
   * execution that failed are taken out, as if it had never begun; its record stays (R99).
   */
  readonly failedExecutionPolicy?: FailedExecutionPolicy;
  /** Shows the model where the executions before ended, each by one message. Default false (C26). */
  readonly showBoundaries?: boolean;
  /** Where it is kept. Default: the store of the orchestrator. */
  readonly store?: SessionStore;
}

/** Where a fork of a session begins. */
export interface SessionForkOptions {
  /** Of the fork. Default: a new one. */
  readonly sessionId?: string;
  /** The execution in which, or at whose end, it begins. Default: the last one. */
  readonly executionId?: string | undefined;
  /** The step of that execution, from 1, after which the fork goes its own way. Default: its end. */
  readonly atStep?: number;
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
