// Goal: a redaction decides which content is exported. A faulty redaction exports nothing and harms
// no run.
// Method: a run whose content is redacted, with its spans compared in full; then every kind of
// faulty redaction.

import { expect, test } from "vitest";

import { parseJson } from "../../../src/kernel/json.ts";
import type { EventScope } from "../../../src/protocol/event.ts";
import type { Message, SpanContent } from "../../../src/protocol/message.ts";
import { openTelemetry, type RedactContent } from "../../../src/telemetry/otel.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { unfrozenParts } from "../../support/frozen.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";
import { contentOf, type SpokenSpan } from "../../support/telemetry/spoken-spans.ts";

/** Returns the content of the spans of a run in which every text contains a secret. */
async function spoken(redact: RedactContent): Promise<readonly SpokenSpan[]> {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: { redact } });
  const { role } = soloist([asks("look", { key: "secret" }), says("The secret is out.")], {
    tools: [spyTool("look", ({ callId }) => `secret of ${callId}`)],
  });
  const result = await newFixture({ tracing }).run(role);
  expect([result.status, result.text]).toEqual(["completed", "The secret is out."]);
  return contentOf(recording.spans());
}

proves(["R178"], "exports the content that a redaction returns", async () => {
  const spans = await spoken((content) => {
    switch (content.type) {
      case "request":
        return { ...content, messages: content.messages.map(hideMessage), tools: [] };
      case "reply":
        return {
          ...content,
          message: { ...content.message, text: hide(content.message.text), toolCalls: [] },
        };
      case "arguments":
        return undefined;
      case "result":
        return { ...content, text: hide(content.text) };
    }
  });
  expect(spans.slice(0, 2)).toEqual([
    {
      span: "chat scripted",
      system_instructions: [{ type: "text", content: "Work." }],
      "input.messages": [{ role: "user", parts: [{ type: "text", content: "Do it." }] }],
      "output.messages": [{ role: "assistant", parts: [], finish_reason: "tool_call" }],
    },
    { span: "execute_tool look", "tool.call.result": "[hidden] of call_1" },
  ]);
  const [, , last] = spans;
  expect(last?.["output.messages"]).toEqual([
    {
      role: "assistant",
      parts: [{ type: "text", content: "The [hidden] is out." }],
      finish_reason: "stop",
    },
  ]);
});

test("passes each content to the redaction once, frozen and with the place of its call", async () => {
  const asked: [SpanContent["type"], EventScope["stepId"], EventScope["callId"]][] = [];
  const unfrozen: string[] = [];
  await spoken((content, place) => {
    asked.push([content.type, place.stepId, place.callId]);
    unfrozen.push(...unfrozenParts({ content, place }).slice(1));
    return content;
  });
  expect(asked).toEqual([
    ["request", "execution_1.1", null],
    ["reply", "execution_1.1", null],
    ["arguments", "execution_1.1", "call_1"],
    ["result", "execution_1.1", "call_1"],
    ["request", "execution_1.2", null],
    ["reply", "execution_1.2", null],
  ]);
  expect(unfrozen).toEqual([]);
});

test("passes a copy to the redaction, so the values of a tool are never frozen", async () => {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: { redact: (one) => one } });
  let last: unknown;
  const { role } = soloist([asks("look", { list: [1] }), says("Done.")], {
    tools: [spyTool("look")],
  });
  const fixture = newFixture({
    tracing: {
      traceEvent: (draft) => tracing.traceEvent(draft),
      runInSpan: (scope, work) => tracing.runInSpan(scope, work),
      getIds: (scope) => tracing.getIds(scope),
      recordContent: (scope, content) => {
        if (content.type === "arguments") last = content.value;
        const before = Object.isFrozen(last);
        tracing.recordContent?.(scope, content);
        if (content.type === "arguments") expect(Object.isFrozen(last)).toBe(before);
      },
    },
  });
  expect((await fixture.run(role)).status).toBe("completed");
  expect(last).toEqual({ list: [1] });
});

