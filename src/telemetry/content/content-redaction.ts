// A user's redaction of content, which may be wrong in any way: what it does not clearly let out stays in.

import { z } from "zod";

import { shown } from "../../kernel/check.ts";
import { messageOf } from "../../kernel/error.ts";
import { deepFreeze, parseJson, unsoundness } from "../../kernel/json.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { Correlation } from "../../protocol/event.ts";
import { JsonValueSchema } from "../../protocol/json-value.ts";
import { AssistantMessageSchema, MessageSchema } from "../../protocol/message.ts";
import type { SpanContent } from "../../protocol/span-content.ts";
import type { RedactContent } from "./content-options.ts";

/** What may go out of a piece of content; undefined: nothing. Never throws. */
export function redacted(
  redact: RedactContent,
  content: SpanContent,
  place: Correlation,
): SpanContent | undefined {
  try {
    const copy = deepFreeze(structuredClone(content));
    const given: unknown = redact(copy, deepFreeze({ ...place }));
    if (given === undefined) return undefined;
    return given === copy ? copy : checked(given, content.type);
  } catch (cause) {
    warnOnce(
      redact,
      `Expected content.redact to give content, got an error (${messageOf(cause)}). What it was asked about is not exported; runs are not affected.`,
    );
    return undefined;
  }
}

/** Anything may come back: only what is JSON, and content of the same type, goes out. */
function checked(given: unknown, type: SpanContent["type"]): SpanContent {
  if (isThenable(given)) throw new TypeError("it gave a promise; it must not wait");
  const text: string | undefined = JSON.stringify(given);
  if (text === undefined) throw new TypeError(`it gave ${shown(given)}`);
  const value = parseJson(text);
  const reason = unsoundness(value, MOST_LEVELS);
  if (reason !== undefined) throw new TypeError(reason);
  const parsed = SpanContentSchema.safeParse(value);
  if (!parsed.success) throw new TypeError(z.prettifyError(parsed.error));
  if (parsed.data.type !== type) throw new TypeError(`it gave ${parsed.data.type} for ${type}`);
  return parsed.data;
}

/** Of content as a whole: arguments may have 200. */
const MOST_LEVELS = 210;

function isThenable(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (value instanceof Promise) value.catch(() => undefined); // Nobody else hears of it.
  return typeof Reflect.get(value, "then") === "function";
}

const OfferedToolSchema = z.strictObject({
  name: z.string(),
  description: z.string(),
  inputSchema: JsonValueSchema,
});

const SpanContentSchema = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("request"),
    messages: z.array(MessageSchema),
    tools: z.array(OfferedToolSchema),
  }),
  z.strictObject({
    type: z.literal("reply"),
    message: AssistantMessageSchema,
    finishReason: z.string(),
  }),
  z.strictObject({ type: z.literal("arguments"), value: JsonValueSchema }),
  z.strictObject({ type: z.literal("result"), text: z.string() }),
]);
