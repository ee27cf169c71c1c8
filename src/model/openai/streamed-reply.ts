// StreamedReply: assembles one reply from the chunks of a stream. Owns the received parts. Knows
// nothing of the network: the connection passes the data of each event.
// - A call is opened by its first delta and grows in place. Calls keep the order in which they were
//   opened.
// - A reply is complete once a finish reason or the end mark has been received. Before that it is
//   not returned.
// - The stored part of a reply never exceeds its limit.

import { isRecord, tryParseJson } from "../../kernel/json.ts";
import { parseId } from "../../protocol/ids.ts";
import type { ProviderData } from "../../protocol/message.ts";
import type { ModelDelta } from "../../protocol/stream-part.ts";
import type { ModelReply } from "../model.ts";
import { CUT_WARNING, measureData, ReplyMeter, type ReplyLimits } from "../reply-limits.ts";
import { addLostInput } from "../http-errors.ts";
import type { ReportedInput } from "../token-usage.ts";
import { TextDeltaFastPath, GrowingText } from "./growing-text.ts";
import {
  ChatReasoning,
  readExtraContent,
  splitAtThinking,
  joinTexts,
  type ReasoningOption,
  toCallPiece,
  readCall,
  type CompletionCall,
  readFailedCall,
  findFirstChoice,
  convertFailedCall,
  findReport,
  readReportedTokens,
  toReply,
  readChatUsage,
  findUsage,
  parseBody,
  parseObject,
} from "./from-openai.ts";
import { failures, createProtocolError } from "./openai-errors.ts";
import {
  findErrorInBody,
  readFields,
  isText,
  readList,
  hasServerToolOutput,
  type Fields,
} from "../wire-json.ts";
import { toOpenAi, type WireSettings } from "./to-openai.ts";
import type { WireApi } from "./answer-options.ts";

const END_MARK = "[DONE]";

class GrowingCall {
  readonly index: number;
  id = "";
  name = "";
  readonly argumentsText = new GrowingText();
  /** True if all arguments came in one delta. */
  isComplete = false;
  isAnnounced = false;
  data: ProviderData | undefined;

  constructor(index: number) {
    this.index = index;
  }
}

export class StreamedReply {
  readonly #meter: ReplyMeter;
  readonly #onDelta: (delta: ModelDelta) => void;
  readonly #reasoning: ChatReasoning;
  readonly #text = new GrowingText();
  readonly #fastPath = new TextDeltaFastPath(readBareText);
  #data: ProviderData | undefined;
  #refusal = "";
  readonly #calls: GrowingCall[] = [];
  readonly #callAt = new Map<unknown, GrowingCall>();
  #finishReason: unknown;
  #usage: unknown;
  #serviceTier: unknown;
  #hasServerTools = false;
  #responseId: string | undefined;
  #responseModel: string | undefined;
  #hasBegun = false;
  #hasEnded = false;
  #failedCall: CompletionCall | undefined;
  /** An error in a message without a choice. It is thrown if no choice follows. */
  #report: unknown;

  constructor(
    limits: ReplyLimits,
    onDelta: (delta: ModelDelta) => void,
    reasoningField: ReasoningOption,
  ) {
    this.#meter = new ReplyMeter(limits, failures);
    this.#onDelta = onDelta;
    this.#reasoning = new ChatReasoning(reasoningField, this.#meter);
  }

