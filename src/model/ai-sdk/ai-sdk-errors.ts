// Converts every failure of a call over the AI SDK to a ModelError that states whether and when to
// retry. Recognises errors of the AI SDK by their marks, so that none of its packages is loaded.
// Omits the parts of the request that they quote.

import { getErrorMessage, type ModelErrorCode } from "../../kernel/error.ts";
import { isRecord, tryParseJson } from "../../kernel/json.ts";
import {
  AdapterFailures,
  copyModelError,
  classifyRefusal,
  pickPlainData,
  isStackOverflow,
  readRetryAfterMs,
  findStatedDelay,
  addLostInput,
  type CallProgress,
} from "../http-errors.ts";
import { ModelError } from "../model-error.ts";
import { findLostTokens } from "./raw-events.ts";
import { findErrorInBody, readFields, isText, type Fields } from "../wire-json.ts";

/** The failures of all adapters, with the advice for this one. */
export const failures = new AdapterFailures({
  model_unavailable: "Try again. If it persists, check the network and the provider's base URL.",
  model_unauthorized: "Check the provider's API key and its rights.",
  model_protocol_error: "Check that the provider's base URL belongs to a compatible server.",
  model_invalid_reply: "Check the provider and its wrappers.",
  excess: "Check that the server respects the cap, or raise it.",
});

/** Message of `@ai-sdk/anthropic` if the first event is not JSON, or unknown. */
const BROKEN_EVENT = "Expected a normalized Anthropic stream error";

const SDK_MARK = Symbol.for("vercel.ai.error");
const API_CALL_MARK = Symbol.for("vercel.ai.error.AI_APICallError");

/** Returns the failure of a call that its caller did not abort. */
export function toSdkModelError(thrown: unknown, progress: CallProgress): ModelError {
  if (thrown instanceof ModelError) return thrown;
  const { cause } = readFields(thrown);
  // The body failed with this error, in sameOriginFetch.
  if (cause instanceof ModelError) return cause;
  const { lostOutputTokens } = progress;
  const got = getErrorMessage(thrown);
  const known = convertKnownError(thrown, lostOutputTokens);
  if (known !== undefined) return known;
  if (hasErrorName(thrown, "TimeoutError")) {
    return failures.failure({ code: "model_timeout", got, lostOutputTokens, cause: thrown });
  }
  if (isStackOverflow(thrown)) return failures.tooDeep(lostOutputTokens);
  if (progress.isAnswering) return failures.cutReply(thrown, lostOutputTokens);
  if (hasErrorName(thrown, "AbortError") || isNetworkError(thrown)) {
    const unreached = `no connection (${got})`;
    return failures.failure({ code: "model_unavailable", got: unreached, cause: thrown });
  }
  if (got.startsWith(BROKEN_EVENT)) {
    const unreadable = `an event that cannot be read (${got})`;
    return failures.failure({ code: "model_protocol_error", got: unreadable, cause: thrown });
  }
  const unexpected = `an error from the provider: ${got}`;
  return failures.failure({ code: "model_invalid_reply", got: unexpected, cause: thrown });
}

/**
 * Returns the failure if the provider requests more output than our request allows and no known
 * setting prevents that.
 */
export function createCapError(sentTokens: number, cap: number): ModelError {
  return failures.failure({
    code: "model_invalid_request",
    got: `a request by its provider for ${sentTokens} output tokens where ${cap} are allowed; it was broken off`,
    advice: "Leave caps and budgets out of providerOptions, or raise maxOutputTokens of the role.",
    data: { sentTokens, maxOutputTokens: cap },
    lostOutputTokens: 0,
  });
}

/**
 * Returns the failure of an answer in which its package found no event. The package passes on the
 * head of the answer, but not its body.
 */
export function createSilentAnswerError(contentType: string | undefined): ModelError {
  const type = contentType === undefined ? "" : ` of the type ${contentType}`;
  const got = `an answer${type} without an event`;
  const advice =
    "Try again. Unless the provider already uses it, pass sameOriginFetch of espalier/ai-sdk as its fetch: the error then quotes such an answer.";
  return failures.failure({ code: "model_unavailable", got, advice });
}

/**
 * Returns an error in the middle of a stream, in whatever form the provider reports it. `report` is
 * the error as the server sent it. A provider leaves out its details, which may state a delay.
 */
export function convertReportedError(
  error: unknown,
  lostOutputTokens: number | undefined,
  report: unknown,
): ModelError {
  const failure =
    convertKnownError(error, lostOutputTokens) ?? failures.reported(error, lostOutputTokens);
  return failure.retryAfterMs === undefined
    ? addRetryDelay(failure, findStatedDelay(report, ""))
    : failure;
}

/** Returns the failure with a delay before the next request. */
function addRetryDelay(failure: ModelError, retryAfterMs: number | undefined): ModelError {
  return retryAfterMs === undefined ? failure : copyModelError(failure, { retryAfterMs });
}

/** Returns the failure for an error of the AI SDK or of a decoder, or `undefined` for others. */
function convertKnownError(
  error: unknown,
  lostOutputTokens: number | undefined,
): ModelError | undefined {
  if (!isRecord(error)) return undefined;
  // The status alone gives the meaning of a refusal. Its body may be unreadable.
  const isRefusal = Number(error["statusCode"]) >= 400;
  const problem = isRefusal ? undefined : findDecodingProblem(error);
  if (problem !== undefined) {
    const got = `a body that is not in its encoding (${problem})`;
    return failures.failure({ code: "model_protocol_error", got, lostOutputTokens });
  }
  if (Reflect.get(error, API_CALL_MARK) === true)
    return convertApiCallError(error, lostOutputTokens);
  return Reflect.get(error, SDK_MARK) === true
    ? convertSdkError(error, lostOutputTokens)
    : undefined;
}

