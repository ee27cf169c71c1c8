import { z } from "./late-zod.ts";

const MEDIA_TYPE = /^[\w.+!#$&^-]{1,127}\/[\w.+!#$&^-]{1,127}(?:;[^\p{Cc}]{0,255})?$/u;

/** Something that came with the result of a tool and is no text for the model: kept with the call, and named to the model. */
export interface Attachment {
  readonly type: "image" | "audio" | "file";
  /** Such as `image/png`. */
  readonly mediaType: string;
  /** The name that the model reads. */
  readonly name?: string | undefined;
  /** Where it is to be had. Left out: it has `data` or `text`; beside it, it may have one of them. */
  readonly uri?: string | undefined;
  /** Its bytes in base64, in one piece; the padding may be missing. */
  readonly data?: string | undefined;
  /** Its text, if it is one. Never beside `data`. */
  readonly text?: string | undefined;
}

/** Each message names what was expected. */
export const AttachmentSchema = z
  .strictObject({
    type: z.enum(["image", "audio", "file"], "image, audio or file"),
    mediaType: z.string("a text").regex(MEDIA_TYPE, "a media type such as image/png"),
    name: z.string("a text").optional(),
    uri: z.string("a text").min(1, "an address").optional(),
    data: z.string("a text").refine(isBase64, "bytes in base64").optional(),
    text: z.string("a text").optional(),
  })
  .refine(
    hasContent,
    "something with a uri, or with either data or text",
  ) satisfies z.ZodType<Attachment>;

/** How many bytes it holds; undefined if it only names where they are. */
export function bytesOf({ data, text }: Attachment): number | undefined {
  if (data !== undefined) return Math.floor((unpadded(data).length * 3) / 4);
  return text === undefined ? undefined : new TextEncoder().encode(text).length;
}

// Looks for the first wrong character: a pattern of the whole runs out of stack with many megabytes.
function isBase64(data: string): boolean {
  const digits = unpadded(data);
  const padding = data.length - digits.length;
  const isWhole = padding === 0 ? digits.length % 4 !== 1 : data.length % 4 === 0;
  return isWhole && padding <= 2 && !/[^A-Za-z0-9+/]/.test(digits);
}

function unpadded(data: string): string {
  const padding = data.endsWith("==") ? 2 : Number(data.endsWith("="));
  return data.slice(0, data.length - padding);
}

function hasContent({ uri, data, text }: Attachment): boolean {
  if (data !== undefined && text !== undefined) return false;
  return uri !== undefined || data !== undefined || text !== undefined;
}
