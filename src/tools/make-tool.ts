// Tools as calls use them: what fits their schema is bound to what it allows.

import type { JsonValue } from "../kernel/json.ts";
import type { InputSchema } from "./arguments/argument-problems.ts";
import type { DelegationContext, DelegationOutcome, ToolContext } from "./tool-context.ts";
import type {
  Bound,
  DelegationTool,
  ExternalTool,
  FunctionTool,
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
    bind: (input: JsonValue) =>
      bindWith(schema, input, (value) => ({
        run: (context: ToolContext) => execute(value, context),
        needsApproval:
          typeof needsApproval === "function"
            ? (context: ToolContext) => needsApproval(value, context)
            : needsApproval,
      })),
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
    bind: (input: JsonValue) =>
      bindWith(
        schema,
        input,
        (value) => async (context: DelegationContext) => await execute(value, context),
      ),
  });
}

export function externalTool(
  descriptor: ToolDescriptor,
  schema: InputSchema<unknown>,
): ExternalTool {
  return Object.freeze({
    ...descriptor,
    kind: "external",
    bind: (input: JsonValue) => bindWith(schema, input, () => undefined),
  });
}

/** Checks `input` and hands what fits to `use`. */
export function bindWith<Value, Use>(
  schema: InputSchema<Value>,
  input: JsonValue,
  use: (value: Value) => Use,
): Bound<Use> {
  const checked = schema.check(input);
  if (checked.type === "invalid") return checked;
  const { value, input: coerced } = checked;
  return { type: "valid", use: use(value), input: coerced, value };
}
