// A role: the immutable definition of an agent. Many agents, also at once, may live by one role.

import type { z } from "zod";

import {
  checkAmount,
  checkCount,
  checkKeys,
  checkList,
  checkMethods,
  checkName,
  checkText,
  misdefinition,
  mismatch,
} from "../kernel/check.ts";
import { EspalierError } from "../kernel/error.ts";
import type { Model } from "../model/model.ts";
import { checkPrice } from "../model/model-price.ts";
import { checkBudget, type Budget } from "../policies/budget.ts";
import type { StopCondition } from "../policies/stop-conditions.ts";
import {
  subagentContextPolicy,
  type SubagentContextPolicy,
} from "../policies/subagent-context-policy.ts";
import type { FunctionTool, Tool } from "../tools/tool.ts";
import { toolSet } from "../tools/tool-set.ts";
import { finishTool, FINISH_TOOL_NAME } from "./finish-tool.ts";

/** What `defineAgent` takes. */
export interface AgentDefinition {
  /** Letters, digits, `_` and `-`, at most 64, a letter first. */
  readonly name: string;
  /** What a supervisor is told about it. Required of roles that are spawned. */
  readonly purpose?: string;
  /** What the agent is told: its system prompt. */
  readonly instructions: string;
  readonly model: Model;
  readonly tools?: readonly FunctionTool[];
  /** Roles that it may spawn, as values, or by name if they are defined elsewhere in the tree (also its own). Gives it `SpawnSubagent`. */
  readonly subagents?: readonly (AgentRole | string)[];
  /** What its subagents inherit. Default: nothing. */
  readonly context?: Partial<SubagentContextPolicy>;
  /** Upper limits for each agent of this role with its descendants. */
  readonly budget?: Budget;
  /** Asked after every step, next to the budget. */
  readonly stopWhen?: readonly StopCondition[];
  /** Most tokens that one reply may have. Default 8,192; clamped to what the budget has left. */
  readonly maxOutputTokens?: number;
  /** Left out: the provider's default. */
  readonly temperature?: number;
  /** A zod object schema of its result. The agent must then end by calling the `Finish` tool with a value that fits. */
  readonly output?: z.ZodType;
}

/** An agent's definition, checked and frozen. Made by `defineAgent`. */
export interface AgentRole {
  readonly name: string;
  readonly purpose: string | undefined;
  readonly instructions: string;
  readonly model: Model;
  readonly tools: readonly Tool[];
  readonly subagents: readonly (AgentRole | string)[];
  readonly context: SubagentContextPolicy;
  readonly budget: Budget;
  readonly stopWhen: readonly StopCondition[];
  readonly maxOutputTokens: number;
  readonly temperature: number | undefined;
  /** True if it must end with a typed result. */
  readonly hasOutput: boolean;
}

const ROLE_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
const DEFAULT_MAX_OUTPUT_TOKENS = 8192;
/** The tool by which an agent with subagents delegates. */
export const SPAWN_TOOL_NAME = "SpawnSubagent";

const FIELDS = [
  "name",
  "purpose",
  "instructions",
  "model",
  "tools",
  "subagents",
  "context",
  "budget",
  "stopWhen",
  "maxOutputTokens",
  "temperature",
  "output",
];

/**
 * Defines a role.
 *
 * @throws EspalierError `invalid_definition`, `invalid_option`, `duplicate_tool` or `price_unknown`, naming the field.
 */
