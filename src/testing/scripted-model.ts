// ScriptedModel: a model that replies from the script of a test. Owns the script and the received
// requests. A call that the script does not expect, or an invalid request, is an error of the test.

// oxlint-disable no-unassigned-import -- the loop loads them late; a test must not wait for that
import "../agent/hooked-model-call.ts";
import "../agent/phases/compact.ts";
// oxlint-enable no-unassigned-import
import { checkList, describeReceived } from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { isRecord } from "../kernel/json.ts";
import { completeSentence } from "../kernel/sentence.ts";
import { ModelError } from "../model/model-error.ts";
import type { ModelLimits } from "../model/model-limits.ts";
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

/**
 * Reply of a scripted model. `says()` and `asks()` create the usual ones.
 *
 * @example
 * ```ts
 * const busy = new ModelError({ code: "model_overloaded", message: "The server is busy." });
 * const model = new ScriptedModel([
 *   { error: busy },
 *   { text: "One moment.", calls: [{ toolName: "search", arguments: { query: "pears" } }] },
 *   { text: "12 euros.", usage: { outputTokens: 4 } },
 * ]);
 * ```
 */
export interface ScriptedReply {
  /** Text of the reply. */
  readonly text?: string;
  /** Tool calls of the reply. */
  readonly calls?: readonly ScriptedCall[];
  /**
   * Texts, reasoning, calls and provider data of the reply, in order. Replaces `text` and `calls`.
   *
   * @example
   * ```ts
   * const reply: ScriptedReply = {
   *   pieces: [
   *     { type: "reasoning", text: "The user wants a price." },
   *     { type: "text", text: "12 euros." },
   *   ],
   * };
   * ```
   */
  readonly pieces?: readonly ReplyPiece[];
  /** Text with which the model refuses to answer. */
  readonly refusal?: string;
  /**
   * Reason for which the model stopped writing.
   *
   * @default "tool_calls" with calls, else "stop"
   */
  readonly finishReason?: FinishReason;
  /**
   * Reported tokens. `null` if the provider reports none, so that the call is charged by estimate.
   *
   * @default 10 input tokens and 5 output tokens
   */
  readonly usage?: Partial<TokenUsage> | null;
  /** Parts of the request that the model reports as ignored or changed. */
  readonly warnings?: readonly string[];
  /**
   * Error with which the call fails in place of a reply. A `ModelError` is thrown unchanged: its
   * code decides whether the call is retried. Any other error fails the call without a retry and
   * without a fallback, as a `ModelError` with the code `model_invalid_reply`.
   *
   * @example
   * ```ts
   * const message = "No connection.";
   * const error = new ModelError({ code: "model_unavailable", message });
   * const model = new ScriptedModel([{ error }]);
   * ```
   */
  readonly error?: Error;
  /**
   * Promise that the reply waits for, for example `latch().opened`. An abort ends the wait at once.
   *
   * @example
   * ```ts
   * const gate = latch();
   * const model = new ScriptedModel([says("Done.", { after: gate.opened })]);
   * gate.open();
   * ```
   */
  readonly after?: Promise<unknown>;
  /**
   * Whether the wait of `after` ignores the abort signal, like a client that hangs.
   *
   * @default false
   */
  readonly ignoresSignal?: boolean;
}

/**
 * Tool call of a scripted reply.
 *
 * @example
 * ```ts
 * const call: ScriptedCall = { toolName: "search", arguments: { query: "pears" } };
 * const model = new ScriptedModel([{ calls: [call, call] }, says("Done.")]);
 * ```
 */
export interface ScriptedCall {
  /** Name of the tool. */
  readonly toolName: string;
  /**
   * Arguments of the call. An object is sent as JSON. A string is sent unchanged, so it can be
   * invalid JSON.
   */
  readonly arguments: object | string;
  /**
   * Id of the call.
   *
   * @default `call_1`, `call_2`, … counted per model
   */
  readonly callId?: string;
}

/**
 * Step of a script: a reply, or a function that returns a reply to the request.
 *
 * @example
 * ```ts
 * const echo: ScriptStep = ({ messages }) => says(`I read ${messages.length} messages.`);
 * const model = new ScriptedModel([asks("search", { query: "pears" }), echo]);
 * ```
 */
export type ScriptStep = ScriptedReply | ((request: ModelRequest) => ScriptedReply);

