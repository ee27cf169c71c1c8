// Classifies failures of servers for all adapters: by status, by the provider's error code, and by
// the message.

import { getErrorMessage, type ModelErrorCode } from "../kernel/error.ts";
import { omitUndefined, isRecord, type JsonObject } from "../kernel/json.ts";
import { ModelError } from "./model-error.ts";
import type { ReportedInput } from "./token-usage.ts";
import { readFields, readList, type Fields } from "./wire-json.ts";
import { hasSecret, redactCutValues, type KnownSecret } from "../kernel/redact-values.ts";

const MAX_QUOTE_LENGTH = 500;
/** Groq's code for a malformed call by the model. The next attempt may succeed. */
const MALFORMED_CALL = "tool_use_failed";

/** Progress of a call at its failure. */
export interface CallProgress {
  /** True if the model, or the head of a successful response, had begun to answer. */
  readonly isAnswering: boolean;
  readonly lostOutputTokens: number | undefined;
  /** The input that the provider has reported so far. */
  readonly lostInput: ReportedInput | undefined;
}

/** A failure with the description of its cause. */
interface Failure extends ModelFailureDetails {
  readonly code: ModelErrorCode;
  readonly got: string;
  /** Defaults to the advice for the code. */
  readonly advice?: string;
}

interface ModelFailureDetails {
  readonly data?: JsonObject;
  readonly retryAfterMs?: number | undefined;
  readonly lostOutputTokens?: number | undefined;
  readonly lostInput?: ReportedInput | undefined;
  readonly cause?: unknown;
}

/** Advice for each code, and for a reply that exceeds the cap. */
type AdviceTable = Readonly<Record<ModelErrorCode | "excess", string>>;
/** Advice that each adapter writes itself. */
type OwnAdvice = Omit<AdviceTable, keyof typeof COMMON_ADVICE>;

const COMMON_ADVICE = {
  model_rate_limited:
    "Wait, set limits on the model, raise retryPolicy.maxAttempts, or add a model with withFallback.",
  model_overloaded: "Wait and try again.",
  model_timeout: "Try again, or raise timeoutMs.",
  model_invalid_request:
    "Correct the request or the account: the same request will be refused again.",
  model_context_overflow: "Shorten the history, or set compaction on the role.",
} as const satisfies Partial<AdviceTable>;

/** Creates the failures that adapters share, with the advice of the adapter. */
export class AdapterFailures {
  readonly #advice: AdviceTable;

  constructor(own: OwnAdvice) {
    this.#advice = { ...COMMON_ADVICE, ...own };
  }

