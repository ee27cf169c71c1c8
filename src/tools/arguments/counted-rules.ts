// Makes the code that Ajv generates count its work: each keyword spends units before it is
// evaluated, in proportion to the visited part of the value and of the schema. Ajv has no option
// for this, so the keyword definitions of an instance are wrapped. Does not own the count
// (check-work.ts).

import { _, type Ajv, type Code, type KeywordCxt } from "ajv";
import type { Ajv2020 } from "ajv/dist/2020.js";

import { isJsonList, isJsonObject, isRecord, type JsonValue } from "../../kernel/json.ts";
import { type CheckWork, computeEntriesPrice } from "./check-work.ts";

export interface CountedRules {
  readonly work: CheckWork;
  /** Whether all errors are collected, each a large object with the path of its part. */
  readonly allErrors: boolean;
  /** Whether the schema has unevaluatedItems or unevaluatedProperties. */
  readonly tracksEvaluated: boolean;
}

/** Wraps the keywords of an instance that has not compiled a schema yet. */
export function countRules(ajv: Ajv | Ajv2020, { work, ...rules }: CountedRules): void {
  const spendOnPath: Spend = (units) => work.spendOnPath(rules.allErrors ? 8 * units : units);
  const spend: Spend = rules.allErrors ? spendOnPath : (units) => work.spend(units);
  const codes = createCountedCodes(work);
  for (const group of [...ajv.RULES.rules, ajv.RULES.post]) {
    for (const { keyword, definition } of group.rules) {
      if (!("code" in definition)) continue;
      // Ajv's own message contains the indexes of two equal items, which `createCountedCodes`
      // does not determine.
      if (keyword === "uniqueItems") definition.error = { message: "must be unique" };
      const isUnion = UNIONS.includes(keyword);
      if (isUnion)
        definition.error = {
          message: "must match a schema",
          params: ({ params }) => _`{forms: ${params["forms"]}}`,
        };
      const { code } = definition;
      const counted = codes.get(keyword);
      definition.code = (cxt, type) => {
        const isOnPath = ON_PATH.includes(keyword);
        countKeyword(cxt, isOnPath ? spendOnPath : spend, rules.tracksEvaluated);
        if (isUnion && cxt.it.createErrors !== false) collectFormErrors(cxt);
        if (counted?.(cxt) !== true) code(cxt, type);
      };
    }
  }
}

/** Moves the errors of a union's forms into the error of the union. Ajv leaves them before it. */
function collectFormErrors(cxt: KeywordCxt): void {
  const { gen } = cxt;
  const forms = gen.const("forms", _`[]`);
  const subschema = cxt.subschema.bind(cxt);
  cxt.subschema = (application, valid) => {
    const start = gen.const("start", _`errors`);
    const within = subschema(application, valid);
    gen.if(_`!${valid}`, () => gen.code(_`${forms}.push(vErrors.slice(${start}))`));
    return within;
  };
  const error = cxt.error.bind(cxt);
  cxt.error = (append) => {
    // If several forms of a union match, none has errors.
    const { passing } = cxt.params;
    if (passing !== undefined)
      gen.if(_`${passing} !== null`, () => gen.code(_`${forms}.length = 0`));
    cxt.reset();
    error(append, { forms });
  };
}

type Spend = (units: number) => void;

function countKeyword(cxt: KeywordCxt, spend: Spend, tracksEvaluated: boolean): void {
  const { gen, keyword, data } = cxt;
  const spendUnits = (price: Code): void => {
    gen.code(_`${gen.scopeValue("func", { ref: spend })}(${price})`);
  };
  const priceEntries = (): Code =>
    _`${gen.scopeValue("func", { ref: computeEntriesPrice })}(${data})`;
  const price = computeKeywordPrice(cxt, priceEntries);
  // Ajv copies the names of the evaluated properties at each of these keywords.
  spendUnits(
    tracksEvaluated && IN_PLACE.includes(keyword) ? _`${price} + ${priceEntries()}` : price,
  );
  if (!OVER_ITEMS.includes(keyword)) return;
  const subschema = cxt.subschema.bind(cxt);
  cxt.subschema = (application, valid) => {
    spendUnits(_`${keyword === "contains" ? PER_FORM : 1}`);
    const within = subschema(application, valid);
    // Without this, the errors of all items that do not match are collected.
    if (keyword === "contains") gen.if(_`!${valid}`, () => cxt.reset());
    return within;
  };
}

