// Repairs JSON with a small error: a missing or extra comma, single quotes, a comment.
// The library repairs much more, and invents or drops values. Its result is accepted only if it
// matches the text word for word.

import { jsonrepair } from "jsonrepair";

import { parseJson, type JsonValue } from "./json.ts";

/** Maximum length. The library would block the event loop on longer texts. */
const MOST_CHARACTERS = 20_000;

/** Returns the intended value of a text, or `undefined` if the text has more than a small error. */
export function repairJson(text: string): JsonValue | undefined {
  if (text.length > MOST_CHARACTERS) return undefined;
  try {
    const originalWords = splitWords(text);
    if (originalWords === undefined) return undefined;
    const mended = jsonrepair(text);
    const words = splitWords(mended);
    const isSame =
      words?.length === originalWords.length &&
      words.every((word, index) => word === originalWords[index]);
    return isSame ? parseJson(mended) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * A token: whitespace, commas and comments; a string in either kind of quotes; a bracket or colon;
 * or any other characters up to one of these.
 */
const WORD =
  /(?:[\s,]|\/\/[^\n]*|\/\*[^]*?\*\/)+|"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'|[{}[\]:]|[^\s,{}[\]:"'/]+/y;

/**
 * Returns the tokens without whitespace, commas and comments, and with strings as JSON. `undefined`
 * if a token is ambiguous or does not end.
 */
function splitWords(text: string): readonly string[] | undefined {
  const words: string[] = [];
  WORD.lastIndex = 0;
  while (WORD.lastIndex < text.length) {
    const [word] = WORD.exec(text) ?? [];
    if (word === undefined) return undefined;
    if (word.startsWith('"')) words.push(JSON.stringify(parseJson(word)));
    else if (word.startsWith("'")) words.push(JSON.stringify(parseJson(convertQuotes(word))));
    else if (!/^[\s,/]/.test(word)) words.push(word);
  }
  return words;
}

function convertQuotes(word: string): string {
  const inside = word.slice(1, -1).replaceAll(/\\[^]|"/g, (part) => {
    if (part === '"') return '\\"';
    return part === "\\'" ? "'" : part;
  });
  return `"${inside}"`;
}
