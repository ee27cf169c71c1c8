// The options of `connectMcp`: the connection to the server, and the settings of its tools.

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
  adviseDefault,
  mismatch,
  type FieldChecks,
} from "../kernel/argument-checks.ts";
import { systemClock, type Clock } from "../kernel/clock.ts";
import { omitUndefined, isRecord, type JsonObject } from "../kernel/json.ts";
import { checkSpan } from "../tools/tool-settings.ts";
import type { ToolContext } from "../tools/tool-context.ts";

/** Options of `connectMcp`. */
export interface McpOptions {
  /**
   * Name of the server in errors and, followed by `_`, the prefix of its tools. 1 to 64 letters,
   * digits, `_` and `-`.
   */
  readonly name: string;
  /** Connection to the server: a child process over stdio, or a URL over streamable HTTP. */
  readonly transport: McpTransport;
  /**
   * Prefix of the tool names. `""` for none.
   *
   * @default the name of the server, followed by `_`
   */
  readonly prefix?: string;
  /**
   * Selects the tools to use. Called once for each tool of a listing; `connectMcp` and `refresh()`
   * throw the errors of the function.
   *
   * @default uses all tools
   *
   * @example
   * ```ts
   * const files = await connectMcp({
   *   name: "files",
   *   transport: { type: "stdio", command: "npx", args: ["-y", "my-file-server"] },
   *   filter: ({ annotations }) => annotations.readOnlyHint === true,
   * });
   * ```
   */
  readonly filter?: (tool: McpTool) => boolean;
  /**
   * Calls that need an approval: all, none, or those of tools that may destroy data
   * (`"destructive"`). A function decides for each call; a string that it returns is the reason for
   * the approver. If the function throws, the call is refused.
   *
   * A tool counts as destructive unless its server declares it read-only or not destructive. Do not
   * rely on that for a server that you do not trust.
   *
   * @default `toolDefaults` of the role, else none
   *
   * @example
   * ```ts
   * const shop = await connectMcp({
   *   name: "shop",
   *   transport: { type: "http", url: "https://shop.example/mcp" },
   *   needsApproval: (tool, input) => tool.name === "buy" && `Buy ${String(input["article"])}?`,
   * });
   * ```
   */
  readonly needsApproval?:
    | boolean
    | "destructive"
    | ((
        tool: McpTool,
        input: JsonObject,
        context: ToolContext,
      ) => boolean | string | Promise<boolean | string>);
  /**
   * Longest time of one call, in milliseconds, including a reconnection. It takes precedence over
   * `toolDefaults` of a role.
   *
   * @default 60_000
   */
  readonly timeoutMs?: number;
  /**
   * Longest time of one attempt to connect, and of one listing of tools, in milliseconds.
   *
   * @default 30_000
   */
  readonly connectTimeoutMs?: number;
  /**
   * Attempts of a call to reach a server that is gone.
   *
   * @default { maxAttempts: 3, delayMs: 500 }
   *
   * @example
   * ```ts
   * const patient = await connectMcp({
   *   name: "files",
   *   transport: { type: "http", url: "https://files.example/mcp" },
   *   reconnect: { maxAttempts: 6, delayMs: 1_000 },
   * });
   * ```
   */
  readonly reconnect?: {
    /**
     * Number of attempts. 0 disables reconnecting.
     *
     * @default 3
     */
    readonly maxAttempts?: number;
    /**
     * Wait before the second attempt, in milliseconds. It doubles before each further attempt.
     *
     * @default 500
     */
    readonly delayMs?: number;
  };
  /**
   * Largest answer of the server, in bytes. Compressed answers count decompressed.
   *
   * Over HTTP the responses to one request count together. On the standing stream, each event
   * counts by itself. Over stdio, each message does.
   *
   * @default 10_485_760
   */
  readonly maxResponseBytes?: number;
  /**
   * Whether the server may ask for data during a call (elicitation). The approver of the run
   * receives a question of kind `external`, with `message` and `requestedSchema` as arguments. If
   * `false`, requests are declined at once.
   *
   * @default false
   */
  readonly elicitation?: boolean;
  /**
   * Number of times that a server may ask for data during one call. Further requests are declined,
   * with one warning.
   *
   * @default 50
   */
  readonly maxElicitationsPerCall?: number;
  /**
   * Largest number of tools from the list of the server. Further tools are skipped, with one
   * warning.
   *
   * @default 1_000
   */
  readonly maxTools?: number;
  /**
   * Called when the server announces that its tools have changed. `refresh()` reads them. The
   * function must not throw.
   *
   * @example
   * ```ts
   * let isStale = false;
   * const files = await connectMcp({
   *   name: "files",
   *   transport: { type: "http", url: "https://files.example/mcp" },
   *   onToolsChanged: () => (isStale = true),
   * });
   * const tools = isStale ? await files.refresh() : files.tools;
   * ```
   */
  readonly onToolsChanged?: () => void;
  /**
   * Clock of the time limits.
   *
   * @default the clock of the machine
   */
  readonly clock?: Clock;
}

