// Goal: whatever texts a run has, models' and tools' own included, its journal gives them back.
// Method: records of random texts, some of them long and some written like the marks of a journal, written and read as a journal is.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { readRecord, TextTable } from "../../src/orchestrator/durability/text-table.ts";

/** What a journal has of these records, read back. */
function thereAndBack(records: readonly object[]): readonly unknown[] {
  const table = new TextTable();
  const lines: string[] = [];
  for (const record of records) {
    const line = table.written(record, (text) => lines.push(text));
    lines.push(line);
  }
  const texts: string[] = [];
  return lines.flatMap((line) => {
    const record = readRecord(line, texts);
    if (typeof record !== "object" || record === null || !("type" in record)) return [record];
    if (record.type !== "text") return [record];
    expect(record).toHaveProperty("text", expect.any(String));
    texts.push("text" in record ? String(record.text) : "");
    return [];
  });
}

const mark = fc.constantFrom(
  "",
  "\u0001",
  "\u0001#",
  "\u0001=",
  "\u0001#0",
  "\u0001#7",
  "\\u0001#0",
);
const length = fc.constantFrom(0, 1, 158, 159, 160, 161, 400);
const text = fc
  .tuple(mark, fc.string({ unit: "binary", maxLength: 4 }), length)
  .map(([start, middle, most]) => `${start}${middle}${"x".repeat(most)}`);
const record = fc.record({ said: text, list: fc.array(text, { maxLength: 3 }) });

test("every record comes back, long texts that look like references included", () => {
  fc.assert(
    fc.property(fc.array(record, { maxLength: 6 }), (records) => {
      expect(thereAndBack(records)).toEqual(records);
    }),
    { numRuns: 1_000 },
  );
});
