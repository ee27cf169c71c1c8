// Role files as they lie in a folder, and which of them belong together. What is wrong with a file is said by who reads it as a role.

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

import { roleFileNames, type RoleFileNames } from "espalier/roles";

/** A file with front matter. */
export interface FoundRole extends Omit<RoleFileNames, "name"> {
  readonly file: string;
  readonly text: string;
  /** What the role is called. */
  readonly name: string;
}

const ENDING = ".md";
const FIRST_LINE = /^\u{FEFF}?---[ \t]*\r?\n/u;

/** A role file, as far as it can be read. */
export function roleTextIn(file: string): FoundRole {
  const text = readFileSync(file, "utf8");
  const names = namesIn(text, file);
  return { ...names, file, text, name: names.name ?? basename(file, ENDING) };
}

/** The role files of a folder, by name: those that end in `.md` and begin with front matter, so that a readme is none. */
export function roleTextsIn(folder: string): readonly FoundRole[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() || entry.isSymbolicLink())
    .filter(({ name }) => name.endsWith(ENDING) && !name.startsWith("."))
    .map(({ name }) => join(folder, name))
    .toSorted()
    .map(roleTextIn)
    .filter(({ text }) => FIRST_LINE.test(text));
}

/** A role file and all that it names as subagents, and these, and so on, as far as the folder has them. The first is the file itself. */
export function reachableFrom(root: FoundRole, folder: string): readonly FoundRole[] {
  let others: readonly FoundRole[] | undefined;
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

function namesIn(text: string, file: string): RoleFileNames {
  try {
    return roleFileNames(text, file);
  } catch {
    return { name: undefined, model: undefined, tools: [], subagents: [] };
  }
}
