// Goal: whatever a tool returns becomes a text or a TypeError; equal values become equal texts; cuts and leaks keep their laws.
// Method: random values and texts, with a naive implementation beside each.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { stringifyCanonical } from "../../src/kernel/json.ts";
import { findLeakedCall } from "../../src/policies/argument-leak.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import { redactSecrets } from "../../src/tools/redact-secrets.ts";
import { formatToolResult } from "../../src/tools/result-text.ts";
import { shortenText } from "../../src/tools/shorten-text.ts";

const RUNS = { numRuns: 500 };

test("for what is JSON, the text is canonical JSON", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(formatToolResult(value)).toBe(
        typeof value === "string" ? value : stringifyCanonical(value),
      );
    }),
    RUNS,
  );
});

const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withNullPrototype: true,
  withObjectString: true,
  withSet: true,
  withSparseArray: true,
  withTypedArray: true,
});

test("whatever it is becomes the same text twice, which is JSON unless it is a text, or a TypeError", () => {
  fc.assert(
    fc.property(anything, (value) => {
      const text = textOf(value);
      expect(textOf(value)).toBe(text);
      const within = textOf([value]);
      expect(text === undefined).toBe(within === undefined);
      if (within !== undefined) expect(formatToolResult(JSON.parse(within))).toBe(within);
    }),
    RUNS,
  );
});

/** Undefined for what cannot be shown. */
function textOf(value: unknown): string | undefined {
  try {
    return formatToolResult(value);
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(TypeError);
    return undefined;
  }
}

test("the order in which fields were set does not matter", () => {
  const entries = fc.uniqueArray(fc.tuple(fc.string(), fc.jsonValue()), {
    selector: ([key]) => key,
  });
  fc.assert(
    fc.property(entries, (entries) => {
      const text = formatToolResult(Object.fromEntries(entries));
      expect(formatToolResult(Object.fromEntries(entries.toReversed()))).toBe(text);
      expect(formatToolResult(new Map(entries))).toBe(text);
    }),
    RUNS,
  );
});

const pieces = fc.constantFrom(
  "a",
  "\u0301",
  "\u{1F600}",
  "\ud83d",
  "\ude00",
  "\u200d",
  "\r\n",
  "\u{1F1E6}",
);
const texts = fc.oneof(
  fc.string({ unit: pieces, maxLength: 80 }),
  fc.string({ unit: "binary", maxLength: 200 }),
);

test("what is shown is a beginning, within the limit, and tears no pair apart", () => {
  fc.assert(
    fc.property(texts, fc.nat(120), (text, limit) => {
      const { text: shortened, ...facts } = shortenText(text, limit);
      const shown = text.slice(0, facts.shownCharacters);
      expect(facts.totalCharacters).toBe(text.length);
      expect(facts.isShortened).toBe(text.length > limit);
      if (!facts.isShortened) {
        expect(shortened).toBe(text);
        return;
      }
      expect(shortened.startsWith(shown)).toBe(true);
      expect(facts.shownCharacters).toBeLessThanOrEqual(limit);
      expect(facts.shownCharacters).toBeGreaterThanOrEqual(limit - 64);
      const pair = (text.codePointAt(shown.length - 1) ?? 0) > 0xff_ff;
      expect(pair && shown !== "").toBe(false);
    }),
    RUNS,
  );
});

const json = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }));
const noise = fc.constantFrom<(text: string) => string>(
  (text) => text,
  (text) => `\n${text} `,
  (text) => `\`\`\`json\n${text}\n\`\`\``,
);

test("a text leaks exactly the arguments that it is equal to", () => {
  fc.assert(
    fc.property(json, json, noise, (said, given, around) => {
      const call = {
        callId: CallIdSchema().parse("call_1"),
        toolName: "look",
        argumentsText: JSON.stringify(given),
      };
      const leaks = (value: unknown): boolean =>
        findLeakedCall({ text: around(JSON.stringify(value, undefined, 2)), toolCalls: [call] }) !==
        undefined;
      expect(leaks(given)).toBe(isExact(given));
      expect(leaks({ name: "look", arguments: given })).toBe(isExact(given));
      expect(leaks(said)).toBe(
        stringifyCanonical(said) === stringifyCanonical(given) && isExact(given),
      );
    }),
    RUNS,
  );
});

/** No number in it is beyond the safe integers. */
function isExact(value: unknown): boolean {
  let exact = true;
  JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part === "number" && Math.abs(part) > Number.MAX_SAFE_INTEGER) exact = false;
    return part;
  });
  return exact;
}

test("no text at all makes a leak, or the filter of secrets, throw", () => {
  const call = { callId: CallIdSchema().parse("call_1"), toolName: "look", argumentsText: "{}" };
  const words = fc.constantFrom(
    "token",
    "password",
    "=",
    ":",
    '"',
    "'",
    "\\",
    "://",
    "@",
    " ",
    "{",
    "}",
    "`",
    "a1",
    "[",
    "\n",
    "Bearer ",
    "authorization",
  );
  fc.assert(
    fc.property(fc.string({ unit: words, maxLength: 40 }), (text) => {
      const toolCalls = [{ ...call, argumentsText: text }];
      expect([undefined, toolCalls[0]]).toContain(findLeakedCall({ text, toolCalls }));
      expect(typeof redactSecrets(text)).toBe("string");
    }),
    RUNS,
  );
});

test("a text without any of the marks of a secret stays as it is", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (text) => {
      const plain = text.replaceAll(/[:=%_-]/g, "");
      expect(redactSecrets(plain)).toBe(plain);
    }),
    RUNS,
  );
});
