// StreamedResponse: assembles one reply from the events of a Responses stream. Owns the received
// parts, by the index of each item in the response. Knows nothing of the network.
// - An item has the content of its last done event. Without such an event it consists of its
//   deltas, without data, which is complete only then. Items are ordered by index, whatever the
//   order of events and their ids.
// - A reply is complete once an event reports the end of the response. Before that it is not
//   returned.
// - The stored part of a reply never exceeds its limit.
// - Events that are irrelevant to the reply are not parsed: some repeat the whole request.

import type { ModelDelta } from "../../protocol/stream-part.ts";
import type { ModelReply, ModelRequest } from "../model.ts";
import {
  CUT_WARNING,
  countBytes,
  MAX_DATA_BYTES,
  estimateReceivedTokens,
  measureData,
  ReplyMeter,
  type ReplyLimits,
} from "../reply-limits.ts";
import type { ReportedInput } from "../token-usage.ts";
import {
  readCallId,
  findResponseFailure,
  createNoResponseError,
  readOutputTokens,
  readItem,
  findResponseReport,
  convertResponseToReply,
  readResponseUsage,
  type AdmitTexts,
  type ReadItem,
  BETWEEN_SUMMARIES,
  toResponses,
} from "./from-responses.ts";
import { GrowingText } from "./growing-text.ts";
import { failures } from "./openai-errors.ts";
import type { ReplyStream, FieldFallback, WireApi, WireRequest } from "./answer-options.ts";
import { findErrorInBody, readFields, isText, type Fields } from "../wire-json.ts";
import type { Message } from "../../protocol/message.ts";
import type { ModelError } from "../model-error.ts";
import { filterForRecipient, stripToText } from "../recipient-messages.ts";
import { addLostInput } from "../http-errors.ts";
import { parseBody, parseObject } from "./from-openai.ts";
import type { WireSettings } from "./to-openai.ts";

const END_MARK = "[DONE]";
const TYPE_KEY = '"type":"';
const FIRST_TYPE = `{${TYPE_KEY}`;

/** The end of a reply that was cut. */
const CUT_END: Fields = {
  status: "incomplete",
  incomplete_details: { reason: "max_output_tokens" },
};

type EventReader = (reply: StreamedResponse, event: Fields) => void;

/** A text of an item that arrives in deltas. */
type GrowingField = "text" | "refusal" | "reasoning" | "arguments";

/** An item of the response. */
class Slot {
  /** Fields of the event that added it. */
  readonly opened: Fields;
  readonly callIndex: number | undefined;
  /** Bytes of the model's text, as counted by the meter. */
  countedBytes = 0;
  /** Text of a message, reasoning, or arguments of a call. */
  readonly text = new GrowingText();
  readonly refusal = new GrowingText();
  /** Index of the summary part that is arriving. */
  summaryIndex: unknown;
  done: ReadItem | undefined;

  constructor(opened: Fields, callIndex: number | undefined) {
    this.opened = opened;
    this.callIndex = callIndex;
  }

  /** Returns the item that the deltas add up to. */
  assembleItem(): Fields {
    const text = String(this.text);
    switch (this.opened["type"]) {
      case "message": {
        const refusal = { type: "refusal", refusal: String(this.refusal) };
        return { ...this.opened, content: [{ type: "output_text", text }, refusal] };
      }
      case "reasoning":
        return { ...this.opened, summary: [{ type: "summary_text", text }] };
      case "function_call":
        return { ...this.opened, arguments: text };
      default:
        return {};
    }
  }
}

export class StreamedResponse implements ReplyStream {
  readonly #meter: ReplyMeter;
  readonly #onDelta: (delta: ModelDelta) => void;
  readonly #slots = new Map<number, Slot>();
  #lastPlace = -1;
  #callCount = 0;
  #response: Fields | undefined;
  #failed: Fields = {};
  /** An error in a message without a type. It is thrown if the response does not end. */
  #report: unknown;
  #isMarked = false;
  #isQueued = false;
  /** Estimated tokens of a response that was not streamed. */
  #wholeTokens: number | undefined;

  constructor(limits: ReplyLimits, onDelta: (delta: ModelDelta) => void) {
    this.#meter = new ReplyMeter(limits, failures, MAX_DATA_BYTES);
    this.#onDelta = onDelta;
  }

  get isComplete(): boolean {
    return this.#response !== undefined || this.isCut;
  }

  get isCut(): boolean {
    return this.#meter.isCut;
  }

