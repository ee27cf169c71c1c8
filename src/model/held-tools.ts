// Tools to whose schemas the provider is asked to hold the model: how they are written, and how their arguments are read.

import { parseJson, type JsonObject } from "../kernel/json.ts";
import type { ModelReply, ToolSpec } from "./model.ts";
import { getOrCompute } from "./remembered.ts";
import { toStrictSchema, removeAddedNulls } from "./strict-schema.ts";

/** A tool as it is written. */
export interface HeldTool {
  readonly spec: ToolSpec;
  /** Undefined: the model is not held to a schema. */
  readonly strict: JsonObject | undefined;
}

type HeldTools = ReadonlyMap<string, HeldTool>;
type HeldByTools = WeakMap<readonly ToolSpec[], HeldTools>;

const heldAsSaid: HeldByTools = new WeakMap();
const heldAll: HeldByTools = new WeakMap();

/** The tools by name, in their order. `isAll`: every one that has a strict form is held to it, not only those that ask for it. */
export function collectHeldTools(tools: readonly ToolSpec[], isAll: boolean): HeldTools {
  return getOrCompute(
    isAll ? heldAll : heldAsSaid,
    tools,
    (specs) =>
      new Map(
        specs.map((spec) => {
          const form = (spec.strictSchema ?? isAll) ? toStrictSchema(spec.inputSchema) : undefined;
          return [spec.name, { spec, strict: form?.isStrict === true ? form.schema : undefined }];
        }),
      ),
  );
}

/** The reply with the arguments of its calls as their tools want them: without the nulls that the strict forms have brought in. */
export function restoreReplyArguments(reply: ModelReply, held: HeldTools): ModelReply {
  const { message } = reply;
  const toolCalls = message.toolCalls.map((call) => {
    const tool = held.get(call.toolName);
    if (tool?.strict === undefined || !call.argumentsText.includes("null")) return call;
    try {
      const value = removeAddedNulls(parseJson(call.argumentsText), tool.spec.inputSchema);
      return Object.freeze({ ...call, argumentsText: JSON.stringify(value) });
    } catch {
      return call; // The model reads of what is no JSON as ever.
    }
  });
  if (toolCalls.every((call, index) => call === message.toolCalls[index])) return reply;
  return { ...reply, message: Object.freeze({ ...message, toolCalls: Object.freeze(toolCalls) }) };
}
