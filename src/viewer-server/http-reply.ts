// HTTP replies: status, common headers, and JSON that is compressed where that is worthwhile.

import type { IncomingMessage, ServerResponse } from "node:http";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

import { systemClock } from "../kernel/clock.ts";

/**
 * Allows scripts, styles, images and requests of the same origin only, no framing, and no caching.
 */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
};

/** Refusal of a request, with the status of its code. */
export class RefusedRequest extends Error {
  override readonly name = "RefusedRequest";
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status = STATUSES.get(code) ?? 500) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

const STATUSES: ReadonlyMap<string, number> = new Map(
  Object.entries({
    400: "invalid_request not_json",
    401: "unauthorized",
    403: "foreign_host foreign_origin content_off action_off",
    404: "not_found unknown_run unknown_agent unknown_step",
    405: "not_allowed",
    409:
      "run_ended run_active run_fenced already_resumed invalid_answer invalid_paused_run " +
      "invalid_signature invalid_state key_used content_redacted not_led no_roles",
    413: "too_large",
    422: "unsupported_version invalid_journal",
    503: "store_failed too_many_feeds",
  }).flatMap(([status, codes]) => codes.split(" ").map((code) => [code, Number(status)] as const)),
);

/** Compression of shorter bodies saves hardly anything. */
const MIN_COMPRESSED_BYTES = 1_024;
const compressed = promisify(gzip);

/**
 * Sends a value as JSON. If the body of the request is still arriving, the reply is sent at once,
 * and the rest of the body is drained. The connection is closed if the body exceeds the bounds.
 */
export async function sendJson(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  value: unknown,
): Promise<void> {
  const body = Buffer.from(JSON.stringify(value));
  const isShort = body.length < MIN_COMPRESSED_BYTES || !isGzipAccepted(request);
  const bytes = isShort ? body : await compressed(body, { level: 1 });
  if (response.destroyed) return;
  response.writeHead(status, {
    ...SECURITY_HEADERS,
    "content-type": "application/json; charset=utf-8",
    "content-length": bytes.length,
    vary: "accept-encoding",
    ...(isShort ? {} : { "content-encoding": "gzip" }),
  });
  if (request.complete) return void response.end(bytes);
  response.write(bytes);
  await drain(request);
  response.end(() => {
    if (!request.complete) request.destroy();
  });
}

/** Bounds of a drained body. */
const MAX_DRAINED_BYTES = 16_000_000;
const MAX_DRAINED_MS = 5_000;

/**
 * Reads and drops the rest of a body, within bounds. The kernel resets a connection that is closed
 * with unread data, and the client loses the reply.
 */
async function drain(request: IncomingMessage): Promise<void> {
  await new Promise<void>((resolve) => {
    let bytes = 0;
    const stopTimer = systemClock.setTimer(MAX_DRAINED_MS, resolve);
    request.once("close", () => {
      stopTimer();
      resolve();
    });
    request.on("data", ({ length }: Buffer) => {
      bytes += length;
      if (bytes > MAX_DRAINED_BYTES) resolve();
    });
    request.resume();
  });
}

/** Sends the bytes of a file or a text. */
export function sendBytes(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  { type, bytes }: { readonly type: string; readonly bytes: Buffer },
): void {
  const headers = { ...SECURITY_HEADERS, "content-type": type, "content-length": bytes.length };
  response.writeHead(status, headers);
  response.end(request.method === "HEAD" ? undefined : bytes);
}

function isGzipAccepted({ headers }: IncomingMessage): boolean {
  const accepted = headers["accept-encoding"]?.toString().split(",") ?? [];
  return accepted.some(
    (encoding) => /^\s*gzip\s*(?:;|$)/.test(encoding) && !/;\s*q=0(?:\.0*)?\s*$/.test(encoding),
  );
}
