// Goal: log lines of clients and of code around them carry the ids of their request; with
// OpenTelemetry, those of the active span.
// Method: real OpenAI and MCP clients against local servers; an SDK in memory.

import { context, trace } from "@opentelemetry/api";
import { expect, test } from "vitest";

import { defineAgent } from "../../../src/index.ts";
import { connectMcp } from "../../../src/mcp/connect-mcp.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { caller, made } from "../../support/mcp/agents.ts";
import { handMadeOverHttp } from "../../support/mcp/http-server.ts";
import { API_KEY } from "../../support/openai-calls.ts";
import { OpenAiServer, says as serverSays } from "../../support/openai-server.ts";
import { firstIds, logbook } from "../../support/telemetry/logbook.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";
import { texts } from "../../support/texts.ts";

test("gives stream listeners and a custom fetch the ids of their request", async () => {
  const { lines, write } = logbook();
  const reply = serverSays("It is a tree.");
  await using server = await OpenAiServer.start(() => reply);
  const options = { baseUrl: server.baseUrl, apiKey: API_KEY };
  const fetched: typeof fetch = (...request) => {
    write("fetch");
    return fetch(...request);
  };
  for (const more of [{}, { fetch: fetched }]) {
    lines.length = 0;
    const fixture = newFixture();
    const role = defineAgent({
      name: "solo",
      instructions: "Say.",
      model: openai("test-model", { ...options, ...more }),
    });
    await fixture.outcome(
      fixture.start(role, "What is it?", { onStreamPart: texts(() => write("text")) }),
    );
    const asked = firstIds(fixture.sink.events, "model.requested");
    const pieces = ["text", "text", "text", "text"];
    const expected = "fetch" in more ? ["fetch", ...pieces] : pieces;
    expect(lines).toEqual(expected.map((at) => [at, asked]));
  }
});

test("gives the request to an MCP server the ids of its call", async () => {
  const { lines, write } = logbook();
  const { transport } = await handMadeOverHttp();
  const server = await connectMcp({
    name: "peer",
    transport: {
      ...transport,
      fetch: (url, init) => {
        if (typeof init?.body === "string" && init.body.includes('"tools/call"')) write("fetch");
        return fetch(url, init);
      },
    },
    filter: ({ name }) => name === "meta",
  });
  const fixture = newFixture();
  await made(server.tools, [["peer_meta"]], fixture);
  await server.close();
  const started = firstIds(fixture.sink.events, "tool.started");
  expect(lines).toEqual([["fetch", started]]);
});

for (const [kind, isRegistered] of [
  ["without an SDK", false],
  ["with an SDK", true],
] as const) {
  test(`gives a tool the ids of its event, and of the active span if there is one, with OpenTelemetry ${kind}`, async () => {
    const recording = recorder();
    if (isRegistered) recording.provider.register();
    const { lines, write } = logbook();
    const active: (string | undefined)[] = [];
    const look = spyTool("look", async () => {
      await flushEventLoop();
      write("tool");
      active.push(trace.getActiveSpan()?.spanContext().spanId);
      return "looked";
    });
    const fixture = newFixture({ tracing: openTelemetry() });
    await fixture.run(caller([look], [["look"]]));
    trace.disable();
    context.disable();
    const started = firstIds(fixture.sink.events, "tool.started");
    expect(lines).toEqual([["tool", started]]);
    expect(active).toEqual([isRegistered ? started.spanId : undefined]);
  });
}
