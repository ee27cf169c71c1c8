// Converts the tools of a server to tools for agents.

import type { CallToolResult, Tool } from "@modelcontextprotocol/client";
import {
  trace,
  context,
  createContextKey,
  propagation,
  type Attributes,
  type Baggage,
  type Span,
} from "@opentelemetry/api";

import { isPromiseLike } from "../kernel/cancel-signal.ts";
import { groupDigits, mismatch } from "../kernel/argument-checks.ts";
import { getErrorMessage, type EspalierError } from "../kernel/error.ts";
import { deepFreeze, omitUndefined, type JsonObject, stringifyCanonical } from "../kernel/json.ts";
import { hasSecret, redactValues } from "../kernel/redact-values.ts";
import { completeSentence } from "../kernel/sentence.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import {
  createServerSchema,
  createServerSchemaCheck,
} from "../tools/arguments/json-schema-input.ts";
import { countParts } from "../tools/arguments/schema-size.ts";
import { defineTool } from "../tools/define-tool.ts";
import type { ToolContext } from "../tools/tool-context.ts";
import { ToolError } from "../tools/tool-error.ts";
import { toolResult } from "../tools/tool-result.ts";
import type { FunctionTool } from "../tools/tool.ts";
import type { McpConnection, McpListing, McpProgress } from "./mcp-connection.ts";
import { findTransportSecrets, McpFault, type McpFaultKind } from "./mcp-fault.ts";
import type { McpSettings, McpTool, SkippedMcpTool } from "./mcp-options.ts";
import { formatAttachmentLine, AttachmentSchema, type Attachment } from "../protocol/attachment.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import { OWN_BAGGAGE } from "../protocol/tracing.ts";

/** Usable and skipped tools of a server. */
export interface McpToolset {
  readonly tools: readonly FunctionTool[];
  readonly skipped: readonly SkippedMcpTool[];
  /** Instructions of the server for models. */
  readonly instructions: string | undefined;
}

/** Maximum work of compiling the schemas of a list. Each request to a model contains them all. */
const MAX_WORK = 50_000;

/**
 * Creates the tools. A tool that cannot be used is skipped, so that the others can be used. Other
 * work of the process runs between two tools.
 */
export async function createMcpToolset(
  settings: McpSettings,
  connection: McpConnection,
  listed: McpListing,
): Promise<McpToolset> {
  const tools: FunctionTool[] = [];
  const { unreadable } = listed;
  const secrets = findTransportSecrets(settings.transport);
  const instructions = listed.instructions && redactValues(listed.instructions, secrets);
  const skipped: SkippedMcpTool[] = [...unreadable];
  const names = new Map<string, string>();
  let work = 0;
  for (const tool of listed.tools) {
    const { title, description, annotations = {} } = tool;
    const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = annotations;
    const hints = { readOnlyHint, destructiveHint, idempotentHint, openWorldHint };
    const texts = omitUndefined({ title, description });
    const descriptor = deepFreeze({ name: tool.name, ...texts, annotations: omitUndefined(hints) });
    // Any other value would silently select the tool, or leave it out.
    const isSelected: unknown = settings.filter(descriptor);
    if (typeof isSelected !== "boolean") throw createFilterError(tool.name, isSelected);
    if (!isSelected) continue;
    // Servers may use characters in names that providers of models reject.
    const name = `${settings.prefix}${tool.name.replaceAll(/[^A-Za-z0-9_-]/gu, "_")}`;
    const more = countParts(tool.inputSchema) + countParts(tool.outputSchema);
    const reason =
      findProblem(name, tool, names.get(name)) ??
      (work + more > MAX_WORK
        ? `With it, the schemas of the list have more than ${groupDigits(MAX_WORK)} parts. Select fewer tools with filter.`
        : undefined);
    if (reason !== undefined) {
      skipped.push({ name: tool.name, reason });
      continue;
    }
    work += more;
    await new Promise((resolve) => setImmediate(resolve));
    try {
      tools.push(createMcpTool({ settings, connection, tool }, name, descriptor));
      names.set(name, tool.name);
    } catch (cause) {
      skipped.push({ name: tool.name, reason: completeSentence(getErrorMessage(cause)) });
    }
  }
  return deepFreeze({ tools, skipped, instructions });
}

function createFilterError(toolName: string, answer: unknown): EspalierError {
  // A promise is a wrong answer here. Its rejection must not go unhandled.
  if (isPromiseLike(answer)) Promise.resolve(answer).catch(() => undefined);
  const field = `the answer of connectMcp.filter about ${JSON.stringify(toolName)}`;
  return mismatch(field, "true or false", answer, "Return true or false synchronously.");
}

const MAX_NAME_CHARACTERS = 64;

/**
 * Returns the reason why a tool cannot be called. `other` is the tool that already has the same
 * name.
 */
