// OpenTelemetry for a program without an SDK: spans are exported over OTLP.

import assert from "node:assert/strict";
import { createServer } from "node:http";

import { defineAgent, Orchestrator } from "espalier";
import { setUpNodeTracing } from "espalier/otel/node";
import { says, ScriptedModel } from "espalier/testing";

// An endpoint that takes everything. Yours is Jaeger, or a collector.
let requests = 0;
const endpoint = createServer((request, response) => {
  requests += 1;
  request.resume().on("end", () => response.end("{}"));
}).listen(0, "127.0.0.1");
await new Promise((resolve) => endpoint.once("listening", resolve));
const address = endpoint.address();
assert(typeof address === "object" && address !== null);
process.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = `http://127.0.0.1:${address.port}`;

const role = defineAgent({
  name: "gardener",
  instructions: "Answer in a sentence.",
  model: new ScriptedModel(() => says("An espalier is a tree trained to grow within a frame.")),
});

// A program that has no SDK.
const node = setUpNodeTracing({ serviceName: "survey" });
const orchestrator = new Orchestrator({ tracing: node.tracing });
const run = orchestrator.start(role, "What is an espalier?", {
  budget: { totalTokens: 10_000 },
});
const { status } = await run.result;
const counts = await node.shutdown({ timeoutMs: 5_000 });

assert.equal(status, "completed");
const { deliveredSpans, lostSpans, pendingSpans } = counts;
assert.deepEqual([deliveredSpans, lostSpans, pendingSpans], [3, 0, 0]);

// All spans left in one batch.
assert.equal(requests, 1);
endpoint.close();
console.log(`${deliveredSpans} spans delivered.`);
