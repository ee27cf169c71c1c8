// Defines roles: the options of `defineAgent`, and their validation field by field.

import type { z } from "zod";

import {
  checkBoolean,
  checkCount,
  checkIdentifier,
  checkKeys,
  checkList,
  checkText,
  adviseDefault,
  mismatch,
} from "../kernel/argument-checks.ts";
import { adviseOnOption } from "../kernel/option-names.ts";
import { MAX_TOKENS } from "../model/count-tokens.ts";
import { checkModel } from "../model/check-model.ts";
import type { Model } from "../model/model.ts";
import {
  checkModelSettings,
  copyModelSettings,
  SETTING_NAMES,
  checkToolChoice,
  MAX_TEMPERATURE,
} from "../model/check-model-settings.ts";
import { checkBudget, type Budget } from "../policies/budget.ts";
import { resolveDelegationPolicy, type DelegationPolicy } from "../policies/delegation-policy.ts";
import type { StopCondition } from "../policies/stop-conditions.ts";
import type { ModelSettings, ToolChoice } from "../protocol/model-settings.ts";
import {
  resolveContextPolicy,
  type SubagentContextPolicy,
} from "../policies/subagent-context-policy.ts";
import { checkLimits, type SubagentLimits } from "../policies/subagent-limits.ts";
import { checkHooks, type Hook } from "../hooks/hook.ts";
import {
  resolveErrorBudget,
  resolveErrorPolicy,
  type ErrorBudget,
  type ErrorPolicy,
} from "../policies/error-budget.ts";
import { checkTool, isAgentRole, isTool, isToolset } from "../tools/check-tool.ts";
import { checkToolInput, type JsonSchemaInput } from "../tools/arguments/input-schema.ts";
import type { Tool } from "../tools/tool.ts";
import { checkFilters, type ToolFilter } from "../tools/tool-filter.ts";
import { checkGuards, type ToolGuard } from "../tools/tool-guard.ts";
import { checkNames } from "../tools/tool-set.ts";
import { checkToolDefaults, type ToolDefaults } from "../tools/tool-settings.ts";
import type { ToolsetTool } from "../tools/toolsets.ts";
import { copyCompaction, type Compaction } from "./compaction.ts";
import { finishTool, resolveOutputMode, requireNative } from "./typed-result.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";
import { arrangeSections, type RequestSection } from "./request-sections.ts";
import { copyDynamicRoleBounds, type DynamicRoleBounds } from "./dynamic-role-bounds.ts";
import {
  getDelegationToolNames,
  SPAWN_TOOL_NAME,
  checkDescription,
  type AgentRole,
  type InferContext,
} from "./agent-role.ts";

/**
 * Options of `defineAgent`.
 *
 * - `Output`: type of the typed result, inferred from `output`.
 * - `Context`: type of the run context that the code of the role reads, inferred from the tools,
 *   guards, hooks and subagents.
 * - `Own` and `Child`: types of the listed tools and subagents. Each may read a part of the
 *   context.
 *
 * @example
 * ```ts
 * const definition: AgentDefinition = {
 *   name: "researcher",
 *   description: "Researches one question and cites its sources",
 *   instructions: "Search before you answer. Cite a source for every fact.",
 *   model: openai("gpt-5-mini"),
 *   tools: [search],
 *   budget: { steps: 8 },
 * };
 * ```
 */
export interface AgentDefinition<
  Output = unknown,
  Context = unknown,
  Own extends ToolsetTool<never> = ToolsetTool<Context>,
  Child extends AgentRole<unknown, never> | string = AgentRole<unknown, Context> | string,
