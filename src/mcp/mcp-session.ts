// One connection to a server: opened once, used by many calls at once, closed once. Owns the SDK's client and its transport.
// 1. Whatever fails comes out as a fault that says what it means.
// 2. All waiting is bounded by our clock; the SDK's own time limits never come first.

import { AsyncLocalStorage } from "node:async_hooks";

import {
  Client,
  type CallToolResult,
  type JSONRPCMessage,
  type Tool,
} from "@modelcontextprotocol/client";

import { type AnySignal, CancelSignal, onAbort, runTimed } from "../kernel/cancel.ts";
import { grouped } from "../kernel/check.ts";
import { callListener, warnOnce } from "../kernel/warn-once.ts";
import { defined, isRecord } from "../kernel/json.ts";
import { OWN_PACKAGE } from "../kernel/own-package.ts";
import { countParts } from "../tools/arguments/schema-size.ts";
import { declined, elicited, type ElicitingCaller, OutputChecks } from "./server-requests.ts";
import { HttpTransport } from "./http-transport.ts";
import { listTools, type ListedTools } from "./list-tools.ts";
import { McpFault, type McpFaultKind } from "./mcp-fault.ts";
import type { McpSettings } from "./mcp-options.ts";
import { faultOf, reasonOf } from "./sdk-fault.ts";
import { StdioTransport } from "./stdio-transport.ts";

/** One call of a tool. */
export interface McpCall {
  readonly tool: Tool;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** `traceparent`, `tracestate` and `baggage`, as far as there is any. */
  readonly trace: Readonly<Record<string, string>>;
  readonly onProgress: (progress: McpProgress) => void;
  /** Whose it is: what the server wants to know for it is asked there. */
  readonly caller: ElicitingCaller;
}

/** How far a call is, as the server says. */
export interface McpProgress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** Where a session goes, for the attributes of a span. */
export type SessionAttributes = Readonly<Record<string, string | number>>;

/** The longest time that the SDK can wait. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;
/** Faults of connecting that mean the same to the caller of `connectMcp`. */
const SAID_KINDS: ReadonlySet<McpFaultKind> = new Set(["closed", "too_large", "unauthorized"]);
/** How long a server is given to take note that its session ends. */
const GOODBYE_MS = 2_000;

export class McpSession {
  readonly #settings: McpSettings;
  readonly #client: Client;
  readonly #transport: HttpTransport | StdioTransport;
  #isClosed = false;
  #isRetired = false;
  /** Every call under way, by its progress token. */
  readonly #calls = new Map<unknown, McpCall>();
  /** The call on whose stream a message comes, where each has one. */
  readonly #streamed = new AsyncLocalStorage<McpCall>();
  #callCount = 0;
  /** The number of requests for data in each call. */
  readonly #elicitations = new WeakMap<ElicitingCaller, number>();

  /** Connects. Throws a fault `unreachable` or `unauthorized`, after all that it had begun was ended; `closed` if `signal` is aborted. */
  static async open(
    settings: McpSettings,
    signal: AnySignal,
    onClosed: (session: McpSession) => void,
  ): Promise<McpSession> {
    const session = new McpSession(settings, onClosed);
    try {
      await session.#connect(signal);
      return session;
    } catch (cause) {
      await session.#abandon();
      throw cause;
    }
  }

