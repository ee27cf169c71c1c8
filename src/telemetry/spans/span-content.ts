// Content of spans: request and reply on `chat`, arguments and result on `execute_tool`.
// 1. This code runs only if content is enabled, and builds nothing for a span that does not record.
// 2. Content is only on the span of its own call, never on an ancestor.
// 3. Every attribute is JSON, or its beginning with a mark. Its limit is 16,384 characters, or a
//    lower one from a variable, but never below 240. The finish reason of the provider is plain
//    text.

import {
  type JsonValue,
  parseJson,
  findJsonProblem,
  type JsonObject,
  deepFreeze,
} from "../../kernel/json.ts";
import type { EventScope } from "../../protocol/event.ts";
import {
  recordShortenedNames,
  setAttribute,
  beginJson,
  cutWithMark,
  MAX_ATTRIBUTE_CHARACTERS,
} from "./bounded-attributes.ts";
import { ESPALIER, GEN_AI } from "../gen-ai-attributes.ts";
import type { OpenSpan } from "./span-maker.ts";
import { FinishReasonSchema } from "../../protocol/finish-reason.ts";
import { getReplyPieces } from "../../protocol/reply-message.ts";
import {
  type Message,
  AssistantMessageSchema,
  MessageSchema,
  type SpanContent,
} from "../../protocol/message.ts";
import { isPromiseLike } from "../../kernel/cancel-signal.ts";
import { warnOnce, NamedOffenders } from "../../kernel/warn-once.ts";
import { JsonValueSchema } from "../../protocol/json-value.ts";
import { lazyUnion, z } from "../../protocol/lazy-schema.ts";
import { checkKeys, mismatch } from "../../kernel/argument-checks.ts";
import { VariableReader, type Environment } from "../delivery/otel-variables.ts";

/** Writes content to the span of its call, as far as the settings allow. */
export function writeContent(
  { redact, maxCharacters }: ContentSettings,
  { span, opening, scope }: Pick<OpenSpan, "span" | "opening"> & { readonly scope: EventScope },
  content: SpanContent,
): void {
  const isOfModel = content.type === "request" || content.type === "reply";
  const isOfCall = isOfModel
    ? opening.type === "model.requested"
    : opening.type.startsWith("tool.");
  if (!span.isRecording() || !isOfCall) return;
  const shown = redact === undefined ? content : redactContent(redact, content, scope);
  if (shown === undefined) return;
  const shortened: string[] = [];
  for (const [name, value] of Object.entries(toContentAttributes(shown))) {
    const text = beginJson(value, maxCharacters);
    span.setAttribute(name, cutWithMark(text, maxCharacters));
    if (text.length > maxCharacters) shortened.push(name);
  }
  recordShortenedNames(span, shortened);
  if (shown.type === "reply") setAttribute(span, ESPALIER.finishReasonRaw, shown.rawFinishReason);
}

function toContentAttributes(content: SpanContent): Readonly<Record<string, JsonValue>> {
  switch (content.type) {
    case "request": {
      const { messages, tools } = content;
      // The leading system messages are the instructions of the agent.
      const firstIndex = messages.findIndex(({ role }) => role !== "system");
      const first = firstIndex === -1 ? messages.length : firstIndex;
      const instructions = messages.slice(0, first).map(({ text }) => createTextPart(text));
      const input = messages
        .slice(first)
        .map((message) => ({ role: message.role, parts: toContentParts(message) }));
      const definitions = tools.map(({ name, description, inputSchema: parameters }) => {
        return { type: "function", name, description, parameters };
      });
      return {
        ...(instructions.length === 0 ? {} : { [GEN_AI.systemInstructions]: instructions }),
        [GEN_AI.inputMessages]: input,
        ...(tools.length === 0 ? {} : { [GEN_AI.toolDefinitions]: definitions }),
      };
    }
    case "reply": {
      const { message, finishReason: reported } = content;
      const reason = reported === "tool_calls" ? "tool_call" : reported;
      const output = { role: "assistant", parts: toContentParts(message), finish_reason: reason };
      return { [GEN_AI.outputMessages]: [output] };
    }
    case "arguments":
      return { [GEN_AI.toolCallArguments]: content.value };
    case "result":
      return { [GEN_AI.toolCallResult]: parseStructure(content.text) ?? content.text };
  }
}

// Content in the shape of the GenAI semantic conventions: messages of parts. Pure.