> {
  /**
   * The name of the role, part of each agent's path such as `lead/researcher#2`. At most 64
   * letters, digits, `_` and `-`, beginning with a letter.
   */
  readonly name: string;
  /**
   * A line that tells a supervising model when to delegate to this role. Required for a role that
   * is listed in `subagents`.
   *
   * @example
   * ```ts
   * const lawyer = defineAgent({
   *   name: "lawyer",
   *   description: "Checks a contract for risky clauses and quotes them",
   *   instructions: "Quote each risky clause and explain the risk.",
   *   model,
   * });
   * ```
   */
  readonly description?: string;
  /**
   * The system prompt: a text, or a synchronous function of the run context. The function is called
   * once per execution of an agent, before its first step. The returned text is persisted and
   * reused after a pause or a crash.
   *
   * If the function throws or returns an empty text, `start` throws `instructions_failed`. A
   * subagent is refused with `setup_failed`.
   *
   * @example
   * ```ts
   * const clerk = defineAgent({
   *   name: "clerk",
   *   instructions: ({ customerId }: { readonly customerId: string }) =>
   *     `You serve customer ${customerId} only.`,
   *   model,
   * });
   * ```
   */
  readonly instructions: string | ((context: Context) => string);
  /**
   * The model that answers the agents of this role: `openai(…)`, `aiSdkModel(…)`,
   * `withFallback(…)`, or your own `Model`.
   *
   * @example
   * ```ts
   * const planner = defineAgent({
   *   name: "planner",
   *   instructions: "Write a plan in three steps.",
   *   model: openai("gpt-5-mini"),
   * });
   * ```
   */
  readonly model: Model;
  /**
   * Tools that the model may call. They come from `defineTool`, `defineDelegation` or `connectMcp`.
   *
   * @default no tools
   *
   * @example
   * ```ts
   * const getTime = defineTool({
   *   name: "get_time",
   *   description: "Returns the current time in UTC.",
   *   inputSchema: z.object({}),
   *   execute: () => new Date(),
   * });
   * const clock = defineAgent({ name: "clock", instructions: "Help.", model, tools: [getTime] });
   * ```
   */
  readonly tools?: readonly Own[];
  /**
   * Settings for all tools of the role. A tool's own setting takes precedence.
   *
   * @example
   * ```ts
   * const operator = defineAgent({
   *   name: "operator",
   *   instructions: "Operate the servers.",
   *   model,
   *   tools: [search],
   *   toolDefaults: { timeoutMs: 10_000, needsApproval: true },
   * });
   * ```
   */
  readonly toolDefaults?: ToolDefaults;
  /**
   * Functions that allow, deny or ask about each tool call. Guards also apply to every agent below.
   *
   * @example
   * ```ts
   * const noDelete = toolGuard(({ toolName }) =>
   *   toolName.startsWith("delete_")
   *     ? { type: "deny", reason: "Deleting is not allowed." }
   *     : { type: "allow" },
   * );
   * const tidier = defineAgent({ name: "tidier", instructions: "Tidy.", model, guards: [noDelete] });
   * ```
   */
  readonly guards?: readonly ToolGuard<Context>[];
  /**
   * Functions that hide tools from the model, called anew before each step. They do not apply to
   * subagents.
   *
   * @default all tools are offered
   *
   * @example
   * ```ts
   * const noSearchAtFirst = toolFilter((_toolName, { stepNumber }) => stepNumber > 1);
   * const thinker = defineAgent({
   *   name: "thinker",
   *   instructions: "Make a plan, then search.",
   *   model,
   *   tools: [search],
   *   toolFilters: [noSearchAtFirst],
   * });
   * ```
   */
  readonly toolFilters?: readonly ToolFilter<Context>[];
  /**
   * Failed tool calls that one execution tolerates before it stops with `error_budget`.
   *
   * @default { maxToolErrors: 5, maxConsecutiveErrors: 3, maxRetryErrors: 10 }
   *
   * @example
   * ```ts
   * const careful = defineAgent({
   *   name: "careful",
   *   instructions: "Check twice.",
   *   model,
   *   errorBudget: { maxToolErrors: 2 },
   * });
   * ```
   */
  readonly errorBudget?: Partial<ErrorBudget>;
  /**
   * The reaction to a denied call, and to a tool that used up its retries.
   *
   * @default { blockedPolicy: "continue", retryLimitPolicy: "stop" }
   *
   * @example
   * ```ts
   * const strict = defineAgent({
   *   name: "strict",
   *   instructions: "Never guess.",
   *   model,
   *   errorPolicy: { blockedPolicy: "stop" },
   * });
   * ```
   */
  readonly errorPolicy?: Partial<ErrorPolicy>;
  /**
   * Roles that the model may start as subagents. It calls the tool `SpawnSubagent` with the `role`
   * and the `task`, and reads the result of the subagent. A role is listed as a value, or by the
   * name of a role elsewhere in the tree. A name also allows recursion: a role may list its own
   * name.
   *
   * @default no subagents
   *
   * @example
   * ```ts
   * const editor = defineAgent({
   *   name: "editor",
   *   instructions: "Delegate research and writing, then edit the text.",
   *   model,
   *   subagents: [researcher, writer],
   * });
   * ```
   */
  readonly subagents?: readonly Child[];
  /**
   * The context that subagents inherit, such as messages, metadata and tool restrictions.
   *
   * @default subagents inherit nothing
   *
   * @example
   * ```ts
   * const lead = defineAgent({
   *   name: "lead",
   *   instructions: "Delegate the reading.",
   *   model,
   *   subagents: [researcher],
   *   contextPolicy: { inheritMessages: true, messageWindowSize: 4, deniedTools: ["write_note"] },
   * });
   * ```
   */
  readonly contextPolicy?: Partial<SubagentContextPolicy>;
  /**
   * Rules for delegation: the budget shares of subagents, the reserve for the agent's own answer,
   * background work, and the effect of a failed subagent on its siblings.
   *
   * @example
   * ```ts
   * const lead = defineAgent({
   *   name: "lead",
   *   instructions: "Delegate.",
   *   model,
   *   subagents: [researcher],
   *   delegation: { background: true, failurePolicy: "fail_fast", share: { type: "even" } },
   * });
   * ```
   */
  readonly delegation?: Partial<DelegationPolicy>;
  /**
   * Limits on the tree of subagents below each agent of this role. They can only tighten the limits
   * from above, such as those of the orchestrator. `maxDepth` is counted from the root of the run.
   * `maxTotalSubagents` is counted below the agent.
   *
   * @example
   * ```ts
   * const lead = defineAgent({
   *   name: "lead",
   *   instructions: "Delegate.",
   *   model,
   *   subagents: [researcher],
   *   limits: { maxBreadthPerParent: 3, maxTotalSubagents: 6 },
   * });
   * ```
   */
  readonly limits?: Partial<SubagentLimits>;
  /**
   * Lets the model write new roles when it delegates, within these bounds.
   *
   * @default the model may start `subagents` only
   *
   * @example
   * ```ts
   * const lead = defineAgent({
   *   name: "lead",
   *   instructions: "Delegate each part to a specialist.",
   *   model,
   *   dynamicRoles: { models: { fast: model }, tools: [search], budget: { steps: 5 } },
   * });
   * ```
   */
  readonly dynamicRoles?: DynamicRoleBounds<Context>;
  /**
   * Upper limits for each agent of this role, its descendants included.
   *
   * @default the limits from above apply alone
   *
   * @example
   * ```ts
   * const bounded = defineAgent({
   *   name: "bounded",
   *   instructions: "Answer briefly.",
   *   model,
   *   budget: { steps: 10, costUsd: 0.5, timeMs: 60_000 },
   * });
   * ```
   */
  readonly budget?: Budget;
  /**
   * Ends every request with a line about the remaining budget. Without any limit on the path there
   * is no line.
   *
   * @default false
   */
  readonly showBudget?: boolean;
  /**
   * Conditions that stop the agent: one, or a list. Each is checked before the first step and
   * after every step.
   *
   * @default the agent stops when it has answered or its budget is used up
   *
   * @example
   * ```ts
   * const finder = defineAgent({
   *   name: "finder",
   *   instructions: "Search once.",
   *   model,
   *   tools: [search],
   *   stopWhen: hasToolCall("search"),
   * });
   * ```
   */
  readonly stopWhen?: StopCondition<Context> | readonly StopCondition<Context>[];
  /**
   * Hooks that observe or change what the agents of this role do. They run after the hooks of the
   * orchestrator. See `observe`, `transform`, `wrapModelCall`, `wrapToolCall` and `processStep`.
   *
   * @example
   * ```ts
   * const audited = defineAgent({
   *   name: "audited",
   *   instructions: "Answer.",
   *   model,
   *   hooks: [observe("step.completed", ({ agentPath }) => console.log(agentPath))],
   * });
   * ```
   */
  readonly hooks?: readonly Hook<Context>[];
  /**
   * Instructs the model to finish in the last step that a `steps` budget allows. `true` sends a
   * standard notice, a text replaces it.
   *
   * In that step the model can call no tools, except `Finish` for a typed result. The agent is then
   * `stopped` with `step_limit`, and its result has the text of that step. The option has no effect
   * without a `steps` budget on the path.
   *
   * @default false
   *
   * @example
   * ```ts
   * const timid = defineAgent({
   *   name: "timid",
   *   instructions: "Research thoroughly.",
   *   model,
   *   budget: { steps: 5 },
   *   wrapUp: "This is your last step. Summarize what you have found.",
   * });
   * ```
   */
  readonly wrapUp?: boolean | string;
  /**
   * Additional parts of every request, such as a memory, the state of the work or a reminder. See
   * `RequestSection`.
   *
   * @default no sections
   *
   * @example
   * ```ts
   * const dated = defineAgent({
   *   name: "dated",
   *   instructions: "Plan the week.",
   *   model,
   *   sections: [{ name: "today", lifetime: "step", text: () => `Now: ${new Date().toString()}` }],
   * });
   * ```
   */
  readonly sections?: readonly RequestSection<Context>[];
  /**
   * Shortens a history that has become too long for the model.
   *
   * @default the history is never shortened
   *
   * @example
   * ```ts
   * const chatty = defineAgent({
   *   name: "chatty",
   *   instructions: "Chat.",
   *   model,
   *   compaction: { strategy: "summarize", maxInputTokens: 100_000, keepMessages: 30 },
   * });
   * ```
   */
  readonly compaction?: Compaction;
  /**
   * Maximum output tokens of a reply, up to 1,000,000,000. A call is lowered to the remaining
   * budget.
   *
   * @default 8_192
   */
  readonly maxOutputTokens?: number;
  /**
   * Sampling temperature, from 0 to 2.
   *
   * @default the provider's default
   */
  readonly temperature?: number;
  /**
   * Settings of each model call, such as reasoning effort and `toolChoice`. They override the
   * options of the model's adapter.
   *
   * Settings that the model does not support are refused here. In `toolChoice`, `"required"` and
   * tool names apply to the first step only, so that the agent can end.
   *
   * @default the options of the model's adapter
   *
   * @example
   * ```ts
   * const thinker = defineAgent({
   *   name: "thinker",
   *   instructions: "Solve the puzzle.",
   *   model,
   *   tools: [search],
   *   modelSettings: { reasoning: { effort: "high" }, toolChoice: { toolName: "search" } },
   * });
   * ```
   */
  readonly modelSettings?: ModelSettings & {
    /**
     * The tools that the model may or must call: `"auto"`, `"none"`, `"required"`, `{ toolName }`
     * or `{ toolNames }`.
     *
     * @default the provider's default
     */
    readonly toolChoice?: ToolChoice;
  };
  /**
   * The schema of a typed result, available as `result.output`. The model ends the run by calling
   * the tool `Finish` with the result as its arguments.
   *
   * Accepted are a zod schema of an object, an array, a union or a plain value such as `z.string()`,
   * and `jsonSchema({ … })` of an object.
   *
   * A reply that is JSON and fits the schema, whole or as its one fenced block, is also accepted as
   * the result. If a hook watches `Finish`, only a call of `Finish` is.
   *
   * @default no typed result: the agent ends with a text
   *
   * @example
   * ```ts
   * const classifier = defineAgent({
   *   name: "classifier",
   *   instructions: "Classify the ticket.",
   *   model,
   *   output: z.object({ category: z.enum(["bug", "question"]), urgent: z.boolean() }),
   * });
   * const { output } = await orchestrator.start(classifier, "The app crashes.").orThrow();
   * console.log(output.category);
   * ```
   */
  readonly output?:
    | z.ZodType<Output>
    | JsonSchemaInput<Output>
    | {
        readonly "Use z.object({ ... }), or jsonSchema({ ... }) for a schema from elsewhere": never;
      };
  /**
   * The way in which the typed result is requested from the model.
   *
   * - `"native"`: through the structured output of the provider. Refused unless
   *   `Model.supportsStructuredOutputs` is true.
   * - `"tool"`: through a call of the tool `Finish`. A JSON text that fits the schema is accepted,
   *   too, unless a hook watches `Finish`.
   * - `"auto"`: `"native"` if the model supports it, otherwise `"tool"`. Hooks on `Finish` and a
   *   `toolChoice` that names it also lead to `"tool"`.
   *
   * @default "auto"
   */
  readonly outputMode?: "auto" | "native" | "tool";
}

