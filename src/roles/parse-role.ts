// Converts one role file to one role: resolves names, adds the fields from code, and calls
// `defineAgent`. Its errors are reported with the line of the field, unless the value comes from
// code.

import { checkKeys, mismatch, checkText, describeReceived } from "../kernel/argument-checks.ts";
import { EspalierError } from "../kernel/error.ts";
import { omitUndefined, isPlainObject, isRecord } from "../kernel/json.ts";
import type { AgentRole } from "../agent/agent-role.ts";
import { defineAgent, type AgentDefinition } from "../agent/define-agent.ts";
import {
  CODE_FIELDS,
  DATA_FIELDS,
  FILE_FIELDS,
  enumerateNames,
  type RoleFileSettings,
} from "./role-file-options.ts";
import { createFileErrorFactory, type FileErrorAt, parsePlainYaml } from "./plain-yaml.ts";

/** Role with the line of its name. */
export interface RoleInFile {
  readonly role: AgentRole;
  readonly nameLine: number;
}

/** Text of a role file. */
export interface RoleFile {
  readonly text: string;
  /** Name of the file in errors. */
  readonly file: string;
  /** Name of the role if the front matter has none. */
  readonly defaultName: string;
}

/**
 * Parses one file. Throws `invalid_role_file`, or the error of `defineAgent` for a field from code.
 */
export function parseRoleFile(file: RoleFile, settings: RoleFileSettings): RoleInFile {
  const errorAt = createFileErrorFactory(file.file);
  const text = parseRoleText(file.text, errorAt);
  const name = text.values.get("name") ?? file.defaultName;
  const owner = typeof name === "string" && name !== "" ? name : "agent";
  const extension = settings.extensions.get(owner) ?? {};
  try {
    const fields = readFrontMatter(text, owner, settings);
    const model = omitUndefined({ model: settings.defaultModel });
    const whole = mergeDefinition(
      { ...model, ...fields, name, instructions: text.body },
      extension,
    );
    if (isPossibleDefinition(whole))
      return { role: defineAgent(whole), nameLine: text.findLine(".name") };
    const advice = "Add a line such as model: fast.";
    throw mismatch(`${owner}.model`, "the name of a model", undefined, advice);
  } catch (cause) {
    throw addFileLocation(cause, { text, owner, extension, errorAt });
  }
}

/** Returns the fields of the front matter, with models and tools in place of their names. */
function readFrontMatter(
  { values }: RoleText,
  owner: string,
  settings: RoleFileSettings,
): Readonly<Record<string, unknown>> {
  if (values.has("instructions")) {
    const expected = "the text below the front matter";
    throw mismatch(`${owner}.instructions`, expected, values.get("instructions"), "Move it there.");
  }
  const code = CODE_FIELDS.find((field) => values.has(field));
  if (code !== undefined) {
    const advice = `Leave it out here, and use extend: { ${owner}: { ${code} } }.`;
    throw mismatch(`${owner}.${code}`, "set in code", values.get(code), advice);
  }
  const fields = Object.fromEntries(values);
  checkKeys(owner, fields, FILE_FIELDS);
  for (const [field, meant] of Object.entries(MEANINGS))
    if (values.has(field)) fields[field] = meant(`${owner}.${field}`, fields[field], settings);
  return fields;
}

/** Functions that resolve names in the front matter, by field. */
const MEANINGS = {
  model: resolveRoleModel,
  tools: resolveRoleTools,
  subagents: readNames,
} as const;

function resolveRoleModel(field: string, name: unknown, settings: RoleFileSettings): unknown {
  if (typeof name === "string") return settings.modelOf(field, name);
  throw mismatch(field, "the name of a model", name, "Write it in quotes.");
}

/** Returns the tools with the given names and prefixes (`files_*`), each tool once. */
function resolveRoleTools(
  field: string,
  value: unknown,
  { tools }: RoleFileSettings,
): readonly unknown[] {
  const named = readNames(field, value).flatMap((name, index) => {
    const matching = findMatchingTools(name, tools);
    if (matching.length > 0) return matching;
    const expected = `the name of a given tool (${enumerateNames(tools.keys())})`;
    const advice = "Correct the name, or give the tool where the files are read.";
    throw mismatch(`${field}[${index}]`, expected, name, advice);
  });
  return [...new Set(named)];
}

