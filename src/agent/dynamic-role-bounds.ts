// What a model may put into a role that it writes at spawn. It gets the intersection with what it asks for, never more (X27).

import { checkKeys, checkList, misdefinition } from "../kernel/check.ts";
import { isRecord } from "../kernel/json.ts";
import { checkModel } from "../model/check-model.ts";
import type { Model } from "../model/model.ts";
import { checkBudget, type Budget } from "../policies/budget.ts";
import { checkTool } from "../tools/check-tool.ts";
import type { ExternalTool, FunctionTool } from "../tools/tool.ts";
import { checkNames } from "../tools/tool-set.ts";

/** Bounds of dynamic roles, those that a model writes at spawn. */
export interface DynamicRoleBounds<in Context = unknown> {
  /** The tools that such a role may have. Default: none. */
  readonly tools?: readonly (FunctionTool<Context> | ExternalTool)[];
  /** The models that it may run on, by the name that the supervising model is shown; the first is the default. At least one. */
  readonly models: Readonly<Record<string, Model>>;
  /** What each such agent may spend. Default: what its parent has left. */
  readonly budget?: Budget;
}

/** The bounds, checked and frozen. Throws `invalid_definition` or `invalid_option`. */
export function dynamicRoleBounds(
  field: string,
  given: DynamicRoleBounds,
): Required<DynamicRoleBounds> {
  checkKeys(field, given, ["tools", "models", "budget"]);
  const { tools = [], models, budget = {} } = given;
  checkList(`${field}.tools`, tools);
  for (const [index, tool] of tools.entries())
    checkTool(`${field}.tools[${index}]`, tool, ["function", "external"], "Use defineTool({ … }).");
  checkNames(field, tools);
  if (!isRecord(models) || Object.keys(models).length === 0) {
    const advice = 'Pass at least one: { fast: openai("…") }.';
    throw misdefinition(`${field}.models`, "models by name", models, advice);
  }
  for (const [name, model] of Object.entries(models)) checkModel(`${field}.models.${name}`, model);
  checkBudget(`${field}.budget`, budget);
  return Object.freeze({
    tools: Object.freeze([...tools]),
    models: Object.freeze({ ...models }),
    budget: Object.freeze({ ...budget }),
  });
}
