// Kinds of transport faults: the fault in a server's response, and the outcome of the call.

import type { ServerResponse } from "node:http";
import {
  brotliCompressSync,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";

import type { AnswerWith } from "./fault-server.ts";

const json = { "content-type": "application/json" };
const ERROR = JSON.stringify({ type: "error", error: { type: "some_error", message: "No luck." } });
const PAGE = `<html><title>Sign in</title>${"x".repeat(3_000)}</html>`;
const BUSY = JSON.stringify({ error: { code: 503, type: "overloaded_error", message: "Busy." } });

function head(response: ServerResponse, type: string, more: object = {}): ServerResponse {
  return response.writeHead(200, { "content-type": type, ...more });
}

function refusal(status: number, headers: Readonly<Record<string, string>> = {}): AnswerWith {
  return (response) => response.writeHead(status, { ...json, ...headers }).end(ERROR);
}

/** Destroys the connection once the kernel has accepted the written data. */
function breakOff(response: ServerResponse, how: "reset" | "destroyed", bytes: string): void {
  response.write(bytes, () =>
    setImmediate(() => {
      if (how === "reset") response.socket?.resetAndDestroy();
      else response.socket?.destroy();
    }),
  );
}

/** Writes the same again and again, as fast as it is read. */
function pour(response: ServerResponse, text: string): void {
  const write = (): void => {
    while (!response.destroyed && response.write(text));
    if (!response.destroyed) response.once("drain", write);
  };
  write();
}

function encoded(encoding: string, encode: (body: Buffer) => Uint8Array): AnswerWith {
  return (response, { type, body }) =>
    head(response, type, { "content-encoding": encoding }).end(encode(Buffer.from(body)));
}

/** Returns a reply with a byte in its text that is not UTF-8, wherever the text is. */
function distorted(body: string): Uint8Array {
  return Buffer.from(body.replaceAll(/k"(?!:)/g, '\u00ffk"'), "latin1");
}

function errorBody(error: unknown): AnswerWith {
  return (response) => head(response, "application/json").end(JSON.stringify(error));
}

function redirect(status: number, location?: string): AnswerWith {
  return (response, { type, body }, { url }) => {
    if (url?.endsWith("/again") === true) head(response, type).end(body);
    else response.writeHead(status, location === undefined ? {} : { location }).end();
  };
}

function writeBytes(response: ServerResponse, bytes: Uint8Array): void {
  if (bytes.length === 0) return void response.end();
  response.write(bytes.subarray(0, 1), () =>
    setImmediate(() => writeBytes(response, bytes.subarray(1))),
  );
}

export interface Fault {
  readonly answer: AnswerWith;
  /** The text of the reply, or the code of the error and the delay that the server asked for. */
  readonly outcome: string;
  /** The same for a body that is one JSON value, if it differs. */
  readonly whole?: string;
  /** Default: one. */
  readonly requests?: number;
}

const BROKEN: Readonly<Record<string, Fault>> = {
  "a reset before the head": {
    outcome: "model_unavailable",
    answer: (response) => response.socket?.resetAndDestroy(),
  },
  "a connection that is closed before the head": {
    outcome: "model_unavailable",
    answer: (response) => response.socket?.destroy(),
  },
  "half a head": {
    outcome: "model_unavailable",
    answer: (response) => response.socket?.end("HTTP/1.1 200 O"),
  },
  "an answer of another protocol": {
    outcome: "model_unavailable",
    answer: (response) => response.socket?.end("SSH-2.0-Server\r\n\r\n"),
  },
  "a reset behind the head": {
    outcome: "model_unavailable",
    answer: (response, { type }) => {
      head(response, type).flushHeaders();
      setImmediate(() => response.socket?.resetAndDestroy());
    },
  },
  "a reset in the middle": {
    outcome: "model_unavailable",
    answer: (response, { type, begun }) => breakOff(head(response, type), "reset", begun),
  },
  "a connection that is closed in the middle": {
    outcome: "model_unavailable",
    answer: (response, { type, begun }) => breakOff(head(response, type), "destroyed", begun),
  },
  "a body that ends between two events": {
    outcome: "model_unavailable",
    answer: (response, { type, begun }) => head(response, type).end(begun),
    whole: "model_protocol_error",
  },
  "a body that ends in an event": {
    outcome: "model_unavailable",
    answer: (response, { type, body }) => head(response, type).end(body.slice(0, 20)),
    whole: "model_protocol_error",
  },
  "a body that is shorter than its length": {
    outcome: "model_unavailable",
    answer: (response, { type, body, begun }) =>
      breakOff(head(response, type, { "content-length": body.length }), "destroyed", begun),
  },
  "a chunk without a length": {
    outcome: "model_unavailable",
    answer: (response, { type, begun }) =>
      response.socket?.end(
        `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ntransfer-encoding: chunked\r\n\r\n${begun.length.toString(16)}\r\n${begun}\r\nxyz\r\n`,
      ),
  },
  "an empty body": {
    outcome: "model_unavailable",
    answer: (response, { type }) => head(response, type).end(),
    whole: "model_protocol_error",
  },
  "no head": { outcome: "model_timeout", answer: () => undefined },
  "no body": {
    outcome: "model_timeout",
    answer: (response, { type }) => head(response, type).flushHeaders(),
  },
  "a body that stops": {
    outcome: "model_timeout",
    answer: (response, { type, begun }) => void head(response, type).write(begun),
  },
  "a refusal without an end": {
    outcome: "model_timeout",
    answer: (response) => response.writeHead(500, json).flushHeaders(),
  },
};

const DISTORTED: Readonly<Record<string, Fault>> = {
  "a page with status 200": {
    outcome: "model_protocol_error",
    answer: (response) => head(response, "text/html").end(PAGE),
  },
  "a page in place of the reply": {
    outcome: "model_protocol_error",
    answer: (response, { type }) => head(response, type).end(PAGE),
  },
  "a page with status 502": {
    outcome: "model_unavailable",
    answer: (response) => response.writeHead(502, { "content-type": "text/html" }).end(PAGE),
  },
  "a bare error": {
    outcome: "model_unavailable",
    answer: (response, { type }) =>
      head(response, type).end('error: {"code":500,"message":"the slot is gone"}\n\n'),
    whole: "model_protocol_error",
  },
  "a bare error in the middle": {
    outcome: "model_unavailable",
    answer: (response, { type, begun }) =>
      head(response, type).end(`${begun}error: {"code":500,"message":"the slot is gone"}\n\n`),
    whole: "model_protocol_error",
  },
  "an error with status 200": {
    outcome: "model_overloaded",
    answer: (response) => head(response, "application/json").end(BUSY),
  },
  "an error with status 200 that has the type of the reply": {
    outcome: "model_overloaded",
    answer: (response, { type }) => head(response, type).end(BUSY),
  },
  "an error in an event": {
    outcome: "model_overloaded",
    answer: (response, { type }) => head(response, type).end(`data: ${BUSY}\n\n`),
    whole: "model_protocol_error",
  },
  "an error in an event in the middle": {
    outcome: "model_overloaded",
    answer: (response, { type, begun }) => head(response, type).end(`${begun}data: ${BUSY}\n\n`),
    whole: "model_protocol_error",
  },
  "an error with status 200 in a list": {
    outcome: "model_unavailable",
    answer: errorBody([{ error: { message: "No luck." } }]),
  },
  "an error with status 200 as an object of the type error": {
    outcome: "model_invalid_request",
    answer: errorBody({ object: "error", message: "No luck.", code: 400 }),
  },
  "an error with status 200 as a message": {
    outcome: "model_unavailable",
    answer: errorBody({ message: "No luck." }),
  },
  "an error with status 200 as a detail": {
    outcome: "model_unavailable",
    answer: errorBody({ detail: "No luck." }),
  },
  "bad JSON": {
    outcome: "model_protocol_error",
    answer: (response, { type }) => head(response, type).end("data: {nope}\n\n"),
  },
  "bad JSON in the middle": {
    outcome: "model_protocol_error",
    answer: (response, { type, begun }) => head(response, type).end(`${begun}data: {nope}\n\n`),
  },
  null: {
    outcome: "model_protocol_error",
    answer: (response, { type }) => head(response, type).end("data: null\n\n"),
  },
  "an array": {
    outcome: "model_protocol_error",
    answer: (response, { type }) => head(response, type).end("data: []\n\n"),
  },
  "lists in lists": {
    outcome: "model_protocol_error",
    answer: (response, { type }) =>
      head(response, type).end(`data: ${"[".repeat(100_000)}${"]".repeat(100_000)}\n\n`),
  },
  "comments without end": {
    outcome: "model_protocol_error",
    answer: (response, { type }) => pour(head(response, type), `: ${"x".repeat(65_536)}\n\n`),
  },
  "a line without end": {
    outcome: "model_protocol_error",
    answer: (response, { type }) => pour(head(response, type), `data: ${"x".repeat(65_536)}`),
  },
};

const REFUSED: Readonly<Record<string, Fault>> = {
  "status 400": { outcome: "model_invalid_request", answer: refusal(400) },
  "status 401": { outcome: "model_unauthorized", answer: refusal(401) },
  "status 402": { outcome: "model_invalid_request", answer: refusal(402) },
  "status 403": { outcome: "model_unauthorized", answer: refusal(403) },
  "status 408": { outcome: "model_timeout", answer: refusal(408) },
  "status 409": { outcome: "model_invalid_request", answer: refusal(409) },
  "status 413": { outcome: "model_invalid_request", answer: refusal(413) },
  "status 422": { outcome: "model_invalid_request", answer: refusal(422) },
  "status 429": { outcome: "model_rate_limited", answer: refusal(429) },
  "status 500": { outcome: "model_unavailable", answer: refusal(500) },
  "status 502": { outcome: "model_unavailable", answer: refusal(502) },
  "status 503": { outcome: "model_overloaded", answer: refusal(503) },
  "status 504": { outcome: "model_unavailable", answer: refusal(504) },
  "status 520": { outcome: "model_unavailable", answer: refusal(520) },
  "status 529": { outcome: "model_overloaded", answer: refusal(529) },
  "status 429 with Retry-After": {
    outcome: "model_rate_limited after 7000 ms",
    answer: refusal(429, { "retry-after": "7" }),
  },
  "status 429 with retry-after-ms": {
    outcome: "model_rate_limited after 1500 ms",
    answer: refusal(429, { "retry-after-ms": "1500" }),
  },
  "status 429 with a date": {
    outcome: "model_rate_limited after 9000 ms",
    answer: refusal(429, {
      date: "Sun, 29 Nov 2026 01:00:00 GMT",
      "retry-after": "Sun, 29 Nov 2026 01:00:09 GMT",
    }),
  },
  "status 429 with Retry-After that is not a time": {
    outcome: "model_rate_limited",
    answer: refusal(429, { "retry-after": "soon" }),
  },
  "status 503 with Retry-After": {
    outcome: "model_overloaded after 7000 ms",
    answer: refusal(503, { "retry-after": "7" }),
  },
  "status 500 without a body": {
    outcome: "model_unavailable",
    answer: (response) => response.writeHead(500).end(),
  },
  "status 500 with half a body": {
    outcome: "model_unavailable",
    answer: (response) => breakOff(response.writeHead(500, json), "reset", '{"error":{"mess'),
  },
  "a redirect within the origin": {
    outcome: "ok",
    answer: redirect(307, "/v1/again"),
    requests: 2,
  },
  "a redirect that drops the body": {
    outcome: "model_invalid_request",
    answer: redirect(302, "/v1/again"),
  },
  "a redirect to itself": {
    outcome: "model_invalid_request",
    answer: (response, _sound, { url }) => response.writeHead(307, { location: url }).end(),
    requests: 6,
  },
  "a redirect to another server": {
    outcome: "model_invalid_request",
    answer: redirect(307, "http://127.0.0.1:9/v1"),
  },
};

const READ: Readonly<Record<string, Fault>> = {
  "a body in gzip": { outcome: "ok", answer: encoded("gzip", gzipSync) },
  "a body in br": { outcome: "ok", answer: encoded("br", brotliCompressSync) },
  "a body in deflate": { outcome: "ok", answer: encoded("deflate", deflateSync) },
  "a body in zstd": { outcome: "ok", answer: encoded("zstd", zstdCompressSync) },
  "a body in deflate without its header": {
    outcome: "ok",
    answer: encoded("deflate", deflateRawSync),
  },
  "a body in an unknown encoding": {
    outcome: "model_protocol_error",
    answer: encoded("lzma", (body) => body),
  },
  "a body that is not in its encoding": {
    outcome: "model_protocol_error",
    answer: encoded("gzip", (body) => body),
  },
  "a body that ends in its encoding": {
    outcome: "model_unavailable",
    answer: encoded("gzip", (body) => gzipSync(body).subarray(0, 40)),
  },
  "plain text as its type": {
    outcome: "ok",
    answer: (response, { body }) => head(response, "text/plain").end(body),
  },
  "no type": { outcome: "ok", answer: (response, { body }) => response.writeHead(200).end(body) },
  "a type in capitals with a charset": {
    outcome: "ok",
    answer: (response, { type, body }) =>
      head(response, `${type.toUpperCase()}; charset=utf-8`).end(body),
  },
  "a byte that is not UTF-8": {
    outcome: "o\ufffdk",
    answer: (response, { type, body }) => head(response, type).end(distorted(body)),
  },
  "a byte at a time": {
    outcome: "ok",
    answer: (response, { type, body }) => writeBytes(head(response, type), Buffer.from(body)),
  },
  "lines that end with CR and LF": {
    outcome: "ok",
    answer: (response, { type, body }) => head(response, type).end(body.replaceAll("\n", "\r\n")),
  },
  "a byte order mark": {
    outcome: "ok",
    answer: (response, { type, body }) => head(response, type).end(`\uFEFF${body}`),
  },
  "comments and fields that are not data": {
    outcome: "ok",
    answer: (response, { type, body }) =>
      head(response, type).end(type.includes("json") ? body : `: hi\n\nretry: 5\n\nid: 1\n${body}`),
  },
  "no last blank line": {
    outcome: "ok",
    answer: (response, { type, body }) => head(response, type).end(body.trimEnd()),
  },
  "a reset behind the reply": {
    outcome: "ok",
    answer: (response, { type, body }) => breakOff(head(response, type), "reset", body),
  },
  "a stream that is left open": {
    outcome: "ok",
    answer: (response, { type, body }) => void head(response, type).write(body),
  },
  "early hints": {
    outcome: "ok",
    answer: (response, { type, body }) => {
      response.writeEarlyHints({ link: "</a>; rel=preload" });
      head(response, type).end(body);
    },
  },
};

/** Every kind by its name. Those that pour run without a deadline. */
export const TRANSPORT_FAULTS: Readonly<Record<string, Fault>> = {
  ...BROKEN,
  ...DISTORTED,
  ...REFUSED,
  ...READ,
};
