// The HTTP requests of one connection: the `fetch` of the SDK's transport.
// 1. One request authorizes at a time. Others that were refused wait, and take its token: a refresh
//    token that is used twice ends the grant.
// 2. The given headers go to the origin of the server alone, not to its authorization server.
// 3. Each request of an authorization ends with its time limit, or with the connection.
// 4. A request that the server refused fails with a fault that contains the challenge, without the
//    body of the response.
// 5. Every body is bounded: the answer to a message as a whole, the standing stream by event.

import { AsyncLocalStorage } from "node:async_hooks";

import {
  SdkErrorCode,
  SdkHttpError,
  UnauthorizedError,
  type AuthProvider,
} from "@modelcontextprotocol/client";
import PQueue from "p-queue";

import { grouped } from "../kernel/check.ts";
import { defined } from "../kernel/json.ts";
import { valueInTime } from "../kernel/cancel.ts";
import { emitWarning } from "../kernel/warn-once.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";
import { challengeOf, challengeText, reasonOf } from "./sdk-fault.ts";
import { boundResponse, type AnswerSize, JsonMeter } from "./json-meter.ts";
import { isSizeExcess, McpFault, type AuthChallenge } from "./mcp-fault.ts";
import type { McpHttp, McpSettings } from "./mcp-options.ts";

/** A message that is sent, by as many requests as it takes. */
interface Sending {
  /** The challenge of the last response, if the server refused the request. */
  challenge?: AuthChallenge | undefined;
  wasAsked?: boolean;
  /** The token of the last request. */
  token?: string | undefined;
  /** Of all responses to the message. */
  readonly size: AnswerSize;
  /** Set once the answer has exceeded the limit. */
  excess?: McpFault;
  /** Handles an excess while the answer to a request is streamed. `undefined` for notifications. */
  readonly onExcess?: OnExcess | undefined;
}

type OnExcess = (fault: McpFault) => void;

type Fetch = NonNullable<McpHttp["fetch"]>;
type RefusedContext = Parameters<NonNullable<AuthProvider["onUnauthorized"]>>[0];

/** The most answers that are sent at once. Each takes a socket. */
const MAX_SENDING = 20;

/** Streams are read on while fewer answers to requests of the server wait to be sent. */
const MAX_WAITING = 80;

export class AuthorizedRequests {
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

  /** For the SDK's transport. */
  readonly fetch: Fetch = async (url, init = {}) => {
    if (this.#isStandingStreamRefused && this.#isStandingStream(init))
      return new Response(null, { status: 405 });
    const isOwn = new URL(url).origin === this.#origin;
    const all = isOwn ? { ...init, headers: this.#withOurs(init.headers) } : init;
    return isStream(init) ? await this.#exchange(url, all) : await this.#ask(url, all);
  };

  /** Returns the provider with authorizations that run in turn. */
  share(provider: AuthProvider): AuthProvider {
    const authorize = async (context: RefusedContext): Promise<void> => {
      const sent = this.#sendings.getStore()?.token;
      const token = await provider.token();
      // Another request has replaced the token meanwhile.
      if (token !== undefined && token !== sent) return;
      if (provider.onUnauthorized === undefined) throw new UnauthorizedError();
      await provider.onUnauthorized(context);
    };
    return {
      token: () => provider.token(),
      onUnauthorized: (context) => this.inTurn(() => authorize(context)),
    };
  }

  /** Runs an authorization once those before it have ended. */
  async inTurn<T>(authorize: () => Promise<T>): Promise<T> {
    return await this.#turns.add(AsyncLocalStorage.bind(authorize));
  }

  /**
   * Sends a message by the requests that `send` makes. Throws a fault `unauthorized` if the server, or the provider, does not let it, and
   * `too_large` if an answer exceeds the limit. `onExcess`: called if it does so while it is streamed.
   */
  async sending<T>(send: () => Promise<T>, onExcess?: OnExcess): Promise<T> {
    const sending: Sending = { size: { bytes: 0 }, onExcess };
    try {
      const sent = await this.#sendings.run(sending, send);
      if (sending.excess !== undefined) throw sending.excess;
      return sent;
    } catch (cause) {
      if (sending.excess !== undefined) throw sending.excess;
      throw this.#isRefused(sending) ? refusal(cause, sending.challenge) : cause;
    }
  }

  /** Sends an answer to a request of the server. Streams are not read while many answers wait. */
  async answering(send: () => Promise<void>): Promise<void> {
    await this.#answers.add(() => this.sending(send));
  }

  /** Aborted when the connection is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  close(): void {
    this.#closing.abort(new DOMException("The connection was closed.", "AbortError"));
  }

  /** True also if the provider failed before anything was asked: nothing else works before the first request. */
  #isRefused({ challenge, wasAsked = false }: Sending): boolean {
    return challenge !== undefined || (this.#options.auth !== undefined && !wasAsked);
  }

  /** What the SDK sets comes first: the token of a provider, where there is one. */
  #withOurs(theirs: RequestInit["headers"]): Headers {
    const headers = new Headers(this.#options.headers);
    for (const [name, value] of new Headers(theirs)) headers.set(name, value);
    return headers;
  }

  /** Makes a request of the protocol: a message, or a stream that is asked for. */
  async #exchange(url: string | URL, init: RequestInit): Promise<Response> {
    const sending = this.#sendings.getStore();
    if (sending === undefined) return await this.#send(url, init);
    sending.wasAsked = true;
    sending.token = new Headers(init.headers).get("authorization")?.replace(/^\S+ /, "");
    const response = await this.#send(url, init);
    sending.challenge = challengeOf(response, this.#options.headers);
    return response;
  }

  /** Makes a request of an authorization, or one whose answer nothing waits for. */
  async #ask(url: string | URL, init: RequestInit): Promise<Response> {
    const { clock, connectTimeoutMs: timeoutMs } = this.#settings;
    const signal = AbortSignal.any([this.closing, ...(init.signal ? [init.signal] : [])]);
    const ask = async (bound: AbortSignal): Promise<Response> => {
      const response = await this.#send(url, { ...init, signal: bound });
      return response.body === null ? response : new Response(await response.bytes(), response);
    };
    return await valueInTime(ask, { signal, clock, graceMs: 0, timeoutMs });
  }

  async #send(url: string | URL, init: RequestInit): Promise<Response> {
    return this.#bound(await (this.#options.fetch ?? fetch)(url, init), init);
  }

