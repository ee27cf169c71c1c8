// The requests of one connection over HTTP, as the SDK's transport makes them by `fetch`, and what keeps them apart where a server wants
// an authorization. Owns whose turn it is to authorize.
// 1. One request authorizes at a time: the others that were refused wait, and take its token. Two that refresh at once would use a refresh
//    token twice, which ends it.
// 2. The headers that were given go to the origin of the server alone, not to its authorization server.
// 3. What an authorization asks others has an end: its time, or that of the connection.
// 4. A request that was not taken for want of an authorization fails with a fault that says what was asked for, without what came with it.
// 5. Every body is bounded: the answer to a message as a whole, the standing stream event by event.

import { AsyncLocalStorage } from "node:async_hooks";

import { SdkErrorCode, SdkHttpError } from "@modelcontextprotocol/client";

import { grouped } from "../kernel/check.ts";
import { CancelSignal } from "../kernel/cancel.ts";
import { defined } from "../kernel/json.ts";
import { Semaphore } from "../kernel/semaphore.ts";
import { redactSecrets } from "../tools/redact-secrets.ts";
import { challengeOf, challengeText, type AuthChallenge } from "./auth-challenge.ts";
import { AnswerMeter, boundResponse, EventMeter, isSizeExcess } from "./bounded-response.ts";
import { JsonMeter } from "./json-meter.ts";
import { McpFault } from "./mcp-fault.ts";
import type { McpHttp, McpSettings } from "./mcp-options.ts";
import { reasonOf } from "./sdk-fault.ts";

/** A message on its way to the server, over as many requests as it takes, and the stream that the SDK asks for after it. */
interface Sending {
  /** What the server asked for last, if it did not take the request. */
  challenge?: AuthChallenge | undefined;
  wasAsked?: boolean;
  /** It authorizes. */
  endTurn?: () => void;
  /** Counts the bodies of all its responses. */
  readonly meter: AnswerMeter;
  /** Set once its answer has exceeded the limit. */
  excess?: McpFault;
  /** Handles an excess while the answer to a request is streamed. `undefined` for notifications. */
  readonly onExcess?: OnExcess | undefined;
}

type OnExcess = (fault: McpFault) => void;

type Fetch = NonNullable<McpHttp["fetch"]>;

export class AuthorizedRequests {
  readonly #options: McpHttp;
  readonly #settings: McpSettings;
  readonly #origin: string;
  readonly #sendings = new AsyncLocalStorage<Sending>();
  readonly #closing = new AbortController();
  #turns = Promise.resolve();
  #isStandingStreamRefused = false;
  readonly #answers = new AnswerGate();

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

  /**
   * Sends a message by the requests that `send` makes. Throws a fault `unauthorized` if the server, or the provider, does not let it, and
   * `too_large` if an answer exceeds the limit. `onExcess`: called if it does so while it is streamed.
   */
  async sending<T>(send: () => Promise<T>, onExcess?: OnExcess): Promise<T> {
    const sending: Sending = { meter: new AnswerMeter(), onExcess };
    try {
      const sent = await this.#sendings.run(sending, send);
      if (sending.excess !== undefined) throw sending.excess;
      return sent;
    } catch (cause) {
      if (sending.excess !== undefined) throw sending.excess;
      throw this.#isRefused(sending) ? refusal(cause, sending.challenge) : cause;
    } finally {
      endTurn(sending);
    }
  }

  /** Sends an answer to a request of the server. Streams are not read while many answers are under way. */
  async answering(send: () => Promise<void>): Promise<void> {
    await this.#answers.hold(() => this.sending(send));
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

  /** The requests of a stream, which no `sending` waits for, came to nothing. Called where it is known, within their context. */
  failed(): void {
    const sending = this.#sendings.getStore();
    if (sending !== undefined) endTurn(sending);
  }

  /** A message, or a stream that is asked for. */
  async #exchange(url: string | URL, init: RequestInit): Promise<Response> {
    const sending = this.#sendings.getStore() ?? { meter: new AnswerMeter() };
    // It has what it authorized for: what it does with that may take long, and others need not wait for it.
    endTurn(sending);
    const response = await this.#take(url, init, sending);
    const { auth } = this.#options;
    if (sending.challenge === undefined || auth === undefined) return response;
    const headers = new Headers(init.headers);
    await this.#takeTurn(sending, init);
    const token = await tokenOfOthers(auth, headers.get("authorization"));
    if (token === undefined) return response;
    endTurn(sending);
    await response.body?.cancel();
    headers.set("authorization", token);
    const again = await this.#take(url, { ...init, headers }, sending);
    if (sending.challenge !== undefined) await this.#takeTurn(sending, init);
    return again;
  }

