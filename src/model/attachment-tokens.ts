// How many tokens of a request are no text, until the provider has counted them. Providers do not say how they count; these are the figures
// that they give for orientation. Pure.

import { bytesOf, type Attachment } from "../protocol/attachment.ts";
import { isAttached, type ContentPart } from "../protocol/message-content.ts";

const IMAGE_TOKENS = 1_600;
const PIXELS_PER_TOKEN = 750;
const LEAST_IMAGE_TOKENS = 85;
const MOST_IMAGE_TOKENS = 4_800;
const FILE_TOKENS = 2_000;
const FILE_BYTES_PER_TOKEN = 20;
const AUDIO_BYTES_PER_TOKEN = 500;

/** An estimate of the tokens of what is no text. */
export function contentTokens(content: readonly ContentPart[]): number {
  return content.filter(isAttached).reduce((sum, part) => sum + attachmentTokens(part), 0);
}

function attachmentTokens(attachment: Attachment): number {
  const { type } = attachment;
  const bytes = bytesOf(attachment) ?? 0;
  if (type === "image") return imageTokens(attachment);
  if (type === "file") return FILE_TOKENS + Math.ceil(bytes / FILE_BYTES_PER_TOKEN);
  // One that is fetched by the provider is of unknown length.
  return bytes === 0 ? FILE_TOKENS : Math.ceil(bytes / AUDIO_BYTES_PER_TOKEN);
}

function imageTokens({ data = "" }: Attachment): number {
  const header = Buffer.from(data.slice(0, HEADER_CHARACTERS), "base64");
  const pixels = pngPixels(header) ?? jpegPixels(header);
  if (pixels === undefined) return IMAGE_TOKENS;
  const tokens = Math.ceil(pixels / PIXELS_PER_TOKEN);
  return Math.min(Math.max(tokens, LEAST_IMAGE_TOKENS), MOST_IMAGE_TOKENS);
}

/** A JPEG says its size behind what its camera has noted: 64 KiB at most, or a little more. */
const HEADER_CHARACTERS = 4 * 32_768;

const PNG_SIGNATURE = 0x89_50_4e_47;
const PNG_WIDTH_AT = 16;
const PNG_HEIGHT_AT = 20;
const PNG_HEADER_BYTES = 24;

function pngPixels(header: Buffer): number | undefined {
  if (header.length < PNG_HEADER_BYTES || header.readUInt32BE(0) !== PNG_SIGNATURE)
    return undefined;
  return header.readUInt32BE(PNG_WIDTH_AT) * header.readUInt32BE(PNG_HEIGHT_AT);
}

const JPEG_SIGNATURE = 0xff_d8;
const MARKER = 0xff;
/** The segments that say how large the image is: C0 to CF, but for three that are something else. */
const FIRST_FRAME = 0xc0;
const LAST_FRAME = 0xcf;
const NO_FRAMES: readonly number[] = [0xc4, 0xc8, 0xcc];
const SEGMENT_HEAD_BYTES = 9;

function jpegPixels(header: Buffer): number | undefined {
  if (header.length < 2 || header.readUInt16BE(0) !== JPEG_SIGNATURE) return undefined;
  let at = 2;
  while (at + SEGMENT_HEAD_BYTES <= header.length && header[at] === MARKER) {
    const kind = header.readUInt8(at + 1);
    if (kind >= FIRST_FRAME && kind <= LAST_FRAME && !NO_FRAMES.includes(kind))
      return header.readUInt16BE(at + 5) * header.readUInt16BE(at + 7);
    at += 2 + header.readUInt16BE(at + 2);
  }
  return undefined;
}
