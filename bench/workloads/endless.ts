// endless: what a server costs that never stops, whatever it sends: how long the event loop is held up, and how much memory is taken.

import { setTimeout as pause } from "node:timers/promises";

import { longestBlock } from "../harness/event-loop.ts";
import {
  alone,
  ESPALIER,
  type Measured,
  type MeasuringTask,
  type Workload,
} from "../harness/workload.ts";

/** Behind `/endless/` of the server's address. */
export const ENDLESS_KINDS = [
  "text",
  "reasoning",
  "arguments",
  "line",
  "data",
  "comments",
  "nothing",
  "json",
] as const;
export type EndlessKind = (typeof ENDLESS_KINDS)[number];

const BYTES_PER_MB = 1_000_000;
const LOOK_EVERY_MS = 2;

export const ENDLESS: Workload = {
  id: "endless",
  title: "replies that never end, of eight kinds",
  contenders: [ESPALIER],
  measure: endlessFigures,
  rows: [
    alone({ figure: "longest block", unit: "ms", of: "blockMs", limit: "≤ 50 ms" }),
    alone({ figure: "memory of the process", unit: "MB", of: "memoryMb", limit: "≤ 64 MB" }),
  ],
};

async function endlessFigures({ serverUrl, sizes }: MeasuringTask): Promise<Measured> {
  const { openai } = await import("espalier");
  /** Returns false for a reply that was cut, or that failed. */
  const ask = async (kind: string, maxOutputTokens: number): Promise<boolean> => {
    const model = openai("endless", { baseUrl: `${serverUrl}/endless/${kind}`, apiKey: "none" });
    const request = {
      messages: [{ role: "user", text: "Go on.", origin: "task" }],
      tools: [],
      maxOutputTokens,
    } as const;
    const signal = new AbortController().signal;
    return await model.generate(request, { signal, onDelta: () => undefined }).then(
      ({ finishReason }) => finishReason !== "length",
      () => false,
    );
  };
  // Once, so that what is loaded with the first call of a process is.
  if (!(await ask("short", 100))) throw new Error("Expected a reply that ends.");
  let [blockMs, memoryMb] = [0, 0];
  for (const maxOutputTokens of sizes.endlessCaps)
    for (const kind of ENDLESS_KINDS) {
      globalThis.gc?.();
      const before = process.memoryUsage.rss();
      const block = await longestBlock();
      const timer = setInterval(() => {
        memoryMb = Math.max(memoryMb, (process.memoryUsage.rss() - before) / BYTES_PER_MB);
      }, LOOK_EVERY_MS);
      if (await ask(kind, maxOutputTokens)) throw new Error(`Expected ${kind} to be broken off.`);
      clearInterval(timer);
      blockMs = Math.max(blockMs, await block());
      await pause(LOOK_EVERY_MS);
    }
  return { figures: { blockMs, memoryMb } };
}

const PIECE_BYTES = 64 * 1_024;

/** What a server sends over and over again. */
export function endlessPiece(kind: EndlessKind): Buffer {
  const delta = (said: object): string =>
    `data: ${JSON.stringify({ choices: [{ index: 0, delta: said }] })}\n\n`;
  const call = { index: 0, id: "call_0", function: { name: "add", arguments: "word " } };
  const words: Readonly<Record<EndlessKind, string>> = {
    text: delta({ content: "word " }),
    reasoning: delta({ reasoning_content: "word " }),
    arguments: delta({ tool_calls: [call] }),
    line: "word ",
    data: "data: word\n",
    comments: ": still here\n\n",
    nothing: `data: ${JSON.stringify({ choices: [] })}\n\n`,
    json: "[",
  };
  const word = words[kind];
  return Buffer.from(word.repeat(Math.ceil(PIECE_BYTES / word.length)));
}