const DEFAULT_MAX_OUTPUT_TOKENS = 8192;
const PROVIDERS_DEFAULT = "Leave it out for the provider's default.";
/**
 * The fields of a definition, and how a role file expresses each. `data` is written as in code, and
 * `names` are looked up. `text` follows the front matter, and `code` cannot be in a file.
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

/** The form of a field in a role file. */
export type FieldKind = "data" | "names" | "text" | "code";

// `Field` lists the fields that are set. It distinguishes a role without a description from a role
// whose type does not show whether it has one.
/**
 * Defines a role: the immutable definition of an agent, which any number of agents may share.
 *
 * The type of the run context is inferred as the intersection of what the tools, guards, hooks,
 * sections and listed subagents read.
 *
 * @throws EspalierError `invalid_argument` if a field has the wrong type or contradicts another
 * one.
 * @throws EspalierError `invalid_argument` if a field is unknown, or a value is out of range.
 * @throws EspalierError `duplicate_tool` if two tools have the same name.
 *
 * @example
 * ```ts
 * const researcher = defineAgent({
 *   name: "researcher",
 *   description: "Researches one question and cites its sources",
 *   instructions: "Search before you answer. Cite a source for every fact.",
 *   model: openai("gpt-5-mini"),
 *   tools: [search],
 * });
 * const { text } = await orchestrator.start(researcher, "Who invented the espalier?").result;
 * ```
 */
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
      ? "Describe this role in one line: its parent chooses subagents by their descriptions."
      : Child)[];
  },
): "description" extends Field
  ? AgentRole<Output, Context & InferContext<Own | Exclude<Child, string>>>
  : AgentRole<Output, Context & InferContext<Own | Exclude<Child, string>>> & {
      readonly description: undefined;
    };
