// Text that others wrote, shown as the text that it is: no markup, no links, and what cannot be seen, or turns the order of what can, by its
// number. All that a model, a tool or a user wrote goes through here.

import { useState } from "preact/hooks";

import { formatFullCount } from "../../src/view/amounts.ts";
import { indentIfJson } from "./json-text.ts";

/**
 * What is not seen or sets the direction, and line breaks that are none in a text: all but tabs, line breaks, and what belongs to an emoji.
 */
const UNSEEN =
  /(?![\t\n]|\r\n|(?<=\p{Emoji})\ufe0f|(?<=\p{Emoji}\ufe0f?)\u200d(?=\p{Emoji}))[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

interface TextPiece {
  readonly text: string;
  readonly isUnseen: boolean;
}

/** The text in pieces: as it is, and signs that are shown by their number. */
export function piecesOf(text: string): readonly TextPiece[] {
  const pieces: TextPiece[] = [];
  let from = 0;
  for (const { 0: sign, index } of text.matchAll(UNSEEN)) {
    if (index > from) pieces.push({ text: text.slice(from, index), isUnseen: false });
    pieces.push({ text: nameCodePoint(sign), isUnseen: true });
    from = index + sign.length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), isUnseen: false });
  return pieces;
}

/** The same as one text, for titles and what is read aloud; a line break is a sign, too. */
export function lineOf(text: string, most = 400): string {
  const line = piecesOf(text.slice(0, most).replaceAll(/\r?\n/g, " ⏎ "))
    .map((piece) => piece.text)
    .join("");
  return text.length > most ? `${line}…` : line;
}

function nameCodePoint(sign: string): string {
  return `U+${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** On one line, cut off by its box; `most`: so many characters are enough for it. */
export function Line({ text, most = 400 }: { readonly text: string; readonly most?: number }) {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return <span class="said">{marked(cut.replaceAll(/\r?\n/g, " ⏎ "))}</span>;
}

export function Code({ text }: { readonly text: string }) {
  return (
    <code>
      <Line text={text} />
    </code>
  );
}

/** So much of a long text is shown at first, and so much more each time. */
const SHOWN_AT_FIRST = 6_000;
const SHOWN_MORE = 200_000;

interface BlockProps {
  readonly text: string;
  /** Words to be read, rather than code and data. */
  readonly isProse?: boolean;
}

/** As it was written, with its lines; the beginning of a long one, and how much is not shown. */
export function Block({ text, isProse = false }: BlockProps) {
  return (
    <div class={isProse ? "said block prose" : "said block"}>
      <LongText text={text} />
    </div>
  );
}

/** The text of a message: words as words, and JSON as data. */
export function Words({ text }: { readonly text: string }) {
  const shown = indentIfJson(text);
  return <Block text={shown} isProse={shown === text} />;
}

export function LongText({ text }: { readonly text: string }) {
  const [shown, setShown] = useState(SHOWN_AT_FIRST);
  const rest = text.length - shown;
  return (
    <>
      {marked(rest > 0 ? text.slice(0, shown) : text)}
      {rest > 0 && (
        <button class="more" onClick={() => setShown(shown + SHOWN_MORE)}>
          {formatFullCount(rest)} more characters: show{" "}
          {rest > SHOWN_MORE ? formatFullCount(SHOWN_MORE) : "them"}
        </button>
      )}
    </>
  );
}

/** More signs that are not seen are not marked one by one, since each mark is an element. */
const MOST_MARKS = 5_000;

function marked(text: string) {
  // Most texts have nothing of the kind.
  if (text.search(UNSEEN) === -1) return text;
  const pieces = piecesOf(text);
  if (pieces.length > MOST_MARKS) return pieces.map((piece) => piece.text).join("");
  return pieces.map((piece) =>
    piece.isUnseen ? <span class="unseen">{piece.text}</span> : piece.text,
  );
}
