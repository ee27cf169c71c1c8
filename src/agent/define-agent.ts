// How a role is defined: what it takes, checked once, field by field.

import type { z } from "zod";

import {
  checkBoolean,
  checkCount,
  checkIdentifier,
  checkKeys,
  checkList,
  checkText,
  defaultAdvice,
  misdefinition,
  mismatch,
} from "../kernel/check.ts";
import { MOST_TOKENS } from "../model/count-tokens.ts";
import { checkModel } from "../model/check-model.ts";
import type { Model } from "../model/model.ts";
import {
  checkModelSettings,
  copyModelSettings,
  SETTING_NAMES,
  toolChoiceAmong,
  MAX_TEMPERATURE,
} from "../model/check-model-settings.ts";
import { checkBudget, type Budget } from "../policies/budget.ts";
import { delegationPolicy, type DelegationPolicy } from "../policies/delegation-policy.ts";
import type { StopCondition } from "../policies/stop-conditions.ts";
import type { ModelSettings, ToolChoice } from "../protocol/model-settings.ts";
import {
  subagentContextPolicy,
  type SubagentContextPolicy,
} from "../policies/subagent-context-policy.ts";
import { checkLimits, type SubagentLimits } from "../policies/subagent-limits.ts";
import { checkHooks, type Hook } from "../hooks/hook.ts";
import {
  errorBudget,
  errorPolicy,
  type ErrorBudget,
  type ErrorPolicy,
} from "../policies/error-budget.ts";
import { checkTool, isTool, isToolset } from "../tools/check-tool.ts";
import type { JsonSchemaInput } from "../tools/arguments/input-schema.ts";
import type { Tool } from "../tools/tool.ts";
import { checkFilters, type ToolFilter } from "../tools/tool-filter.ts";
import { checkGuards, type ToolGuard } from "../tools/tool-guard.ts";
import { checkNames } from "../tools/tool-set.ts";
import { toolDefaults, type ToolDefaults } from "../tools/tool-settings.ts";
import type { ToolsetTool } from "../tools/toolsets.ts";
import { compactionOf, type Compaction } from "./compaction.ts";
import { finishTool, outputModeOf, requireNative } from "./typed-result.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";
import { placedSections, type RequestSection } from "./request-sections.ts";
import { dynamicRoleBounds, type DynamicRoleBounds } from "./dynamic-role-bounds.ts";
import {
  delegationToolNames,
  isAgentRole,
  SPAWN_TOOL_NAME,
  checkDescription,
  type AgentRole,
  type InferContext,
} from "./agent-role.ts";

/**
 * What `defineAgent` takes. `Output`: the typed result. `Context`: what the agents ask of the context of a run. `Own` and `Child`: the tools
 * and the subagents that are listed, which may each ask for a part of it.
 */
export interface AgentDefinition<
  Output = unknown,
  Context = unknown,
  Own extends ToolsetTool<never> = ToolsetTool<Context>,
  Child extends AgentRole<unknown, never> | string = AgentRole<unknown, Context> | string,