export function defineAgent(definition: AgentDefinition): AgentRole {
  checkKeys("agent", definition, Object.keys(DEFINITION_FIELDS), adviseOnOption);
  const { name, model } = definition;
  checkIdentifier("agent.name", name);
  if (typeof definition.instructions !== "function")
    checkText(`${name}.instructions`, definition.instructions);
  if (definition.description !== undefined)
    checkText(`${name}.description`, definition.description);
  checkModel(`${name}.model`, model);
  const { tools: listed = [], subagents = [], hooks = [] } = definition;
  checkList(`${name}.tools`, listed, adviseOnToolList(listed));
  for (const [field, list] of Object.entries({ subagents, hooks }))
    checkList(`${name}.${field}`, list);
  const result = createTypedResult(definition);
  const { finish, outputMode } = result;
  const tools = finish === undefined || outputMode === "native" ? [...listed] : [...listed, finish];
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
  const stopWhen = readConditions(name, definition.stopWhen);
  checkHooks(`${name}.hooks`, hooks);
  const { guards = [], toolFilters = [] } = definition;
  checkGuards(`${name}.guards`, guards);
  checkFilters(`${name}.toolFilters`, toolFilters);
  const delegation = resolveDelegationPolicy(`${name}.delegation`, definition.delegation ?? {});
  const toolNames = [
    ...tools.map((tool) => tool.name),
    ...getDelegationToolNames({ subagents, dynamicRoles, delegation }),
  ];
  checkFilterNames(name, toolFilters, toolNames);
  const maxOutputTokens = definition.maxOutputTokens ?? DEFAULT_MAX_OUTPUT_TOKENS;
  return Object.freeze({
    name,
    description: definition.description,
    instructions: definition.instructions,
    model,
    tools: Object.freeze(tools),
    toolDefaults: checkToolDefaults(`${name}.toolDefaults`, definition.toolDefaults ?? {}),
    guards: Object.freeze([...guards]),
    toolFilters: Object.freeze([...toolFilters]),
    errorBudget: resolveErrorBudget(`${name}.errorBudget`, definition.errorBudget ?? {}),
    errorPolicy: resolveErrorPolicy(`${name}.errorPolicy`, definition.errorPolicy ?? {}),
    subagents: Object.freeze([...subagents]),
    contextPolicy: resolveContextPolicy(`${name}.contextPolicy`, definition.contextPolicy ?? {}),
    delegation,
    limits: Object.freeze({ ...limits }),
    dynamicRoles:
      dynamicRoles === undefined
        ? undefined
        : copyDynamicRoleBounds(`${name}.dynamicRoles`, dynamicRoles),
    budget,
    showBudget,
    stopWhen,
    hooks: Object.freeze([...hooks]),
    wrapUp: readWrapUp(name, definition.wrapUp),
    sections: arrangeSections(`${name}.sections`, definition.sections ?? []),
    compaction: copyCompaction(`${name}.compaction`, definition.compaction, maxOutputTokens),
    maxOutputTokens,
    temperature: definition.temperature,
    ...readModelSettings(definition, toolNames),
    ...result,
  });
}

