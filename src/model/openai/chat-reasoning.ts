// What Chat Completions servers say besides text and calls, and want to see again: reasoning, under
// the name that each has for it, and data that goes with it. OpenAI's own messages contain neither.
// Mistral's reasoning comes as parts of `content`: { type: "thinking", thinking: [{ type: "text", … }] }.

import { defined, type JsonObject, type JsonValue } from "../../kernel/json.ts";
import type { ProviderData, ReplyPart } from "../../protocol/message.ts";
import type { ReplyPiece } from "../../protocol/reply-message.ts";
import { OPENED_BYTES } from "../reply-limits.ts";
import { GrowingText } from "./growing-text.ts";
import { fieldsOf, isParsed, listOf, ownData, type Fields } from "../wire-json.ts";
import { REASONING_FIELDS, type ReasoningField } from "./answer-options.ts";

/** By default it is the field that came; `false`: reasoning is neither kept nor sent. */
export type ReasoningOption = ReasoningField | false | undefined;

/** Under this name our data stands in `ReplyPart.data`. */
const NAMESPACE = "chat";

/** What is kept of a reply with its reasoning, as `data`. */
interface ReasoningData {
  /** The field that it came in. Left out: there were details only. */
  readonly field?: ReasoningField;
  /** The other fields of a thinking part, such as `signature`, if the reasoning came in `content`. */
  readonly thinking?: JsonObject;
  /** True if a thinking part was a text, and not a list of parts. */
  readonly isText?: true;
  /** `reasoning_details` of OpenRouter and others: signatures and encrypted reasoning. */
  readonly details?: readonly JsonObject[];
}

interface TakenReasoning {
  readonly text: string;
  /** The size of the parts that were opened, besides their texts. */
  readonly openedBytes: number;
  readonly dataBytes: number;
}

/** The reasoning of one reply, put together from a message or from the pieces of one. */
export class ChatReasoning {
  readonly #option: ReasoningOption;
  readonly #text = new GrowingText();
  #field: ReasoningField | undefined;
  readonly #details: Record<string, JsonValue>[] = [];
  readonly #thinking: ThinkingPart[] = [];

  constructor(option: ReasoningOption) {
    this.#option = option;
  }