  async #take(url: string | URL, init: RequestInit, sending: Sending): Promise<Response> {
    sending.wasAsked = true;
    const response = await this.#send(url, init);
    sending.challenge = challengeOf(response, this.#options.headers);
    return response;
  }

  async #takeTurn(sending: Sending, { method, signal }: RequestInit): Promise<void> {
    const before = this.#turns;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#turns = before.then(() => promise);
    sending.endTurn = resolve;
    // A stream that is given up delivers nothing more.
    if (method === "GET") signal?.addEventListener("abort", () => resolve(), { once: true });
    await before;
  }

  /** A request of an authorization, or one without an answer that is waited for. */
  async #ask(url: string | URL, init: RequestInit): Promise<Response> {
    const timed = new AbortController();
    const { clock, connectTimeoutMs } = this.#settings;
    const stop = clock.setTimer(connectTimeoutMs, () => {
      const message = `No answer came within ${connectTimeoutMs} ms.`;
      timed.abort(new DOMException(message, "TimeoutError"));
    });
    const signals = [timed.signal, this.#closing.signal, ...(init.signal ? [init.signal] : [])];
    try {
      const response = await this.#send(url, { ...init, signal: AbortSignal.any(signals) });
      if (response.body === null) return response;
      const { status, statusText, headers } = response;
      return new Response(await response.arrayBuffer(), { status, statusText, headers });
    } finally {
      stop();
    }
  }

  async #send(url: string | URL, init: RequestInit): Promise<Response> {
    return this.#bound(await (this.#options.fetch ?? fetch)(url, init), init);
  }

  #bound(response: Response, init: RequestInit): Response {
    const sending = this.#sendings.getStore() ?? { meter: new AnswerMeter() };
    const isStanding = response.ok && this.#isStandingStream(init);
    return boundResponse(response, {
      meter: isStanding ? new EventMeter() : sending.meter,
      json: new JsonMeter(isEventStream(response, init) ? "event" : "body"),
      what: isStanding ? "an event" : "its answer",
      maxBytes: this.#settings.maxResponseBytes,
      // The responses to our answers are read in any case: they end what is waited for.
      waitForTurn: () =>
        isStanding || sending.onExcess !== undefined ? this.#answers.wait() : undefined,
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
    process.emitWarning(`The stream of notifications of ${server} was closed: ${why}`, {
      type: "EspalierWarning",
      code: "mcp_response_too_large",
    });
  }
}

/** The most answers to requests of the server that may be under way before its streams are read on. */
const MAX_ANSWERS = 100;

/** The most answers that are sent at once. Each takes a socket. */
const MAX_SENDING = 20;

/** Counts the answers under way, so that a server cannot make us send without limit. */
class AnswerGate {
  #count = 0;
  readonly #sending = new Semaphore(MAX_SENDING);
  #opening: PromiseWithResolvers<void> | undefined;

  async hold(send: () => Promise<void>): Promise<void> {
    this.#count += 1;
    const release = await this.#sending.acquire(new CancelSignal());
    try {
      await send();
    } finally {
      release?.();
      this.#count -= 1;
      if (this.#count < MAX_ANSWERS) this.#open();
    }
  }

  /** Returns a promise while too many answers are under way. */
  wait(): Promise<void> | undefined {
    if (this.#count < MAX_ANSWERS) return undefined;
    this.#opening ??= Promise.withResolvers<void>();
    return this.#opening.promise;
  }

  #open(): void {
    this.#opening?.resolve();
    this.#opening = undefined;
  }
}

function endTurn(sending: Sending): void {
  sending.endTurn?.();
  delete sending.endTurn;
}

/** What to send now, if another request has got a token meanwhile. */
async function tokenOfOthers(
  auth: NonNullable<McpHttp["auth"]>,
  sent: string | null,
): Promise<string | undefined> {
  const now = "token" in auth ? await auth.token() : (await auth.tokens())?.access_token;
  // A token that is bound to a key is signed for each request, by the SDK.
  const isSigned = sent !== null && !sent.startsWith("Bearer ");
  return now === undefined || isSigned || `Bearer ${now}` === sent ? undefined : `Bearer ${now}`;
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
