// A tool's result with more than a value: its own text for the model, data, images and files.

import { checkBoolean, checkKeys, mismatch } from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { deepFreeze, findJsonProblem, type JsonValue } from "../kernel/json.ts";
import { formatAttachmentLine, type Attachment } from "../protocol/attachment.ts";
import { copyAttachments } from "../protocol/message-content.ts";
import type { ToolMessage } from "../protocol/message.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import { copyPlainResult, formatToolResult } from "./result-text.ts";

/** Options of `toolResult`. */
export interface ToolResultOptions {
  /**
   * The text that the model reads.
   *
   * @default `structured` as JSON, or unchanged if it is a text, and a line for each attachment
   * such as `[image/png "chart.png", 1,234 bytes]`
   */
  readonly text?: string;
  /**
   * The result as data, copied into the record of the step. No key may be named `__proto__`.
   *
   * @example
   * ```ts
   * const result = toolResult({ text: "2 rows", structured: [{ id: 1 }, { id: 2 }] });
   * ```
   */
  readonly structured?: unknown;
  /**
   * Images, audio and files, copied into the record of the step.
   *
   * A model with the fitting `inputModalities` reads attachments after the text. Requirements are
   * bytes in `data`, and the format PNG, JPEG, GIF, WebP, MP3, WAV or PDF.
   *
   * @default []
   *
   * @example
   * ```ts
   * const result = toolResult({
   *   text: "The chart of 2026.",
   *   attachments: [{ type: "image", mediaType: "image/png", name: "a.png", data: "iVBORw0KGgo=" }],
   * });
   * ```
   */
  readonly attachments?: readonly Attachment[];
  /**
   * Shows the attachments to models that support them. With `false` the model reads the text only.
   *
   * @default true
   */
  readonly showAttachments?: boolean;
}

const MARK = Symbol.for("espalier.toolResult");

/**
 * A result of a tool with a text for the model, data and attachments, created by `toolResult`.
 * Frozen.
 */
export class ToolResult {
  /** The text that the model reads. */
  readonly text: string;
  /** The result as plain data. `undefined` if there is none. */
  readonly structured: JsonValue | undefined;
  /** Images, audio and files of the result. */
  readonly attachments: readonly Attachment[];
  /** True if models that support the attachments are shown them. */
  readonly showAttachments: boolean;

  /** Creates a result. Use `toolResult`. */
  constructor(options: ToolResultOptions) {
    checkKeys("toolResult", options, ["text", "structured", "attachments", "showAttachments"]);
    const { text, structured, attachments, showAttachments = true } = options;
    if (text !== undefined && typeof text !== "string")
      throw mismatch(
        "toolResult.text",
        "a string",
        text,
        "Leave it out to send the data to the model.",
      );
    checkBoolean(
      "toolResult.showAttachments",
      showAttachments,
      "Leave it out to show what the model takes.",
    );
    this.showAttachments = showAttachments;
    this.structured = checkStructuredResult(structured);
    this.attachments = copyAttachments("toolResult.attachments", attachments);
    this.text = text ?? describeResultParts(this.structured, this.attachments);
    // An own property, so that a copy with other fields has it too.
    Object.defineProperty(this, MARK, { value: true, enumerable: true });
    Object.freeze(this);
  }

  /** Returns the text, so that a result inside another value is serialised as its text. */
  toJSON(): string {
    return this.text;
  }
}

/**
 * Creates a result of a tool with a text for the model, data or attachments. Return it from
 * `execute` in place of a plain value.
 *
 * @throws EspalierError `invalid_argument` if a field has the wrong type, `structured` cannot be
 * represented as JSON, or an attachment is invalid.
 *
 * @example
 * ```ts
 * const screenshot = defineTool({
 *   name: "screenshot",
 *   description: "Takes a screenshot.",
 *   inputSchema: z.object({}),
 *   execute: () =>
 *     toolResult({
 *       text: "The screen of the shop.",
 *       attachments: [{ type: "image", mediaType: "image/png", data: "iVBORw0KGgo=" }],
 *     }),
 * });
 * ```
 */
export function toolResult(options: ToolResultOptions): ToolResult {
  return new ToolResult(options);
}

/**
 * Returns the value as a `ToolResult`, also if another copy of the package created it. `undefined`
 * for any other value. Throws like `toolResult` if the value was changed.
 */
export function readToolResult(result: unknown): ToolResult | undefined {
  if (result instanceof ToolResult) return result;
  return isMarked(result) ? recreateToolResult(result) : undefined;
}

/**
 * Returns the result of a call as a message. Attachments are included if models may read them and
 * providers read their format.
 */
export function createResultMessage(execution: ToolExecution): ToolMessage {
  const { call, text, attachments, isTextOnly = false } = execution;
  const { callId, toolName } = call;
  const message = { role: "tool", callId, toolName, text } as const;
  if (attachments === undefined || isTextOnly) return message;
  const content = attachments.filter(
    ({ data = "", mediaType }) => data !== "" && SHOWN_TYPES.has(mediaType.toLowerCase()),
  );
  return content.length === 0 ? message : { ...message, content };
}

/**
 * Media types that providers read. Any other one would make the provider refuse the whole request.
 */
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
    return false; // Its getters throw. Its text reports this.
  }
}

/** Recreates a result of another copy of the package, or a copy with other fields. */
function recreateToolResult(result: object): ToolResult {
  const { [MARK]: _mark, ...options }: object & { readonly [MARK]?: unknown } = result;
  return new ToolResult(options);
}

/** More levels than `copyPlainResult` accepts. */
const UNLIMITED_LEVELS = 1_000;

function checkStructuredResult(structured: unknown): JsonValue | undefined {
  const field = "toolResult.structured";
  try {
    const plain = copyPlainResult(field, structured);
    const reason = plain === undefined ? undefined : findJsonProblem(plain, UNLIMITED_LEVELS);
    if (reason !== undefined)
      throw new TypeError(
        `Expected ${field} to be plain JSON data, but ${reason}. Remove that value.`,
      );
    return deepFreeze(plain);
  } catch (cause) {
    throw new EspalierError({
      code: "invalid_argument",
      message: getErrorMessage(cause),
      data: { field },
      cause,
    });
  }
}

function describeResultParts(
  structured: JsonValue | undefined,
  attachments: readonly Attachment[],
): string {
  const shown = structured === undefined ? [] : [formatToolResult(structured)];
  return [...shown, ...attachments.map(formatAttachmentLine)].join("\n");
}
