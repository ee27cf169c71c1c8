// OpenAiConnection: one attempt at one model call over the `openai` client.
// Owns the client. Loaded at the first call only, so that importing espalier stays cheap.
// - An attempt ends soon after its caller's signal was aborted (with that signal's reason) and at the latest at its deadline.
// - What comes after a complete reply cannot spoil it: it is paid for.
// - A request that was refused for something that it need not have is sent once more without it, as part of the same attempt.

import { APIError, OpenAI, type ClientOptions } from "openai";

import { CancelSignal, removeAbortHandler, addAbortHandler, invoke } from "../../kernel/cancel.ts";
import { isRecord, tryParseJson } from "../../kernel/json.ts";
import type { Clock } from "../../kernel/clock.ts";
import { findHeaderSecrets, findKeySecrets } from "../../kernel/redact-values.ts";
import type { GenerateOptions, ModelReply, ModelRequest } from "../model.ts";
import { ModelError } from "../model-error.ts";
import {
  findUncarriedError,
  type OpenAiApi,
  type Relented,
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
  createUncarriedSettingError,
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
import { collectHeldTools, restoreReplyArguments } from "../held-tools.ts";
import { isLastReplyMended } from "./request-fields.ts";
import { ResponsesApi } from "./streamed-response.ts";
import type { WireSettings } from "./to-openai.ts";

// LeanClient: what we have of the client of the `openai` package: the head of a request, and its own errors.
// Owns the heads, which are built once. Its way to send is passed by: it takes as long as ours for the whole of a request, describes each
// request and response for a log that has no reader, would follow redirects anywhere, and read an error of any length.
// Redirects are followed by us alone, so that neither the key nor the prompt reaches another origin, whatever sends the requests.

const ACCEPT_ENCODING = "accept-encoding";
const JSON_BODY = { "content-type": "application/json" };

interface LeanClientOptions extends Omit<ClientOptions, "fetch"> {
  /** Of all requests, behind the base URL. */
  readonly path: string;
  readonly send: Send;
  /** `send` decodes what comes. Then a whole reply may come compressed; pieces of a stream would be held up by that. */
  readonly isDecoding: boolean;
}

class LeanClient extends OpenAI {
  readonly #path: string;
  /** By whether the reply is streamed. */
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
   * Returns the response to a request of JSON, if it is a success.
   *
   * @throws APIError by the status of any other; ModelError if there is none, and `model_invalid_request` for a redirect to another
   * origin, one that changes the request, or the sixth.
   */
  ask(stream: boolean, body: Buffer, signal: CancelSignal): Promise<WireResponse> {
    const head = this.#heads.get(stream);
    return head === undefined
      ? this.#newHead(stream).then((made) => this.#exchange(made, body, signal))
      : this.#exchange(head, body, signal);
  }

  /** The body is left out: nothing in a head goes by it. */
  async #newHead(stream: boolean): Promise<RequestHead> {
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
    // Not awaited here: what an async function holds while it waits is held by every call that waits.
    return sending.then(
      async (response) => {
        const { status } = response;
        if (status < 300) return response;
        const opening = await readOpening(response);
        const location = response.header("location");
        if (location === null || !isRedirect(status)) throw this.#refusal(response, opening);
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

  #refusal(response: WireResponse, opening: string): APIError {
    const { status } = response;
    const parsed = tryParseJson(opening);
    const report: unknown = Array.isArray(parsed) ? parsed[0] : parsed; // Google sends a list of one.
    const headers = response.headers();
    try {
      if (typeof report === "object" && report !== null)
        return this.makeStatusError(status, report, undefined, headers);
    } catch {
      // The client writes a report without a message as JSON: this one is nested too deep for that.
    }
    return APIError.generate(status, undefined, opening, headers);
  }
}

export function createRequestTarget(url: URL): RequestTarget {
  const { href, hostname, host, port, pathname, search } = url;
  const path = `${pathname}${search}`;
  return { href, host: hostname.replace(/^\[|\]$/g, ""), authority: host, port, path };
}

/** Sends requests by a `fetch` of the user's. */
export function createFetchSender(fetch: typeof globalThis.fetch): Send {
  return async ({ target, headers }, body, { abortSignal: signal }) => {
    const response = await fetch(target.href, {
      method: "POST",
      headers: toHeaders(headers),
      body: body.toString(),
      signal,
      redirect: "manual",
    });
    checkStatus(response.status); // `Response.error()` has none.
    return toWireResponse(response);
  };
}

export interface ConnectionSettings extends WireSettings {
  readonly api: OpenAiApi;
  /** Undefined: the server needs none. */
  readonly apiKey: string | undefined;
  readonly baseUrl: string | undefined;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof globalThis.fetch | undefined;
  /** Undefined: the way to the server is direct. Only for our own transport. */
  readonly proxy: Proxy | undefined;
}

const OPENAI_URL = "https://api.openai.com/v1";
/** The client wants some key; a server that needs none does not look at it. */
const NO_KEY = "none";
/** How long a server may take to end a stream in which nothing more can come: one that has ended serves the next request. */
const LONGEST_END_MS = 1_000;
const NEVER_MS = 2 ** 31 - 1;
const NO_WARNINGS: readonly string[] = Object.freeze([]);
const UTF8 = new TextDecoder();

/** A request that was sent, and to which there is no reply. */
interface FailedRequest {
  readonly thrown: unknown;
  readonly progress: CallProgress;
  /** Its attempt is over: its time, if not its caller. */
  readonly isLate: boolean;
  /** True if the request would be written otherwise now. */
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
      // Said, or the client would look into the environment itself, later than we did.
      baseURL: baseUrl,
      defaultHeaders: { "User-Agent": "espalier", ...headers },
      // One layer retries, and one deadline counts: ours.
      maxRetries: 0,
      timeout: NEVER_MS,
      send: fetch === undefined ? getTransport(baseUrl, proxy).send : createFetchSender(fetch),
      isDecoding: fetch === undefined,
    });
  }

  /** As `Model.generate`. */
  async generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply> {
    const { signal, onDelta, cacheKey } = options;
    const { timeoutMs, clock } = this.#settings;
    const uncarried = findUncarriedError(this.#api.name, "settings", request.settings ?? {});
    if (uncarried !== undefined) throw createUncarriedSettingError(uncarried);
    signal.throwIfAborted();
    /** Of the attempt: aborted with its caller, at its deadline, or by its reader. */
    const stop = new CancelSignal();
    const follow = (): void => stop.abort(signal.reason);
    addAbortHandler(signal, follow);
    const stopIn = (ms: number): (() => void) => clock.setTimer(ms, () => stop.abort(undefined));
    const stopDeadline = stopIn(timeoutMs);
    const limits = computeReplyLimits(request.maxOutputTokens);
    const write = (): Buffer => this.#api.write({ ...request, cacheKey }, onDelta !== undefined);
    let warnings: readonly string[] = NO_WARNINGS;
    try {
      for (;;) {
        const stream = onDelta && this.#api.stream(limits, onDelta);
        const answer = new AnswerReader(this.#api, limits, stream, () => stopIn(LONGEST_END_MS));
        const body = write();
        let reply: ModelReply | Relented;
        try {
          const response = await this.#client.ask(onDelta !== undefined, body, stop);
          const held = collectHeldTools(request.tools, this.#settings.options.strictTools);
          reply = restoreReplyArguments(await answer.read(response), held);
        } catch (thrown) {
          signal.throwIfAborted();
          const isChanged = (): boolean => !write().equals(body);
          const failed = { thrown, progress: answer.progress, isLate: stop.aborted, isChanged };
          reply = this.#afterFailure(request, limits, failed);
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

  /** Returns the reply after all, or what is left out when the request is sent again; else throws what its failure means. */
  #afterFailure(
    request: ModelRequest,
    limits: ReplyLimits,
    { thrown, progress, isLate, isChanged }: FailedRequest,
  ): ModelReply | Relented {
    const rescued =
      thrown instanceof APIError ? this.#api.rescue?.(thrown.error, limits) : undefined;
    if (rescued !== undefined) return rescued;
    const { apiKey, headers, timeoutMs } = this.#settings;
    const secrets = [...findKeySecrets(apiKey), ...findHeaderSecrets(headers)];
    const failed = isLate
      ? failures.timeout(timeoutMs, progress.lostOutputTokens)
      : redactModelError(toOpenAiError(thrown, progress, this.#api.name), secrets);
    const error = addLostInput(failed, progress.lostInput);
    // Only as long as nothing was paid for .
    const isPaid = isLate || error.lostOutputTokens !== undefined;
    const relented = isPaid ? undefined : this.#api.relent?.(request, error);
    if (relented !== undefined && isChanged()) return relented;
    throw isLastReplyMended(request.messages) ? preventBlindRetry(error) : error;
  }
}

function addWarnings(reply: ModelReply, warnings: readonly string[]): ModelReply {
  return { ...reply, warnings: [...warnings, ...(reply.warnings ?? [])] };
}

/** The answer to one request: in pieces, if they are asked for and the server supports it, or else as a whole. */
class AnswerReader {
  readonly #api: WireApi;
  readonly #limits: ReplyLimits;
  readonly #reply: ReplyStream | undefined;
  readonly #closeSoon: () => () => void;
  #hasHead = false;
  /** The beginning of the body, or all of a body of JSON: some servers send one in place of a stream. */
  readonly #opening: GrowingBytes;
  #isJson = false;

  /** `closeSoon` has the stream closed soon, unless the function that it returns is called before. */
  constructor(
    api: WireApi,
    limits: ReplyLimits,
    reply: ReplyStream | undefined,
    closeSoon: () => () => void,
  ) {
    this.#api = api;
    this.#limits = limits;
    this.#reply = reply;
    this.#closeSoon = closeSoon;
    this.#opening = new GrowingBytes(limits.bodyBytes);
  }

  get progress(): CallProgress {
    const isAnswering = this.#hasHead;
    // How much of a broken body had arrived is not known, only that the model had written.
    const ofBody = isAnswering ? 0 : undefined;
    const { lostOutputTokens, lostInput } = this.#reply ?? { lostOutputTokens: ofBody };
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
        // The last event may have come whole, but for the blank line after it.
        events.end((data) => void (isWholeData(data) && reply.take(data)));
        throw thrown;
      }
      if (this.#isJson || reply === undefined) return this.#readBody();
      events.end((data) => {
        if (isWholeData(data)) reply.take(data);
        else if (!reply.isComplete) throw failures.cutStream(reply.lostOutputTokens);
      });
      // A page of HTML and the like.
      const text = UTF8.decode(this.#opening.bytes).trim();
      if (text !== "" && detectEventStream(text) === false)
        throw createProtocolError(`a body that is not a stream of events: ${text}`, undefined);
    } catch (thrown) {
      if (reply?.isComplete !== true) throw thrown;
    }
    return reply.finish();
  }

  /** Reads a reply that came in one piece. `broken`: the failure behind it, thrown if it is not whole. */
  #readBody(broken?: unknown): ModelReply {
    const { bytes } = this.#opening;
    const body = UTF8.decode(bytes);
    if (broken !== undefined && !isRecord(tryParseJson(body))) throw broken;
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
    /** What is kept of a body or an unfinished event is charged, too: nothing else may have come. */
    const excess = (got: string, heldBytes: number): ModelError => {
      const lost = reply?.lostOutputTokens ?? 0;
      return failures.excess(got, Math.max(lost, estimateReceivedTokens(heldBytes, this.#limits)));
    };
    let bytes = 0;
    let stay: (() => void) | undefined;
    try {
      for await (const piece of response.pieces) {
        const isOpening = bytes < OPENING_BYTES;
        bytes += piece.length;
        if (this.#isJson && bytes > bodyBytes)
          throw excess(`a body of more than ${bodyBytes} bytes`, bytes);
        if (isOpening || this.#isJson) this.#opening.push(piece);
        if (isOpening) this.#isJson ||= isJsonStart(this.#opening.bytes);
        if (this.#isJson) continue;
        if (bytes > streamBytes) throw excess(`a stream of more than ${streamBytes} bytes`, 0);
        events.push(piece, take);
        if (reply?.isCut === true) return; // Leaving the loop closes the connection.
        const held = events.heldBytes;
        if (held > lineBytes) throw excess(`an event of more than ${lineBytes} bytes`, held);
        if (reply?.isOver === true) stay ??= this.#closeSoon();
      }
    } finally {
      stay?.();
    }
  }
}

const OPENING_BYTES = 1_000;

function isJsonStart(bytes: Uint8Array): boolean {
  const first = bytes.find((byte) => byte > 32);
  return first === 123 || first === 91; // "{" and "["
}
