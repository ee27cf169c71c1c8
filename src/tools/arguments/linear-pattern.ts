// Patterns of schemas from elsewhere, matched in time that grows with the pattern and the text and not faster. They are read as
// JavaScript reads them, and matched by RE2JS, which never tries again what it has tried.

import { RE2JS } from "re2js";

/** Checks text against one pattern. */
export interface LinearPattern {
  /** Instructions that each character of a text may take. */
  readonly size: number;
  test(text: string): boolean;
}

/** A pattern that is longer is not worth the time that it takes to read. */
const MOST_CHARACTERS = 2_000;

/**
 * The pattern; undefined if it asks for what cannot be matched so: references to groups, a look ahead or behind other than ahead at its
 * beginning, more than 1,000 repetitions.
 *
 * @throws SyntaxError if it is no pattern of JavaScript.
 */
export function linearPattern(pattern: string): LinearPattern | undefined {
  checkPattern(pattern);
  if (pattern.length > MOST_CHARACTERS) return undefined;
  const parts = withoutLookahead(pattern);
  if (parts === undefined) return undefined;
  try {
    const compiled = parts.map(({ source, isPositive }) => ({
      engine: RE2JS.compile(RE2JS.translateRegExp(translated(source))),
      isPositive,
    }));
    return {
      size: compiled.reduce((sum, { engine }) => sum + engine.programSize(), 0),
      test: (text) => compiled.every(({ engine, isPositive }) => engine.test(text) === isPositive),
    };
  } catch {
    return undefined;
  }
}

/**
 * Patterns are read as Unicode. Those that only the older rules of JavaScript allow are read by them, unless a letter is escaped that
 * means nothing there: such a pattern comes from another language, and would quietly mean something else.
 */
function checkPattern(pattern: string): void {
  try {
    void new RegExp(pattern, "u");
  } catch (cause) {
    if (hasForeignEscape(pattern)) throw cause;
    void new RegExp(pattern);
  }
}

function hasForeignEscape(pattern: string): boolean {
  return [...pattern.matchAll(/\\([\s\S])/gu)].some(
    ([, escaped = ""]) => /[A-Za-z]/.test(escaped) && !/[bBcdDfnrsStuvwWx]/.test(escaped),
  );
}

/** A part of a pattern; all hold, or must not, from the beginning of a text. */
interface Part {
  readonly source: string;
  readonly isPositive: boolean;
}

/** `^(?=a)(?!b)c` is `^a`, not `^b`, and `^c`. Undefined: the pattern does not come apart like this. */
function withoutLookahead(pattern: string): readonly Part[] | undefined {
  const parts: Part[] = [];
  let rest = pattern.startsWith("^") ? pattern.slice(1) : "";
  while (rest.startsWith("(?=") || rest.startsWith("(?!")) {
    const end = endOfGroup(rest);
    parts.push({ source: `^(?:${rest.slice(3, end)})`, isPositive: rest[2] === "=" });
    rest = rest.slice(end + 1);
    if (/^[*+?{]/.test(rest)) return undefined;
  }
  if (parts.length === 0) return [{ source: pattern, isPositive: true }];
  // With a choice on top, what was looked at would belong to its first form alone.
  return hasChoice(rest) ? undefined : [...parts, { source: `^${rest}`, isPositive: true }];
}

/** Where the group ends that a source begins with. */
function endOfGroup(source: string): number {
  for (const { at, depth, token } of tokensOf(source)) if (token === ")" && depth === 0) return at;
  return source.length;
}

function hasChoice(source: string): boolean {
  return [...tokensOf(source)].some(
    ({ token, depth, isInClass }) => token === "|" && depth === 0 && !isInClass,
  );
}

interface Token {
  readonly at: number;
  /** A character, or an escape. */
  readonly token: string;
  /** Groups that are open behind it. */
  readonly depth: number;
  /** Within brackets, which are not. */
  readonly isInClass: boolean;
}

const TOKEN =
  /\\u\{[0-9a-fA-F]+\}|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\c[A-Za-z]|\\[pP]\{[^}]*\}|\\[\s\S]|[\s\S]/gu;

function* tokensOf(source: string): Generator<Token, void, undefined> {
  let depth = 0;
  let isInClass = false;
  for (const { 0: token, index: at } of source.matchAll(TOKEN)) {
    if (isInClass && token === "]") isInClass = false;
    if (!isInClass && token === "(") depth += 1;
    if (!isInClass && token === ")") depth -= 1;
    yield { at, token, depth, isInClass };
    if (token === "[") isInClass = true;
  }
}

/** What JavaScript counts as white space, where RE2 knows that of ASCII alone. */
const WHITE_SPACE = String.raw`\t\n\x{0b}\f\r\p{Z}\x{feff}`;
const LINE_ENDS = String.raw`\n\r\x{2028}\x{2029}`;

/** Any character, and none: classes that RE2 would not take for empty. */
const EMPTY_CLASSES: ReadonlyMap<string, string> = new Map([
  ["[^]", String.raw`[\x{0}-\x{10FFFF}]`],
  ["[]", String.raw`[^\x{0}-\x{10FFFF}]`],
]);

/** A source of JavaScript in the words of RE2. */
function translated(source: string): string {
  let text = "";
  let classText = "";
  for (const { token, isInClass } of tokensOf(source)) {
    if (isInClass) classText += INSIDE_CLASS.get(token) ?? plain(token);
    else if (token === "[") classText = "[";
    else if (classText === "") text += OUTSIDE_CLASS.get(token) ?? plain(token);
    else {
      text += EMPTY_CLASSES.get(`${classText}]`) ?? `${classText}]`;
      classText = "";
    }
  }
  return joinedSurrogates(text);
}

const OUTSIDE_CLASS: ReadonlyMap<string, string> = new Map([
  [".", `[^${LINE_ENDS}]`],
  [String.raw`\s`, `[${WHITE_SPACE}]`],
  [String.raw`\S`, `[^${WHITE_SPACE}]`],
]);
const INSIDE_CLASS: ReadonlyMap<string, string> = new Map([
  ["[", String.raw`\[`],
  [String.raw`\s`, WHITE_SPACE],
  [String.raw`\b`, String.raw`\x08`],
]);

/** Properties are named without their kind. */
function plain(token: string): string {
  return token.replace(/(?<=^\\[pP]\{)(?:Script|sc|General_Category|gc)=/, "");
}

/** Two escapes that stand for one character. */
function joinedSurrogates(source: string): string {
  return source.replaceAll(
    /\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/gi,
    (_pair, high: string, low: string) => {
      const units = [high, low].map((unit) => Number.parseInt(unit, 16));
      const code = String.fromCharCode(...units).codePointAt(0) ?? 0;
      return `\\x{${code.toString(16)}}`;
    },
  );
}
