// An OpenTelemetry SDK whose metrics are read by hand, in plain values.

import type { Meter } from "@opentelemetry/api";
import { MeterProvider, MetricReader, type MetricData } from "@opentelemetry/sdk-metrics";
import { expect } from "vitest";
import { z } from "zod";

import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import {
  METRICS,
  type Metric,
  type MetricDefinition,
} from "../../../src/telemetry/metrics/metric-names.ts";

/** A series: its attributes and its value. */
export interface Point {
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Sum of a counter, or of all values of a histogram. */
  readonly sum: number;
  /** Number of values of a histogram. */
  readonly count?: number;
}

export type Readings = ReadonlyMap<string, readonly Point[]>;

export interface MetricRecorder {
  readonly provider: MeterProvider;
  readonly meter: Meter;
  /** Returns everything that was measured so far. */
  read(): Promise<Readings>;
  /** Returns the SDK's descriptions of the metrics that were measured. */
  instruments(): Promise<readonly MetricData[]>;
}

class HandReader extends MetricReader {
  protected override onForceFlush(): Promise<void> {
    return Promise.resolve();
  }

  protected override onShutdown(): Promise<void> {
    return Promise.resolve();
  }
}

export function metricRecorder(): MetricRecorder {
  const reader = new HandReader();
  const provider = new MeterProvider({ readers: [reader] });
  const instruments = async (): Promise<readonly MetricData[]> => {
    const { resourceMetrics, errors } = await reader.collect();
    expect(errors).toEqual([]);
    return resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
  };
  return {
    provider,
    meter: provider.getMeter("test"),
    instruments,
    read: async () =>
      new Map(
        (await instruments()).map(({ descriptor, dataPoints }) => [
          descriptor.name,
          dataPoints.map(pointOf),
        ]),
      ),
  };
}

const HistogramSchema = z.object({ count: z.number(), sum: z.number() });

function pointOf({ attributes, value }: MetricData["dataPoints"][number]): Point {
  if (typeof value === "number") return { attributes, sum: value };
  return { attributes, ...HistogramSchema.parse(value) };
}

/** Returns the series of one metric. */
export function pointsOf(readings: Readings, metric: Metric): readonly Point[] {
  return readings.get(METRICS[metric].name) ?? [];
}

/** Returns the sum of all series of one metric. */
export function sumOf(readings: Readings, metric: Metric): number {
  return pointsOf(readings, metric).reduce((total, { sum }) => total + sum, 0);
}

/** Returns the number of values of a histogram. */
export function countOf(readings: Readings, metric: Metric): number {
  return pointsOf(readings, metric).reduce((total, { count = 0 }) => total + count, 0);
}

/** Returns every series as a line: its metric, its attributes and its value. */
export function linesOf(readings: Readings): readonly string[] {
  const lines = [...readings].flatMap(([name, points]) => {
    return points.map(({ attributes, sum, count }) => {
      const facts = Object.entries(attributes).map(
        ([key, value]) => `${plain(key)}=${String(value)}`,
      );
      const times = count === undefined ? "" : ` in ${count}`;
      return `${name} | ${facts.toSorted().join(" ")} | ${rounded(sum)}${times}`;
    });
  });
  return lines.toSorted();
}

/** Returns the lines that contain this part. */
export function linesWith(readings: Readings, part: string): readonly string[] {
  return linesOf(readings).filter((line) => line.includes(part));
}

/** Returns the name of an attribute without its namespace. */
function plain(key: string): string {
  return key.replace(/^(?:gen_ai|espalier)\./, "");
}

function rounded(sum: number): number {
  return Math.round(sum * 1e6) / 1e6;
}

/** Checks the metrics of runs that have settled, over all their segments. */
export function checkMetrics(readings: Readings, results: readonly RunResult[]): void {
  const expected = results.map(({ usage, subagentsByDepth }) => ({
    ...usage.total,
    subagents: Object.values(subagentsByDepth).reduce((sum, count) => sum + count, 0),
  }));
  const total = (pick: (facts: (typeof expected)[number]) => number): number =>
    expected.reduce((sum, facts) => sum + pick(facts), 0);
  expect({
    inputTokens: sumOf(readings, "inputTokens"),
    outputTokens: sumOf(readings, "outputTokens"),
    cachedInputTokens: sumOf(readings, "cacheReadTokens"),
    reasoningTokens: sumOf(readings, "reasoningTokens"),
    modelCalls: sumOf(readings, "agentInferenceCalls"),
    toolCalls: sumOf(readings, "agentToolCalls"),
    subagents: sumOf(readings, "spawnedAgents"),
  }).toEqual({
    inputTokens: total((facts) => facts.inputTokens),
    outputTokens: total((facts) => facts.outputTokens),
    cachedInputTokens: total((facts) => facts.cachedInputTokens),
    reasoningTokens: total((facts) => facts.reasoningTokens),
    modelCalls: total((facts) => facts.modelCalls),
    toolCalls: total((facts) => facts.toolCalls),
    subagents: total((facts) => facts.subagents),
  });
  for (const metric of ["activeAgents", "pendingApprovals"] as const)
    for (const { attributes, sum } of pointsOf(readings, metric))
      expect([metric, attributes, sum], "what goes up comes down").toEqual([metric, attributes, 0]);
  checkAttributes(readings);
}

/** Checks that every attribute is in the table and that no value is an id. */
export function checkAttributes(readings: Readings): void {
  const table = new Map<string, MetricDefinition>(
    Object.values(METRICS).map((definition) => [definition.name, definition]),
  );
  for (const [name, points] of readings) {
    const known = table.get(name)?.attributes ?? expect.fail(`${name} is in no table`);
    for (const { attributes } of points) {
      expect(known, name).toEqual(expect.arrayContaining(Object.keys(attributes)));
      for (const value of Object.values(attributes))
        expect(value, name).not.toMatch(/^(run|agent|execution|call|question|lease)_|\d\.\d/);
    }
  }
}
