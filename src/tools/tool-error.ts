// Errors of a tool with a severity and further data.

import { mismatch } from "../kernel/argument-checks.ts";
import { EspalierError, isMarkedError } from "../kernel/error.ts";
import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import { AttachmentSchema, type Attachment } from "../protocol/attachment.ts";
import { lazySchema, z } from "../protocol/lazy-schema.ts";
import { copyAttachments } from "../protocol/message-content.ts";
import { ToolErrorSeveritySchema, type ToolErrorSeverity } from "../protocol/tool-failure.ts";

const MARK = Symbol.for("espalier.error.tool");
const RETRY_MARK = Symbol.for("espalier.error.tool_retry");

/** Options of a `ToolError`. */
export interface ToolErrorOptions {
  /**
   * The effect of the failure on the agent.
   *
   * - `"recoverable"`: the model reads the message, and the agent continues.
   * - `"retryable"`: the model is asked for a corrected call, up to `maxRetries` times in a row.
   * - `"fatal"`: the model is told not to repeat this call, and the agent continues.
   * - `"abortive"`: the agent ends.
   *
   * @default "recoverable"
   *
   * @example
   * ```ts
   * const error = new ToolError("The account is locked.", { severity: "fatal" });
   * ```
   */
  readonly severity?: ToolErrorSeverity;
  /**
   * Advice for the model, appended to the message.
   *
   * @example
   * ```ts
   * const error = new ToolError("No such city.", { hint: "Use the English name: Munich." });
   * ```
   */
  readonly hint?: string;
  /**
   * Images, audio and files that belong to the failure. They are copied, and shown as those of
   * `toolResult`.
   *
   * @default []
   */
  readonly attachments?: readonly Attachment[];
  /**
   * Data for logs and programs. The model does not read it.
   *
   * @example
   * ```ts
   * const error = new ToolError("The shop did not answer.", { data: { status: 503 } });
   * ```
   */
  readonly data?: JsonObject;
  /** The original error, for logs. The model does not read it. */
  readonly cause?: unknown;
}

/**
 * An error of a tool with its severity for the agent. Any other error that a tool throws counts as
 * `recoverable`.
 *
 * @throws EspalierError `invalid_argument` if the severity is unknown, or an attachment is invalid.
 *
 * @example
 * ```ts
 * const transfer = defineTool({
 *   name: "transfer",
 *   description: "Transfers money.",
 *   inputSchema: z.object({ amountUsd: z.number() }),
 *   execute: ({ amountUsd }) => {
 *     if (amountUsd > 500) throw new ToolError("The limit is 500 dollars.", { severity: "fatal" });
 *     return "Transferred.";
 *   },
 * });
 * ```
 */
export class ToolError extends EspalierError {
  /** The effect of the failure on the agent. */
  readonly severity: ToolErrorSeverity;
  /** Advice for the model. `undefined` if there is none. */
  readonly hint: string | undefined;
  /** Images, audio and files that belong to the failure. */
  readonly attachments: readonly Attachment[];

  /** Creates an error. The model reads the message and the hint. */
  constructor(message: string, options: ToolErrorOptions = {}) {
    const { severity = "recoverable", hint, attachments, data = {}, cause } = options;
    super({ code: severity === "retryable" ? "tool_retry" : "tool_error", message, data, cause });
    const parsed = ToolErrorSeveritySchema().safeParse(severity);
    if (!parsed.success) {
      const expected = ToolErrorSeveritySchema().options.join(", ");
      throw mismatch("ToolError.severity", `one of ${expected}`, severity, "Choose one.");
    }
    this.severity = parsed.data;
    this.hint = hint?.trim() === "" ? undefined : hint;
    this.attachments = copyAttachments("ToolError.attachments", attachments);
  }

  static {
    Object.defineProperty(this.prototype, MARK, { value: true });
  }

  /**
   * Returns true if `value` is a `ToolError`, including one of another copy of the package.
   *
   * @example
   * ```ts
   * const describe = (error: unknown) =>
   *   ToolError.is(error) ? `${error.message} ${error.hint ?? ""}` : "The tool is broken.";
   * ```
   */
  static override is(value: unknown): value is ToolError {
    return isMarkedError(value, MARK);
  }
}

/**
 * An error that asks the model to repeat the call with other arguments. The number of repetitions
 * in a row is limited by `maxRetries` of the tool.
 *
 * @example
 * ```ts
 * const lookUp = defineTool({
 *   name: "look_up",
 *   description: "Looks up a customer.",
 *   inputSchema: z.object({ name: z.string() }),
 *   execute: ({ name }) => {
 *     if (!name.includes(" ")) throw new ToolRetryError("Give the first and the last name.");
 *     return { name, since: 2019 };
 *   },
 * });
 * ```
 */
export class ToolRetryError extends ToolError {
  /** Creates an error. The model reads the message and the hint. */
  constructor(message: string, options: Omit<ToolErrorOptions, "severity"> = {}) {
    super(message, { ...options, severity: "retryable" });
  }

  static {
    Object.defineProperty(this.prototype, RETRY_MARK, { value: true });
  }

  /**
   * Returns true if `value` is a `ToolRetryError`, including one of another copy of the package.
   *
   * @example
   * ```ts
   * const isForModel = (error: unknown) => ToolRetryError.is(error);
   * ```
   */
  static override is(value: unknown): value is ToolRetryError {
    return isMarkedError(value, RETRY_MARK);
  }
}

/** Returns the attachments of a tool's error. `undefined` if there are none. */
export function findErrorAttachments(thrown: unknown): readonly Attachment[] | undefined {
  if (!EspalierError.is(thrown) || !("attachments" in thrown)) return undefined;
  const attachments = AttachmentsSchema().safeParse(thrown.attachments).data ?? [];
  return attachments.length === 0 ? undefined : deepFreeze(attachments);
}

const AttachmentsSchema = lazySchema(() => z.array(AttachmentSchema()));

/**
 * Returns the severity of a tool's error, or `undefined` for any other value. Reads the property
 * only once, because a getter may return another value each time.
 */
export function findErrorSeverity(thrown: unknown): ToolErrorSeverity | undefined {
  try {
    if (!EspalierError.is(thrown) || !("severity" in thrown)) return undefined;
    return ToolErrorSeveritySchema().safeParse(thrown.severity).data;
  } catch {
    return undefined; // A value whose getters throw is not one of our errors.
  }
}
