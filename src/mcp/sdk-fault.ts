// From what the SDK throws to a fault that says what it means.

import { ProtocolError, SdkError, SdkErrorCode, SdkHttpError } from "@modelcontextprotocol/client";

import { messageOf } from "../kernel/error.ts";
import { isRecord } from "../kernel/json.ts";
import { codesOf, McpFault } from "./mcp-fault.ts";

/** Marks the answer that the HTTP transport makes up for a request whose stream ended without one. */
export const STREAM_LOST = "espalier_stream_lost";
/** Marks the answer that the HTTP transport creates for a request whose real answer exceeds the limit. */
export const ANSWER_TOO_LARGE = "espalier_answer_too_large";

/** What the failure of a request that was sent means. `hasSession`: it was sent within a session over HTTP. */
export function faultOf(thrown: unknown, hasSession: boolean): McpFault {
  if (thrown instanceof McpFault) return thrown;
  if (thrown instanceof ProtocolError) {
    const reason = isRecord(thrown.data) ? thrown.data["reason"] : undefined;
    if (reason === ANSWER_TOO_LARGE) return new McpFault("too_large", thrown.message, thrown);
    return new McpFault(reason === STREAM_LOST ? "lost" : "answered", thrown.message, thrown);
  }
  if (thrown instanceof SdkHttpError) return httpFault(thrown, hasSession);
  if (thrown instanceof SdkError) return sdkFault(thrown);
  const reason = reasonOf(thrown);
  const isUnsent = UNSENT.some((code) => codesOf(thrown).includes(code));
  return new McpFault(isUnsent ? "not_taken" : "lost", reason, thrown);
}

/** A failure in a few words, with those of what caused it: `fetch` says no more than that it failed. */
export function reasonOf(thrown: unknown): string {
  const message = messageOf(thrown);
  const cause = thrown instanceof Error ? thrown.cause : undefined;
  if (cause === undefined) return message;
  const because = messageOf(cause);
  const words = because === "" ? codesOf(cause).join(", ") : because;
  return words === "" || message.includes(words) ? message : `${message}: ${words}`;
}

/** Codes of connections that never came about. */
const UNSENT = [
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
];

/** 404: the server does not know our session (any more). 400: the same from servers that are less exact. */
const SESSION_STATUSES: ReadonlySet<number> = new Set([400, 404]);

function httpFault(thrown: SdkHttpError, hasSession: boolean): McpFault {
  const message = `HTTP ${thrown.status}: ${thrown.message}`;
  if (hasSession && SESSION_STATUSES.has(thrown.status))
    return new McpFault("not_taken", message, thrown);
  return new McpFault(thrown.status >= 500 ? "lost" : "answered", message, thrown);
}

function sdkFault(thrown: SdkError): McpFault {
  if (thrown.code === SdkErrorCode.ConnectionClosed)
    return new McpFault("lost", "the connection was closed", thrown);
  const isUnsent = thrown.code === SdkErrorCode.NotConnected;
  return new McpFault(isUnsent ? "not_taken" : "invalid", thrown.message, thrown);
}
