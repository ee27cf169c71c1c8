// Entry `espalier/restate`: runs are led by way of a Restate server, which hands each to one worker at a time, and to another one as soon
// as that is gone. Its packages are loaded when they are needed: a client needs one of them, a worker both.

import { isIP } from "node:net";

import { withoutSecrets } from "../../kernel/address.ts";
import { checkCount, checkFields, mismatch, type FieldChecks } from "../../kernel/check.ts";
import { defined, isPlainObject } from "../../kernel/json.ts";
import { isLoopback } from "../../kernel/loopback.ts";
import type { Engine } from "../engine.ts";
import { handOver } from "./restate-ingress.ts";
import { serveRestate, type RestateListener } from "./restate-worker.ts";

/** Where Restate is, and where it finds the workers. A client needs `ingressUrl` alone. */
export interface RestateEngineOptions {
  /** The address at which Restate takes requests, its ingress: `http://127.0.0.1:8080`, say. */
  readonly ingressUrl: string;
  /**
   * The address of Restate's admin API: `http://127.0.0.1:9070`, say. A worker registers with it when it begins to serve, in place of what
   * was registered at its address. Default: it is registered by other means.
   */
  readonly adminUrl?: string;
  /** Headers of each request to `ingressUrl` and `adminUrl`, such as the `authorization` of a proxy before them. No error contains their values. Default: none. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Where a worker listens to Restate. Default `127.0.0.1`. Any host beyond this machine takes `identityKeys`. The connection is plain
   * HTTP/2: where it goes over a network that is not yours, put something before it that speaks TLS.
   */
  readonly host?: string;
  /** The port at which a worker listens. Default 9080; 0 for one that is free. */
  readonly port?: number;
  /**
   * The address under which Restate reaches the workers of these roles, in this version; what is registered at `adminUrl`. Several workers
   * share one, that of what spreads connections over them; two versions at a time have two. Default: `host` and `port`.
   */
  readonly workerUrl?: string;
  /**
   * The public keys of Restate's request identity, as it says them when it starts: `publickeyv1_…`. A worker refuses what is not signed with
   * one of them. Default: none, and anything that reaches the worker is taken for Restate.
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
 * An engine over a Restate server, for `RunClient` and `orchestrator.work`. Nothing is connected to before it is needed.
 *
 * @throws EspalierError `invalid_option`. `lead` and `serve` also reject with it if a package is not installed
 * (`@restatedev/restate-sdk-clients`; for `serve`, `@restatedev/restate-sdk`); `lead` with `unknown_role` if no worker that has the role in
 * this version was ever registered; both with `engine_failed` if Restate cannot be reached or refuses, or the port is taken.
 */
export function restateEngine(options: RestateEngineOptions): Engine {
  checkFields("options", options, CHECKS);
  if (options.ingressUrl === undefined) checkUrl("options.ingressUrl", undefined);
  const listener = listenerOf(options);
  const ingress = { url: options.ingressUrl, headers: { ...options.headers } };
  return {
    lead: (ticket, atMs) => handOver(ingress, ticket, atMs),
    serve: (executor) => serveRestate(executor, listener),
  };
}

function listenerOf(options: RestateEngineOptions): RestateListener {
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
  return { host, port, identityKeys, ...defined({ adminUrl, headers, workerUrl }) };
}

function checkUrl(field: string, value: unknown): void {
  const text = typeof value === "string" ? withoutSecrets(value) : value;
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
