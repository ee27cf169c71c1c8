import { EspalierError, messageOf } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import { findHeaderSecrets, quotesSecret, redactValues } from "../../kernel/redact-values.ts";

/** What could not be done over an address. */
export interface RestateFailure {
  readonly url: string;
  /** What was expected of it: `to take the run`. */
  readonly expected: string;
  /** Undefined: nothing answered. */
  readonly status?: number | undefined;
  /** What was said, or why nothing was. */
  readonly got: string;
  /** Default: what the status suggests. */
  readonly advice?: string;
  readonly cause?: unknown;
  /** The headers of the request, whose values the error does not contain. */
  readonly headers: Readonly<Record<string, string>>;
}

/** How much of a reply is quoted. */
const QUOTED = 300;

/** An `engine_failed` of an address at which Restate should be. */
export function restateFailed(failure: RestateFailure): EspalierError {
  const { url, expected, status, advice = adviceOn(status), headers } = failure;
  const secrets = findHeaderSecrets(headers);
  const got = redactValues(failure.got, secrets);
  const cause = quotesSecret(failure.cause, secrets) ? undefined : failure.cause;
  const reply = replyOf(got);
  const detail = isRecord(reply) && typeof reply["message"] === "string" ? reply["message"] : got;
  const words = detail.slice(0, QUOTED) || "an empty reply";
  const said = status === undefined ? words : `status ${status}: ${words}`;
  const message = `Expected Restate at ${url} ${expected}, got ${said}. ${advice}`;
  const data = { url, ...(status === undefined ? {} : { status }) };
  return new EspalierError({ code: "engine_failed", message, data, cause });
}

/** A reply of Restate: JSON. Undefined for what is none, since something else replied. */
export function replyOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function adviceOn(status: number | undefined): string {
  if (status === undefined) return "Check that it runs and can be reached, and try again.";
  if (status === 401 || status === 403) return "Give what it asks for in headers.";
  if (status === 404) return "Check the address.";
  return "Check what it says, and try again.";
}

/** Why a request had no reply: `fetch` says it in the cause, and of several attempts at once there is a code alone. */
export function unreachable(thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.cause !== undefined ? thrown.cause : thrown;
  const code: unknown = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return messageOf(cause) || String(code);
}
