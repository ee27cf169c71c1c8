// JSON as a person reads it: a text of several lines is shown as text, in a box of its own.

import type { JsonValue } from "../../src/kernel/json.ts";
import { jsonParts } from "./json-text.ts";
import { LongText } from "./shown-text.tsx";

/**
 * Shows JSON, with a box around each text of several lines: no text can pass for a part of the JSON.
 * A box ends its line, so the line break after it is left out.
 */
export function JsonBlock({ value }: { readonly value: JsonValue }) {
  return (
    <div class="said block">
      {jsonParts(value).map(({ text, isText }, index) =>
        isText ? (
          <div key={index} class="text-value">
            <LongText text={text} />
          </div>
        ) : (
          <LongText key={index} text={index === 0 ? text : text.replace(/^,?\n/, "")} />
        ),
      )}
    </div>
  );
}