export function defineAgent(definition: AgentDefinition): AgentRole {
  checkKeys("agent", definition, FIELDS);
  const { name, model } = definition;
  checkName("agent.name", name, ROLE_NAME);
  checkText(`${name}.instructions`, definition.instructions);
  if (definition.purpose !== undefined) checkText(`${name}.purpose`, definition.purpose);
  checkModel(name, model);
  const { tools: given = [], subagents = [], stopWhen = [], output } = definition;
  for (const [field, list] of Object.entries({ tools: given, subagents, stopWhen }))
    checkList(`${name}.${field}`, list);
  const tools =
    output === undefined ? [...given] : [...given, finishTool(`${name}.output`, output)];
  checkTools(name, tools);
  checkSubagents(name, subagents);
  if (definition.budget !== undefined) checkBudget(`${name}.budget`, definition.budget);
  const budget = Object.freeze({ ...definition.budget });
  if (budget.costUsd !== undefined) requirePrice(`${name}.budget.costUsd`, { name, model });
  if (definition.maxOutputTokens !== undefined)
    checkMaxOutputTokens(name, definition.maxOutputTokens);
  if (definition.temperature !== undefined)
    checkAmount(`${name}.temperature`, definition.temperature);
  checkConditions(name, stopWhen);
  return Object.freeze({
    name,
    purpose: definition.purpose,
    instructions: definition.instructions,
    model,
    tools: Object.freeze(tools),
    subagents: Object.freeze([...subagents]),
    context: subagentContextPolicy(`${name}.context`, definition.context ?? {}),
    budget,
    stopWhen: Object.freeze([...stopWhen]),
    maxOutputTokens: definition.maxOutputTokens ?? DEFAULT_MAX_OUTPUT_TOKENS,
    temperature: definition.temperature,
    hasOutput: output !== undefined,
  });
}

/** Throws `price_unknown` if a cost limit at `field` would cover a model whose price nobody knows: unknown is never zero (R57). */
export function requirePrice(
  field: string,
  role: { readonly name: string; readonly model: Model },
): void {
  if (role.model.price !== undefined) return;
  throw new EspalierError({
    code: "price_unknown",
    message: `Expected a price for model ${role.model.id} of role ${role.name}, which ${field} limits, got none. Give the model a price, or leave the cost limit out.`,
    data: { field, role: role.name, model: role.model.id },
  });
}

function checkModel(name: string, model: Model): void {
  const fits = typeof model === "object" && model !== null && typeof model.generate === "function";
  if (!fits) {
    throw misdefinition(
      `${name}.model`,
      "a model",
      model,
      'Use openai("…") or a model of your own.',
    );
  }
  checkText(`${name}.model.id`, model.id);
  checkText(`${name}.model.provider`, model.provider);
  for (const ability of ["countTokens", "assertReady"] as const) {
    if (model[ability] !== undefined) checkMethods(`${name}.model`, model, [ability]);
  }
  if (model.price !== undefined) checkPrice(`${name}.model.price`, model.price);
}

function checkTools(name: string, tools: readonly Tool[]): void {
  for (const [index, tool] of tools.entries()) {
    const fits = typeof tool === "object" && tool !== null && typeof tool.bind === "function";
    if (!fits || tool.kind === "delegation")
      throw misdefinition(`${name}.tools[${index}]`, "a tool", tool, "Use defineTool({ … }).");
  }
  toolSet(name, tools);
  const reserved = tools.find(
    (tool) =>
      tool.name === SPAWN_TOOL_NAME || (tool.name === FINISH_TOOL_NAME && tool.kind !== "finish"),
  );
  if (reserved !== undefined) {
    throw misdefinition(`${name}.tools`, "no tool of a reserved name", reserved.name, "Rename it.");
  }
}

/** Throws `invalid_definition` unless `value` was made by `defineAgent`. */
export function checkRole(field: string, value: unknown): void {
  if (typeof value === "object" && value !== null && "hasOutput" in value) return;
  throw misdefinition(field, "a role", value, "Make it with defineAgent({ … }).");
}

function checkSubagents(name: string, subagents: readonly (AgentRole | string)[]): void {
  for (const [index, subagent] of subagents.entries()) {
    if (typeof subagent === "string") continue;
    const fits = typeof subagent === "object" && subagent !== null && "hasOutput" in subagent;
    if (fits) continue;
    throw misdefinition(
      `${name}.subagents[${index}]`,
      "a role or the name of one",
      subagent,
      "Use defineAgent({ … }).",
    );
  }
}

function checkMaxOutputTokens(name: string, tokens: number): void {
  checkCount(`${name}.maxOutputTokens`, tokens);
  if (tokens === 0)
    throw mismatch(`${name}.maxOutputTokens`, "at least 1", tokens, "A reply needs room.");
}

function checkConditions(name: string, conditions: readonly StopCondition[]): void {
  for (const [index, condition] of conditions.entries()) {
    if (typeof condition === "function") continue;
    throw misdefinition(
      `${name}.stopWhen[${index}]`,
      "a function",
      condition,
      "See toolWasCalled().",
    );
  }
}