/** Options of `new ScriptedModel()`: properties that the model reports about itself. */
export interface ScriptedModelOptions {
  /**
   * Name of the model.
   *
   * @default "scripted"
   */
  readonly id?: string;
  /**
   * Key of the models that can read each other's reasoning.
   *
   * @default `scripted/` with the id
   */
  readonly replayKey?: string;
  /**
   * Kinds of attachments that the model reads.
   *
   * @default []
   */
  readonly inputModalities?: readonly AttachmentKind[];
  /** Price of the model, for tests of cost limits. `undefined` if the price is unknown. */
  readonly price?: ModelPrice;
  /**
   * Rate limits of the model, created by `modelLimits`, for tests of queues and fallbacks.
   *
   * @default no limits
   */
  readonly limits?: ModelLimits;
  /**
   * Whether the model accepts a schema of a typed result.
   *
   * @default false
   */
  readonly supportsStructuredOutputs?: boolean;
  /**
   * Whether the model obeys `toolChoice`.
   *
   * @default false
   */
  readonly supportsToolChoice?: boolean;
  /**
   * Counts the input tokens of a request. `null` for a model that cannot count.
   *
   * Notices of `showBudget` and `wrapUp` are estimated on top, at 15 to 20 tokens each. They
   * enlarge the reservation; the charge is `usage` alone.
   *
   * @default 10 tokens for every request
   *
   * @example
   * ```ts
   * const countTokens = ({ messages }: ModelRequest) => 100 * messages.length;
   * const model = new ScriptedModel([says("Done.")], { countTokens });
   * ```
   */
  readonly countTokens?: ((request: ModelRequest) => number) | null;
  /**
   * Whether a reply may call a tool that the request does not have. The run then refuses the call.
   * By default, such a call fails with `script_mismatch`, since the name is usually a slip.
   *
   * @default false
   *
   * @example
   * ```ts
   * const script = [asks("no_such_tool", {}), says("I cannot do that.")];
   * const model = new ScriptedModel(script, { allowUnknownTools: true });
   * ```
   */
  readonly allowUnknownTools?: boolean;
}

const DEFAULT_ID = "scripted";

const DEFAULT_USAGE: TokenUsage = {
  inputTokens: 10,
  cachedInputTokens: 0,
  outputTokens: 5,
  reasoningTokens: 0,
};

/**
 * Creates a scripted reply with a text.
 *
 * @example
 * ```ts
 * const model = new ScriptedModel([says("12 euros.", { usage: { outputTokens: 4 } })]);
 * ```
 */
export function says(text: string, more: Omit<ScriptedReply, "text"> = {}): ScriptedReply {
  return { text, ...more };
}

/**
 * Creates a scripted reply with one tool call.
 *
 * @example
 * ```ts
 * const model = new ScriptedModel([asks("search", { query: "pears" }), says("12 euros.")]);
 * ```
 */
export function asks(
  name: string,
  input: object | string,
  more: Omit<ScriptedReply, "calls"> = {},
): ScriptedReply {
  return { calls: [{ toolName: name, arguments: input }], ...more };
}

/**
 * Model for tests that replies from a script. A request that the script does not expect, or that no
 * provider would accept, fails with `script_mismatch`. So does a reply that calls a tool that the
 * request does not have.
 *
 * With `onDelta` it streams texts word by word, and calls whole. It streams at once when `after`
 * has resolved, and nothing of a reply with `error`.
 *
 * @example
 * ```ts
 * const model = new ScriptedModel([asks("search", { query: "pears" }), says("12 euros.")]);
 * const buyer = defineAgent({ name: "buyer", instructions: "Find prices.", model, tools: [search] });
 * const { text } = await new Orchestrator().start(buyer, "What do pears cost?").result;
 * console.log(text, model.requests.length); // 12 euros. 2
 * ```
 *
 * @example
 * ```ts
 * const clerk = defineAgent({
 *   name: "clerk",
 *   description: "Finds the price of a thing.",
 *   instructions: "Find the price.",
 *   model: new ScriptedModel([asks("Finish", { euros: 12 })], { id: "clerk-model" }),
 *   output: z.object({ euros: z.number() }),
 * });
 * const lead = defineAgent({
 *   name: "lead",
 *   instructions: "Delegate the work.",
 *   model: new ScriptedModel([
 *     asks("SpawnSubagent", { role: "clerk", task: "What do pears cost?" }),
 *     says("12 euros."),
 *   ]),
 *   subagents: [clerk],
 * });
 * const { text } = await new Orchestrator().start(lead, "Pears?").orThrow();
 * ```
 */
