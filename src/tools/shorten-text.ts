// Texts that are longer than a model should read.

/** A text that is short enough, and how much of it there is. */
export interface ShortenedText {
  /** The text itself, or its beginning and a notice that says how much of it is shown. */
  readonly text: string;
  readonly isShortened: boolean;
  /** How long the whole text is, in UTF-16 code units, as `length` counts. */
  readonly totalCharacters: number;
  /** How much of it is shown, without the notice. */
  readonly shownCharacters: number;
}

/**
 * The first `maxCharacters` UTF-16 code units of a text, from 0 up, with a notice of the real and the shown size. A text that is
 * not longer is returned as it is. The cut never splits a surrogate pair: then one less is shown. Nor, unless nothing would be left, does it
 * part a letter from its accents or an emoji from its parts.
 */
export function shortenText(text: string, maxCharacters: number): ShortenedText {
  const total = text.length;
  if (total <= maxCharacters)
    return { text, isShortened: false, totalCharacters: total, shownCharacters: total };
  const shown = text.slice(0, findCutIndex(text, maxCharacters));
  const notice = `[Shortened: ${shown.length} of ${total} characters are shown. Ask for a smaller part.]`;
  return {
    text: shown === "" ? notice : `${shown}\n${notice}`,
    isShortened: true,
    totalCharacters: total,
    shownCharacters: shown.length,
  };
}

/** Returns the text, or its beginning with an ellipsis if it has more than `maxCharacters`. */
export function cutText(text: string, maxCharacters: number): string {
  return text.length <= maxCharacters
    ? text
    : `${text.slice(0, findCutIndex(text, maxCharacters - 1))}…`;
}

/** A character of more code units than this may be split between two code points. */
const LONGEST_CHARACTER = 64;

/** The last place up to `end` at which the text may be cut. */
function findCutIndex(text: string, end: number): number {
  const start = alignToCodePoint(text, Math.max(0, end - LONGEST_CHARACTER));
  const around = text.slice(start, alignToCodePoint(text, end + LONGEST_CHARACTER));
  const split = new Intl.Segmenter("en", { granularity: "grapheme" })
    .segment(around)
    .containing(end - start);
  const isLong = split === undefined || split.index === 0;
  return isLong ? alignToCodePoint(text, end) : start + split.index;
}

/** One place earlier, if this one is in the middle of a surrogate pair. */
function alignToCodePoint(text: string, place: number): number {
  const code = place === 0 ? undefined : text.codePointAt(place - 1);
  return code !== undefined && code > 0xff_ff ? place - 1 : place;
}
