// Every way in which a call can fail, as a ModelError that says whether and when it may be tried again.

import { APIConnectionTimeoutError, APIError } from "openai";

import { messageOf, type ModelErrorCode } from "../../kernel/error.ts";
import { isRecord, type JsonObject } from "../../kernel/json.ts";
import { ModelError } from "../model-error.ts";

const LONGEST_QUOTE = 500;

const ADVICE: Readonly<Record<ModelErrorCode, string>> = {
  model_rate_limited: "Wait and try again, or lower the concurrency.",
  model_overloaded: "Wait and try again.",
  model_unavailable: "Try again; if it stays so, check the network and the base URL.",
  model_timeout: "Try again, or raise timeoutMs.",
  model_refused_request:
    "Correct the request or the account: the same request will be refused again.",
  model_not_authorized:
    "Check the API key (OPENAI_API_KEY or the option apiKey) and what it may use.",
  model_protocol_error: "Check that the base URL is that of a server that speaks Chat Completions.",
  model_context_overflow: "Shorten the history, or let the role compact it.",
  model_misbehaved: "Check the option fetch, if you gave one.",
};

/** How far a call had come when it failed. */
export interface CallProgress {
  /** The head of a successful response had arrived. */
  readonly isAnswering: boolean;
  readonly lostOutputTokens: number | undefined;
}

/** The failure of a call that was not aborted by its caller. */
export function toModelError(thrown: unknown, progress: CallProgress): ModelError {
  if (thrown instanceof ModelError) return thrown;
  const { lostOutputTokens } = progress;
  if (thrown instanceof APIConnectionTimeoutError) {
    return failure({
      code: "model_timeout",
      got: "no connection in time",
      lostOutputTokens,
      cause: thrown,
    });
  }
  if (isApiError(thrown)) {
    return thrown.status === undefined ? connectionError(thrown) : statusError(thrown);
  }
  if (progress.isAnswering) {
    const got = `a reply that was cut (${messageOf(thrown)})`;
    return failure({ code: "model_unavailable", got, lostOutputTokens, cause: thrown });
  }
  return failure({
    code: "model_misbehaved",
    got: `an error from the client: ${messageOf(thrown)}`,
    cause: thrown,
  });
}

/** The reply did not end in time. */
export function timeoutError(timeoutMs: number, lostOutputTokens: number | undefined): ModelError {
  return failure({
    code: "model_timeout",
    got: `no end of it within ${timeoutMs} ms`,
    lostOutputTokens,
  });
}

/** The stream ended, or broke, before the model had finished. */
export function cutStreamError(lostOutputTokens: number | undefined): ModelError {
  return failure({
    code: "model_unavailable",
    got: "a stream that ended before the model had finished",
    lostOutputTokens,
  });
}

/** The server answered with something that is no chat completion. */
export function protocolError(got: string, lostOutputTokens: number | undefined): ModelError {
  return failure({ code: "model_protocol_error", got, lostOutputTokens });
}

/** The server sent more than a reply with this cap can be; what came is paid for. */
export function excessError(got: string, lostOutputTokens: number): ModelError {
  const advice = "Check that the server keeps to the cap (openai.maxTokensField), or raise it.";
  return failure({ code: "model_protocol_error", got, advice, lostOutputTokens });
}

/** The server sent the request elsewhere: to another origin, in another form, or once too often. */
export function redirectError(status: number, from: string, to = "no address"): ModelError {
  return failure({
    code: "model_refused_request",
    got: `a redirect (status ${status}) from ${from} to ${to}`,
    advice:
      "Give the address where the server is as baseUrl: only a 307 or 308 within one origin is followed, at most five times.",
    data: { status, from, to },
  });
}

/** The server reported an error inside an answer that had begun well: an error object instead of, or in the middle of, a reply. */
export function reportedError(error: unknown, lostOutputTokens: number | undefined): ModelError {
  const report = isRecord(error) ? error : { message: error };
  const status = [report["status"], report["code"]]
    .map(Number)
    .find((value) => value >= 400 && value < 600);
  const code = codeOfName(report["code"]) ?? codeOfName(report["type"]);
  const message = typeof report["message"] === "string" ? report["message"] : JSON.stringify(error);
  return failure({
    code: code ?? (status === undefined ? "model_unavailable" : codeOfStatus(status)),
    got: `an error inside the reply: ${message}`,
    data: plainData({ status, providerCode: report["code"], providerType: report["type"] }),
    lostOutputTokens,
  });
}

/**
 * The failure of a request in which arguments of the last reply were mended. Status 500 is how servers fail that cannot read them, and
 * the same request would fail again.
 */
export function withoutBlindRetry(error: ModelError): ModelError {
  if (error.data["status"] !== 500) return error;
  const { data, lostOutputTokens } = error;
  return failure({
    code: "model_refused_request",
    got: "status 500 to a request that goes on after a call whose arguments were no JSON object",
    advice: `They were sent as one that holds what the model wrote. ${error.message}`,
    data,
    lostOutputTokens,
  });
}

