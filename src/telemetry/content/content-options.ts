// Whether spans hold content: requests to models and their replies, arguments and results of tools. They do not, unless it is switched on,
// in code or by the variables that instrumentations of many languages share. Code wins.

import { checkKeys, mismatch } from "../../kernel/check.ts";
import { NamedOffenders } from "../../kernel/warn-once.ts";
import type { EventScope } from "../../protocol/event.ts";
import type { SpanContent } from "../../protocol/span-content.ts";
import { MAX_ATTRIBUTE_CHARACTERS } from "../bounded/bounded-attributes.ts";
import { VariableReader, type Environment } from "../delivery/otel-variables.ts";

/**
 * Gives what of a piece of content goes out: another one of the same type, or `undefined` for nothing. Called at once for each piece, with a
 * frozen copy and its scope in the run; must not wait. If it throws, or gives something else, the piece is left out, one process warning
 * gives the reason, and the run continues.
 */
export type RedactContent = (content: SpanContent, scope: EventScope) => SpanContent | undefined;

/** How content leaves the process. */
export interface ContentOptions {
  /** Left out: content goes out as it is. */
  readonly redact?: RedactContent;
}

/** What is to be done with content. */
export interface ContentSettings {
  readonly redact: RedactContent | undefined;
  /** Of one attribute. */
  readonly maxCharacters: number;
}

/**
 * What was chosen; undefined: no content. Left out, the variables decide as they are now.
 *
 * @throws EspalierError `invalid_option` for a choice that does not fit.
 */
export function contentSettings(
  choice: boolean | ContentOptions | undefined,
  env: Environment = process.env,
): ContentSettings | undefined {
  const whole = { redact: undefined, maxCharacters: maxCharactersOf(env) };
  if (choice === undefined) return isCaptured(env) ? whole : undefined;
  if (typeof choice === "boolean") return choice ? whole : undefined;
  if (typeof choice !== "object" || choice === null)
    throw mismatch("content", "true, false or an object", choice, "Leave it out for no content.");
  checkKeys("content", choice, ["redact"]);
  const { redact } = choice;
  if (redact !== undefined && typeof redact !== "function")
    throw mismatch("content.redact", "a function", redact, "Leave it out to redact nothing.");
  return { ...whole, redact };
}

/** A shorter beginning is no use: the SDK may cut it further. */
const LEAST_CHARACTERS = 240;

/** An SDK with a lower limit would cut off the mark. */
function maxCharactersOf(env: Environment): number {
  const limit = new VariableReader(env).attributeLength() ?? Infinity;
  return Math.max(LEAST_CHARACTERS, Math.min(MAX_ATTRIBUTE_CHARACTERS, limit));
}

const CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const EMIT_EVENT = "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT";
const CAPTURE_WORDS = ["NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT", "true", "false"];
const EMIT_WORDS = ["true", "false"];
const ON_SPANS: ReadonlySet<string | undefined> = new Set(["SPAN_ONLY", "SPAN_AND_EVENT", "true"]);

function isCaptured(env: Environment): boolean {
  const reader = new VariableReader(env);
  const noEvents = "Events of espalier hold no content anyway. Correct it.";
  const emits = reader.word(EMIT_EVENT, EMIT_WORDS, noEvents);
  const captured = reader.word(CAPTURE, CAPTURE_WORDS, "Traces hold no content. Correct it.");
  for (const warning of reader.warnings) offenders.warn(warning, warning);
  if (captured === "EVENT_ONLY" && emits !== "false") offenders.warn(captured, EVENTS_ONLY);
  return ON_SPANS.has(captured);
}

const EVENTS_ONLY = `${CAPTURE} is EVENT_ONLY, and espalier puts content on spans only. Traces hold no content; say SPAN_ONLY to have it.`;

/** By their warnings, so that each is given once however often tracing is set up. */
const offenders = new NamedOffenders();
