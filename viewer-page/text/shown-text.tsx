// Shows foreign text literally: without markup or links. Invisible characters and direction marks
// are shown by their code points. All text from models, tools and users passes through this file.

import { useState } from "preact/hooks";

import { formatFullCount } from "../../src/read-model/amounts.ts";
import { indentIfJson } from "./json-text.ts";

/**
 * Invisible characters, direction marks and unusual line breaks: all except tabs, line breaks and
 * parts of emoji.
 */
const UNSEEN =
  /(?![\t\n]|\r\n|(?<=\p{Emoji})\ufe0f|(?<=\p{Emoji}\ufe0f?)\u200d(?=\p{Emoji}))[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

interface TextPiece {
  readonly text: string;
  readonly isUnseen: boolean;
}

/** Splits a text into visible parts and characters that are shown by their code points. */
export function splitVisible(text: string): readonly TextPiece[] {
  const pieces: TextPiece[] = [];
  let from = 0;
  for (const { 0: sign, index } of text.matchAll(UNSEEN)) {
    if (index > from) pieces.push({ text: text.slice(from, index), isUnseen: false });
    pieces.push({ text: formatCodePoint(sign), isUnseen: true });
    from = index + sign.length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), isUnseen: false });
  return pieces;
}

/** Returns the same as one text, for titles and screen readers. Line breaks are shown as a sign. */
export function toLine(text: string, most = 400): string {
  const line = splitVisible(text.slice(0, most).replaceAll(/\r?\n/g, " ⏎ "))
    .map((piece) => piece.text)
    .join("");
  return text.length > most ? `${line}…` : line;
}

function formatCodePoint(sign: string): string {
  return `U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Shows text on one line, cut off by its box. `most` is the maximum number of characters. */
export function Line({ text, most = 400 }: { readonly text: string; readonly most?: number }) {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return <span class="said">{markUnseen(cut.replaceAll(/\r?\n/g, " ⏎ "))}</span>;
}

export function Code({ text }: { readonly text: string }) {
  return (
    <code>
      <Line text={text} />
    </code>
  );
}

/** Number of characters of a long text that are shown at first, and per extension. */
const SHOWN_AT_FIRST = 6_000;
const SHOWN_MORE = 200_000;

interface BlockProps {
  readonly text: string;
  /** True for prose, false for code and data. */
  readonly isProse?: boolean;
}

/**
 * Shows text with its lines. Of a long text, shows the beginning and the number of hidden
 * characters.
 */
export function Block({ text, isProse = false }: BlockProps) {
  return (
    <div class={isProse ? "said block prose" : "said block"}>
      <LongText text={text} />
    </div>
  );
}

/** Shows the text of a message: prose, or indented JSON. */
export function Words({ text }: { readonly text: string }) {
  const shown = indentIfJson(text);
  return <Block text={shown} isProse={shown === text} />;
}

export function LongText({ text }: { readonly text: string }) {
  const [shown, setShown] = useState(SHOWN_AT_FIRST);
  const rest = text.length - shown;
  return (
    <>
      {markUnseen(rest > 0 ? text.slice(0, shown) : text)}
      {rest > 0 && (
        <button class="more" onClick={() => setShown(shown + SHOWN_MORE)}>
          {formatFullCount(rest)} more characters: show{" "}
          {rest > SHOWN_MORE ? formatFullCount(SHOWN_MORE) : "them"}
        </button>
      )}
    </>
  );
}

/**
 * Maximum number of marks, because each is an element. Further characters are not marked
 * separately.
 */
const MAX_MARKS = 5_000;

function markUnseen(text: string) {
  // Most texts contain no such character.
  if (text.search(UNSEEN) === -1) return text;
  const pieces = splitVisible(text);
  if (pieces.length > MAX_MARKS) return pieces.map((piece) => piece.text).join("");
  return pieces.map((piece) =>
    piece.isUnseen ? <span class="unseen">{piece.text}</span> : piece.text,
  );
}
