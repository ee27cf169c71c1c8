// Bounds of roles that a model writes at spawn. Such a role gets the intersection of its request
// and the bounds.

import { checkKeys, checkList, mismatch } from "../kernel/argument-checks.ts";
import { isRecord } from "../kernel/json.ts";
import { checkModel } from "../model/check-model.ts";
import type { Model } from "../model/model.ts";
import { checkBudget, type Budget } from "../policies/budget.ts";
import { checkTool } from "../tools/check-tool.ts";
import type { ExternalTool, FunctionTool } from "../tools/tool.ts";
import { checkNames } from "../tools/tool-set.ts";

/**
 * Bounds of roles that a model writes when it delegates.
 *
 * `Context` is the type of the run context that the tools read.
 *
 * @example
 * ```ts
 * const dynamicRoles: DynamicRoleBounds = {
 *   models: { fast: openai("gpt-5-mini"), strong: openai("gpt-5") },
 *   tools: [search],
 *   budget: { steps: 6, costUsd: 0.2 },
 * };
 * ```
 */
export interface DynamicRoleBounds<in Context = unknown> {
  /**
   * Tools that such a role may have.
   *
   * @default []
   */
  readonly tools?: readonly (FunctionTool<Context> | ExternalTool)[];
  /**
   * Models that such a role may use, by the name that the supervising model reads. At least one is
   * required, and the first is the default.
   */
  readonly models: Readonly<Record<string, Model>>;
  /**
   * Upper limits for each agent of such a role.
   *
   * @default the limits from above apply alone
   */
  readonly budget?: Budget;
}

/**
 * Returns a checked and frozen copy of the bounds. Throws `invalid_argument`.
 */
export function copyDynamicRoleBounds(
  field: string,
  bounds: DynamicRoleBounds,
): Required<DynamicRoleBounds> {
  checkKeys(field, bounds, ["tools", "models", "budget"]);
  const { tools = [], models, budget = {} } = bounds;
  checkList(`${field}.tools`, tools);
  for (const [index, tool] of tools.entries())
    checkTool(`${field}.tools[${index}]`, tool, ["function", "external"], "Use defineTool({ … }).");
  checkNames(field, tools);
  if (!isRecord(models) || Object.keys(models).length === 0) {
    const advice = 'Pass at least one: { fast: openai("…") }.';
    throw mismatch(`${field}.models`, "models by name", models, advice);
  }
  for (const [name, model] of Object.entries(models)) checkModel(`${field}.models.${name}`, model);
  checkBudget(`${field}.budget`, budget);
  return Object.freeze({
    tools: Object.freeze([...tools]),
    models: Object.freeze({ ...models }),
    budget: Object.freeze({ ...budget }),
  });
}
