// What a tool returns if it has more to give than a value: a text of its own for the model, data, images and files.

import { checkBoolean, checkKeys, mismatch } from "../kernel/check.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";
import { deepFreeze, unsoundness, type JsonValue } from "../kernel/json.ts";
import { attachmentLine, type Attachment } from "../protocol/attachment.ts";
import { checkedAttachments } from "../protocol/message-content.ts";
import type { ToolMessage } from "../protocol/message.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { plainResult, resultText } from "./result-text.ts";

/** What `toolResult` takes. */
export interface ToolResultOptions {
  /**
   * What the model reads. Default: `structured` as JSON (or as it is, if it is a text), and a line for each attachment that says what
   * there is, such as `[image/png "chart.png", 1,234 bytes]`.
   */
  readonly text?: string;
  /** The result as data: kept in the record of the step. Copied. No key in it may be named `__proto__`. */
  readonly structured?: unknown;
  /**
   * Images, sounds and files. Kept in the record of the step. Those whose bytes are given, in a common format, are shown to a model that
   * takes their kind (`Model.inputModalities`), after the text. Copied. Default none.
   */
  readonly attachments?: readonly Attachment[];
  /** False: no model is shown the attachments; it reads the text. Default true. */
  readonly show?: boolean;
}

const MARK = Symbol.for("espalier.toolResult");

/** A result of a tool with all that belongs to it. Frozen. Made by `toolResult`. */
export class ToolResult {
  /** What the model reads. */
  readonly text: string;
  /** The result as plain data, if there is any. */
  readonly structured: JsonValue | undefined;
  readonly attachments: readonly Attachment[];
  /** Whether a model that takes them is shown the attachments. */
  readonly show: boolean;

  constructor(options: ToolResultOptions) {
    checkKeys("toolResult", options, ["text", "structured", "attachments", "show"]);
    const { text, structured, attachments, show = true } = options;
    if (text !== undefined && typeof text !== "string")
      throw mismatch(
        "toolResult.text",
        "a string",
        text,
        "Leave it out to send the data to the model.",
      );
    checkBoolean("toolResult.show", show, "Leave it out to show what the model takes.");
    this.show = show;
    this.structured = structuredOf(structured);
    this.attachments = checkedAttachments("toolResult.attachments", attachments);
    this.text = text ?? defaultText(this.structured, this.attachments);
    // Its own, so that a copy with other fields has it, too.
    Object.defineProperty(this, MARK, { value: true, enumerable: true });
    Object.freeze(this);
  }

  /** Within another value it is its text. */
  toJSON(): string {
    return this.text;
  }
}

/**
 * A result with a text of its own for the model, with data, or with attachments. A tool may return it instead of a plain value.
 *
 * @throws EspalierError `invalid_option` if a field has the wrong type, `structured` is nothing that can be shown, or an attachment does
 * not fit.
 */
export function toolResult(options: ToolResultOptions): ToolResult {
  return new ToolResult(options);
}

/** A value that is a `toolResult`, also of another copy of the package; undefined: it is none. Throws as `toolResult`, if it was changed. */
export function asToolResult(result: unknown): ToolResult | undefined {
  if (result instanceof ToolResult) return result;
  return isMarked(result) ? remade(result) : undefined;
}

/** The result of a call as a message. What belongs to it is in it if a model may be shown it: bytes in a format that providers read. */
export function resultMessage(execution: ToolExecution): ToolMessage {
  const { call, text, attachments, isTextOnly = false } = execution;
  const { callId, toolName } = call;
  const message = { role: "tool", callId, toolName, text } as const;
  if (attachments === undefined || isTextOnly) return message;
  const content = attachments.filter(
    ({ data = "", mediaType }) => data !== "" && SHOWN_TYPES.has(mediaType.toLowerCase()),
  );
  return content.length === 0 ? message : { ...message, content };
}

/** A format that its provider cannot read would spoil the whole request. */
const SHOWN_TYPES: ReadonlySet<string> = new Set([
  "image/png",
  "image/jpeg",
  "image/gif",
  "image/webp",
  "audio/mpeg",
  "audio/mp3",
  "audio/wav",
  "audio/x-wav",
  "application/pdf",
]);

function isMarked(result: unknown): result is object {
  try {
    return typeof result === "object" && result !== null && MARK in result;
  } catch {
    return false; // What throws when it is looked at; its text says so.
  }
}

/** One of another copy of the package, or a copy with other fields. */
function remade(result: object): ToolResult {
  const { [MARK]: _mark, ...options }: object & { readonly [MARK]?: unknown } = result;
  return new ToolResult(options);
}

/** More than `plainResult` lets pass. */
const ALL_LEVELS = 1_000;

function structuredOf(structured: unknown): JsonValue | undefined {
  const field = "toolResult.structured";
  try {
    const plain = plainResult(field, structured);
    const reason = plain === undefined ? undefined : unsoundness(plain, ALL_LEVELS);
    if (reason !== undefined)
      throw new TypeError(
        `Expected ${field} to be plain JSON data, but ${reason}. Remove that value.`,
      );
    return deepFreeze(plain);
  } catch (cause) {
    throw new EspalierError({
      code: "invalid_option",
      message: messageOf(cause),
      data: { field },
      cause,
    });
  }
}

function defaultText(
  structured: JsonValue | undefined,
  attachments: readonly Attachment[],
): string {
  const shown = structured === undefined ? [] : [resultText(structured)];
  return [...shown, ...attachments.map(attachmentLine)].join("\n");
}
