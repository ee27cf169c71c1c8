// Goal: what follows its parent is taken as `ParentBasedSampler` of the SDK would take it.
// Method: two providers that differ in the sampler alone, under parents of every kind.

import { isSpanContextValid, ROOT_CONTEXT, trace, type SpanContext } from "@opentelemetry/api";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  NodeTracerProvider,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  type Sampler,
} from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { samplerOf } from "../../src/telemetry/delivery/sampling.ts";
import type { Sampling } from "../../src/telemetry/delivery/otel-variables.ts";

const NO_ID = "0".repeat(32);
const LOW = `${"0".repeat(31)}1`;
const HIGH = "f".repeat(32);
/** Of traces that begin: none has the id of another one. */
const BEGUN = [`${"0".repeat(31)}2`, `${"f".repeat(31)}e`] as const;

const PARENTS: readonly (SpanContext | undefined)[] = [
  undefined,
  ...[NO_ID, LOW, HIGH, "no id"].flatMap((traceId) =>
    ["0".repeat(16), "1".repeat(16)].flatMap((spanId) =>
      [0, 1].flatMap((traceFlags) =>
        [true, false].map((isRemote) => ({ traceId, spanId, traceFlags, isRemote })),
      ),
    ),
  ),
];

const ROOTS: readonly (readonly [Sampling["sampler"], Sampler])[] = [
  ["parentbased_always_on", new AlwaysOnSampler()],
  ["parentbased_always_off", new AlwaysOffSampler()],
  ["parentbased_traceidratio", new TraceIdRatioBasedSampler(0.5)],
];

test.each(ROOTS)("%s decides as the SDK's does, whatever the parent is", (sampler, root) => {
  const ours = decisions(samplerOf({ sampler, share: 0.5 }));
  expect(ours).toEqual(decisions(new ParentBasedSampler({ root })));
  expect(ours.filter(([, isValid]) => isValid)).toHaveLength(8);
});

/** For each parent, in traces whose ids are low and high in turn: whether it is one, and whether a span below it is taken. */
function decisions(
  sampler: Sampler,
): readonly (readonly [SpanContext | undefined, boolean, boolean])[] {
  let begun = 0;
  const idGenerator = {
    generateTraceId: () => ((begun += 1) % 2 === 0 ? BEGUN[0] : BEGUN[1]),
    generateSpanId: () => "2".repeat(16),
  };
  const tracer = new NodeTracerProvider({ sampler, idGenerator }).getTracer("test");
  return PARENTS.map((parent) => {
    const around = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
    const isValid = parent !== undefined && isSpanContextValid(parent);
    return [parent, isValid, tracer.startSpan("span", {}, around).isRecording()];
  });
}
