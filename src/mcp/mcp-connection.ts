// Connection to one server across reconnections. Owns the current session and the replaced ones.
// 1. At most one session is being opened at a time; all calls that need it wait for the same one.
// 2. A call is sent again at most once, and only if the server certainly never received it: no call
//    takes effect twice.
// 3. Every wait ends: attempts are counted and have time limits, and a cancelled caller stops
//    waiting.
// 4. After `close()` no child process, request or timer is left.

import { AsyncLocalStorage } from "node:async_hooks";

import {
  type CallToolResult,
  Client,
  type JSONRPCMessage,
  type Tool,
} from "@modelcontextprotocol/client";

import {
  CancelSignal,
  createLinkedController,
  addAbortHandler,
  sleep,
  type AnySignal,
  runTimed,
} from "../kernel/cancel-signal.ts";
import { omitUndefined, isRecord } from "../kernel/json.ts";
import { type ListedTools, listTools } from "./list-tools.ts";
import { McpFault, redactFault, type McpFaultKind } from "./mcp-fault.ts";
import type { McpSettings } from "./mcp-options.ts";
import { groupDigits } from "../kernel/argument-checks.ts";
import { callListener, warnOnce } from "../kernel/warn-once.ts";
import { OWN_PACKAGE } from "../kernel/own-package.ts";
import { countParts } from "../tools/arguments/schema-size.ts";
import {
  refuseRequest,
  answerElicitation,
  type ElicitingCaller,
  OutputChecks,
} from "./server-requests.ts";
import { HttpTransport } from "./http-transport.ts";
import { toFault, describeSdkReason } from "./sdk-fault.ts";
import { StdioTransport } from "./stdio-transport.ts";

/** Tools and instructions of a server. */
export interface McpListing extends ListedTools {
  readonly instructions: string | undefined;
}

export class McpConnection {
  readonly #settings: McpSettings;
  readonly #closing = new CancelSignal();
  /**
   * Sessions that are not known to be closed: the current one, and replaced ones that still serve
   * calls.
   */
  readonly #sessions = new Set<McpSession>();
  #current: McpSession | undefined;
  #opening: Promise<McpSession> | undefined;
  #closed: Promise<void> | undefined;

  /** Connects, with one attempt. Throws a fault `unreachable` or `unauthorized`. */
  static async open(settings: McpSettings): Promise<McpConnection> {
    const connection = new McpConnection(settings);
    try {
      await connection.#getSession(connection.#closing, 1);
    } catch (cause) {
      throw redactFault(cause, settings.transport);
    }
    return connection;
  }

  private constructor(settings: McpSettings) {
    this.#settings = settings;
  }

  /** Span attributes of the current session. Empty without a connection. */
  get attributes(): SessionAttributes {
    return this.#current?.attributes ?? {};
  }

