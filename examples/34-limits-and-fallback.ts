// Two models that share rate limits. The second one answers if the first is overloaded. A local
// server replaces both.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

import { defineAgent, modelLimits, openai, Orchestrator, withFallback } from "espalier";
import { z } from "zod";

// As OpenAI answers; you leave this out, and the environment as it is.
let [underWay, most] = [0, 0];
const asked: string[] = [];
const server = createServer((request, response) => {
  underWay += 1;
  most = Math.max(most, underWay);
  void json(request).then((body) => {
    const { model } = z.object({ model: z.string() }).parse(body);
    asked.push(model);
    underWay -= 1;
    const isDown = model === "gpt-5.6";
    response.writeHead(isDown ? 503 : 200, { "content-type": "application/json" });
    const message = { role: "assistant", content: "A tree trained on a frame." };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    const usage = { prompt_tokens: 20, completion_tokens: 7, total_tokens: 27 };
    response.end(
      JSON.stringify(isDown ? { error: { message: "Overloaded." } } : { choices, usage }),
    );
  });
}).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const address = server.address();
assert(typeof address === "object" && address !== null);
process.env["OPENAI_BASE_URL"] = `http://127.0.0.1:${address.port}/v1`;

const account = modelLimits({
  requestsPerMinute: 500,
  tokensPerMinute: 200_000,
  maxConcurrentRequests: 4,
});
const large = openai("gpt-5.6", { limits: account });
const small = openai("gpt-5.6-mini", { limits: account });

const model = withFallback([large, small], { cooldownMs: 30_000 });

const role = defineAgent({ name: "gardener", instructions: "Answer in a sentence.", model });
const orchestrator = new Orchestrator();
const first = await orchestrator.start(role, "What is an espalier?").result;
const runs = Array.from({ length: 20 }, (_none, index) =>
  orchestrator.start(role, `What is an espalier? (${index})`),
);
const results = await Promise.all(runs.map(async (run) => await run.result));
server.close();

console.log(first.text, first.usage.byModel);
assert.deepEqual(new Set(results.map(({ text }) => text)), new Set([first.text]));
// It is passed over once it has failed.
assert.deepEqual(asked.slice(0, 3), ["gpt-5.6", "gpt-5.6-mini", "gpt-5.6-mini"]);
assert.equal(asked.length, 22);
assert.equal(first.usage.byModel["gpt-5.6-mini"]?.totalTokens, 27);
assert(most <= 4);
