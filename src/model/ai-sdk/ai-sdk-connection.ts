// AiSdkConnection: an attempt of a model call over a model of the AI SDK. Owns the knowledge about
// the provider's cap. Differences between providers are in ai-sdk-providers.ts, the cap in
// call-options.ts.
// - An attempt ends soon after its caller's signal is aborted (with that signal's reason), and at
//   the latest at its deadline, whether or not the provider obeys the signal.
// - A reply is not read if the provider requested more output tokens than our request allows.
// - Anything that follows a complete reply cannot spoil the reply, which the provider charges.

import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";

import { invoke, createLinkedController, addAbortHandler } from "../../kernel/cancel-signal.ts";
import type { Clock } from "../../kernel/clock.ts";
import { getErrorMessage } from "../../kernel/error.ts";
import { findHeaderSecrets } from "../../kernel/redact-values.ts";
import { ModelError } from "../model-error.ts";
import type { GenerateOptions, ModelReply, ModelRequest } from "../model.ts";
import { addLostInput, redactModelError } from "../http-errors.ts";
import { collectStrictTools, restoreReplyArguments } from "../strict-tools.ts";
import { computeReplyLimits } from "../reply-limits.ts";
import { createCapError, failures, toSdkModelError } from "./ai-sdk-errors.ts";
import {
  toCallOptions,
  type CallSettings,
  OutputCap,
  readSentCap,
  type UncappedOptions,
} from "./call-options.ts";
import type { FetchedAddresses } from "./ai-sdk-providers.ts";
import { SdkReply } from "./sdk-reply.ts";

type SdkParts = ReadableStream<LanguageModelV4StreamPart>;

export class AiSdkConnection {
  readonly #settings: CallSettings;
  readonly #cap = new OutputCap();
  /** `undefined` until the first attempt has asked the model. */
  #fetched: FetchedAddresses | undefined;

  constructor(settings: CallSettings) {
    this.#settings = settings;
  }

