// Extends the SDK's transport over streamable HTTP. Owns one stream for each open request.
// 1. A request whose stream ends without an answer is answered with an error. The SDK leaves it
//    pending until its time limit.
// 2. A cancelled request closes its stream and notifies the server.
// 3. After `close()` no timer is left.
// 4. A request whose answer exceeds the limit fails, and its stream is not resumed.

import { AsyncLocalStorage } from "node:async_hooks";

import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  StreamableHTTPClientTransport,
  type AuthProvider,
  type JSONRPCMessage,
  type TransportSendOptions,
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import PQueue from "p-queue";

import { sleep, runUntilTimeout } from "../kernel/cancel-signal.ts";
import { omitUndefined, isRecord } from "../kernel/json.ts";
import type { McpHttp, McpSettings } from "./mcp-options.ts";
import {
  ANSWER_TOO_LARGE,
  STREAM_LOST,
  readChallenge,
  describeChallenge,
  describeSdkReason,
} from "./sdk-fault.ts";
import { groupDigits } from "../kernel/argument-checks.ts";
import { emitWarning } from "../kernel/warn-once.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";
import { boundResponse, type AnswerSize, JsonMeter } from "./json-meter.ts";
import { isSizeExcess, McpFault, type AuthChallenge } from "./mcp-fault.ts";

/** A broken stream is resumed after 0.2, 0.4 and 0.8 s, then never, if the server supports it. */
const STREAM_RECONNECTION = {
  initialReconnectionDelay: 200,
  maxReconnectionDelay: 1_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: 3,
};

/** Minimum delay. A server may request reconnections without delay, and end each stream at once. */
const MIN_RECONNECTION_MS = STREAM_RECONNECTION.initialReconnectionDelay;

/** Error code from the range that JSON-RPC leaves to implementations. */
const OWN_ERROR_CODE = -32_000;

export class HttpTransport extends StreamableHTTPClientTransport {
  readonly #streams = new Map<string | number, AbortController>();
  readonly #requests: AuthorizedRequests;

  constructor(options: McpHttp, settings: McpSettings) {
    const requests = new AuthorizedRequests(options, settings);
    super(new URL(options.url), {
      fetch: requests.fetch,
      ...omitUndefined({ authProvider: options.auth }),
      reconnectionOptions: STREAM_RECONNECTION,
      reconnectionScheduler: (reconnect, delayMs) => {
        const waitMs = Math.max(delayMs, MIN_RECONNECTION_MS);
        void sleep(settings.clock, waitMs, requests.closing).then(reconnect);
      },
    });
    this.#requests = requests;
    // The SDK has no option for requests that are authorized concurrently.
    const provider: unknown = Reflect.get(this, "_authProvider");
    const stepUp: unknown = Reflect.get(this, "_stepUpAuthorize");
    if (isAuthProvider(provider) && typeof stepUp === "function") {
      Reflect.set(this, "_authProvider", requests.serialize(provider));
      Reflect.set(this, "_stepUpAuthorize", (...args: unknown[]) =>
        requests.runInTurn(async () => {
          const outcome: unknown = await Reflect.apply(stepUp, this, args);
          return outcome;
        }),
      );
    }
    // oxlint-disable-next-line unicorn/prefer-add-event-listener -- not an EventTarget
    this.onmessage = (message) => {
      if ("id" in message && !("method" in message) && message.id !== undefined)
        this.#streams.delete(message.id);
    };
  }

  override async send(message: JSONRPCMessage, options: TransportSendOptions = {}): Promise<void> {
    if (isJSONRPCRequest(message)) return await this.#request(message, options);
    const send = (): Promise<void> => super.send(message, omitUndefined(options));
    if (!isJSONRPCNotification(message)) return await this.#requests.sendAnswer(send);
    const sent = this.#requests.sendMessage(send);
    const { method, params } = message;
    const id = isRecord(params) ? params["requestId"] : undefined;
    if (
      method === "notifications/cancelled" &&
      (typeof id === "string" || typeof id === "number")
    ) {
      this.#streams.get(id)?.abort(new DOMException("The call was cancelled.", "AbortError"));
      this.#streams.delete(id);
    }
    await sent;
  }

  override async close(): Promise<void> {
    if (this.#requests.closing.aborted) return;
    this.#streams.clear();
    this.#requests.close();
    await super.close();
  }

  async #request(
    message: JSONRPCMessage & { readonly id: string | number },
    options: TransportSendOptions,
  ): Promise<void> {
    const controller = new AbortController();
    this.#streams.set(message.id, controller);
    try {
      await this.#requests.sendMessage(
        () =>
          super.send(message, {
            ...omitUndefined(options),
            requestSignal: controller.signal,
            onRequestStreamEnd: () => {
              options.onRequestStreamEnd?.();
              this.#fail(message.id, "the connection broke before an answer came", STREAM_LOST);
            },
          }),
        (fault) => {
          this.#fail(message.id, fault.message, ANSWER_TOO_LARGE);
          controller.abort(fault); // The SDK resumes a stream that breaks by itself.
        },
      );
    } catch (cause) {
      this.#streams.delete(message.id);
      throw cause;
    }
  }

  /** Answers an open request in place of the server. */
  #fail(id: string | number, message: string, reason: string): void {
    if (!this.#streams.delete(id)) return;
    this.onmessage?.({
      jsonrpc: "2.0",
      id,
      error: { code: OWN_ERROR_CODE, message, data: { reason } },
    });
  }
}

