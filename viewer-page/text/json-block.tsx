import { useMemo, useState } from "preact/hooks";

import type { JsonValue } from "../../src/kernel/json.ts";
import { formatFullCount } from "../../src/read-model/amounts.ts";
import { splitJson } from "./json-text.ts";
import { LongText } from "./shown-text.tsx";

/** Number of parts that are shown at first, and number of parts per extension. */
const PARTS_AT_FIRST = 200;
const MORE_PARTS = 2_000;

/**
 * Shows JSON, with a box around each multi-line text, so that no text can imitate JSON. A box ends
 * its line, so the line break after it is left out.
 */
export function JsonBlock({ value }: { readonly value: JsonValue }) {
  const [shown, setShown] = useState(PARTS_AT_FIRST);
  // Questions are reloaded every two seconds, mostly with the same values.
  const text = JSON.stringify(value);
  const { parts, dropped } = useMemo(() => splitJson(value, shown), [text, shown]);
  return (
    <div class="said block">
      {parts.map(({ text, isText }, index) =>
        isText ? (
          <div key={index} class="text-value">
            <LongText text={text} />
          </div>
        ) : (
          <LongText key={index} text={index === 0 ? text : text.replace(/^,?\n/, "")} />
        ),
      )}
      {dropped > 0 && (
        <button class="more" onClick={() => setShown(shown + MORE_PARTS)}>
          {formatFullCount(dropped)} more characters are left out: show more
        </button>
      )}
    </div>
  );
}