/**
 * Connection to an MCP server. `type` tells the kinds apart.
 *
 * @example
 * ```ts
 * const local: McpTransport = { type: "stdio", command: "npx", args: ["-y", "my-server"] };
 * const remote: McpTransport = { type: "http", url: "https://files.example/mcp" };
 * ```
 */
export type McpTransport = McpStdio | McpHttp;

/**
 * MCP server that runs as a child process and communicates over standard input and output.
 *
 * @example
 * ```ts
 * const transport: McpStdio = {
 *   type: "stdio",
 *   command: "npx",
 *   args: ["-y", "@modelcontextprotocol/server-filesystem", "."],
 *   env: { LOG_LEVEL: "warn" },
 *   onStderr: (text) => process.stderr.write(text),
 * };
 * ```
 */
export interface McpStdio {
  /** Type tag. */
  readonly type: "stdio";
  /** Program to start, without a shell, for example `npx` or `process.execPath`. */
  readonly command: string;
  /** Arguments of the program. */
  readonly args?: readonly string[];
  /**
   * Environment variables of the program. It also receives a few harmless ones such as `PATH` and
   * `HOME`, but no other variable of this process.
   */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Working directory of the program.
   *
   * @default the working directory of this process
   */
  readonly cwd?: string;
  /**
   * Receives the standard error of the program. The function must not throw.
   *
   * @default drops the text
   */
  readonly onStderr?: (text: string) => void;
}

/**
 * MCP server that is reached over streamable HTTP.
 *
 * @example
 * ```ts
 * const transport: McpHttp = {
 *   type: "http",
 *   url: "https://files.example/mcp",
 *   headers: { authorization: `Bearer ${process.env["FILES_TOKEN"]}` },
 * };
 * ```
 */
export interface McpHttp {
  /** Type tag. */
  readonly type: "http";
  /** URL of the endpoint with its path, for example `https://example.org/mcp`. */
  readonly url: string | URL;
  /**
   * Headers of every request to the origin of the URL, for example `authorization`. A token of
   * `auth` replaces that header.
   *
   * Errors do not contain their values, except short values and those of harmless headers such as
   * `user-agent`.
   */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * OAuth provider of the official client, `@modelcontextprotocol/client`. It supplies tokens, and
   * renews them when the server refuses one.
   *
   * @default none
   *
   * @example
   * ```ts
   * import { ClientCredentialsProvider } from "@modelcontextprotocol/client";
   *
   * const clientSecret = process.env["BOOKING_SECRET"] ?? "";
   * const auth = new ClientCredentialsProvider({ clientId: "booking-agent", clientSecret });
   * const transport: McpTransport = { type: "http", url: "https://booking.example/mcp", auth };
   * ```
   */
  readonly auth?: AuthProvider | OAuthClientProvider;
  /**
   * Sends the requests, including those of `auth`. Use it for a proxy.
   *
   * @default the global `fetch`
   */
  readonly fetch?: (url: string | URL, init?: RequestInit) => Promise<Response>;
}

/** Tool as its MCP server describes it. */
export interface McpTool {
  /** Name at the server, without the prefix. */
  readonly name: string;
  /** Name for people. */
  readonly title?: string;
  /** Description that the model reads. */
  readonly description?: string;
  /** Hints of the server about the effects of the tool. They are not guarantees. */
  readonly annotations: McpAnnotations;
}

/** Hints of a server about the effects of a tool. */
export interface McpAnnotations {
  /**
   * Whether the tool changes nothing.
   *
   * @default false
   */
  readonly readOnlyHint?: boolean;
  /**
   * Whether the tool may delete or overwrite data, and not only add to it.
   *
   * @default true
   */
  readonly destructiveHint?: boolean;
  /**
   * Whether a second call with the same arguments has no further effect.
   *
   * @default false
   */
  readonly idempotentHint?: boolean;
  /**
   * Whether the tool interacts with external systems.
   *
   * @default true
   */
  readonly openWorldHint?: boolean;
}

/** Listed tool that agents cannot use. */
export interface SkippedMcpTool {
  /** Name at the server. */
  readonly name: string;
  /** Reason in words. */
  readonly reason: string;
}

type Reconnect = Required<NonNullable<McpOptions["reconnect"]>>;

/** Checked options with their defaults. */
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
  /** The limit of the SDK for messages over stdio. */
  maxResponseBytes: 10 * 1024 * 1024,
  elicitation: false,
  maxElicitationsPerCall: 50,
  maxTools: 1_000,
  onToolsChanged: () => {},
  clock: systemClock,
};
/** Check of each option that is set. */
const CHECKS: Readonly<Record<keyof McpOptions, FieldChecks[string]>> = {
  name: (field, name) => checkName(field, name, NAME, NAME_WORDS),
  transport: () => undefined, // Checked when copied.
  prefix: (field, prefix) => checkName(field, prefix, PREFIX, `${NAME_WORDS}, or ""`),
  filter: (field, filter) => checkMcpFunction(field, filter, "Leave it out for all tools."),
  needsApproval: checkApprovalOption,
  timeoutMs: createDefaultedCheck(checkSpan, DEFAULTS.timeoutMs),
  connectTimeoutMs: createDefaultedCheck(checkSpan, DEFAULTS.connectTimeoutMs),
  reconnect: () => undefined, // Checked when read.
  maxResponseBytes: createDefaultedCheck(checkCount, DEFAULTS.maxResponseBytes),
  elicitation: (field, value) => checkBoolean(field, value),
  maxElicitationsPerCall: createDefaultedCheck(checkCount, DEFAULTS.maxElicitationsPerCall),
  maxTools: createDefaultedCheck(checkCount, DEFAULTS.maxTools),
  onToolsChanged: (field, listener) => checkMcpFunction(field, listener),
  clock: (field, clock) => checkMethods(field, clock, ["nowMs", "monotonicMs", "setTimer"]),
};
/**
 * Checks the options and fills in the defaults. Throws `invalid_argument`.
 */
