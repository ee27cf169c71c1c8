// OpenAiConnection: an attempt of a model call over the `openai` client. Owns the client. Loaded at
// the first call, so that importing espalier stays cheap.
// - An attempt ends soon after its caller's signal is aborted (with that signal's reason), and at
//   the latest at its deadline.
// - Anything that follows a complete reply cannot spoil the reply, which the provider charges.
// - A request that was refused because of an optional field is sent once more without that field,
//   as part of the same attempt.

import { APIError, OpenAI, type ClientOptions } from "openai";

import {
  CancelSignal,
  removeAbortHandler,
  addAbortHandler,
  invoke,
} from "../../kernel/cancel-signal.ts";
import { isRecord, tryParseJson } from "../../kernel/json.ts";
import type { Clock } from "../../kernel/clock.ts";
import { findHeaderSecrets, findKeySecrets } from "../../kernel/redact-values.ts";
import type { GenerateOptions, ModelReply, ModelRequest } from "../model.ts";
import { ModelError } from "../model-error.ts";
import {
  findUncarriedError,
  type OpenAiApi,
  type FieldFallback,
  type ReplyStream,
  type WireApi,
} from "./answer-options.ts";
import { createChatApi } from "./streamed-reply.ts";
import {
  GrowingBytes,
  detectEventStream,
  EventSplitter,
  isWholeData,
} from "../server-sent-events.ts";
import {
  getTransport,
  type WireResponse,
  ACCEPTED_ENCODINGS,
  checkStatus,
  toWireResponse,
  toHeaders,
  readOpening,
  type RequestHead,
  type RequestTarget,
  type Send,
} from "./node-transport.ts";
import {
  failures,
  createProtocolError,
  toOpenAiError,
  preventBlindRetry,
  createUnreachedError,
} from "./openai-errors.ts";
import {
  isStackOverflow,
  addLostInput,
  type CallProgress,
  redactModelError,
  followRedirect,
  isRedirect,
} from "../http-errors.ts";
import { markOwnReply } from "../check-reply.ts";
import { computeReplyLimits, estimateReceivedTokens, type ReplyLimits } from "../reply-limits.ts";
import type { Proxy } from "./proxy.ts";
import { collectStrictTools, restoreReplyArguments } from "../strict-tools.ts";
import { isLastReplyRepaired } from "./request-fields.ts";
import { ResponsesApi } from "./streamed-response.ts";
import type { WireSettings } from "./to-openai.ts";

// LeanClient: uses two parts of the client of the `openai` package, the head of a request and its
// errors. Owns the heads, which are built once. Bypasses its transport, which takes as long as our
// whole request, describes each request and response for an unread log, follows redirects anywhere,
// and reads errors of any length. Only our code follows redirects, so that neither the key nor the
// prompt reaches another origin with any transport.

const ACCEPT_ENCODING = "accept-encoding";
const JSON_BODY = { "content-type": "application/json" };

interface LeanClientOptions extends Omit<ClientOptions, "fetch"> {
  /** Path of all requests, appended to the base URL. */
  readonly path: string;
  readonly send: Send;
  /**
   * True if `send` decodes bodies. Complete replies may then be compressed. Compression would delay
   * the pieces of a stream.
   */
  readonly isDecoding: boolean;
}

class LeanClient extends OpenAI {
  readonly #path: string;
  /** Heads by whether the reply is streamed. */
  readonly #heads = new Map<boolean, RequestHead>();
  readonly #send: Send;
  readonly #isDecoding: boolean;

  constructor({ path, send, isDecoding, ...options }: LeanClientOptions) {
    super(options);
    this.#path = path;
    this.#send = send;
    this.#isDecoding = isDecoding;
  }

  /**
   * Sends JSON and returns the response if its status is a success.
   *
   * @throws APIError for any other status.
   * @throws ModelError if there is no response; `model_invalid_request` for a redirect to another
   * origin, for a redirect that changes the request, or for the sixth redirect.
   */
  ask(stream: boolean, body: Buffer, signal: CancelSignal): Promise<WireResponse> {
    const head = this.#heads.get(stream);
    return head === undefined
      ? this.#createHead(stream).then((created) => this.#exchange(created, body, signal))
      : this.#exchange(head, body, signal);
  }