export class ScriptedModel implements Model {
  /** Name of the provider. */
  readonly provider = "scripted";
  /** Name of the model. */
  readonly id: string;
  /** Key of the models that can read each other's reasoning. */
  readonly replayKey?: string;
  /** Kinds of attachments that the model reads. */
  readonly inputModalities?: readonly AttachmentKind[];
  /** Price of the model. Absent if it is unknown. */
  readonly price?: ModelPrice;
  /** Rate limits of the model. Absent if it has none. */
  readonly limits?: ModelLimits;
  /** Whether the model accepts a schema of a typed result. */
  readonly supportsStructuredOutputs: boolean;
  /** Whether the model obeys `toolChoice`. */
  readonly supportsToolChoice: boolean;
  /** Counts the input tokens of a request. Absent if the model cannot count. */
  readonly countTokens?: (request: ModelRequest) => number;
  /** Requests that the model received, in order. */
  readonly requests: ModelRequest[] = [];
  readonly #steps: readonly ScriptStep[] | ((request: ModelRequest) => ScriptedReply);
  readonly #allowUnknownTools: boolean;
  #callCount = 0;

  /**
   * Creates a model. `script` is a list of replies in order, or a function that replies to every
   * request.
   *
   * To simulate a failure of the provider, reply with `error`, or throw a `ModelError` in a
   * function. Any other error of a function fails the test with `script_mismatch`, as does a value
   * that is not a reply.
   *
   * @throws EspalierError `invalid_argument` if `script` is neither a list nor a function.
   */
  constructor(
    script: readonly ScriptStep[] | ((request: ModelRequest) => ScriptedReply),
    options: ScriptedModelOptions = {},
  ) {
    if (typeof script !== "function")
      checkList("script", script, 'List its replies: [says("Done.")].');
    this.#steps = script;
    this.id = options.id ?? DEFAULT_ID;
    this.#allowUnknownTools = options.allowUnknownTools ?? false;
    this.supportsStructuredOutputs = options.supportsStructuredOutputs ?? false;
    this.supportsToolChoice = options.supportsToolChoice ?? false;
    if (options.replayKey !== undefined) this.replayKey = options.replayKey;
    if (options.inputModalities !== undefined) this.inputModalities = options.inputModalities;
    if (options.price !== undefined) this.price = options.price;
    if (options.limits !== undefined) this.limits = options.limits;
    if (options.countTokens !== null)
      this.countTokens = options.countTokens ?? (() => DEFAULT_USAGE.inputTokens);
  }

  /**
   * Returns the next reply of the script, and adds the request to `requests`.
   *
   * @throws EspalierError `script_mismatch` if the script has no reply left, if the message list of
   * the request is invalid, or if the reply calls a tool that the request does not have.
   */
  async generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply> {
    const index = this.requests.length;
    this.requests.push(request);
    const problems = findMessageProblems(request.messages);
    if (problems.length > 0)
      throw createScriptMismatch(`Expected a valid message list, got: ${problems.join("; ")}.`);
    const step = typeof this.#steps === "function" ? this.#steps : this.#steps[index];
    if (step === undefined)
      throw createScriptMismatch(
        `Expected ${index} calls of ${this.id}, got one more. Add a reply to the script.`,
      );
    const reply = getScriptedReply(step, request, this.id);
    if (reply.after !== undefined)
      await waitUnlessAborted(
        reply.after,
        reply.ignoresSignal === true ? undefined : options.signal,
      );
    if (reply.error !== undefined) throw this.#toFailure(reply.error);
    const answer = this.#createReply(reply);
    if (!this.#allowUnknownTools) this.#checkTools(answer.message, request, index + 1);
    if (options.onDelta !== undefined)
      for (const delta of splitIntoDeltas(answer.message)) options.onDelta(delta);
    return answer;
  }

  /**
   * Checks that the model was called once for each reply of the script.
   *
   * @throws EspalierError `script_mismatch` if replies are left over.
   *
   * @example
   * ```ts
   * const model = new ScriptedModel([says("Hello.")]);
   * const greeter = defineAgent({ name: "greeter", instructions: "Greet.", model });
   * await new Orchestrator().start(greeter, "Hi.").result;
   * model.assertComplete();
   * ```
   */
  assertComplete(): void {
    const got = this.requests.length;
    const next = typeof this.#steps === "function" ? undefined : this.#steps[got];
    if (next === undefined) return;
    const advice = this.id === DEFAULT_ID ? " Set the option id to tell models apart." : "";
    throw createScriptMismatch(
      `Expected ${this.#steps.length} calls of ${this.id}, got ${got}. Not requested: reply ${got + 1} (${describeScriptStep(next)}).${advice}`,
    );
  }

  #toFailure(error: Error): Error {
    if (EspalierError.is(error)) return error;
    return new ModelError({
      code: "model_invalid_reply",
      message: `The model ${this.id} failed: ${completeSentence(getErrorMessage(error))}`,
      data: { provider: this.provider, model: this.id },
      cause: error,
    });
  }

