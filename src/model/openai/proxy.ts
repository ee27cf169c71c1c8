// Finds the proxy for a server: by option, or by the environment, like `curl` and Node.

import { mismatch } from "../../kernel/argument-checks.ts";
import { EspalierError } from "../../kernel/error.ts";
import { omitUndefined } from "../../kernel/json.ts";

export interface Proxy {
  readonly url: string;
  /** Hosts with a direct connection, in the form of `NO_PROXY`. */
  readonly noProxy?: string;
}

export function checkProxy(field: string, proxy: unknown): void {
  if (typeof proxy === "string") return checkProxyUrl(field, proxy);
  const advice = "Leave it out to go by HTTPS_PROXY and HTTP_PROXY.";
  if (proxy !== false) throw mismatch(field, "an http or https URL, or false", proxy, advice);
}

/**
 * Returns the proxy for the server at `url`. `option`: its address, `false` for none, or
 * `undefined` to read the environment.
 *
 * @throws EspalierError `invalid_argument` for an invalid address, and if Node does not support
 * proxies.
 */
export function resolveProxy(
  url: string,
  option: string | false | undefined,
  // A Node with this flag supports `proxyEnv` in agents. Listing the flags takes milliseconds.
  {
    environment = process.env,
    canProxy = () => process.allowedNodeEnvironmentFlags.has("--use-env-proxy"),
  } = {},
): Proxy | undefined {
  if (option === false) return undefined;
  const read = (name: string): string | undefined =>
    [environment[name.toLowerCase()], environment[name]]
      .find((value) => value !== undefined && value.trim() !== "")
      ?.trim();
  const variable = url.startsWith("https:") ? "HTTPS_PROXY" : "HTTP_PROXY";
  const field = option === undefined ? variable : "openai.proxy";
  const address = option ?? read(variable);
  if (address === undefined) return undefined;
  const noProxy = option === undefined ? read("NO_PROXY") : undefined;
  const proxy: Proxy = { url: address, ...omitUndefined({ noProxy }) };
  const isAble = canProxy();
  if (!isAble && isDirect(url, proxy.noProxy)) return undefined;
  checkProxyUrl(field, proxy.url);
  if (isAble) return proxy;
  const { version } = process;
  throw new EspalierError({
    code: "invalid_argument",
    message: `Expected Node 24.5, or 22.21, or later to go through a proxy (${field}), got ${version}. Use a newer Node, set the option fetch to a fetch that uses the proxy, or set proxy: false to connect directly.`,
    data: { field, expected: "Node 24.5, or 22.21, or later", got: version },
  });
}

/**
 * A subset of Node's `NO_PROXY`, for versions without support: names, endings of names, and `*`.
 */
function isDirect(url: string, noProxy = ""): boolean {
  const { hostname, host } = new URL(url);
  const entries = noProxy.toLowerCase().split(/\s*,\s*/);
  return entries.some((entry) => {
    const ending = entry.replace(/^\*?\./, "");
    return (
      entry === "*" ||
      entry === host ||
      ending === hostname ||
      (ending !== entry && hostname.endsWith(`.${ending}`))
    );
  });
}

function checkProxyUrl(field: string, url: string): void {
  try {
    const { username, password } = new URL(url);
    decodeURIComponent(username + password); // Throws like Node.
    if (isHttpAddress(url)) return;
  } catch {
    // The address is invalid or cannot be decoded.
  }
  // The address may contain a name and a password.
  const shown = url.replace(/^.*@/s, "…@");
  throw mismatch(
    field,
    "an http or https URL",
    shown,
    "Add the scheme, http:// or https://. Write % as %25 in a name or a password.",
  );
}

/** True for an address of a server, or of a proxy. */
export function isHttpAddress(url: unknown): boolean {
  return typeof url === "string" && /^https?:\/\//.test(url) && URL.canParse(url);
}
