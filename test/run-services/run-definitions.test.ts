// Goal: a text is stored once under a collision-free hash, and known texts are not hashed again.
// Method: the table alone; unusual texts; lists that count how often they are read.

import { createHash } from "node:crypto";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { RunDefinitions } from "../../src/run-services/run-definitions.ts";
import { DefinitionsSchema, hashText } from "../../src/protocol/definition.ts";
import type { ToolSpec } from "../../src/model/model.ts";

const sha = (text: string): string => createHash("sha256").update(text, "utf8").digest("hex");

test("the hash of a text is the SHA-256 of its UTF-8", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (text) => {
      expect(hashText(text)).toBe(sha(text));
    }),
  );
});

test("texts with equal UTF-8 have different hashes", () => {
  const texts = ["\ud800", "\udfff", "\ufffd", "a\ud800", "", "\ud800\ud800"];
  expect(new Set(texts.map(hashText)).size).toBe(texts.length);
  const table = new RunDefinitions();
  expect(texts.map((text) => table.findText(table.define(text)))).toEqual(texts);
  const stored = DefinitionsSchema().parse(JSON.parse(JSON.stringify(table)));
  const back = new RunDefinitions(stored);
  expect(texts.map((text) => back.findText(hashText(text)))).toEqual(texts);
});

test("a text is stored once, whichever agent defines it, and other names find nothing", () => {
  const table = new RunDefinitions();
  const hash = table.define("Work.");
  expect([table.define("Work."), table.define(["Wo", "rk."].join(""))]).toEqual([hash, hash]);
  expect(table.toJSON()).toEqual({ [hash]: "Work." });
  for (const name of ["__proto__", "constructor", "toString", ""])
    expect(table.findText(name)).toBeUndefined();
  expect(table.define("__proto__")).toBe(sha("__proto__"));
  expect(table.toJSON()).toEqual({ [hash]: "Work.", [sha("__proto__")]: "__proto__" });
  expect(Object.isFrozen(table.toJSON())).toBe(true);
});

test("a table continues from the table of the run before a pause", () => {
  const before = new RunDefinitions();
  before.define("one");
  const after = new RunDefinitions(before.toJSON());
  after.define("one");
  after.define("two");
  expect(after.toJSON()).toEqual({ [sha("one")]: "one", [sha("two")]: "two" });
  expect(before.toJSON()).toEqual({ [sha("one")]: "one" });
});

test("a list of tools is read once, however often it is defined", () => {
  let reads = 0;
  const spec: ToolSpec = {
    get name() {
      reads += 1;
      return "look";
    },
    description: "Looks.",
    inputSchema: { type: "object" },
  };
  const table = new RunDefinitions();
  const tools = [spec];
  const first = table.defineTools(tools);
  const readOnce = reads;
  for (let step = 0; step < 50; step += 1) expect(table.defineTools(tools)).toBe(first);
  expect([reads, first.names]).toEqual([readOnce, ["look"]]);
  expect(table.defineTools([...tools]).hash).toBe(first.hash);
  expect(Object.keys(table.toJSON())).toEqual([first.hash]);
});