const MANY = /^(?<beginning>.+)\*$/;

function findMatchingTools(name: string, tools: RoleFileSettings["tools"]): readonly unknown[] {
  const beginning = MANY.exec(name)?.groups?.["beginning"];
  if (beginning === undefined) return tools.has(name) ? [tools.get(name)] : [];
  return [...tools].flatMap(([other, tool]) => (other.startsWith(beginning) ? [tool] : []));
}

/** Returns a checked list of names without duplicates. */
function readNames(field: string, value: unknown): readonly string[] {
  if (!Array.isArray(value)) throw mismatch(field, "a list of names", value, "Put it in brackets.");
  const names = new Set<string>();
  for (const [index, name] of value.entries()) {
    const at = `${field}[${index}]`;
    if (typeof name !== "string") throw mismatch(at, "a name", name, "Write it in quotes.");
    if (names.has(name)) throw mismatch(at, "listed once", name, "Leave one out.");
    names.add(name);
  }
  return [...names];
}

/** Merges the fields: code takes precedence, and groups of data are merged key by key. */
function mergeDefinition(
  fields: Readonly<Record<string, unknown>>,
  extension: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const whole = { ...fields };
  for (const [field, added] of Object.entries(extension))
    whole[field] = isPutTogether(field, fields[field], added)
      ? { ...findGroup(fields[field]), ...findGroup(added) }
      : added;
  return whole;
}

function isPutTogether(field: string, value: unknown, added: unknown): boolean {
  return (
    DATA_FIELDS.includes(field) && findGroup(value) !== undefined && findGroup(added) !== undefined
  );
}

function findGroup(value: unknown): Readonly<Record<string, unknown>> | undefined {
  return isRecord(value) && isPlainObject(value) ? value : undefined;
}

/** `defineAgent` checks every present field. Only the model may be missing. */
function isPossibleDefinition(
  whole: Readonly<Record<string, unknown>>,
): whole is Readonly<Record<string, unknown>> & AgentDefinition {
  return "model" in whole;
}

interface Origin {
  readonly text: RoleText;
  readonly owner: string;
  readonly extension: Readonly<Record<string, unknown>>;
  readonly errorAt: FileErrorAt;
}

/**
 * Returns the error with the line of its field. An error about a field from code is returned
 * unchanged.
 */
function addFileLocation(cause: unknown, { text, owner, extension, errorAt }: Origin): unknown {
  if (!EspalierError.is(cause)) return cause;
  const { field } = cause.data;
  const path = typeof field === "string" ? readFieldPath(field, owner) : "";
  if (isFromCode(path, text.values, extension)) return cause;
  return errorAt(text.findLine(path), cause.message, cause);
}

/**
 * Converts `researcher.budget.steps` to `.budget.steps`. Fields begin with `agent` until the name
 * is checked.
 */
function readFieldPath(field: string, owner: string): string {
  const start = findLongestPart(field, [owner, "agent"]) ?? field;
  return field.slice(start.length);
}

function isFromCode(
  path: string,
  fields: RoleText["values"],
  extension: Readonly<Record<string, unknown>>,
): boolean {
  const part = findKeyPart(path, extension);
  if (part === undefined) return false;
  const field = part.slice(1);
  const added = extension[field];
  if (!isPutTogether(field, fields.get(field), added)) return true;
  return findKeyPart(path.slice(part.length), findGroup(added) ?? {}) !== undefined;
}

function findKeyPart(path: string, group: Readonly<Record<string, unknown>>): string | undefined {
  const parts = Object.keys(group).map((key) => `.${key}`);
  return findLongestPart(path, parts);
}

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
function parseRoleText(text: string, errorAt: FileErrorAt): RoleText {
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
function findLongestPart(path: string, parts: Iterable<string>): string | undefined {
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
