// A program that connects to each of the given servers, calls a tool, and prints the outcomes and
// its memory. A test runs it with a limited heap.

import { connectMcp } from "../../../src/mcp/connect-mcp.ts";
import { systemClock } from "../../../src/kernel/clock.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { McpFault } from "../../../src/mcp/mcp-fault.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { made } from "./agents.ts";

/** `timeoutMs` of calls, then the URLs. */
const [, , timeoutMs, ...urls] = process.argv;
const { gc } = globalThis;
if (gc === undefined) throw new Error("Expected node --expose-gc.");
const warnings: string[] = [];
process.on("warning", (warning) => warnings.push(`${Reflect.get(warning, "code")}`));

/** Returns the bytes in use after a collection, including those outside of the heap. */
async function usedBytes(): Promise<number> {
  // A stream that was closed is released in later turns of the event loop.
  for (let turn = 0; turn < 5; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    gc?.();
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Returns the error of connecting, or the texts of the calls. */
async function outcome(url: string): Promise<readonly string[]> {
  try {
    await using server = await connectMcp({
      name: "peer",
      transport: { type: "http", url },
      timeoutMs: Number(timeoutMs),
    });
    const fixture = newFixture({ clock: systemClock });
    const executions = await made(server.tools, [["peer_look"], ["peer_look"]], fixture);
    return executions.map(({ text }) => text);
  } catch (thrown) {
    if (!EspalierError.is(thrown)) throw thrown;
    const kind = thrown.cause instanceof McpFault ? thrown.cause.kind : "";
    return [`${thrown.code} ${kind}: ${thrown.message}`];
  }
}

const outcomes: (readonly string[])[] = [];
const usedAfter: number[] = [];
await usedBytes();
const before = await usedBytes();
const rssBefore = process.resourceUsage().maxRSS;
for (const url of urls) {
  outcomes.push(await outcome(url));
  usedAfter.push((await usedBytes()) - before);
}
const peakBytes = (process.resourceUsage().maxRSS - rssBefore) * 1024;
process.stdout.write(JSON.stringify({ outcomes, usedAfter, peakBytes, warnings }));
