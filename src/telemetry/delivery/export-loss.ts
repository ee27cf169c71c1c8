// Reasons for which spans were lost, in words.

import { messageOf } from "../../kernel/error.ts";

/** Why spans were lost or not confirmed. */
export interface Loss {
  readonly reason: string;
  /** Remedy for the user. */
  readonly advice: string;
  /** True if the request timed out: the endpoint may have stored the spans. */
  readonly isUnconfirmed?: true;
  /** True if the exporter has retried already, so that the next batch would fail too. */
  readonly isFinal?: true;
}

const CHECK_ENDPOINT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT) and the headers (OTEL_EXPORTER_OTLP_HEADERS), and " +
  "that it takes OTLP over HTTP.";
const CHECK_LOAD =
  "It has more to do than it can. Sample (OTEL_TRACES_SAMPLER), or give it more to work with.";
const CHECK_TIMEOUT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT), or allow more time (OTEL_EXPORTER_OTLP_TIMEOUT).";

/** Messages of the OTLP exporter after its last retry, and for a request without an answer. */
const SDK_BUSY = "Export failed with retryable status";
const SDK_TIMEOUT = "Request timed out";
const GRPC_DEADLINE_EXCEEDED = 4;
const BUSY = "the endpoint is busy (status 429, 502, 503 or 504)";

export const QUEUE_FULL: Loss = {
  reason: "the queue of spans was full",
  advice:
    "Sample (OTEL_TRACES_SAMPLER), or let more spans wait (OTEL_BSP_MAX_QUEUE_SIZE or maxQueueSize).",
};
export const AFTER_SHUTDOWN: Loss = {
  reason: "tracing was shut down before",
  advice: "Shut tracing down when the last run has ended.",
};
export const NEVER_EXPORTED: Loss = {
  reason: "the batch processor dropped them",
  advice: "Create the batch processor with the settings that it is given.",
};

/** Returns why an exporter failed: a status is the code of its error, and the body is beside it. */
export function describeFailure(error: unknown): Loss {
  if (!(error instanceof Error)) {
    const reason = error === undefined ? "the endpoint did not take them" : messageOf(error);
    return { reason, advice: CHECK_ENDPOINT };
  }
  const code = "code" in error ? error.code : undefined;
  const isTimeout = error.name === "TimeoutError" || error.message === SDK_TIMEOUT;
  if (isTimeout || code === GRPC_DEADLINE_EXCEEDED)
    return { reason: error.message, advice: CHECK_TIMEOUT, isUnconfirmed: true };
  if (error.message === SDK_BUSY) return { reason: BUSY, advice: CHECK_LOAD, isFinal: true };
  // A refused connection to a name with two addresses has a code and no message.
  if (typeof code === "string")
    return { reason: error.message || code, advice: CHECK_ENDPOINT, isFinal: true };
  const reason =
    typeof code === "number"
      ? `status ${code}${inBrackets(error.message)}${pageOf(error)}`
      : error.message || error.name;
  return { reason, advice: CHECK_ENDPOINT };
}

/** Returns why an endpoint refused spans within a success. */
export function describeRefusal(error: Error | undefined): Loss {
  const reason = `the endpoint refused them${inBrackets(error?.message ?? "")}`;
  return { reason, advice: CHECK_ENDPOINT };
}

function inBrackets(words: string): string {
  return words === "" ? "" : ` (${words})`;
}

function pageOf(error: Error): string {
  const body = "data" in error ? error.data : undefined;
  return typeof body === "string" && isWebPage(body) ? ` with a web page, ${NO_OTLP}` : "";
}

/** Returns true for HTML, which no OTLP endpoint answers. */
export function isWebPage(body: string): boolean {
  return body.trimStart().startsWith("<");
}

export const NO_OTLP = "so this does not look like an OTLP endpoint";
