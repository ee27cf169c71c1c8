// Goal: the parts of a reply since the last `reset` make up the reply, wherever a stream breaks.
// Method: each recorded stream is cut after every byte and then served in full, through the real
// adapters, over a fake network.

import { readFileSync, globSync } from "node:fs";
import { basename } from "node:path";

import { expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { Model } from "../../../src/model/model.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { withFallback } from "../../../src/model/with-fallback.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { PROVIDERS } from "../../support/ai-sdk/provider-fixture.ts";
import { SDK_STREAMS } from "../../fixtures/streams/ai-sdk.ts";
import { proves } from "../../harness/proves.ts";
import { NOTHING, SaidSteps } from "../../support/said.ts";

const FOLDER = "test/fixtures/streams";

/** The number of broken responses before a complete one. */
const MOST_BROKEN = 20;

type Fetch = typeof globalThis.fetch;

/** Returns a model on the given network for a recorded stream. */
function modelFor(file: string, fetch: Fetch, id?: string): Model {
  const provider = SDK_STREAMS.find((stream) => stream.file === file)?.provider;
  if (provider !== undefined)
    return aiSdkModel(PROVIDERS[provider](fetch, id), { price: "unknown" });
  const api = file.startsWith("responses") ? "responses" : "chat_completions";
  const baseUrl = "https://api.example.com/v1";
  return openai(id ?? "model", { api, fetch, baseUrl, apiKey: "key-0123456789" });
}

/**
 * Serves responses that break after an increasing number of bytes, and a complete one at intervals.
 */
class BreakingNetwork {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  #after = 0;
  #broken = 0;

  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.#bytes = bytes;
  }

  /** True once responses have broken at every byte. */
  get isDone(): boolean {
    return this.#after > this.#bytes.length;
  }

  readonly fetch: Fetch = () => {
    const isWhole = this.isDone || this.#broken === MOST_BROKEN;
    const body = isWhole ? [this.#bytes] : cutOff(this.#bytes.subarray(0, this.#after));
    this.#broken = isWhole ? 0 : this.#broken + 1;
    if (!isWhole) this.#after += 1;
    const headers = { "content-type": "text/event-stream" };
    return Promise.resolve(new Response(ReadableStream.from(body), { headers }));
  };
}

async function* cutOff(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  if (bytes.length > 0) yield bytes;
  throw new TypeError("terminated"); // fetch reports a broken connection so
}

/** A clock whose short timers fire at once. */
class HastyClock extends ManualClock {
  override setTimer(delayMs: number, wake: () => void): () => void {
    if (delayMs > 10_000) return super.setTimer(delayMs, wake);
    setImmediate(wake);
    return () => undefined;
  }
}

const weather = defineTool({
  name: "weather",
  description: "Says what the weather is.",
  inputSchema: z.looseObject({}),
  execute: () => "Warm.",
});

function checkSaid(result: RunResult, { steps }: SaidSteps): void {
  const [step] = result.steps;
  const [said = NOTHING()] = steps.values();
  const { text = "", refusal = "" } = step?.io ?? {};
  const message = result.messages.find(({ role }) => role === "assistant");
  const parts = message?.role === "assistant" ? (message.parts ?? []) : [];
  const reasoning = parts.map((part) => (part.type === "reasoning" ? part.text : "")).join("");
  const calls = (step?.tools.calls ?? []).map(({ callId, toolName }) => ({ callId, toolName }));
  const { resets: _resets, calls: saidCalls, ...others } = said;
  const ends = text + refusal === "" && calls.length === 0 ? 0 : 1; // The reply was empty, or the call failed.
  expect({
    ...others,
    calls: saidCalls.map(({ callId, toolName }) => ({ callId, toolName })),
  }).toEqual({ text, refusal, reasoning, calls, ends });
}

const FILES = globSync(`${FOLDER}/*.sse`)
  .map((file) => basename(file))
  .filter((file) => !file.startsWith("sdk-hangs") && !file.startsWith("sdk-error"));

/** The reasons of all resets. */
const resets = new Set<string>();

for (const file of FILES)
  proves(["F1"], `${file} is read as the final reply, wherever the stream is cut`, async () => {
    const bytes = new Uint8Array(readFileSync(`${FOLDER}/${file}`));
    const network = new BreakingNetwork(bytes);
    const model = modelFor(file, network.fetch);
    const spare = modelFor(file, network.fetch, "spare");
    const roles = [model, withFallback([model, spare])].map((asked) =>
      defineAgent({ name: "solo", instructions: "Work.", model: asked, tools: [weather] }),
    );
    const retry = { maxAttempts: MOST_BROKEN + 1 };
    const orchestrator = new Orchestrator({ clock: new HastyClock(), retryPolicy: retry });
    for (let runs = 0; !network.isDone; runs += 1) {
      const role = roles[runs % 2] ?? expect.fail();
      const said = new SaidSteps();
      const options = { budget: { steps: 1 }, onStreamPart: said.take };
      const result = await orchestrator.start(role, "Do it.", options).result;
      checkSaid(result, said);
      for (const { resets: own } of said.steps.values()) for (const reset of own) resets.add(reset);
    }
  });

proves(["F3"], "a broken stream is reset by a retry and by a fallback", () => {
  expect(resets).toContain("retry");
  expect(resets).toContain("fallback");
});