  /** Lists the tools. Reconnects if necessary. Throws a fault. */
  async list(): Promise<McpListing> {
    return await this.#runInSession(this.#closing, async (session) => ({
      ...(await session.listTools(this.#closing)),
      instructions: session.instructions,
    }));
  }

  /**
   * Calls a tool. Reconnects if necessary. Throws a fault, soon after `signal` is aborted even if
   * the server does not react.
   */
  async call(call: McpCall, signal: AbortSignal): Promise<CallToolResult> {
    const linked = createLinkedController(signal);
    const { controller } = linked;
    const unlinkClosing = this.#closing.onAbort(() => controller.abort());
    try {
      return await this.#runInSession(controller.signal, (session) =>
        session.callTool(call, controller.signal),
      );
    } finally {
      linked.unlink();
      unlinkClosing();
    }
  }

  /**
   * Closes everything. Open calls fail with `closed`. Never rejects; a second call waits for the
   * first.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#closing.abort(undefined);
    // A session that is being opened obeys the signal, and cleans up before it rejects.
    await this.#opening?.catch(() => undefined);
    await Promise.all([...this.#sessions].map((session) => session.close()));
  }

  async #runInSession<T>(signal: AnySignal, work: (session: McpSession) => Promise<T>): Promise<T> {
    try {
      return await this.#tryTwice(signal, work);
    } catch (cause) {
      throw redactFault(cause, this.#settings.transport);
    }
  }

  async #tryTwice<T>(signal: AnySignal, work: (session: McpSession) => Promise<T>): Promise<T> {
    for (let isLast = false; ; isLast = true) {
      const session = await this.#getSession(signal, this.#settings.maxAttempts);
      try {
        return await work(session);
      } catch (cause) {
        if (this.#closing.aborted) throw createClosedFault(cause);
        if (!(cause instanceof McpFault) || cause.kind !== "not_taken") throw cause;
        if (this.#current === session) this.#current = undefined;
        session.retire();
        if (isLast) throw new McpFault("unreachable", cause.message, cause);
      }
    }
  }

  /** Returns the current session, or opens one. Waits at most until `signal` is aborted. */
  async #getSession(signal: AnySignal, attempts: number): Promise<McpSession> {
    if (this.#closing.aborted) throw createClosedFault();
    if (this.#current !== undefined) return this.#current;
    this.#opening ??= this.#open(attempts).finally(() => {
      this.#opening = undefined;
    });
    const cancellation = Promise.withResolvers<never>();
    const giveUp = (): void => cancellation.reject(new McpFault("cancelled", "it was cancelled"));
    if (signal.aborted) giveUp();
    const unlink = addAbortHandler(signal, giveUp);
    try {
      return await Promise.race([this.#opening, cancellation.promise]);
    } catch (cause) {
      throw this.#closing.aborted ? createClosedFault(cause) : cause;
    } finally {
      unlink();
    }
  }

  async #open(attempts: number): Promise<McpSession> {
    const { clock, delayMs } = this.#settings;
    let fault = new McpFault("unreachable", "it has ended, and is not restarted");
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      if (attempt > 1) await sleep(clock, delayMs * 2 ** (attempt - 2), this.#closing);
      try {
        if (this.#closing.aborted) throw createClosedFault();
        const session = await McpSession.open(this.#settings, this.#closing, (gone) => {
          if (this.#current === gone) this.#current = undefined;
          this.#sessions.delete(gone);
        });
        this.#sessions.add(session);
        this.#current = session;
        return session;
      } catch (cause) {
        if (!(cause instanceof McpFault) || cause.kind !== "unreachable") throw cause;
        fault = cause;
      }
    }
    if (attempts < 2) throw fault;
    throw new McpFault(
      "unreachable",
      `${fault.message} (tried ${attempts} times)`,
      fault,
      omitUndefined({ detail: fault.detail }),
    );
  }
}

function createClosedFault(cause?: unknown): McpFault {
  return new McpFault("closed", "it was closed", cause);
}

// A session with a server: opened once, used by concurrent calls, closed once. Owns the SDK's
// client and its transport.
// 1. Every failure is thrown as a fault with its kind.
// 2. All waits are bounded by our clock; the SDK's own time limits never expire first.

/** Call of a tool. */
export interface McpCall {
  readonly tool: Tool;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** The available ones of `traceparent`, `tracestate` and `baggage`. */
  readonly trace: Readonly<Record<string, string>>;
  readonly onProgress: (progress: McpProgress) => void;
  /** Receives the server's requests for data during the call. */
  readonly caller: ElicitingCaller;
}

/** Progress of a call as reported by the server. */
export interface McpProgress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** Span attributes of a session. */
type SessionAttributes = Readonly<Record<string, string | number>>;

/** Longest time limit of the SDK, which never expires first. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;
/** Kinds of faults that `connectMcp` reports unchanged. */
const SAID_KINDS: ReadonlySet<McpFaultKind> = new Set(["closed", "too_large", "unauthorized"]);
/** Time that a server has to acknowledge the end of its session. */
const GOODBYE_MS = 2_000;

class McpSession {
  readonly #settings: McpSettings;
  readonly #client: Client;
  readonly #transport: HttpTransport | StdioTransport;
  #isClosed = false;
  #isRetired = false;
  /** Open calls by their progress tokens. */
  readonly #calls = new Map<unknown, McpCall>();
  /** The call on whose stream a message arrives, if each call has a stream. */
  readonly #streamed = new AsyncLocalStorage<McpCall>();
  #callCount = 0;
  /** Number of requests for data in each call. */
  readonly #elicitations = new WeakMap<ElicitingCaller, number>();

