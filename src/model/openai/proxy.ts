// Which proxy leads to a server: by option, or by the environment as `curl` and Node read it.

import { mismatch } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import { defined } from "../../kernel/json.ts";

export interface Proxy {
  readonly url: string;
  /** The hosts to which the way is direct, as `NO_PROXY` has them. */
  readonly noProxy?: string;
}

const OPTION = "openai.proxy";

export function checkProxy(field: string, proxy: unknown): void {
  if (typeof proxy === "string") return checkProxyUrl(field, proxy);
  const advice = "Leave it out to go by HTTPS_PROXY and HTTP_PROXY.";
  if (proxy !== false) throw mismatch(field, "an http or https URL, or false", proxy, advice);
}

/**
 * The proxy on the way to the server at `url`. `option`: the address, false for none, or undefined to ask the environment.
 *
 * @throws EspalierError `invalid_option` for an address that cannot be used, and where Node cannot go through a proxy.
 */
export function proxyTo(
  url: string,
  option: string | false | undefined,
  { environment = process.env, canProxy = canNodeProxy } = {},
): Proxy | undefined {
  if (option === false) return undefined;
  const { field, proxy } =
    option === undefined ? proxyIn(environment, url) : { field: OPTION, proxy: { url: option } };
  if (proxy === undefined) return undefined;
  const isAble = canProxy();
  if (!isAble && isDirect(url, proxy.noProxy)) return undefined;
  checkProxyUrl(field, proxy.url);
  if (!isAble) throw cannotProxy(field);
  return proxy;
}

/** The agents of a Node that has this flag know `proxyEnv`. To list the flags takes milliseconds. */
function canNodeProxy(): boolean {
  return process.allowedNodeEnvironmentFlags.has("--use-env-proxy");
}

function proxyIn(
  environment: NodeJS.ProcessEnv,
  url: string,
): { readonly field: string; readonly proxy: Proxy | undefined } {
  const read = (name: string): string | undefined =>
    [environment[name.toLowerCase()], environment[name]]
      .find((value) => value !== undefined && value.trim() !== "")
      ?.trim();
  const field = url.startsWith("https:") ? "HTTPS_PROXY" : "HTTP_PROXY";
  const [proxy, noProxy] = [read(field), read("NO_PROXY")];
  if (proxy === undefined) return { field, proxy: undefined };
  return { field, proxy: { url: proxy, ...defined({ noProxy }) } };
}

/** Enough of what Node knows of `NO_PROXY` where Node knows nothing: names, endings of names, and `*`. */
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
  if (isHttpAddress(url) && isDecodable(url)) return;
  // A name and a password may stand before the host.
  const shown = url.replace(/^.*@/s, "…@");
  throw mismatch(
    field,
    "an http or https URL",
    shown,
    "Say how it is reached: http://, or https://. In a name or a password, % is written as %25.",
  );
}

/** True for an address of a server, or of a proxy. */
export function isHttpAddress(url: unknown): boolean {
  return typeof url === "string" && /^https?:\/\//.test(url) && URL.canParse(url);
}

/** Node decodes the name and the password. */
function isDecodable(url: string): boolean {
  const { username, password } = new URL(url);
  try {
    return decodeURIComponent(username + password) !== undefined;
  } catch {
    return false;
  }
}

function cannotProxy(field: string): EspalierError {
  const { version } = process;
  return new EspalierError({
    code: "invalid_option",
    message: `Expected Node 24.5, or 22.21, or later to go through a proxy (${field}), got ${version}. Use a newer Node, give a fetch that goes through the proxy as the option fetch, or say proxy: false to go directly.`,
    data: { field, expected: "Node 24.5, or 22.21, or later", got: version },
  });
}
