// Images and files of a known size, and roles that get them.

import type { Attachment } from "../../src/protocol/attachment.ts";
import type { ContentPart } from "../../src/protocol/message-content.ts";

/** The beginning of a PNG that says so many pixels, in base64. */
export function png(width: number, height: number, more = 0): string {
  const head = Buffer.alloc(24 + more);
  head.writeUInt32BE(0x89_50_4e_47, 0);
  head.write("IHDR", 12);
  head.writeUInt32BE(width, 16);
  head.writeUInt32BE(height, 20);
  return head.toString("base64");
}

/** The beginning of a JPEG that says so many pixels, behind so many bytes of its camera's. */
export function jpeg(width: number, height: number, noted = 0): string {
  const note = Buffer.alloc(4 + noted);
  note.writeUInt16BE(0xff_e1, 0);
  note.writeUInt16BE(2 + noted, 2);
  const frame = Buffer.from([0xff, 0xc0, 0, 17, 8, 0, 0, 0, 0, 3]);
  frame.writeUInt16BE(height, 5);
  frame.writeUInt16BE(width, 7);
  return Buffer.concat([Buffer.from([0xff, 0xd8]), note, frame]).toString("base64");
}

export const CHART: Attachment = {
  type: "image",
  mediaType: "image/png",
  name: "chart.png",
  data: png(750, 1_000),
};
export const CHART_LINE = '[image/png "chart.png", 24 bytes]';
export const REPORT: Attachment = {
  type: "file",
  mediaType: "application/pdf",
  name: "report.pdf",
  data: Buffer.from("%PDF-1.7 of a report").toString("base64"),
};
export const REPORT_LINE = '[application/pdf "report.pdf", 20 bytes]';
export const SOUND: Attachment = {
  type: "audio",
  mediaType: "audio/wav",
  data: Buffer.from("RIFF").toString("base64"),
};
export const SOUND_LINE = "[audio/wav, 4 bytes]";
export const PHOTO: Attachment = {
  type: "image",
  mediaType: "image/jpeg",
  uri: "https://example.com/photo.jpg",
};
export const PHOTO_LINE = "[image/jpeg, https://example.com/photo.jpg]";

export const words = (text: string): ContentPart => ({ type: "text", text });

/** Content with text and every kind of attachment. */
export const SAID: readonly ContentPart[] = [
  words("Compare"),
  CHART,
  words("with"),
  REPORT,
  SOUND,
  PHOTO,
];
export const SAID_TEXT = ["Compare", CHART_LINE, "with", REPORT_LINE, SOUND_LINE, PHOTO_LINE].join(
  "\n",
);
