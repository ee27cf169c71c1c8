// AiSdkConnection: one attempt at one model call over a model of the AI SDK.
// Owns what is learnt of the model's cap. What differs between providers is in provider-options.ts and output-cap.ts.
// A1. An attempt ends soon after its caller's signal was aborted (with that signal's reason) and at the latest at its deadline, whether
//     or not the provider obeys the signal.
// A2. No reply is read that was asked for with a higher cap than the request's.
// A3. What comes after a complete reply cannot spoil it: it is paid for.

import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4StreamPart,
} from "@ai-sdk/provider";

import { invoke, linkedController, onAbort } from "../../kernel/cancel.ts";
import type { Clock } from "../../kernel/clock.ts";
import { messageOf } from "../../kernel/error.ts";
import { findHeaderSecrets } from "../../kernel/redact-values.ts";
import { ModelError } from "../model-error.ts";
import type { GenerateOptions, ModelReply, ModelRequest } from "../model.ts";
import { withLostInput } from "../http-errors.ts";
import { heldTools, unheld } from "../held-tools.ts";
import { redactModelError } from "../redact-model-error.ts";
import { replyLimits } from "../reply-limits.ts";
import { capError, failures, strangeError, toModelError } from "./ai-sdk-errors.ts";
import { callOptions, type CallSettings } from "./call-options.ts";
import type { FetchedAddresses } from "./taken-content.ts";
import { OutputCap, sentCap, type AskedOptions } from "./output-cap.ts";
import { SdkReply } from "./sdk-reply.ts";

type Parts = ReadableStream<LanguageModelV4StreamPart>;

export class AiSdkConnection {
  readonly #settings: CallSettings;
  readonly #cap = new OutputCap();
  /** Undefined: not asked yet. */
  #fetched: FetchedAddresses | undefined;

  constructor(settings: CallSettings) {
    this.#settings = settings;
  }

