// What a file says about itself in its first lines. Rules, no understanding: a heading, a comment
// at the top, the names it exports.

const LONGEST_SENTENCE = 140;
const MAX_NAMES = 4;

/** One or two sentences on what a file is for, from the beginning of its text. */
export function describeFile(path: string, text: string): string {
  const extension = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  const said = saidBy(extension, text.replace(/^#!.*\n/, ""));
  const names = exportedNames(text);
  if (said !== undefined) return said;
  if (names.length > 0) return `Exports ${namesListed(names)}.`;
  return text.trim() === "" ? "Empty." : `Begins: ${shortened(firstLine(text))}`;
}

/** The names that a program text offers to others, in their order. */
export function exportedNames(text: string): readonly string[] {
  const names = [...text.matchAll(EXPORTS)].flatMap(
    ([, script, python, rust]) => script ?? python ?? rust ?? [],
  );
  return [...new Set(names)];
}

/** `a, b and 3 more`. */
export function namesListed(names: readonly string[]): string {
  const rest = names.length - MAX_NAMES;
  if (rest <= 0) return names.join(", ");
  return `${names.slice(0, MAX_NAMES).join(", ")} and ${rest} more`;
}

const EXPORTS = new RegExp(
  [
    "^export (?:default )?(?:declare )?(?:async )?(?:abstract )?",
    "(?:function\\*?|class|const|let|interface|type|enum) (\\w+)",
    "|^(?:def|class) (\\w+)",
    "|^pub (?:async )?(?:fn|struct|enum|trait|type|const) (\\w+)",
  ].join(""),
  "gm",
);

function saidBy(extension: string, text: string): string | undefined {
  switch (extension) {
    case "md":
    case "markdown":
      return heading(text);
    case "json":
      return jsonDescription(text);
    default:
      return sentence(headerComment(text) ?? firstDocComment(text));
  }
}

function heading(text: string): string | undefined {
  const [, title] = /^#+ +(.+)$/m.exec(text) ?? [];
  return title === undefined ? undefined : shortened(title);
}

function jsonDescription(text: string): string | undefined {
  const [, description] = /"(?:description|title|name)"\s*:\s*"([^"\\]*)"/.exec(text) ?? [];
  return description === undefined ? undefined : `Data: ${shortened(description)}`;
}

/** The comment with which a file begins. */
function headerComment(text: string): string | undefined {
  const start = text.trimStart();
  const [lines] = /^(?:(?:\/\/|#(?!include|define|if|pragma)|--|;).*\n?)+/.exec(start) ?? [];
  if (lines !== undefined) return lines.replace(/^(?:\/\/+!?|#+|--|;+) ?/gm, "");
  const [, stars, quotes, angles] =
    /^(?:\/\*+([\s\S]*?)\*\/|"""([\s\S]*?)"""|<!--([\s\S]*?)-->)/.exec(start) ?? [];
  const block = stars ?? quotes ?? angles;
  return block === undefined ? undefined : withoutStars(block);
}

function firstDocComment(text: string): string | undefined {
  const [, block] = /\/\*\*([\s\S]*?)\*\//.exec(text) ?? [];
  return block === undefined ? undefined : withoutStars(block);
}

function withoutStars(block: string): string {
  return block.replace(/^[ \t]*\*+ ?/gm, "");
}

/** The first sentence of the first paragraph. */
function sentence(text: string | undefined): string | undefined {
  const [paragraph = ""] = (text ?? "").trim().split(/\n[ \t]*\n/);
  const flat = paragraph.replace(/\s+/g, " ").trim();
  const [first] = /^.+?[.!?](?= |$)/.exec(flat) ?? [flat];
  return first === "" ? undefined : shortened(first);
}

function firstLine(text: string): string {
  return text.split("\n").find((line) => line.trim() !== "") ?? "";
}

function shortened(text: string): string {
  const flat = text.replace(/\s+/g, " ").trim();
  return flat.length <= LONGEST_SENTENCE
    ? flat
    : `${flat.slice(0, LONGEST_SENTENCE - 1).trimEnd()}…`;
}
