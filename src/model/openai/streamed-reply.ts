// StreamedReply: one reply, put together from the chunks of a stream.
// Owns what has arrived so far. Knows nothing of the network: the connection feeds it the data of each event.
// S1. A call is opened by its first piece and grows in place; calls keep the order in which they were opened.
// S2. A reply is complete once a finish reason or the end mark has come; before that it is never handed out.

import { isRecord } from "../../kernel/json.ts";
import { estimateTokens } from "../count-tokens.ts";
import type { ModelReply } from "../model.ts";
import {
  completionCall,
  type CompletionCall,
  firstChoice,
  listOf,
  parseJson,
  reportOf,
  textOf,
  toReply,
} from "./from-openai.ts";
import { cutStreamError, protocolError, reportedError } from "./openai-errors.ts";

const END_MARK = "[DONE]";

interface GrowingCall {
  id: string;
  name: string;
  argumentsText: string;
}

export class StreamedReply {
  readonly #onText: (piece: string) => void;
  #text = "";
  #refusal = "";
  readonly #calls: GrowingCall[] = [];
  readonly #callAt = new Map<unknown, GrowingCall>();
  #finishReason: unknown;
  #usage: unknown;
  #responseId: unknown;
  #responseModel: unknown;
  #hasBegun = false;
  #hasEnded = false;

  constructor(onText: (piece: string) => void) {
    this.#onText = onText;
  }

  /** Nothing that may still come can change what the model said (S2). */
  get isComplete(): boolean {
    return this.#hasBegun && (this.#hasEnded || typeof this.#finishReason === "string");
  }

  /** What is paid for and gone if the stream breaks here, by estimate; undefined as long as the model has not begun. */
  get lostOutputTokens(): number | undefined {
    return this.#hasBegun ? this.#arrivedTokens() : undefined;
  }

  /**
   * Takes the data of one event.
   *
   * @throws ModelError if it is no chunk, or reports an error.
   */
  take(data: string): void {
    if (this.#hasEnded) return;
    if (data === END_MARK) {
      this.#hasEnded = true;
      return;
    }
    const chunk = parseJson(data);
    if (!isRecord(chunk)) {
      throw protocolError(`a chunk that is no JSON object: ${data}`, this.lostOutputTokens);
    }
    const error = reportOf(chunk);
    if (error !== undefined) throw reportedError(error, this.lostOutputTokens);
    this.#responseId ??= chunk["id"];
    this.#responseModel ??= chunk["model"];
    this.#usage = chunk["usage"] ?? this.#usage;
    const choice = firstChoice(chunk);
    if (choice === undefined) return;
    this.#hasBegun = true;
    this.#finishReason = choice["finish_reason"] ?? this.#finishReason;
    const delta = choice["delta"];
    if (isRecord(delta)) this.#takeDelta(delta);
  }

  /**
   * The whole reply, after the last event.
   *
   * @throws ModelError `model_unavailable` if the stream ended too early, `model_protocol_error` if it held no reply.
   */
  finish(): ModelReply {
    if (!this.#hasBegun && this.#hasEnded) {
      throw protocolError("a stream without choices", undefined);
    }
    if (!this.isComplete) throw cutStreamError(this.lostOutputTokens);
    const completion = {
      text: this.#text,
      refusal: this.#refusal,
      calls: this.#calls,
      finishReason: this.#finishReason,
      usage: this.#usage,
      responseId: this.#responseId,
      responseModel: this.#responseModel,
    };
    return toReply(completion, this.#arrivedTokens());
  }

  #takeDelta(delta: Readonly<Record<string, unknown>>): void {
    const text = textOf(delta["content"]);
    if (text !== "") {
      this.#text += text;
      this.#onText(text);
    }
    if (typeof delta["refusal"] === "string") this.#refusal += delta["refusal"];
    for (const piece of listOf(delta["tool_calls"])) {
      this.#takeCallPiece(isRecord(piece) ? piece["index"] : undefined, completionCall(piece));
    }
  }

  /** Servers differ: some number no calls, some number them all 0, some say id and name again with each piece. */
  #takeCallPiece(index: unknown, piece: CompletionCall): void {
    const open = this.#callAt.get(index);
    const isAnother =
      open !== undefined && piece.id !== "" && piece.id !== open.id && piece.name !== "";
    if (open === undefined || isAnother) {
      const call = { ...piece };
      this.#calls.push(call);
      this.#callAt.set(index, call);
      return;
    }
    if (open.id === "") open.id = piece.id;
    if (piece.name !== open.name) open.name += piece.name;
    open.argumentsText += piece.argumentsText;
  }

  #arrivedTokens(): number {
    const calls = this.#calls.map((call) => call.name + call.argumentsText).join("");
    return estimateTokens(this.#text + this.#refusal + calls);
  }
}
