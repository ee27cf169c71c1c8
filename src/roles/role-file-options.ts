// The options of role files: models and tools by name, and fields that files cannot contain.

import { type AgentDefinition, DEFINITION_FIELDS, type FieldKind } from "../agent/define-agent.ts";
import { checkKeys, checkList, mismatch } from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { isRecord } from "../kernel/json.ts";
import { completeSentence } from "../kernel/sentence.ts";
import { checkModel } from "../model/check-model.ts";
import type { Model } from "../model/model.ts";
import { checkTool } from "../tools/check-tool.ts";
import { checkNames } from "../tools/tool-set.ts";
import type { ToolsetTool } from "../tools/toolsets.ts";

/**
 * Options of `readRoles` and `parseRole`.
 *
 * - `Context`: type of the run context that `extend` reads.
 * - `Own`: types of the tools that files may name. Each may read a part of the context.
 *
 * @example
 * ```ts
 * const options: RoleFileOptions = {
 *   models: { fast: openai("gpt-5-mini"), strong: openai("gpt-5") },
 *   tools: [search],
 *   extend: { researcher: { stopWhen: hasToolCall("search") } },
 * };
 * ```
 */
export interface RoleFileOptions<
  Context = unknown,
  Own extends ToolsetTool<never> = ToolsetTool<Context>,
> {
  /**
   * Models by the names that files use, or a function that returns the model for a name. The
   * function is called once per file.
   *
   * @example
   * ```ts
   * const roles = await readRoles("roles", { models: (name) => openai(name) });
   * ```
   */
  readonly models: Readonly<Record<string, Model>> | ((name: string) => Model);
  /**
   * The model of files that name none.
   *
   * @default each file must name a model
   */
  readonly defaultModel?: Model;
  /**
   * Tools that files may name, by their names or by a prefix with a star such as `files_*`.
   *
   * @default []
   */
  readonly tools?: readonly Own[];
  /**
   * Fields that a file cannot contain, by the name of the role. They take precedence over the file.
   * Groups such as `budget` are merged key by key.
   *
   * @default nothing is added
   *
   * @example
   * ```ts
   * const roles = await readRoles("roles", {
   *   models: openai,
   *   extend: { classifier: { output: z.object({ category: z.string() }) } },
   * });
   * ```
   */
  readonly extend?: Readonly<Record<string, RoleExtension<Context>>>;
}

/**
 * Fields that code adds to a role from a file, such as hooks, guards and a typed result.
 *
 * @example
 * ```ts
 * const extension: RoleExtension = { stopWhen: hasToolCall("search"), budget: { steps: 5 } };
 * ```
 */
export type RoleExtension<Context = unknown> = Partial<
  Omit<AgentDefinition<unknown, Context>, "name" | "instructions">
>;

/** The checked options. */
export interface RoleFileSettings {
  readonly defaultModel: Model | undefined;
  readonly tools: ReadonlyMap<string, ToolsetTool>;
  readonly extensions: ReadonlyMap<string, Readonly<Record<string, unknown>>>;
  /**
   * Returns the model that a file names in this field. Throws `invalid_argument` if it is
   * unknown.
   */
  modelOf(field: string, name: string): Model;
}

export const OPTION_FIELDS = ["models", "defaultModel", "tools", "extend"];

/**
 * Returns a checked copy of the options. Throws `invalid_argument` or
 * `duplicate_tool`.
 */
export function checkRoleFileOptions(owner: string, options: RoleFileOptions): RoleFileSettings {
  const { models, defaultModel, tools = [], extend = {} } = options;
  if (typeof models !== "function" && !isRecord(models)) {
    const advice = 'Pass them as { fast: openai("…") }, or as a function of the name.';
    throw mismatch(`${owner}.models`, "models by name", models, advice);
  }
  if (defaultModel !== undefined) checkModel(`${owner}.defaultModel`, defaultModel);
  checkList(`${owner}.tools`, tools);
  const kinds = ["function", "external", "delegation"] as const;
  for (const [index, tool] of tools.entries()) {
    const advice = "Leave it out: an agent with an output gets Finish automatically.";
    checkTool(`${owner}.tools[${index}]`, tool, kinds, advice);
  }
  checkNames(owner, tools);
  if (!isRecord(extend)) {
    const advice = "Pass it as { researcher: { hooks: [ … ] } }.";
    throw mismatch(`${owner}.extend`, "fields by the name of a role", extend, advice);
  }
  const extensions = Object.entries(extend).map(([name, extension]) => {
    checkKeys(`${owner}.extend.${name}`, extension, EXTENSION_FIELDS);
    const fields = Object.entries(extension).filter(([, value]) => value !== undefined);
    return [name, Object.fromEntries<unknown>(fields)] as const;
  });
  return {
    defaultModel,
    tools: new Map(tools.map((tool) => [tool.name, tool])),
    extensions: new Map(extensions),
    modelOf:
      typeof models === "function" ? wrapModelFunction(models) : createModelLookup({ ...models }),
  };
}

/** Throws `invalid_argument` if `extend` names a role that no file defines. */
export function checkExtensions(
  owner: string,
  { extensions }: RoleFileSettings,
  names: readonly string[],
): void {
  const unknown = [...extensions.keys()].find((name) => !names.includes(name));
  if (unknown === undefined) return;
  const expected = `the name of a role in the files (${enumerateNames(names)})`;
  throw mismatch(`${owner}.extend.${unknown}`, expected, unknown, "Correct the name.");
}

/** Returns names as a list for a message. */
export function enumerateNames(names: Iterable<string>): string {
  return [...names].join(", ") || "there are none";
}

function createModelLookup(models: Readonly<Record<string, Model>>): RoleFileSettings["modelOf"] {
  const byName = new Map(Object.entries(models));
  return (field, name) => {
    const model = byName.get(name);
    if (model !== undefined) return model;
    const expected = `the name of a given model (${enumerateNames(byName.keys())})`;
    throw mismatch(field, expected, name, "Correct the name, or add it to models.");
  };
}

function wrapModelFunction(models: (name: string) => Model): RoleFileSettings["modelOf"] {
  return (field, name) => {
    const expected = "the name of a model that models() returns";
    let model: Model | undefined;
    try {
      model = models(name);
    } catch (cause) {
      const advice = `models() threw: ${completeSentence(getErrorMessage(cause))}`;
      const { code, message, data } = mismatch(field, expected, name, advice);
      throw new EspalierError({ code, message, data, cause });
    }
    if (model !== undefined) return model;
    throw mismatch(field, expected, name, "Correct the name.");
  };
}

function selectFields(...kinds: readonly FieldKind[]): readonly string[] {
  const fields = Object.entries(DEFINITION_FIELDS).filter(([, kind]) => kinds.includes(kind));
  return Object.freeze(fields.map(([field]) => field));
}

/** Fields that the front matter may contain. */
export const FILE_FIELDS = selectFields("data", "names");

/** Fields with plain data. A group is merged from file and code key by key. */
export const DATA_FIELDS = selectFields("data");

/** Fields that only code can contain. */
export const CODE_FIELDS = selectFields("code");

/** Fields that `extend` may contain. */
export const EXTENSION_FIELDS = Object.freeze(
  [...FILE_FIELDS, ...CODE_FIELDS].filter((field) => field !== "name"),
);