  /** Implements `Model.generate`. */
  async generate(
    request: ModelRequest,
    { signal, onDelta, cacheKey }: GenerateOptions,
  ): Promise<ModelReply> {
    signal.throwIfAborted();
    const { timeoutMs, clock, model } = this.#settings;
    const limits = computeReplyLimits(request.maxOutputTokens);
    const reply = new SdkReply(limits, model.provider, onDelta);
    const attempt = createLinkedController(signal);
    const { signal: attemptSignal } = attempt.controller;
    const stopDeadline = clock.setTimer(timeoutMs, () => attempt.controller.abort());
    try {
      this.#fetched ??= await awaitUnlessAborted(attemptSignal, model.supportedUrls);
      const facts = { cacheKey, fetched: this.#fetched ?? {} };
      const { options, warnings } = toCallOptions(request, this.#settings, facts);
      const uncapped = { ...options, abortSignal: attemptSignal, includeRawChunks: true };
      const opened = await this.#open(uncapped, request.maxOutputTokens);
      reply.contentType = opened.contentType;
      await readParts(opened.parts, { signal: attemptSignal, clock }, reply);
      signal.throwIfAborted();
      // At the deadline the reply may be complete, on a stream that its server leaves open.
      if (attemptSignal.aborted) reply.end();
      if (!reply.isComplete) attemptSignal.throwIfAborted();
      const whole = readSafely(reply, () => reply.finish([...warnings, ...opened.warnings]));
      return restoreReplyArguments(whole, collectStrictTools(request.tools, false));
    } catch (thrown) {
      signal.throwIfAborted();
      const { progress } = reply;
      const failed = attemptSignal.aborted
        ? failures.timeout(timeoutMs, progress.lostOutputTokens)
        : redactModelError(
            toSdkModelError(thrown, progress),
            findHeaderSecrets(this.#settings.headers),
          );
      throw addLostInput(failed, progress.lostInput);
    } finally {
      stopDeadline();
      attempt.unlink();
    }
  }

  /** Opens the stream of a request that stays within the cap. */
  async #open(
    uncapped: UncappedOptions,
    cap: number,
  ): Promise<{
    readonly parts: SdkParts;
    readonly contentType: string | undefined;
    readonly warnings: readonly string[];
  }> {
    const learnt: string[] = [];
    const { abortSignal } = uncapped;
    for (;;) {
      const { options, warnings, isBudgeted } = this.#cap.applyCap(uncapped, cap);
      abortSignal.throwIfAborted();
      const opening = invoke(() => this.#settings.model.doStream(options));
      const opened = await awaitUnlessAborted(abortSignal, opening).catch((thrown: unknown) => {
        // Nothing waits for the stream any more.
        void opening.then(({ stream }) => cancelParts(stream)).catch(() => undefined);
        throw thrown;
      });
      const { stream: parts, request: { body } = {}, response } = opened;
      const contentType = response?.headers?.["content-type"];
      const sent = readSentCap(body);
      if (sent <= cap) return { parts, contentType, warnings: [...learnt, ...warnings] };
      cancelParts(parts);
      if (isBudgeted || !this.#cap.recordExcess(uncapped, body)) throw createCapError(sent, cap);
      learnt.push(
        `The provider asked for ${sent} output tokens where ${cap} are allowed: broken off, and asked again with a smaller budget for reasoning. The provider may charge the input of both.`,
      );
    }
  }
}

/** Resolves to the provider's value. Rejects as soon as the signal is aborted. */
async function awaitUnlessAborted<T>(signal: AbortSignal, value: PromiseLike<T> | T): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const unlink = addAbortHandler(signal, () => aborted.reject(signal.reason));
  try {
    return await Promise.race([value, aborted.promise]);
  } finally {
    unlink();
  }
}

/** Reads until the reply is complete, the stream ends or the signal is aborted. */
async function readParts(
  parts: SdkParts,
  { signal, clock }: { readonly signal: AbortSignal; readonly clock: Clock },
  reply: SdkReply,
): Promise<void> {
  const reader = parts.getReader();
  const cancel = (): void => cancelParts(reader);
  // A cancelled reader reports its end at once, whatever the stream below it still does.
  const unlink = signal.aborted ? undefined : addAbortHandler(signal, cancel);
  try {
    while (!signal.aborted && !reply.isComplete) {
      const { done, value } = await reader.read().catch((thrown: unknown) => {
        // A stream that breaks after a complete reply has ended.
        if (!signal.aborted) reply.end();
        if (reply.isComplete) return { done: true, value: undefined } as const;
        throw thrown;
      });
      if (done) return signal.aborted ? undefined : reply.end();
      readSafely(reply, () => reply.take(value));
    }
  } finally {
    unlink?.();
    if (reply.isComplete && !reply.isCut) void drainParts(reader, clock);
    else cancel();
  }
}

const MAX_DRAIN_MS = 1_000;
const MAX_DRAINED_PARTS = 100;

/**
 * Reads the rest of a stream, so that its connection serves the next request. A connection whose
 * stream is left early is closed.
 */
async function drainParts(
  reader: ReadableStreamDefaultReader<LanguageModelV4StreamPart>,
  clock: Clock,
): Promise<void> {
  const stopTimer = clock.setTimer(MAX_DRAIN_MS, () => cancelParts(reader));
  try {
    for (let parts = 0; parts < MAX_DRAINED_PARTS; parts += 1) {
      if ((await reader.read()).done) return;
    }
    cancelParts(reader);
  } catch {
    // The reply is complete, so the error does not matter.
  } finally {
    stopTimer();
  }
}

/**
 * Converts the error of reading malformed data. Providers may send data that contradicts their
 * types.
 */
function readSafely<T>(reply: SdkReply, read: () => T): T {
  try {
    return read();
  } catch (thrown) {
    if (thrown instanceof ModelError) throw thrown;
    const got = `a part that cannot be read (${getErrorMessage(thrown)})`;
    const { lostOutputTokens } = reply;
    throw failures.failure({ code: "model_invalid_reply", got, lostOutputTokens });
  }
}

function cancelParts(parts: Pick<SdkParts, "cancel">): void {
  void parts.cancel().catch(() => undefined);
}
