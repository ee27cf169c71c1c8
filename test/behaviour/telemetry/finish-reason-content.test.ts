// Goal: the provider's own finish reason, which is text of a provider, is treated as content.
// Method: runs of a model whose reply has such a reason, with content off, on and redacted.

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { checkReply } from "../../../src/model/check-reply.ts";
import type { Model, ModelReply } from "../../../src/model/model.ts";
import type { SpanContent } from "../../../src/protocol/message.ts";
import { openTelemetry, type RedactContent } from "../../../src/telemetry/otel.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";

const ATTRIBUTE = "espalier.model.finish_reason_raw";
const REASON = "halted: the user is Ada";

function modelWith(rawFinishReason: string): Model {
  const reply: ModelReply = {
    message: { role: "assistant", text: "Well.", toolCalls: [] },
    finishReason: "stop",
    rawFinishReason,
  };
  return { provider: "own", id: "m", generate: () => Promise.resolve(reply) };
}

/** Runs the model once. Returns the attribute of its span and the text of all spans and events. */
async function record(
  content: boolean | { readonly redact: RedactContent },
): Promise<{ readonly attribute: unknown; readonly spans: string; readonly events: string }> {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content });
  const fixture = newFixture({ tracing });
  const model = modelWith(REASON);
  const result = await fixture.run(defineAgent({ name: "solo", instructions: "Work.", model }));
  expect(result.status).toBe("completed");
  const spans = recording.spans();
  const chat = spans.find(({ name }) => name === "chat m") ?? expect.fail("no span");
  return {
    attribute: chat.attributes[ATTRIBUTE],
    spans: JSON.stringify(spans),
    events: JSON.stringify(fixture.sink.events),
  };
}

proves(["D404"], "exports no finish reason of the provider while content is off", async () => {
  const { attribute, spans, events } = await record(false);
  expect([attribute, spans.includes("Ada"), events.includes("Ada")]).toEqual([
    undefined,
    false,
    false,
  ]);
});

proves(
  ["D404"],
  "exports the provider's finish reason on the span of the call while content is on",
  async () => {
    const { attribute, events } = await record(true);
    expect([attribute, events.includes("Ada")]).toEqual([REASON, false]);
  },
);

proves(["D404"], "lets a redaction change, remove and hide the finish reason", async () => {
  const seen: unknown[] = [];
  const rewrite = (content: SpanContent): SpanContent => {
    if (content.type !== "reply") return content;
    seen.push(content.rawFinishReason);
    return { ...content, rawFinishReason: "halted" };
  };
  const remove = (content: SpanContent): SpanContent =>
    content.type === "reply" ? { ...content, rawFinishReason: undefined } : content;
  const attributes: unknown[] = [];
  for (const redact of [rewrite, remove, () => undefined]) {
    const { attribute, spans } = await record({ redact });
    expect(spans).not.toContain("Ada");
    attributes.push(attribute);
  }
  expect(attributes).toEqual(["halted", undefined, undefined]);
  expect(seen).toEqual([REASON]);
});

test("drops a reply for which a redaction returns a finish reason that is not text", async () => {
  const wrong = (content: SpanContent): SpanContent =>
    content.type === "reply" ? Object.assign({ ...content }, { rawFinishReason: 1 }) : content;
  const { attribute, spans } = await record({ redact: wrong });
  expect([attribute, spans.includes("Ada")]).toEqual([undefined, false]);
  expect(takeWarnings().length).toBe(1);
});

proves(["D405"], "cuts a finish reason of a provider to 200 characters", () => {
  const size = { inputTokens: 10, maxOutputTokens: 10 };
  const reasons = [200, 201, 10_000].map(async (length) => {
    const model = modelWith("r".repeat(length));
    const reply = await model.generate(
      { messages: [], tools: [], maxOutputTokens: 10 },
      { signal: new AbortController().signal },
    );
    return checkReply(model, reply, size).rawFinishReason;
  });
  const cut = `${"r".repeat(200)}…`;
  return expect(Promise.all(reasons)).resolves.toEqual(["r".repeat(200), cut, cut]);
});
