// OtlpSink: a trace backend on the loopback, for tests and measurements. Takes OTLP/HTTP, as JSON
// and as protobuf, plain and gzip.
// Owns a server and the spans it was sent. Closes fully, open connections included, when disposed.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { gunzipSync } from "node:zlib";

import { spansOf, type SinkSpan } from "./otlp-schema.ts";

/**
 * `ok` stores; `hang` takes the request and never answers;
 * `drip` answers 200 a little at a time, and never ends; `partial` stores all spans but one, and says
 * so; `unavailable` answers 503; `refuse` does not listen. The others are servers that know nothing of
 * OTLP: `not_found` answers 404 with a page, `page` answers 200 with a page, `bad_request` answers
 * 400.
 */
export type SinkMode =
  | "ok"
  | "hang"
  | "drip"
  | "partial"
  | "unavailable"
  | "refuse"
  | "not_found"
  | "page"
  | "bad_request";

/** How a request came. */
export interface SinkRequest {
  readonly path: string;
  readonly contentType: string | undefined;
  readonly encoding: string | undefined;
  readonly bytes: number;
}

const PAGE = "<!doctype html><title>Not here</title><p>This is somebody's home page.</p>";
const DRIP_MS = 20;

export class OtlpSink implements AsyncDisposable {
  readonly #server: Server;
  readonly #port: number;
  readonly #spans: SinkSpan[] = [];
  readonly #requests: SinkRequest[] = [];
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

  /** All requests in the order of arrival, in every mode that listens. */
  get requests(): readonly SinkRequest[] {
    return this.#requests;
  }

  /** Everything that was sent, as text. */
  get bodies(): string {
    return this.#bodies;
  }

  /** Spans by trace id. */
  traces(): ReadonlyMap<string, readonly SinkSpan[]> {
    return Map.groupBy(this.#spans, (span) => span.traceId);
  }

  /** Spans whose parent did not arrive. */
  orphans(): readonly SinkSpan[] {
    const known = new Set(this.#spans.map((span) => span.spanId));
    return this.#spans.filter(
      ({ parentSpanId }) => parentSpanId !== undefined && !known.has(parentSpanId),
    );
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
      const { "content-type": contentType, "content-encoding": encoding } = request.headers;
      const path = request.url ?? "";
      this.#requests.push({ path, contentType, encoding, bytes: sent.length });
      this.#take({ sent, contentType, encoding }, response);
    });
  }

  #take(body: Body, response: ServerResponse): void {
    switch (this.#mode) {
      case "ok":
        this.#store(body, response);
        break;
      case "drip": {
        response.writeHead(200, { "content-type": "text/event-stream" });
        const drip = setInterval(() => response.write(": ping\n\n"), DRIP_MS);
        response.on("close", () => clearInterval(drip));
        break;
      }
      case "partial":
        this.#storeAllButOne(body, response);
        break;
      case "unavailable":
        response.writeHead(503).end();
        break;
      case "not_found":
        response.writeHead(404, { "content-type": "text/html" }).end(PAGE);
        break;
      case "page":
        response.writeHead(200, { "content-type": "text/html" }).end(PAGE);
        break;
      case "bad_request":
        response.writeHead(400, { "content-type": "text/plain" }).end("What is this?");
        break;
      case "hang":
      case "refuse":
        break;
    }
  }

  #storeAllButOne(body: Body, response: ServerResponse): void {
    const { sent, contentType, encoding } = body;
    const spans = spansOf(encoding === "gzip" ? gunzipSync(sent) : sent, contentType);
    this.#spans.push(...spans.slice(1));
    const isProtobuf = contentType?.startsWith("application/x-protobuf") === true;
    response
      .writeHead(200, { "content-type": contentType })
      .end(isProtobuf ? REFUSED_AS_PROTOBUF : REFUSED_AS_JSON);
  }

  #store({ sent, contentType, encoding }: Body, response: ServerResponse): void {
    try {
      const body = encoding === "gzip" ? gunzipSync(sent) : sent;
      this.#spans.push(...spansOf(body, contentType));
      this.#bodies += body.toString("utf8");
    } catch (cause) {
      response.writeHead(400, { "content-type": "text/plain" }).end(String(cause));
      return;
    }
    const isProtobuf = contentType?.startsWith("application/x-protobuf") === true;
    response.writeHead(200, { "content-type": contentType }).end(isProtobuf ? "" : "{}");
  }
}

/** An `ExportTracePartialSuccess` as protobuf: field 1 is the count, field 2 the message. */
const REFUSED_AS_PROTOBUF = Buffer.from([0x0a, 0x0b, 0x08, 1, 0x12, 7, ...Buffer.from("too old")]);
const REFUSED_AS_JSON = '{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}';

interface Body {
  readonly sent: Buffer;
  readonly contentType: string | undefined;
  readonly encoding: string | undefined;
}
