// Requests to Restate: runs are handed over as messages to the object that leads them, and workers are
// registered. Restate asks a worker at its address for the services that it has.

import type * as Clients from "@restatedev/restate-sdk-clients";
import { systemClock } from "../../kernel/clock.ts";
import { randomDigits } from "../../kernel/crypto.ts";
import { EspalierError, messageOf } from "../../kernel/error.ts";
import { loadingError } from "../../kernel/optional-package.ts";
import { type RunTicket, unknownRole } from "../engine.ts";
import { LEAD, serviceNameOf } from "./leading-object.ts";
import { isRecord, tryParseJson } from "../../kernel/json.ts";
import { findHeaderSecrets, quotesSecret, redactValues } from "../../kernel/redact-values.ts";

const PACKAGE = "@restatedev/restate-sdk-clients";
/** Under two seconds in all, if it is refused at once. */
const RETRY = { maxAttempts: 4, initialInterval: 250 } as const;
/** How long one attempt may take. */
const TIMEOUT_MS = 10_000;

type ClientSdk = Pick<typeof Clients, "connect" | "rpc">;

/** Where Restate takes runs, and the headers of each request. */
interface Ingress {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Hands a run over. Rejects with `unknown_role` or `engine_failed`. */
export async function handOver(
  { url: address, headers }: Ingress,
  ticket: RunTicket,
  atMs?: number,
): Promise<void> {
  const { connect, rpc } = await loadClientSdk();
  const url = address.replace(/\/+$/, "");
  const ingress = connect({ url, headers, retry: RETRY });
  const service = serviceNameOf(ticket.role, ticket.version);
  const delay = atMs === undefined ? 0 : Math.max(0, Math.ceil(atMs - systemClock.nowMs()));
  // The key is that of this one call: so it is tried again without being taken twice, and no other call is swallowed.
  const opts = { idempotencyKey: randomDigits(16), timeout: TIMEOUT_MS, delay };
  try {
    await ingress.send<undefined>({
      service,
      handler: LEAD,
      key: ticket.runId,
      parameter: undefined,
      opts: rpc.sendOpts<undefined>(opts),
    });
  } catch (cause) {
    const { status, responseText: reply } = replyIn(cause);
    if (status === 404 && reply.includes(`'${service}'`)) throw unknownRole(ticket);
    const got = status === undefined ? unreachable(cause) : reply;
    throw restateFailed({ url, expected: "to accept the run", status, got, cause, headers });
  }
}

async function loadClientSdk(): Promise<ClientSdk> {
  try {
    return await import("@restatedev/restate-sdk-clients");
  } catch (cause) {
    throw loadingError(PACKAGE, "no run can be sent to Restate", cause);
  }
}

/** What the server replied. The class of these errors may exist twice. */
function replyIn(cause: unknown): { readonly status?: number; readonly responseText: string } {
  if (!(cause instanceof Error && "status" in cause && "responseText" in cause))
    return { responseText: "" };
  return { status: Number(cause.status), responseText: String(cause.responseText) };
}

export interface Registration {
  readonly adminUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly workerUrl: string;
  /** The names under which runs are led at that address. */
  readonly services: readonly string[];
}

/** Restate asks the worker before it replies. */
const REGISTRATION_TIMEOUT_MS = 30_000;

/**
 * Has Restate know what is led at an address, in place of what it knew of it. Rejects with `engine_failed`, also if something else is led
 * there.
 */
export async function registerWorker(registration: Registration): Promise<void> {
  const { services } = registration;
  const { status, text } = await sendRegistration(registration);
  if (status >= 300) throw failed(registration, text, { status });
  const missing = services.filter((name) => !listServices(text).includes(name));
  if (missing.length === 0) return;
  const got = `a worker without ${missing.join(", ")} at that address`;
  throw failed(registration, got, { advice: "Check adminUrl and workerUrl." });
}

async function sendRegistration(
  registration: Registration,
): Promise<{ readonly status: number; readonly text: string }> {
  const { adminUrl, headers, workerUrl } = registration;
  try {
    const response = await fetch(`${adminUrl.replace(/\/+$/, "")}/deployments`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      // "force": with what this release says of it, and of this worker, though the address is known already.
      body: JSON.stringify({ uri: workerUrl, force: true }),
      signal: AbortSignal.timeout(REGISTRATION_TIMEOUT_MS),
    });
    return { status: response.status, text: await response.text() };
  } catch (cause) {
    throw failed(registration, unreachable(cause), { cause });
  }
}

function failed(
  { adminUrl, workerUrl, headers }: Registration,
  got: string,
  more: Pick<RestateFailure, "status" | "advice" | "cause">,
): EspalierError {
  const expected = `to register the worker at ${workerUrl}`;
  return restateFailed({ url: adminUrl, expected, got, headers, ...more });
}

/** The services that it found. */
function listServices(text: string): readonly unknown[] {
  // Undefined if something else than Restate replied.
  const reply = tryParseJson(text);
  const found = isRecord(reply) ? reply["services"] : undefined;
  if (!Array.isArray(found)) return [];
  return found.map((one: unknown) => (isRecord(one) ? one["name"] : undefined));
}

/** What could not be done over an address. */
interface RestateFailure {
  readonly url: string;
  /** What was expected of it: `to accept the run`. */
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
function restateFailed(failure: RestateFailure): EspalierError {
  const { url, expected, status, advice = adviceOn(status), headers } = failure;
  const secrets = findHeaderSecrets(headers);
  const got = redactValues(failure.got, secrets);
  const cause = quotesSecret(failure.cause, secrets) ? undefined : failure.cause;
  const reply = tryParseJson(got);
  const detail = isRecord(reply) && typeof reply["message"] === "string" ? reply["message"] : got;
  const words = detail.slice(0, QUOTED) || "an empty reply";
  const said = status === undefined ? words : `status ${status}: ${words}`;
  const message = `Expected Restate at ${url} ${expected}, got ${said}. ${advice}`;
  const data = { url, ...(status === undefined ? {} : { status }) };
  return new EspalierError({ code: "engine_failed", message, data, cause });
}

function adviceOn(status: number | undefined): string {
  if (status === undefined) return "Check that it is running and reachable, and try again.";
  if (status === 401 || status === 403) return "Set the credentials that it requires in headers.";
  if (status === 404) return "Check the address.";
  return "Check its message, and try again.";
}

/** Why a request had no reply: `fetch` says it in the cause, and of several attempts at once there is a code alone. */
function unreachable(thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.cause !== undefined ? thrown.cause : thrown;
  const code: unknown = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return messageOf(cause) || String(code);
}
