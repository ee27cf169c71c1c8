// Goal: chunks that differ only in their text are read as if each of them were parsed.
// Method: streams of chunks in several formats whose texts resemble JSON. The output is compared
// with the input, and calls of JSON.parse are counted.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { computeReplyLimits } from "../../../src/model/reply-limits.ts";
import { StreamedReply } from "../../../src/model/openai/streamed-reply.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { texts } from "../../support/texts.ts";

/** The formats of a chunk around its text. */
const DRESSES: readonly ((text: string, index: number) => object)[] = [
  (content) => ({
    id: "c-1",
    model: "m",
    choices: [{ index: 0, delta: { content } }],
    usage: null,
  }),
  (content) => ({ id: "c-1", choices: [{ delta: { role: "assistant", content, refusal: null } }] }),
  (content) => ({
    choices: [
      { index: 1, delta: { content: "no" } },
      { index: 0, delta: { content } },
    ],
  }),
  (content) => ({
    choices: [
      { index: 0, delta: { content } },
      { index: 1, delta: { content } },
    ],
  }),
  // The other fields differ in each chunk and must not be lost.
  (content, index) => ({ choices: [{ delta: { content, reasoning: `r${index}` } }] }),
  (content, index) => ({ obfuscation: index, choices: [{ delta: { content } }] }),
  (content) => ({ choices: [{ delta: { content, refusal: "N" } }] }),
  (content, index) => ({
    choices: [{ delta: { content } }],
    usage: { prompt_tokens: 9, completion_tokens: index },
  }),
];

const text = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.constantFrom(
    '"',
    "\\",
    '","content":"',
    '"}}]}',
    "\n",
    "世界",
    "probe",
    " more",
    "\u2028",
    "\ud800",
  ),
);
const chunk = fc.record({ text, dress: fc.nat(DRESSES.length - 1) });
/** Sequences of chunks in one format, as in real streams. */
const chunks = fc.array(fc.tuple(chunk, fc.array(text, { maxLength: 5 })), { maxLength: 8 });

function streamed(list: readonly string[]): { readonly reply: object; readonly pieces: string[] } {
  const pieces: string[] = [];
  const reply = new StreamedReply(
    computeReplyLimits(10_000),
    texts((piece) => pieces.push(piece)),
    undefined,
  );
  for (const data of list) reply.take(data);
  reply.take(JSON.stringify({ choices: [{ delta: {}, finish_reason: "stop" }] }));
  return { reply: reply.finish(), pieces };
}

test("reads chunks that differ only in their text like chunks that differ in every field, for any text", () => {
  fc.assert(
    fc.property(chunks, (runs) => {
      const dressed = runs.flatMap(([first, others]) =>
        [first.text, ...others].map((one) => ({ text: one, dress: first.dress })),
      );
      const objects = dressed.map((one, index) => DRESSES[one.dress]?.(one.text, index) ?? {});
      const alike = streamed(objects.map((one) => JSON.stringify(one)));
      const unlike = streamed(objects.map((one, index) => JSON.stringify({ ...one, n: index })));
      expect(alike).toEqual(unlike);
      expect(alike.pieces).toEqual(dressed.map((one) => one.text).filter((one) => one !== ""));
    }),
  );
});

/** Returns how often JSON is parsed while `work` runs. */
function parses(work: () => void): number {
  const { parse } = JSON;
  let count = 0;
  JSON.parse = new Proxy(parse, {
    apply: (...call): unknown => {
      count += 1;
      return Reflect.apply(...call);
    },
  });
  afterwards(() => (JSON.parse = parse));
  work();
  JSON.parse = parse;
  return count;
}

test("parses 1,000 chunks that differ only in their text a few times, and other chunks about once each", () => {
  const list = (dress: number): readonly string[] =>
    Array.from({ length: 1_000 }, (_one, index) =>
      JSON.stringify(DRESSES[dress]?.(` word ${index}`, index)),
    );
  expect(parses(() => streamed(list(0)))).toBeLessThanOrEqual(4);
  expect(parses(() => streamed(list(5)))).toBeLessThanOrEqual(1_010);
});

test("does not use a chunk that contains its text twice as the template of the next chunks", () => {
  const list = ["probe", "other", "probe"].flatMap((content) => [
    JSON.stringify({ choices: [{ delta: { content } }], obfuscation: content }),
    JSON.stringify({ choices: [{ delta: { content } }], obfuscation: "xyzvw" }),
  ]);
  expect(streamed(list).pieces).toEqual(["probe", "probe", "other", "other", "probe", "probe"]);
});
