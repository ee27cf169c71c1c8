// Goal: a journal returns every record unchanged, to the order of keys, also to a process that
// continues after another one.
// Method: random records of the kinds of a journal, some texts long, some written like marks;
// written in lines of random length, read back.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import type { JournalRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import { AgentIdSchema } from "../../../src/protocol/ids.ts";

const mark = fc.constantFrom(
  "",
  "~",
  "~=",
  "~#0",
  "~1",
  "~-",
  "~:",
  "\u0001#0",
  "\u0001=",
  "\\u0001#0",
);
const length = fc.constantFrom(0, 1, 8, 9, 40, 158, 159, 160, 161, 400);
const text = fc
  .tuple(mark, fc.string({ unit: "binary", maxLength: 3 }), length)
  .map(([start, middle, most]) => `${start}${middle}${"x".repeat(most)}`);
const key = fc.constantFrom(
  "a",
  "b",
  "c",
  "10",
  "2",
  "~",
  "constructor",
  "toString",
  "type",
  "__proto__",
);
const leaf = fc.oneof(text, fc.integer(), fc.double(), fc.boolean(), fc.constant(null));
const { value } = fc.letrec<{ readonly value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    leaf,
    fc.array(tie("value"), { maxLength: 3 }),
    fc
      .uniqueArray(fc.tuple(key, fc.oneof(tie("value"), fc.constant(undefined))), {
        maxLength: 4,
        selector: ([name]) => name,
      })
      .map((parts) => Object.fromEntries(parts)),
  ),
}));

const agentId = AgentIdSchema().parse("agent_1");
const record: fc.Arbitrary<JournalRecord> = fc.oneof(
  value.map((outcome) => ({ type: "effect", agentId, name: "model.1", outcome }) as const),
  value.map((outcome) => ({ type: "effect", agentId, name: "tool.1.0:a", outcome }) as const),
  value.map((run) => ({ type: "restored", run }) as const),
  text.map((name) => ({ type: "begun", agentId, name }) as const),
  text.map((message) => ({ type: "skip", message }) as const),
);

/** Returns the JSON of records, including the order of keys. */
function written(records: readonly unknown[]): readonly string[] {
  return records.map((one) => JSON.stringify(one));
}

function readBack(codec: RecordCodec, lines: readonly string[]): readonly unknown[] {
  return lines.flatMap((line) => codec.read(line));
}

test("reads every record back, and continues a journal with the codec that read it", () => {
  fc.assert(
    fc.property(
      fc.array(record, { maxLength: 12 }),
      fc.array(record, { maxLength: 12 }),
      fc.nat(),
      (first, second, every) => {
        const writer = new RecordCodec();
        const lines: string[] = [];
        for (const [index, one] of first.entries()) {
          writer.add(one);
          if (every % (index + 2) === 0) lines.push(...writer.take());
        }
        lines.push(...writer.take());
        const next = new RecordCodec();
        expect(written(readBack(next, lines))).toEqual(written(first));
        for (const one of second) next.add(one);
        const all = [...lines, ...next.take()];
        expect(written(readBack(new RecordCodec(), all))).toEqual(written([...first, ...second]));
      },
    ),
    { numRuns: 1_000 },
  );
});

test("reads a record back from a complete line, as in recordings", () => {
  fc.assert(
    fc.property(fc.array(record, { maxLength: 6 }), (records) => {
      const lines = written(records);
      expect(written(readBack(new RecordCodec(), lines))).toEqual(lines);
    }),
    { numRuns: 1_000 },
  );
});

test("writes a record as it was when it was added, despite later changes", () => {
  const codec = new RecordCodec();
  const outcome = { list: [1], text: "a" };
  const effect = { type: "effect", agentId, name: "model.1", outcome } as const;
  codec.add(effect);
  const before = JSON.stringify(effect);
  outcome.list.push(2);
  codec.add(effect);
  expect(written(readBack(new RecordCodec(), codec.take()))).toEqual([
    before,
    JSON.stringify(effect),
  ]);
});