  /** The body is omitted, since the head does not depend on it. */
  async #createHead(stream: boolean): Promise<RequestHead> {
    const options = { method: "post", path: this.#path, stream, headers: JSON_BODY } as const;
    const { url, req } = await this.buildRequest(options);
    const { headers } = req;
    if (this.#isDecoding && !stream && !headers.has(ACCEPT_ENCODING))
      headers.set(ACCEPT_ENCODING, ACCEPTED_ENCODINGS);
    const head = { target: createRequestTarget(new URL(url)), headers: [...headers].flat() };
    this.#heads.set(stream, head);
    return head;
  }

  #exchange(
    head: RequestHead,
    body: Buffer,
    signal: CancelSignal,
    redirects = 0,
  ): Promise<WireResponse> {
    const sending = invoke(() => {
      if (signal.aborted) throw signal.reason;
      return this.#send(head, body, signal);
    });
    // Not awaited here: the closure of an async function would be retained by every waiting call.
    return sending.then(
      async (response) => {
        const { status } = response;
        if (status < 300) return response;
        const opening = await readOpening(response);
        const location = response.header("location");
        if (location === null || !isRedirect(status)) throw this.#createRefusal(response, opening);
        const redirect = { status, location, from: head.target.href, count: redirects };
        const option = "Set baseUrl to the address of the server";
        const target = createRequestTarget(followRedirect(redirect, failures, option));
        return await this.#exchange({ ...head, target }, body, signal, redirects + 1);
      },
      (thrown: unknown) => {
        throw createUnreachedError(thrown);
      },
    );
  }

  #createRefusal(response: WireResponse, opening: string): APIError {
    const { status } = response;
    const parsed = tryParseJson(opening);
    const report: unknown = Array.isArray(parsed) ? parsed[0] : parsed; // Google sends a list.
    const headers = response.headers();
    try {
      if (typeof report === "object" && report !== null)
        return this.makeStatusError(status, report, undefined, headers);
    } catch {
      // The client serialises a report without a message. This report is nested too deeply.
    }
    return APIError.generate(status, undefined, opening, headers);
  }
}

export function createRequestTarget(url: URL): RequestTarget {
  const { href, hostname, host, port, pathname, search } = url;
  const path = `${pathname}${search}`;
  return { href, host: hostname.replace(/^\[|\]$/g, ""), authority: host, port, path };
}

/** Sends requests by the user's `fetch`. */
export function createFetchSender(fetch: typeof globalThis.fetch): Send {
  return async ({ target, headers }, body, { abortSignal: signal }) => {
    const response = await fetch(target.href, {
      method: "POST",
      headers: toHeaders(headers),
      body: body.toString(),
      signal,
      redirect: "manual",
    });
    checkStatus(response.status); // `Response.error()` has no status.
    return toWireResponse(response);
  };
}

export interface ConnectionSettings extends WireSettings {
  readonly api: OpenAiApi;
  /** `undefined` if the server needs none. */
  readonly apiKey: string | undefined;
  readonly baseUrl: string | undefined;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof globalThis.fetch | undefined;
  /** `undefined` for a direct connection. Used only by our own transport. */
  readonly proxy: Proxy | undefined;
}

const OPENAI_URL = "https://api.openai.com/v1";
/** The client requires a key. A server that needs none ignores it. */
const NO_KEY = "none";
/**
 * Time for a server to end a stream after the last event. The connection of an ended stream serves
 * the next request.
 */
const MAX_END_MS = 1_000;
const NEVER_MS = 2 ** 31 - 1;
const NO_WARNINGS: readonly string[] = Object.freeze([]);
const UTF8 = new TextDecoder();

/** A request that was sent and has no reply. */
interface FailedRequest {
  readonly thrown: unknown;
  readonly progress: CallProgress;
  /** True if the attempt has ended by its deadline, and not by its caller. */
  readonly isLate: boolean;
  /** Returns true if the request would be written differently now. */
  readonly isChanged: () => boolean;
}

