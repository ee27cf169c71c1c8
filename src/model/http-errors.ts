// What the failures of servers mean, whichever adapter met them: by status, by the provider's own word, by what it says.

import type { ModelErrorCode } from "../kernel/error.ts";
import type { JsonObject } from "../kernel/json.ts";
import { ModelError } from "./model-error.ts";

const LONGEST_QUOTE = 500;
/** Groq's word for a call that the model wrote wrongly, as it may not the next time. */
const MODELS_FAULT = "tool_use_failed";

/** How far a call had come when it failed. */
export interface CallProgress {
  /** The model, or the head of a successful response, had begun to answer. */
  readonly isAnswering: boolean;
  readonly lostOutputTokens: number | undefined;
}

/** A failure in words: what came instead of a reply. */
export interface Failure extends FailureDetails {
  readonly code: ModelErrorCode;
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

/** The error of a failure. `usual`: what to do about each code, where nothing better is known. */
export function failureWith(
  usual: Readonly<Record<ModelErrorCode, string>>,
  { code, got, advice = usual[code], ...details }: Failure,
): ModelError {
  const quote = got.length > LONGEST_QUOTE ? `${got.slice(0, LONGEST_QUOTE)}…` : got;
  const end = /[.!?…]$/.test(quote) ? "" : ".";
  return modelError({
    code,
    message: `Expected a reply from the model, got ${quote}${end} ${advice}`,
    ...details,
  });
}

export function modelError(
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

/** What an answer with this status means. `word`: the provider's own code for it; `message`: what it says. */
export function codeOfRefusal(status: number, word: unknown, message: string): ModelErrorCode {
  // Out of quota comes as 429 too, but no waiting helps against an empty account.
  if (word === "insufficient_quota") return "model_refused_request";
  if (word === MODELS_FAULT) return "model_unavailable";
  if (codeOfWord(word) === "model_context_overflow") return "model_context_overflow";
  const code = codeOfStatus(status);
  return code === "model_refused_request" && saysTooLong(message) ? "model_context_overflow" : code;
}

/** What an error inside an answer means, which had begun well. `words`: the provider's own codes for it, the more exact one first. */
export function codeOfReport(
  words: readonly unknown[],
  status: number | undefined,
  message: string,
): ModelErrorCode {
  const [named] = words.flatMap((word) => codeOfWord(word) ?? []);
  const code = named ?? (status === undefined ? "model_unavailable" : codeOfStatus(status));
  return code === "model_refused_request" && saysTooLong(message) ? "model_context_overflow" : code;
}

/** The status in a provider's report of an error. */
export function statusIn(...values: readonly unknown[]): number | undefined {
  return values.map(Number).find((value) => value >= 400 && value < 600);
}

function codeOfStatus(status: number): ModelErrorCode {
  if (status === 429) return "model_rate_limited";
  if (status === 503 || status === 529) return "model_overloaded";
  if (status >= 500) return "model_unavailable";
  if (status === 408) return "model_timeout";
  if (status === 401 || status === 403) return "model_not_authorized";
  return "model_refused_request";
}

function codeOfWord(word: unknown): ModelErrorCode | undefined {
  switch (word) {
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
    case MODELS_FAULT:
      return "model_unavailable";
    case "invalid_request_error":
    case "insufficient_quota":
      return "model_refused_request";
    default:
      return typeof word === "string" && REFUSAL.test(word) ? "model_refused_request" : undefined;
  }
}

/** What is wrong with the request itself, in the words of Responses: its prompt, its images, what it is about. */
const REFUSAL = /^invalid_|image|_policy(_violation)?$/;

/** Most servers have no code for a request that is too long, and say it each in words of their own. */
const TOO_LONG =
  /prompt (is )?too long|(context|input)[ _]?(length|window|size|limit)|input token count .*exceeds|(reduce|shorten) (the length of )?(the|your) (messages|prompt|input)/i;

function saysTooLong(message: string): boolean {
  return TOO_LONG.test(message);
}

/** How long the server asks us to wait. A date is taken relative to the server's own, so that no clock has to agree with it. */
export function retryAfterMs(headers: Pick<Headers, "get">): number | undefined {
  const milliseconds = Number.parseFloat(headers.get("retry-after-ms") ?? "");
  if (Number.isFinite(milliseconds)) return Math.max(0, milliseconds);
  const asked = headers.get("retry-after") ?? "";
  if (/^\s*\d+(\.\d+)?\s*$/.test(asked)) return Number(asked) * 1000;
  const waitMs = Date.parse(asked) - Date.parse(headers.get("date") ?? "");
  return Number.isFinite(waitMs) ? Math.max(0, waitMs) : undefined;
}

/** The fields that are text or numbers: what an error can keep of a report. */
export function plainData(fields: Readonly<Record<string, unknown>>): JsonObject {
  const data: Record<string, string | number> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "string" || typeof value === "number") data[name] = value;
  }
  return data;
}
