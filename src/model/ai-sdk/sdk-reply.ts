// SdkReply: assembles one reply from the parts of a stream. Owns the received parts. Knows nothing
// of the network.
// - Pieces keep the order in which they began. The metadata of a piece's start, deltas and end are
//   merged to its data.
// - A reply is complete once its finish has been received. Before that it is not returned.
// - The stored part of a reply never exceeds its limit.

import type { LanguageModelV4StreamPart, LanguageModelV4ToolCall } from "@ai-sdk/provider";

import { omitUndefined } from "../../kernel/json.ts";
import { parseId } from "../../protocol/ids.ts";
import type { ModelDelta } from "../../protocol/stream-part.ts";
import type { ModelReply } from "../model.ts";
import { CUT_WARNING, measureData, ReplyMeter, type ReplyLimits } from "../reply-limits.ts";
import { buildReplyMessage } from "../../protocol/reply-message.ts";
import {
  failures,
  isMissingEnd,
  isNetworkError,
  convertReportedError,
  createSilentAnswerError,
} from "./ai-sdk-errors.ts";
import type { CallProgress } from "../http-errors.ts";
import {
  findBlockWarnings,
  toFinishReason,
  isCutOff,
  readSdkUsage,
  describeWarning,
  type Finish,
  RawEvents,
} from "./raw-events.ts";
import {
  toOpaquePart,
  hasReasoning,
  isCompaction,
  mergeMetadata,
  toReplyPiece,
  type GrowingPiece,
  type ReceivedPiece,
} from "./received-pieces.ts";

/** A call whose arguments are arriving. */
interface UnfinishedCall {
  toolName: string;
  isOwn: boolean;
  input: string;
  /** Bytes of its name and arguments, as counted by the cut. */
  countedBytes: number;
}

/** Kind of a server's request for an approval of its own tool. */
const APPROVAL_REQUEST = "tool-approval-request";
/** Kinds that show that the provider ran a tool. */
const SERVER_KINDS: ReadonlySet<string> = new Set(["tool-call", "tool-result", "source"]);

type TextStreamPart = Extract<
  LanguageModelV4StreamPart,
  { type: `${"text" | "reasoning"}-${"start" | "delta" | "end"}` }
>;
type Content = Exclude<
  LanguageModelV4StreamPart,
  { type: "stream-start" | "response-metadata" | "ping" | "raw" | "error" | "finish" }
>;

export class SdkReply {
  readonly #meter: ReplyMeter;
  readonly #provider: string;
  readonly #onDelta: ((delta: ModelDelta) => void) | undefined;
  readonly #pieces: ReceivedPiece[] = [];
  readonly #open = new Map<string, GrowingPiece>();
  /** Incomplete calls, by id. */
  readonly #unfinished = new Map<string, UnfinishedCall>();
  /** Index in the reply of each call that was announced by a delta, by id. */
  readonly #announcedCalls = new Map<string, number>();
  readonly #warnings: string[] = [];
  #hasBegun = false;
  readonly #raw = new RawEvents();
  #finish: Finish | undefined;
  #responseId: string | undefined;
  #responseModel: string | undefined;
  /** The content type of the answer, once its head has arrived. */
  contentType: string | undefined;

  constructor(limits: ReplyLimits, provider: string, onDelta?: (delta: ModelDelta) => void) {
    // The data of the package is mostly ids.
    this.#meter = new ReplyMeter(limits, failures, limits.bodyBytes, 0);
    this.#provider = provider;
    this.#onDelta = onDelta;
  }

  get isComplete(): boolean {
    return this.#finish !== undefined || this.isCut;
  }

  /** True if the reply exceeded twice the cap, and was cut there. */
  get isCut(): boolean {
    return this.#meter.isCut;
  }

