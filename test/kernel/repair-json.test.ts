// Goal: JSON with a small mistake is read as it was meant, and nothing is invented, dropped or
// changed.
// Method: texts with mistakes and their values; texts with other errors, as reviewers and the
// library's own repairs suggest them; a property over texts with mistakes and cuts.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { repairJson } from "../../src/kernel/repair-json.ts";
import { proves } from "../harness/proves.ts";

const MEANT: Readonly<Record<string, unknown>> = {
  '{"a":1,}': { a: 1 },
  '{"a":[1,2,],}': { a: [1, 2] },
  '{"a":1 "b":2}': { a: 1, b: 2 },
  '{"a":[1 2]}': { a: [1, 2] },
  "{'a':'b'}": { a: "b" },
  "{'a':'it\\'s \"b\"\\n'}": { a: 'it\'s "b"\n' },
  '{"a":1, /* one */ "b":2}': { a: 1, b: 2 },
  '{"a":1, // it\'s {one}\n"b":2}': { a: 1, b: 2 },
  '{"a":"// no comment, /* neither */"}': { a: "// no comment, /* neither */" },
};

proves(["M50"], "repairs small mistakes", () => {
  for (const [text, value] of Object.entries(MEANT)) expect(repairJson(text), text).toEqual(value);
});

const WRONG = [
  '{"query":"DELETE FROM t WHERE id = "5""}',
  "{'query':'DELETE FROM t WHERE a = '1' AND b = '2''}",
  "{'query':'it's John's'}",
  '{"ids":[1,2,...,10]}',
  '{"ids":[1,2,...]}',
  '{"path":"a","limit":}',
  '{"amount":1e}',
  '{"path":"/data", // all of {it}}\n "only": pa',
  '{"c": `foo} ',
  "{“path”: “a}",
  'delete({"path":"a"})',
  '{"a":"1"+"2"}',
  '{"lines":[1,2}}',
  '{"a":undefined}',
  '{"a":None}',
  '{"a":True}',
  "{a:1}",
  '{"a":1',
  '{"a":[1',
  '{"a":"b',
  "{'a':'b",
  '{"a":1 /* open',
  '{"a":1}{"b":2}',
  '{"a":"line\nbreak",}',
  "",
  `{'a':'${"b".repeat(20_000)}'}`,
];

proves(["M50"], "returns undefined for a text with other errors", () => {
  for (const text of WRONG) expect(repairJson(text), text.slice(0, 80)).toBeUndefined();
});

test("restores the value of a text with mistakes or nothing, and no object of a text that was cut", () => {
  const key = fc.stringMatching(/^[a-z'"\\ ]{1,6}$/);
  const value = fc.oneof(
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.stringMatching(/^[ -~]{0,8}$/),
  );
  const object = fc.dictionary(key, fc.oneof(value, fc.array(value, { maxLength: 3 })), {
    minKeys: 1,
    maxKeys: 4,
    noNullPrototype: true,
  });
  let [count, refused] = [0, 0];
  fc.assert(
    fc.property(object, fc.nat(), (meant, cut) => {
      const body = JSON.stringify(meant).slice(1, -1);
      for (const text of [`{${body},}`, `{/* first */${body}}`, `{${body} // last\n}`]) {
        const mended = repairJson(text);
        if (mended === undefined) refused += 1;
        else expect(mended).toEqual(meant);
        count += 1;
        const part = text.slice(0, cut % text.length);
        if (!part.trimEnd().endsWith("}")) expect(repairJson(part)).toSatisfy(isNoObject);
      }
    }),
  );
  // The library itself fails on some.
  expect(refused / count).toBeLessThan(0.2);
});

function isNoObject(value: unknown): boolean {
  return typeof value !== "object" || value === null;
}
