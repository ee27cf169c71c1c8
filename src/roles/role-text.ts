// Splits a role file into its front matter, between two lines of ---, and the text below.

import { checkText, mismatch, describeReceived } from "../kernel/argument-checks.ts";
import { createFileErrorFactory, type FileErrorAt, parsePlainYaml } from "./plain-yaml.ts";

/** The two parts of a role file. */
export interface RoleText {
  /** The values of the front matter by key. */
  readonly values: ReadonlyMap<string, unknown>;
  /** The text below the front matter, trimmed. Not empty. */
  readonly body: string;
  /**
   * Returns the line of a field such as `.budget.steps`. If it is absent, returns the line of the
   * nearest enclosing field, or 1.
   */
  findLine(path: string): number;
}

const FENCE = /^---[ \t]*$/;
const FENCE_ADVICE = "Put the front matter between two lines of ---.";
const MAX_SHOWN_CHARACTERS = 60;

/** Splits a text into its parts. Throws the error of `errorAt` for the first problem. */
export function parseRoleText(text: string, errorAt: FileErrorAt): RoleText {
  const fileLines = text.replace(/^\u{FEFF}/u, "").split(/\r?\n/);
  const [first = ""] = fileLines;
  if (!FENCE.test(first)) {
    const got = describeReceived(first.slice(0, MAX_SHOWN_CHARACTERS));
    throw errorAt(1, `Expected the first line to be ---, got ${got}. ${FENCE_ADVICE}`);
  }
  const end = fileLines.findIndex((line, index) => index > 0 && FENCE.test(line));
  if (end < 0) {
    const message = `Expected a second line of ---, got the end of the file. ${FENCE_ADVICE}`;
    throw errorAt(1, message);
  }
  const { values, lines } = parsePlainYaml(fileLines.slice(1, end).join("\n"), errorAt);
  const body = fileLines
    .slice(end + 1)
    .join("\n")
    .trim();
  if (body === "") {
    const message =
      "Expected text below the front matter, got none. Write the instructions of the agent there.";
    throw errorAt(end + 1, message);
  }
  return {
    values: new Map(Object.entries(values)),
    body,
    findLine: (path) => lines.get(findLongestPart(path, lines.keys()) ?? "") ?? 1,
  };
}

/**
 * Returns the names in the text of a role file, so that models, tools and other files can be loaded
 * before the role is parsed. `file` is the name for errors. A field that is not an array is
 * returned as an empty array. `parseRole` reports it.
 *
 * @throws EspalierError `invalid_role_file` if the front matter is invalid.
 * @throws EspalierError `invalid_argument` if an argument is not a text.
 *
 * @example
 * ```ts
 * const text = "---\nmodel: gpt-5-mini\ntools: [search]\n---\nSearch first.";
 * const { model, tools } = parseRoleFileNames(text, "researcher.md"); // gpt-5-mini, ["search"]
 * ```
 */
export function parseRoleFileNames(
  text: string,
  file: string,
): {
  /** The name of the role. `undefined` for the name of the file. */
  readonly name: string | undefined;
  /** The model. `undefined` if none is named. */
  readonly model: string | undefined;
  /** Names of tools, and prefixes with a star such as `files_*`. */
  readonly tools: readonly string[];
  /** Names of the roles in `subagents`. */
  readonly subagents: readonly string[];
} {
  checkText("parseRoleFileNames.file", file);
  if (typeof text !== "string")
    throw mismatch("parseRoleFileNames.text", "the text of a role file", text, "Decode it first.");
  const { values } = parseRoleText(text, createFileErrorFactory(file));
  const name = values.get("name");
  const model = values.get("model");
  return {
    name: typeof name === "string" ? name : undefined,
    model: typeof model === "string" ? model : undefined,
    tools: selectTexts(values.get("tools")),
    subagents: selectTexts(values.get("subagents")),
  };
}

function selectTexts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

/**
 * Returns the longest of `parts` (`.budget`, `[0]`) with which a path begins. `undefined` if none
 * matches. Keys may contain dots.
 */
export function findLongestPart(path: string, parts: Iterable<string>): string | undefined {
  let longest: string | undefined;
  for (const part of parts) {
    if (!isFirst(path, part) || part.length <= (longest?.length ?? -1)) continue;
    longest = part;
  }
  return longest;
}

function isFirst(path: string, part: string): boolean {
  if (!path.startsWith(part)) return false;
  const next = path[part.length];
  return next === undefined || next === "." || next === "[";
}