function isAuthProvider(value: unknown): value is AuthProvider {
  return isRecord(value) && typeof value["token"] === "function";
}

// Makes the HTTP requests of one connection: the `fetch` of the SDK's transport.
// 1. One request authorizes at a time. Other refused requests wait, and use its token: a refresh
//    token that is used twice ends the grant.
// 2. The configured headers go only to the origin of the server, not to its authorization server.
// 3. Each request of an authorization ends with its time limit, or with the connection.
// 4. A request that the server refused fails with a fault that contains the challenge, without the
//    body of the response.
// 5. Every body is bounded: the answer to a message as a whole, the standing stream by event.

/** A message being sent, over one or more requests. */
interface Sending {
  /** The challenge of the last response, if the server refused the request. */
  challenge?: AuthChallenge | undefined;
  wasAsked?: boolean;
  /** The token of the last request. */
  token?: string | undefined;
  /** Size of all responses to the message together. */
  readonly size: AnswerSize;
  /** Set once the answer has exceeded the limit. */
  excess?: McpFault;
  /** Handles an excess while the answer to a request is streamed. `undefined` for notifications. */
  readonly onExcess?: OnExcess | undefined;
}

type OnExcess = (fault: McpFault) => void;

type Fetch = NonNullable<McpHttp["fetch"]>;
type RefusedContext = Parameters<NonNullable<AuthProvider["onUnauthorized"]>>[0];

/** Number of answers that are sent at once. Each needs a socket. */
const MAX_SENDING = 20;

/** Streams are read only while fewer answers to requests of the server wait to be sent. */
const MAX_WAITING = 80;

class AuthorizedRequests {
  readonly #options: McpHttp;
  readonly #settings: McpSettings;
  readonly #origin: string;
  readonly #sendings = new AsyncLocalStorage<Sending>();
  readonly #closing = new AbortController();
  #isStandingStreamRefused = false;
  readonly #turns = new PQueue({ concurrency: 1 });
  readonly #answers = new PQueue({ concurrency: MAX_SENDING });

  constructor(options: McpHttp, settings: McpSettings) {
    this.#options = options;
    this.#settings = settings;
    this.#origin = new URL(options.url).origin;
  }

