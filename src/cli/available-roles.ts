// Loads the roles for a command: from the configuration, from a program, or from role files with
// the models, tools and servers that they name.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, extname, join, resolve } from "node:path";

import type { AgentRole, Model } from "espalier";
import type { EspalierConfig } from "espalier/config";
import { parseRoleFileNames } from "espalier/roles";

import { type CommandCall, resolveReadableFolder } from "./command-call.ts";
import { importFile } from "./import-file.ts";
import { connectServers, readKnownServers } from "./mcp-servers.ts";
import { checkConfigExport, type Project } from "./project.ts";
import { readSetting, type Shell } from "./shell.ts";
import { UsageError } from "./exit-codes.ts";

/** Input for loading roles. */
interface RoleSearch {
  readonly shell: Shell;
  readonly project: Project;
  /** The model of `--model`, for role files that name none. It is refused if no file uses it. */
  readonly model: string | undefined;
  /** The model if `--model` is absent. The model of the environment if this is absent, too. */
  readonly usualModel?: string;
  /** Folder that the built-in tools may read. */
  readonly readFolder: string;
  /**
   * Connects to servers. Without it, `connectServers` is used, and the servers are closed with the
   * roles.
   */
  readonly connect?: typeof connectServers;
}

/**
 * Roles with their resources. The first one is the requested role. Close it when the runs have
 * ended.
 */
export interface RoleSources extends AsyncDisposable {
  readonly root: AgentRole;
  readonly roles: readonly AgentRole[];
  /** Configuration of the project, or of the executed file. */
  readonly config: EspalierConfig;
  /** File of that configuration. `undefined` without one. */
  readonly configFile: string | undefined;
}

const PROGRAM = /\.[cm]?[jt]sx?$/;
const ROLE_FILE = ".md";

/**
 * Returns the role for `run`: from a role file, from a program whose default export is a role or a
 * configuration, or by the name of a role.
 *
 * @throws UsageError if the role does not exist. Also throws the errors of its file, model, tools
 * or servers.
 */
export async function loadRoleToRun(name: string, search: RoleSearch): Promise<RoleSources> {
  const { shell, project } = search;
  const file = resolve(shell.cwd, name);
  if (extname(name) === ROLE_FILE) {
    checkFileExists(file, name);
    return await loadRolesFromFile(readFoundRole(file), dirname(file), search);
  }
  if (!PROGRAM.test(name)) return await loadNamedRole(name, search);
  checkFileExists(file, name);
  const exported = await importFile(file, shell);
  if (isRole(exported)) return useCodedRole(exported, [exported], project, search);
  const config = await checkConfigExport(exported, file);
  const ownProject: Project = { folder: dirname(file), config, configFile: file };
  const [only, ...others] = typeof config.roles === "string" ? [] : (config.roles ?? []);
  if (only !== undefined && others.length === 0)
    return useCodedRole(only, [only], ownProject, search);
  throw new UsageError(
    `Expected ${name} to have one role, got a configuration with ${getRoleNames(ownProject).join(", ") || "none"}. Export one role, or run a role by its name in the project of that configuration.`,
  );
}

/**
 * Returns the absolute path of the folder or program of `--roles`. `undefined` without the option.
 *
 * @throws UsageError if there is neither.
 */
export function resolveRolesOption({ shell, text }: CommandCall): string | undefined {
  const named = text("roles");
  if (named === undefined) return undefined;
  const file = resolve(shell.cwd, named);
  return isProgram(file) ? file : resolveReadableFolder(shell, named);
}

