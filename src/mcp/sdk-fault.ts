// Converts errors of the SDK to faults.

import {
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  extractWWWAuthenticateParams,
} from "@modelcontextprotocol/client";

import { getErrorMessage } from "../kernel/error.ts";
import { isRecord, omitUndefined } from "../kernel/json.ts";
import { collectCodes, McpFault, type AuthChallenge } from "./mcp-fault.ts";
import { findHeaderSecrets, redactValues } from "../kernel/redact-values.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";
import type { McpHttp } from "./mcp-options.ts";

/**
 * Marks the answer that the HTTP transport creates for a request whose stream ended without one.
 */
export const STREAM_LOST = "espalier_stream_lost";
/**
 * Marks the answer that the HTTP transport creates for a request whose real answer exceeds the
 * limit.
 */
export const ANSWER_TOO_LARGE = "espalier_answer_too_large";

/**
 * Returns the fault for the error of a sent request. `hasSession` is true for a session over HTTP.
 */
export function toFault(thrown: unknown, hasSession: boolean): McpFault {
  if (thrown instanceof McpFault) return thrown;
  if (thrown instanceof ProtocolError) {
    const reason = isRecord(thrown.data) ? thrown.data["reason"] : undefined;
    if (reason === ANSWER_TOO_LARGE) return new McpFault("too_large", thrown.message, thrown);
    return new McpFault(reason === STREAM_LOST ? "lost" : "answered", thrown.message, thrown);
  }
  if (thrown instanceof SdkHttpError) return createHttpFault(thrown, hasSession);
  if (thrown instanceof SdkError) return createSdkFault(thrown);
  const reason = describeSdkReason(thrown);
  const isUnsent = UNSENT.some((code) => collectCodes(thrown).includes(code));
  return new McpFault(isUnsent ? "not_taken" : "lost", reason, thrown);
}

/**
 * Returns a short description of an error with its cause, because the message of `fetch` alone
 * contains no reason.
 */
export function describeSdkReason(thrown: unknown): string {
  const message = getErrorMessage(thrown);
  const cause = thrown instanceof Error ? thrown.cause : undefined;
  if (cause === undefined) return message;
  const because = getErrorMessage(cause);
  const words = because === "" ? collectCodes(cause).join(", ") : because;
  return words === "" || message.includes(words) ? message : `${message}: ${words}`;
}

/** Error codes of connections that were never established. */
const UNSENT = [
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
];

/** 404: the server does not know the session. 400: less exact servers mean the same. */
const SESSION_STATUSES: ReadonlySet<number> = new Set([400, 404]);

function createHttpFault(thrown: SdkHttpError, hasSession: boolean): McpFault {
  const message = `HTTP ${thrown.status}: ${thrown.message}`;
  if (hasSession && SESSION_STATUSES.has(thrown.status))
    return new McpFault("not_taken", message, thrown);
  return new McpFault(thrown.status >= 500 ? "lost" : "answered", message, thrown);
}

function createSdkFault(thrown: SdkError): McpFault {
  if (thrown.code === SdkErrorCode.ConnectionClosed)
    return new McpFault("lost", "the connection was closed", thrown);
  const isUnsent = thrown.code === SdkErrorCode.NotConnected;
  return new McpFault(isUnsent ? "not_taken" : "invalid", thrown.message, thrown);
}

// Parses the challenge of a server that refuses a request: HTTP 401, or 403 with a header. The
// texts are shortened, and secrets are removed, because a careless server repeats the request.

const UNAUTHORIZED = 401;
const FORBIDDEN = 403;
/** Maximum length of each part. */
const MAX_CHARACTERS = 500;

/**
 * Returns the challenge without values of the headers that were sent; `undefined` if the response
 * is not about an authorization.
 */
export function readChallenge(
  response: Response,
  sentHeaders: McpHttp["headers"],
): AuthChallenge | undefined {
  const { status, headers } = response;
  const header = headers.get("www-authenticate");
  if (status !== UNAUTHORIZED && (status !== FORBIDDEN || header === null)) return undefined;
  const params = extractWWWAuthenticateParams(response);
  const secrets = findHeaderSecrets(sentHeaders);
  const boundText = (text = ""): string | undefined =>
    text === "" ? undefined : redactSecrets(redactValues(text, secrets)).slice(0, MAX_CHARACTERS);
  return {
    status,
    ...omitUndefined({
      scheme: boundText(header?.trim().split(/[\s,]/)[0]),
      scope: boundText(params.scope),
      error: boundText(params.error),
      description: boundText(params.errorDescription),
      resourceMetadataUrl: boundText(params.resourceMetadataUrl?.href),
    }),
  };
}

/** Returns the challenge in words. `undefined` if it has no scheme. */
export function describeChallenge(challenge: AuthChallenge): string | undefined {
  const { scheme, scope, error, description, resourceMetadataUrl } = challenge;
  if (scheme === undefined) return undefined;
  const wanted = scope === undefined ? scheme : `${scheme} with scope ${JSON.stringify(scope)}`;
  const reasons = [error, description].filter((text) => text !== undefined);
  return [
    `it asks for ${wanted}`,
    ...reasons.map((text) => JSON.stringify(text)),
    ...(resourceMetadataUrl === undefined ? [] : [`resource metadata: ${resourceMetadataUrl}`]),
  ].join(", ");
}