  /** The `fetch` of the SDK's transport. */
  readonly fetch: Fetch = async (url, init = {}) => {
    if (this.#isStandingStreamRefused && this.#isStandingStream(init))
      return new Response(null, { status: 405 });
    const isOwn = new URL(url).origin === this.#origin;
    const headers = new Headers(isOwn ? this.#options.headers : {});
    // Headers from the SDK take precedence, such as the token of a provider.
    for (const [name, value] of new Headers(init.headers)) headers.set(name, value);
    const all = isOwn ? { ...init, headers } : init;
    return isStream(init) ? await this.#exchange(url, all) : await this.#ask(url, all);
  };

  /** Returns the provider with authorizations that run one at a time. */
  serialize(provider: AuthProvider): AuthProvider {
    const authorize = async (context: RefusedContext): Promise<void> => {
      const sent = this.#sendings.getStore()?.token;
      const token = await provider.token();
      // Another request has replaced the token in the meantime.
      if (token !== undefined && token !== sent) return;
      if (provider.onUnauthorized === undefined) throw new UnauthorizedError();
      await provider.onUnauthorized(context);
    };
    return {
      token: () => provider.token(),
      onUnauthorized: (context) => this.runInTurn(() => authorize(context)),
    };
  }

  /** Runs an authorization after the earlier ones have ended. */
  async runInTurn<T>(authorize: () => Promise<T>): Promise<T> {
    return await this.#turns.add(AsyncLocalStorage.bind(authorize));
  }

  /**
   * Sends a message with the requests that `send` makes. Throws a fault `unauthorized` if the
   * server or the provider refuses, and `too_large` if an answer exceeds the limit. Calls
   * `onExcess` if a streamed answer exceeds it.
   */
  async sendMessage<T>(send: () => Promise<T>, onExcess?: OnExcess): Promise<T> {
    const sending: Sending = { size: { bytes: 0 }, onExcess };
    try {
      const sent = await this.#sendings.run(sending, send);
      if (sending.excess !== undefined) throw sending.excess;
      return sent;
    } catch (cause) {
      if (sending.excess !== undefined) throw sending.excess;
      const { challenge, wasAsked = false } = sending;
      // Also if the provider failed before the first request: no other code runs before that.
      const isRefused = challenge !== undefined || (this.#options.auth !== undefined && !wasAsked);
      throw isRefused ? createUnauthorizedFault(cause, challenge) : cause;
    }
  }

  /** Sends an answer to a request of the server. Streams are not read while many answers wait. */
  async sendAnswer(send: () => Promise<void>): Promise<void> {
    await this.#answers.add(() => this.sendMessage(send));
  }

  /** Aborted when the connection is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  close(): void {
    this.#closing.abort(new DOMException("The connection was closed.", "AbortError"));
  }

  /** Makes a request of the protocol: a message, or a standalone stream. */
  async #exchange(url: string | URL, init: RequestInit): Promise<Response> {
    const sending = this.#sendings.getStore();
    if (sending === undefined) return await this.#send(url, init);
    sending.wasAsked = true;
    sending.token = new Headers(init.headers).get("authorization")?.replace(/^\S+ /, "");
    const response = await this.#send(url, init);
    sending.challenge = readChallenge(response, this.#options.headers);
    return response;
  }

  /** Makes a request of an authorization, or a request whose answer is not awaited. */
  async #ask(url: string | URL, init: RequestInit): Promise<Response> {
    const { clock, connectTimeoutMs: timeoutMs } = this.#settings;
    const signal = AbortSignal.any([this.closing, ...(init.signal ? [init.signal] : [])]);
    const ask = async (bound: AbortSignal): Promise<Response> => {
      const response = await this.#send(url, { ...init, signal: bound });
      return response.body === null ? response : new Response(await response.bytes(), response);
    };
    return await runUntilTimeout(ask, { signal, clock, graceMs: 0, timeoutMs });
  }

  async #send(url: string | URL, init: RequestInit): Promise<Response> {
    return this.#boundBody(await (this.#options.fetch ?? fetch)(url, init), init);
  }

  #boundBody(response: Response, init: RequestInit): Response {
    const sending = this.#sendings.getStore() ?? { size: { bytes: 0 } };
    const isStanding = response.ok && this.#isStandingStream(init);
    const { maxResponseBytes: maxBytes, name } = this.#settings;
    const [type = ""] = (response.headers.get("content-type") ?? "").split(";", 1);
    const hasEvents = type.trim().toLowerCase() === "text/event-stream";
    // The SDK reads every stream that it requests as events, each a JSON text.
    const isEvents = response.ok && isStream(init) && (init.method === "GET" || hasEvents);
    return boundResponse(response, {
      size: isStanding ? undefined : sending.size,
      json: new JsonMeter(isEvents ? "event" : "body", maxBytes),
      subject: isStanding ? "an event" : "its answer",
      maxBytes,
      // The responses to our answers are read in any case: requests of the server wait for them.
      waitForTurn: () =>
        isStanding || sending.onExcess !== undefined
          ? this.#answers.onSizeLessThan(MAX_WAITING)
          : undefined,
      onExcess: (fault) => {
        if (!isStanding) {
          sending.excess = fault;
          sending.onExcess?.(fault);
          return;
        }
        this.#isStandingStreamRefused = true;
        const server = `MCP server ${JSON.stringify(name)}`;
        const why = isSizeExcess(fault)
          ? `an event is longer than ${groupDigits(maxBytes)} bytes. Calls still work. To accept such events, raise maxResponseBytes.`
          : `${fault.message}. Calls still work.`;
        const message = `The stream of notifications of ${server} was closed: ${why}`;
        emitWarning(message, "mcp_response_too_large");
      },
    });
  }

  /** True for the stream on which the server sends messages that belong to no request. */
  #isStandingStream(init: RequestInit): boolean {
    const isOfRequest = this.#sendings.getStore()?.onExcess !== undefined;
    return init.method === "GET" && isStream(init) && !isOfRequest;
  }
}

/** Only requests of the protocol accept event streams: messages and standalone streams. */
function isStream({ headers }: RequestInit): boolean {
  return new Headers(headers).get("accept")?.includes("text/event-stream") ?? false;
}

/**
 * Creates the fault of a refused request. The body is left out, because it may repeat secrets from
 * the request.
 */
function createUnauthorizedFault(cause: unknown, challenge: AuthChallenge | undefined): McpFault {
  const hasBody =
    cause instanceof SdkHttpError && cause.code === SdkErrorCode.ClientHttpNotImplemented;
  const words = [
    ...(challenge === undefined ? [] : [`HTTP ${challenge.status}`]),
    ...(hasBody ? [] : [redactSecrets(describeSdkReason(cause))]),
  ];
  return new McpFault("unauthorized", words.join(": "), hasBody ? undefined : cause, {
    ...omitUndefined({ detail: challenge && describeChallenge(challenge), challenge }),
  });
}
