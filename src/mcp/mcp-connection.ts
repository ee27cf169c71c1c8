// The way to one server, over as many connections as it takes. Owns the current session, and those that were replaced.
// 1. At most one session is being opened at a time; all calls that need it wait for the same one.
// 2. A call is sent again only if the server certainly never had it, and once at most: nothing is done twice.
// 3. Every wait ends: attempts are counted and bounded in time, and a caller that is cancelled waits no longer.
// 4. After `close()` nothing is left: no child, no request, no timer.

import type { CallToolResult } from "@modelcontextprotocol/client";

import {
  CancelSignal,
  linkedController,
  onAbort,
  sleep,
  type AnySignal,
} from "../kernel/cancel.ts";
import { defined } from "../kernel/json.ts";
import type { ListedTools } from "./list-tools.ts";
import { McpFault, redactFault } from "./mcp-fault.ts";
import type { McpSettings } from "./mcp-options.ts";
import { McpSession, type McpCall, type SessionAttributes } from "./mcp-session.ts";

/** What a server says about itself and its tools. */
export interface McpListing extends ListedTools {
  readonly instructions: string | undefined;
}

export class McpConnection {
  readonly #settings: McpSettings;
  readonly #closing = new CancelSignal();
  /** Every session that is not known to be gone: the current one, and replaced ones that still serve calls. */
  readonly #sessions = new Set<McpSession>();
  #current: McpSession | undefined;
  #opening: Promise<McpSession> | undefined;
  #closed: Promise<void> | undefined;

  /** Connects, with one attempt. Throws a fault `unreachable` or `unauthorized`. */
  static async open(settings: McpSettings): Promise<McpConnection> {
    const connection = new McpConnection(settings);
    try {
      await connection.#session(connection.#closing, 1);
    } catch (cause) {
      throw redactFault(cause, settings.transport);
    }
    return connection;
  }

  private constructor(settings: McpSettings) {
    this.#settings = settings;
  }

  /** Where calls go, for the span of one: nothing while there is no connection. */
  get attributes(): SessionAttributes {
    return this.#current?.attributes ?? {};
  }

  /** What the server offers. Reconnects if need be. Throws a fault. */
  async list(): Promise<McpListing> {
    return await this.#withSession(this.#closing, async (session) => ({
      ...(await session.listTools(this.#closing)),
      instructions: session.instructions,
    }));
  }

  /** Calls a tool. Reconnects if need be. Throws a fault; soon after `signal` is aborted, whatever the server does. */
  async call(call: McpCall, signal: AbortSignal): Promise<CallToolResult> {
    const linked = linkedController(signal);
    const { controller } = linked;
    const unlinkClosing = this.#closing.onAbort(() => controller.abort());
    try {
      return await this.#withSession(controller.signal, (session) =>
        session.callTool(call, controller.signal),
      );
    } finally {
      linked.unlink();
      unlinkClosing();
    }
  }

  /** Ends everything. Calls under way fail with `closed`. Never rejects; a second call waits for the first. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    this.#closing.abort(undefined);
    // A session that is being opened obeys the signal, and ends what it had begun before it gives up.
    await this.#opening?.catch(() => undefined);
    await Promise.all([...this.#sessions].map((session) => session.close()));
  }

  async #withSession<T>(signal: AnySignal, work: (session: McpSession) => Promise<T>): Promise<T> {
    try {
      return await this.#tryTwice(signal, work);
    } catch (cause) {
      throw redactFault(cause, this.#settings.transport);
    }
  }

  async #tryTwice<T>(signal: AnySignal, work: (session: McpSession) => Promise<T>): Promise<T> {
    for (let isLast = false; ; isLast = true) {
      const session = await this.#session(signal, this.#settings.maxAttempts);
      try {
        return await work(session);
      } catch (cause) {
        if (this.#closing.aborted) throw closed(cause);
        if (!(cause instanceof McpFault) || cause.kind !== "not_taken") throw cause;
        this.#replace(session);
        if (isLast) throw new McpFault("unreachable", cause.message, cause);
      }
    }
  }

  /** The current session, or a new one. Waits no longer than until `signal` is aborted. */
  async #session(signal: AnySignal, attempts: number): Promise<McpSession> {
    if (this.#closing.aborted) throw closed();
    if (this.#current !== undefined) return this.#current;
    this.#opening ??= this.#open(attempts).finally(() => {
      this.#opening = undefined;
    });
    try {
      return await unlessAborted(this.#opening, signal);
    } catch (cause) {
      throw this.#closing.aborted ? closed(cause) : cause;
    }
  }

  async #open(attempts: number): Promise<McpSession> {
    const { clock, delayMs } = this.#settings;
    let fault = new McpFault("unreachable", "it is gone, and is not to be reached again");
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      if (attempt > 1) await sleep(clock, delayMs * 2 ** (attempt - 2), this.#closing);
      try {
        return await this.#openSession();
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
      defined({ detail: fault.detail }),
    );
  }

  async #openSession(): Promise<McpSession> {
    if (this.#closing.aborted) throw closed();
    const session = await McpSession.open(this.#settings, this.#closing, (gone) =>
      this.#forget(gone),
    );
    this.#sessions.add(session);
    this.#current = session;
    return session;
  }

  #replace(session: McpSession): void {
    if (this.#current === session) this.#current = undefined;
    session.retire();
  }

  #forget(session: McpSession): void {
    if (this.#current === session) this.#current = undefined;
    this.#sessions.delete(session);
  }
}

function closed(cause?: unknown): McpFault {
  return new McpFault("closed", "it was closed", cause);
}

/** What `promise` resolves to, or a fault `cancelled` as soon as `signal` is aborted. */
function unlessAborted<T>(promise: Promise<T>, signal: AnySignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(new McpFault("cancelled", "it was cancelled"));
    if (signal.aborted) giveUp();
    const unlink = onAbort(signal, giveUp);
    promise.then(resolve, reject).then(unlink, unlink);
  });
}
