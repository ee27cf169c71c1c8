// Goal: the span of a model call records where the model is served, how it was called and what was
// written to a cache.
// Method: real runs, some over the OpenAI driver against a loopback server; an exporter in memory.

import { expect, test, vi } from "vitest";
import { z } from "zod";

import type { Model } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { openai, type OpenAiOptions } from "../../../src/model/openai/openai-model.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { message, responseOf, usageOf } from "../../fixtures/streams/response-events.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { OpenAiServer, says } from "../../support/openai-server.ts";
import { thrownBy } from "../../support/thrown.ts";
import { recorder, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";

async function spansOf(model: Model, definition: object = {}): Promise<readonly RecordedSpan[]> {
  const recording = recorder();
  const tracing = new SpanProjector(recording.tracer, () => expect.fail("no ids"));
  await newFixture({ tracing }).run(
    defineAgent({ name: "solo", instructions: "You answer.", model, ...definition }),
  );
  return recording.spans();
}

async function chatSpan(model: Model, definition: object = {}): Promise<RecordedSpan> {
  const spans = await spansOf(model, definition);
  return spans.find(({ name }) => name.startsWith("chat ")) ?? expect.fail("no span");
}

const output = z.object({ count: z.int() });

/** Returns the attributes about how the model was called and served. */
function facts({ attributes }: RecordedSpan): object {
  const names = /^(openai\.|gen_ai\.(output|request)\.|espalier\.model\.)/;
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => names.test(name)));
}

proves(["M59"], "records how a call was requested and served over each interface", async () => {
  const text = '{"count":3}';
  const completion = {
    id: "chat_1",
    object: "chat.completion",
    model: "m",
    service_tier: "default",
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "halt" }],
  };
  const response = responseOf({
    status: "completed",
    output: [message(text)],
    usage: usageOf(10, 5),
    service_tier: "flex",
  });
  const asked = async (
    body: object,
    options: OpenAiOptions,
    definition: object,
  ): Promise<object> => {
    await using server = await OpenAiServer.start(() => ({
      type: "raw",
      body: JSON.stringify(body),
    }));
    const model = openai("m", { baseUrl: server.baseUrl, ...options });
    return facts(await chatSpan(model, definition));
  };
  const settings = {
    temperature: 0.5,
    modelSettings: { topP: 0.9, seed: 7, stopSequences: ["END"] },
  };
  const reasoning = { modelSettings: { reasoning: { effort: "low" } } };
  const tier = { supportsStructuredOutputs: true, serviceTier: "auto" } as const;
  expect([
    await asked(response, { api: "responses", ...tier }, { output, ...reasoning }),
    await asked(completion, tier, { output, ...settings }),
    await asked(completion, { extraBody: { service_tier: "flex" } }, {}),
  ]).toEqual([
    {
      "gen_ai.request.model": "m",
      "gen_ai.request.max_tokens": 8192,
      "gen_ai.output.type": "json",
      "openai.api.type": "responses",
      "openai.request.service_tier": "auto",
      "openai.response.service_tier": "flex",
      "espalier.model.reasoning_effort": "low",
    },
    {
      "gen_ai.request.model": "m",
      "gen_ai.request.max_tokens": 8192,
      "gen_ai.request.temperature": 0.5,
      "gen_ai.request.top_p": 0.9,
      "gen_ai.request.seed": 7,
      "gen_ai.request.stop_sequences": ["END"],
      "gen_ai.output.type": "json",
      "openai.api.type": "chat_completions",
      "openai.request.service_tier": "auto",
      "openai.response.service_tier": "default",
    },
    {
      "gen_ai.request.model": "m",
      "gen_ai.request.max_tokens": 8192,
      "openai.api.type": "chat_completions",
      "openai.request.service_tier": "flex",
      "openai.response.service_tier": "default",
    },
  ]);
});

proves(
  ["M59"],
  "omits interface and tier attributes for a model that does not report them",
  async () => {
    const model: Model = { provider: "own", id: "m", generate: () => Promise.resolve(REPLY) };
    expect(facts(await chatSpan(model))).toEqual({
      "gen_ai.request.model": "m",
      "gen_ai.request.max_tokens": 8192,
    });
  },
);

