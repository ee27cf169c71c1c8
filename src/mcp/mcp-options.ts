// What `connectMcp` takes: how to reach a server, and what its tools become.

import type { AuthProvider, OAuthClientProvider } from "@modelcontextprotocol/client";

import {
  checkAmount,
  checkBoolean,
  checkCount,
  checkFields,
  checkKeys,
  checkList,
  checkMethods,
  checkName,
  checkText,
  defaultAdvice,
  misdefinition,
  type FieldChecks,
} from "../kernel/check.ts";
import { systemClock, type Clock } from "../kernel/clock.ts";
import { defined, isRecord, type JsonObject } from "../kernel/json.ts";
import { checkSpan } from "../tools/tool-settings.ts";
import type { ToolContext } from "../tools/tool-context.ts";

/** What `connectMcp` takes. */
export interface McpOptions {
  /** What the server is called in errors and, with `_` behind it, before the names of its tools: letters, digits, `_` and `-`. */
  readonly name: string;
  readonly transport: McpTransport;
  /** Goes before the name of each tool instead of `<name>_`; an empty text for none. */
  readonly prefix?: string;
  /** Which tools to take. Called once for each tool of a listing; what it throws is thrown. Default: all. */
  readonly filter?: (tool: McpTool) => boolean;
  /**
   * Which calls need an approval: all, none, those of tools that may destroy (`destructive`), or as the function says of one call. A
   * text is the reason that is shown. If the function throws, the call is refused. Default: as `toolDefaults` of the role say, or none. A tool may destroy unless its server says that it only reads or does not destroy; that is the server's word.
   */
  readonly needsApproval?:
    | boolean
    | "destructive"
    | ((
        tool: McpTool,
        input: JsonObject,
        context: ToolContext,
      ) => boolean | string | Promise<boolean | string>);
  /** How long one call may take, a reconnection included. Default 60,000. */
  readonly timeoutMs?: number;
  /** How long one attempt to connect, and one listing of tools, may take. Default 30,000. */
  readonly connectTimeoutMs?: number;
  /** What a call does that finds its server gone. */
  readonly reconnect?: {
    /** How often a call tries to reach the server again; 0: never, the first loss is the end. Default 3. */
    readonly maxAttempts?: number;
    /** How long it waits before the second attempt; twice as long before each further one. Default 500. */
    readonly delayMs?: number;
  };
  /**
   * Bounds each answer of the server, in bytes. Compressed answers count decompressed.
   *
   * Over HTTP the responses to one request count together. On the standing stream, each event counts by itself. Over stdio, each message
   * does.
   *
   * @default 10_485_760
   */
  readonly maxResponseBytes?: number;
  /**
   * Whether the server may ask the approver of the run for data in the middle of a call (elicitation): questions of kind `external`, with
   * `message` and `requestedSchema` as arguments. Default false: it is refused at once.
   */
  readonly elicitation?: boolean;
  /**
   * How often a server may ask for data in the middle of one call. Further requests are declined, with one warning.
   *
   * @default 50
   */
  readonly maxElicitationsPerCall?: number;
  /**
   * How many tools are taken from the list of the server. The tools after them are skipped, with one warning.
   *
   * @default 1_000
   */
  readonly maxTools?: number;
  /** Called when the server says that its tools have changed. Must not throw. `refresh()` reads them. */
  readonly onToolsChanged?: () => void;
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock;
}

/** How the server is reached. */
export type McpTransport = McpStdio | McpHttp;

/** A server that is started as a child process and spoken to over its standard input and output. */
export interface McpStdio {
  /** A server that is started as a process and spoken to over stdio. */
  readonly type: "stdio";
  /** The program, such as `npx`, or `process.execPath` for a script. Started without a shell. */
  readonly command: string;
  /** Arguments of the program. */
  readonly args?: readonly string[];
  /** Environment variables besides the few harmless ones that every server gets (`PATH`, `HOME`, …). Ours are not handed on. */
  readonly env?: Readonly<Record<string, string>>;
  /** Where it runs. Default: where we run. */
  readonly cwd?: string;
  /** Gets what the server writes to its standard error. Must not throw. Default: it is dropped. */
  readonly onStderr?: (text: string) => void;
}

