// Why spans did not arrive, in words.

import { messageOf } from "../../kernel/error.ts";

/** Spans that the endpoint did not take, or did not confirm. */
export interface Loss {
  readonly spans: number;
  /** True if the request timed out: the endpoint may have stored the spans. */
  readonly isUnconfirmed?: boolean;
  readonly reason: string;
  /** What a user can do about it. */
  readonly advice: string;
  /** The message of the exporter's error, as the SDK reports it a second time. */
  readonly sdkMessage?: string;
}

const CHECK_ENDPOINT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT), and that it takes OTLP over HTTP.";
const CHECK_LOAD =
  "It has more to do than it can. Sample (OTEL_TRACES_SAMPLER), or give it more to work with.";
const CHECK_SIZE =
  "A batch is too large for it. Send fewer spans at once (OTEL_BSP_MAX_EXPORT_BATCH_SIZE).";
const CHECK_ACCESS = "It wants to know who sends them. Check OTEL_EXPORTER_OTLP_HEADERS.";
const CHECK_QUEUE =
  "More spans ended at once than may wait. Sample (OTEL_TRACES_SAMPLER), or let more of them wait.";

const CHECK_TIMEOUT =
  "Check the address (OTEL_EXPORTER_OTLP_ENDPOINT), or allow more time (OTEL_EXPORTER_OTLP_TIMEOUT).";

const ADVICE_BY_STATUS: ReadonlyMap<unknown, string> = new Map([
  [401, CHECK_ACCESS],
  [403, CHECK_ACCESS],
  [413, CHECK_SIZE],
  [429, CHECK_LOAD],
  [503, CHECK_LOAD],
]);

/** The message of the exporter for each of these, when it has tried often enough. */
const SDK_BUSY = "Export failed with retryable status";
/** The message of the exporter for a request without an answer. */
const SDK_TIMEOUT = "Request timed out";
const GRPC_DEADLINE_EXCEEDED = 4;
const BUSY = "the endpoint is busy (status 429, 502, 503 or 504)";

/**
 * The endpoint, or the exporter in front of it, did not take them. A refused connection to a name with two addresses has a code and
 * no message; an answer with a status has it as its code, and the body beside it.
 */
export function notTaken(spans: number, error: unknown): Loss {
  if (!(error instanceof Error)) {
    const reason = error === undefined ? "the endpoint did not take them" : messageOf(error);
    return { spans, reason, advice: CHECK_ENDPOINT };
  }
  const code = "code" in error ? error.code : undefined;
  const message = error.message || (typeof code === "string" ? code : "");
  const report = message === "" ? {} : { sdkMessage: message };
  if (isTimeout(error))
    return { spans, reason: message, advice: CHECK_TIMEOUT, isUnconfirmed: true, ...report };
  if (error.message === SDK_BUSY) return { spans, reason: BUSY, advice: CHECK_LOAD, ...report };
  const reason =
    typeof code === "number"
      ? `status ${code}${inBrackets(error.message)}${pageOf(error)}`
      : message || error.name;
  return { spans, reason, advice: ADVICE_BY_STATUS.get(code) ?? CHECK_ENDPOINT, ...report };
}

/** True if the exporter, or our limit, stopped waiting for the answer to a request. */
export function isTimeout(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const isGrpcDeadline = "code" in error && error.code === GRPC_DEADLINE_EXCEEDED;
  return error.name === "TimeoutError" || error.message === SDK_TIMEOUT || isGrpcDeadline;
}

/** The endpoint took the batch, but not all that is in it. */
export function refused(spans: number, error: Error | undefined): Loss {
  const reason = `the endpoint refused them${inBrackets(error?.message ?? "")}`;
  return { spans, reason, advice: CHECK_ENDPOINT };
}

export function notQueued(waitingSpans: number): Loss {
  const reason = `${waitingSpans.toLocaleString("en")} spans were waiting`;
  return { spans: 1, reason, advice: CHECK_QUEUE };
}

export function afterShutdown(): Loss {
  const advice = "Shut tracing down when the last run has ended.";
  return { spans: 1, reason: "tracing was shut down before", advice };
}

/** What a processor was given and never handed to the exporter. */
export function neverExported(spans: number): Loss {
  const advice = "Give the processor the settings that it is made with.";
  return { spans, reason: "the processor of a queue dropped them", advice };
}

function inBrackets(words: string): string {
  return words === "" ? "" : ` (${words})`;
}

function pageOf(error: Error): string {
  const body = "data" in error ? error.data : undefined;
  return typeof body === "string" && isWebPage(body) ? ` with a web page, ${NO_OTLP}` : "";
}

/** What OTLP never answers. */
export function isWebPage(body: string): boolean {
  return body.trimStart().startsWith("<");
}

export const NO_OTLP = "so this does not look like an OTLP endpoint";
