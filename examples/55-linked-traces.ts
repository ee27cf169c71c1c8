// Linked traces: a run that resumes after a pause continues in a second trace, with a link to the
// first.

import assert from "node:assert/strict";

import { InMemorySpanExporter } from "@opentelemetry/sdk-trace-node";
import { z } from "zod";

import { approve, defineAgent, defineTool, Orchestrator } from "espalier";
import { setUpNodeTracing } from "espalier/otel/node";
import { asks, says, ScriptedModel } from "espalier/testing";

const sendMail = defineTool({
  name: "send_mail",
  description: "Sends a mail.",
  inputSchema: z.object({ to: z.string() }),
  needsApproval: () => true,
  execute: () => "sent",
});
const clerk = defineAgent({
  name: "clerk",
  instructions: "Answer the mail.",
  model: new ScriptedModel([asks("send_mail", { to: "ann@example.org" }), says("Answered.")]),
  tools: [sendMail],
});

// Leave the exporter out, and the spans go to OTEL_EXPORTER_OTLP_ENDPOINT.
const exporter = new InMemorySpanExporter();
const node = setUpNodeTracing({ exporter });
const orchestrator = new Orchestrator({
  roles: [clerk],
  tracing: node.tracing,
});

const paused = await orchestrator.start(clerk, "Answer Ann.").result;
assert(paused.status === "paused");
const answers = paused.questions.map((question) => approve(question));
const resumed = await orchestrator.resume(paused.pausedRun, { answers }).result;
console.log(`${paused.traceId}, then ${resumed.traceId}`);
await node.flush();

// The span of the run in each trace.
const runSpans = exporter
  .getFinishedSpans()
  .filter(({ name }) => name.startsWith("invoke_workflow"));
assert.notEqual(resumed.traceId, paused.traceId);
assert.deepEqual(
  runSpans.map((span) => span.spanContext().traceId),
  [paused.traceId, resumed.traceId],
);
assert.deepEqual(
  runSpans.map(({ links }) => links.map(({ context }) => context.traceId)),
  [[], [paused.traceId]],
);
assert.deepEqual(
  runSpans.map(({ attributes }) => attributes["espalier.resumed_from.trace_id"]),
  [undefined, paused.traceId],
);

await node.shutdown();
