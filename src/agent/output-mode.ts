// How the typed result of a role is asked for: natively, where the provider holds the model to its schema, or by a call of Finish.

import { misdefinition } from "../kernel/check.ts";
import { deepFreeze, type JsonValue } from "../kernel/json.ts";
import type { HookSet } from "../hooks/hook-set.ts";
import type { OutputSchema } from "../model/model.ts";
import { remembered } from "../model/remembered.ts";
import { strictSchema } from "../model/strict-schema.ts";
import type { ToolChoice } from "../protocol/model-settings.ts";
import { FINISH_TOOL_NAME } from "../protocol/tool-rule.ts";
import type { FinishTool } from "../tools/tool.ts";
import type { AgentRole, OutputMode } from "./agent-role.ts";
import { argumentsOf } from "../tools/bind-call.ts";
import type { AgentRuntime } from "./agent-runtime.ts";

/** The mode that a definition says. Throws `invalid_definition` for what is none, or none of a role without a typed result. */
export function outputModeOf(field: string, given: unknown, hasOutput: boolean): OutputMode {
  if (given === undefined) return "auto";
  if (!hasOutput)
    throw misdefinition(
      field,
      "left out",
      given,
      "It says how output is asked for, and there is none.",
    );
  if (given === "auto" || given === "native" || given === "tool") return given;
  throw misdefinition(field, '"auto", "native" or "tool"', given, "Leave it out for auto.");
}

/** Throws `invalid_definition` if the role asks for what its model cannot: to be held to a schema. */
export function requireNative({
  name,
  outputMode,
  model,
}: Pick<AgentRole, "name" | "outputMode" | "model">): void {
  if (outputMode !== "native" || model.native === true) return;
  const advice = `${model.id} says nothing of native results: say auto or tool, or native: true of the model if its server has them.`;
  throw misdefinition(`${name}.outputMode`, "what its model can do", outputMode, advice);
}

/** The schema to which its model is held, under these hooks; undefined: it calls `Finish`. */
export function nativeOutput(role: AgentRole, hooks: HookSet): OutputSchema | undefined {
  const { finish, outputMode, model, toolChoice } = role;
  if (finish === undefined) return undefined;
  const isNative =
    outputMode === "auto"
      ? model.native === true && !isFinishWatched(hooks) && !isFinishChosen(toolChoice)
      : outputMode === "native";
  return isNative ? remembered(outputs, finish, schemaOf) : undefined;
}

/** One value for all agents of a role. */
const outputs = new WeakMap<FinishTool, OutputSchema>();

function schemaOf({ inputSchema }: FinishTool): OutputSchema {
  const strict = strictSchema(inputSchema);
  return deepFreeze({
    name: "result",
    schema: strict.isStrict ? strict.schema : inputSchema,
    strict: strict.isStrict,
  });
}

/** Hooks around Finish see every result, or change it: a text would go past them. */
function isFinishWatched(hooks: HookSet): boolean {
  return (["beforeTool", "afterTool"] as const).some(
    (point) => hooks.chain(point, FINISH_TOOL_NAME).length > 0,
  );
}

function isFinishChosen(choice: ToolChoice | undefined): boolean {
  if (typeof choice !== "object") return false;
  return ("tool" in choice ? [choice.tool] : choice.oneOf).includes(FINISH_TOOL_NAME);
}

/** What the schema of the result makes of a text; undefined: it is no JSON, or is not to be looked at. */
export function textResult(
  { role, hooks, output }: AgentRuntime,
  text: string,
): ReturnType<FinishTool["bind"]> | undefined {
  const { finish } = role;
  if (finish === undefined || (output === undefined && isFinishWatched(hooks))) return undefined;
  const written = jsonIn(text);
  return written === undefined ? undefined : finish.bind(written);
}

const FENCE = "```";
/** What a block begins with: the name of its language. */
const LANGUAGE = /^\w*[ \t]*\n/;

function jsonIn(text: string): JsonValue | undefined {
  // First the whole: a block within one of its texts is a part of it.
  const whole = parsed(text);
  if (whole !== undefined) return whole;
  const [, block, ...others] = text.split(FENCE);
  const isFenced = block !== undefined && others.length === 1;
  return isFenced ? parsed(block.replace(LANGUAGE, "")) : undefined;
}

function parsed(json: string): JsonValue | undefined {
  if (json.trim() === "") return undefined;
  try {
    return argumentsOf(json);
  } catch {
    return undefined;
  }
}