function findProblem(name: string, tool: Tool, other: string | undefined): string | undefined {
  if (tool.execution?.taskSupport === "required")
    return "It can only be called as a task (execution.taskSupport is required), which is not supported.";
  if (tool.name === "") return "It has no name.";
  if (name.length > MAX_NAME_CHARACTERS)
    return `Its name has more than ${MAX_NAME_CHARACTERS} characters with its prefix. Choose a shorter prefix.`;
  if (other === undefined) return undefined;
  return `Its name becomes ${JSON.stringify(name)}, which is also the name of the tool ${JSON.stringify(other)}.`;
}

/** Tool with the connection to its server. */
interface Callee {
  readonly settings: McpSettings;
  readonly connection: McpConnection;
  readonly tool: Tool;
}

function createMcpTool(callee: Callee, name: string, descriptor: McpTool): FunctionTool {
  const { settings, tool } = callee;
  const { needsApproval: approval } = settings;
  const { readOnlyHint, destructiveHint, idempotentHint } = descriptor.annotations;
  // By the protocol, a tool without hints may change and destroy things.
  const mayDestroy = readOnlyHint !== true && destructiveHint !== false;
  const rule = approval === "destructive" ? mayDestroy : approval;
  const needsApproval =
    typeof rule === "function"
      ? (input: JsonObject, context: ToolContext) => rule(descriptor, input, context)
      : rule;
  const words = [tool.description, tool.title, tool.annotations?.title];
  // Throws for an invalid schema. Results are checked against it at each call.
  if (tool.outputSchema !== undefined) createServerSchemaCheck("outputSchema", tool.outputSchema);
  return defineTool({
    name,
    description: words.find((text) => text !== undefined && text.trim() !== "") ?? tool.name,
    inputSchema: createServerSchema(JsonObjectSchema().parse(structuredClone(tool.inputSchema))),
    timeoutMs: settings.timeoutMs,
    ...omitUndefined({ needsApproval }),
    retryAfterCrash: !mayDestroy || idempotentHint === true,
    execute: (input: JsonObject, context: ToolContext) => execute(callee, input, context),
  });
}

async function execute(
  { settings, connection, tool }: Callee,
  input: JsonObject,
  context: ToolContext,
): Promise<unknown> {
  const span = trace.getActiveSpan();
  const secrets = findTransportSecrets(settings.transport);
  // Servers may report negative numbers and texts of any length.
  const onProgress = ({ progress: done, total, message = "" }: McpProgress): void =>
    context.reportProgress({
      ...(done < 0 ? {} : { done }),
      ...(total === undefined || total < 0 ? {} : { total }),
      ...(message.trim() === ""
        ? {}
        : { message: redactValues(message, secrets).slice(0, MAX_PROGRESS_CHARACTERS) }),
    });
  let result: CallToolResult;
  try {
    const call = { tool, arguments: input, trace: getCurrentTrace(), onProgress, caller: context };
    result = await connection.call(call, context.signal);
  } catch (cause) {
    if (!(cause instanceof McpFault)) throw cause;
    const { name: server } = settings;
    const { kind, message, detail } = cause;
    const [failed, hint] = FAILURES[kind];
    const words = `The MCP server ${JSON.stringify(server)} ${failed}: ${completeSentence(message)}`;
    const data = { server, tool: tool.name, reason: kind, ...omitUndefined({ detail }) };
    throw new ToolError(words, { ...omitUndefined({ hint }), data, cause });
  } finally {
    describeCall(span, connection.attributes);
  }
  const { text, attachments, structured } = readMcpResult(result);
  if (result.isError === true) {
    const safe = attachments.filter((attachment) => !hasSecret(attachment, secrets));
    const message = text === "" ? "It gave no reason." : redactValues(text, secrets);
    throw new ToolError(message, safe.length === 0 ? {} : { attachments: safe });
  }
  const attached = attachments.length === 0 ? {} : { attachments };
  return toolResult({ text, ...attached, ...omitUndefined({ structured }) });
}

/** Maximum length of a progress message. A call may report progress a thousand times. */
const MAX_PROGRESS_CHARACTERS = 2_000;

const NOTHING_DONE = "Nothing was done. Do without it if you can.";

/** Words about the server, and an instruction for the model, by the kind of fault. */
const FAILURES: Readonly<Record<McpFaultKind, readonly [failed: string, hint?: string]>> = {
  lost: [
    "disconnected during the call",
    "The call may have taken effect: check that before you call it again.",
  ],
  too_large: [
    "returned an answer that is too long",
    "The call may have taken effect. Request less if you can.",
  ],
  unreachable: ["cannot be reached", NOTHING_DONE],
  not_taken: ["cannot be reached", NOTHING_DONE],
  unauthorized: [
    "rejected the credentials",
    "Nothing was done. Do without it, and say that it needs credentials.",
  ],
  answered: ["refused the call"],
  invalid: ["returned an unusable answer"],
  closed: ["did not finish the call"],
  cancelled: ["did not finish the call"],
};

