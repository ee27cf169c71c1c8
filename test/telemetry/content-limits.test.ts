// Goal: no attribute is longer than a backend takes, whatever wrote it; what was shortened is named on its span; content stays JSON.
// Method: real runs whose texts have megabytes, with an in-memory exporter and no limit of the SDK's own; every attribute of every span
// measured.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";

import { parseJson } from "../../src/kernel/json.ts";
import type { Message } from "../../src/protocol/message.ts";
import {
  boundedAttributes,
  MAX_ATTRIBUTE_CHARACTERS,
} from "../../src/telemetry/bounded/bounded-attributes.ts";
import { inputOf, leftOutOf } from "../../src/telemetry/content/content-messages.ts";
import { boundedJson } from "../../src/telemetry/bounded/bounded-json.ts";
import { openTelemetry } from "../../src/telemetry/otel.ts";
import { asks, says } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { takeWarnings } from "../harness/process-watch.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";
import { calls } from "../tree/scripted-agents.ts";
import { recorder, type RecordedSpan } from "./recorded-spans.ts";
import { contentOf } from "./spoken-spans.ts";

const callId = CallIdSchema.parse("call_1");
const MEGABYTES = "word ".repeat(400_000);

/** The longest of the attributes of spans and of their events, and of their names. */
function longest(spans: readonly RecordedSpan[]): number {
  const values = spans.flatMap(({ attributes, events }) => [
    ...Object.values(attributes),
    ...events.flatMap((event) => Object.values(event.attributes)),
  ]);
  const lengths = values.map(
    (value) => (typeof value === "string" ? value : JSON.stringify(value)).length,
  );
  return Math.max(...lengths, ...spans.map(({ name }) => name.length));
}

function truncatedOf(spans: readonly RecordedSpan[]): readonly (readonly unknown[])[] {
  return spans.flatMap(({ name, attributes }) => {
    const names = attributes["espalier.truncated"];
    return names === undefined ? [] : [[name, names]];
  });
}

test("content of megabytes is shortened to JSON of 16,384 characters, and its span says which attributes were", async () => {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  const save = spyTool("save", () => MEGABYTES, { maxResultCharacters: 3_000_000 });
  const { role } = soloist([asks("save", { path: "a.txt", content: MEGABYTES }), says(MEGABYTES)], {
    tools: [save],
    instructions: MEGABYTES,
  });
  await newFixture({ tracing }).run(role);
  const spans = recording.spans();
  expect(longest(spans)).toBeLessThanOrEqual(MAX_ATTRIBUTE_CHARACTERS);
  expect(truncatedOf(spans)).toEqual([
    ["chat scripted", ["gen_ai.system_instructions", "gen_ai.output.messages"]],
    ["execute_tool save", ["gen_ai.tool.call.arguments", "gen_ai.tool.call.result"]],
    [
      "chat scripted",
      ["gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"],
    ],
  ]);
  const [, call] = contentOf(spans);
  const saved = z.object({ path: z.string(), content: z.string() });
  const { path, content } = saved.parse(call?.["tool.call.arguments"]);
  expect([path, content.slice(0, 10)]).toEqual(["a.txt", "word word "]);
  expect(content).toMatch(/… \(1,983,\d{3} characters left out\)$/);
});

test("of a long history the first message and the last ones stay, and a message says how many are missing", () => {
  const history: readonly Message[] = Array.from({ length: 2_001 }, (_, index) =>
    index % 2 === 0
      ? { role: "user", text: `${index} ${"a".repeat(300)}`, origin: "task" }
      : {
          role: "assistant",
          text: "",
          toolCalls: [
            { callId: CallIdSchema.parse(`call_${index}`), toolName: "look", argumentsText: "{}" },
          ],
        },
  );
  const { text } = boundedJson(inputOf(history), MAX_ATTRIBUTE_CHARACTERS, leftOutOf);
  const shown = z
    .array(
      z.object({ role: z.string(), parts: z.array(z.object({ content: z.string().optional() })) }),
    )
    .parse(parseJson(text));
  const [first, mark, ...last] = shown;
  expect([first?.role, first?.parts[0]?.content?.slice(0, 6)]).toEqual(["user", "0 aaaa"]);
  expect(mark).toEqual({
    role: "left_out",
    parts: [{ content: `… (${(2_000 - last.length).toLocaleString("en-US")} messages left out)` }],
  });
  expect(last.length).toBeGreaterThan(50);
  expect(last.at(-1)?.parts[0]?.content?.slice(0, 9)).toBe("2000 aaaa");
});

