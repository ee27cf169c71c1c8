// Goal: a response that cannot be acted upon is an error that says so, and is not requested again at once.
// Method: responses over real HTTP, whole and streamed.

import { readFileSync } from "node:fs";

import { describe, expect } from "vitest";

import { ModelError } from "../../src/model/model-error.ts";
import { proves } from "../harness/proves.ts";
import { INTERFACES, eventsOf, WireServer } from "../support/four-interfaces.ts";
import { never, QUESTION, rejection } from "../support/openai-calls.ts";

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
  for (const type of ["custom_tool_call", "apply_patch_call", "shell_call"])
    proves(["D557"], `with only a ${type} is reported as unsupported`, async () => {
      const output = [{ type, id: "i", call_id: "c", name: "x", input: "y" }];
      for (const failure of await failuresOf({ id: "r", status: "completed", output }))
        expect([
          factsOf(failure),
          String(failure).includes(`only a ${type}, which is not supported`),
        ]).toEqual([["model_protocol_error", false], true]);
    });

  for (const status of ["queued", "in_progress"])
    proves(["D557"], `with the status ${status} is not requested again`, async () => {
      for (const failure of await failuresOf({ id: "r", status, output: [] }))
        expect([
          factsOf(failure),
          String(failure).includes(`a response with the status ${status}`),
        ]).toEqual([["model_protocol_error", false], true]);
    });
});

proves(["D558"], "docs/models.md warns of native at a strict vLLM", () => {
  const text = readFileSync(new URL("../../docs/models.md", import.meta.url), "utf8");
  expect(text.replaceAll(/\s+/g, " ")).toContain("a strict vLLM then never calls a tool");
  expect(text).not.toContain("llama.cpp have it over Chat Completions");
});
