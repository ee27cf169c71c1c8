// Compares JSON values for `enum`, `const` and `uniqueItems`, and spends units of a check for it.
// Ajv compares a value with each allowed value, and each item with every other one.

import { isJsonList, isJsonObject, type JsonValue } from "../../kernel/json.ts";
import { priceOfEntries, type CheckWork } from "./check-work.ts";

/** Looking something up in a large set, or adding it. */
const UNITS_PER_LOOKUP = 12;
/** Copying, escaping and hashing text: the characters that one unit pays for. */
const CHARACTERS_PER_UNIT = 12;

/** The values that `enum` or `const` allow. Scalars are looked up, so that a long list costs no more. */
export class AllowedValues {
  readonly #scalars: ReadonlySet<JsonValue>;
  readonly #wholes: readonly JsonValue[];

  constructor(values: readonly JsonValue[]) {
    this.#scalars = new Set(values.filter(isScalar));
    this.#wholes = values.filter((value) => !isScalar(value));
  }

  has(value: JsonValue, work: CheckWork): boolean {
    if (!isScalar(value)) return this.#wholes.some((whole) => areEqual(whole, value, work));
    work.spend(UNITS_PER_LOOKUP + lengthOf(value) / CHARACTERS_PER_UNIT);
    return this.#scalars.has(value);
  }
}

function areEqual(allowed: JsonValue, value: JsonValue, work: CheckWork): boolean {
  work.spend(2 + Math.min(lengthOf(allowed), lengthOf(value)) / CHARACTERS_PER_UNIT);
  if (isScalar(allowed) || isScalar(value)) return allowed === value;
  if (isJsonList(allowed) || isJsonList(value)) {
    if (!isJsonList(allowed) || !isJsonList(value) || allowed.length !== value.length) return false;
    return allowed.every((item, index) => areEqual(item, value[index] ?? null, work));
  }
  if (!isJsonObject(allowed) || !isJsonObject(value)) return false;
  // Before the keys are listed, which takes long for an object with many.
  work.spend(priceOfEntries(allowed));
  const keys = Object.keys(allowed);
  if (keys.some((key) => !Object.hasOwn(value, key))) return false;
  work.spend(priceOfEntries(value));
  if (keys.length !== Object.keys(value).length) return false;
  return keys.every((key) => areEqual(allowed[key] ?? null, value[key] ?? null, work));
}

/** True if no two items are equal as JSON. Takes time in proportion to the size of the list. */
export function hasUniqueItems(items: readonly JsonValue[], work: CheckWork): boolean {
  const scalars = new Set<JsonValue>();
  const texts = new Set<string>();
  for (const item of items) {
    work.spend(UNITS_PER_LOOKUP + lengthOf(item) / CHARACTERS_PER_UNIT);
    if (isScalar(item)) scalars.add(item);
    else texts.add(canonicalText(item, work));
  }
  return scalars.size + texts.size === items.length;
}

/** Returns JSON text with sorted keys, so that equal values have equal texts. */
function canonicalText(value: JsonValue, work: CheckWork): string {
  work.spend(UNITS_PER_LOOKUP / 2 + lengthOf(value) / CHARACTERS_PER_UNIT);
  if (typeof value === "string") return JSON.stringify(value);
  if (isScalar(value)) return String(value);
  if (isJsonList(value))
    return joined(
      `[`,
      value.map((part) => canonicalText(part, work)),
      `]`,
      work,
    );
  if (!isJsonObject(value)) return "";
  work.spend(priceOfEntries(value));
  const texts = Object.entries(value).map(([key, part]) => {
    work.spend(UNITS_PER_LOOKUP + key.length / CHARACTERS_PER_UNIT);
    return `${JSON.stringify(key)}:${canonicalText(part, work)}`;
  });
  return joined("{", texts.toSorted(), "}", work);
}

/** Each level copies the text of all levels below it. */
function joined(open: string, texts: readonly string[], close: string, work: CheckWork): string {
  const text = `${open}${texts.join(",")}${close}`;
  work.spend(text.length / CHARACTERS_PER_UNIT);
  return text;
}

function isScalar(value: JsonValue): value is string | number | boolean | null {
  return typeof value !== "object" || value === null;
}

function lengthOf(value: JsonValue): number {
  return typeof value === "string" ? value.length : 0;
}