/** A server that is reached over streamable HTTP. */
export interface McpHttp {
  /** A server over streamable HTTP. */
  readonly type: "http";
  /** Of the endpoint, with its path: `https://example.org/mcp`. */
  readonly url: string | URL;
  /**
   * Sent with every request to the origin of the URL: an `authorization`, for instance. A token of `auth` comes first. Errors do not
   * contain their values, except short values and those of harmless headers such as `user-agent`.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Gives tokens, and gets new ones where the server asks for them: an `OAuthClientProvider` or `AuthProvider` of the official client,
   * `@modelcontextprotocol/client`, such as its `ClientCredentialsProvider`. Default: none.
   */
  readonly auth?: AuthProvider | OAuthClientProvider;
  /** Makes the requests, those of `auth` too: for proxies. Default: the global `fetch`. */
  readonly fetch?: (url: string | URL, init?: RequestInit) => Promise<Response>;
}

/** A tool as its server describes it. */
export interface McpTool {
  /** As the server calls it, without prefix. */
  readonly name: string;
  /** What the server calls it for people. */
  readonly title?: string;
  /** What the server says about it. */
  readonly description?: string;
  /** What the server says about it. Hints, not guarantees: do not rely on them for a server that you do not trust. */
  readonly annotations: McpAnnotations;
}

/** What a server says about a tool. */
export interface McpAnnotations {
  /** It changes nothing. Default: false. */
  readonly readOnlyHint?: boolean;
  /** It may destroy something, not only add to it. Default: true. */
  readonly destructiveHint?: boolean;
  /** A second call with the same arguments changes nothing more. Default: false. */
  readonly idempotentHint?: boolean;
  /** It deals with the world outside. Default: true. */
  readonly openWorldHint?: boolean;
}

/** A tool of a server that cannot be used, and why. */
export interface SkippedMcpTool {
  /** As the server calls it. */
  readonly name: string;
  /** Why it was left out. */
  readonly reason: string;
}

type Reconnect = Required<NonNullable<McpOptions["reconnect"]>>;