test("however many messages there are, and however long: each that is shown is a message of parts", () => {
  const texts = fc.tuple(fc.string({ unit: "binary", maxLength: 20 }), fc.nat(3_000));
  const text = texts.map(([unit, times]) => unit.repeat(times));
  const call = fc.record({ toolName: fc.string(), argumentsText: text, nth: fc.nat() });
  const message = fc.oneof(
    text.map((said): Message => ({ role: "user", text: said, origin: "task" })),
    text.map((said): Message => ({ role: "tool", callId, toolName: "look", text: said })),
    fc.tuple(text, fc.array(call, { maxLength: 30 })).map(([said, calls]): Message => ({
      role: "assistant",
      text: said,
      toolCalls: calls.map(({ nth: _nth, ...one }) => ({ ...one, callId })),
    })),
  );
  const shape = z.array(
    z.object({ role: z.string(), parts: z.array(z.object({ type: z.string() })) }),
  );
  fc.assert(
    fc.property(fc.array(message, { maxLength: 200 }), (messages) => {
      const said = boundedJson(inputOf(messages), MAX_ATTRIBUTE_CHARACTERS, leftOutOf).text;
      expect(said.length).toBeLessThanOrEqual(MAX_ATTRIBUTE_CHARACTERS);
      shape.parse(parseJson(said));
    }),
    { numRuns: 60 },
  );
});

test("a name or a description of megabytes is cut, named on its span, and warned about once", async () => {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  const tool = defineTool({
    name: "look",
    description: MEGABYTES,
    input: z.looseObject({}),
    execute: () => "seen",
  });
  const make = () =>
    soloist(
      [
        calls(
          { name: "look", arguments: {} },
          { name: MEGABYTES, arguments: {} },
          { name: "look", arguments: {}, callId: MEGABYTES },
        ),
        says("Done."),
      ],
      { tools: [tool], purpose: MEGABYTES },
      { id: MEGABYTES },
    );
  const fixture = newFixture({ tracing });
  await fixture.run(make().role);
  await fixture.run(make().role);
  const spans = recording.spans();
  expect(longest(spans)).toBeLessThanOrEqual(MAX_ATTRIBUTE_CHARACTERS);
  expect(Math.max(...spans.map(({ name }) => name.length))).toBeLessThanOrEqual(300);
  const [, unknown, looked] = truncatedOf(spans);
  expect(looked).toEqual(["execute_tool look", ["gen_ai.tool.description"]]);
  expect(unknown?.[0]).toBe("execute_tool unknown_tool");
  await new Promise((resolve) => setImmediate(resolve));
  const warned = takeWarnings().map((warning) => /Expected (\S+) to have/.exec(warning)?.[1]);
  expect(new Set(warned)).toEqual(
    new Set([
      "gen_ai.agent.description",
      "gen_ai.request.model",
      "gen_ai.tool.call.id",
      "gen_ai.tool.description",
    ]),
  );
  expect(warned).toHaveLength(4);
});

test("a list of names is as long as a text may be, and ends by saying how many are missing", async () => {
  const names = Array.from({ length: 10_000 }, (_, index) => `name ${index}`);
  const { bounded, shortened } = boundedAttributes({
    list: names,
    fits: ["a"],
    count: 3,
    gone: undefined,
  });
  expect(shortened).toEqual(["list"]);
  const list = z.array(z.string()).parse(bounded["list"]);
  expect(JSON.stringify(list).length).toBeLessThanOrEqual(MAX_ATTRIBUTE_CHARACTERS);
  expect(list.slice(0, 2)).toEqual(["name 0", "name 1"]);
  expect(list.at(-1)).toBe(
    `… (${(10_000 - list.length + 1).toLocaleString("en-US")} entries left out)`,
  );
  expect([bounded["fits"], bounded["count"], bounded["gone"]]).toEqual([["a"], 3, undefined]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(takeWarnings()).toHaveLength(1);
});

test("what fits is exported as it is, and nothing is said of it", async () => {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  await newFixture({ tracing }).run(soloist([says("x".repeat(16_000))]).role);
  expect(truncatedOf(recording.spans())).toEqual([]);
});
