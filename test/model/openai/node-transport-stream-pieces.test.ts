// Goal: a body of megabytes that arrives at once does not block the event loop.
// Method: a stream that is full before it is read; the bytes and chunks of each turn of the event
// loop are counted.

import { Readable } from "node:stream";

import { expect } from "vitest";

import { StreamPieces } from "../../../src/model/openai/node-transport.ts";
import { proves } from "../../harness/proves.ts";

/** Returns the most bytes and chunks that were emitted in one turn, and all bytes. */
async function mostInTurn(
  stream: Readable,
): Promise<{ bytes: number; pieces: number; all: Buffer }> {
  let [bytes, pieces, mostBytes, mostPieces] = [0, 0, 0, 0];
  let isOver = false;
  const turn = (): void => {
    [bytes, pieces] = [0, 0];
    if (!isOver) setImmediate(turn);
  };
  turn();
  const all: Uint8Array[] = [];
  for await (const piece of new StreamPieces(stream)) {
    all.push(piece);
    bytes += piece.length;
    pieces += 1;
    mostBytes = Math.max(mostBytes, bytes);
    mostPieces = Math.max(mostPieces, pieces);
  }
  isOver = true;
  return { bytes: mostBytes, pieces: mostPieces, all: Buffer.concat(all) };
}

proves(["S7.3"], "emits at most 320 KiB per turn of the event loop", async () => {
  const whole = Buffer.alloc(4 * 2 ** 20, "It is a tree. ");
  const stream = new Readable({ highWaterMark: 8 * 2 ** 20, read: () => undefined });
  stream.push(whole);
  stream.push(null);
  const most = await mostInTurn(stream);
  expect(most.all.equals(whole)).toBe(true);
  expect(most.bytes).toBeLessThanOrEqual(320 * 1024);
});

proves(["S7.3"], "emits at most 512 small chunks per turn of the event loop", async () => {
  const stream = Readable.from(
    Array.from({ length: 5_000 }, () => Buffer.from("ab")),
    { objectMode: true, highWaterMark: 10_000 },
  );
  const most = await mostInTurn(stream);
  expect(most.all.length).toBe(10_000);
  expect(most.pieces).toBeLessThanOrEqual(512);
});