export class OpenAiConnection {
  readonly #settings: ConnectionSettings;
  readonly #client: LeanClient;
  readonly #api: WireApi;

  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
    this.#api =
      settings.api === "chat_completions" ? createChatApi(settings) : new ResponsesApi(settings);
    const { apiKey = NO_KEY, baseUrl = OPENAI_URL, headers, fetch, proxy } = settings;
    this.#client = new LeanClient({
      path: this.#api.path,
      apiKey,
      // Set explicitly, or the client would read the environment itself, later than we did.
      baseURL: baseUrl,
      defaultHeaders: { "User-Agent": "espalier", ...headers },
      // Retries and deadlines belong to our own layer.
      maxRetries: 0,
      timeout: NEVER_MS,
      send: fetch === undefined ? getTransport(baseUrl, proxy).send : createFetchSender(fetch),
      isDecoding: fetch === undefined,
    });
  }

  /** Implements `Model.generate`. */
  async generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply> {
    const { signal, onDelta, cacheKey } = options;
    const { timeoutMs, clock } = this.#settings;
    const uncarried = findUncarriedError(this.#api.name, "settings", request.settings ?? {});
    if (uncarried !== undefined) {
      const { message, data } = uncarried;
      throw new ModelError({ code: "model_invalid_request", message, data });
    }
    signal.throwIfAborted();
    /** Ends the attempt: aborted by its caller, at its deadline, or by its reader. */
    const stop = new CancelSignal();
    const follow = (): void => stop.abort(signal.reason);
    addAbortHandler(signal, follow);
    const scheduleStop = (ms: number): (() => void) =>
      clock.setTimer(ms, () => stop.abort(undefined));
    const stopDeadline = scheduleStop(timeoutMs);
    const limits = computeReplyLimits(request.maxOutputTokens);
    const write = (): Buffer => this.#api.write({ ...request, cacheKey }, onDelta !== undefined);
    let warnings: readonly string[] = NO_WARNINGS;
    try {
      for (;;) {
        const stream = onDelta && this.#api.stream(limits, onDelta);
        const answer = new AnswerReader(this.#api, limits, stream, () => scheduleStop(MAX_END_MS));
        const body = write();
        let reply: ModelReply | FieldFallback;
        try {
          const response = await this.#client.ask(onDelta !== undefined, body, stop);
          const strictTools = collectStrictTools(request.tools, this.#settings.options.strictTools);
          reply = restoreReplyArguments(await answer.read(response), strictTools);
        } catch (thrown) {
          signal.throwIfAborted();
          const isChanged = (): boolean => !write().equals(body);
          const failed = { thrown, progress: answer.progress, isLate: stop.aborted, isChanged };
          reply = this.#handleFailure(request, limits, failed);
        }
        if (!("warning" in reply))
          return markOwnReply(warnings.length === 0 ? reply : addWarnings(reply, warnings));
        if (reply.warning !== undefined) warnings = [...warnings, reply.warning];
      }
    } finally {
      stopDeadline();
      removeAbortHandler(signal, follow);
    }
  }

  /**
   * Returns the rescued reply, or the dropped field if the request is to be sent again. Otherwise
   * throws the failure.
   */
  #handleFailure(
    request: ModelRequest,
    limits: ReplyLimits,
    { thrown, progress, isLate, isChanged }: FailedRequest,
  ): ModelReply | FieldFallback {
    const rescued =
      thrown instanceof APIError ? this.#api.rescue?.(thrown.error, limits) : undefined;
    if (rescued !== undefined) return rescued;
    const { apiKey, headers, timeoutMs } = this.#settings;
    const secrets = [...findKeySecrets(apiKey), ...findHeaderSecrets(headers)];
    const failed = isLate
      ? failures.timeout(timeoutMs, progress.lostOutputTokens)
      : redactModelError(toOpenAiError(thrown, progress, this.#api.name), secrets);
    const error = addLostInput(failed, progress.lostInput);
    // Only if nothing was charged.
    const isPaid = isLate || error.lostOutputTokens !== undefined;
    const fallback = isPaid ? undefined : this.#api.dropRejectedField?.(request, error);
    if (fallback !== undefined && isChanged()) return fallback;
    throw isLastReplyRepaired(request.messages) ? preventBlindRetry(error) : error;
  }
}

function addWarnings(reply: ModelReply, warnings: readonly string[]): ModelReply {
  return { ...reply, warnings: [...warnings, ...(reply.warnings ?? [])] };
}

/**
 * Reads the answer to one request: in pieces if they are requested and supported, else as a whole.
 */
class AnswerReader {
  readonly #api: WireApi;
  readonly #limits: ReplyLimits;
  readonly #reply: ReplyStream | undefined;
  readonly #scheduleClose: () => () => void;
  #hasHead = false;
  /**
   * The beginning of the body, or a whole JSON body, which some servers send in place of a stream.
   */
  readonly #opening: GrowingBytes;
  #isJson = false;

  /**
   * `scheduleClose` closes the stream after a short time. The function that it returns cancels
   * this.
   */
  constructor(
    api: WireApi,
    limits: ReplyLimits,
    reply: ReplyStream | undefined,
    scheduleClose: () => () => void,
  ) {
    this.#api = api;
    this.#limits = limits;
    this.#reply = reply;
    this.#scheduleClose = scheduleClose;
    this.#opening = new GrowingBytes(limits.bodyBytes);
  }

  get progress(): CallProgress {
    const isAnswering = this.#hasHead;
    // The length of a broken body is unknown, but the model had written.
    const bodyTokens = isAnswering ? 0 : undefined;
    const { lostOutputTokens, lostInput } = this.#reply ?? { lostOutputTokens: bodyTokens };
    return { isAnswering, lostOutputTokens, lostInput };
  }

  async read(response: WireResponse): Promise<ModelReply> {
    this.#hasHead = true;
    const reply = this.#reply;
    this.#isJson =
      reply === undefined || /application\/json/i.test(response.header("content-type") ?? "");
    const events = new EventSplitter();
    try {
      try {
        await this.#readPieces(response, events);
      } catch (thrown) {
        if (thrown instanceof ModelError) throw thrown;
        if (this.#isJson || reply === undefined) return this.#readBody(thrown);
        // The last event may be complete except for the blank line after it.
        events.end((data) => void (isWholeData(data) && reply.take(data)));
        throw thrown;
      }
      if (this.#isJson || reply === undefined) return this.#readBody();
      events.end((data) => {
        if (isWholeData(data)) reply.take(data);
        else if (!reply.isComplete) throw failures.cutStream(reply.lostOutputTokens);
      });
      // For example an HTML page.
      const text = UTF8.decode(this.#opening.bytes).trim();
      if (text !== "" && detectEventStream(text) === false)
        throw createProtocolError(`a body that is not a stream of events: ${text}`, undefined);
    } catch (thrown) {
      if (reply?.isComplete !== true) throw thrown;
    }
    return reply.finish();
  }

  /**
   * Reads a reply that was not streamed. `failure`: the failure after it, thrown if the reply is
   * incomplete.
   */
  #readBody(failure?: unknown): ModelReply {
    const { bytes } = this.#opening;
    const body = UTF8.decode(bytes);
    if (failure !== undefined && !isRecord(tryParseJson(body))) throw failure;
    try {
      return this.#api.read(body, this.#limits);
    } catch (thrown) {
      throw isStackOverflow(thrown)
        ? failures.tooDeep(estimateReceivedTokens(bytes.length, this.#limits))
        : thrown;
    }
  }

  async #readPieces(response: WireResponse, events: EventSplitter): Promise<void> {
    const reply = this.#reply;
    const { lineBytes, streamBytes, bodyBytes } = this.#limits;
    const take = (data: string): void => reply?.take(data);
    /**
     * Buffered bytes of a body or an unfinished event are charged too, since they may be the whole
     * answer so far.
     */
    const createExcessError = (got: string, heldBytes: number): ModelError => {
      const lost = reply?.lostOutputTokens ?? 0;
      return failures.excess(got, Math.max(lost, estimateReceivedTokens(heldBytes, this.#limits)));
    };
    let bytes = 0;
    let cancelClose: (() => void) | undefined;
    try {
      for await (const piece of response.pieces) {
        const isOpening = bytes < OPENING_BYTES;
        bytes += piece.length;
        if (this.#isJson && bytes > bodyBytes)
          throw createExcessError(`a body of more than ${bodyBytes} bytes`, bytes);
        if (isOpening || this.#isJson) this.#opening.push(piece);
        if (isOpening) this.#isJson ||= isJsonStart(this.#opening.bytes);
        if (this.#isJson) continue;
        if (bytes > streamBytes)
          throw createExcessError(`a stream of more than ${streamBytes} bytes`, 0);
        events.push(piece, take);
        if (reply?.isCut === true) return; // Leaving the loop closes the connection.
        const bufferedBytes = events.heldBytes;
        if (bufferedBytes > lineBytes)
          throw createExcessError(`an event of more than ${lineBytes} bytes`, bufferedBytes);
        if (reply?.isOver === true) cancelClose ??= this.#scheduleClose();
      }
    } finally {
      cancelClose?.();
    }
  }
}

const OPENING_BYTES = 1_000;

function isJsonStart(bytes: Uint8Array): boolean {
  const first = bytes.find((byte) => byte > 32);
  return first === 123 || first === 91; // "{" and "["
}
