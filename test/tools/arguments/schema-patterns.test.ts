// Goal: a pattern in a server's schema never runs and never makes arguments invalid. A pattern in
// the user's own schema works as in JavaScript.
// Method: RegExp is replaced by a counting class. The patterns take RegExp longer than a test may
// run, or decide whether a schema accepts a value.

import { describe, expect, test } from "vitest";

import type { JsonObject, JsonValue } from "../../../src/kernel/json.ts";
import { compileInput } from "../../../src/tools/arguments/input-schema.ts";
import {
  createServerSchema,
  createServerSchemaCheck,
} from "../../../src/tools/arguments/json-schema-input.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import { proves } from "../../harness/proves.ts";
import { thrownBy } from "../../support/thrown.ts";

const objectWith = (x: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: "object",
  properties: { x },
  ...more,
});

function serverCheck(schema: JsonObject): (value: JsonValue) => string {
  const { check } = compileInput("tool.input", createServerSchema(schema), { coerces: false });
  const problemsOf = createServerSchemaCheck("outputSchema", schema);
  return (value) => {
    const { type } = check(value);
    expect(problemsOf(value).length === 0 ? "valid" : "invalid").toBe(type);
    return type;
  };
}

const TEXT = `${"a".repeat(50_000)}!`;
const HOSTILE = ["^(a+)+$", "^(a|a)*$", "^(?=(a+)+$)a", "^(.*a){12}$"];

/** Schemas with a hostile pattern at every position that a schema has. */
function placesOf(pattern: string): readonly JsonObject[] {
  const text = { type: "string", pattern };
  return [
    objectWith(text),
    objectWith({ anyOf: [text, { type: "number" }] }),
    objectWith({ oneOf: [text, { type: "string" }] }),
    objectWith({ not: { minLength: 100_000, pattern } }),
    objectWith({ $ref: "#/$defs/it" }, { $defs: { it: text } }),
    objectWith({ $ref: "#/default" }, { default: text }),
    objectWith({ $ref: "#/enum/0" }, { enum: [text, { x: TEXT }] }),
    { ...objectWith({}), propertyNames: { pattern } },
    { type: "object", patternProperties: { [pattern]: { type: "string" } } },
  ];
}

/** Returns the patterns that are compiled while `act` runs. */
function compiledBy(act: () => void): readonly string[] {
  const compiled: string[] = [];
  const Native = RegExp;
  globalThis.RegExp = new Proxy(Native, {
    construct(target, given: [string, string?]) {
      compiled.push(given[0]);
      return new target(...given);
    },
  });
  try {
    act();
  } finally {
    globalThis.RegExp = Native;
  }
  return compiled;
}

// RegExp would never finish any of them; the test time limit is 30 seconds.
for (const pattern of HOSTILE) {
  proves(["S7.4"], `never compiles or runs ${pattern} at any position of a server's schema`, () => {
    const compiled = compiledBy(() => {
      const checks = placesOf(pattern).map(serverCheck);
      expect(checks.map((check) => check({ x: TEXT }))).toEqual(checks.map(() => "valid"));
    });
    expect(compiled.filter((source) => source === pattern)).toEqual([]);
  });
}

proves(
  ["S7.4"],
  "ignores an invalid pattern in a server's schema and checks its other keywords",
  () => {
    const check = serverCheck(objectWith({ type: "string", pattern: "(", maxLength: 3 }));
    expect([check({ x: "abc" }), check({ x: "abcd" }), check({ x: 1 })]).toEqual([
      "valid",
      "invalid",
      "invalid",
    ]);
  },
);

// Ajv's own pattern backtracks at each colon and each `@`; it would take minutes.
proves(["S7.4"], "checks a format in bounded time", () => {
  const check = serverCheck(objectWith({ type: "string", format: "url" }));
  const texts = ["http://a.org/b?c#d", "HTTPS://u:p@localhost:80", "ftp://[::1]/"];
  const others = ["mailto:a@b.org", "http:a", "http://a b", "http://", "http://a:b", " http://a"];
  const long = `http://${":@".repeat(500_000)}`;
  expect(texts.map((x) => check({ x }))).toEqual(texts.map(() => "valid"));
  expect([...others, long].map((x) => check({ x }))).toEqual([...others, ""].map(() => "invalid"));
});

describe("a server's schema that depends on a pattern", () => {
  const A = { type: "string", pattern: "^a" };
  const B = { type: "string", pattern: "^b" };
  const names = { patternProperties: { "^n_": { type: "number" } } };
  // Each value fits its schema by the rules of JSON Schema.
  const fitting: readonly (readonly [string, JsonObject, JsonValue])[] = [
    ["not", objectWith({ not: A }), { x: "b" }],
    ["oneOf", objectWith({ oneOf: [A, B] }), { x: "b" }],
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
    ["if", objectWith({ if: A, then: { maxLength: 1 } }), { x: "bb" }],
    ["contains", objectWith({ contains: A, maxContains: 1 }), { x: ["a", "b"] }],
    ["a reference", objectWith({ not: { $ref: "#/$defs/a" } }, { $defs: { a: A } }), { x: "b" }],
    ["names", { ...names, type: "object", additionalProperties: false }, { n_a: 1 }],
    ["other names", { ...names, type: "object" }, { b: "text" }],
    ["unevaluated names", { ...names, type: "object", unevaluatedProperties: false }, { n_a: 1 }],
  ];
  for (const [keyword, schema, value] of fitting) {
    proves(["D640"], `accepts a matching value: ${keyword}`, () => {
      expect(serverCheck(schema)(value)).toBe("valid");
    });
  }

  proves(
    ["D640"],
    "accepts parameters named like keywords and constants shaped like schemas",
    () => {
      const properties = { pattern: A, not: A, oneOf: { const: { pattern: "^a" } } };
      const check = serverCheck({ type: "object", properties, additionalProperties: false });
      expect([
        check({ pattern: "b", not: "b", oneOf: { pattern: "^a" } }),
        check({ pattern: 1 }),
        check({ not: 1 }),
        check({ oneOf: {} }),
      ]).toEqual(["valid", "invalid", "invalid", "invalid"]);
    },
  );
});

test("shows the model the patterns of a server's schema", () => {
  const schema = objectWith({ type: "string", pattern: "^(a+)+$" });
  expect(
    compileInput("tool.input", createServerSchema(schema), { coerces: false }).jsonSchema,
  ).toEqual(schema);
});

proves(["D641"], "runs a pattern in the user's own schema as JavaScript does", () => {
  const schema = objectWith({ type: "string", pattern: "^\\p{L}{1,3}\\u{1F600}?$" });
  const { check } = compileInput("tool.input", jsonSchema(schema), { coerces: false });
  expect(["é", "abc😀", "abcd", "1"].map((x) => check({ x }).type)).toEqual([
    "valid",
    "valid",
    "invalid",
    "invalid",
  ]);
  for (const pattern of ["(", "^a\\Z", "\\\\\\A\\-"]) {
    const own = jsonSchema(objectWith({ type: "string", pattern }));
    const error = thrownBy(() => compileInput("tool.input", own, { coerces: false }));
    expect([error.code, error.data["reason"]]).toEqual([
      "invalid_argument",
      expect.stringContaining("Invalid regular expression"),
    ]);
  }
});
