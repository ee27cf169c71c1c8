// Goal: server-sent events are parsed correctly wherever the network splits them.
// Method: every split of one stream, and random splits.

import { array, assert, nat, property, string } from "fast-check";
import { expect, test } from "vitest";

import { EventSplitter } from "../../src/model/server-sent-events.ts";

function split(...pieces: readonly (string | Uint8Array)[]): readonly string[] {
  const events: string[] = [];
  const splitter = new EventSplitter();
  for (const piece of pieces) splitter.push(Buffer.from(piece), (data) => events.push(data));
  splitter.end((data) => events.push(data));
  return events;
}

const STREAM =
  'data: {"a":1}\n\n: note\r\n\r\nevent: x\nid: 7\ndata:two\r\ndata:  lines\r\n\r\n\n\ndata:\n\ndata: last';
const EVENTS = ['{"a":1}', "two\n lines", "", "last"];

test("joins the data lines of an event and ignores comments, event names, ids and empty events", () => {
  expect(split(STREAM)).toEqual(EVENTS);
});

test("returns the same events wherever the stream is split", () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    expect(split(STREAM.slice(0, cut), STREAM.slice(cut)), `cut at ${cut}`).toEqual(EVENTS);
  }
  expect(split(...STREAM.split(""))).toEqual(EVENTS);
});

test("emits an event as soon as its blank line has arrived", () => {
  const events: string[] = [];
  const splitter = new EventSplitter();
  const seen = ["data: a\n", "\nda", "ta: b\n", "\n"].map((piece) => {
    splitter.push(Buffer.from(piece), (data) => events.push(data));
    return [...events];
  });
  expect(seen).toEqual([[], ["a"], ["a"], ["a", "b"]]);
});

test("restores any texts that are written as events and split anywhere", () => {
  const line = string({ unit: "binary" }).map((text) => text.replaceAll(/[\r\n]/g, " "));
  assert(
    property(array(line), array(nat()), (texts, cuts) => {
      const stream = Buffer.from(texts.map((text) => `data: ${text}\n\n`).join(""));
      const at = [
        0,
        ...cuts.map((cut) => cut % (stream.length + 1)).toSorted((a, b) => a - b),
        stream.length,
      ];
      expect(split(...at.slice(1).map((end, index) => stream.subarray(at[index], end)))).toEqual(
        texts,
      );
    }),
  );
});

test("ignores a byte order mark before the first event only", () => {
  const bytes = Buffer.from("\uFEFFdata: a\n\ndata: \uFEFFb\n\n");
  expect(split(bytes)).toEqual(["a", "\uFEFFb"]);
  expect(split(bytes.subarray(0, 2), bytes.subarray(2))).toEqual(["a", "\uFEFFb"]);
});

test("counts only the bytes of events that have not ended", () => {
  const splitter = new EventSplitter();
  const held = ["data: abc\n", "dat", "a: d\n", ": note", "\n\n"].map((piece) => {
    splitter.push(Buffer.from(piece), () => undefined);
    return splitter.heldBytes;
  });
  expect(held).toEqual([3, 6, 5, 11, 0]);
});