/** Returns the output schema of a role, and the tool and mode by which the result is requested. */
function createTypedResult({
  name,
  model,
  output,
  outputMode: requestedMode,
}: AgentDefinition): Pick<AgentRole, "output" | "hasOutput" | "outputMode" | "finish"> {
  const field = `${name}.output`;
  const hasOutput = output !== undefined;
  const outputMode = resolveOutputMode(`${name}.outputMode`, requestedMode, hasOutput);
  requireNative({ name, outputMode, model });
  if (!hasOutput) return { output, hasOutput, outputMode, finish: undefined };
  checkToolInput(field, output);
  return { output, hasOutput, outputMode, finish: finishTool(field, output) };
}

const TOOL_KINDS = ["function", "external", "delegation", "finish"] as const;

/** Returns the advice for `tools` that are not an array. `undefined` for the advice of any list. */
function adviseOnToolList(tools: unknown): string | undefined {
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
    throw mismatch(
      `${name}.tools`,
      "a tool whose name is not reserved",
      reserved.name,
      "Rename it.",
    );
  }
}

/** Throws `invalid_argument` if a filter names a tool that the role does not have. */
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
    throw mismatch(field, expected, unknown, "Name them as the model calls them.");
  }
}

function checkSubagents(name: string, subagents: readonly (AgentRole | string)[]): void {
  for (const [index, subagent] of subagents.entries()) {
    if (typeof subagent === "string") continue;
    if (!isAgentRole(subagent)) {
      const field = `${name}.subagents[${index}]`;
      const advice = "Use defineAgent({ … }).";
      throw mismatch(field, "a role or the name of a role", subagent, advice);
    }
    checkDescription(name, subagent);
  }
}

