// Creates the `bind` of tools: validates arguments and returns the use of the valid ones.

import type { JsonValue } from "../kernel/json.ts";
import type { Checked, InputSchema } from "./arguments/check-input.ts";
import type { DelegationContext, DelegationOutcome } from "./tool-context.ts";
import type { Bound, DelegationTool, ToolDescriptor } from "./tool.ts";

type ValidArguments<Value> = Extract<Checked<Value>, { readonly type: "valid" }>;

/** Creates the `bind` of a tool. `createUse` returns the use of valid arguments. */
export function createBinding<Value, Use>(
  schema: InputSchema<Value>,
  createUse: (checked: ValidArguments<Value>) => Use,
): (input: JsonValue, parsed?: JsonValue) => Bound<Use> {
  return (input, parsed) => {
    const checked = schema.check(input, parsed);
    return checked.type === "invalid" ? checked : { ...checked, use: createUse(checked) };
  };
}

export function createDelegationTool<Value>(
  descriptor: ToolDescriptor,
  schema: InputSchema<Value>,
  execute: (
    value: Value,
    context: DelegationContext,
  ) => DelegationOutcome | Promise<DelegationOutcome>,
): DelegationTool {
  const bind = createBinding(
    schema,
    ({ value }) =>
      async (context: DelegationContext) =>
        await execute(value, context),
  );
  return Object.freeze({ ...descriptor, kind: "delegation", bind });
}
