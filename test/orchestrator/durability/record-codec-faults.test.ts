// Goal: a record that cannot be written has no effect: later records are read back unchanged.
// Method: circular records among others of the same kind and with the same texts.

import { expect, test } from "vitest";

import type { JournalRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import { parseId } from "../../../src/protocol/ids.ts";

const agentId = parseId<"AgentId">("agent_1");

function effect(name: string, outcome: object): JournalRecord {
  return { type: "effect", agentId, name, outcome };
}

function letter(text: string): JournalRecord {
  return { type: "letter", agentId, text };
}

function circular(text: string): object {
  const data: Record<string, unknown> = { why: text };
  data["self"] = data;
  return data;
}

const readable: readonly JournalRecord[] = [
  effect("model.1", { a: "the first outcome" }),
  letter("pay ten euros"),
  letter("pay nine euros"),
  effect("model.3", { a: "the first outcome", b: "a further text" }),
  { type: "definition", hash: "h", text: "pay ten euros" },
  effect("tool.3.0:t", { a: "the first outcome" }),
];

for (const at of readable.keys())
  test(`leaves other records unchanged if a record in place ${at} cannot be written`, () => {
    const codec = new RecordCodec();
    for (const [index, record] of readable.entries()) {
      if (index === at)
        for (const kind of ["model.2", "tool.2.0:t"])
          expect(() =>
            codec.add(effect(kind, circular("pay nine euros, or a text of its own"))),
          ).toThrow(RangeError);
      codec.add(record);
    }
    const reader = new RecordCodec();
    expect(codec.take().flatMap((line) => reader.read(line))).toEqual(readable);
  });