  failure({ code, got, advice = this.#advice[code], ...details }: Failure): ModelError {
    const quote = got.length > MAX_QUOTE_LENGTH ? `${got.slice(0, MAX_QUOTE_LENGTH)}…` : got;
    const end = /[.!?…]$/.test(quote) ? "" : ".";
    const message = `Expected a reply from the model, got ${quote}${end} ${advice}`;
    return createModelError({ code, message, ...details });
  }

  /** Creates the failure of a reply that did not end in time. */
  timeout(timeoutMs: number, lostOutputTokens: number | undefined): ModelError {
    const got = `no complete reply within ${timeoutMs} ms`;
    return this.failure({ code: "model_timeout", got, lostOutputTokens });
  }

  /** Creates the failure of a stream that ended, or broke, before the model had finished. */
  cutStream(lostOutputTokens: number | undefined): ModelError {
    const got = "a stream that ended before the model had finished";
    return this.failure({ code: "model_unavailable", got, lostOutputTokens });
  }

  /**
   * Creates the failure of a response that is not finished: its request ran it in the background.
   */
  unfinished(status: string, lostOutputTokens: number | undefined): ModelError {
    const got = `a response with the status ${status}`;
    const advice = "Leave background out of the request: its response has to be fetched later.";
    return this.failure({ code: "model_protocol_error", got, advice, lostOutputTokens });
  }

  /**
   * Creates the failure of a response that was cancelled at its server. Its text may be incomplete.
   */
  cancelled(lostOutputTokens: number | undefined): ModelError {
    const got = "a response that was cancelled at the server";
    const advice = "Run it again unless you cancelled it.";
    return this.failure({ code: "model_protocol_error", got, advice, lostOutputTokens });
  }

  /**
   * Creates the failure of a response that its server reports as failed. `error` is `undefined`
   * without a reason.
   */
  failed(error: unknown, lostOutputTokens: number | undefined): ModelError {
    const report = error ?? { message: "the response failed, without a reason" };
    return this.reported(report, lostOutputTokens);
  }

  /** Creates the failure of a reply that consists of a call in the provider's own form. */
  unsupportedCall(kind: string, lostOutputTokens: number | undefined): ModelError {
    const got = `only ${/^(a|mcp)/.test(kind) ? "an" : "a"} ${kind}, which is not supported`;
    const advice =
      "Leave the provider's own tools out of the request, or choose a model that calls functions.";
    return this.failure({ code: "model_protocol_error", got, advice, lostOutputTokens });
  }

  /** Creates the failure of a reply whose transport broke. */
  cutReply(cause: unknown, lostOutputTokens: number | undefined): ModelError {
    const got = `a reply that was cut (${getErrorMessage(cause)})`;
    return this.failure({ code: "model_unavailable", got, lostOutputTokens, cause });
  }

  /**
   * Creates the failure of a reply that is longer than its cap allows. The received part is
   * charged.
   */
  excess(got: string, lostOutputTokens: number): ModelError {
    const { excess: advice } = this.#advice;
    return this.failure({ code: "model_protocol_error", got, advice, lostOutputTokens });
  }

  /** Creates the failure of a reply that is nested too deeply for the parser. */
  tooDeep(lostOutputTokens: number | undefined): ModelError {
    const got = "a reply that is nested too deeply to be read";
    const advice = "Check the server: no valid reply is nested so deeply.";
    return this.failure({ code: "model_protocol_error", got, advice, lostOutputTokens });
  }

  /**
   * Creates the failure for an error that a server reports in an answer with a success status,
   * instead of a reply or during a reply.
   */
  reported(error: unknown, lostOutputTokens: number | undefined): ModelError {
    const report = isRecord(error) ? error : { message: error };
    const { status: statusField, statusCode, code: word, type, message: text } = report;
    const status = [statusField, statusCode, word]
      .map(Number)
      .find((code) => code >= 400 && code < 600);
    let message = "a report that is nested too deeply";
    try {
      message = typeof text === "string" ? text : JSON.stringify(error);
    } catch {
      // The error cannot be serialised.
    }
    return this.failure({
      code: classifyReport([word, type], status, message),
      got: `an error inside the reply: ${message}`,
      data: pickPlainData({ status, providerCode: word, providerType: type }),
      retryAfterMs: findStatedDelay(report, message),
      lostOutputTokens,
    });
  }
}

function createModelError({
  code,
  message,
  ...details
}: ModelFailureDetails & { readonly code: ModelErrorCode; readonly message: string }): ModelError {
  return new ModelError({ code, message, ...omitUndefined(details) });
}

/** Returns a copy of the error with changes. */
export function copyModelError(
  { code, message, data, retryAfterMs, lostOutputTokens, lostInput, cause }: ModelError,
  changes: ModelFailureDetails & { readonly message?: string },
): ModelError {
  const fields = { code, message, data, retryAfterMs, lostOutputTokens, lostInput, cause };
  return createModelError({ ...fields, ...changes });
}

/**
 * Returns the error with the input that its provider reported, which is charged also if there was
 * no output.
 */
export function addLostInput(error: ModelError, lostInput: ReportedInput | undefined): ModelError {
  if (lostInput === undefined || error.lostInput !== undefined) return error;
  return copyModelError(error, { lostInput, lostOutputTokens: error.lostOutputTokens ?? 0 });
}

/** Returns the meaning of a status. `word`: the provider's own code; `message`: its text. */
export function classifyRefusal(status: number, word: unknown, message: string): ModelErrorCode {
  // An exhausted quota has status 429 too, but waiting does not help.
  if (word === "insufficient_quota") return "model_invalid_request";
  if (word === MALFORMED_CALL) return "model_unavailable";
  if (classifyProviderCode(word) === "model_context_overflow") return "model_context_overflow";
  const code = classifyStatus(status);
  const isOverflow = code === "model_invalid_request" && findLimitKind(message) === "length";
  return isOverflow ? "model_context_overflow" : code;
}

/**
 * Returns the meaning of an error in an answer with a success status. `words`: the provider's own
 * codes, the most specific first.
 */
export function classifyReport(
  words: readonly unknown[],
  status: number | undefined,
  message: string,
): ModelErrorCode {
  const [named] = words.flatMap((word) => classifyProviderCode(word) ?? []);
  const code = named ?? (status === undefined ? undefined : classifyStatus(status));
  // LM Studio reports an overflow in a stream with a message and no code.
  const isVague = code === undefined || code === "model_invalid_request";
  const limit = findLimitKind(message);
  if (isVague && limit === "length") return "model_context_overflow";
  return code ?? (limit === "rate" ? "model_rate_limited" : "model_unavailable");
}

/** Returns the kind of limit that a message mentions: on the length of a request, or on a rate. */
function findLimitKind(message: string): "length" | "rate" | undefined {
  const isLong = LENGTH_PATTERN.test(message);
  if (RATE_PATTERN.test(message) || (isLong && TEMPORARY_PATTERN.test(message))) return "rate";
  return isLong ? "length" : undefined;
}

function classifyStatus(status: number): ModelErrorCode {
  if (status === 429) return "model_rate_limited";
  if (status === 503 || status === 529) return "model_overloaded";
  if (status >= 500) return "model_unavailable";
  if (status === 408) return "model_timeout";
  if (status === 401 || status === 403) return "model_unauthorized";
  return "model_invalid_request";
}

const CODES: ReadonlyMap<unknown, ModelErrorCode> = new Map([
  ["rate_limit_exceeded", "model_rate_limited"],
  ["rate_limit_error", "model_rate_limited"],
  ["ThrottlingException", "model_rate_limited"],
  ["throttlingException", "model_rate_limited"],
  ["overloaded_error", "model_overloaded"],
  ["server_overloaded", "model_overloaded"],
  ["authentication_error", "model_unauthorized"],
  ["permission_error", "model_unauthorized"],
  ["invalid_api_key", "model_unauthorized"],
  ["context_length_exceeded", "model_context_overflow"],
  ["context_window_exceeded", "model_context_overflow"],
  ["model_context_window_exceeded", "model_context_overflow"],
  ["request_too_large", "model_context_overflow"],
  ["too_many_prompt_tokens", "model_context_overflow"],
  ["exceed_context_size_error", "model_context_overflow"],
  [MALFORMED_CALL, "model_unavailable"],
  ["insufficient_quota", "model_invalid_request"],
]);
/** Codes of the Responses API for an invalid request: its prompt, its images, or its topic. */
const INVALID_REQUEST_CODE = /^invalid_|image|_policy(_violation)?$/;

function classifyProviderCode(word: unknown): ModelErrorCode | undefined {
  const isRefusal = typeof word === "string" && INVALID_REQUEST_CODE.test(word);
  return CODES.get(word) ?? (isRefusal ? "model_invalid_request" : undefined);
}

/** Messages of servers that have no code for a request that is too long. */
const LENGTH_PATTERN = new RegExp(
  [
    "(prompt|input|conversation|messages|context)[ _]((text|tokens|length)[ _])?((is|are)[ _])?too[ _]long",
    "context ?(length|window|size|limit)",
    "maximum context",
    "context_(length|window|size|limit)_exceeded",
    "(input|prompt) length",
    "(input|prompt|request) tokens? .{0,60}exceed",
    "(input|prompt)( \\([^)]{0,60}\\))? (exceeds|is longer than) (the )?(model's )?max",
    "(reduce|shorten) (the length of )?(the|your) ((input|chat) )?(messages|prompt|input)",
    "total length of (all )?(the )?messages is too long",
    "current length is .{0,60}while limit is",
    "longer than the maximum model length",
    "too[ _]many[ _]((prompt|input)[ _])?tokens",
    "exceeded model token limit",
    "max size: \\d+ tokens",
    "exceed max message tokens",
    "more than max tokens allowed",
    "`?inputs`? must have less than",
    "`?inputs`? tokens \\+ `?max_new_tokens`?",
  ].join("|"),
  "i",
);

/** Messages about a rate, which contain similar words, for example "too many tokens per minute". */
const RATE_PATTERN =
  /\bper[ -](second|min|minute|hour|day)\b|perminute|\brate[ _-]?limit|too many requests|thrott/i;
/**
 * Words for a temporary limit. A message with such words is not about the length of the request.
 */
const TEMPORARY_PATTERN = /\bwait\b|\b(try again|retry) (later|in|after)\b|\bquota/i;

/**
 * Returns the delay that the server requests. A date is relative to the server's own date, so that
 * clocks need not agree.
 */
export function readRetryAfterMs(headers: Pick<Headers, "get">): number | undefined {
  const milliseconds = Number.parseFloat(headers.get("retry-after-ms") ?? "");
  if (Number.isFinite(milliseconds)) return Math.max(0, milliseconds);
  const stated = headers.get("retry-after") ?? "";
  if (/^\s*\d+(\.\d+)?\s*$/.test(stated)) return Number(stated) * 1000;
  const waitMs = Date.parse(stated) - Date.parse(headers.get("date") ?? "");
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : undefined;
}

/**
 * Returns the delay in milliseconds that the body of a refusal states, or `undefined`. Google
 * states it as `RetryInfo` in the details, others in words.
 *
 * @example findStatedDelay({}, "Please try again in 6m0s.") // 360000
 */
export function findStatedDelay(report: unknown, message: string): number | undefined {
  for (const detail of readList(readFields(report)["details"])) {
    const { retryDelay } = readFields(detail);
    const stated = typeof retryDelay === "string" ? parseDuration(retryDelay) : undefined;
    if (stated !== undefined) return stated;
  }
  for (const { 0: words, index } of message.matchAll(DELAY_PATTERN)) {
    const from = index + words.length;
    const stated = parseDuration(message.slice(from, from + MAX_DURATION_LENGTH));
    if (stated !== undefined) return stated;
  }
  return undefined;
}

/** The words before a delay. */
const DELAY_PATTERN =
  /\b(?:(?:try again|retry|retrying)[ -](?:in|after)|wait(?: for)?|resets? in)[: ]\s*(?:(?:about|approximately|around|at least) )?/gi;
/** Characters of a duration in words. */
const MAX_DURATION_LENGTH = 60;

const UNITS_MS: readonly (readonly [RegExp, number])[] = [
  [/^(ms|milliseconds?)$/i, 1],
  [/^(s|secs?|seconds?)$/i, 1_000],
  [/^(m|mins?|minutes?)$/i, 60_000],
  [/^(h|hours?)$/i, 3_600_000],
  [/^(d|days?)$/i, 86_400_000],
];

/** Returns the milliseconds of a duration at the start of a text: "1.2s", "6m0s", "20 seconds". */
function parseDuration(text: string): number | undefined {
  const part = /(?:\s|,|and\b)*(\d+(?:\.\d+)?)\s*([a-z]+)/iy;
  let totalMs: number | undefined;
  for (let match = part.exec(text); match !== null; match = part.exec(text)) {
    const [, amount, word = ""] = match;
    const [, unitMs] = UNITS_MS.find(([unit]) => unit.test(word)) ?? [];
    if (unitMs === undefined) break;
    totalMs = (totalMs ?? 0) + Number(amount) * unitMs;
  }
  return totalMs === undefined ? undefined : Math.ceil(totalMs);
}

/** True for the error of a call stack that has overflowed. */
export function isStackOverflow(thrown: unknown): boolean {
  return thrown instanceof RangeError && /call stack/i.test(thrown.message);
}

/** Returns the fields with texts or numbers, as the data of an error. */
export function pickPlainData(fields: Fields): JsonObject {
  const data: Record<string, string | number> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "string" || typeof value === "number") data[name] = value;
  }
  return data;
}

