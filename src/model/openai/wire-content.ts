// What is no text, in the words of each interface. What an interface has no word for goes as the line that names it.

import { isHttps, type ContentPart } from "../../protocol/message-content.ts";
import type { Attachment } from "../../protocol/attachment.ts";
import { asText } from "../accepted-content.ts";

/** Writes the parts of a message, in the words of one interface. */
type PartsWriter = (content: readonly ContentPart[]) => readonly object[];

/** For Chat Completions. */
export const chatParts: PartsWriter = (content) => wireParts(content, "text", chatPart);

/** For Responses, whose results of tools are written like user messages, and which has no word for sounds. */
export const responsesParts: PartsWriter = (content) =>
  wireParts(content, "input_text", responsesPart);

function wireParts(
  content: readonly ContentPart[],
  textType: string,
  write: (attachment: Attachment) => object | undefined,
): readonly object[] {
  return content.map((part) => {
    const { text } = asText(part);
    return (part.type === "text" ? undefined : write(part)) ?? { type: textType, text };
  });
}

function chatPart(attachment: Attachment): object | undefined {
  const address = addressOf(attachment);
  switch (attachment.type) {
    case "image":
      return address === undefined ? undefined : { type: "image_url", image_url: { url: address } };
    case "audio":
      return audioPart(attachment);
    case "file":
      return attachment.data === undefined || address === undefined
        ? undefined
        : { type: "file", file: { filename: fileName(attachment), file_data: address } };
  }
}

function audioPart({ data, mediaType }: Attachment): object | undefined {
  const format = AUDIO_FORMATS[mediaType.toLowerCase()];
  if (data === undefined || format === undefined) return undefined;
  return { type: "input_audio", input_audio: { data, format } };
}

/** The formats of sound that there are words for. */
const AUDIO_FORMATS: Readonly<Record<string, string>> = {
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3",
  "audio/wav": "wav",
  "audio/x-wav": "wav",
};

function responsesPart(attachment: Attachment): object | undefined {
  const address = addressOf(attachment);
  if (address === undefined) return undefined;
  switch (attachment.type) {
    case "image":
      return { type: "input_image", image_url: address, detail: "auto" };
    case "audio":
      return undefined;
    case "file":
      return attachment.data === undefined
        ? { type: "input_file", file_url: address }
        : { type: "input_file", filename: fileName(attachment), file_data: address };
  }
}

/** Where the provider has its bytes: within the address, or where it fetches them itself. */
function addressOf({ data, mediaType, uri }: Attachment): string | undefined {
  if (data !== undefined) return `data:${mediaType};base64,${data}`;
  return isHttps(uri) ? uri : undefined;
}

/** Servers want one. */
function fileName({ name = "", mediaType }: Attachment): string {
  return name === "" ? `file.${mediaType.split(/[/;]/)[1] ?? "bin"}` : name;
}