  /** True while the package has found nothing in the answer. */
  get #isSilent(): boolean {
    return !this.#hasBegun && !this.#raw.hasEvents && this.#responseId === undefined;
  }

  get progress(): CallProgress {
    const { lostOutputTokens } = this;
    return { isAnswering: this.#hasBegun, lostOutputTokens, lostInput: this.#raw.input };
  }

  /** The output lost if the stream breaks here, or `undefined` before the model has begun. */
  get lostOutputTokens(): number | undefined {
    if (!this.#hasBegun && this.#raw.input === undefined) return undefined;
    return Math.max(this.#meter.receivedTokens, this.#raw.usage?.outputTokens ?? 0);
  }

  /**
   * Processes the next part of the stream.
   *
   * @throws ModelError if the part reports an error or exceeds a limit of the reply.
   */
  take(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case "stream-start":
        this.#warnings.push(...part.warnings.map(describeWarning));
        return;
      case "response-metadata":
        this.#responseId ??= part.id;
        this.#responseModel ??= part.modelId;
        return;
      case "ping":
        return;
      case "raw": {
        this.#raw.take(part.rawValue);
        const { failure } = this.#raw;
        if (failure === undefined) return;
        // The package does not report cancelled responses.
        throw failure.status === "cancelled"
          ? failures.cancelled(this.lostOutputTokens)
          : failures.failed(failure.error, this.lostOutputTokens);
      }
      case "error":
        if (this.#raw.wasOver || isNetworkError(part.error)) this.end();
        if (this.#finish !== undefined) return;
        if (isMissingEnd(part.error) && this.#isSilent)
          throw createSilentAnswerError(this.contentType);
        throw convertReportedError(part.error, this.lostOutputTokens, this.#raw.report);
      case "finish":
        if (part.finishReason.unified === "interrupted") this.end();
        this.#finish ??= part;
        return;
      default:
        this.#hasBegun = true;
        this.#takeContent(part);
    }
  }

  /** Processes the end of a stream. The last part may be missing although the model had ended. */
  end(): void {
    if (this.#finish !== undefined) return;
    this.#finish = this.#raw.finish(this.#announcedCalls.size > 0);
    if (this.#finish !== undefined) this.#pieces.push(...this.#collectUnfinishedCalls());
  }

  /**
   * Returns the complete reply, after the last part.
   *
   * @throws ModelError `model_unavailable` if the stream ended too early; `model_protocol_error`
   * for a response that is still queued or running, or that waits for an approval of a server tool.
   */
  finish(warnings: readonly string[]): ModelReply {
    const { status } = this.#raw;
    if (status === "queued" && !this.#hasBegun)
      throw failures.unfinished(status, this.lostOutputTokens);
    if (this.isCut) this.#finish = undefined;
    else if (
      this.#finish === undefined ||
      isCutOff(this.#finish, this.#provider, this.#raw.lacksEnd)
    )
      throw this.#isSilent
        ? createSilentAnswerError(this.contentType)
        : failures.cutStream(this.lostOutputTokens);
    const finish = this.#finish;
    const callPrefix = this.#responseId ?? "call";
    const received = this.isCut
      ? [...this.#pieces, ...this.#collectUnfinishedCalls()]
      : this.#pieces;
    const sealed = this.#findSealedReasoning();
    const pieces = [...sealed, ...received].map((piece, index) =>
      toReplyPiece(piece, `${callPrefix}.${index - sealed.length}`),
    );
    const message = buildReplyMessage(pieces);
    const isEmpty = message.toolCalls.length === 0 && message.text.trim() === "";
    const kinds = received.flatMap((piece) => (piece.type === "opaque" ? [piece.kind] : []));
    // The next request would receive the same reply, without text or calls, again.
    if (isEmpty && !this.isCut) {
      const { lostOutputTokens } = this;
      if (status === "in_progress") throw failures.unfinished(status, lostOutputTokens);
      if (kinds.includes(APPROVAL_REQUEST))
        throw failures.unsupportedCall(APPROVAL_REQUEST, lostOutputTokens);
    }
    const hasServerTools = this.#raw.hasServerTools || kinds.some((kind) => SERVER_KINDS.has(kind));
    const finishReason =
      finish === undefined ? "length" : toFinishReason(finish.finishReason, isEmpty);
    const notes = [
      ...(this.isCut ? [CUT_WARNING] : []),
      ...(finish === undefined ? [] : findBlockWarnings(finishReason, finish.finishReason)),
    ];
    const allWarnings = [...warnings, ...this.#warnings, ...notes];
    return {
      message,
      finishReason,
      ...omitUndefined({
        rawFinishReason: finish?.finishReason.raw,
        usage: finish && readSdkUsage({ ...this.#raw.completeUsage(finish), hasServerTools }),
        responseId: this.#responseId,
        responseModel: this.#responseModel,
      }),
      ...(allWarnings.length === 0 ? {} : { warnings: allWarnings }),
    };
  }

  #takeContent(part: Content): void {
    switch (part.type) {
      case "text-start":
      case "text-delta":
      case "text-end":
        this.#takeTextPart("text", part);
        return;
      case "reasoning-start":
      case "reasoning-delta":
      case "reasoning-end":
        this.#takeTextPart("reasoning", part);
        return;
      case "tool-input-start": {
        const { id } = part;
        this.#openCall(id, part.toolName, part.providerExecuted !== true);
        const { toolName = "", isOwn = false } = this.#unfinished.get(id) ?? {};
        // A call without an id is announced after the reply is complete.
        if (id === "" || !isOwn || this.isCut || this.#announcedCalls.has(id)) return;
        const index = this.#announcedCalls.size;
        this.#announcedCalls.set(id, index);
        this.#onDelta?.({ type: "call", index, callId: parseId<"CallId">(id), toolName });
        return;
      }
      case "tool-input-delta":
        this.#takeArguments(part.id, part.delta);
        return;
      case "tool-input-end":
        return;
      case "tool-call":
        this.#takeCall(part);
        return;
      default: {
        const opaque = toOpaquePart(part);
        if (opaque === undefined) return;
        this.#meter.countData(measureData(opaque.data));
        this.#pieces.push(opaque);
      }
    }
  }

  #takeTextPart(type: GrowingPiece["type"], part: TextStreamPart): void {
    const key = `${type} ${part.id}`;
    const isStart = part.type === "text-start" || part.type === "reasoning-start";
    const open = isStart ? undefined : this.#open.get(key);
    const piece = open ?? { type, text: "", metadata: {} };
    if (open === undefined) {
      this.#meter.countOpened(key);
      this.#open.set(key, piece);
      this.#pieces.push(piece);
    }
    if ("delta" in part) {
      const delta = this.#meter.admit(part.delta);
      piece.text += delta;
      if (!isCompaction(piece.metadata)) this.#onDelta?.({ type, text: delta });
    } else if (!isStart) this.#open.delete(key);
    if (part.providerMetadata === undefined) return;
    this.#meter.countData(measureData(part.providerMetadata));
    piece.metadata = mergeMetadata(piece.metadata, part.providerMetadata);
  }

  /**
   * Returns the call, or `undefined` if its name exceeds the cut: a truncated name would call
   * another tool.
   */
  #openCall(id: string, toolName: string, isOwn: boolean): UnfinishedCall | undefined {
    const known = this.#unfinished.get(id);
    if (known !== undefined && (known.toolName !== "" || toolName === "")) return known;
    if (this.#meter.admit(toolName) !== toolName) return undefined;
    if (known === undefined) this.#meter.countOpened(id);
    const call = known ?? { toolName, isOwn, input: "", countedBytes: 0 };
    call.toolName = toolName;
    call.isOwn = isOwn;
    call.countedBytes += Buffer.byteLength(toolName);
    this.#unfinished.set(id, call);
    return call;
  }

  #takeArguments(id: string, delta: string): void {
    const piece = this.#meter.admit(delta);
    // Without a name the call is only counted.
    const call = this.#openCall(id, "", false);
    if (call !== undefined) {
      call.input += piece;
      call.countedBytes += Buffer.byteLength(piece);
    }
    const index = this.#announcedCalls.get(id);
    if (index !== undefined && piece !== "")
      this.#onDelta?.({ type: "arguments", index, text: piece });
  }

  #takeCall(part: LanguageModelV4ToolCall): void {
    const { toolCallId: id, toolName } = part;
    const call = this.#openCall(id, toolName, part.providerExecuted !== true);
    const countedBytes = call?.countedBytes ?? 0;
    this.#unfinished.delete(id);
    const [name, input = ""] = this.#meter.admitItem([toolName, part.input], countedBytes);
    if (name !== toolName) return;
    if (part.providerMetadata !== undefined)
      this.#meter.countData(measureData(part.providerMetadata));
    if (part.providerExecuted !== true) this.#pieces.push({ ...part, input });
    else if (!this.isCut) this.#pieces.push(toOpaquePart(part) ?? part);
  }

  /** Returns encrypted reasoning of OpenRouter that no piece of the reply contains. */
  #findSealedReasoning(): readonly GrowingPiece[] {
    for (const [provider, { reasoning_details: details }] of Object.entries(
      this.#finish?.providerMetadata ?? {},
    )) {
      const isKept = this.#pieces.some((piece) => hasReasoning(piece, provider));
      if (!Array.isArray(details) || details.length === 0 || isKept) continue;
      const metadata = { [provider]: { reasoning_details: details } };
      this.#meter.countData(measureData(metadata));
      return [{ type: "reasoning", text: "", metadata }];
    }
    return [];
  }

  #collectUnfinishedCalls(): readonly LanguageModelV4ToolCall[] {
    const ownCalls = [...this.#unfinished].filter(([, { isOwn }]) => isOwn);
    return ownCalls.map(([toolCallId, { toolName, input }]) => {
      return { type: "tool-call", toolCallId, toolName, input };
    });
  }
}
