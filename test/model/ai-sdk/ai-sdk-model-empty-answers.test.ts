// Goal: an answer in which an AI SDK package finds no event is reported with its type and the
// remedy.
// Method: the packages of providers over a scripted network.

import { describe, expect } from "vitest";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { proves } from "../../harness/proves.ts";
import { never, QUESTION, rejection } from "../../support/openai-calls.ts";
import {
  failing,
  FakeNetwork,
  PROVIDER_NAMES,
  PROVIDERS,
  streaming,
} from "../../support/ai-sdk/provider-fixture.ts";
import type { ProviderName } from "../../support/ai-sdk/provider-fixture.ts";

const BUSY = JSON.stringify({ error: { message: "Loading model", type: "unavailable" } });
const ANSWERS: Readonly<Record<string, readonly [type: string, body: string]>> = {
  "a JSON error": ["application/json", BUSY],
  "a JSON error that is called a stream": ["text/event-stream", BUSY],
  "a page": ["text/html; charset=utf-8", "<html><title>Sign in</title></html>"],
  "an empty body": ["text/event-stream", ""],
  "comments alone": ["text/event-stream", ": keep-alive\n\n: keep-alive\n\n"],
};
const ADVICE =
  "Try again. Unless the provider already uses it, pass sameOriginFetch of espalier/ai-sdk as its fetch: the error then quotes such an answer.";

async function failureOf(name: ProviderName, answer: () => Response): Promise<ModelError> {
  const model = aiSdkModel(PROVIDERS[name](new FakeNetwork(answer).fetch));
  const thrown = await rejection(model.generate(QUESTION, { signal: never() }));
  if (!(thrown instanceof ModelError)) throw new Error("Expected a ModelError.", { cause: thrown });
  return thrown;
}

describe.each(PROVIDER_NAMES)("an answer without an event over the package of %s", (name) => {
  for (const [what, [type, body]] of Object.entries(ANSWERS))
    proves(["D656"], `is reported with its type: ${what} (${name})`, async () => {
      const answer = failing(200, body, { "content-type": type });
      const { code, isRetryable, message, lostOutputTokens } = await failureOf(name, answer);
      expect([code, isRetryable, lostOutputTokens, message]).toEqual([
        "model_unavailable",
        true,
        undefined,
        `Expected a reply from the model, got an answer of the type ${type} without an event. ${ADVICE}`,
      ]);
    });
});

const BEGINNINGS: Readonly<Partial<Record<ProviderName, object>>> = {
  openai: { type: "response.in_progress", response: { id: "r", created_at: 1, model: "m" } },
  chat: { id: "c", choices: [{ index: 0, delta: { content: "An" } }] },
  compatible: { id: "c", choices: [{ index: 0, delta: { content: "An" } }] },
};

for (const name of PROVIDER_NAMES) {
  const event = BEGINNINGS[name];
  if (event !== undefined)
    proves(
      ["D656"],
      `gives no such advice for a stream that is cut after an event (${name})`,
      async () => {
        const answer = streaming(`data: ${JSON.stringify(event)}\n\n`);
        const { code, message } = await failureOf(name, answer);
        expect([code, message.includes("sameOriginFetch")]).toEqual(["model_unavailable", false]);
      },
    );
}
