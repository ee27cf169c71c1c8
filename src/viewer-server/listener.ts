// Listener: the HTTP server of a viewer. Owns the port, and knows the host names of the server.

import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";

import { EspalierError, getErrorMessage } from "../kernel/error.ts";

const LOOPBACK = "127.0.0.1";
const LOOPBACK_NAMES: readonly string[] = [LOOPBACK, "localhost", "[::1]"];
const FIRST_PORT = 4_983;
/** Number of ports that are tried if no port is given. */
const PORTS_TRIED = 20;
const MAX_CONNECTIONS = 64;

export class Listener {
  readonly #server: Server;
  readonly #host: string;
  #port = 0;

  constructor(listen: RequestListener, host = LOOPBACK) {
    this.#host = host;
    this.#server = createServer(listen);
    this.#server.maxConnections = MAX_CONNECTIONS;
    // An error of a connection must not end the process.
    this.#server.on("error", () => undefined);
  }

  /** URL of the server, without a trailing slash. */
  get origin(): string {
    return `http://${this.#name}:${this.#port}`;
  }

  /** Returns true if a `Host` header names this server. */
  isOurs(host: string): boolean {
    return [...LOOPBACK_NAMES, this.#name].some(
      (name) => host === `${name}:${this.#port}` || (this.#port === 80 && host === name),
    );
  }

  /**
   * Opens the port: 0 for any free port, `undefined` for the first free port from 4983 on. Rejects
   * with `invalid_argument` if no port can be opened.
   */
  async listen(port: number | undefined): Promise<void> {
    if (port !== undefined) return await this.#tryPort(port);
    for (let tried = 0; ; tried += 1) {
      try {
        return await this.#tryPort(FIRST_PORT + tried);
      } catch (cause) {
        if (tried + 1 === PORTS_TRIED || !isInUse(cause)) throw cause;
      }
    }
  }

  /** Closes the port and all connections. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  get #name(): string {
    return this.#host.includes(":") ? `[${this.#host}]` : this.#host;
  }

  async #tryPort(port: number): Promise<void> {
    const server = this.#server.listen({ host: this.#host, port });
    await once(server, "listening").catch((cause: unknown) => {
      throw this.#createListenError(port, cause);
    });
    const address = server.address();
    this.#port = typeof address === "object" && address !== null ? address.port : port;
  }

  #createListenError(port: number, cause: unknown): EspalierError {
    const advice = isInUse(cause)
      ? "Choose another port, or 0 for any."
      : "See the cause of this error.";
    const message = `Cannot listen at ${this.#host}, port ${port}: ${getErrorMessage(cause)}. ${advice}`;
    const data = { field: "viewer options.port", host: this.#host, port };
    return new EspalierError({ code: "invalid_argument", message, data, cause });
  }
}

function isInUse(cause: unknown): boolean {
  const inner: unknown = cause instanceof EspalierError ? cause.cause : cause;
  return inner instanceof Error && "code" in inner && inner.code === "EADDRINUSE";
}
