// SocketPool: the sockets to servers of one scheme, behind one proxy or none, by the keep-alive agent of Node.
// Owns the agent. Idle sockets do not keep the process alive.
// P1. A socket that is not open in time is given up, whatever it waits for: the network, the proxy, or the TLS handshake.

import { Agent as HttpAgent, request as httpRequest } from "node:http";
import type { ClientRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Duplex } from "node:stream";

import type { Clock } from "../../kernel/clock.ts";
import { defined } from "../../kernel/json.ts";
import type { Proxy } from "./proxy.ts";
import type { RequestHead } from "./send-request.ts";
import { headersOf } from "./wire-response.ts";

const CONNECT_MS = 10_000;
/** Routers on the way forget a connection that is silent for longer, and say nothing. */
const IDLE_MS = 30_000;

/** A request on its way, and the socket that is opened for it, if it has none of the pool. */
export interface PooledRequest {
  readonly request: ClientRequest;
  /** Hand it over to `destroy` as well: before a tunnel through a proxy is open the request does not know of it. */
  readonly opening: Duplex | undefined;
}

export class SocketPool {
  readonly #agent: HttpAgent;
  readonly #ask: typeof httpRequest;
  readonly #clock: Clock;
  readonly #isProxied: boolean;
  readonly #openEvent: "connect" | "secureConnect";
  #opening: Duplex | undefined;

  constructor(scheme: "http:" | "https:", proxy: Proxy | undefined, clock: Clock) {
    const isSecure = scheme === "https:";
    this.#isProxied = proxy !== undefined;
    const proxyEnv = proxy && environmentOf(proxy);
    const options = { keepAlive: true, timeout: IDLE_MS, ...defined({ proxyEnv }) };
    this.#agent = isSecure ? new HttpsAgent(options) : new HttpAgent(options);
    this.#ask = isSecure ? httpsRequest : httpRequest;
    this.#openEvent = isSecure ? "secureConnect" : "connect";
    this.#clock = clock;
    const connect = this.#agent.createConnection.bind(this.#agent);
    this.#agent.createConnection = (to, opened) => {
      const socket = connect(to, (error, open) => {
        stopTimer();
        opened?.(error, open);
      });
      const stopTimer = this.#limited(socket);
      return socket;
    };
  }

  /** Begins a POST, whose body of so many bytes is still to be given. */
  begin({ target, headers: given }: RequestHead, bodyBytes: number): PooledRequest {
    const { host, authority, port, path } = target;
    this.#opening = undefined;
    const hasHost = given.some((field, at) => at % 2 === 0 && field === "host");
    const added = hasHost ? [] : ["host", authority];
    const list = given.concat(added, "content-length", String(bodyBytes));
    // Of an object Node makes a table, which the request holds until it has ended; but only there it puts in what a proxy asks for.
    const headers = this.#isProxied ? Object.fromEntries(headersOf(list)) : list;
    const request = this.#ask({ method: "POST", headers, host, port, path, agent: this.#agent });
    return { request, opening: this.#opening };
  }

  /** Closes the idle sockets. */
  closeIdle(): void {
    for (const sockets of Object.values(this.#agent.freeSockets)) {
      for (const socket of sockets ?? []) socket.destroy();
    }
  }

  /** P1. */
  #limited(socket: Duplex | null | undefined): () => void {
    if (socket === null || socket === undefined) return () => undefined;
    this.#opening = socket;
    const stopTimer = this.#clock.setTimer(CONNECT_MS, () =>
      socket.destroy(new Error(`Connection timed out after ${CONNECT_MS} ms`)),
    );
    // An open socket, of which there may be thousands, holds on to none of this.
    const stop = (): void => {
      stopTimer();
      socket.off("close", stop);
    };
    socket.once(this.#openEvent, stop).once("close", stop);
    return stop;
  }
}

/** As the agent takes it. The names in lower case go before the others. */
function environmentOf({ url, noProxy }: Proxy): NodeJS.Dict<string> {
  return { http_proxy: url, https_proxy: url, ...defined({ no_proxy: noProxy }) };
}