/**
 * Returns the failure of an HTTP request. Omits the cause, which contains the whole request. The
 * facts about the answer are in `message` and `data`.
 */
function convertApiCallError(error: Fields, lostOutputTokens: number | undefined): ModelError {
  const { statusCode: status, responseHeaders, responseBody } = error;
  if (typeof status !== "number") {
    const got = getErrorMessage(error);
    return failures.failure({ code: "model_unavailable", got, lostOutputTokens });
  }
  // The connection broke before the first part of the stream.
  if (status < 400 && isNetworkError(error["cause"])) return failures.cutStream(lostOutputTokens);
  const report = findSdkReport(error);
  // For a body that its provider does not know, the message is only the status in words.
  const ownMessage = getErrorMessage(error);
  const words = report === undefined ? responseBody : (readFields(report)["message"] ?? report);
  const message =
    isText(words) && !ownMessage.includes(words.trim())
      ? `${ownMessage}: ${words.trim()}`
      : ownMessage;
  if (status < 400) {
    if (report !== undefined) return failures.reported(report, lostOutputTokens);
    const got = `an answer that cannot be read: ${message}`;
    return failures.failure({ code: "model_protocol_error", got, lostOutputTokens });
  }
  const { code: providerCode, type: providerType } = readFields(report);
  if (/event-stream/i.test(String(readFields(responseHeaders)["content-type"]))) {
    // The stream begins with the error, or a refusal is sent as a stream. For the former a package
    // chooses the status itself, 500 by default.
    const lost = findLostTokens(isText(responseBody) ? tryParseJson(responseBody) : undefined);
    const known = status === 500 ? {} : { statusCode: status };
    const reported = { message, ...known, ...readFields(report) };
    const failure = failures.reported(reported, lost.lostOutputTokens);
    return addLostInput(addRetryDelay(failure, readRetryDelay(responseHeaders)), lost.lostInput);
  }
  return failures.failure({
    code: classifyRefusal(status, providerCode ?? providerType, message),
    got: `status ${status} ${message}`.trimEnd(),
    data: pickPlainData({ status, providerCode, providerType }),
    retryAfterMs: readRetryDelay(responseHeaders) ?? findStatedDelay(report, message),
    lostOutputTokens,
  });
}

function readRetryDelay(headers: unknown): number | undefined {
  const fields = readFields(headers);
  return readRetryAfterMs({ get: (name) => [fields[name]].find(isText) ?? null });
}

/** Returns the error in the body of an answer. `data` lacks fields unknown to the provider. */
function findSdkReport({ data, responseBody }: Fields): unknown {
  const parsed = isText(responseBody) ? tryParseJson(responseBody) : data;
  return findErrorInBody(parsed) ?? findErrorInBody(readFields(parsed)["response"]);
}

/** Codes by the name of the error, which identifies the cause. */
const SDK_CODES: ReadonlyMap<unknown, ModelErrorCode> = new Map([
  ["AI_LoadAPIKeyError", "model_unauthorized"],
  ["AI_JSONParseError", "model_protocol_error"],
  ["AI_TypeValidationError", "model_protocol_error"],
  ["AI_EmptyResponseBodyError", "model_protocol_error"],
  ["AI_NoContentGeneratedError", "model_protocol_error"],
  ["AI_InvalidResponseDataError", "model_protocol_error"],
]);

function convertSdkError(error: Fields, lostOutputTokens: number | undefined): ModelError {
  const { name, value } = error;
  // The provider did not recognise the event as an error.
  const report = findErrorInBody(value) ?? findErrorInBody(readFields(value)["response"]);
  if (report !== undefined) return failures.reported(report, lostOutputTokens);
  const code = isMissingEnd(error)
    ? "model_unavailable"
    : (SDK_CODES.get(name) ?? "model_invalid_request");
  return failures.failure({ code, got: getErrorMessage(error), lostOutputTokens });
}

/** Returns true for an error about the end of a stream, which did not come. */
export function isMissingEnd(error: unknown): boolean {
  return (
    hasErrorName(error, "AI_InvalidResponseDataError") && readFields(error)["data"] === undefined
  );
}

function hasErrorName(error: unknown, name: string): boolean {
  return isRecord(error) && error["name"] === name;
}

/** Codes of zlib for gzip and deflate, Brotli and zstd. A truncated body has other codes. */
const DECODING_CODES = /^(Z_DATA_ERROR$|ERR_(BROTLI|_ERROR_FORMAT)|ZSTD_error_)/;

/** Returns the message of the decoder that could not read a body, or `undefined`. */
function findDecodingProblem(error: unknown): string | undefined {
  if (!isRecord(error)) return undefined;
  const { code, cause } = error;
  const isDecoders = typeof code === "string" && DECODING_CODES.test(code);
  return isDecoders ? getErrorMessage(error) : findDecodingProblem(cause);
}

const NETWORK_CODES = /^(E[A-Z]+|UND_ERR_\w+)$/;

/**
 * Returns true for an error of `fetch` or of a socket, and for an error caused by such an error.
 */
export function isNetworkError(error: unknown): boolean {
  if (!isRecord(error)) return false;
  const { message, code, cause } = error;
  if (
    error instanceof TypeError &&
    /^(fetch failed|failed to fetch|terminated)$/i.test(String(message))
  )
    return true;
  return (typeof code === "string" && NETWORK_CODES.test(code)) || isNetworkError(cause);
}