const REFERENCES = ["$ref", "$dynamicRef", "$recursiveRef"];
const UNIONS = ["anyOf", "oneOf"];

/** Keywords that build the path of a part even if the part is valid. */
const ON_PATH = [...REFERENCES, ...UNIONS, "contains"];

const OVER_ITEMS = ["items", "additionalItems", "unevaluatedItems", "contains"];

const IN_PLACE = [...REFERENCES, ...UNIONS, "allOf", "if", "dependentSchemas"];

/** Units of a call of another function, and of an error of a form that does not match. */
const PER_FORM = 8;
/** Ajv copies the list of errors at each call. */
const PER_EARLIER_ERROR = 1 / 200;

/** Returns the units of an evaluation, without items and sub-schemas. */
function computeKeywordPrice(
  { keyword, schema, data, parentSchema, it }: KeywordCxt,
  priceEntries: () => Code,
): Code {
  const size = countEntries(schema);
  switch (keyword) {
    case "$ref":
    case "$dynamicRef":
    case "$recursiveRef":
      return _`${PER_FORM} + ${PER_EARLIER_ERROR} * errors`;
    case "anyOf":
    case "oneOf":
    case "not":
    case "if":
      return _`${PER_FORM * (1 + size)}`;
    case "enum":
    case "const":
      return _`${1 + Math.min(size, MAX_COMPARED) / 4}`;
    case "additionalProperties":
      return _`1 + ${1 + countEntries(parentSchema["patternProperties"])} * ${priceEntries()}`;
    case "unevaluatedProperties":
      return _`1 + ${1 + (isRecord(it.props) ? countEntries(it.props) / 4 : 0)} * ${priceEntries()}`;
    case "patternProperties":
      return _`1 + ${1 + size} * ${priceEntries()}`;
    case "propertyNames":
    case "minProperties":
    case "maxProperties":
      return _`1 + ${priceEntries()}`;
    case "minLength":
    case "maxLength":
      return _`1 + ${data}.length / 4`;
    case "format":
      return _`1 + ${schema === "regex" ? 50 : 1} * (${data}.length || 0)`;
    default:
      return _`${1 + size}`;
  }
}

function createTestCode({ gen, data }: KeywordCxt, ref: (value: never) => boolean): Code {
  return _`${gen.scopeValue("func", { ref })}(${data})`;
}

/** Generates the code of a keyword. Returns false if Ajv's own code is to be used. */
type CountedCode = (cxt: KeywordCxt) => boolean;

/** Returns the code of the keywords that compare values, which Ajv does without a bound. */
function createCountedCodes(work: CheckWork): ReadonlyMap<string, CountedCode> {
  const isUnique = (items: readonly JsonValue[]): boolean => hasUniqueItems(items, work);
  const allow = (cxt: KeywordCxt, values: readonly JsonValue[]): boolean => {
    if (values.length <= MAX_COMPARED && values.every(isShortScalar)) return false;
    const allowed = new AllowedValues(values);
    cxt.pass(createTestCode(cxt, (value: JsonValue) => allowed.has(value, work)));
    return true;
  };
  return new Map<string, CountedCode>([
    ["const", (cxt) => allow(cxt, readAllowedValues([cxt.schema]))],
    ["enum", (cxt) => allow(cxt, readAllowedValues(cxt.schema))],
    [
      "uniqueItems",
      (cxt) => {
        const isAsked: unknown = cxt.schema;
        if (isAsked === true) cxt.pass(createTestCode(cxt, isUnique));
        return true;
      },
    ],
  ]);
}

/** Returns the values that a schema allows. A schema is JSON. */
function readAllowedValues(declared: unknown): readonly JsonValue[] {
  return Array.isArray(declared) ? declared.filter(isJsonValue) : [];
}

function isJsonValue(value: unknown): value is JsonValue {
  return value !== undefined;
}

/** Ajv's own code is faster for up to this many values. */
const MAX_COMPARED = 20;
const MAX_COMPARED_CHARACTERS = 200;

function isShortScalar(value: JsonValue): boolean {
  if (typeof value === "string") return value.length <= MAX_COMPARED_CHARACTERS;
  return typeof value !== "object" || value === null;
}

