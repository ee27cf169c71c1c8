// Whether spans hold content: requests to models and their replies, arguments and results of tools. They do not, unless it is switched on,
// in code or by the variables that instrumentations of many languages share. Code wins.

import { checkKeys, mismatch, shown } from "../../kernel/check.ts";
import { NamedOffenders } from "../../kernel/warn-once.ts";
import type { EventScope } from "../../protocol/event.ts";
import type { SpanContent } from "../../protocol/span-content.ts";
import { MAX_ATTRIBUTE_CHARACTERS } from "../bounded/bounded-attributes.ts";
import { maxAttributeLength, type Environment } from "../delivery/otel-variables.ts";

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
  env: Environment = environment(),
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

/** Shorter JSON is no use: the SDK may cut it as it cuts everything. */
const LEAST_CHARACTERS = 240;

/** An SDK that goes by a lower limit would cut through the JSON. */
function maxCharactersOf(env: Environment): number {
  const limit = maxAttributeLength(env) ?? Infinity;
  return Math.max(LEAST_CHARACTERS, Math.min(MAX_ATTRIBUTE_CHARACTERS, limit));
}

function environment(): Environment {
  return typeof process === "undefined" ? {} : process.env;
}

const CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
const EMIT_EVENT = "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT";
const CAPTURE_WORDS = ["NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT", "true", "false"];
const EMIT_WORDS = ["true", "false"];

function isCaptured(env: Environment): boolean {
  const emits = wordOf(env, EMIT_EVENT, EMIT_WORDS, "Events of espalier hold no content anyway.");
  switch (wordOf(env, CAPTURE, CAPTURE_WORDS, "Traces hold no content.")) {
    case "SPAN_ONLY":
    case "SPAN_AND_EVENT":
    case "TRUE":
      return true;
    case "EVENT_ONLY":
      if (emits !== "FALSE")
        warn(
          `${CAPTURE} is EVENT_ONLY, and espalier puts content on spans only. Traces hold no content; say SPAN_ONLY to have it.`,
        );
      return false;
    default:
      return false;
  }
}

/** The value of a variable, in capitals; undefined: none, or none that is known. */
function wordOf(
  env: Environment,
  name: string,
  words: readonly string[],
  consequence: string,
): string | undefined {
  const value = env[name]?.trim() ?? "";
  if (value === "") return undefined;
  const word = value.toUpperCase();
  if (words.some((one) => one.toUpperCase() === word)) return word;
  warn(
    `Expected ${name} to be one of ${words.join(", ")}, got ${shown(value.slice(0, 100))}. ${consequence} Correct it.`,
  );
  return undefined;
}

/** By their warnings, so that each is given once however often tracing is set up. */
const offenders = new NamedOffenders();

function warn(message: string): void {
  offenders.warn(message, message);
}
