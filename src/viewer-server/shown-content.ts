// ShownContent: decides which prompts, tasks, calls, results and errors may leave the server: all,
// redacted or none. Events are filtered before they are folded, so hidden content is not even in
// memory.
//
// With content off, no text of a person, a model, a tool or a provider leaves the server. Ids,
// numbers, and the names and codes under the keys below do. A key that is not listed counts as
// content.

import { isJson, isRecord, type JsonValue } from "../kernel/json.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import { QuestionSchema, type Question } from "../protocol/question.ts";
import { parseKnownEvent } from "../orchestrator/durability/open-spans.ts";
import type { ViewerOptions } from "./viewer-options.ts";

type ViewerContent = NonNullable<ViewerOptions["content"]>;
type RedactText = Exclude<ViewerContent, boolean>["redact"];

/** Keys of names, codes and ids. */
const NAMES: ReadonlySet<string> = new Set(
  `
    type runId agentId parentAgentId agentPath executionId stepId callId traceId
    spanId parentSpanId traceparent previousTraceId previousSpanId leaseId questionId sessionId childId
    childPath fromAgentId spawnCallId provider model insteadOf responseModel responseId serviceTier
    apiType code status outcome severity kind decision
    work finishReason outputType changed axis accountPath source field fields
    toolName toolNames toolChoice guard hook filter blockedBy vetoedBy role
    name point types origin promptHash toolsHash outputHash hash argumentsHash
    textHash metadataKeys siblingResults results address
  `
    .trim()
    .split(/\s+/),
);
/** Keys whose values may contain any content. */
const CONTENT: ReadonlySet<string> = new Set([
  "arguments",
  "writtenArguments",
  "before",
  "after",
  "data",
  "metadata",
]);

export class ShownContent {
  readonly #redact: RedactText | undefined;
  /** False if all content is hidden. */
  readonly isShown: boolean;

  constructor(content: ViewerContent) {
    this.isShown = content !== false;
    this.#redact = typeof content === "object" ? content.redact : undefined;
  }

  /** True if content is shown unchanged. */
  get isWhole(): boolean {
    return this.isShown && this.#redact === undefined;
  }

  /** Returns a text as it may be shown. Empty if content is hidden. */
  showText(text: string): string {
    if (!this.isShown) return "";
    const redact = this.#redact;
    return redact === undefined ? text : redactOrWithhold(redact, text);
  }

  /**
   * Returns a value with its texts, numbers and member names as they may be shown. `undefined` if
   * content is hidden.
   */
  showValue(value: JsonValue | undefined): JsonValue | undefined {
    if (this.isWhole || value === undefined) return value;
    if (!this.isShown) return undefined;
    return this.#showJson(value);
  }

  /** Returns an event as it may be shown. */
  showEvent(event: EspalierEvent): EspalierEvent {
    if (this.isWhole) return event;
    const { type } = event;
    const shown = this.#showObject({ ...event, ...this.#hideInventedNames(event) });
    // A fixed word here; elsewhere, an answer is text of a model.
    const answer = type === "question.answered" ? { answer: event.answer } : {};
    const parsed = parseKnownEvent({ ...shown, ...answer });
    if (parsed === undefined) throw new Error("A redacted event matches no schema of an event.");
    return parsed;
  }

  /** Returns a question as it may be shown. */
  showQuestion(question: Question): Question {
    return this.isWhole ? question : QuestionSchema().parse(this.#showObject({ ...question }));
  }

  #showObject(parts: Readonly<Record<string, unknown>>): Record<string, unknown> {
    const shown: Record<string, unknown> = {};
    for (const [key, part] of Object.entries(parts)) shown[key] = this.#showPart(key, part);
    return shown;
  }

  /** Returns the names in an event that a model may have invented. */
  #hideInventedNames(event: EspalierEvent): object {
    switch (event.type) {
      case "subagent.refused":
        return event.isKnownRole === true ? {} : { role: this.showText(event.role) };
      case "tool.rejected": {
        const { spawn, description, toolName } = event;
        const isMadeUp = spawn !== undefined && spawn.isKnownRole !== true;
        return {
          ...(isMadeUp ? { spawn: { ...spawn, role: this.showText(spawn.role) } } : {}),
          ...(description === "" ? { toolName: this.showText(toolName) } : {}),
        };
      }
      default:
        return {};
    }
  }

  #showPart(key: string, part: unknown): unknown {
    if (CONTENT.has(key))
      return this.isShown && isJson(part) ? this.#showJson(part) : createEmptyContent(key, part);
    if (typeof part === "string") return NAMES.has(key) ? part : this.showText(part);
    if (Array.isArray(part)) return part.map((item) => this.#showPart(key, item));
    return isRecord(part) ? this.#showObject(part) : part;
  }

  #showJson(value: JsonValue): JsonValue {
    if (typeof value === "string") return this.showText(value);
    if (typeof value === "number") return this.#showNumber(value);
    if (isList(value)) return value.map((item) => this.#showJson(item));
    if (typeof value !== "object" || value === null) return value;
    return this.#showMembers(
      Object.entries(value).map(([key, part]) => [key, this.#showJson(part)]),
    );
  }

  /** Returns a number, or the text that a redaction makes of its digits. */
  #showNumber(value: number): number | string {
    const digits = String(value);
    const shown = this.showText(digits);
    return shown === digits ? value : shown;
  }

  /** Returns an object of members with their shown names. Equal names get a number. */
  #showMembers<Part>(
    members: readonly (readonly [name: string, part: Part])[],
  ): Record<string, Part> {
    const named = new Map<string, Part>();
    const counts = new Map<string, number>();
    for (const [name, part] of members) {
      const shown = this.showText(name);
      let nth = counts.get(shown) ?? 1;
      const formatName = (): string => (nth === 1 ? shown : `${shown} ${nth}`);
      while (named.has(formatName())) nth += 1;
      counts.set(shown, nth + 1);
      named.set(formatName(), part);
    }
    return Object.fromEntries(named);
  }
}

/** Returns the replacement of content under a key of `CONTENT`. */
function createEmptyContent(key: string, part: unknown): unknown {
  if (part === undefined) return undefined;
  return OBJECTS.has(key) ? {} : null;
}

/** Keys whose values are always objects. */
const OBJECTS: ReadonlySet<string> = new Set(["arguments", "writtenArguments", "data", "metadata"]);

function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}

const WITHHELD = "[withheld: redact failed]";

/** Redacts a text. Withholds the text if the redaction throws or returns no string. */
function redactOrWithhold(redact: RedactText, text: string): string {
  try {
    const redacted: unknown = redact(text);
    if (typeof redacted === "string") return redacted;
    if (redacted instanceof Promise) redacted.catch(() => undefined); // Prevents an unhandled rejection.
  } catch {
    // The error is dropped, because its message may quote the text.
  }
  warnOnce(
    redact,
    `Expected content.redact to return a string, got something else. The text is hidden.`,
  );
  return WITHHELD;
}
