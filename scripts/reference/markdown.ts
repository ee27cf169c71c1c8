// How what is known of the public names is written as Markdown, for GitHub and for the site alike.

import type { Declaration, Field } from "./declarations.ts";

/** Where the section of a name is: `agent.md#budget`, from `docs/reference/`. */
export type Homes = ReadonlyMap<string, string>;

/** Code within a line; `|` would end the cell of a table. */
export function code(text: string): string {
  const fence = text.includes("`") ? "``" : "`";
  return `${fence}${text.replaceAll("|", String.raw`\|`)}${fence}`;
}

/** A docstring as one line of a table. */
export function inline(text: string): string {
  const parts = text
    .replace(/\{@link ([^}]+)\}/g, "`$1`")
    .replace(/\s+/g, " ")
    .trim()
    .split(/(`[^`]*`)/);
  return parts
    .map((part) =>
      part.startsWith("`")
        ? part.replaceAll("|", String.raw`\|`)
        : part
            .replaceAll("|", String.raw`\|`)
            .replaceAll("<", "&lt;")
            .replace(/(?<=\w)\*|\*(?=\w)/g, String.raw`\*`),
    )
    .join("");
}

export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(heads), line(heads.map(() => "---")), ...rows.map(line)].join("\n");
}

/** What says enough by its name. */
const PLAIN = /Id$|^Json/;

/** The fields of a type, with links to those that have a section of their own. */
export function fieldTable(fields: readonly Field[], homes: Homes, own = ""): string {
  const rows = fields.map(({ name, type, isOptional, text }) => {
    const words = new Set(type.match(/\b[A-Z]\w+/g));
    words.delete(own);
    const links = [...words].flatMap((word) => {
      const home = PLAIN.test(word) && text !== "" ? undefined : homes.get(word);
      return home === undefined ? [] : `[${word}](${home})`;
    });
    const said = [inline(text), links.length > 0 ? `→ ${links.join(", ")}` : ""];
    return [code(isOptional ? `${name}?` : name), code(type), said.filter(Boolean).join(" ")];
  });
  return table(["name", "type", "what it is"], rows);
}

function block(text: string): string {
  return `\`\`\`typescript\n${text}\n\`\`\``;
}

/** The section of a public name. */
export function section(declared: Declaration, homes: Homes): string {
  const { name, specifier, kind, text, signatures, throws, examples, fields } = declared;
  const methods = fields.filter(({ isMethod }) => isMethod === true);
  const data = fields.filter(({ isMethod }) => isMethod !== true);
  return [
    `### ${name}`,
    code(`import ${kind === "type" ? "type " : ""}{ ${name} } from "${specifier}"`),
    inline(text),
    ...signatures.map(block),
    ...throws.map((one) => `Throws ${inline(one)}`),
    ...examples.map(block),
    data.length > 0 ? fieldTable(data, homes, name) : "",
    ...data.flatMap(({ name: field, examples: own }) =>
      own.map((one) => `${code(field)}, for example:\n\n${block(one)}`),
    ),
    ...methods.flatMap(({ type, text: said, examples: own }) => [
      `${block(type)}\n\n${inline(said)}`.trimEnd(),
      ...own.map(block),
    ]),
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** What stands before the first full stop that ends a sentence. */
export function firstSentence(text: string): string {
  const line = inline(text);
  return /^.*?[.:](?= [A-Z`]|$)/.exec(line)?.[0].replace(/:$/, ".") ?? line;
}