> {
  /** Letters, digits, `_` and `-`, at most 64, a letter first. */
  readonly name: string;
  /** What a supervisor reads about it. Required of roles that are spawned. */
  readonly description?: string;
  /**
   * The system prompt of its agents. A function is asked for it once for each execution of an agent, with the context of the
   * run, before anything of the execution has happened; the text stays with the execution, over a pause or a crash, too. It answers at
   * once; if it throws, or gives no text, the execution does not begin: `instructions_failed`.
   */
  readonly instructions: string | ((context: Context) => string);
  /** What answers its agents: `openai(…)`, a model of the AI SDK, a fallback, or one of your own. */
  readonly model: Model;
  /** What its agents may call: made by `defineTool`, `defineDelegation`, `connectMcp`. Default: none. */
  readonly tools?: readonly Own[];
  /** What holds for its tools where they do not say themselves. */
  readonly toolDefaults?: ToolDefaults;
  /** Functions that decide of each tool call whether it may run, here and in every agent below: what is forbidden here is forbidden below. */
  readonly guards?: readonly ToolGuard<Context>[];
  /** Which of its tools the agent is offered, step by step. Default: all. */
  readonly toolFilters?: readonly ToolFilter<Context>[];
  /** How many failures of tool calls each agent of this role tolerates. Default 5 in all, 3 in a row, 10 requests for a corrected call. */
  readonly errorBudget?: Partial<ErrorBudget>;
  /** What is done when a call is denied, or a tool was retried too often. */
  readonly errorPolicy?: Partial<ErrorPolicy>;
  /** Roles that it may spawn, as values, or by name if they are defined elsewhere in the tree (also its own). Gives it `SpawnSubagent`. */
  readonly subagents?: readonly Child[];
  /** What its subagents inherit. Default: nothing. */
  readonly contextPolicy?: Partial<SubagentContextPolicy>;
  /** How it delegates: in the background, with which part of its budget, and what one failure means for the others. */
  readonly delegation?: Partial<DelegationPolicy>;
  /**
   * Bounds on the tree below each agent of this role, next to those of the run: what is looser than above has no effect.
   * `maxDepth` is counted from the root of the run, `maxTotalSubagents` below the agent.
   */
  readonly limits?: Partial<SubagentLimits>;
  /** Lets the model write roles when it delegates, within these bounds. Default: it may start `subagents` only. */
  readonly dynamicRoles?: DynamicRoleBounds<Context>;
  /** Upper limits for each agent of this role with its descendants. */
  readonly budget?: Budget;
  /** Ends every request with a line that says what is left of the budget, where anything is limited. Default false. */
  readonly showBudget?: boolean;
  /** Asked before the first step and after every step, next to the budget. */
  readonly stopWhen?: readonly StopCondition<Context>[];
  /** What watches and changes the agents of this role, after the orchestrator's own hooks. See `observe`, `transform` and the others. */
  readonly hooks?: readonly Hook<Context>[];
  /**
   * On the last step that a `steps` budget allows, the model can call no tools (but `Finish`, if it gives a typed result by that) and reads
   * a notice to finish: `true`, or the text of the notice. Without a `steps` budget on its path it does nothing.
   * Its text is then the result of an agent that was stopped by `step_limit`. Default: no notice, the agent is simply stopped.
   */
  readonly wrapUp?: boolean | string;
  /**
   * What is part of every request besides instructions and history: a memory, the state of the work, a reminder. Default: nothing. See
   * `RequestSection`.
   */
  readonly sections?: readonly RequestSection<Context>[];
  /** When and how far the history is made shorter. Default: never. */
  readonly compaction?: Compaction;
  /** Most tokens that one reply may have, up to a thousand million. Default 8,192; clamped to what the budget has left. */
  readonly maxOutputTokens?: number;
  /** From 0 to 2. Left out: the provider's default. */
  readonly temperature?: number;
  /**
   * How the model is to answer agents of this role, over the options of its adapter. What the model cannot be asked is refused here.
   * `toolChoice`: which tools it may call; `required` and names of tools hold for the first step of an agent, so that it can end.
   */
  readonly modelSettings?: ModelSettings & { readonly toolChoice?: ToolChoice };
  /**
   * The schema of its result: a zod schema of an object, a list or a union, or `jsonSchema({ … })` of an object. The agent must then end
   * with a value that fits, which is the `output` of the result.
   */
  readonly output?: z.ZodType<Output> | JsonSchemaInput<Output>;
  /**
   * How the result is asked for. `native`: the provider holds the model to the schema, and its text is the result; refused unless the model
   * can (`Model.supportsStructuredOutputs`). `tool`: the model calls the tool `Finish`. `auto`, the default: `native` where the model can, unless hooks watch
   * `Finish` or `modelSettings.toolChoice` names it. A text that fits is taken either way, but for hooks that watch `Finish`.
   */
  readonly outputMode?: "auto" | "native" | "tool";
}

