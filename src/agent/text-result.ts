// A typed result that the model writes as text, instead of calling Finish: the whole text, or its one fenced block, as JSON. It is checked like
// the arguments of Finish. JSON somewhere between other words is not looked for: it may be an example.

import type { JsonValue } from "../kernel/json.ts";
import { argumentsOf } from "../tools/bind-call.ts";
import type { FinishTool } from "../tools/tool.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { isFinishWatched } from "./output-mode.ts";

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