const REPLY = {
  message: { role: "assistant", text: "Well.", toolCalls: [] },
  finishReason: "stop",
} as const;

test("records the server of a model", async () => {
  await using server = await OpenAiServer.start(() => says("Well."));
  const { attributes } = await chatSpan(openai("m", { baseUrl: server.baseUrl }));
  const { hostname, port } = new URL(server.baseUrl);
  expect([attributes["server.address"], attributes["server.port"]]).toEqual([
    hostname,
    Number(port),
  ]);
});

test("uses OpenAI's address by default and prefers the environment", () => {
  vi.stubEnv("OPENAI_BASE_URL", "");
  expect(openai("m").server).toEqual({ address: "api.openai.com", port: 443 });
  vi.stubEnv("OPENAI_BASE_URL", "http://models.internal/v1");
  expect(openai("m").server).toEqual({ address: "models.internal", port: 80 });
  vi.unstubAllEnvs();
});

test("omits server attributes for a model that reports no server", async () => {
  const model: Model = { provider: "own", id: "m", generate: () => Promise.resolve(REPLY) };
  const { attributes } = await chatSpan(model);
  expect(Object.keys(attributes).filter((name) => name.startsWith("server."))).toEqual([]);
});

test("rejects a role whose model has an invalid server", () => {
  const model: Model = {
    provider: "own",
    id: "m",
    server: { address: "here", port: -443 },
    generate: () => Promise.resolve(REPLY),
  };
  const role = (): unknown => defineAgent({ name: "solo", instructions: "Go.", model });
  expect(thrownBy(role)).toMatchObject({ code: "invalid_argument" });
});

proves(["S7.33"], "records a cost of zero and omits an unknown cost", async () => {
  const price = (usd: number) => ({
    inputUsdPerMillion: usd,
    cachedInputUsdPerMillion: usd,
    outputUsdPerMillion: usd,
  });
  const usage = { inputTokens: 9, cachedInputTokens: 0, outputTokens: 5, reasoningTokens: 0 };
  const answering = { provider: "own", id: "m", generate: async () => ({ ...REPLY, usage }) };
  const failing = {
    ...answering,
    price: price(1),
    generate: () =>
      Promise.reject(new ModelError({ code: "model_invalid_request", message: "No." })),
  };
  const models: readonly Model[] = [
    answering,
    { ...answering, price: price(0) },
    { ...answering, price: price(1) },
    failing,
  ];
  const costs: unknown[] = [];
  for (const model of models) {
    const spans = await spansOf(model);
    costs.push(
      spans.map(({ name, attributes }) => [
        name.split(" ")[0],
        attributes["espalier.cost.usd"] ?? attributes["espalier.subtree.cost.usd"],
      ]),
    );
  }
  const each = (cost: number | undefined): readonly unknown[] => [
    ["chat", cost],
    ["invoke_agent", cost],
    ["invoke_workflow", undefined],
  ];
  expect(costs).toEqual([each(undefined), each(0), each(0.000_014), each(undefined)]);
});

test("records cache writes under their new name and under the name that viewers read", async () => {
  const usage = { inputTokens: 900, cachedInputTokens: 100, outputTokens: 5, reasoningTokens: 0 };
  const model = (written?: number): Model => ({
    provider: "own",
    id: "m",
    generate: () => {
      const more = written === undefined ? {} : { cacheWriteInputTokens: written };
      return Promise.resolve({ ...REPLY, usage: { ...usage, ...more } });
    },
  });
  const said = async (written?: number): Promise<readonly unknown[]> => {
    const { attributes } = await chatSpan(model(written));
    return [
      attributes["gen_ai.usage.cache_write.input_tokens"],
      attributes["gen_ai.usage.cache_creation.input_tokens"],
      attributes["gen_ai.usage.input_tokens"],
    ];
  };
  expect(await said(512)).toEqual([512, 512, 900]);
  expect(await said()).toEqual([undefined, undefined, 900]);
  const [, , charged] = await said(801); // More than the input: the usage is rejected and the call charged by estimate.
  expect(charged).not.toBe(900);
  expect(takeWarnings()).toEqual([expect.stringContaining("an impossible usage")]);
});