  /**
   * Connects. Throws a fault `unreachable` or `unauthorized` after cleaning up, or `closed` if
   * `signal` is aborted.
   */
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
      if (session.#transport instanceof StdioTransport) session.#transport.terminate();
      await session.#closeClient();
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
        answerElicitation(settings.name, params, this.#findElicitedCaller(), mcpReq.signal),
      );
    this.#client.fallbackRequestHandler = refuseRequest;
    const onMessage = this.#transport.onmessage;
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- not an EventTarget
    this.#transport.onmessage = (message: JSONRPCMessage) => {
      onMessage?.(message);
      if (!("method" in message)) return;
      const { method, params } = message;
      const { progressToken, progress, total, message: text } = isRecord(params) ? params : {};
      // Handled here, because the SDK loses a report that arrives together with the answer.
      if (method === "notifications/progress" && typeof progress === "number")
        this.#calls.get(progressToken)?.onProgress({
          progress,
          ...(typeof total === "number" ? { total } : {}),
          ...(typeof text === "string" ? { message: text } : {}),
        });
      // The SDK would try each part as every kind of field, for seconds. Without parameters it
      // refuses the request at once.
      if (method === "elicitation/create" && countParts(params) > MAX_FORM_PARTS)
        message.params = {};
    };
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- not an EventTarget
    this.#client.onclose = () => {
      this.#isClosed = true;
      onClosed(this);
    };
    this.#client.setNotificationHandler("notifications/tools/list_changed", () => {
      const { onToolsChanged } = settings;
      callListener(
        onToolsChanged,
        onToolsChanged,
        (why) => `onToolsChanged of an MCP server threw: ${why}`,
      );
    });
  }

  /** Instructions of the server for models. */
  get instructions(): string | undefined {
    return this.#client.getInstructions();
  }

  /** Attributes for the span of a call in this session. */
  get attributes(): SessionAttributes {
    const { transport } = this.#settings;
    const version = this.#client.getNegotiatedProtocolVersion();
    return {
      "mcp.method.name": "tools/call",
      ...omitUndefined({ "mcp.protocol.version": version, "mcp.session.id": this.#sessionId }),
      ...(transport.type === "http"
        ? { "network.transport": "tcp", "server.address": new URL(transport.url).hostname }
        : { "network.transport": "pipe" }),
    };
  }

  get #sessionId(): string | undefined {
    return this.#transport instanceof HttpTransport ? this.#transport.sessionId : undefined;
  }

  /** Lists all tools of the server. Throws a fault. */
  async listTools(signal: AnySignal): Promise<ListedTools> {
    // A server without the capability has no tools, and must not be asked.
    if (this.#client.getServerCapabilities()?.tools === undefined)
      return { tools: [], unreadable: [] };
    return await this.#runInTime("list its tools", signal, (signal) =>
      listTools(this.#client, { signal, timeout: NO_TIMEOUT_MS }, this.#settings),
    );
  }

  /**
   * Calls a tool. Throws a fault. If `signal` is aborted, notifies the server and throws
   * `cancelled` at once.
   */
  async callTool(call: McpCall, signal: AbortSignal): Promise<CallToolResult> {
    const { tool, arguments: input, trace } = call;
    if (this.#isClosed) throw new McpFault("not_taken", "the connection is closed");
    const cancel = new AbortController();
    const unlink = addAbortHandler(signal, () => cancel.abort("The caller no longer needs it."));
    this.#callCount += 1;
    const progressToken = `call-${this.#callCount}`;
    this.#calls.set(progressToken, call);
    try {
      if (signal.aborted) throw new McpFault("cancelled", "it was cancelled");
      return await this.#streamed.run(call, () =>
        this.#client.callTool(
          { name: tool.name, arguments: { ...input }, _meta: { ...trace, progressToken } },
          { signal: cancel.signal, timeout: NO_TIMEOUT_MS, toolDefinition: tool, headers: trace },
        ),
      );
    } catch (cause) {
      if (signal.aborted) throw new McpFault("cancelled", "it was cancelled", cause);
      throw this.#toFault(cause);
    } finally {
      unlink();
      this.#calls.delete(progressToken);
      if (this.#isRetired && this.#calls.size === 0) void this.#closeClient();
    }
  }

  /** Closes the session, and ends the server if it is a child process. Never rejects. */
  async close(): Promise<void> {
    const transport = this.#transport;
    if (transport instanceof HttpTransport) {
      const bounds = { signal: new CancelSignal(), clock: this.#settings.clock, graceMs: 0 };
      await runTimed(() => transport.terminateSession(), { ...bounds, timeoutMs: GOODBYE_MS });
    }
    await this.#closeClient();
  }

  /** Closes a replaced session as soon as its open calls have ended. */
  retire(): void {
    this.#isRetired = true;
    if (this.#calls.size === 0) void this.#closeClient();
  }

  /**
   * Returns the call that receives a request for data. `undefined` without such a call, or after
   * too many requests.
   */
  #findElicitedCaller(): ElicitingCaller | undefined {
    // Without a stream per call, any open call may receive it if all belong to the same run: a run
    // never answers for another run.
    const [first, ...others] = [...this.#calls.values()].map((call) => call.caller);
    const isClear = others.every(({ runId }) => runId === first?.runId);
    const caller = this.#streamed.getStore()?.caller ?? (isClear ? first : undefined);
    if (caller === undefined) return undefined;
    const count = (this.#elicitations.get(caller) ?? 0) + 1;
    this.#elicitations.set(caller, count);
    const { name, maxElicitationsPerCall: max } = this.#settings;
    if (count <= max) return caller;
    const limit = `more than ${groupDigits(max)} times in one call (maxElicitationsPerCall)`;
    const server = `MCP server ${JSON.stringify(name)}`;
    warnOnce(caller, `${server} asks ${limit}. It is declined for the rest of the call.`);
    return undefined;
  }

  async #connect(signal: AnySignal): Promise<void> {
    try {
      await this.#runInTime("answer", signal, (signal) =>
        this.#client.connect(this.#transport, { signal, timeout: NO_TIMEOUT_MS }),
      );
    } catch (cause) {
      if (cause instanceof McpFault && SAID_KINDS.has(cause.kind)) throw cause;
      const reason = cause instanceof McpFault ? cause.message : describeSdkReason(cause);
      if (!(this.#transport instanceof StdioTransport))
        throw new McpFault("unreachable", reason, cause);
      // Includes the output of the server itself.
      const { ending, errorText } = this.#transport;
      const message = ending === undefined ? reason : `${reason}; ${ending}`;
      const detail = errorText === "" ? undefined : `its stderr: ${errorText}`;
      throw new McpFault("unreachable", message, cause, omitUndefined({ detail }));
    }
  }

  /**
   * Returns the fault of a failed call. Over stdio, an answer that exceeds the limit ends the
   * connection and all open calls.
   */
  #toFault(thrown: unknown): McpFault {
    const transport = this.#transport;
    const excess = transport instanceof StdioTransport ? transport.excess : undefined;
    return excess ?? toFault(thrown, this.#sessionId !== undefined);
  }

  /** Closes the client and the transport. Never rejects. */
  async #closeClient(): Promise<void> {
    this.#isClosed = true;
    try {
      await this.#client.close();
    } catch {
      // Closing fails only if it is closed already.
    }
    try {
      await this.#transport.close();
    } catch {
      // Needed, because the client does not close a transport that was never connected.
    }
  }

  /**
   * Runs `work` within `connectTimeoutMs`. Throws a fault `closed` if `signal` is aborted,
   * `unreachable` after the time limit.
   */
  async #runInTime<T>(
    goal: string,
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
        throw this.#toFault(outcome.error);
      case "timed_out":
        throw new McpFault("unreachable", `it did not ${goal} within ${timeoutMs} ms`);
    }
  }
}

/** Maximum number of parts in a schema of an elicitation, as for the schema of a tool. */
const MAX_FORM_PARTS = 2_000;
