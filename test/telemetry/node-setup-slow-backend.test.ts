// Goal: a trace backend that serves one request after another, and takes one or eight seconds for
// each, receives every span once.
// Method: an HTTP server with a queue, in real time, with the default settings of `setUpNodeTracing`.

import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

import { afterEach, expect, vi } from "vitest";

import { setUpNodeTracing } from "../../src/telemetry/node-setup.ts";
import type { DeliveryCounts } from "../../src/telemetry/delivery/export-queue.ts";
import { proves } from "../harness/proves.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { spansOf } from "../support/otlp-schema.ts";
import { placeAll } from "../support/telemetry/recorded-spans.ts";
import { wideRun } from "../support/telemetry/wide-run.ts";

afterEach(() => vi.unstubAllEnvs());

/** Sends the spans of a run to a backend that takes `serviceMs` for each request. */
async function traceSlowly(
  agents: number,
  serviceMs: number,
): Promise<{
  readonly report: DeliveryCounts;
  readonly received: number;
  readonly distinct: number;
}> {
  const ids: string[] = [];
  let queue = Promise.resolve();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      queue = queue.then(async () => {
        await pause(serviceMs);
        const spans = spansOf(Buffer.concat(chunks), request.headers["content-type"]);
        ids.push(...spans.map(({ spanId }) => spanId));
        response.writeHead(200, { "content-type": "application/json" }).end("{}");
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("Expected a TCP address.");
  const node = setUpNodeTracing({ tracesUrl: `http://127.0.0.1:${address.port}/v1/traces` });
  placeAll(node.tracing, wideRun(agents, 18).drafts);
  const report = await node.shutdown({ timeoutMs: 110_000 });
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  return { report, received: ids.length, distinct: new Set(ids).size };
}

function wholeReport(spans: number): Awaited<ReturnType<typeof traceSlowly>> {
  const report = { deliveredSpans: spans, lostSpans: 0, pendingSpans: 0 };
  return { report, received: spans, distinct: spans };
}

proves(
  ["D470"],
  "a backend that takes a second for each request receives 8,003 spans",
  async () => {
    expect(await traceSlowly(400, 1_000)).toEqual(wholeReport(8_003));
    expect(takeWarnings()).toEqual([]);
  },
);

proves(
  ["D470"],
  "a backend that takes a second for each request receives 20,005 spans",
  async () => {
    expect(await traceSlowly(1_000, 1_000)).toEqual(wholeReport(20_005));
    expect(takeWarnings()).toEqual([]);
  },
);

proves(
  ["D470"],
  "a backend that takes eight seconds for each request receives 1,202 spans",
  async () => {
    expect(await traceSlowly(60, 8_000)).toEqual(wholeReport(1_202));
    expect(takeWarnings()).toEqual([]);
  },
);
