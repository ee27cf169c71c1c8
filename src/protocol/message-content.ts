// Content of a message to a model: a text, or parts that include non-text parts. Pure.

import { checkKeys, checkText, groupDigits, mismatch } from "../kernel/argument-checks.ts";
import { deepFreeze, isRecord } from "../kernel/json.ts";
import { truncateText } from "../kernel/sentence.ts";
import {
  AttachmentSchema,
  formatAttachmentLine,
  findAttachmentSize,
  type Attachment,
} from "./attachment.ts";
import { lazySchema, z } from "./lazy-schema.ts";

/**
 * Part of a message: a text, or an image, audio or other file. Narrow it by `type`.
 *
 * @example
 * ```ts
 * const parts: readonly ContentPart[] = [
 *   { type: "text", text: "What does this chart show?" },
 *   { type: "image", mediaType: "image/png", uri: "https://example.com/chart.png" },
 * ];
 * ```
 */
export type ContentPart = { readonly type: "text"; readonly text: string } | Attachment;

/**
 * Content of a message or a task: a text, or parts in reading order.
 *
 * @example
 * ```ts
 * const task: MessageContent = [
 *   { type: "text", text: "Transcribe the recording." },
 *   { type: "audio", mediaType: "audio/wav", name: "call.wav", data: "UklGRg==" },
 * ];
 * const transcription = orchestrator.start(role, task);
 * ```
 */
export type MessageContent = string | readonly ContentPart[];

export const ContentPartSchema = lazySchema(
  () =>
    z.union([
      z.strictObject({ type: z.literal("text"), text: z.string() }),
      AttachmentSchema(),
    ]) satisfies z.ZodType<ContentPart>,
);

export const ContentSchema = lazySchema(() => z.array(ContentPartSchema()).min(1).readonly());

/** Schema of message content: a text, or parts. */
export const MessageContentSchema = lazySchema(
  () => z.union([z.string(), ContentSchema()]) satisfies z.ZodType<MessageContent>,
);

/** Maximum bytes of an attachment, and of all attachments of a request. */
export const MOST_ATTACHMENT_BYTES = 20_000_000;
export const MOST_REQUEST_BYTES = 50_000_000;

/** Returns the content as text, with one line for each part that is not text. */
export function formatContent(content: MessageContent): string {
  if (typeof content === "string") return content;
  const texts = content.map((part) => {
    if (part.type === "text") return part.text;
    const line = formatAttachmentLine(part);
    return part.text === undefined ? line : `${line}\n${part.text}`;
  });
  return texts.join("\n");
}

/** Returns true for a part that text cannot represent. */
export function isAttached(part: ContentPart): part is Attachment {
  return part.type !== "text" && part.text === undefined;
}

/**
 * Returns the content with another text. The text may contain attachment lines; non-text parts
 * follow it.
 */
export function replaceText(content: MessageContent, text: string): MessageContent {
  if (typeof content === "string") return text;
  const attached = content.filter(isAttached);
  let words = text;
  for (const attachment of attached) words = words.replace(formatAttachmentLine(attachment), "");
  return words.trim() === "" ? attached : [{ type: "text", text: words.trim() }, ...attached];
}

/** Returns the number of bytes of attachments that a request has to carry. */
export function countContentBytes(content: readonly ContentPart[]): number {
  return content.reduce(
    (sum, part) => sum + (isAttached(part) ? (findAttachmentSize(part) ?? 0) : 0),
    0,
  );
}

/**
 * Returns a copy of user content, with bytes in place of `data:` URLs. Returns a text if the
 * content is nothing more.
 *
 * @throws EspalierError `invalid_argument` for an empty text, or for parts that cannot be sent.
 */
