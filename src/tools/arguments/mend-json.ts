// Arguments with a small slip: a comma too many or too few, single quotes, a comment. That is no reason to pay for another model call.

import { jsonrepair } from "jsonrepair";

import { parseJson, type JsonValue } from "../../kernel/json.ts";

/** Longer arguments are for the model to correct: looking for slips in them would block the event loop. */
const MOST_CHARACTERS = 100_000;

/** The value that a text was meant to be; undefined: that cannot be told, or its end is missing. */
export function mendedJson(text: string): JsonValue | undefined {
  if (text.length > MOST_CHARACTERS || !isWhole(text)) return undefined;
  try {
    return parseJson(jsonrepair(text));
  } catch {
    return undefined;
  }
}

/** False if a bracket or a quote is open at the end, or seems to be: what is missing there would be made up. */
function isWhole(text: string): boolean {
  let depth = 0;
  let quote: string | undefined;
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charAt(index);
    if (quote !== undefined) {
      if (character === "\\") index += 1;
      else if (character === quote) quote = undefined;
    } else if (character === '"' || character === "'") quote = character;
    else if (character === "{" || character === "[") depth += 1;
    else if (character === "}" || character === "]") depth -= 1;
  }
  return depth === 0 && quote === undefined;
}
