// What a role file names, before it is read as a role: its subagents, so that their files are read too; its model and tools, so that what is
// needed for them is there. What is wrong with a file is said by who reads it as a role.

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

import { parse } from "yaml";

/** A file with front matter. */
export interface RoleText {
  readonly file: string;
  readonly text: string;
  /** What the role is called. */
  readonly name: string;
  readonly model: string | undefined;
  readonly tools: readonly string[];
  readonly subagents: readonly string[];
}

const ENDING = ".md";
const FRONT_MATTER = /^\u{FEFF}?---[ \t]*\r?\n(?<yaml>[\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/u;

/** True for a text that begins as a role file does. */
export function hasFrontMatter(text: string): boolean {
  return /^\u{FEFF}?---[ \t]*\r?\n/u.test(text);
}

/** What a role file names, as far as it can be read. */
export function roleTextIn(file: string): RoleText {
  const text = readFileSync(file, "utf8");
  const said = fieldsOf(text);
  const { name, model } = said;
  return {
    file,
    text,
    name: typeof name === "string" ? name : basename(file, ENDING),
    model: typeof model === "string" ? model : undefined,
    tools: namesIn(said["tools"]),
    subagents: namesIn(said["subagents"]),
  };
}

/** The role files of a folder: those whose names end in `.md` and that begin with front matter, by name. */
export function roleTextsIn(folder: string): readonly RoleText[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => name.endsWith(ENDING) && !name.startsWith("."))
    .filter((entry) => entry.isFile() || entry.isSymbolicLink())
    .map(({ name }) => join(folder, name))
    .toSorted()
    .flatMap((file) => {
      const found = roleTextIn(file);
      return hasFrontMatter(found.text) ? [found] : [];
    });
}

/** A role file and all that it names as subagents, and these, and so on, as far as the folder has them. The first is the file itself. */
export function reachableFrom(root: RoleText, folder: string): readonly RoleText[] {
  let others: readonly RoleText[] | undefined;
  const found = new Map([[root.name, root]]);
  // A map grows while it is walked.
  for (const { subagents } of found.values())
    for (const name of subagents) {
      if (found.has(name)) continue;
      others ??= roleTextsIn(folder);
      const other = others.find((one) => one.name === name);
      if (other !== undefined) found.set(name, other);
    }
  return [...found.values()];
}

function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  const { yaml = "" } = FRONT_MATTER.exec(text)?.groups ?? {};
  try {
    const fields: unknown = parse(yaml, { maxAliasCount: 0 });
    return typeof fields === "object" && fields !== null ? { ...fields } : {};
  } catch {
    return {};
  }
}

function namesIn(given: unknown): readonly string[] {
  return Array.isArray(given) ? given.filter((name) => typeof name === "string") : [];
}
