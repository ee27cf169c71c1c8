// Goal: whatever a server sends, a run ends with a clear reason, in bounded memory, and exceeds its
// budget by one call's excess at most.
// Method: servers that never end, send a gigabyte, report false usage, redirect or break the
// protocol. Their client is a separate program with a small heap, which reports how its runs ended.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "../harness/proves.ts";
import { OpenAiServer, says, status, type ServerReply } from "../support/openai-server.ts";

const CLIENT = new URL("hostile-client.ts", import.meta.url).pathname;
const MIB = 1024 * 1024;
const HEAP_MIB = 64;
const MOST_BYTES = 64 * MIB;
const CAP = 200;
const BUDGET = 5_000;
/**
 * The maximum cost of a reply beyond its cap: 16 bytes per token and 4 KiB, at three bytes per
 * token.
 */
const MOST_EXCESS = Math.ceil((16 * CAP + 4_096) / 3);

const ReportSchema = z.object({
  runs: z.array(
    z.object({
      status: z.string(),
      reason: z.string(),
      errors: z.array(z.string()),
      text: z.string(),
      calls: z.number(),
      tokens: z.number(),
      estimated: z.number(),
    }),
  ),
  peakBytes: z.number(),
  heapBytes: z.number(),
});

function* repeated(piece: string, count = Infinity, first = ""): Generator<string, void> {
  if (first !== "") yield first;
  for (let sent = 0; sent < count; sent += 1) yield piece;
}

function event(delta: object, finish: string | null = null): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
}

const A_LOT = "x".repeat(MIB);
const BEGUN = '{"choices":[{"index":0,"message":{"role":"assistant","content":"';
const MAX = Number.MAX_SAFE_INTEGER;
const JSON_TYPE = { contentType: "application/json" } as const;

interface Hostile {
  readonly answer: (count: number) => ServerReply;
  /** The end of each run: not streamed, streamed. */
  readonly ends: readonly string[];
  readonly requests: number;
}

const BROKEN_OFF = "failed error model_protocol_error";
const DONE = "completed completed ";
/** A stream that is cut at twice its cap ends as length. */
const CUT = "stopped finish_reason ";

const HOSTILE: Readonly<Record<string, Hostile>> = {
  "endless text": {
    answer: () => ({ type: "pours", pieces: repeated(event({ content: "word ".repeat(100) })) }),
    ends: [BROKEN_OFF, CUT],
    requests: 2,
  },
  "endless reasoning": {
    answer: () => ({
      type: "pours",
      pieces: repeated(event({ reasoning_content: "hm ".repeat(99) })),
    }),
    ends: [BROKEN_OFF, CUT],
    requests: 2,
  },
  "an endless line": {
    answer: () => ({ type: "pours", pieces: repeated(A_LOT, Infinity, "data: ") }),
    ends: [BROKEN_OFF, BROKEN_OFF],
    requests: 2,
  },
  "a line in single bytes": {
    answer: () => ({ type: "pours", pieces: repeated("x".repeat(512)) }),
    ends: [BROKEN_OFF, BROKEN_OFF],
    requests: 2,
  },
  "a body of a gigabyte": {
    answer: () => ({ type: "pours", pieces: repeated(A_LOT, 1_024, BEGUN), ...JSON_TYPE }),
    ends: [BROKEN_OFF, BROKEN_OFF],
    requests: 2,
  },
  "an error of a gigabyte": {
    answer: () => ({ type: "pours", pieces: repeated(A_LOT, 1_024), status: 400 }),
    ends: ["failed error model_invalid_request", "failed error model_invalid_request"],
    requests: 2,
  },
  "absurd usage": {
    answer: () => says("Fine.", { usage: { prompt_tokens: MAX, completion_tokens: MAX } }),
    ends: [DONE, DONE],
    requests: 2,
  },
  "negative usage": {
    answer: () => says("Fine.", { usage: { prompt_tokens: -1, completion_tokens: -1e9 } }),
    ends: [DONE, DONE],
    requests: 2,
  },
  "redirects without end": {
    answer: () => status(307, { location: "/v1/chat/completions" }),
    ends: ["failed error model_invalid_request", "failed error model_invalid_request"],
    requests: 12,
  },
  "an unknown finish reason": {
    answer: () => says("Fine.", { finishReason: "eos_token" }),
    ends: [DONE, DONE],
    requests: 2,
  },
  "arguments that are no JSON": {
    answer: (count) =>
      count % 2 === 1
        ? { type: "says", toolCalls: [{ id: `c${count}`, name: "look", arguments: "{at: " }] }
        : says("Fine."),
    ends: [DONE, DONE],
    requests: 4,
  },
};

proves(
  ["S7.3", "S7.6", "S7.14", "S7.25", "X1"],
  "ends runs against hostile servers with a clear reason, in bounded memory and within the budget plus one call",
  async () => {
    await using other = await OpenAiServer.start(() => says("Thank you."));
    await using elsewhere = await OpenAiServer.start(() =>
      status(308, { location: `${other.baseUrl}/chat/completions` }),
    );
    await using stack = new AsyncDisposableStack();
    const servers = await Promise.all(
      Object.values(HOSTILE).map(({ answer }) =>
        OpenAiServer.start((_request, count) => answer(count)),
      ),
    );
    for (const server of servers) stack.use(server);

    const { stdout } = await promisify(execFile)(process.execPath, [
      "--conditions=@espalier/source",
      "--expose-gc",
      `--max-old-space-size=${HEAP_MIB}`,
      CLIENT,
      ...[...servers, elsewhere].map(({ baseUrl }) => baseUrl),
    ]);
    const { runs, peakBytes, heapBytes } = ReportSchema.parse(JSON.parse(stdout));

    const ends = runs.map(({ status: end, reason, errors }) => `${end} ${reason} ${errors.join()}`);
    const names = [...Object.keys(HOSTILE), "a redirect to another origin"];
    expect(
      Object.fromEntries(names.map((name, at) => [name, ends.slice(2 * at, 2 * at + 2)])),
    ).toEqual({
      ...Object.fromEntries(Object.entries(HOSTILE).map(([name, hostile]) => [name, hostile.ends])),
      "a redirect to another origin": [
        "failed error model_invalid_request",
        "failed error model_invalid_request",
      ],
    });
    expect(servers.map(({ requests }) => requests.length)).toEqual(
      Object.values(HOSTILE).map(({ requests }) => requests),
    );
    expect([elsewhere.requests.length, other.requests.length]).toEqual([2, 0]);
    expect(Math.max(...runs.map(({ tokens }) => tokens))).toBeLessThanOrEqual(BUDGET + MOST_EXCESS);
    expect(peakBytes).toBeLessThan(MOST_BYTES);
    expect(heapBytes).toBeLessThan(MOST_BYTES);
  },
);
