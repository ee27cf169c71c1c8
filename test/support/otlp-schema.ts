// OTLP on the wire, as JSON and as protobuf, parsed into the same plain values.

import protobuf from "protobufjs";
import { z } from "zod";

/** A span as it arrived, in plain values. */
export interface SinkSpan {
  readonly name: string;
  readonly kind: "INTERNAL" | "SERVER" | "CLIENT" | "PRODUCER" | "CONSUMER";
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly events: readonly SinkSpanEvent[];
  readonly links: readonly SinkSpanLink[];
  readonly status: "UNSET" | "OK" | "ERROR";
  /** In whole milliseconds, and in microseconds. */
  readonly startMs: number;
  readonly endMs: number;
  readonly startUs: number;
  readonly endUs: number;
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface SinkSpanEvent {
  readonly name: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly atMs: number;
  readonly atUs: number;
}

export interface SinkSpanLink {
  readonly traceId: string;
  readonly spanId: string;
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** Throws for a body that does not match its content type. */
export function spansOf(body: Buffer, contentType: string | undefined): readonly SinkSpan[] {
  const message: unknown = contentType?.startsWith("application/x-protobuf")
    ? decoded(body)
    : JSON.parse(body.toString("utf8"));
  return BodySchema.parse(message).resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({ ...span, resource: resource.attributes })),
    ),
  );
}

// The part of opentelemetry/proto/collector/trace/v1 that our exports use.
const PROTO = `
syntax = "proto3";
message Request { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeSpans { repeated Span spans = 2; }
message Span {
  bytes trace_id = 1;
  bytes span_id = 2;
  bytes parent_span_id = 4;
  string name = 5;
  int32 kind = 6;
  fixed64 start_time_unix_nano = 7;
  fixed64 end_time_unix_nano = 8;
  repeated KeyValue attributes = 9;
  repeated Event events = 11;
  repeated Link links = 13;
  Status status = 15;
}
message Event { fixed64 time_unix_nano = 1; string name = 2; repeated KeyValue attributes = 3; }
message Link { bytes trace_id = 1; bytes span_id = 2; repeated KeyValue attributes = 4; }
message Status { string message = 2; int32 code = 3; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue {
  oneof value {
    string string_value = 1;
    bool bool_value = 2;
    int64 int_value = 3;
    double double_value = 4;
    ArrayValue array_value = 5;
  }
}
message ArrayValue { repeated AnyValue values = 1; }
`;

const RequestType = protobuf.parse(PROTO).root.lookupType("Request");

function decoded(body: Buffer): unknown {
  return RequestType.toObject(RequestType.decode(body), { longs: String, arrays: true });
}

// A union of schemas would try them all for each value: too slow for 20,000 spans.
const ValueSchema = z.record(z.string(), z.unknown()).transform(plain);
const ArraySchema = z.object({ values: z.array(ValueSchema).default([]) });

function plain(value: Readonly<Record<string, unknown>>): unknown {
  if ("intValue" in value) return Number(value["intValue"]);
  if ("arrayValue" in value) return ArraySchema.parse(value["arrayValue"]).values;
  return value["stringValue"] ?? value["boolValue"] ?? value["doubleValue"];
}

const AttributesSchema = z
  .array(z.object({ key: z.string(), value: ValueSchema }))
  .default([])
  .transform((pairs) => Object.fromEntries(pairs.map(({ key, value }) => [key, value])));

const KINDS = ["INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"] as const;
const STATUSES = ["UNSET", "OK", "ERROR"] as const;

/** Given in whole microseconds. */
const NanosSchema = z.string().transform((nanos) => Number(BigInt(nanos) / 1_000n));
/** Hexadecimal in JSON, bytes in protobuf. */
const IdSchema = z.union([
  z.string(),
  z.instanceof(Uint8Array).transform((bytes) => Buffer.from(bytes).toString("hex")),
]);

const SpanSchema = z
  .object({
    name: z.string(),
    kind: z.int().min(0).max(5).default(0),
    traceId: IdSchema,
    spanId: IdSchema,
    parentSpanId: IdSchema.optional(),
    attributes: AttributesSchema,
    events: z
      .array(
        z.object({ name: z.string(), attributes: AttributesSchema, timeUnixNano: NanosSchema }),
      )
      .default([]),
    links: z
      .array(z.object({ traceId: IdSchema, spanId: IdSchema, attributes: AttributesSchema }))
      .default([]),
    status: z.object({ code: z.int().min(0).max(2).default(0) }).default({ code: 0 }),
    startTimeUnixNano: NanosSchema,
    endTimeUnixNano: NanosSchema,
  })
  .transform(({ startTimeUnixNano, endTimeUnixNano, ...span }) => ({
    ...span,
    kind: KINDS[span.kind] ?? "INTERNAL",
    parentSpanId: span.parentSpanId,
    events: span.events.map(({ timeUnixNano, ...event }) => ({
      ...event,
      atMs: msOf(timeUnixNano),
      atUs: timeUnixNano,
    })),
    status: STATUSES[span.status.code] ?? "UNSET",
    startMs: msOf(startTimeUnixNano),
    endMs: msOf(endTimeUnixNano),
    startUs: startTimeUnixNano,
    endUs: endTimeUnixNano,
  }));

function msOf(us: number): number {
  return Math.floor(us / 1_000);
}

const BodySchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: AttributesSchema }),
      scopeSpans: z.array(z.object({ spans: z.array(SpanSchema) })),
    }),
  ),
});
