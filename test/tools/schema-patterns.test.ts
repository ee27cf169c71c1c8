// Goal: patterns of JSON Schemas mean what they mean in JavaScript, and none can hold up the process. Method: tables and generated
// patterns against RegExp; patterns over which RegExp would take longer than the universe has.

import { array, assert, constantFrom, property, string } from "fast-check";
import { describe, expect, test, vi } from "vitest";

import type { JsonObject } from "../../src/kernel/json.ts";
import { problemsText } from "../../src/tools/arguments/argument-problems.ts";
import { inputSchema } from "../../src/tools/arguments/input-schema.ts";
import { jsonSchema } from "../../src/tools/json-schema.ts";
import { linearPattern } from "../../src/tools/arguments/linear-pattern.ts";
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";

const objectWith = (x: JsonObject): JsonObject => ({ type: "object", properties: { x } });

function reader(schema: JsonObject): (x: string) => string {
  const { check } = inputSchema("tool.input", jsonSchema(schema), { isStrict: true });
  return (x) => {
    const checked = check({ x });
    return checked.type === "valid" ? "valid" : problemsText("tool", checked.problems);
  };
}

/** The pattern of zod for addresses of e-mail, as MCP servers send it. */
const EMAIL =
  "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";

describe("a pattern means what it means in JavaScript:", () => {
  const texts = ["", "a", "ab", "a b", "a\u00A0b", "é", "É", "😀", "\r", "\n", "\u2028", "a\n"];
  const more = ["a@b.org", "a..b@c.org", ".a@b.org", "1", "12", "a1", "A1b", "[", "]", "\\", "-"];
  const all = [...texts, ...more, "x{,5}", "2026-11-22", "/", "\b", "\0", "\v", "\uFEFF", "α", "_"];
  const patterns = [
    "a",
    "^a$",
    "^.$",
    "^.*$",
    "\\s",
    "^\\S+$",
    "^[\\s]$",
    "^[^\\s]+$",
    "^[\\s\\S]*$",
    "^[^]$",
    "[]",
    "^[[]$",
    "^[\\]\\[]$",
    "^\\p{L}+$",
    "^\\p{Script=Greek}$",
    "^\\p{gc=Lu}",
    "^\\P{L}$",
    "\\u0061",
    "^\\u{1F600}$",
    "^\\uD83D\\uDE00$",
    "^[\\u{1F600}]$",
    "\\x61",
    "^\\w+$",
    "\\bb\\b",
    "^[\\b]$",
    "\\0",
    "\\v",
    "\\/",
    "(?<year>\\d{4})-\\d\\d",
    "^(?:a|b)+$",
    "^[\\w\\-.]+$",
    "x{,5}",
    "^[a-z]{0,3}$",
    "^(?=.*\\d)(?=.*[a-z]).{2,}$",
    "^(?!a)",
    "^(?!a|A)(?=.)[^|]*$",
    "^(?=a)$",
    EMAIL,
  ];
  test.each(patterns)("%s", (pattern) => {
    const linear = linearPattern(pattern);
    const native = patternOf(pattern);
    expect(all.map((text) => [text, linear?.test(text)])).toEqual(
      all.map((text) => [text, native.test(text)]),
    );
  });

  test("also unforeseen patterns", () => {
    const atoms = ["a", "b", ".", "\\s", "\\S", "\\d", "\\w", "[ab]", "[^a]", "[\\s1]", "\\b", "é"];
    const repeats = ["", "", "", "*", "+", "?", "{1,2}", "*?"];
    const piece = constantFrom(...atoms.flatMap((atom) => repeats.map((count) => atom + count)));
    const group = array(piece, { maxLength: 3 }).map((pieces) => `(?:${pieces.join("")})`);
    const ahead = constantFrom("", "^", "^(?=a)", "^(?!b)", "^(?=.*1)(?!.*é)");
    const letters = constantFrom(...Array.from("ab1é _\n\u2028\u00A0😀"));
    assert(
      property(ahead, array(group, { maxLength: 3 }), string({ unit: letters }), (...given) => {
        const [head, groups, text] = given;
        const pattern = `${head}${groups.join("")}`;
        const isRepeatedEdge = /\\b[*+?{]/.test(pattern);
        if (isRepeatedEdge) return;
        expect(linearPattern(pattern)?.test(text), pattern).toBe(patternOf(pattern).test(text));
      }),
    );
  });
});

/** As checkers that read patterns by RegExp do. */
function patternOf(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return new RegExp(pattern);
  }
}

