// Goal: no redirect carries a prompt or a key of an AI SDK provider to another server.
// Method: real servers that redirect, below the packages of Anthropic, Google and OpenAI, in a
// program and in the CLI.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { expect, vi } from "vitest";

import { createNamedModel } from "../../../src/cli/model-by-name.ts";
import { defineAgent, Orchestrator } from "../../../src/index.ts";
import { aiSdkModel, sameOriginFetch } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { Model } from "../../../src/model/model.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";

type Handle = (request: IncomingMessage, response: ServerResponse, body: string) => void;

async function serve(handle: Handle): Promise<string> {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => handle(request, response, Buffer.concat(parts).toString()));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  afterwards(() => void server.close());
  const address = server.address();
  if (typeof address !== "object" || address === null) expect.fail("It does not listen.");
  return `http://127.0.0.1:${address.port}`;
}

/** Starts a server that must receive nothing. */
async function foreignServer() {
  const received: string[] = [];
  const url = await serve(({ url: path, headers }, response, body) => {
    received.push(`${path} ${JSON.stringify(headers)} ${body}`);
    response.writeHead(500).end();
  });
  return { url, received };
}

function redirectTo(target: () => string, status: number): Promise<string> {
  return serve((_request, response) => {
    response.writeHead(status, { location: target() }).end();
  });
}

async function errorOf(model: Model): Promise<string | undefined> {
  const role = defineAgent({ name: "lead", instructions: "Say hello.", model });
  const { errors } = await new Orchestrator({ retryPolicy: { maxAttempts: 1 } }).start(role, "Go.")
    .result;
  return errors[0]?.code;
}

proves(["D585"], "sends no prompt and no key to the server that a redirect names", async () => {
  const foreign = await foreignServer();
  for (const status of [301, 302, 303, 307, 308]) {
    const baseURL = await redirectTo(() => `${foreign.url}/v1/taken`, status);
    const settings = { apiKey: "secret", baseURL, fetch: sameOriginFetch };
    for (const model of [
      createAnthropic(settings)("claude-sonnet-5"),
      createGoogle(settings)("gemini-3-flash"),
      createOpenAI(settings)("gpt-5-mini"),
    ])
      expect(await errorOf(aiSdkModel(model))).toBe("model_invalid_request");
  }
  expect(foreign.received).toEqual([]);
  // Without sameOriginFetch, the prompt and the key arrive there.
  const baseURL = await redirectTo(() => `${foreign.url}/v1/taken`, 307);
  await errorOf(aiSdkModel(createAnthropic({ apiKey: "secret", baseURL })("claude-sonnet-5")));
  expect(foreign.received.join("")).toContain("Say hello.");
});

proves(["D585"], "applies to each model of the AI SDK that the CLI creates by name", async () => {
  const foreign = await foreignServer();
  const baseURL = await redirectTo(() => `${foreign.url}/v1/taken`, 307);
  vi.stubEnv("ANTHROPIC_BASE_URL", baseURL);
  vi.stubEnv("ANTHROPIC_API_KEY", "secret");
  afterwards(() => void vi.unstubAllEnvs());
  const model = await createNamedModel("ai-sdk:anthropic/claude-sonnet-5");
  expect(await errorOf(model)).toBe("model_invalid_request");
  expect(foreign.received).toEqual([]);
});

proves(
  ["D585"],
  "follows at most five redirects within the origin, with method and body",
  async () => {
    const received: string[] = [];
    const url = await serve(({ url: path = "", method, headers }, response, body) => {
      received.push(`${method} ${path} ${String(headers["x-key"])} ${body}`);
      const left = Number(path.slice(1));
      if (left === 0) response.end("done");
      else response.writeHead(left % 2 === 0 ? 307 : 308, { location: `/${left - 1}` }).end();
    });
    const init = { method: "POST", headers: { "x-key": "k" }, body: "prompt" };
    const response = await sameOriginFetch(`${url}/5`, init);
    expect(await response.text()).toBe("done");
    expect(received).toEqual([5, 4, 3, 2, 1, 0].map((left) => `POST /${left} k prompt`));
    const sixth = sameOriginFetch(new Request(`${url}/6`, init));
    await expect(sixth).rejects.toMatchObject({ code: "model_invalid_request" });
    const aborted = AbortSignal.abort(new Error("Enough."));
    await expect(sameOriginFetch(`${url}/0`, { ...init, signal: aborted })).rejects.toThrow(
      "Enough.",
    );
  },
);
