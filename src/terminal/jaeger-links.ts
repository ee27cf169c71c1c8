// URLs of pages of Jaeger. Pure: no request is sent, and a page may not exist.

import { redactAddress } from "../kernel/redact-address.ts";
import { checkFields, checkText, mismatch, type FieldChecks } from "../kernel/argument-checks.ts";
import { isRecord } from "../kernel/json.ts";

/** URLs of Jaeger pages. Created by `jaegerLinks`. */
export interface JaegerLinks {
  /**
   * Returns the URL of a trace. `traceId` is that of a result or an event.
   *
   * @throws EspalierError `invalid_argument` if `traceId` does not have 32 hexadecimal digits.
   */
  trace(traceId: string): string;
  /**
   * Returns the URL of a trace in which the spans of an agent and of all agents below it are
   * highlighted. Jaeger searches for text, so `lead/researcher#2` also finds `lead/researcher#20`.
   *
   * @throws EspalierError `invalid_argument` if `traceId` does not have 32 hexadecimal digits.
   * @throws EspalierError `invalid_argument` if `agentPath` is empty.
   */
  agent(traceId: string, agentPath: string): string;
  /**
   * Returns the URL of a trace in which failed spans are highlighted. The arrows beside the search
   * box of Jaeger go from one to the next.
   *
   * @throws EspalierError `invalid_argument` if `traceId` does not have 32 hexadecimal digits.
   */
  failures(traceId: string): string;
  /**
   * Returns the URL of a search for traces.
   *
   * @throws EspalierError `invalid_argument` if a field is invalid, or if `service` or
   * `operation` is empty.
   *
   * @example
   * ```ts
   * const url = jaegerLinks("http://localhost:16686").search({
   *   service: "survey",
   *   tags: { error: "true" },
   *   lookback: "2d",
   * });
   * ```
   */
  search(query: {
    /** `service.name` of the process that executed the run. */
    readonly service: string;
    /** Attributes that one span of the trace must have, all of them: `{ error: "true" }`. */
    readonly tags?: Readonly<Record<string, string>>;
    /** Name of the span, for example `invoke_agent researcher#2`. */
    readonly operation?: string;
    /**
     * Period to search, as a number with a unit: `30m`, `2d`.
     *
     * @default "1h"
     */
    readonly lookback?: string;
  }): string;
}

type JaegerSearch = Parameters<JaegerLinks["search"]>[0];

/** Search words. Older pages of Jaeger contain the first one, newer pages the second. */
const FAILED = "error=true status=error";
const TRACE_ID = /^[0-9a-f]{32}$/i;
const EXAMPLE = "Pass the address of its pages, for example http://localhost:16686.";

/**
 * Creates URLs of pages of the Jaeger at `baseUrl`. `baseUrl` may have a path, for example
 * `https://tools.example.org/jaeger`.
 *
 * @throws EspalierError `invalid_argument` if `baseUrl` is not an http or https URL, or has a
 * query, a fragment or a password.
 *
 * @example
 * ```ts
 * const links = jaegerLinks("http://localhost:16686");
 * console.log(links.failures(result.traceId));
 * ```
 */
export function jaegerLinks(baseUrl: string): JaegerLinks {
  const base = checkJaegerBase(baseUrl);
  const trace = (traceId: string): string => {
    if (typeof traceId !== "string" || !TRACE_ID.test(traceId))
      throw mismatch(
        "traceId",
        "32 hexadecimal digits",
        traceId,
        "Take it from an event or a result.",
      );
    return `${base}/trace/${traceId}`;
  };
  return Object.freeze({
    trace,
    agent: (traceId: string, agentPath: string) => {
      checkText("agentPath", agentPath);
      return buildSearchLink(trace(traceId), `espalier.agent.path=${agentPath}`);
    },
    failures: (traceId: string) => buildSearchLink(trace(traceId), FAILED),
    search: (query: JaegerSearch) => `${base}/search?${formatSearchQuery(query)}`,
  });
}

function buildSearchLink(page: string, text: string): string {
  return `${page}?uiFind=${encodeText(text)}`;
}

function formatSearchQuery(query: JaegerSearch): string {
  checkFields("search", query, CHECKS);
  checkText("search.service", query.service);
  const { service, tags = {}, operation, lookback = "1h" } = query;
  const known = Object.keys(tags).length === 0 ? undefined : JSON.stringify(tags);
  const fields = { service, operation, tags: known, lookback, limit: "20" };
  return Object.entries(fields)
    .flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${encodeText(value)}`]))
    .join("&");
}

const CHECKS: Readonly<Record<keyof JaegerSearch, FieldChecks[string]>> = {
  service: checkText,
  tags: checkTags,
  operation: checkText,
  lookback: (field, lookback) => {
    if (typeof lookback === "string" && LOOKBACK.test(lookback)) return;
    throw mismatch(
      field,
      "a number and its unit, for example 30m or 2d",
      lookback,
      "Write a number and its unit.",
    );
  },
};

function checkTags(field: string, tags: unknown): void {
  if (!isRecord(tags))
    throw mismatch(field, "an object of string values", tags, "Pass { name: value }.");
  const advice = "Pass a string: Jaeger compares text.";
  for (const [name, value] of Object.entries(tags))
    if (typeof value !== "string") throw mismatch(`${field}.${name}`, "text", value, advice);
}

const LOOKBACK = /^\d+(?:ms|us|[smhdw])$/;

/** Whatever a name holds, also half of a surrogate pair. */
function encodeText(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

function checkJaegerBase(baseUrl: string): string {
  const url = typeof baseUrl === "string" && URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  const expected = "an http or https URL without query, fragment and password";
  if (url === undefined || !isBase(url)) {
    // Messages never repeat a password, but show the other parts.
    const shown: unknown = typeof baseUrl === "string" ? redactAddress(baseUrl) : baseUrl;
    throw mismatch("baseUrl", expected, shown, EXAMPLE);
  }
  return `${url.origin}${url.pathname.replace(/(?<!\/)\/+$/, "")}`;
}

function isBase({ protocol, search, hash, username, password }: URL): boolean {
  const isWeb = protocol === "http:" || protocol === "https:";
  return isWeb && search + hash + username + password === "";
}
