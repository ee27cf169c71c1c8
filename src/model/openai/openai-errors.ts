// Converts every failure of a call to a ModelError that states whether and when to retry.

import { APIError } from "openai";

import { getErrorMessage } from "../../kernel/error.ts";
import {
  AdapterFailures,
  classifyRefusal,
  pickPlainData,
  isStackOverflow,
  readRetryAfterMs,
  findStatedDelay,
  type CallProgress,
} from "../http-errors.ts";
import { ModelError } from "../model-error.ts";
import { UndecodableBody } from "./node-transport.ts";
import type { OpenAiApi } from "./answer-options.ts";
import { readFields } from "../wire-json.ts";

const WRONG_SERVER = "Check that the base URL belongs to a server with the Chat Completions API.";

/** The failures of all adapters, with the advice for this one. */
export const failures = new AdapterFailures({
  model_unavailable: "Try again. If it persists, check the network and the base URL.",
  model_unauthorized: "Check the API key (OPENAI_API_KEY or the option apiKey) and its rights.",
  model_protocol_error: WRONG_SERVER,
  model_invalid_reply: "Check the option fetch, if you gave one.",
  excess: "Check that the server respects the cap (openai.maxTokensField), or raise it.",
});

/** Returns the failure of a call that its caller did not abort. */
export function toOpenAiError(thrown: unknown, progress: CallProgress, api: OpenAiApi): ModelError {
  if (thrown instanceof ModelError) return thrown;
  const { lostOutputTokens } = progress;
  if (thrown instanceof UndecodableBody)
    return createProtocolError(thrown.message, lostOutputTokens);
  if (isApiError(thrown)) return convertStatusError(thrown, api);
  if (progress.isAnswering)
    return isStackOverflow(thrown)
      ? failures.tooDeep(lostOutputTokens)
      : failures.cutReply(thrown, lostOutputTokens);
  return failures.failure({
    code: "model_invalid_reply",
    got: `an error from the client: ${getErrorMessage(thrown)}`,
    cause: thrown,
  });
}

/** Returns the failure of a request without a response, for the error of its transport. */
export function createUnreachedError(cause: unknown): ModelError {
  if (cause instanceof ModelError) return cause;
  const { name, code, cause: reason, statusCode, message } = readFields(cause);
  // `fetch` reports a timeout in its message, or in the message of the cause.
  const messages = [cause, reason].map(
    (error) => `${error instanceof Error ? error.name : ""} ${getErrorMessage(error)}`,
  );
  if (name === "AbortError" || messages.some((text) => /timed? ?out/i.test(text)))
    return failures.failure({ code: "model_timeout", got: "no connection in time", cause });
  if (code === "ERR_PROXY_TUNNEL") {
    // The proxy requires credentials, or refuses everyone. A retry would not help.
    const isRefused = typeof statusCode === "number" && statusCode >= 400 && statusCode < 500;
    // Omits the cause: some versions of Node include the proxy's password.
    return failures.failure({
      code: isRefused ? "model_invalid_request" : "model_unavailable",
      got: `no way through the proxy (${String(message).replace(/\/\/\S*@/g, "//")})`,
      advice: "Check the proxy and its credentials (HTTPS_PROXY or the option proxy).",
    });
  }
  // The error for several addresses of a host has an empty message.
  const causes: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [cause];
  const got = `no connection (${causes.map(getErrorMessage).join("; ")})`;
  return failures.failure({ code: "model_unavailable", got, cause });
}

/** Returns the failure of an answer that is not a reply. `advice` defaults to Chat Completions. */
export function createProtocolError(
  got: string,
  lostOutputTokens: number | undefined,
  advice = WRONG_SERVER,
): ModelError {
  return failures.failure({ code: "model_protocol_error", got, advice, lostOutputTokens });
}

/**
 * Returns the failure of a request with repaired arguments of the last reply. Servers that cannot
 * parse them answer with status 500, and a retry would fail too.
 */
export function preventBlindRetry(error: ModelError): ModelError {
  if (error.data["status"] !== 500) return error;
  const { data, lostOutputTokens } = error;
  return failures.failure({
    code: "model_invalid_request",
    got: "status 500 to a request that continues after a call whose arguments were not a JSON object",
    advice: `They were sent as an object that contains the text of the model. ${error.message}`,
    data,
    lostOutputTokens,
  });
}

/** Narrows the type. `instanceof` alone would leave the fields untyped. */
function isApiError(thrown: unknown): thrown is APIError {
  return thrown instanceof APIError;
}

/**
 * Returns the failure for a status. Omits the cause: its facts are in message and data, and its
 * body may quote the request.
 */
function convertStatusError(error: APIError, api: OpenAiApi): ModelError {
  const { status = 0, code: word, type, message, headers, requestID } = error;
  // A missing model or deployment is another failure, which the server's message names.
  const isNowhere =
    status === 405 || (status === 404 && !/model|deployment/i.test(`${String(word)} ${message}`));
  const hasNone = api === "responses" && isNowhere;
  const code = hasNone ? "model_protocol_error" : classifyRefusal(status, word, message);
  // Some models accept tools, or any request, over Responses only.
  const needsResponses = api === "chat_completions" && message.includes("v1/responses");
  const advice = needsResponses
    ? 'Leave api out at OpenAI itself, set api: "responses" elsewhere, or set reasoning: { effort: "none" }.'
    : 'The server at this address has no Responses API. Set api: "chat_completions", or correct the base URL.';
  return failures.failure({
    code,
    got: `status ${message}`,
    ...(hasNone || needsResponses ? { advice } : {}),
    data: pickPlainData({ status, providerCode: word, providerType: type, requestId: requestID }),
    retryAfterMs: (headers && readRetryAfterMs(headers)) ?? findStatedDelay(error.error, message),
  });
}
