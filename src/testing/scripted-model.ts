// ScriptedModel: a model that says what a test wrote down. Owns the script and the requests it was asked. A call that the script
// does not expect, or a request that no provider would take, is an error of the test.

// oxlint-disable no-unassigned-import -- the loop loads them late; a test must not wait for that
import "../agent/hooked-model-call.ts";
import "../agent/phases/compact.ts";
// oxlint-enable no-unassigned-import
import { checkList, shown } from "../kernel/check.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";
import { isRecord } from "../kernel/json.ts";
import { asSentence } from "../kernel/sentence.ts";
import type { GenerateOptions, Model, ModelReply, ModelRequest } from "../model/model.ts";
import type { AssistantMessage } from "../protocol/message.ts";
import { buildReplyMessage, getReplyPieces, type ReplyPiece } from "../protocol/reply-message.ts";
import type { ModelDelta } from "../protocol/stream-part.ts";
import type { TokenUsage } from "../model/token-usage.ts";
import type { ModelPrice } from "../model/model-price.ts";
import type { AttachmentKind } from "../protocol/attachment.ts";
import type { FinishReason } from "../protocol/finish-reason.ts";
import { CallIdSchema } from "../protocol/ids.ts";
import { findMessageProblems } from "./check-messages.ts";

/** One reply of a script. */
export interface ScriptedReply {
  /** The text of the reply. */
  readonly text?: string;
  readonly calls?: readonly ScriptedCall[];
  /** What is said piece by piece, with reasoning and data of a provider: in the place of `text` and `calls`. */
  readonly pieces?: readonly ReplyPiece[];
  /** What it says when it declines. */
  readonly refusal?: string;
  /** Default: `tool_calls` with calls, else `stop`. */
  readonly finishReason?: FinishReason;
  /** Default 10 input and 5 output tokens; null: the provider reports none. */
  readonly usage?: Partial<TokenUsage> | null;
  /** What of the request it left out or changed. */
  readonly warnings?: readonly string[];
  /** Thrown instead of a reply. */
  readonly error?: Error;
  /** The reply comes when this resolves; an abort comes through at once. */
  readonly after?: Promise<unknown>;
  /** With `after`: ignore the signal too, like a client that hangs. */
  readonly ignoresSignal?: boolean;
}

/** One tool call of a scripted reply. */
export interface ScriptedCall {
  /** The tool that is called. */
  readonly toolName: string;
  /** An object becomes JSON; text is sent as it is, valid or not. */
  readonly arguments: object | string;
  /** Default: `call_1`, `call_2`, … per model. */
  readonly callId?: string;
}

/** A reply, or a function that makes one from the request. */
export type ScriptStep = ScriptedReply | ((request: ModelRequest) => ScriptedReply);

/** How a scripted model presents itself. */
export interface ScriptedModelOptions {
  /** Default `scripted`. */
  readonly id?: string;
  /** Whose parts it takes back. Default: `scripted/` and its id. */
  readonly replayKey?: string;
  /** What it takes besides text. Default: nothing. */
  readonly inputModalities?: readonly AttachmentKind[];
  readonly price?: ModelPrice;
  /** Whether it can be held to a schema, and to a choice of tools. Default false. */
  readonly supportsStructuredOutputs?: boolean;
  /** Whether it says that it can be forced to call a tool. */
  readonly supportsToolChoice?: boolean;
  /**
   * What it says that a request will cost. Default: 10 for every request. Null: the model cannot count. The notices of `showBudget` and
   * `wrapUp` are estimated on top, some 15 to 20 tokens each: the lease is larger by that, what is charged is `usage` alone.
   */
  readonly countTokens?: ((request: ModelRequest) => number) | null;
}

const DEFAULT_USAGE: TokenUsage = {
  inputTokens: 10,
  cachedInputTokens: 0,
  outputTokens: 5,
  reasoningTokens: 0,
};

/** A reply with text only. */
export function says(text: string, more: Omit<ScriptedReply, "text"> = {}): ScriptedReply {
  return { text, ...more };
}

/** A reply with one tool call. */
export function asks(
  name: string,
  input: object | string,
  more: Omit<ScriptedReply, "calls"> = {},
): ScriptedReply {
  return { calls: [{ toolName: name, arguments: input }], ...more };
}

/**
 * A model that replies from a script. A request that the script does not expect is an error. With `onDelta` it streams a text word by word, a
 * call and its arguments whole, all in one turn and once `after` has resolved; of a reply with `error` it streams nothing.
 */
export class ScriptedModel implements Model {
  readonly provider = "scripted";
  readonly id: string;
  readonly replayKey?: string;
  readonly inputModalities?: readonly AttachmentKind[];
  readonly price?: ModelPrice;
  readonly supportsStructuredOutputs: boolean;
  readonly supportsToolChoice: boolean;
  readonly countTokens?: (request: ModelRequest) => number;
  /** Every request, in order, as it was sent. */
  readonly requests: ModelRequest[] = [];
  readonly #steps: readonly ScriptStep[] | ((request: ModelRequest) => ScriptedReply);
  #callCount = 0;