/** Returns the number of entries of a list or an object, with those of the lists in an object. */
function countEntries(part: unknown): number {
  if (Array.isArray(part)) return part.length;
  if (!isRecord(part)) return 0;
  const parts = Object.values(part);
  return parts.reduce<number>(
    (sum, below) => sum + (Array.isArray(below) ? below.length : 0),
    parts.length,
  );
}

/** Units to look up a value in a large set, or to add one. */
const UNITS_PER_LOOKUP = 12;
/** Characters that one unit copies, escapes and hashes. */
const CHARACTERS_PER_UNIT = 12;

/**
 * The values that `enum` or `const` allow. Scalars are looked up in a set, so that a long list
 * costs no more.
 */
class AllowedValues {
  readonly #scalars: ReadonlySet<JsonValue>;
  readonly #wholes: readonly JsonValue[];

  constructor(values: readonly JsonValue[]) {
    this.#scalars = new Set(values.filter(isScalar));
    this.#wholes = values.filter((value) => !isScalar(value));
  }

  has(value: JsonValue, work: CheckWork): boolean {
    if (!isScalar(value)) return this.#wholes.some((whole) => isEqualValue(whole, value, work));
    work.spend(UNITS_PER_LOOKUP + measureText(value) / CHARACTERS_PER_UNIT);
    return this.#scalars.has(value);
  }
}

function isEqualValue(allowed: JsonValue, value: JsonValue, work: CheckWork): boolean {
  work.spend(2 + Math.min(measureText(allowed), measureText(value)) / CHARACTERS_PER_UNIT);
  if (isScalar(allowed) || isScalar(value)) return allowed === value;
  if (isJsonList(allowed) || isJsonList(value)) {
    if (!isJsonList(allowed) || !isJsonList(value) || allowed.length !== value.length) return false;
    return allowed.every((item, index) => isEqualValue(item, value[index] ?? null, work));
  }
  if (!isJsonObject(allowed) || !isJsonObject(value)) return false;
  // Before the keys are listed, which takes long for a large object.
  work.spend(computeEntriesPrice(allowed));
  const keys = Object.keys(allowed);
  if (keys.some((key) => !Object.hasOwn(value, key))) return false;
  work.spend(computeEntriesPrice(value));
  if (keys.length !== Object.keys(value).length) return false;
  return keys.every((key) => isEqualValue(allowed[key] ?? null, value[key] ?? null, work));
}

/** Returns true if no two items are equal as JSON. Takes linear time. */
function hasUniqueItems(items: readonly JsonValue[], work: CheckWork): boolean {
  const scalars = new Set<JsonValue>();
  const texts = new Set<string>();
  for (const item of items) {
    work.spend(UNITS_PER_LOOKUP + measureText(item) / CHARACTERS_PER_UNIT);
    if (isScalar(item)) scalars.add(item);
    else texts.add(writeCanonical(item, work));
  }
  return scalars.size + texts.size === items.length;
}

/** Returns JSON text with sorted keys, so that equal values have equal texts. */
function writeCanonical(value: JsonValue, work: CheckWork): string {
  work.spend(UNITS_PER_LOOKUP / 2 + measureText(value) / CHARACTERS_PER_UNIT);
  if (typeof value === "string") return JSON.stringify(value);
  if (isScalar(value)) return String(value);
  if (isJsonList(value)) {
    const items = value.map((part) => writeCanonical(part, work));
    return joinCanonical("[", items, "]", work);
  }
  if (!isJsonObject(value)) return "";
  work.spend(computeEntriesPrice(value));
  const texts = Object.entries(value).map(([key, part]) => {
    work.spend(UNITS_PER_LOOKUP + key.length / CHARACTERS_PER_UNIT);
    return `${JSON.stringify(key)}:${writeCanonical(part, work)}`;
  });
  return joinCanonical("{", texts.toSorted(), "}", work);
}

/** Joins texts. Spends units, since each level copies the text of all levels below. */
function joinCanonical(
  open: string,
  texts: readonly string[],
  close: string,
  work: CheckWork,
): string {
  const text = `${open}${texts.join(",")}${close}`;
  work.spend(text.length / CHARACTERS_PER_UNIT);
  return text;
}

function isScalar(value: JsonValue): value is string | number | boolean | null {
  return typeof value !== "object" || value === null;
}

function measureText(value: JsonValue): number {
  return typeof value === "string" ? value.length : 0;
}
