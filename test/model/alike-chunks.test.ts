// Goal: chunks that differ in their text alone are read as if each were parsed.
// Method: streams of chunks in several dresses, whose texts look like JSON; what came is compared with what was put in, and how often JSON
// is parsed is counted.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { computeReplyLimits } from "../../src/model/reply-limits.ts";
import { StreamedReply } from "../../src/model/openai/streamed-reply.ts";
import { afterwards } from "../harness/afterwards.ts";
import { texts } from "../support/texts.ts";

/** What stands around a text. */
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
  // What it says besides must not be lost, and says something else each time.
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
/** Runs of one dress, as streams have them. */
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

test("any texts in any dress come out as they do from chunks of which no two look alike", () => {
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

/** How often JSON is parsed while `work` runs. */
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

test("a thousand chunks that differ in their text alone are parsed a few times, others once each and a few times more", () => {
  const list = (dress: number): readonly string[] =>
    Array.from({ length: 1_000 }, (_one, index) =>
      JSON.stringify(DRESSES[dress]?.(` word ${index}`, index)),
    );
  expect(parses(() => streamed(list(0)))).toBeLessThanOrEqual(4);
  expect(parses(() => streamed(list(5)))).toBeLessThanOrEqual(1_010);
});

test("a chunk that says its text twice is no frame, whatever the text is", () => {
  const list = ["probe", "other", "probe"].flatMap((content) => [
    JSON.stringify({ choices: [{ delta: { content } }], obfuscation: content }),
    JSON.stringify({ choices: [{ delta: { content } }], obfuscation: "xyzvw" }),
  ]);
  expect(streamed(list).pieces).toEqual(["probe", "probe", "other", "other", "probe", "probe"]);
});
