// Content of spans: on `chat` request and reply, on `execute_tool` arguments and result.
// 1. Nothing of this runs unless content was switched on, and nothing is made for a span that does not record.
// 2. Content is on the span of its own call or not at all: never on what is around it.
// 3. Every attribute is JSON, or its beginning with a mark. It has at most 16,384 characters, or as many
//    as a variable allows, and is never cut below 240 by us.
//    The provider's own finish reason is plain text.

import type { Span } from "@opentelemetry/api";

import type { JsonValue } from "../../kernel/json.ts";
import type { EventScope, EventType } from "../../protocol/event.ts";
import type { SpanContent } from "../../protocol/span-content.ts";
import { noteShortened, setAttribute } from "../bounded/bounded-attributes.ts";
import { beginJson, cutWithMark } from "../bounded/cut-content.ts";
import {
  definitionsOf,
  inputOf,
  instructionsOf,
  outputOf,
  structureOf,
} from "./content-messages.ts";
import type { ContentSettings } from "./content-options.ts";
import { redacted } from "./content-redaction.ts";
import { ESPALIER, GEN_AI } from "../gen-ai-attributes.ts";

/** The span that is open in a scope, and the event with which it began. */
export interface ContentPlace {
  readonly span: Span;
  readonly opening: { readonly type: EventType };
  readonly scope: EventScope;
}

/** Puts a piece of content on the span of its call, as far as the settings let it out. */
export function writeContent(
  { redact, maxCharacters }: ContentSettings,
  { span, opening, scope }: ContentPlace,
  content: SpanContent,
): void {
  if (!span.isRecording() || !belongs(content, opening.type)) return;
  const shown = redact === undefined ? content : redacted(redact, content, scope);
  if (shown === undefined) return;
  const shortened: string[] = [];
  for (const [name, value] of Object.entries(attributesOf(shown))) {
    const text = beginJson(value, maxCharacters);
    span.setAttribute(name, cutWithMark(text, maxCharacters));
    if (text.length > maxCharacters) shortened.push(name);
  }
  noteShortened(span, shortened);
  if (shown.type === "reply") setAttribute(span, ESPALIER.finishReasonRaw, shown.rawFinishReason);
}

function belongs({ type }: SpanContent, opening: EventType): boolean {
  return type === "request" || type === "reply"
    ? opening === "model.requested"
    : opening.startsWith("tool.");
}

function attributesOf(content: SpanContent): Readonly<Record<string, JsonValue>> {
  switch (content.type) {
    case "request": {
      const { messages, tools } = content;
      const instructions = instructionsOf(messages);
      return {
        ...(instructions.length === 0 ? {} : { [GEN_AI.systemInstructions]: instructions }),
        [GEN_AI.inputMessages]: inputOf(messages),
        ...(tools.length === 0 ? {} : { [GEN_AI.toolDefinitions]: definitionsOf(tools) }),
      };
    }
    case "reply":
      return { [GEN_AI.outputMessages]: outputOf(content.message, content.finishReason) };
    case "arguments":
      return { [GEN_AI.toolCallArguments]: content.value };
    case "result":
      return { [GEN_AI.toolCallResult]: structureOf(content.text) ?? content.text };
  }
}
