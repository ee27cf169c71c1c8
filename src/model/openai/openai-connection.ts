// OpenAiConnection: one attempt at one model call over the `openai` client.
// Owns the client. Loaded at the first call only, so that importing espalier stays cheap.
// A1. An attempt ends soon after its caller's signal was aborted (with that signal's reason) and at the latest at its deadline.
// A2. What comes after a complete reply cannot spoil it: it is paid for.
// A3. A request that was refused for something that it need not have is sent once more without it, as part of the same attempt.

import { APIError } from "openai";

import { CancelSignal, offAbort, onAbort } from "../../kernel/cancel.ts";
import { isRecord } from "../../kernel/json.ts";
import type { Clock } from "../../kernel/clock.ts";
import { findHeaderSecrets, findKeySecrets } from "../../kernel/redact-values.ts";
import type { GenerateOptions, ModelReply, ModelRequest } from "../model.ts";
import { ModelError } from "../model-error.ts";
import { uncarriedError } from "./answer-options.ts";
import { chatApi } from "./chat-api.ts";
import { LeanClient } from "./lean-client.ts";
import { GrowingBytes } from "../growing-bytes.ts";
import { transportTo } from "./node-transport.ts";
import {
  failures,
  protocolError,
  toModelError,
  uncarriedSettingError,
  withoutBlindRetry,
} from "./openai-errors.ts";
import { isStackOverflow, withLostInput, type CallProgress } from "../http-errors.ts";
import { ownReply } from "../check-reply.ts";
import { replyLimits, tokensThatCame, type ReplyLimits } from "../reply-limits.ts";
import type { Proxy } from "./proxy.ts";
import { redactModelError } from "../redact-model-error.ts";
import { sendBy } from "./send-request.ts";
import { beginsWithEvent, EventSplitter, isWholeData } from "../server-sent-events.ts";
import { heldTools, unheld } from "../held-tools.ts";
import { isLastReplyMended } from "./mended-arguments.ts";
import { ResponsesApi } from "./responses-api.ts";
import type { WireSettings } from "./to-openai.ts";
import type { OpenAiApi, Relented, ReplyStream, WireApi } from "./wire-api.ts";
import { parseWireJson } from "../wire-json.ts";
import type { WireResponse } from "./wire-response.ts";

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
  readonly body: Buffer;
  readonly progress: CallProgress;
  /** Its attempt is over: its time, if not its caller. */
  readonly isLate: boolean;
}