  private constructor(settings: McpSettings, onClosed: (session: McpSession) => void) {
    const { transport } = settings;
    this.#settings = settings;
    this.#transport =
      transport.type === "http"
        ? new HttpTransport(transport, settings)
        : new StdioTransport(transport, settings);
    this.#client = new Client(OWN_PACKAGE, {
      jsonSchemaValidator: new OutputChecks(),
      capabilities: settings.elicitation ? { elicitation: { form: {} } } : {},
    });
    if (settings.elicitation)
      this.#client.setRequestHandler("elicitation/create", ({ params }, { mcpReq }) =>
        elicited(settings.name, params, this.#elicitedCaller(), mcpReq.signal),
      );
    this.#client.fallbackRequestHandler = declined;
    const onMessage = this.#transport.onmessage;
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- A transport is no event target; the client calls this one, too.
    this.#transport.onmessage = (message: JSONRPCMessage) => {
      onMessage?.(message);
      if (!("method" in message)) return;
      if (message.method === "notifications/progress") this.#handleProgress(message.params);
      // The SDK would read each part as every kind of field, for seconds. Without parameters it refuses at once.
      if (isTooLargeForm(message)) message.params = {};
    };
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- A client is no event target.
    this.#client.onclose = () => {
      this.#isClosed = true;
      onClosed(this);
    };
    this.#client.setNotificationHandler("notifications/tools/list_changed", () => {
      callListener(settings.onToolsChanged, settings.onToolsChanged, listenerThrew);
    });
  }

  /** What the server wants models to know about it. */
  get instructions(): string | undefined {
    return this.#client.getInstructions();
  }

  /** For the span of a call that it serves. */
  get attributes(): SessionAttributes {
    const { transport } = this.#settings;
    const version = this.#client.getNegotiatedProtocolVersion();
    return {
      "mcp.method.name": "tools/call",
      ...defined({ "mcp.protocol.version": version, "mcp.session.id": this.#sessionId }),
      ...(transport.type === "http"
        ? { "network.transport": "tcp", "server.address": new URL(transport.url).hostname }
        : { "network.transport": "pipe" }),
    };
  }

  get #sessionId(): string | undefined {
    return this.#transport instanceof HttpTransport ? this.#transport.sessionId : undefined;
  }

  /** All tools of the server. Throws a fault. */
  async listTools(signal: AnySignal): Promise<ListedTools> {
    // A server without the capability has none, and may not be asked.
    if (this.#client.getServerCapabilities()?.tools === undefined)
      return { tools: [], unreadable: [] };
    return await this.#inTime("list its tools", signal, (signal) =>
      listTools(this.#client, { signal, timeout: NO_TIMEOUT_MS }, this.#settings),
    );
  }

  /** Calls a tool. Throws a fault; if `signal` is aborted the server is notified and the fault is `cancelled`, at once. */
  async callTool(call: McpCall, signal: AbortSignal): Promise<CallToolResult> {
    const { tool, arguments: given, trace } = call;
    if (this.#isClosed) throw new McpFault("not_taken", "the connection is closed");
    const cancel = new AbortController();
    const unlink = onAbort(signal, () => cancel.abort("The caller no longer needs it."));
    const progressToken = `call-${(this.#callCount += 1)}`;
    this.#calls.set(progressToken, call);
    try {
      if (signal.aborted) throw new McpFault("cancelled", "it was cancelled");
      return await this.#streamed.run(call, () =>
        this.#client.callTool(
          { name: tool.name, arguments: { ...given }, _meta: { ...trace, progressToken } },
          { signal: cancel.signal, timeout: NO_TIMEOUT_MS, toolDefinition: tool, headers: trace },
        ),
      );
    } catch (cause) {
      if (signal.aborted) throw new McpFault("cancelled", "it was cancelled", cause);
      throw this.#faultOf(cause);
    } finally {
      unlink();
      this.#calls.delete(progressToken);
      if (this.#isRetired && this.#calls.size === 0) void this.#shut();
    }
  }

  /** Ends the connection, and the server if it is a child. Never rejects. */
  async close(): Promise<void> {
    const transport = this.#transport;
    if (transport instanceof HttpTransport) {
      const bounds = { signal: new CancelSignal(), clock: this.#settings.clock, graceMs: 0 };
      await runTimed(() => transport.terminateSession(), { ...bounds, timeoutMs: GOODBYE_MS });
    }
    await this.#shut();
  }

  /** Ends a connection that another one has replaced, as soon as the calls that it still serves are through. */
  retire(): void {
    this.#isRetired = true;
    if (this.#calls.size === 0) void this.#shut();
  }

  /** Handled here: the SDK loses a report that arrives together with the answer. */
  #handleProgress(params: unknown): void {
    if (!isRecord(params)) return;
    const { progressToken, progress, total, message } = params;
    if (typeof progress !== "number") return;
    this.#calls.get(progressToken)?.onProgress({
      progress,
      ...(typeof total === "number" ? { total } : {}),
      ...(typeof message === "string" ? { message } : {}),
    });
  }

  /** Returns the call to ask for, if it may be asked once more. */
  #elicitedCaller(): ElicitingCaller | undefined {
    const caller = this.#asking();
    if (caller === undefined) return undefined;
    const count = (this.#elicitations.get(caller) ?? 0) + 1;
    this.#elicitations.set(caller, count);
    const { name, maxElicitationsPerCall: max } = this.#settings;
    if (count <= max) return caller;
    const limit = `more than ${grouped(max)} times in one call (maxElicitationsPerCall)`;
    const server = `MCP server ${JSON.stringify(name)}`;
    warnOnce(caller, `${server} asks ${limit}. It is declined for the rest of the call.`);
    return undefined;
  }

  /** The call whose approver is asked what the server wants to know now; undefined: that is not clear, and no run answers for another one. */
  #asking(): ElicitingCaller | undefined {
    const streamed = this.#streamed.getStore();
    if (streamed !== undefined) return streamed.caller;
    const [first, ...others] = [...this.#calls.values()].map(({ caller }) => caller);
    return others.every(({ runId }) => runId === first?.runId) ? first : undefined;
  }

  async #connect(signal: AnySignal): Promise<void> {
    try {
      await this.#inTime("answer", signal, (signal) =>
        this.#client.connect(this.#transport, { signal, timeout: NO_TIMEOUT_MS }),
      );
    } catch (cause) {
      const isSaid = cause instanceof McpFault && SAID_KINDS.has(cause.kind);
      throw isSaid ? cause : this.#noWay(cause);
    }
  }

  /** Why no connection came about, with what the server itself had to say. */
  #noWay(cause: unknown): McpFault {
    const reason = cause instanceof McpFault ? cause.message : reasonOf(cause);
    if (!(this.#transport instanceof StdioTransport))
      return new McpFault("unreachable", reason, cause);
    const { ending, errorText } = this.#transport;
    const message = ending === undefined ? reason : `${reason}; ${ending}`;
    const detail = errorText === "" ? undefined : `it wrote: ${errorText}`;
    return new McpFault("unreachable", message, cause, defined({ detail }));
  }

  /** Over stdio an answer that exceeds the limit ends the connection, and so all that is under way. */
  #faultOf(thrown: unknown): McpFault {
    const transport = this.#transport;
    const excess = transport instanceof StdioTransport ? transport.excess : undefined;
    return excess ?? faultOf(thrown, this.#sessionId !== undefined);
  }

  async #abandon(): Promise<void> {
    if (this.#transport instanceof StdioTransport) this.#transport.terminate();
    await this.#shut();
  }

  /** Never rejects. */
  async #shut(): Promise<void> {
    this.#isClosed = true;
    try {
      await this.#client.close();
    } catch {
      // What cannot be closed is gone already.
    }
    try {
      await this.#transport.close();
    } catch {
      // The same: the client does not close a transport with which it never connected.
    }
  }

  /** Bounded by `connectTimeoutMs`. Throws a fault `closed` if `signal` is aborted, `unreachable` if the time is up. */
  async #inTime<T>(
    what: string,
    signal: AnySignal,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { clock, connectTimeoutMs: timeoutMs } = this.#settings;
    const outcome = await runTimed(work, { signal, clock, timeoutMs, graceMs: 0 });
    if (signal.aborted || outcome.type === "abandoned")
      throw new McpFault("closed", "it was closed");
    switch (outcome.type) {
      case "returned":
        return outcome.value;
      case "threw":
        throw this.#faultOf(outcome.error);
      case "timed_out":
        throw new McpFault("unreachable", `it did not ${what} within ${timeoutMs} ms`);
    }
  }
}

/** The most parts of a schema that a server asks people to fill in, as of the schema of a tool. */
const MAX_FORM_PARTS = 2_000;

function isTooLargeForm({
  method,
  params,
}: {
  method: string;
  params?: object | undefined;
}): boolean {
  return method === "elicitation/create" && countParts(params) > MAX_FORM_PARTS;
}

function listenerThrew(why: string): string {
  return `onToolsChanged of an MCP server threw: ${why}`;
}
