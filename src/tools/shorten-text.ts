// Shortens texts that are longer than a model should read.

/** A text within its limit, with its full and its shown length. */
export interface ShortenedText {
  /** The text itself, or its beginning and a notice with both lengths. */
  readonly text: string;
  readonly isShortened: boolean;
  /** Length of the whole text, in UTF-16 code units like `length`. */
  readonly totalCharacters: number;
  /** Length of the shown part, without the notice. */
  readonly shownCharacters: number;
}

/**
 * Returns the first `maxCharacters` UTF-16 code units of a text, from 0 up, with a notice of the
 * full and the shown length. A shorter text is returned unchanged. The cut never splits a surrogate
 * pair. Unless nothing would be left, it does not split a letter from its accents or an emoji from
 * its parts either.
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

/** A longer character may be split between two code points. */
const MAX_CHARACTER_UNITS = 64;

/** Returns the last position up to `end` at which the text may be cut. */
function findCutIndex(text: string, end: number): number {
  const start = alignToCodePoint(text, Math.max(0, end - MAX_CHARACTER_UNITS));
  const around = text.slice(start, alignToCodePoint(text, end + MAX_CHARACTER_UNITS));
  const split = new Intl.Segmenter("en", { granularity: "grapheme" })
    .segment(around)
    .containing(end - start);
  const isLong = split === undefined || split.index === 0;
  return isLong ? alignToCodePoint(text, end) : start + split.index;
}

/** Returns the position, or the previous one if it is within a surrogate pair. */
function alignToCodePoint(text: string, place: number): number {
  const code = place === 0 ? undefined : text.codePointAt(place - 1);
  return code !== undefined && code > 0xff_ff ? place - 1 : place;
}
