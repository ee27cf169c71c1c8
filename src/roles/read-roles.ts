// Entry `espalier/roles`: roles from Markdown files with front matter. `defineAgent` checks them
// like roles in code, and errors name the line.

import { Buffer, isUtf8 } from "node:buffer";
import { readdir, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import { checkKeys, checkText, mismatch, describeReceived } from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import type { AgentRole, InferContext } from "../agent/agent-role.ts";
import type { ToolsetTool } from "../tools/toolsets.ts";
import { parseRoleFile, type RoleInFile } from "./parse-role.ts";
import { createFileErrorFactory, type FileErrorAt } from "./plain-yaml.ts";
import {
  checkExtensions,
  OPTION_FIELDS,
  checkRoleFileOptions,
  type RoleFileOptions,
  type RoleFileSettings,
} from "./role-file-options.ts";

export { parseRoleFileNames } from "./parse-role.ts";
export type { RoleExtension, RoleFileOptions } from "./role-file-options.ts";

const ENDING = ".md";

/**
 * Reads the roles in a folder of Markdown files, sorted by file name. Files whose names do not end
 * in `.md` or begin with a dot are ignored, and so are subfolders.
 *
 * A role that a file names in `subagents` is looked up when a run starts, as for roles in code.
 *
 * @throws EspalierError `invalid_role_file` for the first invalid file. The message begins with
 * `file:line`, `data` contains both, and `cause` is the error of `defineAgent` if there is one.
 * @throws EspalierError `invalid_argument` if the folder cannot be read, or an option is unknown or
 * has the wrong type.
 * @throws EspalierError `invalid_argument` if a model or a tool in the options is invalid, or
 * `extend` contains an invalid value.
 * @throws EspalierError `duplicate_tool` if two tools have the same name.
 *
 * @example
 * ```ts
 * const roles = await readRoles(new URL("roles", import.meta.url), {
 *   models: { fast: openai("gpt-5-mini") },
 *   tools: [search],
 * });
 * const orchestrator = new Orchestrator({ roles });
 * ```
 */
export function readRoles<Context = unknown, Own extends ToolsetTool<never> = ToolsetTool<Context>>(
  folder: string | URL,
  options: RoleFileOptions<Context & InferContext<Own>, Own>,
): Promise<readonly AgentRole<unknown, Context & InferContext<Own>>[]>;
export async function readRoles(
  folder: string | URL,
  options: RoleFileOptions,
): Promise<readonly AgentRole[]> {
  checkKeys("readRoles", options, OPTION_FIELDS);
  const settings = checkRoleFileOptions("readRoles", options);
  const { path, names } = await findRoleFiles(folder);
  const rolesByName = new Map<string, { readonly role: AgentRole; readonly file: string }>();
  for (const name of names) {
    const file = join(path, name);
    const read = await readRole(file, settings);
    if (read === undefined) continue;
    const { role, nameLine } = read;
    const first = rolesByName.get(role.name);
    if (first !== undefined) {
      const message = `Expected a name that no other file has, got "${role.name}", which ${first.file} has. Rename one of them.`;
      throw createFileErrorFactory(file)(nameLine, message);
    }
    rolesByName.set(role.name, { role, file });
  }
  checkExtensions("readRoles", settings, [...rolesByName.keys()]);
  return Object.freeze([...rolesByName.values()].map(({ role }) => role));
}

/**
 * Returns the role in the text of a role file.
 *
 * @throws EspalierError `invalid_role_file` if the text is invalid. The message begins with
 * `file:line`.
 * @throws EspalierError `invalid_argument` if an option is unknown or has the wrong type.
 * @throws EspalierError `invalid_argument` if a model or a tool in the options is invalid, or
 * `extend` contains an invalid value.
 * @throws EspalierError `duplicate_tool` if two tools have the same name.
 *
 * @example
 * ```ts
 * const text = "---\nmodel: gpt-5-mini\n---\nAnswer in one sentence.";
 * const brief = parseRole(text, { file: "brief.md", models: openai });
 * ```
 */
export function parseRole<Context = unknown, Own extends ToolsetTool<never> = ToolsetTool<Context>>(
  text: string,
  options: RoleFileOptions<Context & InferContext<Own>, Own> & {
    /**
     * Name or path of the file, for errors. Its base name without `.md` is the name of the role,
     * unless the front matter has `name`.
     */
    readonly file: string;
  },
): AgentRole<unknown, Context & InferContext<Own>>;
export function parseRole(
  text: string,
  options: RoleFileOptions & { readonly file: string },
): AgentRole {
  checkKeys("parseRole", options, ["file", ...OPTION_FIELDS]);
  const { file } = options;
  checkText("parseRole.file", file);
  if (typeof text !== "string")
    throw mismatch("parseRole.text", "the text of a role file", text, "Decode it first.");
  const settings = checkRoleFileOptions("parseRole", options);
  const { role } = parseRoleFile({ text, file, defaultName: basename(file, ENDING) }, settings);
  checkExtensions("parseRole", settings, [role.name]);
  return role;
}

/** Returns the path of the folder, and the sorted names of its possible role files. */
async function findRoleFiles(
  folder: string | URL,
): Promise<{ readonly path: string; readonly names: readonly string[] }> {
  try {
    const path = folder instanceof URL ? fileURLToPath(folder) : folder;
    const names = (await readdir(path)).filter(
      (name) => name.endsWith(ENDING) && !name.startsWith("."),
    );
    return { path, names: names.toSorted() };
  } catch (cause) {
    const got = folder instanceof URL ? describeReceived(folder.href) : describeReceived(folder);
    throw new EspalierError({
      code: "invalid_argument",
      message: `Expected readRoles.folder to be a folder that can be read, got ${got} (${getErrorMessage(cause)}). Pass its path, or new URL("roles", import.meta.url) for a folder beside the program.`,
      data: { field: "readRoles.folder", expected: "a folder that can be read", got },
      cause,
    });
  }
}

/** Returns the role in a file. `undefined` if it is a folder or a special file. */
async function readRole(file: string, settings: RoleFileSettings): Promise<RoleInFile | undefined> {
  const errorAt = createFileErrorFactory(file);
  const bytes = await readBytes(file, errorAt);
  if (bytes === undefined) return undefined;
  if (!isUtf8(bytes)) {
    const message = "Expected UTF-8, got something else. Save the file as UTF-8.";
    throw errorAt(findBadLine(bytes), message);
  }
  const text = bytes.toString("utf8");
  return parseRoleFile({ text, file, defaultName: basename(file, ENDING) }, settings);
}

async function readBytes(file: string, errorAt: FileErrorAt): Promise<Buffer | undefined> {
  try {
    return (await stat(file)).isFile() ? await readFile(file) : undefined;
  } catch (cause) {
    const message = `Cannot read the file (${getErrorMessage(cause)}). Fix it, or remove it from the folder.`;
    throw errorAt(1, message, cause);
  }
}

/** Returns the first line that is not UTF-8. No character but the line feed contains its byte. */
function findBadLine(bytes: Buffer): number {
  const lines = bytes.toString("latin1").split("\n");
  return lines.findIndex((line) => !isUtf8(Buffer.from(line, "latin1"))) + 1;
}
