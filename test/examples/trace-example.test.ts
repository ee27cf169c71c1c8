// Goal: the tree of the example has the promised shape, and the searches in docs/jaeger.md find its
// spans.
// Method: the example as a separate process, and a sink that receives its spans; searches as Jaeger
// runs them.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";

import { expect, test } from "vitest";

import { OtlpSink } from "../support/otlp-sink.ts";

type SinkSpan = OtlpSink["spans"][number];

const document = readFileSync("docs/jaeger.md", "utf8");

async function example(env: Readonly<Record<string, string>>): Promise<string> {
  const options = ["--conditions=@espalier/source", "--disable-warning=ExperimentalWarning"];
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...options, "examples/24-trace.ts"],
    { env: { PATH: process.env["PATH"], ...env } },
  );
  return stdout;
}

/** The values that Jaeger compares: status as a tag, and every value as text. */
function tagsOf({ attributes, status }: SinkSpan): ReadonlyMap<string, string> {
  const tags = new Map(Object.entries(attributes).map(([key, value]) => [key, String(value)]));
  if (status === "ERROR") tags.set("error", "true");
  return tags;
}

/** Searches by the field Tags: all tags on one span. */
function hasTags(span: SinkSpan, query: string): boolean {
  const tags = tagsOf(span);
  return query.split(" ").every((pair) => {
    const [key = "", value] = pair.split("=");
    return tags.get(key) === value;
  });
}

/** Searches by the box in an open trace: a part of a name, a key, a value, or both. */
function isFound(span: SinkSpan, text: string): boolean {
  const tags = [...tagsOf(span)].map(([key, value]) => `${key}=${value}`);
  const texts = [span.name, ...tags, ...span.events.map(({ name }) => name)];
  return texts.some((one) => one.toLowerCase().includes(text.toLowerCase()));
}

test("exports one trace in which every search of the document finds its spans", async () => {
  await using sink = await OtlpSink.open();
  const stdout = await example({ OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint });
  const { spans } = sink;
  const [, traceId = ""] = /^Trace id ([0-9a-f]{32})$/m.exec(stdout) ?? [];
  expect(stdout).toContain(`http://localhost:16686/trace/${traceId}`);
  expect(new Set(spans.map((span) => span.traceId))).toEqual(new Set([traceId]));
  expect(stdout).toContain(`deliveredSpans: ${spans.length}, lostSpans: 0, pendingSpans: 0`);

  const inFind = [
    ["espalier.agent.path=lead/researcher#2", "invoke_agent researcher#2"],
    ["espalier.subtree.total_tokens", "invoke_agent lead"],
    ["espalier.budget.threshold_reached", "invoke_agent lead"],
    ["espalier.approval.wait_ms", "approval publish"],
    ["error=true", "execute_tool scan"],
    ["espalier.refusal.code", "spawn researcher (refused)"],
    ["espalier.retry", "execute_tool download"],
    ["espalier.spawn.mode=background", "spawn archivist#1"],
  ] as const;
  for (const [text, name] of inFind) {
    expect(document, text).toContain(`\`${text}\``);
    const found = spans.filter((span) => isFound(span, text)).map((span) => span.name);
    expect(found, text).toContain(name);
  }

  const inSearch = [
    ["error=true", "execute_tool scan"],
    ["error.type=tool_error", "execute_tool scan"],
  ] as const;
  for (const [query, name] of inSearch) {
    expect(document, query).toContain(`\`${query}\``);
    const found = spans.filter((span) => hasTags(span, query)).map((span) => span.name);
    expect(new Set(found), query).toEqual(new Set([name]));
  }

  // The spans that remain with the field Min Duration.
  const lasting = (operation: string, minimumMs: number): readonly SinkSpan[] =>
    spans.filter(
      ({ name, startMs, endMs }) => name.startsWith(operation) && endMs - startMs >= minimumMs,
    );
  expect(lasting("approval publish", 200)).toHaveLength(1);
  expect(lasting("queue_wait ", 100)).not.toHaveLength(0);
  const subagents = spans.filter(({ name }) => /^invoke_agent (?!lead)/.test(name));
  const depths = subagents.map(({ attributes }) => attributes["espalier.agent.depth"]);
  expect([subagents.length, Math.max(...depths.map(Number))]).toEqual([10, 3]);
});

test("runs without an endpoint and explains how to set one", async () => {
  expect(await example({})).toContain(
    "No trace was sent: set OTEL_EXPORTER_OTLP_ENDPOINT, as examples/jaeger says.",
  );
});
