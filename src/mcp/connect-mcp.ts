// Entry `espalier/mcp`: the tools of MCP servers, over stdio and streamable HTTP. The official
// client is an optional package. It is loaded at the first connection, so that a program may import
// this entry without it.

import { EspalierError } from "../kernel/error.ts";
import { createLoadError } from "../kernel/optional-package.ts";
import { emitWarning } from "../kernel/warn-once.ts";
import type { FunctionTool } from "../tools/tool.ts";
import type { McpConnection, McpListing } from "./mcp-connection.ts";
import { collectCodes, isSizeExcess, McpFault } from "./mcp-fault.ts";
import { resolveMcpSettings, type McpOptions, type McpSettings } from "./mcp-options.ts";
import { createMcpToolset, type McpToolset } from "./mcp-toolset.ts";

export type {
  McpAnnotations,
  McpHttp,
  McpOptions,
  McpStdio,
  McpTool,
  McpTransport,
} from "./mcp-options.ts";

/** Connected MCP server. Its tools work until `close()`, across reconnections. */
export interface McpServer extends AsyncDisposable {
  /** Name of the server, as given to `connectMcp`. */
  readonly name: string;
  /** Tools of the last listing, for `tools` of a role. */
  readonly tools: readonly FunctionTool[];
  /**
   * Tools of the last listing that agents cannot use. Reasons are an invalid schema, a name that is
   * too long or not unique, or a tool that requires a task.
   *
   * @example
   * ```ts
   * await using server = await connectMcp({
   *   name: "files",
   *   transport: { type: "http", url: "https://files.example/mcp" },
   * });
   * for (const { name, reason } of server.skippedTools) console.warn(`${name}: ${reason}`);
   * ```
   */
  readonly skippedTools: readonly {
    /** Name of the tool at the server. */
    readonly name: string;
    /** Reason in words. */
    readonly reason: string;
  }[];
  /**
   * Text of the server for models. Add it to `instructions` of a role. `undefined` if the server
   * sends none.
   */
  readonly instructions: string | undefined;
  /**
   * Lists the tools again, and returns them. Roles that are already defined keep their tools.
   *
   * @throws EspalierError `mcp_unavailable`, `mcp_unauthorized` or `mcp_response_too_large`, as
   * `connectMcp`.
   */
  refresh(): Promise<readonly FunctionTool[]>;
  /**
   * Closes the connection, and ends the server if it is a child process. Calls in flight fail.
   * Never rejects.
   */
  close(): Promise<void>;
}

/**
 * Connects to an MCP server and converts its tools to tools for agents. The server runs, and keeps
 * this process alive, until it is closed.
 *
 * Needs the package `@modelcontextprotocol/client`. Makes one attempt to connect.
 *
 * @throws EspalierError `mcp_unavailable` if the server cannot be reached or does not answer in
 * time.
 * @throws EspalierError `mcp_unauthorized` if the server demands credentials or rejects them.
 * `data.challenge` contains its demand.
 * @throws EspalierError `mcp_response_too_large` if an answer exceeds `maxResponseBytes` or the
 * limits of one message.
 * @throws EspalierError `invalid_argument` if an option is invalid.
 * @throws EspalierError `missing_package` if the official client is not installed.
 *
 * @example
 * ```ts
 * await using server = await connectMcp({
 *   name: "files",
 *   transport: {
 *     type: "stdio",
 *     command: "npx",
 *     args: ["-y", "@modelcontextprotocol/server-filesystem", "."],
 *   },
 *   needsApproval: "destructive",
 * });
 * const { tools } = server;
 * const clerk = defineAgent({ name: "clerk", instructions: "Tidy the folder.", model, tools });
 * ```
 */
export async function connectMcp(options: McpOptions): Promise<McpServer> {
  const settings = resolveMcpSettings(options);
  const connection = await connect(settings);
  const close = (): Promise<void> => connection.close();
  let current: McpToolset;
  try {
    current = await loadToolset(settings, connection);
  } catch (cause) {
    await close();
    throw cause;
  }
  return Object.freeze({
    name: settings.name,
    get tools() {
      return current.tools;
    },
    get skippedTools() {
      return current.skipped;
    },
    get instructions() {
      return current.instructions;
    },
    refresh: async () => {
      current = await loadToolset(settings, connection);
      return current.tools;
    },
    close,
    [Symbol.asyncDispose]: close,
  });
}

