// Role files as they lie in a folder, and which of them belong together. Reading a file as a role reports what is wrong with it.

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";

import { roleFileNames, type RoleFileNames } from "espalier/roles";

/** A file with front matter. */
export interface FoundRole extends Omit<RoleFileNames, "name"> {
  readonly file: string;
  readonly text: string;
  /** What the role is called. */
  readonly name: string;
  /** False: it is unknown what it names. Reading it as a role reports why. */
  readonly isReadable: boolean;
}

const ENDING = ".md";
const FIRST_LINE = /^\u{FEFF}?---[ \t]*\r?\n/u;

/** A role file, as far as it can be read. */
export function roleTextIn(file: string): FoundRole {
  const text = readFileSync(file, "utf8");
  const names = namesIn(text, file);
  const name = names?.name ?? basename(file, ENDING);
  return { ...(names ?? NOTHING_NAMED), file, text, name, isReadable: names !== undefined };
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

const NOTHING_NAMED = { model: undefined, tools: [], subagents: [] };

function namesIn(text: string, file: string): RoleFileNames | undefined {
  try {
    return roleFileNames(text, file);
  } catch {
    return undefined;
  }
}
