// What a tool returned, whatever it is: the text that the model reads, data and attachments.

import type { JsonValue } from "../kernel/json.ts";
import type { Attachment } from "../protocol/attachment.ts";
import { resultText } from "./result-text.ts";
import { asToolResult } from "./tool-result.ts";

/** What the model reads of a tool's result, and what is kept besides. */
export interface ResultParts {
  readonly text: string;
  /** The result as data, where it was given. */
  readonly structured: JsonValue | undefined;
  readonly attachments: readonly Attachment[];
}

/**
 * Text, data and attachments of whatever a tool returned: those of a `toolResult`, also of another copy of the package, or the text of any
 * other value.
 *
 * @throws TypeError if the value is nothing that can be shown; see `resultText`.
 * @throws EspalierError `invalid_option` if a copy of a `toolResult` was changed into what is none.
 */
export function outcomeOf(result: unknown): ResultParts {
  if (typeof result === "string") return { text: result, structured: undefined, attachments: NONE };
  const known = asToolResult(result);
  if (known === undefined)
    return { text: resultText(result), structured: undefined, attachments: NONE };
  const { text, structured, attachments } = known;
  return { text, structured, attachments };
}

const NONE: readonly never[] = Object.freeze([]);
