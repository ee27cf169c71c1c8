// Goal: values of the option `headers` appear in no error of a model, like API keys.
// Method: the real client against servers that quote the headers they received, and an AI SDK
// model.

import { inspect } from "node:util";

import { describe, expect } from "vitest";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { ask, fakeModel } from "../../support/ai-sdk/fake-model.ts";
import { proves } from "../../harness/proves.ts";
import { modelAt, MODES, rejection, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, type ServerReply } from "../../support/openai-server.ts";
import { thrownBy } from "../../support/thrown.ts";

const TOKEN = "gateway-0123456789";
const QUOTED = 'tenant "secret" 42';
const headers = {
  authorization: `Bearer ${TOKEN}`,
  "x-tenant-key": QUOTED,
  "x-tier": "gold",
  "user-agent": "gateway-client",
};

function refusing(message: string, more: object = {}): ServerReply {
  return { type: "status", status: 403, body: { error: { message, ...more } } };
}

async function errorsOn(answer: ServerReply): Promise<readonly string[]> {
  await using server = await OpenAiServer.start(() => answer);
  const model = modelAt(server, { headers });
  const thrown: string[] = [];
  for (const mode of MODES)
    thrown.push(inspect(await rejection(reply(model, mode)), { depth: 9, maxStringLength: 1e6 }));
  return thrown;
}

describe("values of headers", () => {
  proves(
    ["D406"],
    "are removed from errors of a server that quotes them, in any form",
    async () => {
      const answers: readonly ServerReply[] = [
        refusing(`Who is Bearer ${TOKEN}?`),
        refusing(`Who is ${TOKEN}?`),
        refusing("bad", { code: TOKEN, type: `type ${QUOTED}` }),
        { type: "status", status: 400, body: `${TOKEN} of ${JSON.stringify(QUOTED)}` },
        { type: "raw", body: `not JSON: ${TOKEN}` },
        { type: "raw", body: JSON.stringify({ error: { message: QUOTED, code: TOKEN } }) },
      ];
      for (const answer of answers)
        for (const text of await errorsOn(answer)) {
          expect(text).not.toContain(TOKEN);
          expect(text).not.toMatch(/tenant \\*"secret/);
        }
    },
  );

  proves(["D406"], "are removed completely where a message is truncated", async () => {
    const long = "x".repeat(480);
    for (const text of await errorsOn(refusing(`${long} ${TOKEN}`))) {
      expect(text).toContain("[header authorization]…");
      expect(text).not.toContain("gateway-0");
    }
  });

  proves(["D406"], "are replaced without changing the rest of the error", async () => {
    await using server = await OpenAiServer.start(() => refusing(`No ${TOKEN}`, { code: "nope" }));
    const thrown = await rejection(reply(modelAt(server, { headers }), "whole"));
    expect(thrown).toMatchObject({
      code: "model_unauthorized",
      message:
        "Expected a reply from the model, got status 403 No [header authorization]. Check the API key (OPENAI_API_KEY or the option apiKey) and its rights.",
      data: { status: 403, providerCode: "nope" },
    });
  });

  proves(
    ["D408"],
    "remain in errors if they are short or belong to a harmless header",
    async () => {
      const message = "The tier gold is not for gateway-client.";
      for (const text of await errorsOn(refusing(message))) expect(text).toContain(message);
    },
  );

  proves(["D406"], "are removed from errors of a fetch that quotes them", async () => {
    await using server = await OpenAiServer.start(() => refusing("never asked"));
    const quoting = (_url: unknown, init?: RequestInit): Promise<Response> => {
      const sent = Object.fromEntries(new Headers(init?.headers));
      return Promise.reject(Object.assign(new Error(`Cannot send ${TOKEN}`), { sent }));
    };
    const thrown = await rejection(reply(modelAt(server, { headers, fetch: quoting }), "whole"));
    expect(inspect(thrown, { depth: 9 })).not.toContain(TOKEN);
    expect(thrown).toMatchObject({ code: "model_unavailable", isRetryable: true });
  });

  proves(["D406"], "are removed from the error about an invalid header", () => {
    const bad = { "x-api-key": `${TOKEN}\nmore` };
    const made = [
      () => openai("m", { apiKey: "sk-0123456789", headers: bad }),
      () =>
        aiSdkModel(
          fakeModel(() => expect.fail("asked")),
          { headers: bad },
        ),
    ];
    for (const make of made) {
      const thrown = thrownBy(make);
      expect(thrown.code).toBe("invalid_argument");
      expect(inspect(thrown, { depth: 9 })).not.toContain(TOKEN);
    }
  });

  proves(["D406"], "are removed from errors of an AI SDK model", async () => {
    const failing = fakeModel(() => {
      throw new Error(`Refused ${TOKEN}`, { cause: { headers } });
    });
    const thrown = await rejection(ask(aiSdkModel(failing, { headers })));
    expect(inspect(thrown, { depth: 9 })).not.toContain(TOKEN);
    expect(thrown).toMatchObject({ code: "model_invalid_reply" });
  });
});
