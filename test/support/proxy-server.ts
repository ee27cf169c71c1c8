// ProxyServer: an HTTP proxy on this machine, for tests. It forwards requests, opens tunnels, and
// records both. Owns its port and its tunnels. Every host name leads to the port of the test's
// server.

import { createServer, request as forward, type IncomingMessage, type Server } from "node:http";
import { connect, type AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { createServer as createTlsServer } from "node:tls";

import { TEST_CERTIFICATE, TEST_KEY } from "./test-certificate.ts";

export interface SeenRequest {
  /** `CONNECT model.test:443` or `POST http://model.test/v1/chat/completions` */
  readonly line: string;
  /** Everything that a client sent before its tunnel was open. */
  readonly head: string;
  /** `close`: as its client closed it. */
  readonly closed: Promise<void>;
}

export interface ProxyScript {
  /** The status that answers CONNECT. Default: 200. Never: none comes. */
  readonly tunnelStatus?: number | "never";
}

export class ProxyServer implements AsyncDisposable {
  /** For the variables, and for the option `proxy`. */
  readonly url: string;
  readonly host: string;
  readonly seen: SeenRequest[] = [];
  /** Resolves at the first request. */
  readonly wasAsked: Promise<void>;
  readonly #ask: () => void;
  readonly #server: Server;
  readonly #targetPort: number;
  readonly #sockets = new Set<Duplex>();

  private constructor(server: Server, targetPort: number, script: ProxyScript) {
    this.#server = server;
    this.#targetPort = targetPort;
    this.host = `127.0.0.1:${portOf(server)}`;
    this.url = `http://${this.host}`;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.wasAsked = promise;
    this.#ask = resolve;
    server.on("connection", (socket) => this.#sockets.add(socket));
    server.on("request", (incoming, response) => {
      this.#note(incoming);
      const { method, headers, url = "" } = incoming;
      const { pathname: path } = new URL(url);
      const to = forward({ host: "127.0.0.1", port: targetPort, method, headers, path }, (from) => {
        response.writeHead(from.statusCode ?? 0, from.headers);
        from.pipe(response);
      });
      incoming.pipe(to);
    });
    server.on("connect", (incoming, socket) => this.#tunnel(incoming, socket, script));
  }

  /** A proxy behind which there is one server, at this port of this machine. */
  static async start(targetPort: number, script: ProxyScript = {}): Promise<ProxyServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new ProxyServer(server, targetPort, script);
  }

  /** Requests to the proxy, in order. */
  get lines(): readonly string[] {
    return this.seen.map(({ line }) => line);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #note(incoming: IncomingMessage): void {
    const { method = "", url = "", rawHeaders, socket } = incoming;
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    const head = rawHeaders.join("\n");
    this.seen.push({ line: `${method} ${url}`, head, closed });
    this.#ask();
  }

  #tunnel(incoming: IncomingMessage, socket: Duplex, { tunnelStatus = 200 }: ProxyScript): void {
    this.#note(incoming);
    socket.on("error", () => undefined);
    if (tunnelStatus === "never") {
      socket.resume().on("end", () => socket.destroy());
      return;
    }
    socket.write(`HTTP/1.1 ${tunnelStatus} Said\r\n\r\n`);
    if (tunnelStatus !== 200) return;
    const there = connect(this.#targetPort, "127.0.0.1");
    this.#sockets.add(there);
    there.on("error", () => undefined).on("close", () => socket.destroy());
    socket.on("close", () => there.destroy());
    socket.pipe(there).pipe(socket);
  }
}

/** Ends TLS, as `model.test`, in front of the server at this port. */
export class TlsFront implements AsyncDisposable {
  readonly port: number;
  readonly #end: () => Promise<void>;

  private constructor(port: number, end: () => Promise<void>) {
    this.port = port;
    this.#end = end;
  }

  static async start(targetPort: number): Promise<TlsFront> {
    const sockets = new Set<Duplex>();
    const server = createTlsServer({ cert: TEST_CERTIFICATE, key: TEST_KEY }, (socket) => {
      const there = connect(targetPort, "127.0.0.1");
      sockets.add(socket).add(there);
      there.on("error", () => undefined).on("close", () => socket.destroy());
      socket.on("error", () => undefined).on("close", () => there.destroy());
      socket.pipe(there).pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new TlsFront(portOf(server), async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
  }
}

function portOf(server: { address(): AddressInfo | string | null }): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The server has no port.");
  return address.port;
}