const cyclic: Record<string, unknown> = { type: "arguments" };
cyclic["value"] = cyclic;
const deep: unknown = JSON.parse(`${"[".repeat(400)}${"]".repeat(400)}`);

const BROKEN: Readonly<Record<string, readonly [(content: SpanContent) => unknown, string]>> = {
  throws: [fails, "(Error)"],
  "throws null": [
    () => {
      // oxlint-disable-next-line typescript/only-throw-error -- what foreign code may do
      throw null;
    },
    "(a thrown object)",
  ],
  "gives a promise": [
    (content) => Promise.resolve(content),
    "it returned a promise; it must be synchronous",
  ],
  rejects: [
    () => Promise.reject(new Error("late")),
    "it returned a promise; it must be synchronous",
  ],
  "gives something to wait for": [
    // oxlint-disable-next-line unicorn/no-thenable -- what foreign code may do
    () => ({ then: () => undefined }),
    "it returned a promise; it must be synchronous",
  ],
  "gives true": [() => true, "its result is not valid content (invalid_type)"],
  "gives null": [() => null, "its result is not valid content (invalid_type)"],
  "gives a text": [() => "redacted", "its result is not valid content (invalid_type)"],
  "gives a function": [() => fails, "it returned a value of type function"],
  "gives another type": [
    ({ type }) =>
      type === "result" ? { type: "arguments", value: 1 } : { type: "result", text: "x" },
    "it returned",
  ],
  "gives a field more": [
    (content) => ({ ...content, secret: "secret" }),
    "its result is not valid content (unrecognized_keys)",
  ],
  "gives a cycle": [() => cyclic, "(TypeError)"],
  "gives what is nested beyond reason": [
    () => ({ type: "arguments", value: deep }),
    "it is nested too deeply",
  ],
  "gives what may not be looked at": [
    () => ({
      get type() {
        return fails();
      },
    }),
    "(Error)",
  ],
  "throws what quotes the content": [
    (content) => parseJson(content.type === "result" ? content.text : "secret of whom"),
    "(SyntaxError)",
  ],
  "gives keys that quote the content": [
    (content) => ({ ...content, "secret of whom": 1 }),
    "(unrecognized_keys)",
  ],
  "gives a message with such keys": [
    () => ({ type: "request", messages: [{ "secret of whom": 1 }], tools: [] }),
    "`messages` of its result is not valid content",
  ],
  "throws an error of a class without a name": [
    () => {
      throw Object.defineProperty(new Error("secret of whom"), "constructor", {
        get: () => fails(),
      });
    },
    "(one that cannot be read)",
  ],
  "changes what it was given": [
    (content) => Object.assign(content, { text: "x", value: "x" }),
    "(TypeError)",
  ],
};

for (const [name, [redact, why]] of Object.entries(BROKEN)) {
  test(`exports nothing, warns once with the reason and continues the run if a redaction ${name}`, async () => {
    expect(await spoken(foreign(redact))).toEqual([]);
    const [warning = "", ...more] = takeWarnings();
    expect(more).toEqual([]);
    expect(warning).toContain(
      "EspalierWarning: Expected content.redact to return content, got an error (",
    );
    expect(warning).toContain(why);
    expect(warning).toContain("is not exported; runs are not affected.");
    expect(warning).not.toContain("secret of");
  });
}

/** Passes a redaction that does not keep to its type, as foreign code may. */
function foreign(redact: (content: SpanContent) => unknown): RedactContent {
  return isRedaction(redact) ? redact : expect.fail("no function");
}

function isRedaction(value: unknown): value is RedactContent {
  return typeof value === "function";
}

function fails(): never {
  throw new Error("no patterns");
}

function hideMessage(message: Message): Message {
  return { ...message, text: hide(message.text) };
}

function hide(text: string): string {
  return text.replaceAll("secret", "[hidden]");
}
