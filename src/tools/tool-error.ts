// What a tool throws to say more than that it failed.

import { mismatch } from "../kernel/check.ts";
import { EspalierError } from "../kernel/error.ts";
import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import { AttachmentSchema, type Attachment } from "../protocol/attachment.ts";
import { lazySchema, z } from "../protocol/lazy-schema.ts";
import { checkedAttachments } from "../protocol/message-content.ts";
import { ToolErrorSeveritySchema, type ToolErrorSeverity } from "../protocol/tool-error-record.ts";

/** What goes with a `ToolError`. */
export interface ToolErrorOptions {
  /** What it means for what follows. Default `recoverable`: the model reads it, and continues. */
  readonly severity?: ToolErrorSeverity;
  /** What the model should do instead; follows the message. Blank: nothing. */
  readonly hint?: string;
  /** What belongs to the failure and is no text: kept and shown as that of `toolResult`. Copied. Default none. */
  readonly attachments?: readonly Attachment[];
  /** For logs and programs, not for the model. */
  readonly data?: JsonObject;
  /** What was thrown before; for logs, not for the model. */
  readonly cause?: unknown;
}

/**
 * The failure of a tool, with what it means for what follows. Any other error that a tool throws counts as `recoverable`.
 *
 * @throws EspalierError `invalid_option` if there is no such severity, or an attachment does not fit.
 */
export class ToolError extends EspalierError {
  /** What it means for what follows. */
  readonly severity: ToolErrorSeverity;
  /** What the model should do instead; undefined: nothing was said. */
  readonly hint: string | undefined;
  /** What belongs to the failure and is no text. */
  readonly attachments: readonly Attachment[];

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
    this.attachments = checkedAttachments("ToolError.attachments", attachments);
  }
}

/** Asks the model to make the call again, corrected as the message says. Bounded by the tool's `maxRetries`. */
export class ToolRetryError extends ToolError {
  constructor(message: string, options: Omit<ToolErrorOptions, "severity"> = {}) {
    super(message, { ...options, severity: "retryable" });
  }
}

/** What came with an error of a tool; undefined: nothing. */
export function attachmentsIn(thrown: unknown): readonly Attachment[] | undefined {
  if (!EspalierError.is(thrown) || !("attachments" in thrown)) return undefined;
  const given = AttachmentsSchema().safeParse(thrown.attachments).data ?? [];
  return given.length === 0 ? undefined : deepFreeze(given);
}

const AttachmentsSchema = lazySchema(() => z.array(AttachmentSchema()));

/** True for what tools throw, also by way of another copy of the package. */
export function isToolError(thrown: unknown): thrown is ToolError {
  return severityOf(thrown) !== undefined;
}

/** How severe an error of a tool says that it is; undefined for any other. Looks once: it may have a life of its own. */
export function severityOf(thrown: unknown): ToolErrorSeverity | undefined {
  try {
    if (!EspalierError.is(thrown) || !("severity" in thrown)) return undefined;
    return ToolErrorSeveritySchema().safeParse(thrown.severity).data;
  } catch {
    return undefined; // What throws when it is looked at is none of ours.
  }
}