/** The same error without `apiKey` in anything that it says: a server or a client may have quoted it. */
export function withoutKey(error: ModelError, apiKey: string): ModelError {
  const said = `${error.message} ${JSON.stringify(error.data)} ${messageOf(error.cause)}`;
  if (!said.includes(apiKey)) return error;
  const { code, retryAfterMs, lostOutputTokens } = error;
  return modelError({
    code,
    message: error.message.replaceAll(apiKey, "[API key]"),
    retryAfterMs,
    lostOutputTokens,
  });
}

interface Failure extends FailureDetails {
  readonly code: ModelErrorCode;
  /** What came instead of a reply. */
  readonly got: string;
  /** Default: that of the code. */
  readonly advice?: string;
}

interface FailureDetails {
  readonly data?: JsonObject;
  readonly retryAfterMs?: number | undefined;
  readonly lostOutputTokens?: number | undefined;
  readonly cause?: unknown;
}

function failure({ code, got, advice = ADVICE[code], ...details }: Failure): ModelError {
  const quote = got.length > LONGEST_QUOTE ? `${got.slice(0, LONGEST_QUOTE)}…` : got;
  const end = /[.!?…]$/.test(quote) ? "" : ".";
  return modelError({
    code,
    message: `Expected a reply from the model, got ${quote}${end} ${advice}`,
    ...details,
  });
}

function modelError(
  fields: FailureDetails & { readonly code: ModelErrorCode; readonly message: string },
): ModelError {
  const { code, message, data, retryAfterMs, lostOutputTokens, cause } = fields;
  return new ModelError({
    code,
    message,
    ...(data === undefined ? {} : { data }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(lostOutputTokens === undefined ? {} : { lostOutputTokens }),
    ...(cause === undefined ? {} : { cause }),
  });
}

/** `instanceof` alone would leave the fields untyped. */
function isApiError(thrown: unknown): thrown is APIError {
  return thrown instanceof APIError;
}

/** The client wraps what the transport threw in an error of its own that says less. */
function connectionError(error: APIError): ModelError {
  const { cause = error } = error;
  if (cause instanceof ModelError) return cause;
  return failure({ code: "model_unavailable", got: `no connection (${messageOf(cause)})`, cause });
}

/** Has no cause: all that the client's own error knows is in message and data, and its body may quote what we sent. */
function statusError({ status, code, type, message, headers, requestID }: APIError): ModelError {
  const base = codeOfStatus(status ?? 0);
  return failure({
    code: statusCode(code, base),
    got: `status ${message}`,
    data: plainData({ status, providerCode: code, providerType: type, requestId: requestID }),
    retryAfterMs: headers === undefined ? undefined : retryAfterMs(headers),
  });
}

function statusCode(code: unknown, base: ModelErrorCode): ModelErrorCode {
  // Out of quota comes as 429 too, but no waiting helps against an empty account.
  if (code === "insufficient_quota") return "model_refused_request";
  return code === "context_length_exceeded" ? "model_context_overflow" : base;
}

function codeOfStatus(status: number): ModelErrorCode {
  if (status === 429) return "model_rate_limited";
  if (status === 503 || status === 529) return "model_overloaded";
  if (status >= 500) return "model_unavailable";
  if (status === 408) return "model_timeout";
  if (status === 401 || status === 403) return "model_not_authorized";
  return "model_refused_request";
}

function codeOfName(name: unknown): ModelErrorCode | undefined {
  switch (name) {
    case "rate_limit_exceeded":
    case "rate_limit_error":
      return "model_rate_limited";
    case "overloaded_error":
    case "server_overloaded":
      return "model_overloaded";
    case "authentication_error":
    case "permission_error":
    case "invalid_api_key":
      return "model_not_authorized";
    case "context_length_exceeded":
      return "model_context_overflow";
    case "invalid_request_error":
    case "insufficient_quota":
      return "model_refused_request";
    default:
      return undefined;
  }
}

/** How long the server asks us to wait. A date is taken relative to the server's own, so that no clock has to agree with it. */
function retryAfterMs(headers: Headers): number | undefined {
  const milliseconds = Number.parseFloat(headers.get("retry-after-ms") ?? "");
  if (Number.isFinite(milliseconds)) return Math.max(0, milliseconds);
  const asked = headers.get("retry-after") ?? "";
  if (/^\s*\d+(\.\d+)?\s*$/.test(asked)) return Number(asked) * 1000;
  const waitMs = Date.parse(asked) - Date.parse(headers.get("date") ?? "");
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : undefined;
}

function plainData(fields: Readonly<Record<string, unknown>>): JsonObject {
  const data: Record<string, string | number> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "string" || typeof value === "number") data[name] = value;
  }
  return data;
}
