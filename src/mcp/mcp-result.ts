// From the result of an MCP tool to what the model reads and what is kept with the call.

import type { CallToolResult } from "@modelcontextprotocol/client";

import { canonicalJson, type JsonObject } from "../kernel/json.ts";
import { attachmentLine, AttachmentSchema, type Attachment } from "../protocol/attachment.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";

/** A result as we keep it. */
export interface McpResult {
  /** What the model reads: the text parts, one under the other, and a line for each part that is no text. */
  readonly text: string;
  /** Images, sounds, resources and links to resources. */
  readonly attachments: readonly Attachment[];
  /** The result as data, if the tool gives it. */
  readonly structured?: JsonObject;
}

type Part = CallToolResult["content"][number];
type Resource = Extract<Part, { readonly type: "resource" }>["resource"];

/** Reads a result. Pure. */
export function mcpResult(result: CallToolResult): McpResult {
  const parts = result.content.map(readPart);
  const attachments = parts.flatMap(({ attachment }) => attachment ?? []);
  const lines = parts.map(({ text }) => text);
  if (result.structuredContent === undefined) return { text: lines.join("\n"), attachments };
  const structured = JsonObjectSchema.parse(result.structuredContent);
  // A server should give the same as text, too; where it does not, the model reads the data.
  const hasText = result.content.some(({ type }) => type === "text");
  const all = hasText ? lines : [canonicalJson(structured), ...lines];
  return { text: all.join("\n"), attachments, structured };
}

interface ReadPart {
  readonly text: string;
  readonly attachment?: Attachment;
}

function readPart(part: Part): ReadPart {
  switch (part.type) {
    case "text":
      return { text: part.text };
    case "image":
    case "audio": {
      const { type, data } = part;
      return withAttachment({ type, mediaType: part.mimeType, data });
    }
    case "resource":
      return readResource(part.resource);
    case "resource_link": {
      const { uri, name, description } = part;
      const { mimeType: mediaType = UNKNOWN } = part;
      const link = withAttachment({ type: kindOf(mediaType), mediaType, name, uri });
      return description === undefined ? link : { ...link, text: `${link.text} ${description}` };
    }
  }
}

/** A text is for the model to read; it is kept as well, with its address. */
function readResource(resource: Resource): ReadPart {
  const { uri } = resource;
  if ("text" in resource) {
    const { mimeType: mediaType = "text/plain" } = resource;
    const part = withAttachment({ type: kindOf(mediaType), mediaType, uri, text: resource.text });
    return { ...part, text: `${part.text}\n${resource.text}` };
  }
  const { mimeType: mediaType = UNKNOWN } = resource;
  return withAttachment({ type: kindOf(mediaType), mediaType, uri, data: resource.blob });
}

/** An attachment, and the line that names it to the model: the same as for tools of our own. One that cannot be read costs no other. */
function withAttachment(given: Attachment): ReadPart {
  const { data } = given;
  const parsed = AttachmentSchema.safeParse({
    ...given,
    mediaType: mediaTypeOf(given.mediaType),
    ...(data === undefined ? {} : { data: data.replaceAll(/\s/g, "") }),
  });
  if (parsed.success) {
    const { data: attachment } = parsed;
    return { text: attachmentLine(attachment), attachment };
  }
  const field = parsed.error.issues[0]?.path[0] ?? "content";
  return { text: `[${given.type}, left out: its ${String(field)} cannot be read]` };
}

const UNKNOWN = "application/octet-stream";

/** What servers give instead of a media type must not cost the rest. */
function mediaTypeOf(given: string): string {
  return AttachmentSchema.shape.mediaType.safeParse(given).success ? given : UNKNOWN;
}

function kindOf(mediaType: string): Attachment["type"] {
  if (mediaType.startsWith("image/")) return "image";
  return mediaType.startsWith("audio/") ? "audio" : "file";
}
