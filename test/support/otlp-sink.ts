// OtlpSink: a trace backend on the loopback, for tests. Takes OTLP/HTTP JSON, plain or gzip.
// Owns a server and the spans it was sent. Closes fully, open connections included, when disposed.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { gunzipSync } from "node:zlib";

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
  readonly status: "UNSET" | "OK" | "ERROR";
  readonly startMs: number;
  readonly endMs: number;
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface SinkSpanEvent {
  readonly name: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly atMs: number;
}

/**
 * `ok` stores; `hang` takes the request and never answers; `unavailable` answers 503; `refuse` does
 * not listen.
 */
export type SinkMode = "ok" | "hang" | "unavailable" | "refuse";

export class OtlpSink implements AsyncDisposable {
  readonly #server: Server;
  readonly #port: number;
  readonly #spans: SinkSpan[] = [];
  #bodies = "";
  #mode: SinkMode = "ok";

  static async open(mode: SinkMode = "ok"): Promise<OtlpSink> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("Expected a TCP address.");
    const sink = new OtlpSink(server, address.port);
    await sink.setMode(mode);
    return sink;
  }

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.#port = port;
    server.on("request", (request, response) => this.#answer(request, response));
  }

  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** For `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and the `tracesUrl` option. */
  get tracesUrl(): string {
    return `${this.endpoint}/v1/traces`;
  }

  /** All spans in the order of arrival. */
  get spans(): readonly SinkSpan[] {
    return this.#spans;
  }

  /** Everything that was sent, as text. */
  get bodies(): string {
    return this.#bodies;
  }

  /** Spans by trace id. */
  traces(): ReadonlyMap<string, readonly SinkSpan[]> {
    return Map.groupBy(this.#spans, (span) => span.traceId);
  }

  /** `refuse` is final: a port that was given back cannot be had again for certain. */
  async setMode(mode: SinkMode): Promise<void> {
    this.#mode = mode;
    if (mode === "refuse") await this[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const sent = Buffer.concat(chunks);
      const body = request.headers["content-encoding"] === "gzip" ? gunzipSync(sent) : sent;
      this.#take(body.toString("utf8"), response);
    });
  }

  #take(body: string, response: ServerResponse): void {
    if (this.#mode === "ok") {
      this.#bodies += body;
      this.#spans.push(...spansOf(body));
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    } else if (this.#mode === "unavailable") {
      response.writeHead(503).end();
    }
  }
}

const ValueSchema = z.union([
  z.object({ stringValue: z.string() }).transform((value) => value.stringValue),
  z.object({ boolValue: z.boolean() }).transform((value) => value.boolValue),
  z.object({ intValue: z.coerce.number() }).transform((value) => value.intValue),
  z.object({ doubleValue: z.number() }).transform((value) => value.doubleValue),
  z
    .object({ arrayValue: z.object({ values: z.array(z.object({ stringValue: z.string() })) }) })
    .transform((value) => value.arrayValue.values.map((item) => item.stringValue)),
]);

const AttributesSchema = z
  .array(z.object({ key: z.string(), value: ValueSchema }))
  .transform((pairs) => Object.fromEntries(pairs.map(({ key, value }) => [key, value])));

const KINDS = ["INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"] as const;
const STATUSES = ["UNSET", "OK", "ERROR"] as const;

const NanosSchema = z.string().transform((nanos) => Number(BigInt(nanos) / 1_000n) / 1_000);

const SpanSchema = z
  .object({
    name: z.string(),
    kind: z.int().min(0).max(5),
    traceId: z.string(),
    spanId: z.string(),
    parentSpanId: z.string().optional(),
    attributes: AttributesSchema,
    events: z.array(
      z.object({ name: z.string(), attributes: AttributesSchema, timeUnixNano: NanosSchema }),
    ),
    status: z.object({ code: z.int().min(0).max(2) }),
    startTimeUnixNano: NanosSchema,
    endTimeUnixNano: NanosSchema,
  })
  .transform(({ startTimeUnixNano, endTimeUnixNano, ...span }) => ({
    ...span,
    kind: KINDS[span.kind] ?? "INTERNAL",
    parentSpanId: span.parentSpanId,
    events: span.events.map(({ timeUnixNano, ...event }) => ({ ...event, atMs: timeUnixNano })),
    status: STATUSES[span.status.code] ?? "UNSET",
    startMs: startTimeUnixNano,
    endMs: endTimeUnixNano,
  }));

const BodySchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: AttributesSchema }),
      scopeSpans: z.array(z.object({ spans: z.array(SpanSchema) })),
    }),
  ),
});

function spansOf(body: string): readonly SinkSpan[] {
  return BodySchema.parse(JSON.parse(body)).resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({ ...span, resource: resource.attributes })),
    ),
  );
}
