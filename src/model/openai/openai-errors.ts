// Every way in which a call can fail, as a ModelError that says whether and when it may be tried again.

import { APIError } from "openai";

import { getErrorMessage, type EspalierError } from "../../kernel/error.ts";
import {
  AdapterFailures,
  classifyRefusal,
  createModelError,
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

/** What can fail over any adapter, in the words of this one. */
export const failures = new AdapterFailures({
  model_unavailable: "Try again. If it persists, check the network and the base URL.",
  model_unauthorized: "Check the API key (OPENAI_API_KEY or the option apiKey) and its rights.",
  model_protocol_error: WRONG_SERVER,
  model_invalid_reply: "Check the option fetch, if you gave one.",
  excess: "Check that the server respects the cap (openai.maxTokensField), or raise it.",
});

/** The failure of a call that was not aborted by its caller. */
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

/** No response came: what sent the request threw this. */
export function createUnreachedError(cause: unknown): ModelError {
  if (cause instanceof ModelError) return cause;
  const { name, code, cause: reason, statusCode, message } = readFields(cause);
  // A `fetch` says it in words, of its own or in what caused it.
  const said = [cause, reason].map(
    (one) => `${one instanceof Error ? one.name : ""} ${getErrorMessage(one)}`,
  );
  if (name === "AbortError" || said.some((text) => /timed? ?out/i.test(text)))
    return failures.failure({ code: "model_timeout", got: "no connection in time", cause });
  if (code === "ERR_PROXY_TUNNEL") {
    // The proxy asks for credentials, or refuses everyone: it will answer the same again.
    const isRefused = typeof statusCode === "number" && statusCode >= 400 && statusCode < 500;
    // Without a cause: some versions of Node name the proxy with its password.
    return failures.failure({
      code: isRefused ? "model_invalid_request" : "model_unavailable",
      got: `no way through the proxy (${String(message).replace(/\/\/\S*@/g, "//")})`,
      advice: "Check the proxy and its credentials (HTTPS_PROXY or the option proxy).",
    });
  }
  // What was tried at each address of a host has no message of its own.
  const causes: readonly unknown[] = cause instanceof AggregateError ? cause.errors : [cause];
  const got = `no connection (${causes.map(getErrorMessage).join("; ")})`;
  return failures.failure({ code: "model_unavailable", got, cause });
}

/** The server answered with something that is no reply. `advice`: default as for Chat Completions. */
export function createProtocolError(
  got: string,
  lostOutputTokens: number | undefined,
  advice = WRONG_SERVER,
): ModelError {
  return failures.failure({ code: "model_protocol_error", got, advice, lostOutputTokens });
}

/** A setting of a request has no field in the interface that it would go over. */
export function createUncarriedSettingError(error: EspalierError): ModelError {
  const { message, data } = error;
  return createModelError({ code: "model_invalid_request", message, data });
}

/**
 * The failure of a request in which arguments of the last reply were mended. Status 500 is how servers fail that cannot read them, and
 * the same request would fail again.
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

/** `instanceof` alone would leave the fields untyped. */
function isApiError(thrown: unknown): thrown is APIError {
  return thrown instanceof APIError;
}

/** Has no cause: all that the client's own error knows is in message and data, and its body may quote what we sent. */
function convertStatusError(error: APIError, api: OpenAiApi): ModelError {
  const { status = 0, code: word, type, message, headers, requestID } = error;
  // A model, or a deployment of one, that is not there is another matter, and a server says so.
  const isNowhere =
    status === 405 || (status === 404 && !/model|deployment/i.test(`${String(word)} ${message}`));
  const hasNone = api === "responses" && isNowhere;
  const code = hasNone ? "model_protocol_error" : classifyRefusal(status, word, message);
  const advice = hasNone
    ? 'The server at this address has no Responses API. Set api: "chat_completions", or correct the base URL.'
    : // Some models take tools, or anything at all, over Responses only.
      api === "chat_completions" && message.includes("v1/responses")
      ? 'Leave api out at OpenAI itself, set api: "responses" elsewhere, or set reasoning: { effort: "none" }.'
      : undefined;
  return failures.failure({
    code,
    got: `status ${message}`,
    ...(advice === undefined ? {} : { advice }),
    data: pickPlainData({ status, providerCode: word, providerType: type, requestId: requestID }),
    retryAfterMs: (headers && readRetryAfterMs(headers)) ?? findStatedDelay(error.error, message),
  });
}
