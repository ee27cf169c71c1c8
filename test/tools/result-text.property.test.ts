// Goal: any return value of a tool becomes a text or a TypeError, equal values become equal texts,
// and the laws of shortening and leak detection hold.
// Method: random values and texts, compared with naive implementations.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { stringifyCanonical } from "../../src/kernel/json.ts";
import { findLeakedCall } from "../../src/policies/argument-leak.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import { redactSecrets } from "../../src/tools/redact-secrets.ts";
import { formatToolResult } from "../../src/tools/result-text.ts";
import { shortenText } from "../../src/tools/shorten-text.ts";

const RUNS = { numRuns: 500 };

test("formats JSON values as canonical JSON", () => {
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

test("formats any value as the same text twice, or throws a TypeError; except for strings the text is JSON", () => {
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

/** `undefined` for a value that cannot be shown. */
function textOf(value: unknown): string | undefined {
  try {
    return formatToolResult(value);
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(TypeError);
    return undefined;
  }
}

test("ignores the order in which fields were set", () => {
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

test("shows a prefix within the limit that splits no surrogate pair", () => {
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

test("reports a leak exactly for texts that equal the arguments of a call", () => {
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

/** True if no number in the value is beyond the safe integers. */
function isExact(value: unknown): boolean {
  let exact = true;
  JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part === "number" && Math.abs(part) > Number.MAX_SAFE_INTEGER) exact = false;
    return part;
  });
  return exact;
}

test("never throws in leak detection or secret redaction", () => {
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

test("does not change a text without any character that marks secrets", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (text) => {
      const plain = text.replaceAll(/[:=%_-]/g, "");
      expect(redactSecrets(plain)).toBe(plain);
    }),
    RUNS,
  );
});