const DEFAULT_MAX_OUTPUT_TOKENS = 8192;
const PROVIDERS_DEFAULT = "Leave it out for the provider's default.";
/**
 * What a definition may have. In a role file `data` stands as in code, `names` are looked up, `text` is what follows the front matter,
 * `code` no file can say.
 */
export const DEFINITION_FIELDS = {
  name: "data",
  description: "data",
  instructions: "text",
  model: "names",
  tools: "names",
  toolDefaults: "data",
  guards: "code",
  toolFilters: "code",
  errorBudget: "data",
  errorPolicy: "data",
  subagents: "names",
  contextPolicy: "data",
  delegation: "data",
  limits: "data",
  dynamicRoles: "code",
  budget: "data",
  showBudget: "data",
  stopWhen: "code",
  hooks: "code",
  wrapUp: "data",
  sections: "code",
  compaction: "data",
  maxOutputTokens: "data",
  temperature: "data",
  modelSettings: "data",
  output: "code",
  outputMode: "code",
} as const satisfies Record<keyof AgentDefinition, FieldKind>;

/** How a role file says a field. */
export type FieldKind = "data" | "names" | "text" | "code";

/**
 * Defines a role. What it asks of the context of a run follows from its tools, guards, hooks and the like, and from the subagents that it
 * lists: all that any of them asks.
 *
 * @throws EspalierError `invalid_definition`, `invalid_option` or `duplicate_tool`, naming the field.
 */
// `Field`: the fields that are given. They tell a role that has no description from one whose type does not say.
export function defineAgent<
  Output = undefined,
  Context = unknown,
  Own extends ToolsetTool<never> = ToolsetTool<Context>,
  Child extends AgentRole<unknown, never> | string = AgentRole<unknown, Context> | string,
  Field extends keyof AgentDefinition = keyof AgentDefinition,
>(
  definition: AgentDefinition<
    Output,
    Context & InferContext<Own | Exclude<Child, string>>,
    Own,
    Child
  > & { readonly [Name in Field]?: unknown } & {
    readonly subagents?: readonly (Child extends { readonly description: undefined }
      ? "Describe this role in one line: its supervisor chooses subagents by their descriptions."
      : Child)[];
  },
): "description" extends Field
  ? AgentRole<Output, Context & InferContext<Own | Exclude<Child, string>>>
  : AgentRole<Output, Context & InferContext<Own | Exclude<Child, string>>> & {
      readonly description: undefined;
    };
