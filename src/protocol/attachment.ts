import { groupDigits } from "../kernel/argument-checks.ts";
import { truncateText } from "../kernel/sentence.ts";
import { lazySchema, z } from "./lazy-schema.ts";

const MEDIA_TYPE = /^[\w.+!#$&^-]{1,127}\/[\w.+!#$&^-]{1,127}(?:;[^\p{Cc}]{0,255})?$/u;

/**
 * Kind of an attachment. A model accepts it if its `inputModalities` contain the kind.
 *
 * @example
 * ```ts
 * const accepted: readonly AttachmentKind[] = model.inputModalities ?? [];
 * ```
 */
export type AttachmentKind = "image" | "audio" | "file";

/**
 * Image, audio or other file in a message or a tool result.
 *
 * Models that accept its kind receive it. Other models read one line that names it. It needs `uri`,
 * `data` or `text`; `data` and `text` exclude each other.
 *
 * @example
 * ```ts
 * import { readFileSync } from "node:fs";
 * const chart: Attachment = {
 *   type: "image",
 *   mediaType: "image/png",
 *   name: "chart.png",
 *   data: readFileSync("chart.png").toString("base64"),
 * };
 * ```
 */
export interface Attachment {
  /** Kind of the attachment. */
  readonly type: AttachmentKind;
  /** Media type, such as `image/png`. */
  readonly mediaType: string;
  /** File name that the model reads. */
  readonly name?: string | undefined;
  /** URL of the content: `https:` or `data:`. May accompany `data` or `text`. */
  readonly uri?: string | undefined;
  /** Content as base64, with or without padding. */
  readonly data?: string | undefined;
  /** Content as text, for text files. */
  readonly text?: string | undefined;
}

export const AttachmentKindSchema = lazySchema(
  () =>
    z.enum(["image", "audio", "file"], "image, audio or file") satisfies z.ZodType<AttachmentKind>,
);

/** Each message names the expected value. */
export const AttachmentSchema = lazySchema(
  () =>
    z
      .strictObject({
        type: AttachmentKindSchema(),
        mediaType: z.string("a string").regex(MEDIA_TYPE, "a media type such as image/png"),
        name: z.string("a string").optional(),
        uri: z.string("a string").min(1, "a URL").optional(),
        data: z.string("a string").refine(isBase64, "bytes in base64").optional(),
        text: z.string("a string").optional(),
      })
      .refine(
        hasOneContent,
        "something with a uri, or with either data or text",
      ) satisfies z.ZodType<Attachment>,
);

/** Returns the size of an attachment in bytes. `undefined` if it has only a `uri`. */
export function findAttachmentSize({ data, text }: Attachment): number | undefined {
  if (data !== undefined) return Math.floor((removePadding(data).length * 3) / 4);
  return text === undefined ? undefined : new TextEncoder().encode(text).length;
}

/**
 * Returns the line for models that cannot read the attachment: `[image/png "chart.png", 1,234
 * bytes]`.
 */
export function formatAttachmentLine(attachment: Attachment): string {
  const { mediaType, name = "", uri } = attachment;
  const title = name === "" ? mediaType : `${mediaType} ${JSON.stringify(shortenName(name))}`;
  const bytes = findAttachmentSize(attachment);
  const size =
    bytes === undefined ? [] : [`${groupDigits(bytes)} ${bytes === 1 ? "byte" : "bytes"}`];
  const place =
    uri === undefined
      ? []
      : [/[\s\p{Cc}]/u.test(uri) ? JSON.stringify(shortenName(uri)) : shortenName(uri)];
  return `[${[title, ...size, ...place].join(", ")}]`;
}

/** Maximum length of a shown name or address. Longer ones do not help a model. */
const MOST_CHARACTERS = 200;

function shortenName(text: string): string {
  return truncateText(text, MOST_CHARACTERS);
}

// Returns true for base64. Searches for the first invalid character, since a pattern over many
// megabytes overflows the stack.
function isBase64(data: string): boolean {
  const digits = removePadding(data);
  const padding = data.length - digits.length;
  const isWhole = padding === 0 ? digits.length % 4 !== 1 : data.length % 4 === 0;
  return isWhole && padding <= 2 && !/[^A-Za-z0-9+/]/.test(digits);
}

function removePadding(data: string): string {
  const padding = data.endsWith("==") ? 2 : Number(data.endsWith("="));
  return data.slice(0, data.length - padding);
}

function hasOneContent({ uri, data, text }: Attachment): boolean {
  if (data !== undefined && text !== undefined) return false;
  return uri !== undefined || data !== undefined || text !== undefined;
}
