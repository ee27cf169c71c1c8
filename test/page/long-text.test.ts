// Goal: the page shows long foreign text without delay.
// Method: run its text functions, without a browser, on texts that were expensive.

import { expect } from "vitest";

import { parseEvents } from "../../viewer-page/data/event-stream.ts";
import { compareTexts } from "../../viewer-page/text/text-changes.tsx";
import { indentJson, indentIfJson } from "../../viewer-page/text/json-text.ts";
import { toLine } from "../../viewer-page/text/shown-text.tsx";
import { proves } from "../harness/proves.ts";
import { expectLinear, longText, REPEATED } from "../support/long-text.ts";

const BYTES = 2_000_000;

const PAGE_FUNCTIONS: Readonly<Record<string, (text: string) => unknown>> = {
  readable: indentIfJson,
  indented: (text) => indentJson({ a: { b: text } }),
  lineOf: (text) => toLine(text),
  changesBetween: (text) => compareTexts(text, `${text}!`),
};

proves(["D422"], "lays out and compares expensive text in linear time", () => {
  for (const [input, repeated] of Object.entries(REPEATED))
    for (const [name, work] of Object.entries(PAGE_FUNCTIONS))
      expectLinear(`${name} of ${input}`, repeated, { bytes: BYTES, work });
});

proves(["D422"], "indents nested lists up to 50 levels and leaves deeper text unchanged", () => {
  const deep = `${"[".repeat(400_000)}${"]".repeat(400_000)}`;
  expect(indentIfJson(deep)).toBe(deep);
  const levels = 2_000;
  const nested = `${"[".repeat(levels)}"${"x".repeat(80)}"${"]".repeat(levels)}`;
  expectLinear("indented", nested, {
    bytes: 600_000,
    work: (text) => indentIfJson(`[${text.replaceAll("][", "],[")}]`),
  });
  const shown = indentIfJson(nested);
  expect(JSON.parse(shown)).toEqual(JSON.parse(nested));
  expect(shown.split("\n").length).toBeLessThan(110);
});

proves(["D422"], "shows two texts one after the other if a comparison would take too long", () => {
  const [from, to] = ["a\n", "b\n"].map((line) => longText(line, 1_000_000));
  expect(compareTexts(from ?? "", to ?? "")).toEqual([
    { value: from, added: false, removed: true },
    { value: to, added: true, removed: false },
  ]);
  const numbers = Array.from({ length: 40_000 }, (_none, index) => `${index}\n`);
  const reversed = numbers.toReversed().join("");
  expectLinear("a comparison", "a", {
    bytes: 2,
    work: () => compareTexts(numbers.join(""), reversed),
  });
});

proves(["D422"], "parses an event of 8 MB in small chunks without rescanning it", async () => {
  const event = `id: 1\r\ndata: ${"x".repeat(8_000_000)}\r\n\r\nid: 2\ndata: y\n\n`;
  const bytes = new TextEncoder().encode(event);
  const startedMs = performance.now();
  const lengths: number[] = [];
  for await (const { data } of parseEvents(inChunks(bytes, 1_000))) lengths.push(data.length);
  expect(lengths).toEqual([8_000_000, 1]);
  expect(performance.now() - startedMs).toBeLessThan(5_000);
});

function inChunks(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream({
    pull: (controller) => {
      if (at >= bytes.length) controller.close();
      else controller.enqueue(bytes.subarray(at, (at += size)));
    },
  });
}
