// Describes a file from its beginning by fixed rules: a comment or heading, or the names that the
// file exports.

const MAX_LENGTH = 140;
const MAX_NAMES = 4;

/** Returns one sentence about a file: the first of its opening comment, its exports or its text. */
export function describeFile(path: string, text: string | undefined): string {
  if (text === undefined) return "Could not be read.";
  const names = exportedNames(text);
  const flat = (openingComment(path, text) ?? "").replace(/\s+/g, " ").trim();
  const [sentence = flat] = /^.+?[.!?](?= |$)/.exec(flat) ?? [];
  if (sentence !== "") return shorten(sentence);
  if (names.length > 0) return `Exports ${listNames(names)}.`;
  return text.trim() === "" ? "Empty." : `Begins: ${shorten(text.trim().split("\n")[0] ?? "")}`;
}

/** Returns the names that a program exports, in order. */
export function exportedNames(text: string): readonly string[] {
  const found = [...text.matchAll(EXPORTS)];
  return [...new Set(found.map(([, script, python, rust]) => script ?? python ?? rust ?? ""))];
}

/** Returns a list such as `a, b, c, d and 3 more`. */
export function listNames(names: readonly string[]): string {
  const rest = names.length - MAX_NAMES;
  return names.slice(0, MAX_NAMES).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

const EXPORTS = new RegExp(
  "^export (?:(?:default|declare|async|abstract) )*" +
    "(?:function\\*?|class|const|let|interface|type|enum) (\\w+)" +
    "|^(?:def|class) (\\w+)|^pub (?:async )?(?:fn|struct|enum|trait|type|const) (\\w+)",
  "gm",
);
const LINES = /^(?:(?:\/\/|#+ |--|;).*\n?)+/;
const BLOCK = /^(?:\/\*+([^]*?)\*\/|"""([^]*?)"""|<!--([^]*?)-->)/;
const MARKS = /^[ \t]*(?:\/\/+!?|#+|--|;+|\*+) ?/gm;

/** Returns the first paragraph of the opening comment, or the description in a JSON file. */
function openingComment(path: string, text: string): string | undefined {
  if (path.endsWith(".json"))
    return /"(?:description|title|name)"\s*:\s*"([^"\\]*)"/.exec(text)?.[1];
  const start = text.replace(/^#!.*\n/, "").trimStart();
  const [, stars, quotes, angles] = BLOCK.exec(start) ?? [];
  const doc = /\/\*\*([^]*?)\*\//.exec(text)?.[1];
  const comment = stars ?? quotes ?? angles ?? LINES.exec(start)?.[0] ?? doc;
  return comment
    ?.replace(MARKS, "")
    .trim()
    .split(/\n[ \t]*\n/)[0];
}

function shorten(text: string): string {
  return text.length <= MAX_LENGTH ? text : `${text.slice(0, MAX_LENGTH - 1).trimEnd()}…`;
}