/** Returns the parts of a message in order. A refusal counts as text. */
function toContentParts(message: Message): readonly JsonObject[] {
  if (message.role === "tool")
    return [{ type: "tool_call_response", id: message.callId, response: message.text }];
  if (message.role !== "assistant") return [createTextPart(message.text)];
  const { refusal = "" } = message;
  const parts = getReplyPieces(message).flatMap((piece): readonly JsonObject[] => {
    if (piece.type === "opaque") return [];
    if (piece.type === "call") {
      const { callId: id, toolName: name, argumentsText: text } = piece;
      const called = text.trim() === "" ? {} : parseStructure(text);
      return [{ type: "tool_call", id, name, arguments: called ?? text }];
    }
    return piece.text === "" ? [] : [{ type: piece.type, content: piece.text }];
  });
  return refusal === "" ? parts : [createTextPart(refusal), ...parts];
}

function createTextPart(content: string): JsonObject {
  return { type: "text", content };
}

/** Maximum depth. A deeper value stays text. */
const MAX_LEVELS = 200;

/**
 * Returns the object or list that a text contains as JSON. `undefined` for any other text. A text
 * that would be shortened, or whose numbers or keys parsing would change, also gives `undefined`.
 */
export function parseStructure(text: string): JsonValue | undefined {
  if (text.length > MAX_ATTRIBUTE_CHARACTERS || !/^\s*[[{]/.test(text)) return undefined;
  try {
    const value = parseJson(text);
    // The value must represent the whole text: all digits, and both of two equal keys.
    const isWhole = writeSkeleton(JSON.stringify(value)) === writeSkeleton(text);
    return isWhole && findJsonProblem(value, MAX_LEVELS) === undefined ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns JSON text without spaces and without the content of its strings, with numbers in
 * canonical form.
 */
function writeSkeleton(text: string): string {
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|\s+|-?\d[\d.eE+-]*/g, (token) => {
    if (token.startsWith('"')) return '""';
    return token.trim() === "" ? "" : normalizeNumber(token);
  });
}

/** Returns `-12.50e3` as `-125e2`. */
function normalizeNumber(token: string): string {
  const [mantissa = "", exponent = "0"] = token.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  const sign = token.startsWith("-") ? "-" : "";
  if (significant === "") return `${sign}0`;
  const power = Number(exponent) - fraction.length + digits.length - significant.length;
  return `${sign}${significant}e${power}`;
}

// Runs the redaction function of the user. Content that it does not clearly release is not
// exported.

/** Returns the content that may be exported, or `undefined` for none. Never throws. */
function redactContent(
  redact: RedactContent,
  content: SpanContent,
  scope: EventScope,
): SpanContent | undefined {
  try {
    const copy = deepFreeze(structuredClone(content));
    const result: unknown = redact(copy, deepFreeze({ ...scope }));
    if (result === undefined) return undefined;
    if (result === copy) return copy;
    // The function may return anything. Only JSON with content of the same type is exported.
    if (isPromiseLike(result)) {
      if (result instanceof Promise) result.catch(() => undefined); // Not handled elsewhere.
      throw new UnfitContent("it returned a promise; it must be synchronous");
    }
    const text: string | undefined = JSON.stringify(result);
    if (text === undefined) throw new UnfitContent(`it returned a value of type ${typeof result}`);
    const value = parseJson(text);
    const reason = findJsonProblem(value, MAX_CONTENT_LEVELS);
    if (reason !== undefined) throw new UnfitContent(reason);
    const { data, error } = SpanContentSchema().safeParse(value);
    if (data === undefined) {
      // Only the top-level field is named, because deeper keys may be content.
      const [issue] = error?.issues ?? [];
      const [field] = issue?.path ?? [];
      const where = field === undefined ? "its result" : `\`${String(field)}\` of its result`;
      throw new UnfitContent(`${where} is not valid content (${issue?.code ?? "invalid"})`);
    }
    if (data.type !== content.type)
      throw new UnfitContent(`it returned ${data.type} for ${content.type}`);
    return data;
  } catch (cause) {
    warnOnce(
      redact,
      `Expected content.redact to return content, got an error (${describeRedactFault(cause)}). The content of type ${content.type} is not exported; runs are not affected.`,
    );
    return undefined;
  }
}

/**
 * Error for a redaction that returned something other than content. Its message quotes nothing of
 * the result.
 */
class UnfitContent extends Error {}

/**
 * Describes an error of a redaction. Other errors may quote confidential text, as those of
 * `JSON.parse` do, so only their class is named.
 */
function describeRedactFault(cause: unknown): string {
  if (cause instanceof UnfitContent) return cause.message;
  try {
    return cause instanceof Error ? cause.constructor.name : `a thrown ${typeof cause}`;
  } catch {
    return "one that cannot be read";
  }
}

/** Limit for whole content. Arguments within it may have 200 levels. */
const MAX_CONTENT_LEVELS = 210;

const SpanContentSchema = lazyUnion("type", () => [
  z.strictObject({
    type: z.literal("request"),
    messages: z.array(MessageSchema()),
    tools: z.array(
      z.strictObject({ name: z.string(), description: z.string(), inputSchema: JsonValueSchema() }),
    ),
  }),
  z.strictObject({
    type: z.literal("reply"),
    message: AssistantMessageSchema(),
    finishReason: FinishReasonSchema(),
    rawFinishReason: z.string().optional(),
  }),
  z.strictObject({ type: z.literal("arguments"), value: JsonValueSchema() }),
  z.strictObject({ type: z.literal("result"), text: z.string() }),
]);

// Settings for content: requests, replies, arguments and results. It is off by default. Code or the
// variables that instrumentations of many languages share enable it, and code takes precedence.

/**
 * Removes confidential parts from the content of a span. Returns content of the same type, or
 * `undefined` to export none.
 *
 * The function receives a frozen copy, and must be synchronous. If it throws or returns anything
 * else, the content is not exported, and one process warning gives the reason. Runs are not
 * affected.
 *
 * @example
 * ```ts
 * const hideMails: RedactContent = (content) => {
 *   if (content.type !== "result") return undefined;
 *   return { ...content, text: content.text.replaceAll(/[\w.+-]+@[\w.-]+/g, "[mail]") };
 * };
 * const tracing = openTelemetry({ content: { redact: hideMails } });
 * ```
 */
export type RedactContent = (content: SpanContent, scope: EventScope) => SpanContent | undefined;

/** Names of the options for the appearance of runs, which every set-up accepts. */
export const SHOWN_OPTIONS = ["content", "maxSpansPerTrace", "baggage", "meter", "legacyMetrics"];

/** Settings for the content of spans. */
export interface ContentSettings {
  readonly redact: RedactContent | undefined;
  /** Maximum number of characters in one attribute. */
  readonly maxCharacters: number;
}

/**
 * Returns the settings, or `undefined` for no content. If `choice` is `undefined`, the environment
 * variables decide.
 *
 * @throws EspalierError `invalid_argument` for an invalid choice.
 */
export function resolveContentSettings(
  choice: boolean | { readonly redact?: RedactContent } | undefined,
  env: Environment = process.env,
): ContentSettings | undefined {
  // An SDK with a lower limit would cut off the mark.
  const limit = new VariableReader(env).readAttributeLength() ?? Infinity;
  const maxCharacters = Math.max(MIN_CHARACTERS, Math.min(MAX_ATTRIBUTE_CHARACTERS, limit));
  const whole = { redact: undefined, maxCharacters };
  if (choice === undefined) {
    const reader = new VariableReader(env);
    const noEvents = "Events of espalier contain no content in any case. Correct it.";
    const emits = reader.readWord(EMIT_EVENT, EMIT_WORDS, noEvents);
    const captured = reader.readWord(
      CAPTURE,
      CAPTURE_WORDS,
      "Traces contain no content. Correct it.",
    );
    for (const warning of reader.warnings) offenders.warn(warning, warning);
    if (captured === "EVENT_ONLY" && emits !== "false") offenders.warn(captured, EVENTS_ONLY);
    return ON_SPANS.has(captured) ? whole : undefined;
  }
  if (typeof choice === "boolean") return choice ? whole : undefined;
  if (typeof choice !== "object" || choice === null)
    throw mismatch("content", "true, false or an object", choice, "Leave it out for no content.");
  checkKeys("content", choice, ["redact"]);
  const { redact } = choice;
  if (redact !== undefined && typeof redact !== "function")
    throw mismatch("content.redact", "a function", redact, "Leave it out to redact nothing.");
  return { ...whole, redact };
}

/** Minimum limit. The SDK may truncate further. */
const MIN_CHARACTERS = 240;

const CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const EMIT_EVENT = "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT";
const CAPTURE_WORDS = ["NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT", "true", "false"];
const EMIT_WORDS = ["true", "false"];
const ON_SPANS: ReadonlySet<string | undefined> = new Set(["SPAN_ONLY", "SPAN_AND_EVENT", "true"]);

const EVENTS_ONLY = `${CAPTURE} is EVENT_ONLY, and espalier puts content on spans only. Traces contain no content. Set SPAN_ONLY to export it.`;

/** Warnings by text, so that repeated set-ups emit each once. */
const offenders = new NamedOffenders();