export function resolveMcpSettings(options: McpOptions): McpSettings {
  checkFields("connectMcp", options, CHECKS);
  const { name, reconnect = {}, ...others } = options;
  CHECKS.name("connectMcp.name", name);
  checkFields("connectMcp.reconnect", reconnect, {
    maxAttempts: createDefaultedCheck(checkCount, RECONNECT.maxAttempts),
    delayMs: createDefaultedCheck(checkAmount, RECONNECT.delayMs),
  });
  const prefix = options.prefix ?? `${name}_`;
  CHECKS.prefix("connectMcp.prefix", prefix);
  const transport = copyTransport(options.transport);
  const settings = {
    ...DEFAULTS,
    ...omitUndefined(others),
    ...RECONNECT,
    ...omitUndefined(reconnect),
  };
  return Object.freeze({ ...settings, name, prefix, transport });
}

type NumberCheck = (field: string, value: unknown, advice: string) => void;

function createDefaultedCheck(check: NumberCheck, value: number): FieldChecks[string] {
  return (field, input) => check(field, input, adviseDefault(value));
}

function checkApprovalOption(field: string, value: unknown): void {
  if (typeof value === "boolean" || typeof value === "function" || value === "destructive") return;
  const expected = 'true, false, "destructive" or a function';
  throw mismatch(field, expected, value, "Choose one.");
}

function checkMcpFunction(field: string, value: unknown, advice = "Leave it out for none."): void {
  if (value === undefined || typeof value === "function") return;
  throw mismatch(field, "a function", value, advice);
}

/** Returns a checked copy, so that later changes to the caller's object have no effect. */
function copyTransport(transport: McpTransport): McpTransport {
  const field = "connectMcp.transport";
  // eslint-disable-next-line typescript/no-unnecessary-condition -- input from JavaScript
  if (transport?.type === "stdio") {
    checkKeys(field, transport, ["type", "command", "args", "env", "cwd", "onStderr"]);
    const { command, args = [], env = {}, cwd, onStderr } = transport;
    checkText(`${field}.command`, command);
    checkList(`${field}.args`, args);
    for (const [index, part] of args.entries()) {
      if (typeof part === "string") continue;
      throw mismatch(`${field}.args[${index}]`, "a string", part, "Convert it to a string.");
    }
    checkTextFields(`${field}.env`, env);
    if (cwd !== undefined) checkText(`${field}.cwd`, cwd);
    checkMcpFunction(`${field}.onStderr`, onStderr);
    return Object.freeze({ ...transport, args: [...args], env: { ...env } });
  }
  // eslint-disable-next-line typescript/no-unnecessary-condition -- input from JavaScript
  if (transport?.type !== "http") {
    const got = isRecord(transport) ? transport["type"] : transport;
    const advice = 'Use "stdio" for a server that espalier starts, "http" for a server at a URL.';
    throw mismatch(`${field}.type`, '"stdio" or "http"', got, advice);
  }
  checkKeys(field, transport, ["type", "url", "headers", "auth", "fetch"]);
  const { url, headers = {}, auth, fetch } = transport;
  const text: unknown = isRecord(url) ? url["href"] : url;
  const parsed = typeof text === "string" ? URL.parse(text) : null;
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    const advice = "Start it with http:// or https://.";
    throw mismatch(`${field}.url`, "an http or https URL", text, advice);
  }
  checkTextFields(`${field}.headers`, headers);
  // The SDK distinguishes the two in the same way.
  const has = (name: string): boolean =>
    isRecord(auth) && typeof Reflect.get(auth, name) === "function";
  if (auth !== undefined && !has("token") && !(has("tokens") && has("clientInformation"))) {
    const expected = "an OAuthClientProvider or AuthProvider of @modelcontextprotocol/client";
    throw mismatch(`${field}.auth`, expected, auth, "For a fixed token use headers.");
  }
  checkMcpFunction(`${field}.fetch`, fetch);
  return Object.freeze({ ...transport, url: parsed, headers: { ...headers } });
}

function checkTextFields(field: string, value: object): void {
  checkKeys(field, value, Object.keys(value));
  for (const [key, text] of Object.entries(value)) {
    if (typeof text === "string") continue;
    throw mismatch(`${field}.${key}`, "a string", text, "Convert it to a string, or leave it out.");
  }
}
