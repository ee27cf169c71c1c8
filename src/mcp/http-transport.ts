// The SDK's transport over streamable HTTP, with what it leaves open. Owns one stream for each request under way.
// 1. A request whose stream ends without an answer gets one: an error that says so. The SDK leaves it pending until its time is up.
// 2. A request that is cancelled gives up its stream and notifies the server.
// 3. After `close()` no timer is left.
// 4. A request whose answer exceeds the limit fails, and its stream is not taken up again.

import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  StreamableHTTPClientTransport,
  type AuthProvider,
  type JSONRPCMessage,
  type TransportSendOptions,
} from "@modelcontextprotocol/client";

import { sleep } from "../kernel/cancel.ts";
import { defined, isRecord } from "../kernel/json.ts";
import { AuthorizedRequests } from "./authorized-requests.ts";
import type { McpHttp, McpSettings } from "./mcp-options.ts";
import { ANSWER_TOO_LARGE, STREAM_LOST } from "./sdk-fault.ts";

/** A stream that breaks is taken up again where it was, if the server can do that: after 0.2, 0.4 and 0.8 s, then never. */
const STREAM_RECONNECTION = {
  initialReconnectionDelay: 200,
  maxReconnectionDelay: 1_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 3,
};

/** A server may ask for a reconnection without delay, and then end each stream at once. */
const MIN_RECONNECTION_MS = STREAM_RECONNECTION.initialReconnectionDelay;

/** JSON-RPC has a range for errors of our own. */
const OWN_ERROR_CODE = -32_000;

export class HttpTransport extends StreamableHTTPClientTransport {
  readonly #streams = new Map<string | number, AbortController>();
  readonly #requests: AuthorizedRequests;

  constructor(options: McpHttp, settings: McpSettings) {
    const requests = new AuthorizedRequests(options, settings);
    super(new URL(options.url), {
      fetch: requests.fetch,
      ...defined({ authProvider: options.auth }),
      reconnectionOptions: STREAM_RECONNECTION,
      reconnectionScheduler: (reconnect, delayMs) => {
        const waitMs = Math.max(delayMs, MIN_RECONNECTION_MS);
        void sleep(settings.clock, waitMs, requests.closing).then(reconnect);
      },
    });
    this.#requests = requests;
    this.#authorizeInTurn();
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- A transport is no event target; the client calls this one, too.
    this.onmessage = (message) => {
      if ("id" in message && !("method" in message) && message.id !== undefined)
        this.#streams.delete(message.id);
    };
  }

  override async send(message: JSONRPCMessage, options: TransportSendOptions = {}): Promise<void> {
    if (isJSONRPCRequest(message)) return await this.#request(message, options);
    const send = (): Promise<void> => super.send(message, defined(options));
    if (!isJSONRPCNotification(message)) return await this.#requests.answering(send);
    const sent = this.#requests.sending(send);
    if (message.method === "notifications/cancelled") this.#giveUp(message.params);
    await sent;
  }

  override async close(): Promise<void> {
    if (this.#requests.closing.aborted) return;
    this.#streams.clear();
    this.#requests.close();
    await super.close();
  }

  /** The SDK has no option for requests that authorize at the same time. */
  #authorizeInTurn(): void {
    const requests = this.#requests;
    const provider: unknown = Reflect.get(this, "_authProvider");
    const stepUp: unknown = Reflect.get(this, "_stepUpAuthorize");
    if (!isAuthProvider(provider) || typeof stepUp !== "function") return;
    Reflect.set(this, "_authProvider", requests.share(provider));
    Reflect.set(this, "_stepUpAuthorize", (...given: unknown[]) =>
      requests.inTurn(async () => {
        const outcome: unknown = await Reflect.apply(stepUp, this, given);
        return outcome;
      }),
    );
  }

  async #request(
    message: JSONRPCMessage & { readonly id: string | number },
    options: TransportSendOptions,
  ): Promise<void> {
    const controller = new AbortController();
    this.#streams.set(message.id, controller);
    try {
      await this.#requests.sending(
        () =>
          super.send(message, {
            ...defined(options),
            requestSignal: controller.signal,
            onRequestStreamEnd: () => {
              options.onRequestStreamEnd?.();
              this.#fail(message.id, "the connection broke before an answer came", STREAM_LOST);
            },
          }),
        (fault) => {
          this.#fail(message.id, fault.message, ANSWER_TOO_LARGE);
          controller.abort(fault); // The SDK takes up a stream again that breaks by itself.
        },
      );
    } catch (cause) {
      this.#streams.delete(message.id);
      throw cause;
    }
  }

  /** Answers a request that is under way in place of the server. */
  #fail(id: string | number, message: string, reason: string): void {
    if (!this.#streams.delete(id)) return;
    this.onmessage?.({
      jsonrpc: "2.0",
      id,
      error: { code: OWN_ERROR_CODE, message, data: { reason } },
    });
  }

  #giveUp(params: unknown): void {
    const id = isRecord(params) ? params["requestId"] : undefined;
    if (typeof id !== "string" && typeof id !== "number") return;
    this.#streams.get(id)?.abort(new DOMException("The call was cancelled.", "AbortError"));
    this.#streams.delete(id);
  }
}

function isAuthProvider(value: unknown): value is AuthProvider {
  return isRecord(value) && typeof value["token"] === "function";
}
