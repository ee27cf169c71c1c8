// Goal: no attribute is longer than a backend accepts. A shortened attribute is listed on its span
// and ends with a mark.
// Method: real runs with texts of megabytes, an in-memory exporter and no limit of the SDK; every
// attribute of every span is measured.

import { expect, test } from "vitest";
import { z } from "zod";

import {
  shortenAttributes,
  MAX_ATTRIBUTE_CHARACTERS,
} from "../../../src/telemetry/spans/bounded-attributes.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls } from "../../harness/scripted-agents.ts";
import { recorder, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";

const MEGABYTES = "word ".repeat(400_000);

/** Returns the length of the longest attribute or name among spans and their events. */
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

proves(
  ["D642"],
  "cuts content of megabytes at 16,384 characters, and names the attributes on its span",
  async () => {
    const recording = recorder();
    const tracing = openTelemetry({ tracer: recording.tracer, content: true });
    const save = spyTool("save", () => MEGABYTES, { maxResultCharacters: 3_000_000 });
    const { role } = soloist(
      [asks("save", { path: "a.txt", content: MEGABYTES }), says(MEGABYTES)],
      {
        tools: [save],
        instructions: MEGABYTES,
      },
    );
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
    const whole = JSON.stringify({ path: "a.txt", content: MEGABYTES });
    expect(spans.map(({ attributes }) => attributes["gen_ai.tool.call.arguments"])).toContain(
      `${whole.slice(0, 16_377)}… (cut)`,
    );
  },
);

test("cuts a name or a description of megabytes, lists it on its span and warns once for each attribute", async () => {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  const tool = defineTool({
    name: "look",
    description: MEGABYTES,
    inputSchema: z.looseObject({}),
    execute: () => "seen",
  });
  const make = () =>
    soloist(
      [
        calls(
          { toolName: "look", arguments: {} },
          { toolName: MEGABYTES, arguments: {} },
          { toolName: "look", arguments: {}, callId: MEGABYTES },
        ),
        says("Done."),
      ],
      { tools: [tool], description: MEGABYTES },
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

test("shortens a list of names to the length of a text and ends it with the mark", async () => {
  const names = Array.from({ length: 10_000 }, (_, index) => `name ${index}`);
  const { bounded, shortened } = shortenAttributes({
    list: names,
    fits: ["a"],
    count: 3,
    gone: undefined,
  });
  expect(shortened).toEqual(["list"]);
  const list = z.array(z.string()).parse(bounded["list"]);
  expect(JSON.stringify(list).length).toBeLessThanOrEqual(MAX_ATTRIBUTE_CHARACTERS);
  expect(list.slice(0, 2)).toEqual(["name 0", "name 1"]);
  expect(list.at(-1)).toBe("… (cut)");
  expect([bounded["fits"], bounded["count"], bounded["gone"]]).toEqual([["a"], 3, undefined]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(takeWarnings()).toHaveLength(1);
});

test("exports content that fits unchanged and lists no attribute", async () => {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  await newFixture({ tracing }).run(soloist([says("x".repeat(16_000))]).role);
  expect(truncatedOf(recording.spans())).toEqual([]);
});