export function copyContent(field: string, value: unknown): MessageContent {
  if (!Array.isArray(value)) {
    checkText(field, value);
    return String(value);
  }
  if (value.length === 0)
    throw mismatch(field, "at least one part", value, "Add at least one part of text.");
  const content = deepFreeze(
    Array.from(value, (part: unknown, index) => checkPart(`${field}[${index}]`, part)),
  );
  checkBytes(field, countContentBytes(content), MOST_REQUEST_BYTES, "Remove some parts.");
  return content.some(isAttached) ? content : formatContent(content);
}

const PART_TYPES: readonly unknown[] = ["text", "image", "audio", "file"];

function checkPart(field: string, part: unknown): ContentPart {
  const { type, text: partText } = requireObject(field, part);
  if (!PART_TYPES.includes(type)) {
    const advice = "See the type ContentPart.";
    throw mismatch(`${field}.type`, "text, image, audio or file", type, advice);
  }
  if (type === "text") {
    checkKeys(field, part, ["type", "text"]);
    checkText(`${field}.text`, partText);
    return { type: "text", text: String(partText) };
  }
  const attachment = checkAttachment(field, part);
  checkBytes(field, findAttachmentSize(attachment) ?? 0, MOST_ATTACHMENT_BYTES, "Make it smaller.");
  const { data, text, uri } = attachment;
  if (data === "")
    throw mismatch(
      `${field}.data`,
      "bytes in base64",
      data,
      "Pass the bytes of the file: it is empty.",
    );
  if (data !== undefined || text !== undefined || isHttps(uri)) return attachment;
  const advice = "espalier fetches nothing. Pass other content as data.";
  throw mismatch(`${field}.uri`, "an https: or data: URL", shortenQuoted(uri), advice);
}

function checkBytes(field: string, bytes: number, most: number, advice: string): void {
  if (bytes > most) throw mismatch(field, `at most ${groupDigits(most)} bytes`, bytes, advice);
}

/** Returns true if providers can fetch the URI themselves. */
export function isHttps(uri: string | undefined): boolean {
  return uri !== undefined && URL.canParse(uri) && new URL(uri).protocol === "https:";
}

/** Returns frozen copies of attachments. Throws `invalid_argument` if any is invalid. */
export function copyAttachments(field: string, values: unknown = []): readonly Attachment[] {
  if (!Array.isArray(values)) throw mismatch(field, "an array", values, "Pass an array: [a, b].");
  return deepFreeze(
    Array.from(values, (value: unknown, index) => checkAttachment(`${field}[${index}]`, value)),
  );
}

function checkAttachment(field: string, value: unknown): Attachment {
  const advice = "See the type Attachment.";
  const fields = requireObject(field, value);
  const { uri, ...others } = fields;
  // A `data:` URL is replaced by its bytes.
  const isBare = typeof uri === "string" && !("data" in others) && !("text" in others);
  const [head] = (isBare && DATA_ADDRESS.exec(uri)) || [];
  const attachment =
    isBare && head !== undefined ? { ...others, data: uri.slice(head.length) } : fields;
  checkKeys(field, attachment, Object.keys(AttachmentSchema().shape));
  const parsed = AttachmentSchema().safeParse(attachment);
  if (parsed.success) return parsed.data;
  const { message = "an attachment", path = [] } = parsed.error.issues[0] ?? {};
  const key = path[0];
  if (key === undefined) throw mismatch(field, message, attachment, advice);
  const got: unknown = Reflect.get(attachment, key);
  throw mismatch(`${field}.${String(key)}`, message, shortenQuoted(got), advice);
}

type GivenFields = Readonly<Record<string, unknown>>;

function requireObject(field: string, value: unknown): GivenFields {
  if (isRecord(value)) return value;
  throw mismatch(field, "a plain object", value, "See the type Attachment.");
}

const DATA_ADDRESS = /^data:[^,]{0,255};base64,/i;

/** Shortens a quoted value, since bytes are not quoted in full. */
function shortenQuoted(got: unknown): unknown {
  return typeof got === "string" ? truncateText(got, MOST_QUOTED) : got;
}

const MOST_QUOTED = 60;
