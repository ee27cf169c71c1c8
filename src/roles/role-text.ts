// A role file taken apart: its front matter between two lines of ---, and the text below.

import { shown } from "../kernel/check.ts";
import { firstPart } from "./field-path.ts";
import { plainYaml } from "./plain-yaml.ts";
import type { FileErrorAt } from "./role-file-error.ts";

/** The two parts of a role file. */
export interface RoleText {
  /** What the keys of the front matter hold. */
  readonly values: ReadonlyMap<string, unknown>;
  /** The text below, without white space around it. Not empty. */
  readonly body: string;
  /** The line of a field such as `.budget.steps`; if it is not there: of the nearest field around it, or the first of the file. */
  lineOf(path: string): number;
}

const FENCE = /^---[ \t]*$/;
const FENCE_ADVICE = "Put the front matter between two lines of ---.";
const MAX_SHOWN_CHARACTERS = 60;

/** Takes a text apart. Throws what `errorAt` makes of the first thing that is wrong. */
export function roleText(text: string, errorAt: FileErrorAt): RoleText {
  const fileLines = text.replace(/^\u{FEFF}/u, "").split(/\r?\n/);
  const [first = ""] = fileLines;
  if (!FENCE.test(first)) {
    const got = shown(first.slice(0, MAX_SHOWN_CHARACTERS));
    throw errorAt(1, `Expected the first line to be ---, got ${got}. ${FENCE_ADVICE}`);
  }
  const end = fileLines.findIndex((line, index) => index > 0 && FENCE.test(line));
  if (end < 0) {
    const message = `Expected a second line of ---, got the end of the file. ${FENCE_ADVICE}`;
    throw errorAt(1, message);
  }
  const { values, lines } = plainYaml(fileLines.slice(1, end).join("\n"), errorAt);
  const body = fileLines
    .slice(end + 1)
    .join("\n")
    .trim();
  if (body === "") {
    const message =
      "Expected a text below the front matter, got none. Write there what the agent is told.";
    throw errorAt(end + 1, message);
  }
  return {
    values: new Map(Object.entries(values)),
    body,
    lineOf: (path) => lines.get(firstPart(path, lines.keys()) ?? "") ?? 1,
  };
}
