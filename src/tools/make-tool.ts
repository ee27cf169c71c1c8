// Tools as calls use them: what fits their schema is bound to what it allows.

import type { JsonValue } from "../kernel/json.ts";
import type { InputSchema } from "./arguments/argument-problems.ts";
import type { DelegationContext, DelegationOutcome, ToolContext } from "./tool-context.ts";
import type {
  Bound,
  DelegationTool,
  ExternalTool,
  FunctionTool,
  FunctionUse,
  ToolDescriptor,
  ToolReturn,
} from "./tool.ts";

/** How a function tool works. */
export interface FunctionWork<Value> {
  readonly execute: (value: Value, context: ToolContext) => ToolReturn;
  readonly needsApproval: undefined | boolean | ((value: Value, context: ToolContext) => unknown);
  readonly isSequential: boolean;
  readonly isRepeatable: boolean;
}

export function functionTool<Value>(
  descriptor: ToolDescriptor,
  schema: InputSchema<Value>,
  { execute, needsApproval, isSequential, isRepeatable }: FunctionWork<Value>,
): FunctionTool {
  return Object.freeze({
    ...descriptor,
    isSequential,
    isRepeatable,
    kind: "function",
    bind: (input: JsonValue): Bound<FunctionUse> => {
      const checked = schema.check(input);
      if (checked.type === "invalid") return checked;
      const { value } = checked;
      const use: FunctionUse = {
        run: (context) => execute(value, context),
        needsApproval:
          typeof needsApproval === "function"
            ? (context) => needsApproval(value, context)
            : needsApproval,
      };
      return { ...checked, use };
    },
  });
}

export function delegationTool<Value>(
  descriptor: ToolDescriptor,
  schema: InputSchema<Value>,
  execute: (
    value: Value,
    context: DelegationContext,
  ) => DelegationOutcome | Promise<DelegationOutcome>,
): DelegationTool {
  return Object.freeze({
    ...descriptor,
    kind: "delegation",
    bind: (input: JsonValue): ReturnType<DelegationTool["bind"]> => {
      const checked = schema.check(input);
      if (checked.type === "invalid") return checked;
      return { ...checked, use: async (context) => await execute(checked.value, context) };
    },
  });
}

export function externalTool(
  descriptor: ToolDescriptor,
  schema: InputSchema<unknown>,
): ExternalTool {
  return Object.freeze({
    ...descriptor,
    kind: "external",
    bind: (input: JsonValue) => {
      const checked = schema.check(input);
      return checked.type === "invalid" ? checked : { ...checked, use: undefined };
    },
  });
}