  /**
   * `script`: replies in order, or a function that answers every request. What a function throws, and what it gives that is no reply, is an
   * error of the script, unless it is a `ModelError`: a failure of the model is a reply with `error`.
   *
   * @throws EspalierError `invalid_definition` for a script that is neither.
   */
  constructor(
    script: readonly ScriptStep[] | ((request: ModelRequest) => ScriptedReply),
    options: ScriptedModelOptions = {},
  ) {
    if (typeof script !== "function")
      checkList("script", script, 'List its replies: [says("Done.")].');
    this.#steps = script;
    this.id = options.id ?? "scripted";
    this.supportsStructuredOutputs = options.supportsStructuredOutputs ?? false;
    this.supportsToolChoice = options.supportsToolChoice ?? false;
    if (options.replayKey !== undefined) this.replayKey = options.replayKey;
    if (options.inputModalities !== undefined) this.inputModalities = options.inputModalities;
    if (options.price !== undefined) this.price = options.price;
    if (options.countTokens !== null)
      this.countTokens = options.countTokens ?? (() => DEFAULT_USAGE.inputTokens);
  }

  async generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply> {
    const index = this.requests.length;
    this.requests.push(request);
    const problems = findMessageProblems(request.messages);
    if (problems.length > 0)
      throw mismatch(`Expected a valid message list, got: ${problems.join("; ")}.`);
    const step = typeof this.#steps === "function" ? this.#steps : this.#steps[index];
    if (step === undefined)
      throw mismatch(
        `Expected ${index} calls of ${this.id}, got one more. Add a reply to the script.`,
      );
    const reply = replyOf(step, request, this.id);
    if (reply.after !== undefined)
      await waitFor(reply.after, reply.ignoresSignal === true ? undefined : options.signal);
    if (reply.error !== undefined) throw reply.error;
    const answer = this.#modelReply(reply);
    if (options.onDelta !== undefined)
      for (const delta of deltasOf(answer.message)) options.onDelta(delta);
    return answer;
  }

  /** Throws `script_mismatch` if replies are left over. */
  assertComplete(): void {
    const expected = typeof this.#steps === "function" ? this.requests.length : this.#steps.length;
    if (this.requests.length >= expected) return;
    throw mismatch(`Expected ${expected} calls of ${this.id}, got ${this.requests.length}.`);
  }

  #modelReply(reply: ScriptedReply): ModelReply {
    const calls = (reply.calls ?? []).map((call): ReplyPiece => {
      this.#callCount += 1;
      const callId = CallIdSchema().parse(call.callId ?? `call_${this.#callCount}`);
      const { toolName, arguments: input } = call;
      const argumentsText = typeof input === "string" ? input : JSON.stringify(input);
      return { type: "call", callId, toolName, argumentsText };
    });
    const said = { type: "text", text: reply.text ?? "" } as const;
    const message = buildReplyMessage(reply.pieces ?? [said, ...calls]);
    const refusal = reply.refusal === undefined ? {} : { refusal: reply.refusal };
    return {
      message: { ...message, ...refusal },
      finishReason: reply.finishReason ?? (message.toolCalls.length > 0 ? "tool_calls" : "stop"),
      ...(reply.warnings === undefined ? {} : { warnings: reply.warnings }),
      ...(reply.usage === null ? {} : { usage: { ...DEFAULT_USAGE, ...reply.usage } }),
    };
  }
}

function mismatch(message: string, cause?: unknown): EspalierError {
  return new EspalierError({ code: "script_mismatch", message, cause });
}

const REPLY_FIELDS = {
  text: true,
  calls: true,
  pieces: true,
  refusal: true,
  finishReason: true,
  usage: true,
  warnings: true,
  error: true,
  after: true,
  ignoresSignal: true,
} as const satisfies Record<keyof ScriptedReply, true>;

/** The reply of a step of the script of this model. Throws a `ModelError` that the step has thrown, and `script_mismatch`. */
function replyOf(step: ScriptStep, request: ModelRequest, id: string): ScriptedReply {
  const reply = typeof step === "function" ? said(step, request, id) : step;
  const got: unknown = reply;
  if (!isRecord(got) || got instanceof Promise)
    throw mismatch(
      `Expected a reply of ${id}, got ${shown(got)}. Create it with says() or asks().`,
    );
  const unknown = Object.keys(got).find((key) => !Object.hasOwn(REPLY_FIELDS, key));
  if (unknown === undefined) return reply;
  const fields = Object.keys(REPLY_FIELDS).join(", ");
  throw mismatch(
    `Expected a reply of ${id} to have ${fields}, got ${shown(unknown)}. Correct the name.`,
  );
}

function said(
  step: Extract<ScriptStep, (request: ModelRequest) => unknown>,
  request: ModelRequest,
  id: string,
): ScriptedReply {
  try {
    return step(request);
  } catch (cause) {
    if (EspalierError.is(cause)) throw cause;
    const message = `Expected the script of ${id} to return a reply, but it threw: ${asSentence(messageOf(cause))}`;
    throw mismatch(`${message} To simulate a failed call, return { error }.`, cause);
  }
}

async function waitFor(after: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) {
    await after;
    return;
  }
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const leave = (): void => aborted.reject(new Error("aborted", { cause: signal.reason }));
  signal.addEventListener("abort", leave, { once: true });
  try {
    await Promise.race([after, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

/** A reply as it would arrive: texts word by word, in the order of its pieces. */
function deltasOf(message: AssistantMessage): readonly ModelDelta[] {
  let index = -1;
  return getReplyPieces(message).flatMap((piece): readonly ModelDelta[] => {
    if (piece.type === "opaque") return [];
    if (piece.type !== "call")
      return piece.text.split(/(?<= )/).map((text) => ({ type: piece.type, text }));
    const { callId, toolName, argumentsText: text } = piece;
    index += 1;
    return [
      { type: "call", index, callId, toolName },
      { type: "arguments", index, text },
    ];
  });
}
