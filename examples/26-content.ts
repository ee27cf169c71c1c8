// Prompts and replies in spans: off by default, cut at a length and redacted.

import assert from "node:assert/strict";

import { InMemorySpanExporter } from "@opentelemetry/sdk-trace-node";
import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, type Message } from "espalier";
import type { AssistantMessage } from "espalier/extend";
import type { RedactContent } from "espalier/otel";
import { setUpNodeTracing } from "espalier/otel/node";
import { asks, ScriptedModel } from "espalier/testing";

const lookUp = defineTool({
  name: "lookUp",
  description: "Looks up a customer.",
  inputSchema: z.object({ mail: z.string() }),
  execute: ({ mail }) => ({ mail, balance: 12 }),
});
const clerk = defineAgent({
  name: "clerk",
  instructions: "Answer our customers.",
  model: new ScriptedModel(({ messages }) =>
    messages.at(-1)?.role === "user"
      ? asks("lookUp", { mail: "ann@example.org" })
      : {
          pieces: [
            { type: "reasoning", text: "So ann@example.org has 12." },
            { type: "text", text: "ann@example.org has 12 left." },
          ],
        },
  ),
  tools: [lookUp],
});

const hide = (text: string): string => text.replaceAll(/[\w.+-]+@[\w-]+\.[\w.]+/g, "[mail]");
const hideReply = (message: AssistantMessage): AssistantMessage => ({
  ...message,
  text: hide(message.text),
  toolCalls: message.toolCalls.map((call) => ({
    ...call,
    argumentsText: hide(call.argumentsText),
  })),
  parts: (message.parts ?? []).map((part) =>
    part.type === "reasoning" ? { ...part, text: hide(part.text) } : part,
  ),
});
const hideMessage = (message: Message): Message =>
  message.role === "assistant" ? hideReply(message) : { ...message, text: hide(message.text) };

const redact: RedactContent = (content) => {
  switch (content.type) {
    case "request": // messages and tools of a request
      return { ...content, messages: content.messages.map(hideMessage) };
    case "reply": // also the provider's finish reason, `rawFinishReason`
      return { ...content, message: hideReply(content.message) };
    case "arguments": // of a tool call: not exported at all
      return undefined;
    case "result": // of a tool call, as the model reads it
      return { ...content, text: hide(content.text) };
  }
};

// An exporter that keeps the spans. Leave it out, and they go to the endpoint that OTEL_EXPORTER_OTLP_ENDPOINT names.
const exporter = new InMemorySpanExporter();

const node = setUpNodeTracing({ content: { redact }, exporter });
const orchestrator = new Orchestrator({ tracing: node.tracing });

const result = await orchestrator.start(clerk, "What is left for ann@example.org?").result;
await node.flush();

const content = exporter
  .getFinishedSpans()
  .flatMap(({ name, attributes }) =>
    Object.entries(attributes).flatMap(([key, value]) =>
      /^gen_ai\.(input|output|tool\.call\.(arguments|result))/.test(key)
        ? [[name, key, value]]
        : [],
    ),
  );
assert.ok(!JSON.stringify(content).includes("ann@example.org"));
for (const line of content) console.log(line.join("  "));
assert.equal(result.text, "ann@example.org has 12 left."); // A redaction changes traces, never the run.
assert.deepEqual(content.at(-1), [
  "chat scripted",
  "gen_ai.output.messages",
  '[{"role":"assistant","parts":[{"type":"reasoning","content":"So [mail] has 12."},{"type":"text","content":"[mail] has 12 left."}],"finish_reason":"stop"}]',
]);
assert.deepEqual(
  content.filter(([name]) => name === "execute_tool lookUp"),
  [["execute_tool lookUp", "gen_ai.tool.call.result", '{"balance":12,"mail":"[mail]"}']],
);

await node.shutdown();
