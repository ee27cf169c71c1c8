// Binds a call of the model to its tool, or rejects it with a text that helps the model to correct
// it.

import {
  isJsonObject,
  isRecord,
  parseJson,
  findJsonProblem,
  type JsonObject,
  type JsonValue,
} from "../kernel/json.ts";
import { repairJson } from "../kernel/repair-json.ts";
import { formatShortJson } from "../kernel/sentence.ts";
import { rejectArguments, rejectInvalidJson, type RejectedCall } from "./rejected-call.ts";
import type {
  Bound,
  DelegationTool,
  ExternalTool,
  FinishTool,
  FunctionTool,
  Tool,
} from "./tool.ts";

/** A valid call with its tool, or a rejection. */
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
  readonly input: JsonObject;
  /**
   * The arguments in the form that the tool receives: with defaults and transforms of its schema.
   */
  readonly value: unknown;
  /**
   * The rejection of the call if its JSON had not been repaired, or `undefined` if it was valid.
   */
  readonly unrepaired?: RejectedCall;
}

/**
 * Parses and validates the arguments of a call. Pure. `isWhole`: the reply ended by itself. Small
 * mistakes in the JSON are then repaired, if the call is repeatable and the repaired arguments are
 * valid.
 */
export function bindCall(tool: Tool, argumentsText: string, isWhole = false): BoundCall {
  const parsed = parseArguments(tool, argumentsText, isWhole);
  if ("code" in parsed) return parsed;
  const { input, unrepaired } = parsed;
  const bound = rebindCall(tool, input);
  if (unrepaired === undefined) return bound;
  return bound.type === "rejected" ? unrepaired : { ...bound, unrepaired };
}

/** Parsed arguments. `unrepaired`: as in a bound call. */
export interface ParsedArguments {
  readonly input: JsonValue;
  readonly unrepaired: RejectedCall | undefined;
}

/** Parses arguments, with a repair if needed. `isWhole` as in `bindCall`. */
export function parseArguments(
  tool: Tool,
  argumentsText: string,
  isWhole: boolean,
): ParsedArguments | RejectedCall {
  try {
    return { input: parseRawArguments(argumentsText), unrepaired: undefined };
  } catch (cause) {
    const unrepaired = rejectInvalidJson(tool, cause);
    const retryAfterCrash =
      tool.kind === "finish" || (tool.kind === "function" && tool.retryAfterCrash);
    const input = isWhole && retryAfterCrash ? repairJson(argumentsText) : undefined;
    return isRecord(input) && findJsonProblem(input, MOST_LEVELS) === undefined
      ? { input, unrepaired }
      : unrepaired;
  }
}

/**
 * Binds the tool to other arguments, which are validated like the model's. `parsed`: the earlier
 * result of the schema for these arguments, used unchanged.
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
  if (bound.type !== "valid") return rejectArguments(tool, bound.problems);
  const { input } = bound;
  if (isJsonObject(input)) return { ...bound, input, type, tool };
  // A schema may accept another value, for example with a fallback of zod's `catch`.
  const received = formatShortJson(input);
  return rejectArguments(tool, [{ parameter: "", expected: "an object", received }]);
}

/**
 * More deeply nested arguments are useless, and could overflow the stack of code that walks them.
 */
export const MOST_LEVELS = 200;

/**
 * Parses arguments. Empty text means no arguments. Throws a `SyntaxError` if the text is not JSON,
 * or nested too deeply.
 */
export function parseRawArguments(text: string): JsonValue {
  const input = text.trim() === "" ? {} : parseJson(text);
  const reason = findJsonProblem(input, MOST_LEVELS);
  if (reason !== undefined) throw new SyntaxError(reason);
  return input;
}
