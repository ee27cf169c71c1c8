// A program that runs an agent against each of the given servers, with and without streaming, and
// prints how each run ended and the peak memory use. The process that starts it bounds its heap.

import { z } from "zod";

import { defineAgent, defineTool, openai, Orchestrator } from "../../src/index.ts";
import { texts } from "../support/texts.ts";

const [, , ...baseUrls] = process.argv;

const look = defineTool({
  name: "look",
  description: "Looks.",
  inputSchema: z.object({ at: z.string().optional() }),
  execute: () => "Nothing there.",
});

const STEP_BYTES = 1024 * 1024;
const { gc } = globalThis;
if (gc === undefined) throw new Error("Expected node --expose-gc.");
let peakBytes = 0;
const base = process.memoryUsage();

/** Bytes outside of the heap, which the heap limit does not cover. */
function bytesOutside(): number {
  const { external, arrayBuffers } = process.memoryUsage();
  return Math.max(external - base.external, arrayBuffers - base.arrayBuffers);
}

/** Memory in use, without garbage that is not collected yet. */
function measure(): void {
  if (bytesOutside() < peakBytes + STEP_BYTES) return;
  gc?.();
  gc?.();
  peakBytes = Math.max(peakBytes, bytesOutside());
}

const watch: typeof globalThis.fetch = async (url, init) => {
  const response = await fetch(url, init);
  const counted = response.body?.pipeThrough(
    new TransformStream({
      transform: (piece, controller) => {
        measure();
        controller.enqueue(piece);
      },
    }),
  );
  const { status, headers } = response;
  return new Response(counted ?? null, { status, headers });
};

const runs = [];
for (const baseUrl of baseUrls) {
  for (const streams of [false, true]) {
    // Our own transport, and one that lets the test inspect each chunk.
    const model = openai("m", {
      baseUrl,
      apiKey: "sk-test-0123456789",
      ...(streams ? { fetch: watch } : {}),
    });
    const role = defineAgent({
      name: "solo",
      instructions: "Work.",
      model,
      tools: [look],
      maxOutputTokens: 200,
    });
    const pieces: string[] = [];
    const run = new Orchestrator({ roles: [role] }).start(role, "Look around.", {
      budget: { totalTokens: 5_000 },
      ...(streams ? { onStreamPart: texts((text) => pieces.push(text)) } : {}),
    });
    const { status, reason, text, usage, agents } = await run.result;
    measure();
    runs.push({
      status,
      reason: reason.code,
      errors: agents[0]?.errors.map(({ code }) => code),
      text: text.slice(0, 20),
      calls: usage.total.modelCalls,
      tokens: usage.total.totalTokens,
      estimated: usage.total.estimatedCalls,
    });
  }
}
gc();
const heapBytes = process.memoryUsage().heapUsed;
console.log(JSON.stringify({ runs, peakBytes, heapBytes }));