  #bound(response: Response, init: RequestInit): Response {
    const sending = this.#sendings.getStore() ?? { size: { bytes: 0 } };
    const isStanding = response.ok && this.#isStandingStream(init);
    const { maxResponseBytes: maxBytes } = this.#settings;
    return boundResponse(response, {
      size: isStanding ? undefined : sending.size,
      json: new JsonMeter(isEventStream(response, init) ? "event" : "body", maxBytes),
      what: isStanding ? "an event" : "its answer",
      maxBytes,
      // The responses to our answers are read in any case: they end what is waited for.
      waitForTurn: () =>
        isStanding || sending.onExcess !== undefined
          ? this.#answers.onSizeLessThan(MAX_WAITING)
          : undefined,
      onExcess: (fault) => {
        if (isStanding) return this.#refuseStandingStream(fault);
        sending.excess = fault;
        sending.onExcess?.(fault);
      },
    });
  }

  /** True for the stream on which the server sends messages that belong to no request. */
  #isStandingStream(init: RequestInit): boolean {
    const isOfRequest = this.#sendings.getStore()?.onExcess !== undefined;
    return init.method === "GET" && isStream(init) && !isOfRequest;
  }

  #refuseStandingStream(fault: McpFault): void {
    this.#isStandingStreamRefused = true;
    const { name, maxResponseBytes } = this.#settings;
    const server = `MCP server ${JSON.stringify(name)}`;
    const why = isSizeExcess(fault)
      ? `an event is longer than ${grouped(maxResponseBytes)} bytes. Calls still work. To accept such events, raise maxResponseBytes.`
      : `${fault.message}. Calls still work.`;
    const message = `The stream of notifications of ${server} was closed: ${why}`;
    emitWarning(message, "mcp_response_too_large");
  }
}

/** Only the requests of the protocol itself ask for streams: messages, and streams alone. */
function isStream({ headers }: RequestInit): boolean {
  return new Headers(headers).get("accept")?.includes("text/event-stream") ?? false;
}

/** True if the SDK reads the response as events, each a JSON text. It reads every stream that it asks for so. */
function isEventStream({ ok, headers }: Response, init: RequestInit): boolean {
  if (!ok || !isStream(init)) return false;
  const [type = ""] = (headers.get("content-type") ?? "").split(";", 1);
  return init.method === "GET" || type.trim().toLowerCase() === "text/event-stream";
}

/** A body that the server sent along may hold what it was sent. */
function refusal(cause: unknown, challenge: AuthChallenge | undefined): McpFault {
  const hasBody =
    cause instanceof SdkHttpError && cause.code === SdkErrorCode.ClientHttpNotImplemented;
  const words = [
    ...(challenge === undefined ? [] : [`HTTP ${challenge.status}`]),
    ...(hasBody ? [] : [redactSecrets(reasonOf(cause))]),
  ];
  return new McpFault("unauthorized", words.join(": "), hasBody ? undefined : cause, {
    ...defined({ detail: challenge && challengeText(challenge), challenge }),
  });
}