// Converts the result of an MCP tool to a text for the model and attachments for the record.

type Part = CallToolResult["content"][number];

/** Converts a result. Pure. */
export function readMcpResult(result: CallToolResult): {
  /** Text for the model: the text parts, and one line for each other part. */
  readonly text: string;
  /** Images, sounds, resources and links to resources. */
  readonly attachments: readonly Attachment[];
  /** Structured content, if the tool returns it. */
  readonly structured?: JsonObject;
} {
  const parts = result.content.map(readPart);
  const attachments = parts.flatMap(({ attachment }) => attachment ?? []);
  const lines = parts.map(({ text }) => text);
  if (result.structuredContent === undefined) return { text: lines.join("\n"), attachments };
  const structured = JsonObjectSchema().parse(result.structuredContent);
  // A server should return the same data as text, too. If it does not, the model reads the data.
  const hasText = result.content.some(({ type }) => type === "text");
  const all = hasText ? lines : [stringifyCanonical(structured), ...lines];
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
      return readAttachmentPart({ type, mediaType: part.mimeType, data });
    }
    case "resource": {
      const { resource } = part;
      const { uri } = resource;
      if (!("text" in resource)) {
        const { mimeType: mediaType = UNKNOWN, blob: data } = resource;
        return readAttachmentPart({ type: chooseKind(mediaType), mediaType, uri, data });
      }
      // The model reads the text, which is also attached with its URI.
      const { mimeType: mediaType = "text/plain", text } = resource;
      const attachment = readAttachmentPart({ type: chooseKind(mediaType), mediaType, uri, text });
      return { ...attachment, text: `${attachment.text}\n${text}` };
    }
    case "resource_link": {
      const { uri, name, description } = part;
      const { mimeType: mediaType = UNKNOWN } = part;
      const link = readAttachmentPart({ type: chooseKind(mediaType), mediaType, name, uri });
      return description === undefined ? link : { ...link, text: `${link.text} ${description}` };
    }
  }
}

/**
 * Returns the attachment, and the line that names it to the model, as for our own tools. An invalid
 * attachment is replaced by a note.
 */
function readAttachmentPart(input: Attachment): ReadPart {
  const { data } = input;
  // An invalid media type must not invalidate the whole attachment.
  const isMediaType = AttachmentSchema().shape.mediaType.safeParse(input.mediaType).success;
  const parsed = AttachmentSchema().safeParse({
    ...input,
    mediaType: isMediaType ? input.mediaType : UNKNOWN,
    ...(data === undefined ? {} : { data: data.replaceAll(/\s/g, "") }),
  });
  if (parsed.success) {
    const { data: attachment } = parsed;
    return { text: formatAttachmentLine(attachment), attachment };
  }
  const field = parsed.error.issues[0]?.path[0] ?? "content";
  return { text: `[${input.type}, left out: its ${String(field)} cannot be read]` };
}

const UNKNOWN = "application/octet-stream";

function chooseKind(mediaType: string): Attachment["type"] {
  if (mediaType.startsWith("image/")) return "image";
  return mediaType.startsWith("audio/") ? "audio" : "file";
}

/** Fields of the trace context that are sent to a server. */
const FIELDS = ["traceparent", "tracestate", "baggage"] as const;

/**
 * Returns the current trace context in W3C form, for a server to continue. Empty without tracing.
 * Its baggage has only the entries that espalier added, because the others are private to the
 * application. Never throws: if a propagator throws, emits one warning and sends nothing.
 */
export function getCurrentTrace(): Readonly<Record<string, string>> {
  try {
    const carrier: Record<string, unknown> = {};
    const baggage = context.active().getValue(createContextKey(OWN_BAGGAGE));
    const bare = propagation.deleteBaggage(context.active());
    propagation.inject(isBaggage(baggage) ? propagation.setBaggage(bare, baggage) : bare, carrier);
    const entries = FIELDS.flatMap((field) => {
      const value = carrier[field];
      return typeof value === "string" && value !== "" ? [[field, value] as const] : [];
    });
    return Object.fromEntries(entries);
  } catch (cause) {
    warnOnce(
      propagation,
      `The propagator of OpenTelemetry threw (${getErrorMessage(cause)}). MCP servers get no trace context; tools are not affected.`,
    );
    return {};
  }
}

/** Sets attributes on the span of a call. Never throws. */
function describeCall(span: Span | undefined, attributes: Attributes): void {
  try {
    span?.setAttributes(attributes);
  } catch (cause) {
    const message = `A span threw (${getErrorMessage(cause)}); it lacks the attributes of its MCP server.`;
    warnOnce(describeCall, message);
  }
}

/**
 * True for baggage. Used for the baggage that espalier added, under a key that all copies of the
 * package share.
 */
function isBaggage(value: unknown): value is Baggage {
  return typeof value === "object" && value !== null && "getAllEntries" in value;
}