function copyBudget({ name, budget = {} }: AgentDefinition): Budget {
  checkBudget(`${name}.budget`, budget);
  return Object.freeze({ ...budget });
}

function readModelSettings(
  { name, model, modelSettings, output, outputMode }: AgentDefinition,
  toolNames: readonly string[],
): Pick<AgentRole, "modelSettings" | "toolChoice"> {
  if (modelSettings === undefined) return { modelSettings: undefined, toolChoice: undefined };
  const field = `${name}.modelSettings`;
  checkKeys(field, modelSettings, [...SETTING_NAMES, "toolChoice"], adviseOnOption);
  checkModelSettings(field, modelSettings);
  const settings = copyModelSettings(modelSettings);
  model.checkSettings?.(settings);
  const { toolChoice } = modelSettings;
  if (toolChoice === "none" && output !== undefined && outputMode !== "native") {
    const advice = "A role with an output ends by calling Finish. Use auto, or leave it out.";
    throw mismatch(`${field}.toolChoice`, "a choice that allows Finish", toolChoice, advice);
  }
  return {
    modelSettings: settings,
    toolChoice:
      toolChoice === undefined
        ? undefined
        : checkToolChoice(`${field}.toolChoice`, toolChoice, toolNames),
  };
}

function checkMaxOutputTokens(name: string, tokens: number, { id, minOutputTokens }: Model): void {
  checkCount(`${name}.maxOutputTokens`, tokens, adviseDefault(DEFAULT_MAX_OUTPUT_TOKENS));
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
  if (tokens > MAX_TOKENS) {
    const advice = "Each call reserves this many tokens of the budget.";
    throw mismatch(`${name}.maxOutputTokens`, `at most ${MAX_TOKENS}`, tokens, advice);
  }
}

function checkTemperature(field: string, value: unknown): void {
  if (typeof value === "number" && value >= 0 && value <= MAX_TEMPERATURE) return;
  throw mismatch(field, `a number from 0 to ${MAX_TEMPERATURE}`, value, PROVIDERS_DEFAULT);
}

function readWrapUp(name: string, wrapUp: boolean | string | undefined): AgentRole["wrapUp"] {
  if (wrapUp === undefined || wrapUp === false) return undefined;
  if (wrapUp !== true) checkText(`${name}.wrapUp`, wrapUp);
  return wrapUp;
}

function readConditions(
  name: string,
  stopWhen: AgentDefinition["stopWhen"] = [],
): AgentRole["stopWhen"] {
  const conditions = typeof stopWhen === "function" ? [stopWhen] : stopWhen;
  checkList(`${name}.stopWhen`, conditions, "Pass a condition, or a list of conditions.");
  for (const [index, condition] of conditions.entries()) {
    if (typeof condition === "function") continue;
    const field = `${name}.stopWhen[${index}]`;
    throw mismatch(field, "a function", condition, "See hasToolCall().");
  }
  return Object.freeze([...conditions]);
}
