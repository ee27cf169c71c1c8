// From a call as the model wrote it to a call that can run, or to a text with which the model can correct it.

import { isRecord, parseJson, findJsonProblem, type JsonValue } from "../kernel/json.ts";
import { repairJson } from "../kernel/mend-json.ts";
import { rejectArguments, rejectInvalidJson, type RejectedCall } from "./rejected-call.ts";
import type {
  Bound,
  DelegationTool,
  ExternalTool,
  FinishTool,
  FunctionTool,
  Tool,
} from "./tool.ts";

/** A call that may run, with the tool that serves it. */
export type BoundCall =
  | BoundTo<FunctionTool>
  | BoundTo<ExternalTool>
  | BoundTo<DelegationTool>
  | BoundTo<FinishTool>
  | RejectedCall;

/** A call that runs in this process. */
export type OwnCall = Extract<BoundCall, { readonly type: "function" | "delegation" }>;

interface BoundTo<T extends Tool, Use = Extract<ReturnType<T["bind"]>, { type: "valid" }>["use"]> {
  readonly type: T["kind"];
  readonly tool: T;
  readonly use: Use;
  /** The arguments after coercion. */
  readonly input: JsonValue;
  /** The same as the tool gets them: with the defaults and transforms of its schema. */
  readonly value: unknown;
  /** What the call would be if a slip in its JSON had not been mended; undefined: there was none. */
  readonly unmended?: RejectedCall;
}

/**
 * Parses the arguments that the model wrote for a tool, and checks them. Pure. `isWhole`: the reply ended by itself, default false; then a small
 * slip in their JSON is mended, if the tool may be called again with what was meant and the mended arguments fit.
 */
export function bindCall(tool: Tool, argumentsText: string, isWhole = false): BoundCall {
  const parsed = parseArguments(tool, argumentsText, isWhole);
  if ("code" in parsed) return parsed;
  const { input, unmended } = parsed;
  const bound = rebindCall(tool, input);
  if (unmended === undefined) return bound;
  return bound.type === "rejected" ? unmended : { ...bound, unmended };
}

/** Arguments as a value. `unmended`: as in a bound call. */
export interface ParsedArguments {
  readonly input: JsonValue;
  readonly unmended: RejectedCall | undefined;
}

/** The arguments as they were written, or as they were meant; `isWhole` as in `bindCall`. */
export function parseArguments(
  tool: Tool,
  argumentsText: string,
  isWhole: boolean,
): ParsedArguments | RejectedCall {
  try {
    return { input: parseRawArguments(argumentsText), unmended: undefined };
  } catch (cause) {
    const unmended = rejectInvalidJson(tool, cause);
    const retryAfterCrash =
      tool.kind === "finish" || (tool.kind === "function" && tool.retryAfterCrash);
    const input = isWhole && retryAfterCrash ? repairJson(argumentsText) : undefined;
    return isRecord(input) && findJsonProblem(input, MOST_LEVELS) === undefined
      ? { input, unmended }
      : unmended;
  }
}

/**
 * Binds the tool to other arguments, which are checked like those that the model wrote. `parsed`: the
 * value that the schema made of them before; it is used as it is.
 */
export function rebindCall(
  tool: FunctionTool | DelegationTool,
  input: JsonValue,
  parsed?: JsonValue,
): OwnCall | RejectedCall;
export function rebindCall(tool: Tool, input: JsonValue, parsed?: JsonValue): BoundCall;
export function rebindCall(tool: Tool, input: JsonValue, parsed?: JsonValue): BoundCall {
  switch (tool.kind) {
    case "function":
      return attachTool(tool, tool.kind, tool.bind(input, parsed));
    case "external":
      return attachTool(tool, tool.kind, tool.bind(input, parsed));
    case "delegation":
      return attachTool(tool, tool.kind, tool.bind(input, parsed));
    case "finish":
      return attachTool(tool, tool.kind, tool.bind(input));
  }
}

function attachTool<T extends Tool, Use>(
  tool: T,
  type: T["kind"],
  bound: Bound<Use>,
): BoundTo<T, Use> | RejectedCall {
  return bound.type === "valid" ? { ...bound, type, tool } : rejectArguments(tool, bound.problems);
}

/** Deeper arguments are no use, and could make code that walks them run out of stack. */
export const MOST_LEVELS = 200;

/** The arguments as a value; no text at all means no arguments. Throws a `SyntaxError` for what is no JSON, or nested beyond reason. */
export function parseRawArguments(text: string): JsonValue {
  const input = text.trim() === "" ? {} : parseJson(text);
  const reason = findJsonProblem(input, MOST_LEVELS);
  if (reason !== undefined) throw new SyntaxError(reason);
  return input;
}
