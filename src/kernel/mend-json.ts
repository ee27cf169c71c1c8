// Repairs JSON with a small error: a missing or extra comma, single quotes, a comment.
// The library repairs much more, and invents or drops values. Its result is accepted only if it
// matches the text word for word.

import { jsonrepair } from "jsonrepair";

import { parseJson, type JsonValue } from "./json.ts";

/** Longer texts are not looked at: the library would block the event loop. */
const MOST_CHARACTERS = 20_000;

/** The value that a text was meant to be; undefined: more is wrong with it than a small slip. */
export function mendedJson(text: string): JsonValue | undefined {
  if (text.length > MOST_CHARACTERS) return undefined;
  try {
    const said = splitWords(text);
    if (said === undefined) return undefined;
    const mended = jsonrepair(text);
    const words = splitWords(mended);
    const isSame =
      words?.length === said.length && words.every((word, index) => word === said[index]);
    return isSame ? parseJson(mended) : undefined;
  } catch {
    return undefined;
  }
}

/** Blanks, commas and comments; a text in either kind of quotes; a bracket or a colon; anything else up to one of those. */
const WORD =
  /(?:[\s,]|\/\/[^\n]*|\/\*[^]*?\*\/)+|"(?:[^"\\\n]|\\[^])*"|'(?:[^'\\\n]|\\[^])*'|[{}[\]:]|[^\s,{}[\]:"'/]+/y;

/** The tokens between blanks, commas and comments, texts as JSON writes them; undefined: something is not clear, or does not end. */
function splitWords(text: string): readonly string[] | undefined {
  const words: string[] = [];
  WORD.lastIndex = 0;
  while (WORD.lastIndex < text.length) {
    const [word] = WORD.exec(text) ?? [];
    if (word === undefined) return undefined;
    if (word.startsWith('"')) words.push(JSON.stringify(parseJson(word)));
    else if (word.startsWith("'")) words.push(JSON.stringify(parseJson(inDoubleQuotes(word))));
    else if (!/^[\s,/]/.test(word)) words.push(word);
  }
  return words;
}

function inDoubleQuotes(word: string): string {
  const inside = word.slice(1, -1).replaceAll(/\\[^]|"/g, (part) => {
    if (part === '"') return '\\"';
    return part === "\\'" ? "'" : part;
  });
  return `"${inside}"`;
}
