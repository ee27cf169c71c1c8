// Goal: an endless HTTP answer is a coded error, its connection is closed, and its memory is
// released.
// Method: servers that send without end, and a client in its own process with a limited heap.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "../harness/proves.ts";
import { until } from "../support/mcp/connecting.ts";
import {
  startEndlessServer,
  type EndlessPlace,
  type EndlessShape,
} from "../support/mcp/endless-server.ts";

const ReportSchema = z.object({
  outcomes: z.array(z.array(z.string())),
  usedAfter: z.array(z.number()),
  peakBytes: z.number(),
});
const CLIENT = fileURLToPath(new URL("../support/mcp/endless-client.ts", import.meta.url));
const HEAP_MIB = 256;
const MAX_USED_BYTES = 64 * 1024 * 1024;
const MAX_PEAK_BYTES = 512 * 1024 * 1024;
const TIME_LIMIT_MS = 300_000;
const TOO_LONG = "its answer is longer than 10,485,760 bytes (maxResponseBytes).";
const CALL_FAILS = `peer_look failed: The MCP server "peer" returned an answer that is too long: ${TOO_LONG} The call may have taken effect. Request less if you can.`;
const CONNECTING_FAILS = `mcp_response_too_large too_large: Cannot use the MCP server "peer": ${TOO_LONG} Raise maxResponseBytes if you trust the server.`;

type Case = readonly [EndlessPlace, EndlessShape];

const CALLS: readonly Case[] = [
  ["tools/call", "JSON"],
  ["tools/call", "JSON in gzip"],
  ["tools/call", "JSON in br"],
  ["tools/call", "event"],
  ["tools/call", "events"],
  ["tools/call", "lines"],
  ["tools/call", "numbered event"],
  ["tools/call", "resumed events"],
  ["tools/call", "error"],
  ["tools/call", "refusal"],
  ["tools/call", "redirect"],
];
const CONNECTING: readonly Case[] = [
  ["initialize", "JSON"],
  ["initialize", "JSON in gzip"],
  ["initialize", "event"],
  ["initialize", "events"],
  ["initialize", "error"],
  ["initialized", "accepted"],
  ["tools/list", "JSON"],
  ["tools/list", "events"],
];

/**
 * Returns the outcomes with each server, one after the other in one process, and the memory after
 * each.
 */
async function report(cases: readonly Case[], timeoutMs: number) {
  const servers = await Promise.all(
    cases.map(([place, shape]) => startEndlessServer(place, shape)),
  );
  const { stdout } = await promisify(execFile)(process.execPath, [
    "--conditions=@espalier/source",
    "--expose-gc",
    `--max-old-space-size=${HEAP_MIB}`,
    CLIENT,
    String(timeoutMs),
    ...servers.map(({ url }) => url),
  ]);
  await until(() => servers.every(({ flooded }) => flooded.size === 0));
  return { ...ReportSchema.parse(JSON.parse(stdout)), servers };
}

proves(
  ["D400"],
  "fails each call and connection whose HTTP answer is endless, and releases the memory",
  async () => {
    const cases = [...CALLS, ...CONNECTING];
    const { outcomes, usedAfter, peakBytes, servers } = await report(cases, 120_000);
    expect(outcomes).toEqual([
      ...CALLS.map(() => [CALL_FAILS, CALL_FAILS]),
      ...CONNECTING.map(() => [CONNECTING_FAILS]),
    ]);
    expect(Math.max(...usedAfter)).toBeLessThan(MAX_USED_BYTES);
    expect(peakBytes).toBeLessThan(MAX_PEAK_BYTES);
    // A stream is not resumed after it has exceeded the limit.
    expect(servers.map(({ floods }) => floods)).toEqual([
      ...CALLS.map(([, shape]) => (shape === "resumed events" ? 4 : 2)),
      ...CONNECTING.map(() => 1),
    ]);
  },
  TIME_LIMIT_MS,
);

proves(
  ["D400"],
  "answers a server that asks without end in bounded memory, until the call times out",
  async () => {
    const { outcomes, usedAfter, peakBytes } = await report([["tools/call", "questions"]], 3_000);
    expect(outcomes.flat().map((text) => text.slice(0, 33))).toEqual(
      Array.from({ length: 2 }, () => "peer_look did not end within 3 s."),
    );
    expect(Math.max(...usedAfter)).toBeLessThan(MAX_USED_BYTES);
    expect(peakBytes).toBeLessThan(MAX_PEAK_BYTES);
  },
  TIME_LIMIT_MS,
);

proves(
  ["D489"],
  "lists 49 tools with 4,900 large patterns in bounded memory",
  async () => {
    const { outcomes, usedAfter, peakBytes } = await report([["tools/list", "patterns"]], 60_000);
    expect(outcomes).toEqual([["seen", "seen"]]);
    expect(Math.max(...usedAfter)).toBeLessThan(MAX_USED_BYTES);
    expect(peakBytes).toBeLessThan(MAX_PEAK_BYTES);
  },
  TIME_LIMIT_MS,
);