/** The options with their defaults, checked. */
export interface McpSettings
  extends Required<Omit<McpOptions, "needsApproval" | "reconnect">>, Reconnect {
  readonly needsApproval: McpOptions["needsApproval"] | undefined;
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const PREFIX = /^[A-Za-z0-9_-]{0,64}$/;
const NAME_WORDS = "letters, digits, _ and -, at most 64";
const RECONNECT: Reconnect = { maxAttempts: 3, delayMs: 500 };
const DEFAULTS = {
  needsApproval: undefined,
  filter: () => true,
  timeoutMs: 60_000,
  connectTimeoutMs: 30_000,
  /** As the SDK bounds messages over stdio. */
  maxResponseBytes: 10 * 1024 * 1024,
  elicitation: false,
  maxElicitationsPerCall: 50,
  maxTools: 1_000,
  onToolsChanged: () => {},
  clock: systemClock,
};
/** How each option is checked that is given. */
const CHECKS: Readonly<Record<keyof McpOptions, FieldChecks[string]>> = {
  name: (field, name) => checkName(field, name, NAME, NAME_WORDS),
  transport: () => undefined, // Where it is copied.
  prefix: (field, prefix) => checkName(field, prefix, PREFIX, `${NAME_WORDS}, or ""`),
  filter: (field, filter) => checkMcpFunction(field, filter, "Leave it out for all tools."),
  needsApproval: checkApprovalOption,
  timeoutMs: withDefault(checkSpan, DEFAULTS.timeoutMs),
  connectTimeoutMs: withDefault(checkSpan, DEFAULTS.connectTimeoutMs),
  reconnect: () => undefined, // Where it is read.
  maxResponseBytes: withDefault(checkCount, DEFAULTS.maxResponseBytes),
  elicitation: (field, value) => checkBoolean(field, value),
  maxElicitationsPerCall: withDefault(checkCount, DEFAULTS.maxElicitationsPerCall),
  maxTools: withDefault(checkCount, DEFAULTS.maxTools),
  onToolsChanged: (field, listener) => checkMcpFunction(field, listener),
  clock: (field, clock) => checkMethods(field, clock, ["nowMs", "monotonicMs", "setTimer"]),
};
/** Checks the options and fills in the defaults. Throws `invalid_option` or `invalid_definition`. */
export function mcpSettings(options: McpOptions): McpSettings {
  checkFields("connectMcp", options, CHECKS);
  const { name, reconnect = {}, ...given } = options;
  CHECKS.name("connectMcp.name", name);
  checkFields("connectMcp.reconnect", reconnect, {
    maxAttempts: withDefault(checkCount, RECONNECT.maxAttempts),
    delayMs: withDefault(checkAmount, RECONNECT.delayMs),
  });
  const prefix = options.prefix ?? `${name}_`;
  CHECKS.prefix("connectMcp.prefix", prefix);
  const transport = copyTransport(options.transport);
  const settings = { ...DEFAULTS, ...defined(given), ...RECONNECT, ...defined(reconnect) };
  return Object.freeze({ ...settings, name, prefix, transport });
}

type NumberCheck = (field: string, value: unknown, advice: string) => void;

function withDefault(check: NumberCheck, value: number): FieldChecks[string] {
  return (field, given) => check(field, given, defaultAdvice(value));
}

function checkApprovalOption(field: string, value: unknown): void {
  if (typeof value === "boolean" || typeof value === "function" || value === "destructive") return;
  const expected = 'true, false, "destructive" or a function';
  throw misdefinition(field, expected, value, "Choose one.");
}

function checkMcpFunction(field: string, value: unknown, advice = "Leave it out for none."): void {
  if (value === undefined || typeof value === "function") return;
  throw misdefinition(field, "a function", value, advice);
}

/** Returns a checked copy, so that later changes to the caller's object have no effect. */
function copyTransport(given: McpTransport): McpTransport {
  const field = "connectMcp.transport";
  // eslint-disable-next-line typescript/no-unnecessary-condition -- Users without types hand us anything.
  if (given?.type === "stdio") {
    checkKeys(field, given, ["type", "command", "args", "env", "cwd", "onStderr"]);
    const { command, args = [], env = {}, cwd, onStderr } = given;
    checkText(`${field}.command`, command);
    checkList(`${field}.args`, args);
    for (const [index, part] of args.entries()) {
      if (typeof part === "string") continue;
      throw misdefinition(`${field}.args[${index}]`, "a string", part, "Convert it to a string.");
    }
    checkTextFields(`${field}.env`, env);
    if (cwd !== undefined) checkText(`${field}.cwd`, cwd);
    checkMcpFunction(`${field}.onStderr`, onStderr);
    return Object.freeze({ ...given, args: [...args], env: { ...env } });
  }
  // eslint-disable-next-line typescript/no-unnecessary-condition -- The same.
  if (given?.type !== "http") {
    const got = isRecord(given) ? given["type"] : given;
    const advice = 'Use "stdio" for a server that espalier starts, "http" for a server at a URL.';
    throw misdefinition(`${field}.type`, '"stdio" or "http"', got, advice);
  }
  checkKeys(field, given, ["type", "url", "headers", "auth", "fetch"]);
  const { url, headers = {}, auth, fetch } = given;
  const text: unknown = isRecord(url) ? url["href"] : url;
  const parsed = typeof text === "string" ? URL.parse(text) : null;
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    const advice = "Start it with http:// or https://.";
    throw misdefinition(`${field}.url`, "an http or https URL", text, advice);
  }
  checkTextFields(`${field}.headers`, headers);
  // As the SDK tells the two apart.
  const has = (name: string): boolean =>
    isRecord(auth) && typeof Reflect.get(auth, name) === "function";
  if (auth !== undefined && !has("token") && !(has("tokens") && has("clientInformation"))) {
    const expected = "an OAuthClientProvider or AuthProvider of @modelcontextprotocol/client";
    throw misdefinition(`${field}.auth`, expected, auth, "For a fixed token use headers.");
  }
  checkMcpFunction(`${field}.fetch`, fetch);
  return Object.freeze({ ...given, url: parsed, headers: { ...headers } });
}

function checkTextFields(field: string, value: object): void {
  checkKeys(field, value, Object.keys(value));
  for (const [key, text] of Object.entries(value)) {
    if (typeof text === "string") continue;
    throw misdefinition(
      `${field}.${key}`,
      "a string",
      text,
      "Convert it to a string, or leave it out.",
    );
  }
}