  /** True if no further event can change the content of the reply. */
  get isComplete(): boolean {
    return (
      this.isCut || (this.#hasBegun && (this.#hasEnded || typeof this.#finishReason === "string"))
    );
  }

  /** True if the reply exceeded twice the cap, and was cut there. */
  get isCut(): boolean {
    return this.#meter.isCut;
  }

  /** True after the end mark. Usage may arrive before it. */
  get isOver(): boolean {
    return this.isCut || (this.#hasBegun && this.#hasEnded);
  }

  /** The output lost if the stream breaks here, or `undefined` before the model has begun. */
  get lostOutputTokens(): number | undefined {
    const reported = readReportedTokens(this.#usage);
    return this.#hasBegun ? Math.max(this.#meter.receivedTokens, reported ?? 0) : reported;
  }

  get lostInput(): ReportedInput | undefined {
    return readChatUsage(this.#usage, undefined);
  }

  /**
   * Processes the data of one event.
   *
   * @throws ModelError if the data is not a chunk, reports an error, or exceeds a limit of the
   * reply.
   */
  take(data: string): void {
    if (this.#hasEnded || this.isCut) return;
    if (data === END_MARK) {
      this.#hasEnded = true;
      return;
    }
    const onlyText = this.#fastPath.extractText(data);
    if (onlyText !== undefined) {
      this.#takeText(onlyText);
      return;
    }
    const chunk = parseObject(data, "a chunk", this, createProtocolError);
    const text = this.#takeChunk(chunk, findFirstChoice(chunk));
    if (text !== "") this.#fastPath.learn(data, text);
  }

  /**
   * Processes a response that was not streamed, like one chunk with all deltas. Returns false if it
   * has no choice.
   *
   * @throws ModelError as `take`.
   */
  takeWhole(response: Fields): boolean {
    const choice = findFirstChoice(response);
    const { message, finish_reason: reason } = choice ?? {};
    // Calls in a complete message are identified by index, whatever their ids.
    const calls = readList(readFields(message)["tool_calls"]);
    const tool_calls = calls.map((call, index) => ({ ...readFields(call), index }));
    // A choice that was filtered completely has a finish reason and no message.
    const delta = isRecord(message) ? { ...message, tool_calls } : {};
    const hasAnswer = isRecord(message) || isText(reason);
    this.#meter.raiseLimit(readReportedTokens(findUsage(response, choice)));
    this.#takeChunk(response, hasAnswer ? { ...choice, delta } : undefined);
    this.#hasEnded = true;
    return this.#hasBegun;
  }

  /** Returns the text of the chunk. */
  #takeChunk(chunk: Fields, choice: Fields | undefined): string {
    this.#usage = findUsage(chunk, choice) ?? this.#usage;
    this.#serviceTier = chunk["service_tier"] ?? this.#serviceTier;
    const error = findReport(chunk);
    if (error !== undefined) {
      this.#failedCall = readFailedCall(error);
      if (this.#failedCall === undefined)
        throw addLostInput(failures.reported(error, this.lostOutputTokens), this.lostInput);
      this.#hasBegun = true;
      this.#hasEnded = true;
      return "";
    }
    // Some servers send the name only after a first chunk without it.
    if (isText(chunk["id"])) this.#responseId ??= chunk["id"];
    if (isText(chunk["model"])) this.#responseModel ??= chunk["model"];
    if (choice === undefined) {
      if (!this.#hasBegun) this.#report ??= findErrorInBody(chunk);
      return "";
    }
    this.#hasBegun = true;
    const { delta, finish_reason: reason } = choice;
    const deltas = isRecord(delta) ? splitAtThinking(delta) : [];
    const text = deltas.map((piece) => this.#takeDelta(piece)).join("");
    this.#finishReason = reason ?? this.#finishReason;
    return text;
  }

  /**
   * Returns the complete reply, after the last event.
   *
   * @throws ModelError `model_unavailable` if the stream ended too early, `model_protocol_error` if
   * it contained no reply.
   */
  finish(): ModelReply {
    if (!this.#hasBegun && this.#report !== undefined)
      throw failures.reported(this.#report, undefined);
    if (!this.#hasBegun && this.#hasEnded)
      throw createProtocolError("a stream without choices", undefined);
    if (!this.isComplete) throw failures.cutStream(this.lostOutputTokens);
    if (this.#failedCall !== undefined) {
      const reasoning = this.#reasoning.buildPieces("", undefined);
      return convertFailedCall(this.#failedCall, this.#meter, reasoning);
    }
    const { isCut } = this;
    const pieces = this.#reasoning.buildPieces(String(this.#text), this.#data);
    const calls = isCut ? this.#calls.filter(({ name }) => name !== "") : this.#calls;
    const callPieces = calls.map(({ argumentsText, index, ...call }) => {
      if (call.name === "")
        throw createProtocolError("a tool call that names no tool", this.#meter.receivedTokens);
      return toCallPiece({ ...call, argumentsText: String(argumentsText) }, this.#ownId(index));
    });
    // Uses the reported usage of a cut reply unless the received text counts for more.
    const isHonest = !isCut || this.#meter.isHonest(readReportedTokens(this.#usage));
    const usage = readChatUsage(this.#usage, this.#serviceTier, this.#hasServerTools);
    const reply = toReply([...pieces, ...callPieces], {
      refusal: this.#refusal,
      finishReason: isCut ? "length" : this.#finishReason,
      usage: isHonest ? usage : undefined,
      responseId: this.#responseId,
      responseModel: this.#responseModel,
    });
    return isCut ? { ...reply, warnings: [CUT_WARNING] } : reply;
  }

  #takeDelta(delta: Fields): string {
    const thought = this.#reasoning.take(delta, this.#text.length);
    if (thought !== "") this.#onDelta({ type: "reasoning", text: thought });
    this.#hasServerTools ||= hasServerToolOutput(delta);
    const { data } = readExtraContent(delta);
    if (data !== undefined) {
      this.#data = data;
      this.#meter.countData(measureData(data));
    }
    const text = joinTexts(delta["content"]);
    this.#takeText(text);
    const refusal = this.#meter.admit(joinTexts(delta["refusal"]));
    this.#refusal += refusal;
    if (refusal !== "") this.#onDelta({ type: "refusal", text: refusal });
    for (const piece of readList(delta["tool_calls"]))
      this.#takeCallPiece(readFields(piece)["index"], readCall(piece));
    return text;
  }

  #takeText(piece: string): void {
    if (piece === "") return;
    const text = this.#meter.admit(piece);
    if (text === "") return;
    this.#text.push(text);
    this.#onDelta({ type: "text", text });
  }

  /**
   * Adds the delta of a call. Servers differ: some send no index, some the index 0 for all calls,
   * some repeat id and name in each delta. Some send no ids, or equal ids, with each call complete.
   */
  #takeCallPiece(index: unknown, piece: CompletionCall): void {
    const open = this.#callAt.get(index);
    const isWhole = open?.isComplete === true;
    const isOther = piece.name !== open?.name || piece.argumentsText !== "";
    const isAnother =
      piece.name !== "" && ((piece.id !== "" && piece.id !== open?.id) || (isWhole && isOther));
    const known = isAnother ? undefined : open;
    const isNamed = piece.name !== (known?.name ?? "");
    if (isNamed) this.#meter.admit(piece.name);
    // A truncated name would call another tool.
    if (this.isCut) return;
    const call = known ?? new GrowingCall(this.#calls.length);
    // Some servers send the id after the name.
    if (call.id === "" && (known === undefined || piece.id !== "")) {
      this.#meter.countOpened(piece.id);
      call.id = piece.id;
    }
    if (known === undefined) {
      this.#calls.push(call);
      this.#callAt.set(index, call);
    }
    if (isNamed) call.name += piece.name;
    const argumentsText = this.#meter.admit(piece.argumentsText);
    if (argumentsText !== "")
      call.isComplete =
        call.argumentsText.isEmpty &&
        argumentsText.trimEnd().endsWith("}") &&
        isRecord(tryParseJson(argumentsText));
    call.argumentsText.push(argumentsText);
    this.#emitCall(call, argumentsText);
    if (piece.data !== undefined) {
      call.data = piece.data;
      this.#meter.countData(measureData(piece.data));
    }
  }

  /**
   * Emits the deltas of a call. It is announced once its name, and its id or a first argument, has
   * been received: some servers send no ids.
   */
  #emitCall(call: GrowingCall, argumentsText: string): void {
    const { index, name: toolName, isAnnounced } = call;
    if (!isAnnounced && (toolName === "" || (call.id === "" && argumentsText === ""))) return;
    call.isAnnounced = true;
    if (!isAnnounced) {
      const callId = parseId<"CallId">(call.id === "" ? this.#ownId(index) : call.id);
      this.#onDelta({ type: "call", index, callId, toolName });
    }
    const text = isAnnounced ? argumentsText : String(call.argumentsText);
    if (text !== "") this.#onDelta({ type: "arguments", index, text });
  }

  #ownId(index: number): string {
    return `${this.#responseId ?? "call"}.${index}`;
  }
}

/** Returns the text of a chunk that contains nothing else, or `undefined` for any other chunk. */
function readBareText(data: string): string | undefined {
  const chunk = tryParseJson(data);
  const choice = isRecord(chunk) ? findFirstChoice(chunk) : undefined;
  if (!isRecord(chunk) || choice === undefined || findReport(chunk) !== undefined) return undefined;
  if ((findUsage(chunk, choice) ?? choice["finish_reason"] ?? null) !== null) return undefined;
  const { role: _role, content, ...rest } = readFields(choice["delta"]);
  const isBare =
    typeof content === "string" && Object.values(rest).every((value) => value === null);
  return isBare ? content : undefined;
}

// Chat Completions, which every server supports, as a port for the connection.

export function createChatApi(settings: WireSettings): WireApi {
  const { reasoningField } = settings;
  return {
    name: "chat_completions",
    path: "/chat/completions",
    write: (request, isStreaming) => Buffer.from(toOpenAi(request, settings, isStreaming)),
    read: (body, limits) => {
      const response = parseBody(body, limits, createProtocolError);
      const reply = new StreamedReply(limits, () => undefined, reasoningField);
      if (reply.takeWhole(response)) return reply.finish();
      const error = findErrorInBody(response);
      const refused =
        error === undefined
          ? createProtocolError(`a response without choices: ${body}`, undefined)
          : failures.reported(error, undefined);
      throw addLostInput(refused, reply.lostInput);
    },
    stream: (limits, onDelta) => new StreamedReply(limits, onDelta, reasoningField),
    rescue: (body, limits) => {
      const failed = readFailedCall(body);
      return failed === undefined
        ? undefined
        : convertFailedCall(failed, new ReplyMeter(limits, failures));
    },
  };
}