  /** As `Model.generate`. */
  async generate(
    request: ModelRequest,
    { signal, onDelta, cacheKey }: GenerateOptions,
  ): Promise<ModelReply> {
    signal.throwIfAborted();
    const { timeoutMs, clock, model } = this.#settings;
    const limits = replyLimits(request.maxOutputTokens);
    const reply = new SdkReply(limits, model.provider, onDelta);
    const attempt = linkedController(signal);
    const { signal: attemptSignal } = attempt.controller;
    const stopDeadline = clock.setTimer(timeoutMs, () => attempt.controller.abort());
    try {
      this.#fetched ??= await withinSignal(attemptSignal, model.supportedUrls);
      const facts = { cacheKey, fetched: this.#fetched ?? {} };
      const { options, warnings } = callOptions(request, this.#settings, facts);
      const asked = { ...options, abortSignal: attemptSignal, includeRawChunks: true };
      const opened = await this.#open(asked, request.maxOutputTokens);
      reply.contentType = opened.contentType;
      await readParts(opened.parts, { signal: attemptSignal, clock }, reply);
      signal.throwIfAborted();
      // At the deadline a reply may have come whole, on a stream that its server leaves open.
      if (attemptSignal.aborted) reply.end();
      if (!reply.isComplete) attemptSignal.throwIfAborted();
      const whole = reading(reply, () => reply.finish([...warnings, ...opened.warnings]));
      return unheld(whole, heldTools(request.tools, false));
    } catch (thrown) {
      signal.throwIfAborted();
      const { progress } = reply;
      const { lostOutputTokens, lostInput } = progress;
      if (attemptSignal.aborted)
        throw withLostInput(failures.timeout(timeoutMs, lostOutputTokens), lostInput);
      const secrets = findHeaderSecrets(this.#settings.headers);
      const failed = withLostInput(toModelError(thrown, progress), lostInput);
      throw redactModelError(failed, secrets);
    } finally {
      stopDeadline();
      attempt.unlink();
    }
  }

  /** The stream of a request that keeps to the cap (A2). */
  async #open(
    asked: AskedOptions,
    cap: number,
  ): Promise<Omit<Answer, "body"> & { readonly warnings: readonly string[] }> {
    const learnt: string[] = [];
    for (;;) {
      const { options, warnings, isBudgeted } = this.#cap.within(asked, cap);
      const { parts, body, contentType } = await openStream(this.#settings.model, options);
      const sent = sentCap(body);
      if (sent <= cap) return { parts, contentType, warnings: [...learnt, ...warnings] };
      letGo(parts);
      if (isBudgeted || !this.#cap.learn(asked, body)) throw capError(sent, cap);
      learnt.push(
        `The provider asked for ${sent} output tokens where ${cap} are allowed: broken off, and asked again with a smaller budget for reasoning. The provider may charge the input of both.`,
      );
    }
  }
}

/** The answer to a request, of which the head has come. */
interface Answer {
  readonly parts: Parts;
  /** The body of the request, if its package reports it. */
  readonly body: unknown;
  readonly contentType: string | undefined;
}

/** Settles when the provider answers or the signal is aborted, whichever is first (A1). */
async function openStream(
  model: LanguageModelV4,
  options: LanguageModelV4CallOptions & { readonly abortSignal: AbortSignal },
): Promise<Answer> {
  const { abortSignal } = options;
  abortSignal.throwIfAborted();
  const opening = invoke(() => model.doStream(options));
  try {
    const { stream, request, response } = await withinSignal(abortSignal, opening);
    const contentType = response?.headers?.["content-type"];
    return { parts: stream, body: request?.body, contentType };
  } catch (thrown) {
    // Not waited for any more.
    void opening.then(({ stream }) => letGo(stream)).catch(() => undefined);
    throw thrown;
  }
}

/** What the provider gives, unless the signal is aborted before. */
async function withinSignal<T>(signal: AbortSignal, given: PromiseLike<T> | T): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const unlink = onAbort(signal, () => aborted.reject(signal.reason));
  try {
    return await Promise.race([given, aborted.promise]);
  } finally {
    unlink();
  }
}

/** Reads until the reply is complete, the stream ends or the signal is aborted. */
async function readParts(
  parts: Parts,
  { signal, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
  reply: SdkReply,
): Promise<void> {
  const reader = parts.getReader();
  const cancel = (): void => letGo(reader);
  // A reader that is cancelled says at once that it is done, whatever is still under way below it.
  const unlink = signal.aborted ? undefined : onAbort(signal, cancel);
  try {
    while (!signal.aborted && !reply.isComplete) {
      const { done, value } = await readPart(reader, reply, signal);
      if (done) return signal.aborted ? undefined : reply.end();
      reading(reply, () => reply.take(value));
    }
  } finally {
    unlink?.();
    if (reply.isComplete && !reply.isCut) void drain(reader, clock);
    else cancel();
  }
}

type PartsReader = ReadableStreamDefaultReader<LanguageModelV4StreamPart>;

/** Reads the next part; a stream that breaks after a complete reply has ended. */
async function readPart(
  reader: PartsReader,
  reply: SdkReply,
  signal: AbortSignal,
): ReturnType<PartsReader["read"]> {
  try {
    return await reader.read();
  } catch (thrown) {
    if (!signal.aborted) reply.end();
    if (reply.isComplete) return { done: true, value: undefined };
    throw thrown;
  }
}

const LONGEST_DRAIN_MS = 1_000;
const MOST_DRAINED_PARTS = 100;

/** A connection whose stream has come to its end serves the next request; one that is left before is closed. */
async function drain(reader: PartsReader, clock: Clock): Promise<void> {
  const stopTimer = clock.setTimer(LONGEST_DRAIN_MS, () => letGo(reader));
  try {
    for (let parts = 0; parts < MOST_DRAINED_PARTS; parts += 1) {
      if ((await reader.read()).done) return;
    }
    letGo(reader);
  } catch {
    // The reply is whole (A3).
  } finally {
    stopTimer();
  }
}

/** What a provider sends may be other than its types say. */
function reading<T>(reply: SdkReply, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    if (thrown instanceof ModelError) throw thrown;
    throw strangeError(`a part that cannot be read (${messageOf(thrown)})`, reply.lostOutputTokens);
  }
}

function letGo(parts: Pick<Parts, "cancel">): void {
  void parts.cancel().catch(() => undefined);
}
