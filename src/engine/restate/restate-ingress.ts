// Requests to Restate: sends runs as messages to the objects that execute them, and registers
// workers. Restate asks a worker at its address for its services.

import type * as Clients from "@restatedev/restate-sdk-clients";
import { systemClock } from "../../kernel/clock.ts";
import { generateHexDigits } from "../../kernel/crypto.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { loadPackage } from "../../kernel/optional-package.ts";
import { type RunTicket, createUnknownRoleError } from "../engine.ts";
import { LEAD, createServiceName } from "./restate-object.ts";
import { isRecord, tryParseJson } from "../../kernel/json.ts";
import { findHeaderSecrets, hasSecret, redactValues } from "../../kernel/redact-values.ts";

/** Less than two seconds in total, if each attempt is refused at once. */
const RETRY = { maxAttempts: 4, initialInterval: 250 } as const;
/** Time limit of an attempt in milliseconds. */
const TIMEOUT_MS = 10_000;

type ClientSdk = Pick<typeof Clients, "connect" | "rpc">;

/** Ingress URL of Restate, and the headers of each request. */
interface Ingress {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Sends a run to Restate. Rejects with `unknown_role` or `engine_failed`. */
export async function sendRun(
  { url: address, headers }: Ingress,
  ticket: RunTicket,
  atMs?: number,
): Promise<void> {
  const { connect, rpc }: ClientSdk = await loadPackage(
    "@restatedev/restate-sdk-clients",
    "no run can be sent to Restate",
    () => import("@restatedev/restate-sdk-clients"),
  );
  const url = address.replace(/\/+$/, "");
  const ingress = connect({ url, headers, retry: RETRY });
  const service = createServiceName(ticket.role, ticket.version);
  const delay = atMs === undefined ? 0 : Math.max(0, Math.ceil(atMs - systemClock.nowMs()));
  // The idempotency key belongs to this call: a retry is delivered once, and no other call is
  // dropped.
  const opts = { idempotencyKey: generateHexDigits(16), timeout: TIMEOUT_MS, delay };
  try {
    await ingress.send<undefined>({
      service,
      handler: LEAD,
      key: ticket.runId,
      parameter: undefined,
      opts: rpc.sendOpts<undefined>(opts),
    });
  } catch (cause) {
    const { status, responseText: reply } = readReply(cause);
    if (status === 404 && reply.includes(`'${service}'`)) throw createUnknownRoleError(ticket);
    const got = status === undefined ? explainUnreachable(cause) : reply;
    throw createRestateError({ url, expected: "to accept the run", status, got, cause, headers });
  }
}

/**
 * Returns the server's reply to a failed request. Does not use `instanceof`: the error class may
 * exist twice.
 */
function readReply(cause: unknown): { readonly status?: number; readonly responseText: string } {
  if (!(cause instanceof Error && "status" in cause && "responseText" in cause))
    return { responseText: "" };
  return { status: Number(cause.status), responseText: String(cause.responseText) };
}

export interface Registration {
  readonly adminUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly workerUrl: string;
  /** Names of the services at the address. */
  readonly services: readonly string[];
}

/** Longer than a plain request: Restate asks the worker before it replies. */
const REGISTRATION_TIMEOUT_MS = 30_000;

/**
 * Registers the services at an address, in place of an earlier registration. Rejects with
 * `engine_failed`, also if the address serves something else.
 */
export async function registerWorker(registration: Registration): Promise<void> {
  const { services } = registration;
  const { status, text } = await sendRegistration(registration);
  if (status >= 300) throw createRegistrationError(registration, text, { status });
  const missing = services.filter((name) => !listServices(text).includes(name));
  if (missing.length === 0) return;
  const got = `a worker without ${missing.join(", ")} at that address`;
  throw createRegistrationError(registration, got, { advice: "Check adminUrl and workerUrl." });
}

async function sendRegistration(
  registration: Registration,
): Promise<{ readonly status: number; readonly text: string }> {
  const { adminUrl, headers, workerUrl } = registration;
  try {
    const response = await fetch(`${adminUrl.replace(/\/+$/, "")}/deployments`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      // "force" replaces the registration at the address, even if Restate already knows the
      // address.
      body: JSON.stringify({ uri: workerUrl, force: true }),
      signal: AbortSignal.timeout(REGISTRATION_TIMEOUT_MS),
    });
    return { status: response.status, text: await response.text() };
  } catch (cause) {
    throw createRegistrationError(registration, explainUnreachable(cause), { cause });
  }
}

function createRegistrationError(
  { adminUrl, workerUrl, headers }: Registration,
  got: string,
  more: Pick<RestateFailure, "status" | "advice" | "cause">,
): EspalierError {
  const expected = `to register the worker at ${workerUrl}`;
  return createRestateError({ url: adminUrl, expected, got, headers, ...more });
}

/** Returns the services that Restate found. */
function listServices(text: string): readonly unknown[] {
  // `undefined` if the reply is not from Restate.
  const reply = tryParseJson(text);
  const services = isRecord(reply) ? reply["services"] : undefined;
  if (!Array.isArray(services)) return [];
  return services.map((service: unknown) => (isRecord(service) ? service["name"] : undefined));
}

/** Failed request to an address of Restate. */
interface RestateFailure {
  readonly url: string;
  /** Expected action, such as `to accept the run`. */
  readonly expected: string;
  /** HTTP status. `undefined` without a response. */
  readonly status?: number | undefined;
  /** Body of the response, or the reason why it is missing. */
  readonly got: string;
  /** Remedy. By default derived from the status. */
  readonly advice?: string;
  readonly cause?: unknown;
  /** The headers of the request, whose values the error does not contain. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Maximum number of characters quoted from a reply. */
const QUOTED = 300;

/** Returns an `engine_failed` for an address at which Restate should be. */
function createRestateError(failure: RestateFailure): EspalierError {
  const { url, expected, status, advice = pickAdvice(status), headers } = failure;
  const secrets = findHeaderSecrets(headers);
  const got = redactValues(failure.got, secrets);
  const cause = hasSecret(failure.cause, secrets) ? undefined : failure.cause;
  const reply = tryParseJson(got);
  const detail = isRecord(reply) && typeof reply["message"] === "string" ? reply["message"] : got;
  const words = detail.slice(0, QUOTED) || "an empty reply";
  const received = status === undefined ? words : `status ${status}: ${words}`;
  const message = `Expected Restate at ${url} ${expected}, got ${received}. ${advice}`;
  const data = { url, ...(status === undefined ? {} : { status }) };
  return new EspalierError({ code: "engine_failed", message, data, cause });
}

function pickAdvice(status: number | undefined): string {
  if (status === undefined) return "Check that it is running and reachable, and try again.";
  if (status === 401 || status === 403) return "Set the credentials that it requires in headers.";
  if (status === 404) return "Check the address.";
  return "Check its message, and try again.";
}

/**
 * Returns why a request had no response. `fetch` has the reason in `cause`; several failed attempts
 * have only a code.
 */
function explainUnreachable(thrown: unknown): string {
  const cause = thrown instanceof Error && thrown.cause !== undefined ? thrown.cause : thrown;
  const code: unknown = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return getErrorMessage(cause) || String(code);
}
