// Writes the public names as Markdown, for GitHub and for the site alike.

import type { Declaration, Field } from "./declarations.ts";

/** Where the section of a name is: `agent.md#budget`, from `docs/reference/`. */
export type Homes = ReadonlyMap<string, string>;

/** Code within a line. */
export function code(text: string): string {
  const fence = text.includes("`") ? "``" : "`";
  return `${fence}${text}${fence}`;
}

/** A block of code. */
export function block(text: string): string {
  return `\`\`\`typescript\n${text}\n\`\`\``;
}

export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", String.raw`\|`)).join(" | ")} |`;
  return [line(heads), line(heads.map(() => "---")), ...rows.map(line)].join("\n");
}

const ITEM = /^(?:- |\d+\. )/;

/** Returns the paragraphs and the list items of a docstring, each without line breaks. */
function splitBlocks(text: string): readonly string[] {
  return text
    .trim()
    .replaceAll(/(?<!\n)\n(?!\n|- |\d+\. )\s*/g, " ")
    .split(/\n+/);
}

/** Escapes a line of a docstring, and links the names in it. */
function inline(line: string, homes: Homes): string {
  return line
    .replaceAll(/\{@link[\s*]+(\S+?)\s*\}/g, (_link, name: string) => linkTo(name, homes))
    .split(/(`[^`]*`)/)
    .map((part) =>
      part.startsWith("`")
        ? part
        : part.replaceAll("<", "&lt;").replaceAll(/(?<=\w)\*|\*(?=\w)/g, String.raw`\*`),
    )
    .join("");
}

function linkTo(name: string, homes: Homes): string {
  const home = homes.get(name);
  return home === undefined ? code(name) : `[${code(name)}](${home})`;
}

/** A docstring as paragraphs and lists. */
export function prose(text: string, homes: Homes): string {
  return splitBlocks(text)
    .map((line, index, lines) => {
      const isInList = ITEM.test(line) && ITEM.test(lines[index - 1] ?? "");
      return `${index === 0 ? "" : isInList ? "\n" : "\n\n"}${inline(line, homes)}`;
    })
    .join("");
}

/** A docstring as the cell of a table. */
export function cell(text: string, homes: Homes): string {
  const [first = "", ...others] = splitBlocks(text).map((line) => inline(line, homes));
  const rest = others.map((line) =>
    ITEM.test(line) || line.startsWith("Default: ")
      ? `<br>${line.replace(/^- /, "• ")}`
      : `<br><br>${line}`,
  );
  return [first, ...rest].join("");
}

/** A text with the errors that its function throws, as a list if there are several. */
function withThrows({ text, throws }: Pick<Field, "text" | "throws">): string {
  const item = throws.length > 1 ? "- Throws " : "Throws ";
  const errors = throws.map((error) => item + error).join("\n");
  return [text, errors].filter((part) => part !== "").join("\n\n");
}

/** Types whose name says enough. */
const PLAIN = /Id$|^Json/;

/** Links to the sections of the types in a piece of code, without that of `own`. */
function typeLinks(type: string, homes: Homes, own: string, isDescribed = true): string {
  const words = new Set(type.replaceAll(/\/\*[\s\S]*?\*\//g, "").match(/\b[A-Z]\w+/g));
  words.delete(own);
  const links = [...words].flatMap((word) => {
    const home = PLAIN.test(word) && isDescribed ? undefined : homes.get(word);
    return home === undefined ? [] : `[${word}](${home})`;
  });
  return links.length > 0 ? `→ ${links.join(", ")}` : "";
}

/** The fields of a type with links to the sections of their types, as a table. */
export function fieldTable(fields: readonly Field[], homes: Homes, own = ""): string {
  const rows = fields.map((field) => {
    const { name, type, isOptional, text } = field;
    const parts = [cell(withThrows(field), homes), typeLinks(type, homes, own, text !== "")];
    return [code(isOptional ? `${name}?` : name), code(type), parts.filter(Boolean).join(" ")];
  });
  return table(["name", "type", "description"], rows);
}

/** The examples of a field, unless the section of another type has them. */
function ownExamples({ origin, examples }: Field, homes: Homes, own: string): readonly string[] {
  return origin !== undefined && origin !== own && homes.has(origin) ? [] : examples;
}

/** The table of fields, then their examples. */
export function fieldParts(fields: readonly Field[], homes: Homes, own = ""): readonly string[] {
  if (fields.length === 0) return [];
  const examples = fields.flatMap((field) =>
    ownExamples(field, homes, own).map(
      (example) => `${code(field.name)}, for example:\n\n${block(example)}`,
    ),
  );
  return [fieldTable(fields, homes, own), ...examples];
}

/** Methods of a type or overloads of a function, each name under a heading of its own. */
function methodParts(methods: readonly Field[], homes: Homes, own: string): readonly string[] {
  return methods.flatMap((method, index) => {
    const { name, type } = method;
    const isNamed = name === own || name === methods[index - 1]?.name;
    return [
      isNamed ? "" : `#### ${name.startsWith("new ") ? name : `${own}.${name}`}`,
      block(type),
      prose(withThrows(method), homes),
      typeLinks(type, homes, own),
      ...ownExamples(method, homes, own).map(block),
    ];
  });
}

/** The section of a public name. */
export function section(declared: Declaration, homes: Homes): string {
  const { name, specifier, kind, text, signatures, throws, examples, fields } = declared;
  return [
    `### ${name}`,
    code(`import ${kind === "type" ? "type " : ""}{ ${name} } from "${specifier}"`),
    prose(text, homes),
    ...examples.map(block),
    ...signatures.map(block),
    typeLinks(signatures.join("\n"), homes, name),
    prose(withThrows({ text: "", throws }), homes),
    ...fieldParts(
      fields.filter(({ isMethod }) => isMethod !== true),
      homes,
      name,
    ),
    ...methodParts(
      fields.filter(({ isMethod }) => isMethod === true),
      homes,
      name,
    ),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** Returns the first sentence of a docstring: up to a full stop or a colon. */
export function firstSentence(text: string): string {
  const [line = ""] = splitBlocks(text);
  return /^.*?[.:](?= [A-Z`]|$)/.exec(line)?.[0].replace(/:$/, ".") ?? line;
}