export function defineAgent(definition: AgentDefinition): AgentRole {
  checkKeys("agent", definition, Object.keys(DEFINITION_FIELDS));
  const { name, model } = definition;
  checkIdentifier("agent.name", name);
  if (typeof definition.instructions !== "function")
    checkText(`${name}.instructions`, definition.instructions);
  if (definition.description !== undefined)
    checkText(`${name}.description`, definition.description);
  checkModel(`${name}.model`, model);
  const { tools: given = [], subagents = [], stopWhen = [], hooks = [] } = definition;
  checkList(`${name}.tools`, given, toolListAdvice(given));
  for (const [field, list] of Object.entries({ subagents, stopWhen, hooks }))
    checkList(`${name}.${field}`, list);
  const result = makeTypedResult(definition);
  const { finish, outputMode } = result;
  const tools = finish === undefined || outputMode === "native" ? [...given] : [...given, finish];
  checkTools(name, tools);
  checkSubagents(name, subagents);
  const { limits = {}, showBudget = false, dynamicRoles } = definition;
  checkLimits(`${name}.limits`, limits);
  checkBoolean(`${name}.showBudget`, showBudget);
  const budget = copyBudget(definition);
  if (definition.maxOutputTokens !== undefined)
    checkMaxOutputTokens(name, definition.maxOutputTokens, model);
  if (definition.temperature !== undefined)
    checkTemperature(`${name}.temperature`, definition.temperature);
  checkConditions(name, stopWhen);
  checkHooks(`${name}.hooks`, hooks);
  const { guards = [], toolFilters = [] } = definition;
  checkGuards(`${name}.guards`, guards);
  checkFilters(`${name}.toolFilters`, toolFilters);
  const delegation = delegationPolicy(`${name}.delegation`, definition.delegation ?? {});
  const toolNames = [
    ...tools.map((tool) => tool.name),
    ...delegationToolNames({ subagents, dynamicRoles, delegation }),
  ];
  checkFilterNames(name, toolFilters, toolNames);
  const maxOutputTokens = definition.maxOutputTokens ?? DEFAULT_MAX_OUTPUT_TOKENS;
  return Object.freeze({
    name,
    description: definition.description,
    instructions: definition.instructions,
    model,
    tools: Object.freeze(tools),
    toolDefaults: toolDefaults(`${name}.toolDefaults`, definition.toolDefaults ?? {}),
    guards: Object.freeze([...guards]),
    toolFilters: Object.freeze([...toolFilters]),
    errorBudget: errorBudget(`${name}.errorBudget`, definition.errorBudget ?? {}),
    errorPolicy: errorPolicy(`${name}.errorPolicy`, definition.errorPolicy ?? {}),
    subagents: Object.freeze([...subagents]),
    contextPolicy: subagentContextPolicy(`${name}.contextPolicy`, definition.contextPolicy ?? {}),
    delegation,
    limits: Object.freeze({ ...limits }),
    dynamicRoles:
      dynamicRoles === undefined
        ? undefined
        : dynamicRoleBounds(`${name}.dynamicRoles`, dynamicRoles),
    budget,
    showBudget,
    stopWhen: Object.freeze([...stopWhen]),
    hooks: Object.freeze([...hooks]),
    wrapUp: readWrapUp(name, definition.wrapUp),
    sections: placedSections(`${name}.sections`, definition.sections ?? []),
    compaction: compactionOf(`${name}.compaction`, definition.compaction, maxOutputTokens),
    maxOutputTokens,
    temperature: definition.temperature,
    ...readModelSettings(definition, toolNames),
    ...result,
  });
}

/** Its typed result, and how that is asked for. */
function makeTypedResult({
  name,
  model,
  output,
  outputMode: given,
}: AgentDefinition): Pick<AgentRole, "output" | "hasOutput" | "outputMode" | "finish"> {
  const hasOutput = output !== undefined;
  const outputMode = outputModeOf(`${name}.outputMode`, given, hasOutput);
  requireNative({ name, outputMode, model });
  const finish = hasOutput ? finishTool(`${name}.output`, output) : undefined;
  return { output, hasOutput, outputMode, finish };
}

const TOOL_KINDS = ["function", "external", "delegation", "finish"] as const;

/** What to do about tools that are no list; undefined: what holds for any list. */
function toolListAdvice(tools: unknown): string | undefined {
  if (isToolset(tools)) return "Pass its tools: server.tools.";
  return isTool(tools) ? "Pass an array: [a, b]." : undefined;
}

function checkTools(name: string, tools: readonly Tool[]): void {
  for (const [index, tool] of tools.entries())
    checkTool(`${name}.tools[${index}]`, tool, TOOL_KINDS, "Create it with defineTool({ … }).");
  checkNames(name, tools);
  const reserved = tools.find(
    (tool) =>
      tool.name === SPAWN_TOOL_NAME || (tool.name === FINISH_TOOL_NAME && tool.kind !== "finish"),
  );
  if (reserved !== undefined) {
    throw misdefinition(
      `${name}.tools`,
      "a tool whose name is not reserved",
      reserved.name,
      "Rename it.",
    );
  }
}