  get isOver(): boolean {
    return this.isComplete;
  }

  /** Hidden reasoning is estimated from its encrypted data. */
  get lostOutputTokens(): number | undefined {
    return this.#slots.size === 0 ? undefined : this.#arrivedTokens;
  }

  get lostInput(): ReportedInput | undefined {
    return readResponseUsage(this.#response ?? this.#failed);
  }

  take(data: string): void {
    if (this.isComplete || this.#isMarked) return;
    if (data === END_MARK) {
      this.#isMarked = true;
      return;
    }
    const type = findEdgeType(data);
    if (type !== undefined && !StreamedResponse.#readers.has(type)) return;
    this.#read(parseObject(data, "an event", this, createNoResponseError));
  }

  /**
   * Returns the complete reply, after the last event.
   *
   * @throws ModelError `model_unavailable` if the stream ended too early, `model_protocol_error` if
   * it contained no response.
   */
  finish(): ModelReply {
    if (this.isCut) {
      // Uses the reported usage of a cut reply unless the received text counts for more.
      const { usage, ...response } = this.#response ?? {};
      const isHonest = this.#meter.isHonest(readOutputTokens({ usage }));
      const ended = { ...response, ...CUT_END, ...(isHonest ? { usage } : {}) };
      return { ...convertResponseToReply(ended, this.#collectItems()), warnings: [CUT_WARNING] };
    }
    if (this.#response === undefined) {
      if (this.#isQueued && this.#slots.size === 0) throw failures.unfinished("queued", undefined);
      if (this.#report !== undefined) throw failures.reported(this.#report, this.lostOutputTokens);
      if (this.#isMarked && this.#slots.size === 0)
        throw createNoResponseError("a stream without a response", undefined);
      throw failures.cutStream(this.lostOutputTokens);
    }
    return convertResponseToReply(this.#response, this.#collectItems());
  }

  #read(event: Fields): void {
    const read = StreamedResponse.#readers.get(event["type"]);
    if (read !== undefined) return read(this, event);
    // An event without a type may contain an error in the server's own form.
    if (event["type"] !== undefined) return;
    const error = findResponseReport(event);
    if (error !== undefined) throw failures.reported(error, this.lostOutputTokens);
    this.#report ??= findErrorInBody(event);
  }

  /** Readers by type of event. Events of other types do not affect the reply. */
  static readonly #readers: ReadonlyMap<unknown, EventReader> = new Map<unknown, EventReader>([
    [
      "response.output_item.added",
      (reply, event) => {
        const place = readPlace(event) ?? reply.#slots.size;
        reply.#lastPlace = place;
        if (!reply.#slots.has(place)) reply.#addSlot(place, readFields(event["item"]));
      },
    ],
    [
      "response.output_item.done",
      (reply, event) => reply.#close(reply.#findPlace(event), event["item"]),
    ],
    ["response.output_text.delta", (reply, event) => reply.#appendDelta(event, "message", "text")],
    ["response.refusal.delta", (reply, event) => reply.#appendDelta(event, "message", "refusal")],
    ["response.reasoning_text.delta", (reply, event) => reply.#takeReasoning(event)],
    ["response.reasoning_summary_text.delta", (reply, event) => reply.#takeReasoning(event)],
    [
      "response.function_call_arguments.delta",
      (reply, event) => reply.#appendDelta(event, "function_call", "arguments"),
    ],
    ["response.completed", (reply, event) => reply.#end(event)],
    ["response.incomplete", (reply, event) => reply.#end(event)],
    ["response.cancelled", (reply, event) => reply.#end(event)],
    ["response.failed", (reply, event) => reply.#end(event)],
    [
      "response.queued",
      (reply) => {
        reply.#isQueued = true;
      },
    ],
    [
      "error",
      (reply, event) => {
        throw failures.reported(findResponseReport(event) ?? event, reply.lostOutputTokens);
      },
    ],
  ]);

  /** Appends the delta of an event to a text of its item. */
  #appendDelta(event: Fields, itemType: string, field: GrowingField, before = ""): void {
    const slot = this.#findSlot(event, itemType);
    const { delta } = event;
    const text = this.#meter.admit(before + (typeof delta === "string" ? delta : ""));
    slot.countedBytes += Buffer.byteLength(text);
    if (text === "") return;
    (field === "refusal" ? slot.refusal : slot.text).push(text);
    const { callIndex: index } = slot;
    if (field !== "arguments") this.#onDelta({ type: field, text });
    else if (index !== undefined) this.#onDelta({ type: field, index, text });
  }

  #takeReasoning(event: Fields): void {
    const slot = this.#findSlot(event, "reasoning");
    const { summary_index: index } = event;
    const isNext = !slot.text.isEmpty && index !== slot.summaryIndex;
    slot.summaryIndex = index;
    this.#appendDelta(event, "reasoning", "reasoning", isNext ? BETWEEN_SUMMARIES : "");
  }

  #close(place: number, item: unknown): void {
    const slot = this.#slots.get(place) ?? this.#addSlot(place, readFields(item));
    const { countedBytes } = slot;
    const admit: AdmitTexts = (texts) => {
      const admitted = this.#meter.admitItem(texts, countedBytes);
      slot.countedBytes = Math.max(countedBytes, countBytes(admitted));
      return admitted;
    };
    const read = readItem(item, place, admit, this.#arrivedTokens);
    // Some servers send text only in the done event, without deltas. The rest of the text is not
    // emitted if the counted bytes include anything but the text.
    const streamedText = String(slot.text);
    const { piece } = read;
    const isLonger = piece?.type === "text" && piece.text.startsWith(streamedText);
    const rest = isLonger ? piece.text.slice(streamedText.length) : "";
    if (rest !== "" && Buffer.byteLength(streamedText) === countedBytes) {
      slot.text.push(rest);
      this.#onDelta({ type: "text", text: rest });
    }
    this.#meter.countData(measureItem(read) - measureItem(slot.done));
    slot.done = read;
  }

  #end(event: Fields): void {
    const { type, response } = event;
    const status = String(type).slice("response.".length);
    const ended: Fields = { status, ...readFields(response) };
    const { lostOutputTokens } = this;
    const failure =
      findResponseFailure({ ...ended, status }, lostOutputTokens) ??
      findResponseFailure(ended, lostOutputTokens);
    if (failure !== undefined) {
      this.#failed = ended;
      throw failure;
    }
    this.#takeOutput(ended);
  }

  /** Processes a response that was not streamed. `arrivedTokens`: an estimate of its length. */
  takeWhole(response: Fields, arrivedTokens: number): void {
    this.#wholeTokens = arrivedTokens;
    this.#takeOutput(response);
  }

  /** Some servers send all of the output, or a part, only at the end. */
  #takeOutput(response: Fields): void {
    const { output } = response;
    this.#meter.raiseLimit(readOutputTokens(response));
    const done = [...this.#slots.values()].filter((slot) => slot.done !== undefined);
    if (Array.isArray(output) && output.length > done.length) {
      for (const place of this.#slots.keys()) if (place >= output.length) this.#slots.delete(place);
      for (const [place, item] of output.entries()) this.#close(place, item);
    }
    this.#response = response;
  }

  /** Returns the index of an event's item, or of the item that was added last. */
  #findPlace(event: Fields): number {
    return readPlace(event) ?? Math.max(this.#lastPlace, 0);
  }

  #findSlot(event: Fields, type: string): Slot {
    const place = this.#findPlace(event);
    return this.#slots.get(place) ?? this.#addSlot(place, { type });
  }

  #addSlot(place: number, opened: Fields): Slot {
    const { type, call_id, id, name } = opened;
    const callName = type === "function_call" && isText(name) ? name : "";
    // A truncated name would call another tool.
    const fields: Fields =
      this.#meter.admit(callName) === callName ? { type, call_id, id, name } : {};
    this.#meter.countOpened(JSON.stringify(fields));
    const toolName = fields["type"] === "function_call" ? fields["name"] : undefined;
    const callIndex = isText(toolName) ? this.#callCount : undefined;
    if (callIndex !== undefined && isText(toolName)) {
      this.#callCount += 1;
      const callId = readCallId(fields, place);
      this.#onDelta({ type: "call", index: callIndex, callId, toolName });
    }
    const slot = new Slot(fields, callIndex);
    slot.countedBytes = Buffer.byteLength(callName);
    this.#slots.set(place, slot);
    return slot;
  }

  #collectItems(): readonly ReadItem[] {
    const inOrder = [...this.#slots].toSorted(([left], [right]) => left - right);
    return inOrder.map(
      ([place, slot]) =>
        slot.done ?? readItem(slot.assembleItem(), place, admitAll, this.#arrivedTokens),
    );
  }

  get #arrivedTokens(): number {
    return this.#wholeTokens ?? this.#meter.receivedTokens;
  }
}

/** Deltas were admitted when they arrived. */
const admitAll: AdmitTexts = (texts) => texts;

/** Returns the size of the data of an item that is sent back unchanged. */
function measureItem({ piece }: ReadItem = {}): number {
  return piece?.type === "text" ? 0 : measureData(piece?.data);
}

/**
 * Returns the type of an event without parsing, if it is the first key or the last one. Quotes in a
 * text of the event would be escaped. `undefined` if the event has to be parsed.
 */
function findEdgeType(data: string): string | undefined {
  if (data.startsWith(FIRST_TYPE)) {
    return data.slice(FIRST_TYPE.length, data.indexOf('"', FIRST_TYPE.length));
  }
  if (!data.endsWith('"}')) return undefined;
  const start = data.lastIndexOf(TYPE_KEY) + TYPE_KEY.length;
  const type = data.slice(start, -2);
  return start < TYPE_KEY.length || type.includes('"') ? undefined : type;
}

function readPlace({ output_index: place }: Fields): number | undefined {
  return typeof place === "number" && Number.isSafeInteger(place) && place >= 0 ? place : undefined;
}

// ResponsesApi: the Responses API, OpenAI's own interface, as a port for the connection. Owns the
// refusals of the server: replies to send without their parts, and whether encrypted reasoning may
// be requested. Both are kept for the life of the connection, so that no step of a run is refused
// twice.

/** Refusals of a server that cannot read the reasoning in a reply. */
const UNREADABLE = /without its required|produced under a different model/;
/** Models without reasoning refuse requests for encrypted reasoning. */
const UNSEALABLE = /encrypted content is not supported/i;

export class ResponsesApi implements WireApi {
  readonly name = "responses";
  readonly path = "/responses";
  readonly #settings: WireSettings;
  /** Replies without the reasoning that the provider refused, or `undefined` without refusals. */
  #withoutReasoning: WeakMap<Message, Message> | undefined;
  #isSealed = true;

  constructor(settings: WireSettings) {
    this.#settings = settings;
  }

  write(request: WireRequest, isStreaming: boolean): Buffer {
    const withoutReasoning = this.#withoutReasoning;
    const shown = filterForRecipient(request.messages, this.#settings);
    const messages =
      withoutReasoning === undefined
        ? shown
        : shown.map((message) => withoutReasoning.get(message) ?? message);
    const sent = { ...request, messages };
    return Buffer.from(toResponses(sent, this.#settings, isStreaming, this.#isSealed));
  }

  read(body: string, limits: ReplyLimits): ModelReply {
    const response = parseBody(body, limits, createNoResponseError);
    const failure = findResponseFailure(response, undefined);
    if (failure !== undefined) throw addLostInput(failure, readResponseUsage(response));
    if (!Array.isArray(response["output"])) {
      const error = findErrorInBody(response);
      throw error === undefined
        ? createNoResponseError(`a response without output: ${body}`, undefined)
        : failures.reported(error, undefined);
    }
    const reply = new StreamedResponse(limits, () => undefined);
    reply.takeWhole(response, estimateReceivedTokens(Buffer.byteLength(body), limits));
    return reply.finish();
  }

  stream(limits: ReplyLimits, onDelta: (delta: ModelDelta) => void): ReplyStream {
    return new StreamedResponse(limits, onDelta);
  }

  dropRejectedField(
    request: ModelRequest,
    { message, data }: ModelError,
  ): FieldFallback | undefined {
    if (UNSEALABLE.test(message)) {
      this.#isSealed = false;
      return { warning: undefined };
    }
    if (data["providerCode"] !== "invalid_encrypted_content" && !UNREADABLE.test(message))
      return undefined;
    const withoutReasoning = this.#withoutReasoning ?? new WeakMap();
    this.#withoutReasoning = withoutReasoning;
    const refused = filterForRecipient(request.messages, this.#settings).filter(
      (sent) =>
        sent.role === "assistant" && sent.parts !== undefined && !withoutReasoning.has(sent),
    );
    // Another call has recorded the refusal meanwhile.
    if (refused.length === 0) return { warning: undefined };
    for (const whole of refused) {
      const [plain = whole] = stripToText([whole]);
      withoutReasoning.set(whole, plain);
    }
    const warning = `The reasoning of ${refused.length} earlier replies was left out, since the provider could not read it: ${message}`;
    return { warning };
  }
}