const CLIENT_PACKAGE = "@modelcontextprotocol/client";
/** Loads the official client, and connects with it. */
async function connect(settings: McpSettings): Promise<McpConnection> {
  const { McpConnection } = await import("./mcp-connection.ts").catch((cause: unknown) => {
    throw createLoadError(CLIENT_PACKAGE, "no MCP server can be reached", cause);
  });
  try {
    return await McpConnection.open(settings);
  } catch (cause) {
    throw createUnavailableError(settings, cause);
  }
}

async function loadToolset(settings: McpSettings, connection: McpConnection): Promise<McpToolset> {
  let listed: McpListing;
  try {
    listed = await connection.list();
  } catch (cause) {
    throw createUnavailableError(settings, cause);
  }
  const toolset = await createMcpToolset(settings, connection, listed);
  const server = `MCP server ${JSON.stringify(settings.name)}`;
  for (const { name, reason } of toolset.skipped.slice(0, MAX_WARNINGS)) {
    const tool = `Tool ${JSON.stringify(name.slice(0, MAX_WARNED_CHARACTERS))} of ${server}`;
    const advice = "Exclude it with filter to silence this warning.";
    const why = reason.slice(0, MAX_WARNED_CHARACTERS);
    emitWarning(`${tool} is skipped: ${why} ${advice}`);
  }
  const more = toolset.skipped.length - MAX_WARNINGS;
  if (more > 0)
    emitWarning(
      `${more} more tools of ${server} are skipped. Read skippedTools of the server for the reasons.`,
    );
  return toolset;
}

/**
 * Bounds of the warnings. A server may list any number of unusable tools, with names of any length.
 */
const MAX_WARNINGS = 20;
const MAX_WARNED_CHARACTERS = 500;

function createUnavailableError({ name, transport }: McpSettings, cause: unknown): unknown {
  if (!(cause instanceof McpFault)) return cause;
  const { kind, message, detail, challenge } = cause;
  const server = `the MCP server ${JSON.stringify(name)}`;
  const data = { server: name, reason: kind };
  if (kind === "too_large") {
    const advice = isSizeExcess(cause)
      ? "Raise maxResponseBytes if you trust the server."
      : "Have the server send less at once, for example in pages or as text.";
    const words = `Cannot use ${server}: ${message}. ${advice}`;
    return new EspalierError({ code: "mcp_response_too_large", message: words, data, cause });
  }
  const got = `${message}${detail === undefined ? "" : ` (${detail})`}`;
  if (kind === "unauthorized" && transport.type === "http") {
    const { url, headers, auth } = transport;
    const isGiven = new Headers(headers).has("authorization");
    const [expected, advice] =
      auth === undefined
        ? [isGiven ? "accept the authorization in its headers" : "need no authorization", GIVE]
        : ["be satisfied by its auth provider", FINISH];
    return new EspalierError({
      code: "mcp_unauthorized",
      message: `Expected ${server} at ${describePlace(url)} to ${expected}, got: ${got}. ${advice}`,
      data: { ...data, ...(challenge && { challenge: { ...challenge } }) },
      cause,
    });
  }
  const where = transport.type === "http" ? describePlace(transport.url) : transport.command;
  let advice = "Check its URL, and that it is running.";
  if (transport.type === "stdio") {
    const { command, cwd } = transport;
    // The system reports ENOENT for a missing program and for a missing folder.
    const isNotThere = collectCodes(cause).includes("ENOENT");
    advice = "Check its command, and that it runs by itself.";
    if (isNotThere && cwd !== undefined) advice = "Check its command and its cwd.";
    if (isNotThere && /\s/.test(command.trim())) advice = "Put its arguments into args.";
  }
  return new EspalierError({
    code: "mcp_unavailable",
    message: `Expected ${server} at ${where} to answer, got: ${got}. ${advice}`,
    data,
    cause,
  });
}

const GIVE = `Pass valid credentials: transport.auth, a provider of ${CLIENT_PACKAGE}, or transport.headers: { authorization: "Bearer …" }.`;
const FINISH = `If the provider started an authorization in the browser, pass its result to auth() of ${CLIENT_PACKAGE}, then connect again.`;

/** Returns the address without parts that may be secret. */
function describePlace(url: string | URL): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}