/** A filter for a tool that is not there would take nothing away. */
function checkFilterNames(
  name: string,
  filters: readonly ToolFilter[],
  names: readonly string[],
): void {
  for (const [index, filter] of filters.entries()) {
    const unknown = filter.tools?.find((tool) => !names.includes(tool));
    if (unknown === undefined) continue;
    const field = `${name}.toolFilters[${index}].tools`;
    const expected = `names of its tools (${names.join(", ")})`;
    throw misdefinition(field, expected, unknown, "Name them as the model calls them.");
  }
}

function checkSubagents(name: string, subagents: readonly (AgentRole | string)[]): void {
  for (const [index, subagent] of subagents.entries()) {
    if (typeof subagent === "string") continue;
    if (!isAgentRole(subagent)) {
      const field = `${name}.subagents[${index}]`;
      const advice = "Use defineAgent({ … }).";
      throw misdefinition(field, "a role or the name of a role", subagent, advice);
    }
    checkDescription(name, subagent);
  }
}

function copyBudget({ name, budget: given = {} }: AgentDefinition): Budget {
  checkBudget(`${name}.budget`, given);
  return Object.freeze({ ...given });
}

function readModelSettings(
  { name, model, modelSettings: given, output, outputMode }: AgentDefinition,
  toolNames: readonly string[],
): Pick<AgentRole, "modelSettings" | "toolChoice"> {
  if (given === undefined) return { modelSettings: undefined, toolChoice: undefined };
  const field = `${name}.modelSettings`;
  checkKeys(field, given, [...SETTING_NAMES, "toolChoice"]);
  checkModelSettings(field, given);
  const settings = copyModelSettings(given);
  model.checkSettings?.(settings);
  const { toolChoice } = given;
  if (toolChoice === "none" && output !== undefined && outputMode !== "native") {
    const advice = "A role with an output ends by calling Finish. Use auto, or leave it out.";
    throw misdefinition(`${field}.toolChoice`, "a choice that allows Finish", toolChoice, advice);
  }
  return {
    modelSettings: settings,
    toolChoice:
      toolChoice === undefined
        ? undefined
        : toolChoiceAmong(`${field}.toolChoice`, toolChoice, toolNames),
  };
}

function checkMaxOutputTokens(name: string, tokens: number, { id, minOutputTokens }: Model): void {
  checkCount(`${name}.maxOutputTokens`, tokens, defaultAdvice(DEFAULT_MAX_OUTPUT_TOKENS));
  if (tokens === 0)
    throw mismatch(
      `${name}.maxOutputTokens`,
      "at least 1",
      tokens,
      "A reply needs at least one token.",
    );
  if (minOutputTokens !== undefined && tokens < minOutputTokens) {
    const expected = `at least ${minOutputTokens}`;
    throw mismatch(`${name}.maxOutputTokens`, expected, tokens, `${id} accepts no lower cap.`);
  }
  if (tokens > MOST_TOKENS) {
    const advice = "Each call reserves this many tokens of the budget.";
    throw mismatch(`${name}.maxOutputTokens`, `at most ${MOST_TOKENS}`, tokens, advice);
  }
}

function checkTemperature(field: string, value: unknown): void {
  if (typeof value === "number" && value >= 0 && value <= MAX_TEMPERATURE) return;
  throw mismatch(field, `a number from 0 to ${MAX_TEMPERATURE}`, value, PROVIDERS_DEFAULT);
}

function readWrapUp(name: string, given: boolean | string | undefined): AgentRole["wrapUp"] {
  if (given === undefined || given === false) return undefined;
  if (given !== true) checkText(`${name}.wrapUp`, given);
  return given;
}

function checkConditions(name: string, conditions: readonly StopCondition[]): void {
  for (const [index, condition] of conditions.entries()) {
    if (typeof condition === "function") continue;
    const field = `${name}.stopWhen[${index}]`;
    throw misdefinition(field, "a function", condition, "See hasToolCall().");
  }
}
