// Makes the code that Ajv generates count its work: each keyword spends units before it is
// evaluated, in proportion to the visited part of the value and of the schema. Ajv has no option
// for this, so the keyword definitions of an instance are wrapped. Does not own the count
// (check-work.ts).

import { _, type Ajv, type Code, type KeywordCxt } from "ajv";
import type { Ajv2020 } from "ajv/dist/2020.js";

import { isJson, isJsonList, isJsonObject, isRecord, type JsonValue } from "../../kernel/json.ts";
import { CheckWork, computeEntriesPrice } from "./check-work.ts";

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
  const write = (value: JsonValue): string => writeCanonical(value, work);
  const isUnique = (items: readonly JsonValue[]): boolean =>
    new Set(items.map(write)).size === items.length;
  const allow = (cxt: KeywordCxt, declared: unknown): boolean => {
    const values = Array.isArray(declared) ? declared.filter(isJson) : [];
    if (values.length <= MAX_COMPARED && values.every(isShortScalar)) return false;
    // A set, so that a long list costs no more.
    const allowed = new Set(values.map((value) => writeCanonical(value, new CheckWork())));
    cxt.pass(createTestCode(cxt, (value: JsonValue) => allowed.has(write(value))));
    return true;
  };
  return new Map<string, CountedCode>([
    ["const", (cxt) => allow(cxt, [cxt.schema])],
    ["enum", (cxt) => allow(cxt, cxt.schema)],
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
 * Returns JSON text with sorted keys, so that equal values have equal texts. Spends units for the
 * text of each level, since each copies the text of all levels below.
 */
function writeCanonical(value: JsonValue, work: CheckWork): string {
  const { length } = typeof value === "string" ? value : "";
  work.spend(UNITS_PER_LOOKUP + length / CHARACTERS_PER_UNIT);
  const write = (part: JsonValue): string => writeCanonical(part, work);
  let text: string;
  if (isJsonList(value)) text = `[${value.map(write).join(",")}]`;
  else if (isJsonObject(value)) {
    work.spend(computeEntriesPrice(value));
    const texts = Object.entries(value).map(([key, part]) => `${write(key)}:${write(part)}`);
    text = `{${texts.toSorted().join(",")}}`;
  } else text = JSON.stringify(value);
  work.spend(text.length / CHARACTERS_PER_UNIT);
  return text;
}