function isProgram(file: string): boolean {
  return PROGRAM.test(file) && statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

/**
 * Returns the `--roles` option with which `resume` finds the role that `run` loaded by this name.
 * `undefined` if `resume` finds it without the option.
 */
export function suggestRolesOption(name: string): string | undefined {
  if (PROGRAM.test(name)) return name;
  const folder = dirname(name);
  return extname(name) === ROLE_FILE && folder !== "." ? folder : undefined;
}

/**
 * Returns the roles with which a run continues: those of the program `place`, or of the
 * configuration, else role files in the folder `place`.
 *
 * @throws the errors of `loadRoleToRun`.
 */
export async function loadNamedRole(
  name: string,
  search: RoleSearch,
  place?: string,
): Promise<RoleSources> {
  if (place !== undefined && isProgram(place)) return await loadRoleToRun(place, search);
  const { project, shell } = search;
  const { config } = project;
  const { roles = [] } = config;
  const usual = typeof roles === "string" ? resolve(project.folder, roles) : shell.cwd;
  const folder = place ?? usual;
  const coded = typeof roles === "string" ? [] : roles;
  const known = coded.find((role) => role.name === name);
  if (known !== undefined) return useCodedRole(known, coded, project, search);
  const text = existsSync(folder)
    ? readFolderRoles(folder).find((role) => role.name === name)
    : undefined;
  if (text !== undefined) return await loadRolesFromFile(text, folder, search);
  if (typeof roles === "string" && !existsSync(folder))
    throw new UsageError(
      `Expected config.roles to be a folder of role files, but ${folder} does not exist. Correct it in ${project.configFile ?? "the configuration"}.`,
    );
  const names = getRoleNames(project).join(", ") || "none";
  throw new UsageError(
    `Expected a role file, a program or the name of a role, got ${JSON.stringify(name)}. Roles of the configuration: ${names}. Role files of that name in ${folder}: none. Create role files: espalier init. Or list the role of a program in \`roles\` of espalier.config.ts. To resume a run of a program, pass it: --roles <program>.`,
  );
}

function getRoleNames({ config: { roles = [] } }: Project): readonly string[] {
  return typeof roles === "string" ? [] : roles.map(({ name }) => name);
}

function checkFileExists(file: string, name: string): void {
  if (existsSync(file)) return;
  throw new UsageError(`There is no file ${JSON.stringify(name)}. Check the path.`);
}

/**
 * Distinguishes a role from a configuration, which has none of these fields. A run checks the role.
 */
function isRole(value: unknown): value is AgentRole {
  return typeof value === "object" && value !== null && "model" in value && "name" in value;
}

function useCodedRole(
  root: AgentRole,
  roles: readonly AgentRole[],
  { config, configFile }: Project,
  { model }: RoleSearch,
): RoleSources {
  if (model !== undefined)
    throw new UsageError(
      `--model applies to role files only, but ${root.name} has its model in code. Leave it out.`,
    );
  return { root, roles, config, configFile, [Symbol.asyncDispose]: async () => {} };
}

async function loadRolesFromFile(
  root: FoundRole,
  folder: string,
  search: RoleSearch,
): Promise<RoleSources> {
  const { shell, project, readFolder, connect = connectServers } = search;
  const { config, configFile } = project;
  const coded = typeof config.roles === "string" ? [] : (config.roles ?? []);
  const isCoded = (name: string): boolean => coded.some((role) => role.name === name);
  const texts = collectReachableRoles(root, folder).filter(
    (text) => text === root || !isCoded(text.name),
  );
  const models = await findModels(texts, search);
  const servers = await connect(
    readKnownServers(project, [folder, project.folder]),
    (name) => texts.some(({ tools }) => tools.some((tool) => tool.startsWith(`${name}_`))),
    shell,
  );
  try {
    const { parseRole } = await import("espalier/roles");
    const { createFolderTools: folderTools } = await import("./folder-tools.ts");
    const tools = [...folderTools(readFolder), ...(config.tools ?? []), ...servers.tools];
    const [first, ...others] = texts.map(({ file, text }) =>
      parseRole(text, {
        file: shortenPath(file, shell),
        models: models.byName,
        tools,
        ...models.default,
      }),
    );
    if (first === undefined) throw new Error("A role file is reachable from itself.");
    return {
      root: first,
      roles: [first, ...others, ...coded.filter(({ name }) => name !== first.name)],
      config,
      configFile,
      [Symbol.asyncDispose]: () => servers[Symbol.asyncDispose](),
    };
  } catch (cause) {
    await servers[Symbol.asyncDispose]();
    throw cause;
  }
}

function hasNoModel({ model, isReadable }: FoundRole): boolean {
  return isReadable && model === undefined;
}

/**
 * Creates the models that files name, and the default model. A problem with a model is reported for
 * the line that names it.
 */
async function findModels(texts: readonly FoundRole[], search: RoleSearch) {
  const { model, shell, project } = search;
  const { createNamedModel: modelByName } = await import("./model-by-name.ts");
  const ownModels = new Map(Object.entries(project.config.models ?? {}));
  const findModel = async (name: string): Promise<Model> =>
    ownModels.get(name) ?? (await modelByName(name));
  const names = new Set(texts.flatMap((text) => text.model ?? []));
  const outcomes = new Map(
    await Promise.all(
      [...names].map(async (name) => {
        const [settled] = await Promise.allSettled([findModel(name)]);
        return [name, settled] as const;
      }),
    ),
  );
  const usual = model ?? search.usualModel ?? readSetting(shell.env, "ESPALIER_MODEL");
  const [root] = texts;
  if (model !== undefined && root?.isReadable === true && texts.every(({ model }) => model))
    throw new UsageError(
      `--model applies to role files without a model, but ${shortenPath(root.file, shell)} names ${root.model}. Leave --model out, or remove the line model: … there.`,
    );
  const without = usual === undefined ? texts.find(hasNoModel) : undefined;
  if (without !== undefined)
    throw new UsageError(
      `${shortenPath(without.file, shell)}:1: Expected a line model: … in the front matter, got none. Add it, or set a model for all files without one: --model or ESPALIER_MODEL.`,
    );
  return {
    byName: (name: string): Model => {
      const outcome = outcomes.get(name);
      if (outcome?.status === "fulfilled") return outcome.value;
      throw outcome?.reason;
    },
    default: usual === undefined ? {} : { defaultModel: await findModel(usual) },
  };
}

/** Returns the path for people: relative to the working folder, if it is inside. */
function shortenPath(file: string, { cwd }: Shell): string {
  if (dirname(file) === cwd) return basename(file);
  return file.startsWith(join(cwd, "/")) ? file.slice(cwd.length + 1) : file;
}

/** A file with front matter. */
export interface FoundRole extends Omit<ReturnType<typeof parseRoleFileNames>, "name"> {
  readonly file: string;
  readonly text: string;
  /** Name of the role. */
  readonly name: string;
  /** False if its names cannot be read. Parsing it as a role reports the problem. */
  readonly isReadable: boolean;
}

const ENDING = ".md";
const FIRST_LINE = /^\u{FEFF}?---[ \t]*\r?\n/u;

/** Reads a role file, as far as it can be parsed. */
function readFoundRole(file: string): FoundRole {
  const text = readFileSync(file, "utf8");
  const names = tryReadNames(text, file);
  const name = names?.name ?? basename(file, ENDING);
  return { ...(names ?? NOTHING_NAMED), file, text, name, isReadable: names !== undefined };
}

/**
 * Returns the role files of a folder by name: files that end in `.md` and begin with front matter,
 * unlike a readme.
 */
export function readFolderRoles(folder: string): readonly FoundRole[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() || entry.isSymbolicLink())
    .filter(({ name }) => name.endsWith(ENDING) && !name.startsWith("."))
    .map(({ name }) => join(folder, name))
    .toSorted()
    .map(readFoundRole)
    .filter(({ text }) => FIRST_LINE.test(text));
}

/**
 * Returns a role file and all role files that it reaches through `subagents`, as far as the folder
 * has them. The file itself is first.
 */
function collectReachableRoles(root: FoundRole, folder: string): readonly FoundRole[] {
  let others: readonly FoundRole[] | undefined;
  const rolesByName = new Map([[root.name, root]]);
  // Entries that are added during the iteration are visited, too.
  for (const { subagents } of rolesByName.values())
    for (const name of subagents) {
      if (rolesByName.has(name)) continue;
      others ??= readFolderRoles(folder);
      const other = others.find((role) => role.name === name);
      if (other !== undefined) rolesByName.set(name, other);
    }
  return [...rolesByName.values()];
}

const NOTHING_NAMED = { model: undefined, tools: [], subagents: [] };

function tryReadNames(
  text: string,
  file: string,
): ReturnType<typeof parseRoleFileNames> | undefined {
  try {
    return parseRoleFileNames(text, file);
  } catch {
    return undefined;
  }
}