// Removes secrets from errors of models: a server or a client may quote the request.

/** Returns the error without the secrets. An error that contained one loses its cause. */
export function redactModelError(error: ModelError, secrets: readonly KnownSecret[]): ModelError {
  if (secrets.length === 0) return error;
  const message = redactCutValues(error.message, secrets);
  if (message === error.message && !hasSecret(error, secrets)) return error;
  // A nested field that contains a secret is omitted.
  const fields = Object.entries(error.data).map(([name, value]) => {
    return [name, typeof value === "string" ? redactCutValues(value, secrets) : value] as const;
  });
  const data = Object.fromEntries(fields.filter(([, value]) => !hasSecret(value, secrets)));
  return copyModelError(error, { message, data, cause: undefined });
}

// Follows redirects within one origin, so that neither the key nor the prompt reaches another
// server.

const MAX_REDIRECTS = 5;
/** Redirects that keep the method and the body. */
const FOLLOWED_STATUSES: ReadonlySet<number> = new Set([307, 308]);
const REDIRECT_STATUSES: ReadonlySet<number> = new Set([301, 302, 303, ...FOLLOWED_STATUSES]);

/** A response that names another address. */
interface Redirect {
  readonly status: number;
  readonly location: string;
  /** The address that was requested. */
  readonly from: string;
  /** Redirects that were followed before. */
  readonly count: number;
}

/** True for the status of a redirect. */
export function isRedirect(status: number): boolean {
  return REDIRECT_STATUSES.has(status);
}

/**
 * Returns the address to which the request is sent instead.
 *
 * @throws ModelError `model_invalid_request` for another origin, for a redirect that changes the
 * request, or for the sixth redirect.
 */
export function followRedirect(
  { status, location, from, count }: Redirect,
  failures: AdapterFailures,
  option: string,
): URL {
  const { origin } = new URL(from);
  const to = URL.canParse(location, from) ? new URL(location, from) : undefined;
  if (to?.origin === origin && FOLLOWED_STATUSES.has(status) && count < MAX_REDIRECTS) return to;
  const target = to?.origin ?? "no address";
  throw failures.failure({
    code: "model_invalid_request",
    got: `a redirect (status ${status}) from ${origin} to ${target}`,
    advice: `${option}: only a 307 or 308 within one origin is followed, at most five times.`,
    data: { status, from: origin, to: target },
  });
}
