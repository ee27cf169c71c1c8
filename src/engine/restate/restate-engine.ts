// Entry `espalier/restate`: an engine on a Restate server, which assigns each run to one worker,
// and to another worker if the first is lost. The npm packages are loaded on first use. A client
// needs one package, a worker needs both.

import { isIP } from "node:net";

import { redactAddress } from "../../kernel/redact-address.ts";
import {
  checkCount,
  checkFields,
  mismatch,
  type FieldChecks,
} from "../../kernel/argument-checks.ts";
import { omitUndefined, isPlainObject } from "../../kernel/json.ts";
import { isLoopback } from "../../kernel/loopback.ts";
import type { Engine } from "../engine.ts";
import { sendRun } from "./restate-ingress.ts";
import { serveRestate, type RestateListener } from "./restate-worker.ts";

/**
 * Options of `restateEngine`. A `RunClient` needs only `ingressUrl`.
 *
 * @example
 * ```ts
 * const ofClients = restateEngine({ ingressUrl: "http://127.0.0.1:8080" });
 * const ofWorkers = restateEngine({
 *   ingressUrl: "http://127.0.0.1:8080",
 *   adminUrl: "http://127.0.0.1:9070",
 *   port: 9080,
 * });
 * ```
 */
export interface RestateEngineOptions {
  /** URL of Restate's ingress, which accepts requests, such as `http://127.0.0.1:8080`. */
  readonly ingressUrl: string;
  /**
   * URL of Restate's admin API, such as `http://127.0.0.1:9070`. A worker registers there when it
   * starts, and replaces an earlier registration of its address.
   *
   * @default none: you register the worker yourself
   */
  readonly adminUrl?: string;
  /**
   * Headers of each request to `ingressUrl` and `adminUrl`. Error messages never contain their
   * values.
   *
   * @default {}
   * @example
   * ```ts
   * const engine = restateEngine({
   *   ingressUrl: "https://restate.example.com",
   *   headers: { authorization: `Bearer ${process.env["RESTATE_TOKEN"]}` },
   * });
   * ```
   */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Network address on which a worker listens for Restate. An address other than a loopback address
   * requires `identityKeys`. The connection is unencrypted HTTP/2: put a TLS proxy in front if the
   * network is not trusted.
   *
   * @default "127.0.0.1"
   */
  readonly host?: string;
  /**
   * Port on which a worker listens. 0 selects a free port.
   *
   * @default 9080
   */
  readonly port?: number;
  /**
   * URL at which Restate reaches the workers, registered with `adminUrl`. Workers with the same
   * roles and version share one URL, such as that of a load balancer. Each version needs its own
   * URL.
   *
   * @default built from `host` and `port`
   * @example
   * ```ts
   * const engine = restateEngine({
   *   ingressUrl: "http://restate:8080",
   *   adminUrl: "http://restate:9070",
   *   host: "0.0.0.0",
   *   workerUrl: "http://workers-v3:9080",
   *   identityKeys: [process.env["RESTATE_IDENTITY_KEY"] ?? ""],
   * });
   * ```
   */
  readonly workerUrl?: string;
  /**
   * Public keys of Restate's request identity, which Restate prints when it starts:
   * `publickeyv1_…`. A worker rejects requests that none of these keys has signed.
   *
   * @default none: every request is accepted
   */
  readonly identityKeys?: readonly string[];
}

const DEFAULT_HOST = "127.0.0.1";
const DEFAULT_PORT = 9080;
const EVERYWHERE = ["0.0.0.0", "::"];

const CHECKS: FieldChecks = {
  ingressUrl: checkUrl,
  adminUrl: checkUrl,
  headers: checkHeaders,
  host: checkHost,
  port: checkPort,
  workerUrl: checkUrl,
  identityKeys: checkIdentityKeys,
};

