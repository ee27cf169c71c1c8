// A user's redaction of content, which may be wrong in any way: what it does not clearly let out stays in.

import { z } from "zod";

import { isPromiseLike } from "../../kernel/cancel.ts";
import { deepFreeze, parseJson, unsoundness } from "../../kernel/json.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { EventScope } from "../../protocol/event.ts";
import { JsonValueSchema } from "../../protocol/json-value.ts";
import { AssistantMessageSchema, MessageSchema } from "../../protocol/message.ts";
import type { SpanContent } from "../../protocol/span-content.ts";
import type { RedactContent } from "./content-options.ts";

/** What may go out of a piece of content; undefined: nothing. Never throws. */
export function redacted(
  redact: RedactContent,
  content: SpanContent,
  scope: EventScope,
): SpanContent | undefined {
  try {
    const copy = deepFreeze(structuredClone(content));
    const given: unknown = redact(copy, deepFreeze({ ...scope }));
    if (given === undefined) return undefined;
    return given === copy ? copy : checked(given, content.type);
  } catch (cause) {
    warnOnce(
      redact,
      `Expected content.redact to give content, got an error (${reasonOf(cause)}). What it was asked about, of type ${content.type}, is not exported; runs are not affected.`,
    );
    return undefined;
  }
}

/** Redaction may return anything: only what is JSON, and content of the same type, goes out. */
function checked(given: unknown, type: SpanContent["type"]): SpanContent {
  if (isPromiseLike(given)) {
    if (given instanceof Promise) given.catch(() => undefined); // Nothing else handles it.
    throw new UnfitContent("it gave a promise; it must not wait");
  }
  const text: string | undefined = JSON.stringify(given);
  if (text === undefined) throw new UnfitContent(`it gave a value of type ${typeof given}`);
  const value = parseJson(text);
  const reason = unsoundness(value, MOST_LEVELS);
  if (reason !== undefined) throw new UnfitContent(reason);
  const parsed = SpanContentSchema.safeParse(value);
  if (!parsed.success) throw new UnfitContent(reasonIn(parsed.error));
  if (parsed.data.type !== type) throw new UnfitContent(`it gave ${parsed.data.type} for ${type}`);
  return parsed.data;
}

/** What was given is no content. Its message quotes nothing of it. */
class UnfitContent extends Error {}

/** Messages of other errors may quote what was to be hidden, as those of `JSON.parse` do: only their class is recorded. */
function reasonOf(cause: unknown): string {
  if (cause instanceof UnfitContent) return cause.message;
  try {
    return cause instanceof Error ? cause.constructor.name : `a thrown ${typeof cause}`;
  } catch {
    return "one that cannot be looked at";
  }
}

/** Which field it is, if any: keys below may be those of the content. */
function reasonIn({ issues: [issue] }: z.ZodError): string {
  const [field] = issue?.path ?? [];
  const where = field === undefined ? "what it gave" : `\`${String(field)}\` of what it gave`;
  return `${where} is no such content (${issue?.code ?? "invalid"})`;
}

/** Of content as a whole: arguments may have 200. */
const MOST_LEVELS = 210;

const SpanContentSchema = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("request"),
    messages: z.array(MessageSchema),
    tools: z.array(
      z.strictObject({ name: z.string(), description: z.string(), inputSchema: JsonValueSchema }),
    ),
  }),
  z.strictObject({
    type: z.literal("reply"),
    message: AssistantMessageSchema,
    finishReason: z.string(),
    rawFinishReason: z.string().optional(),
  }),
  z.strictObject({ type: z.literal("arguments"), value: JsonValueSchema }),
  z.strictObject({ type: z.literal("result"), text: z.string() }),
]);
