// Goal: the demo program runs on a model of the AI SDK with its own key, and names the package to
// install if it is missing.
// Method: the real program against a server that answers as Anthropic does.

import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

import { expect } from "vitest";
import { z } from "zod";

import { demo } from "../../support/cli/demo-program.ts";
import { proves } from "../../harness/proves.ts";
import { ANTHROPIC_OK } from "../../support/ai-sdk/provider-fixture.ts";

const BodySchema = z.looseObject({ model: z.string(), max_tokens: z.number() });

proves(["M37"], "runs the demo on Claude", async () => {
  const asked: unknown[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const { model } = BodySchema.parse(JSON.parse(body));
      asked.push([request.url, request.headers["x-api-key"], model]);
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(ANTHROPIC_OK);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  try {
    const { code, lines, stderr } = await demo({
      env: {
        ESPALIER_MODEL: "ai-sdk:anthropic/claude-sonnet-5",
        ANTHROPIC_API_KEY: "key-of-claude",
        ANTHROPIC_BASE_URL: `http://127.0.0.1:${port}/v1`,
      },
    });
    expect(code).toBe(0);
    expect(lines[0]).toBe("Model: ai-sdk:anthropic/claude-sonnet-5");
    expect(stderr).toContain("✔ completed in");
    expect(asked).toEqual([["/v1/messages", "key-of-claude", "claude-sonnet-5"]]);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

proves(["M37"], "exits with code 2 and one line that names the missing package", async () => {
  const env = { ESPALIER_MODEL: "ai-sdk:groq/llama", GROQ_API_KEY: "k" };
  const { code, stderr } = await demo({ env });
  expect([code, stderr]).toEqual([
    2,
    "The model ai-sdk:groq/llama needs the package @ai-sdk/groq, which is not installed. Run: npm install @ai-sdk/groq [missing_package]\n",
  ]);
});