  #checkTools({ toolCalls }: AssistantMessage, { tools }: ModelRequest, number: number): void {
    const names = tools.map(({ name }) => name);
    const unknown = toolCalls.find(({ toolName }) => !names.includes(toolName));
    if (unknown === undefined) return;
    throw createScriptMismatch(
      `Expected reply ${number} of ${this.id} to call a tool of the request (${names.join(", ") || "none"}), got ${describeReceived(unknown.toolName)}. Correct the script, or set allowUnknownTools to test a refusal.`,
    );
  }

  #createReply(reply: ScriptedReply): ModelReply {
    const calls = (reply.calls ?? []).map((call): ReplyPiece => {
      this.#callCount += 1;
      const callId = CallIdSchema().parse(call.callId ?? `call_${this.#callCount}`);
      const { toolName, arguments: input } = call;
      const argumentsText = typeof input === "string" ? input : JSON.stringify(input);
      return { type: "call", callId, toolName, argumentsText };
    });
    const textPiece = { type: "text", text: reply.text ?? "" } as const;
    const message = buildReplyMessage(reply.pieces ?? [textPiece, ...calls]);
    const refusal = reply.refusal === undefined ? {} : { refusal: reply.refusal };
    return {
      message: { ...message, ...refusal },
      finishReason: reply.finishReason ?? (message.toolCalls.length > 0 ? "tool_calls" : "stop"),
      ...(reply.warnings === undefined ? {} : { warnings: reply.warnings }),
      ...(reply.usage === null ? {} : { usage: { ...DEFAULT_USAGE, ...reply.usage } }),
    };
  }
}

function createScriptMismatch(message: string, cause?: unknown): EspalierError {
  return new EspalierError({ code: "script_mismatch", message, cause });
}

/** Describes a step of a script that was not requested: the tools that it calls, or its text. */
function describeScriptStep(step: ScriptStep): string {
  if (typeof step === "function") return "a function";
  if (step.error !== undefined) return "an error";
  const { pieces = [], calls = [] } = step;
  const names = [...calls, ...pieces.filter((piece) => piece.type === "call")].map(
    ({ toolName }) => toolName,
  );
  if (names.length > 0) return `calls of ${names.join(", ")}`;
  if (step.refusal !== undefined) return `the refusal ${describeReceived(step.refusal)}`;
  const texts = pieces.flatMap((piece) => (piece.type === "text" ? [piece.text] : []));
  return `the text ${describeReceived(step.text ?? texts.join(""))}`;
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

/**
 * Returns the reply of a step of the script. Rethrows a `ModelError` of the step, and throws
 * `script_mismatch` for any other problem.
 */
function getScriptedReply(step: ScriptStep, request: ModelRequest, id: string): ScriptedReply {
  const reply = typeof step === "function" ? callScriptStep(step, request, id) : step;
  const got: unknown = reply;
  if (!isRecord(got) || got instanceof Promise)
    throw createScriptMismatch(
      `Expected a reply of ${id}, got ${describeReceived(got)}. Create it with says() or asks().`,
    );
  const unknown = Object.keys(got).find((key) => !Object.hasOwn(REPLY_FIELDS, key));
  if (unknown === undefined) return reply;
  const fields = Object.keys(REPLY_FIELDS).join(", ");
  throw createScriptMismatch(
    `Expected a reply of ${id} to have ${fields}, got ${describeReceived(unknown)}. Correct the name.`,
  );
}

function callScriptStep(
  step: Extract<ScriptStep, (request: ModelRequest) => unknown>,
  request: ModelRequest,
  id: string,
): ScriptedReply {
  try {
    return step(request);
  } catch (cause) {
    if (EspalierError.is(cause)) throw cause;
    const message = `Expected the script of ${id} to return a reply, but it threw: ${completeSentence(getErrorMessage(cause))}`;
    throw createScriptMismatch(`${message} To simulate a failed call, return { error }.`, cause);
  }
}

async function waitUnlessAborted(
  after: Promise<unknown>,
  signal: AbortSignal | undefined,
): Promise<void> {
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

/** Returns the reply as a stream of deltas: texts word by word, in the order of the pieces. */
function splitIntoDeltas(message: AssistantMessage): readonly ModelDelta[] {
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