// Each would take RegExp for ever; a test may take 30 seconds.
describe("a pattern that goes back for ever", () => {
  const text = `${"a".repeat(50_000)}!`;
  for (const pattern of ["^(a+)+$", "^(a|a)*$", "^(?=(a+)+$)a", "^(.*a){12}$"]) {
    proves(["S7.4"], `does not: ${pattern}`, () => {
      const check = reader(objectWith({ type: "string", pattern }));
      expect([check("aaaaaaaaaaaa"), check(text)]).toEqual([
        "valid",
        expect.stringContaining("do not fit"),
      ]);
    });
  }

  proves(["S7.4"], "does not as the name of properties, nor within a union", () => {
    const pattern = "^(a+)+$";
    const names = { type: "object", patternProperties: { [pattern]: { type: "number" } } } as const;
    const { check } = inputSchema("tool.input", jsonSchema(names), { isStrict: true });
    expect(check({ [text]: "x" }).type).toBe("valid");
    const anyOf = [{ type: "string", pattern }, { type: "number" }];
    expect(reader(objectWith({ anyOf }))(text)).toContain("do not fit");
  });
});

// Ajv's own pattern for it goes back for each colon and each `@`: it would take minutes.
proves(["S7.4"], "nor can a format hold up the process", () => {
  const check = reader(objectWith({ type: "string", format: "url" }));
  const texts = ["http://a.org/b?c#d", "HTTPS://u:p@localhost:80", "ftp://[::1]/"];
  const others = ["mailto:a@b.org", "http:a", "http://a b", "http://", "http://a:b", " http://a"];
  const long = `http://${":@".repeat(500_000)}`;
  expect(texts.map(check)).toEqual(texts.map(() => "valid"));
  for (const text of [...others, long]) expect(check(text)).toContain("text in the format url");
});

proves(["S7.4"], "the work of a pattern is counted: a text too long for it does not fit", () => {
  const check = reader(
    objectWith({ type: "string", pattern: "(\\pL{1,1000})\\b".replace("L", "{L}") }),
  );
  expect(check("a".repeat(100))).toBe("valid");
  expect(check("a".repeat(100_000))).toContain("texts short enough to match patterns with");
});

proves(["S7.4"], "all patterns of one check count together", () => {
  const schema = { type: "array", items: { type: "string", pattern: "^[a-z]{0,900}$" } } as const;
  const { check } = inputSchema("tool.input", jsonSchema(objectWith(schema)), { isStrict: true });
  const list = (length: number): readonly string[] => Array.from({ length }, () => "abc");
  expect([check({ x: list(100) }).type, check({ x: list(1_000) }).type]).toEqual([
    "valid",
    "invalid",
  ]);
  expect(check({ x: list(100) }).type).toBe("valid");
});

proves(["S7.4"], "patterns too large to keep are refused with their schema", () => {
  const many = Array.from({ length: 200 }, (_none, at) => ({ pattern: `a{999}${at}` }));
  const error = thrownBy(() => reader(objectWith({ type: "string", allOf: many })));
  expect([error.code, error.data["reason"]]).toEqual([
    "invalid_definition",
    "its patterns are too large",
  ]);
});

describe("a pattern that cannot be matched in bounded time", () => {
  const patterns = ["^(a)\\1$", "a(?=b)", "(?<!a)b", "^a{1,2000}$", "^(?=a)x|y"];

  proves(["S7.4"], "is not checked, which is said; the rest of the schema is", () => {
    const emit = vi.spyOn(process, "emitWarning").mockImplementation(() => undefined);
    try {
      const checks = patterns.map((pattern) =>
        reader(objectWith({ type: "string", pattern, maxLength: 3 })),
      );
      expect(checks.map((check) => check("zzz"))).toEqual(patterns.map(() => "valid"));
      for (const check of checks) expect(check("zzzz")).toContain("do not fit");
      expect(emit.mock.calls.map(([said]) => said)).toEqual(
        patterns.map(
          (pattern) =>
            `Of tool.input, patterns are not checked that cannot be matched in bounded time: ${JSON.stringify(pattern)}. See docs/tools.md.`,
        ),
      );
    } finally {
      emit.mockRestore();
    }
  });

  const pattern = "^(a)\\1$";
  const decisive: readonly JsonObject[] = [
    { not: { type: "string", pattern } },
    // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
    { if: { pattern }, then: { maxLength: 1 } },
    { oneOf: [{ type: "string", pattern }, { type: "number" }] },
    { type: "object", patternProperties: { [pattern]: { type: "number" } } },
    { not: { $ref: "#/$defs/it" } },
  ];
  for (const schema of decisive) {
    proves(["S7.4"], `is refused where more depends on it: ${JSON.stringify(schema)}`, () => {
      const whole = { ...objectWith(schema), $defs: { it: { type: "string", pattern } } };
      const error = thrownBy(() => reader(whole));
      expect([error.code, error.data["reason"]]).toEqual([
        "invalid_definition",
        `it depends on patterns that cannot be matched in time: ${JSON.stringify(pattern)}`,
      ]);
    });
  }
});