export class OpenAiConnection {
  readonly #settings: ConnectionSettings;
  readonly #client: LeanClient;
  readonly #api: WireApi;

  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
    this.#api = settings.api === "chat" ? chatApi(settings) : new ResponsesApi(settings);
    this.#client = clientOf(settings, this.#api.path);
  }

  /** As `Model.generate`. */
  async generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply> {
    const { signal, onDelta } = options;
    const { timeoutMs, clock } = this.#settings;
    const uncarried = uncarriedError(this.#api.name, "settings", request.settings ?? {});
    if (uncarried !== undefined) throw uncarriedSettingError(uncarried);
    signal.throwIfAborted();
    /** Of the attempt: aborted with its caller, at its deadline, or by its reader. */
    const stop = new CancelSignal();
    const follow = (): void => stop.abort(signal.reason);
    onAbort(signal, follow);
    const stopDeadline = clock.setTimer(timeoutMs, () => stop.abort(undefined));
    let warnings: readonly string[] = NO_WARNINGS;
    try {
      for (;;) {
        const answer = this.#answerTo(request, onDelta, stop);
        const body = this.#bodyOf(request, options);
        let reply: ModelReply | Relented;
        try {
          const answered = await this.#client.ask(onDelta !== undefined, body, stop);
          reply = await answer.read(this.#client.responseOf(answered));
          reply = unheld(reply, heldTools(request.tools, this.#settings.options.strictTools));
        } catch (thrown) {
          signal.throwIfAborted();
          const { progress } = answer;
          const failed = { thrown, body, progress, isLate: stop.aborted };
          reply = this.#afterFailure(request, options, failed);
        }
        if (!("warning" in reply))
          return ownReply(warnings.length === 0 ? reply : withWarnings(reply, warnings));
        if (reply.warning !== undefined) warnings = [...warnings, reply.warning];
      }
    } finally {
      stopDeadline();
      offAbort(signal, follow);
    }
  }

  #bodyOf(request: ModelRequest, { onDelta, cacheKey }: GenerateOptions): Buffer {
    return this.#api.write({ ...request, cacheKey }, onDelta !== undefined);
  }

  /** The reply after all, or what is left out when the request is sent again; else throws what its failure means. */
  #afterFailure(
    request: ModelRequest,
    options: GenerateOptions,
    { thrown, body, progress, isLate }: FailedRequest,
  ): ModelReply | Relented {
    const rescued = this.#rescued(thrown, request);
    if (rescued !== undefined) return rescued;
    const { apiKey, headers } = this.#settings;
    const secrets = [...findKeySecrets(apiKey), ...findHeaderSecrets(headers)];
    const failed = isLate
      ? failures.timeout(this.#settings.timeoutMs, progress.lostOutputTokens)
      : redactModelError(toModelError(thrown, progress, this.#api.name), secrets);
    const error = withLostInput(failed, progress.lostInput);
    if (isLate) throw error;
    const relented = this.#relent(request, error);
    if (relented !== undefined && !this.#bodyOf(request, options).equals(body)) return relented;
    throw isLastReplyMended(request.messages) ? withoutBlindRetry(error) : error;
  }

  #answerTo(
    { maxOutputTokens }: ModelRequest,
    onDelta: GenerateOptions["onDelta"],
    stop: CancelSignal,
  ): Answer {
    const limits = replyLimits(maxOutputTokens);
    if (onDelta === undefined) return new Answer(this.#api, limits, undefined);
    const letGo = (): (() => void) =>
      this.#settings.clock.setTimer(LONGEST_END_MS, () => stop.abort(undefined));
    return new Answer(this.#api, limits, { onDelta, letGo });
  }

  #rescued(thrown: unknown, { maxOutputTokens }: ModelRequest): ModelReply | undefined {
    if (!(thrown instanceof APIError)) return undefined;
    return this.#api.rescue?.(thrown.error, replyLimits(maxOutputTokens));
  }

  /** Only as long as nothing was paid for (A3). */
  #relent(request: ModelRequest, error: ModelError): Relented | undefined {
    return error.lostOutputTokens === undefined ? this.#api.relent?.(request, error) : undefined;
  }
}

function clientOf(settings: ConnectionSettings, path: string): LeanClient {
  const { apiKey = NO_KEY, baseUrl = OPENAI_URL, headers, fetch, proxy } = settings;
  return new LeanClient({
    path,
    apiKey,
    // Said, or the client would look into the environment itself, later than we did.
    baseURL: baseUrl,
    defaultHeaders: { "User-Agent": "espalier", ...headers },
    // One layer retries, and one deadline counts: ours.
    maxRetries: 0,
    timeout: NEVER_MS,
    send: fetch === undefined ? transportTo(baseUrl, proxy).send : sendBy(fetch),
    isDecoding: fetch === undefined,
  });
}

/** How pieces of a reply are handed on. */
interface Streaming {
  readonly onDelta: NonNullable<GenerateOptions["onDelta"]>;
  /** Has the stream closed soon, unless what it gives is called before. */
  readonly letGo: () => () => void;
}

/** The answer to one request: in pieces, if they are asked for and the server supports it, or else as a whole. */
class Answer {
  readonly #api: WireApi;
  readonly #limits: ReplyLimits;
  readonly #streaming: Streaming | undefined;
  readonly #reply: ReplyStream | undefined;
  #hasHead = false;

  constructor(api: WireApi, limits: ReplyLimits, streaming: Streaming | undefined) {
    this.#api = api;
    this.#limits = limits;
    this.#streaming = streaming;
    this.#reply = streaming === undefined ? undefined : api.stream(limits, streaming.onDelta);
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
    const opening = new Opening(reply === undefined || isJson(response), this.#limits.bodyBytes);
    const events = new EventSplitter();
    try {
      try {
        await this.#readPieces(response, { events, opening });
      } catch (thrown) {
        if (thrown instanceof ModelError) throw thrown;
        if (opening.isJson || reply === undefined) return this.#readBody(opening.bytes, thrown);
        // The last event may have come whole, but for the blank line after it.
        events.end((data) => takeLast(data, reply, true));
        throw thrown;
      }
      if (opening.isJson || reply === undefined) return this.#readBody(opening.bytes);
      events.end((data) => takeLast(data, reply, false));
      opening.check();
    } catch (thrown) {
      if (reply?.isComplete !== true) throw thrown;
    }
    return reply.finish();
  }

  /** Reads a reply that came in one piece. `broken`: the failure behind it, thrown if it is not whole. */
  #readBody(bytes: Uint8Array, broken?: unknown): ModelReply {
    const body = UTF8.decode(bytes);
    if (broken !== undefined && !isRecord(parseWireJson(body))) throw broken;
    try {
      return this.#api.read(body, this.#limits);
    } catch (thrown) {
      throw isStackOverflow(thrown)
        ? failures.tooDeep(tokensThatCame(bytes.length, this.#limits))
        : thrown;
    }
  }

  async #readPieces(
    response: WireResponse,
    { events, opening }: { readonly events: EventSplitter; readonly opening: Opening },
  ): Promise<void> {
    const reply = this.#reply;
    const { lineBytes, streamBytes, bodyBytes } = this.#limits;
    const take = (data: string): void => reply?.take(data);
    /** What is kept of a body or an unfinished event is charged, too: nothing else may have come. */
    const excess = (got: string, heldBytes: number): ModelError => {
      const lost = reply?.lostOutputTokens ?? 0;
      return failures.excess(got, Math.max(lost, tokensThatCame(heldBytes, this.#limits)));
    };
    let bytes = 0;
    let stay: (() => void) | undefined;
    try {
      for await (const piece of response.pieces) {
        const isOpening = bytes < OPENING_BYTES;
        bytes += piece.length;
        if (opening.isJson && bytes > bodyBytes)
          throw excess(`a body of more than ${bodyBytes} bytes`, bytes);
        if (isOpening || opening.isJson) opening.push(piece);
        if (opening.isJson) continue;
        if (bytes > streamBytes) throw excess(`a stream of more than ${streamBytes} bytes`, 0);
        events.push(piece, take);
        if (reply?.isCut === true) return; // Leaving the loop closes the connection.
        const held = events.heldBytes;
        if (held > lineBytes) throw excess(`an event of more than ${lineBytes} bytes`, held);
        if (reply?.isOver === true) stay ??= this.#streaming?.letGo();
      }
    } finally {
      stay?.();
    }
  }
}

const OPENING_BYTES = 1_000;
const JSON_STARTS: readonly unknown[] = [123, 91]; // "{" and "["
const SPACE = 32;

/** The beginning of a body, or all of a body of JSON: some servers send one in place of a stream. */
class Opening {
  readonly #bytes: GrowingBytes;
  isJson: boolean;

  /** `isJson`: true if the body cannot be a stream of events. */
  constructor(isJson: boolean, mostBytes: number) {
    this.isJson = isJson;
    this.#bytes = new GrowingBytes(mostBytes);
  }

  get bytes(): Uint8Array {
    return this.#bytes.bytes;
  }

  push(piece: Uint8Array): void {
    this.#bytes.push(piece);
    this.isJson ||= JSON_STARTS.includes(this.bytes.find((byte) => byte > SPACE));
  }

  /** Throws `model_protocol_error` for a page of HTML and the like. */
  check(): void {
    const text = UTF8.decode(this.bytes).trim();
    if (text === "" || beginsWithEvent(text) !== false) return;
    throw protocolError(`a body that is not a stream of events: ${text}`, undefined);
  }
}

function withWarnings(reply: ModelReply, warnings: readonly string[]): ModelReply {
  return { ...reply, warnings: [...warnings, ...(reply.warnings ?? [])] };
}

function isJson(response: WireResponse): boolean {
  return /application\/json/i.test(response.header("content-type") ?? "");
}

/** Takes the last data of a stream that ended, or that broke and fails with another error. */
function takeLast(data: string, reply: ReplyStream, hasBroken: boolean): void {
  if (isWholeData(data)) reply.take(data);
  else if (!hasBroken && !reply.isComplete) throw failures.cutStream(reply.lostOutputTokens);
}
