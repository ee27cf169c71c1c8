// What a tool returns if it has more to give than a value: a text of its own for the model, data, images and files.

import { checkKeys, grouped, mismatch } from "../kernel/check.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";
import { deepFreeze, unsoundness, type JsonValue } from "../kernel/json.ts";
import { AttachmentSchema, bytesOf, type Attachment } from "../protocol/attachment.ts";
import { shortened } from "./arguments/schema-words.ts";
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
  /** Images, sounds and files. Kept in the record of the step; the model is not shown them. Copied. Default none. */
  readonly attachments?: readonly Attachment[];
}

const MARK = Symbol.for("espalier.toolResult");

/** A result of a tool with all that belongs to it. Frozen. Made by `toolResult`. */
export class ToolResult {
  /** What the model reads. */
  readonly text: string;
  /** The result as plain data, if there is any. */
  readonly structured: JsonValue | undefined;
  readonly attachments: readonly Attachment[];

  constructor(options: ToolResultOptions) {
    checkKeys("toolResult", options, ["text", "structured", "attachments"]);
    const { text, structured, attachments } = options;
    if (text !== undefined && typeof text !== "string")
      throw mismatch("toolResult.text", "a text", text, "Leave it out to show the data.");
    this.structured = structuredOf(structured);
    this.attachments = attachmentsOf(attachments);
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
        `Expected ${field} to be data that can be kept, got some in which ${reason}. Leave that out.`,
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

function attachmentsOf(attachments: unknown = []): readonly Attachment[] {
  if (!Array.isArray(attachments)) {
    const advice = "Put it in brackets.";
    throw mismatch("toolResult.attachments", "a list", attachments, advice);
  }
  return deepFreeze(Array.from(attachments, attachmentOf));
}

function attachmentOf(attachment: unknown, index: number): Attachment {
  const field = `toolResult.attachments[${index}]`;
  const advice = "See the type Attachment.";
  if (typeof attachment !== "object" || attachment === null)
    throw mismatch(field, "a plain object", attachment, advice);
  checkKeys(field, attachment, Object.keys(AttachmentSchema.shape));
  const parsed = AttachmentSchema.safeParse(attachment);
  if (parsed.success) return parsed.data;
  const { message = "an attachment", path = [] } = parsed.error.issues[0] ?? {};
  const key = path[0];
  if (key === undefined) throw mismatch(field, message, attachment, advice);
  const got: unknown = Reflect.get(attachment, key);
  throw mismatch(`${field}.${String(key)}`, message, got, advice);
}

function defaultText(
  structured: JsonValue | undefined,
  attachments: readonly Attachment[],
): string {
  const shown = structured === undefined ? [] : [resultText(structured)];
  return [...shown, ...attachments.map(lineOf)].join("\n");
}

/** `[image/png "chart.png", 1,234 bytes]` */
function lineOf(attachment: Attachment): string {
  const { mediaType, name = "", uri } = attachment;
  const title = name === "" ? mediaType : `${mediaType} ${JSON.stringify(brief(name))}`;
  const bytes = bytesOf(attachment);
  const size = bytes === undefined ? [] : [sizeText(bytes)];
  const place =
    uri === undefined ? [] : [/[\s\p{Cc}]/u.test(uri) ? JSON.stringify(brief(uri)) : brief(uri)];
  return `[${[title, ...size, ...place].join(", ")}]`;
}

function sizeText(bytes: number): string {
  return `${grouped(bytes)} ${bytes === 1 ? "byte" : "bytes"}`;
}

/** Longer names and addresses are no use to a model. */
const MOST_CHARACTERS = 200;

function brief(text: string): string {
  return shortened(text, MOST_CHARACTERS);
}