  /**
   * Takes the reasoning of a message, or of a piece of one, behind a text of this length. Returns the
   * reasoning as `admit` takes it, and how many bytes are kept besides.
   */
  take(message: Fields, textLength: number, admit: (text: string) => string): TakenReasoning {
    const hasField = (this.#option || this.#field) !== undefined;
    const thinking = hasField ? [] : listOf(message["content"]).filter(isParsed).filter(isThinking);
    if (thinking.length > 0) return this.#takeThinking(thinking, textLength, admit);
    const known = this.#option === false ? undefined : (this.#option ?? this.#field);
    const field = known ?? REASONING_FIELDS.find((name) => textOf(message[name]) !== "");
    const text = field === undefined ? "" : admit(textOf(message[field]));
    if (this.#option === false) return { text, openedBytes: 0, dataBytes: 0 };
    if (text !== "") {
      this.#field ??= field;
      this.#text.push(text);
    }
    let dataBytes = 0;
    for (const detail of listOf(message["reasoning_details"]).filter(isParsed))
      dataBytes += this.#takeDetail(detail, text !== "");
    return { text, openedBytes: 0, dataBytes };
  }

  /** Returns the reasoning and the text of the reply in their order. The last piece is a text with `data`. */
  piecesWith(text: string, data: ProviderData | undefined): readonly ReplyPiece[] {
    const pieces: ReplyPiece[] = [];
    let from = 0;
    for (const part of this.#thinking) {
      if (part.textLength > from)
        pieces.push({ type: "text", text: text.slice(from, part.textLength) });
      from = part.textLength;
      const data = {
        thinking: part.fields,
        ...(part.isText ? { isText: true as const } : {}),
      } satisfies ReasoningData;
      pieces.push({ type: "reasoning", text: String(part.text), data: { [NAMESPACE]: data } });
    }
    const details = this.#details;
    const thought = String(this.#text);
    if (thought !== "" || details.length > 0) {
      // The reasoning that came in a field beside the text.
      const own = {
        ...defined({ field: this.#field }),
        ...(details.length === 0 ? {} : { details }),
      } satisfies ReasoningData;
      pieces.push({ type: "reasoning", text: thought, data: { [NAMESPACE]: own } });
    }
    return [...pieces, { type: "text", text: text.slice(from), data }];
  }

  /** Streamed parts continue the last one until its signature, or a text, has come. */
  #takeThinking(
    parts: readonly JsonObject[],
    textLength: number,
    admit: (text: string) => string,
  ): TakenReasoning {
    let all = "";
    let openedBytes = 0;
    let dataBytes = 0;
    for (const { type: _type, thinking, ...fields } of parts) {
      const text = admit(textOf(thinking));
      all += text;
      const isEmpty = text === "" && Object.keys(fields).length === 0;
      if (this.#option === false || isEmpty) continue;
      const last = this.#thinking.at(-1);
      // A part without text is the end of the last one, also behind a text.
      const isNew = text !== "" && last?.textLength !== textLength;
      const open = last === undefined || isNew || "signature" in last.fields ? undefined : last;
      const isText = typeof thinking === "string";
      const part = open ?? { text: new GrowingText(), textLength, fields: {}, isText };
      if (open === undefined) {
        this.#thinking.push(part);
        openedBytes += OPENED_BYTES;
      }
      part.text.push(text);
      for (const [name, value] of Object.entries(fields)) {
        if (part.fields[name] !== value) dataBytes += Buffer.byteLength(JSON.stringify(value));
        part.fields[name] = value;
      }
    }
    return { text: all, openedBytes, dataBytes };
  }

  /** Details that are streamed come in pieces with one index. Gives the bytes that it adds; `isCounted`: but not those of its text. */
  #takeDetail(detail: JsonObject, isCounted: boolean): number {
    const open = this.#details.at(-1);
    const { type, index } = detail;
    const isNext = typeof index === "number" && open?.["index"] === index && open["type"] === type;
    if (open === undefined || !isNext) {
      this.#details.push({ ...detail });
      return Buffer.byteLength(JSON.stringify(detail));
    }
    let bytes = 0;
    for (const [name, value] of Object.entries(detail)) {
      const before = open[name];
      const isGrowing = GROWING.includes(name) && typeof before === "string";
      if (!isGrowing || typeof value !== "string") {
        if (before !== value) bytes += Buffer.byteLength(JSON.stringify(value));
        open[name] = value;
        continue;
      }
      open[name] = before + value;
      if (!isCounted || name === "data") bytes += Buffer.byteLength(value);
    }
    return bytes;
  }
}

function isThinking(part: unknown): boolean {
  const { type, thinking } = fieldsOf(part);
  return type === "thinking" && (Array.isArray(thinking) || typeof thinking === "string");
}

/**
 * Returns the message, or a piece of one, in pieces of which each has its thinking parts before its
 * text. Its other fields are in the last one.
 */
export function splitAtThinking(message: Fields): readonly Fields[] {
  if (!Array.isArray(message["content"])) return [message];
  const { content: _content, ...others } = message;
  const parts: readonly unknown[] = message["content"];
  const begins = parts.flatMap((part, index) =>
    index > 0 && isThinking(part) && !isThinking(parts[index - 1]) ? [index] : [],
  );
  const ends = [...begins, parts.length];
  return ends.map((end, index) => {
    const piece = parts.slice(begins[index - 1] ?? 0, end);
    return index === begins.length ? { ...others, content: piece } : { content: piece };
  });
}

interface ThinkingPart {
  readonly text: GrowingText;
  /** The length of the text before it. */
  readonly textLength: number;
  readonly isText: boolean;
  readonly fields: Record<string, JsonValue>;
}

const GROWING: readonly string[] = ["text", "summary", "data"];

/** The fields of a message that send the reasoning of its pieces back, under the names that it came by. */
export function sentReasoning(pieces: readonly ReplyPiece[], option: ReasoningOption): Fields {
  if (option === false) return {};
  const sent: Record<string, string> = {};
  let details: readonly unknown[] = [];
  for (const piece of pieces) {
    if (piece.type !== "reasoning") continue;
    const field = fieldOf(piece, option);
    if (field !== undefined) sent[field] = (sent[field] ?? "") + piece.text;
    const { details: own } = ownData(piece.data, NAMESPACE);
    if (Array.isArray(own)) details = details.concat(own);
  }
  return details.length === 0 ? sent : { ...sent, reasoning_details: details };
}

/**
 * Returns the `content` of a reply with thinking parts that is sent back, or `undefined` for a reply
 * without such parts.
 */
export function sentThinking(
  pieces: readonly ReplyPiece[],
  option: ReasoningOption,
): readonly JsonObject[] | undefined {
  if (option !== undefined) return undefined;
  let hasThinking = false;
  const parts = pieces.flatMap((piece): readonly JsonObject[] => {
    if (piece.type === "text") return textParts(piece.text);
    if (piece.type !== "reasoning") return [];
    const { thinking, isText } = ownData(piece.data, NAMESPACE);
    if (!isParsed(thinking)) return [];
    hasThinking = true;
    const sent = isText === true ? piece.text : textParts(piece.text);
    return [{ type: "thinking", thinking: sent, ...thinking }];
  });
  return hasThinking ? parts : undefined;
}

function textParts(text: string): readonly JsonObject[] {
  return text === "" ? [] : [{ type: "text", text }];
}

/** The field in which a part of a reply goes back; undefined: it has no reasoning in clear. */
export function fieldOf(
  part: ReplyPart | ReplyPiece,
  option: ReasoningOption,
): ReasoningField | undefined {
  if (option === false || part.type !== "reasoning" || part.text === "") return undefined;
  const { field } = ownData(part.data, NAMESPACE);
  return option ?? REASONING_FIELDS.find((name) => name === field);
}

/** What Gemini's Chat interface puts beside a text or a call: the signature of what it thought. */
export function extraContent(of: Fields): {
  readonly data?: ProviderData;
} {
  const extra = of["extra_content"];
  return isParsed(extra) ? { data: { [NAMESPACE]: { extra_content: extra } } } : {};
}

/** The field that sends it back. */
export function sentExtraContent({ data }: ReplyPiece): Fields {
  const { extra_content } = ownData(data, NAMESPACE);
  return extra_content === undefined ? {} : { extra_content };
}

/** Text as servers give it: a string, a list of parts of which some are text, or nothing. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) => fieldsOf(part)["text"])
    .filter((text) => typeof text === "string")
    .join("");
}