/**
 * Creates an engine on a Restate server, which assigns each run to one worker and moves it at once
 * when that worker is lost. Needs the npm package `@restatedev/restate-sdk-clients`, and for
 * workers `@restatedev/restate-sdk`. Connects when it is first needed.
 *
 * @throws EspalierError `invalid_argument` if an option is invalid.
 * @throws EspalierError `missing_package` from `enqueue` or `serve` if a package is not installed.
 * @throws EspalierError `engine_failed` from `enqueue` or `serve` if Restate is unreachable or
 * rejects the request, or the port is in use.
 * @throws EspalierError `unknown_role` from `enqueue` if no worker ever had the role in this
 * version.
 *
 * @example
 * ```ts
 * const engine = restateEngine({
 *   ingressUrl: "http://127.0.0.1:8080",
 *   adminUrl: "http://127.0.0.1:9070",
 * });
 * const worker = await orchestrator.startWorker(engine);
 * ```
 */
export function restateEngine(options: RestateEngineOptions): Engine {
  checkFields("options", options, CHECKS);
  if (options.ingressUrl === undefined) checkUrl("options.ingressUrl", undefined);
  const listener = createListener(options);
  const ingress = { url: options.ingressUrl, headers: { ...options.headers } };
  return {
    enqueue: (ticket, atMs) => sendRun(ingress, ticket, atMs),
    serve: (executor) => serveRestate(executor, listener),
  };
}

function createListener(options: RestateEngineOptions): RestateListener {
  const { host = DEFAULT_HOST, port = DEFAULT_PORT, identityKeys = [] } = options;
  if (!isLoopback(host) && identityKeys.length === 0) {
    const advice =
      "Set identityKeys to the public keys of Restate's request identity, or listen on 127.0.0.1. Without keys, anyone who reaches the port can start runs.";
    throw mismatch("options.host", "a loopback host", host, advice);
  }
  const { adminUrl, headers, workerUrl } = options;
  if (workerUrl !== undefined && adminUrl === undefined) {
    const advice = "Set adminUrl as well, or register the address yourself.";
    throw mismatch("options.workerUrl", "left out without adminUrl", workerUrl, advice);
  }
  if (adminUrl !== undefined && workerUrl === undefined && EVERYWHERE.includes(host)) {
    const advice = "Set the address under which Restate reaches the workers.";
    throw mismatch("options.workerUrl", "set when host is a wildcard address", workerUrl, advice);
  }
  return { host, port, identityKeys, ...omitUndefined({ adminUrl, headers, workerUrl }) };
}

function checkUrl(field: string, value: unknown): void {
  const text = typeof value === "string" ? redactAddress(value) : value;
  const url = typeof value === "string" ? URL.parse(value) : null;
  if ((url?.protocol === "http:" || url?.protocol === "https:") && text === value) return;
  const words = "a URL that begins with http:// or https://, without user, query and fragment";
  throw mismatch(field, words, text, "Put secrets into headers.");
}

function checkHeaders(field: string, value: unknown): void {
  const areTexts =
    isPlainObject(value) && Object.values(value).every((text) => typeof text === "string");
  if (!areTexts)
    throw mismatch(field, "an object of strings", value, "Remove headers without a value.");
}

function checkHost(field: string, value: unknown): void {
  const isHost =
    typeof value === "string" && (isIP(value) !== 0 || /^[a-z0-9][a-z0-9.-]*$/i.test(value));
  if (!isHost) throw mismatch(field, "an IP address or a host name", value, "Leave out the port.");
}

function checkPort(field: string, value: unknown): void {
  const advice = `Leave it out for the default, ${DEFAULT_PORT}.`;
  checkCount(field, value, advice);
  if (Number(value) > 65_535) throw mismatch(field, "at most 65535", value, advice);
}

function checkIdentityKeys(field: string, value: unknown): void {
  const areKeys =
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((key) => typeof key === "string" && /^publickeyv1_[1-9A-Za-z]+$/.test(key));
  if (areKeys) return;
  const advice = "Copy the key that Restate prints when it starts with a private key for requests.";
  throw mismatch(field, "an array of keys that begin with publickeyv1_", value, advice);
}
