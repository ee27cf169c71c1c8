// Characters as a person sees them (grapheme clusters), and the cells that a terminal needs for
// each. Pure.
//
// `Intl.Segmenter` needs up to a second for 10 MB. This follows its rules (UAX 29), except that
// conjuncts of Indic scripts and spacing marks count as characters of their own, as they do in
// most terminals.

/** Code units of one character that are kept. The longest emoji sequences have 15. */
export const MOST_OF_CHARACTER = 32;

/** Walks along the characters of a line without escape sequences. Owns its place. */
export class CharacterWalk {
  readonly #line: string;
  /** Traits of the code point at `end`, if they are known; else -1. */
  #nextTraits = -1;
  /** Where the character begins and ends, and its cells. */
  start = 0;
  end = 0;
  cells = 0;

  constructor(line: string) {
    this.#line = line;
  }

  /** Goes to the next character. Returns false at the end of the line. */
  next(): boolean {
    const line = this.#line;
    this.start = this.end;
    if (this.end >= line.length) return false;
    if (isAscii(line.charCodeAt(this.end)) && !canFollow(line.charCodeAt(this.end + 1))) {
      this.end += 1;
      this.cells = 1;
      this.#nextTraits = -1;
    } else this.#read();
    return true;
  }

  #read(): void {
    const line = this.#line;
    const first = this.#nextTraits === -1 ? traitsAt(line, this.start) : this.#nextTraits;
    let at = this.start + sizeAt(line, this.start);
    this.#nextTraits = -1;
    let cells = first & CELLS;
    /** Whether marks still belong to the first code point, and whether a joiner came last. */
    let isWhole = cells > 0;
    let isJoined = false;
    let canPair = (first & REGIONAL) !== 0;
    while (at < line.length) {
      const unit = line.charCodeAt(at);
      if (!canFollow(unit)) break;
      const traits = traitsAt(line, at);
      if ((traits & MARK) !== 0) {
        if (unit === EMOJI_STYLE && isWhole) cells = 2;
        isJoined = unit === JOINER;
      } else if ((traits & CELLS) === 0) {
        isWhole = false;
        isJoined = false;
      } else if (isJoined && isWhole && (first & traits & PICTOGRAPH) !== 0) {
        isJoined = false;
      } else if (canPair && (traits & REGIONAL) !== 0) {
        canPair = false;
      } else if ((first & HANGUL) === 0 || (traits & JAMO) === 0 || !isWhole) {
        this.#nextTraits = traits;
        break;
      }
      if ((traits & REGIONAL) === 0) canPair = false;
      at += sizeAt(line, at);
    }
    this.end = at;
    this.cells = cells;
  }
}

/** Returns the line with at most so much of each character as is kept. */
export function withoutLongCharacters(line: string): string {
  if (line.length <= MOST_OF_CHARACTER || ASCII.test(line)) return line;
  let kept = "";
  let from = 0;
  const walk = new CharacterWalk(line);
  while (walk.next()) {
    const { start, end } = walk;
    if (end - start <= MOST_OF_CHARACTER) continue;
    kept += line.slice(from, start + lengthWithin(line.slice(start, start + MOST_OF_CHARACTER)));
    from = end;
  }
  return from === 0 ? line : kept + line.slice(from);
}

/** The length without half a code point at the end. */
function lengthWithin(text: string): number {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff ? text.length - 1 : text.length;
}

/** Text of which each code unit is a character of one cell. */
export const ASCII = /^[\x20-\x7e]*$/;

const JOINER = 0x200d;
const EMOJI_STYLE = 0xfe0f;

/** Bits of the traits of a code point. The cells are 0, 1 or 2. */
const CELLS = 3;
const MARK = 4;
const PICTOGRAPH = 8;
const REGIONAL = 16;
const HANGUL = 32;
const JAMO = 64;

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Mn}\p{Me}\p{Default_Ignorable_Code_Point}]/u;
const MARKS = /[\p{Mn}\p{Me}\p{Emoji_Modifier}\p{Join_Control}\uFF9E\uFF9F\u{E0020}-\u{E007F}]/u;
const REGIONAL_INDICATOR = /\p{Regional_Indicator}/u;
const PICTOGRAPHIC = /\p{Extended_Pictographic}/u;
const HANGUL_LETTER = /[\u1100-\u11FF\uA960-\uA97C\uAC00-\uD7FB]/;
const FOLLOWING_JAMO = /[\u1160-\u11FF\uD7B0-\uD7FB]/;
// East Asian Wide and Fullwidth, and what is drawn as an emoji.
const WIDE = new RegExp(
  [
    "\\p{Emoji_Presentation}",
    "[\\u1100-\\u115F\\u2E80-\\u303E\\u3041-\\u33FF\\u3400-\\u4DBF\\u4E00-\\uA4CF]",
    "[\\uA960-\\uA97F\\uAC00-\\uD7A3\\uF900-\\uFAFF\\uFE30-\\uFE6F\\uFF00-\\uFF60\\uFFE0-\\uFFE6]",
    "[\\u{1B000}-\\u{1B2FF}\\u{1F300}-\\u{1F64F}\\u{1F900}-\\u{1F9FF}\\u{20000}-\\u{3FFFD}]",
  ].join("|"),
  "u",
);

/** Traits of 256 code points in a row, looked up when the first of them appears. */
const blocks: Uint8Array[] = [];

function traitsAt(line: string, at: number): number {
  const unit = line.charCodeAt(at);
  const code = (unit & 0xf800) === 0xd800 ? (line.codePointAt(at) ?? unit) : unit;
  const block = (blocks[code >> 8] ??= traitsOfBlock(code >> 8));
  return block[code & 0xff] ?? 1;
}

function traitsOfBlock(block: number): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_none, index) => traitsOf((block << 8) | index));
}

function traitsOf(code: number): number {
  const text = String.fromCodePoint(code);
  const cells = INVISIBLE.test(text) ? 0 : WIDE.test(text) ? 2 : 1;
  return (
    cells |
    (MARKS.test(text) ? MARK : 0) |
    (PICTOGRAPHIC.test(text) ? PICTOGRAPH : 0) |
    (REGIONAL_INDICATOR.test(text) ? REGIONAL : 0) |
    (HANGUL_LETTER.test(text) ? HANGUL : 0) |
    (FOLLOWING_JAMO.test(text) ? JAMO : 0)
  );
}

function isAscii(unit: number): boolean {
  return unit >= 0x20 && unit < 0x7f;
}

/** False if a code unit begins a character, as all letters below the combining marks do. */
function canFollow(unit: number): boolean {
  return unit >= 0x300 || !(isAscii(unit) || (unit > 0x9f && unit !== 0xad));
}

function sizeAt(line: string, at: number): number {
  const unit = line.charCodeAt(at);
  if ((unit & 0xfc00) !== 0xd800) return 1;
  return (line.charCodeAt(at + 1) & 0xfc00) === 0xdc00 ? 2 : 1;
}
