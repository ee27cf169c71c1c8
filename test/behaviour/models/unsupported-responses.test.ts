// Goal: a response that cannot be used results in an error that names the reason, and is not
// requested again at once.
// Method: responses over real HTTP, whole and streamed.

import { readFileSync } from "node:fs";

import { createOpenAI } from "@ai-sdk/openai";
import { describe, expect } from "vitest";

import { aiSdkModel, sameOriginFetch } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { proves } from "../../harness/proves.ts";
import { INTERFACES, eventsOf, WireServer } from "../../support/four-interfaces.ts";
import { never, QUESTION, rejection } from "../../support/openai-calls.ts";

const apiKey = "key-0123456789";
const responses = INTERFACES.find(({ name }) => name === "Responses");

async function failuresOf(response: object): Promise<readonly unknown[]> {
  const json = { "content-type": "application/json" };
  const [event = ""] = eventsOf({ type: "response.completed", response });
  await using whole = await WireServer.start({ headers: json, body: JSON.stringify(response) });
  await using streamed = await WireServer.start({ body: event });
  return await Promise.all(
    [whole, streamed].map(async ({ url }) => {
      const listening = url === whole.url ? {} : { onDelta: () => undefined };
      return await rejection(
        responses?.model(url).generate(QUESTION, { signal: never(), ...listening }) ??
          Promise.resolve(),
      );
    }),
  );
}

function factsOf(failure: unknown): readonly unknown[] {
  return failure instanceof ModelError ? [failure.code, failure.isRetryable] : [];
}

describe("a response", () => {
  for (const [article, type] of [
    ["a", "custom_tool_call"],
    ["an", "apply_patch_call"],
    ["a", "shell_call"],
    ["an", "mcp_approval_request"],
  ])
    proves(["D557"], `is reported as unsupported if it contains only a ${type}`, async () => {
      const output = [{ type, id: "i", call_id: "c", name: "x", input: "y" }];
      for (const failure of await failuresOf({ id: "r", status: "completed", output }))
        expect([
          factsOf(failure),
          String(failure).includes(`only ${article} ${type}, which is not supported`),
        ]).toEqual([["model_protocol_error", false], true]);
    });

  for (const status of ["queued", "in_progress"])
    proves(["D557"], `is not requested again if its status is ${status}`, async () => {
      for (const failure of await failuresOf({ id: "r", status, output: [] }))
        expect([
          factsOf(failure),
          String(failure).includes(`a response with the status ${status}`),
        ]).toEqual([["model_protocol_error", false], true]);
    });
});

const RESPONSE = { id: "r", status: "queued", created_at: 1, model: "m" };
const [QUEUED = ""] = eventsOf({ type: "response.queued", response: RESPONSE });
const APPROVAL = eventsOf(
  { type: "response.created", response: { ...RESPONSE, status: "in_progress" } },
  {
    type: "response.output_item.done",
    output_index: 0,
    item: {
      type: "mcp_approval_request",
      id: "q",
      server_label: "s",
      name: "look",
      arguments: "{}",
    },
  },
  { type: "response.completed", response: { ...RESPONSE, status: "completed" } },
).join("");

describe.each([
  ["openai()", (url: string) => openai("m", { baseUrl: url, apiKey, api: "responses" })],
  [
    "the AI SDK",
    (url: string) =>
      aiSdkModel(createOpenAI({ apiKey, baseURL: url, fetch: sameOriginFetch }).responses("m")),
  ],
] as const)("a stream over %s", (name, model) => {
  const completed = (status: string): string => {
    const response = { ...RESPONSE, status };
    return eventsOf(
      { type: "response.created", response },
      { type: "response.completed", response },
    ).join("");
  };
  for (const [what, body, words] of [
    ["that ends behind response.queued", QUEUED, "a response with the status queued"],
    ["that ends before a queued response", `${QUEUED}${responses?.events[0]}`, "status queued"],
    ["of a queued response", completed("queued"), "a response with the status queued"],
    ["of a response in progress", completed("in_progress"), "the status in_progress"],
    ["with only a request for approval", APPROVAL, "approval"],
  ] as const)
    proves(["D609"], `is not requested again if it is one ${what} (${name})`, async () => {
      await using server = await WireServer.start({ body });
      const options = { signal: never(), onDelta: () => undefined };
      const failure = await rejection(model(server.url).generate(QUESTION, options));
      expect([factsOf(failure), String(failure)]).toEqual([
        ["model_protocol_error", false],
        expect.stringContaining(words),
      ]);
    });

  proves(["D609"], `is accepted if it was queued first (${name})`, async () => {
    const body = `${QUEUED}${responses?.events.join("") ?? ""}`;
    await using server = await WireServer.start({ body });
    const options = { signal: never(), onDelta: () => undefined };
    expect((await model(server.url).generate(QUESTION, options)).message.text).toBe("ok");
  });
});

proves(["D558"], "warns in docs/models.md of native results at a strict vLLM", () => {
  const text = readFileSync(new URL("../../../docs/models.md", import.meta.url), "utf8");
  expect(text.replaceAll(/\s+/g, " ")).toContain("a strict vLLM then never calls a tool");
  expect(text).not.toContain("llama.cpp have it over Chat Completions");
});
