// Tools whose schemas the provider enforces: their form in requests, and the conversion of their
// arguments in replies.

import { parseJson, type JsonObject } from "../kernel/json.ts";
import type { ModelReply, ToolSpec } from "./model.ts";
import { getOrCompute } from "./memoized-values.ts";
import { toStrictSchema, removeAddedNulls } from "./strict-schema.ts";

/** A tool in the form of a request. */
export interface StrictTool {
  readonly spec: ToolSpec;
  /** The enforced schema, or `undefined` if the provider enforces none. */
  readonly strict: JsonObject | undefined;
}

type StrictTools = ReadonlyMap<string, StrictTool>;
type HeldByTools = WeakMap<readonly ToolSpec[], StrictTools>;

const heldAsSaid: HeldByTools = new WeakMap();
const heldAll: HeldByTools = new WeakMap();

/**
 * Returns the tools by name, in order. `isAll`: enforces the schema of every tool that has a strict
 * form, instead of only those with `strictSchema`.
 */
export function collectStrictTools(tools: readonly ToolSpec[], isAll: boolean): StrictTools {
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

/**
 * Returns the reply with arguments in the form of the tools' own schemas: without the nulls that a
 * strict schema requires for absent fields.
 */
export function restoreReplyArguments(reply: ModelReply, strictTools: StrictTools): ModelReply {
  const { message } = reply;
  const toolCalls = message.toolCalls.map((call) => {
    const tool = strictTools.get(call.toolName);
    if (tool?.strict === undefined || !call.argumentsText.includes("null")) return call;
    try {
      const value = removeAddedNulls(parseJson(call.argumentsText), tool.spec.inputSchema);
      return Object.freeze({ ...call, argumentsText: JSON.stringify(value) });
    } catch {
      return call; // The later validation reports arguments that are not JSON.
    }
  });
  if (toolCalls.every((call, index) => call === message.toolCalls[index])) return reply;
  return { ...reply, message: Object.freeze({ ...message, toolCalls: Object.freeze(toolCalls) }) };
}
