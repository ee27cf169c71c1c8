// A call with parsed arguments, as shown to approvers and stored. The value that was shown is the
// one that runs. It is parsed again only if the tool's schema has changed, or if the value is not
// JSON.

import { sha256 } from "../../kernel/crypto.ts";
import { computeFingerprint } from "../../kernel/fingerprint.ts";
import {
  stringifyCanonical,
  omitUndefined,
  sameJson,
  copyJson,
  deepFreeze,
  cloneJson,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from "../../kernel/json.ts";
import { getOrCompute } from "../../model/memoized-values.ts";
import type { Question } from "../../protocol/question.ts";
import {
  rebindCall,
  parseRawArguments,
  MOST_LEVELS,
  type BoundCall,
  type OwnCall,
} from "../../tools/bind-call.ts";
import { rejectUnverifiedCall, type RejectedCall } from "../../tools/rejected-call.ts";
import type { Tool } from "../../tools/tool.ts";
import type { QuestionDeferral } from "../agent-state.ts";
import type { CallInProgress } from "./open-call.ts";

/** A parsed call in its stored form. */
export interface StoredCall {
  /** The arguments before parsing, after hooks and coercion. */
  readonly input: JsonValue;
  /** The parsed value. `undefined` if it is not JSON, or not an object. */
  readonly value: JsonValue | undefined;
  /** Hash of the JSON Schema that parsed the arguments. */
  readonly schemaHash: string;
  /** Hash of another value than an object of JSON. `undefined` if it cannot be hashed. */
  readonly fingerprint: string | undefined;
}

/** Returns the arguments in the form of a question. */
export function pickShownArguments(
  bound: CheckedCall,
): Pick<Question, "arguments" | "writtenArguments" | "unparsed"> {
  const { input } = bound;
  const value = cloneObject(bound.value);
  if (value === undefined) return { arguments: input, unparsed: true };
  return { arguments: value, ...(sameJson(value, input) ? {} : { writtenArguments: input }) };
}

/** Returns the hashes that are stored with a call, to compare it with later. */
export function parseRecordOf({
  tool,
  value,
}: CheckedCall): Pick<QuestionDeferral, "schemaHash" | "fingerprint"> {
  const isShown = cloneObject(value) !== undefined;
  const fingerprint = isShown ? undefined : computeFingerprint(value);
  return { schemaHash: computeSchemaHash(tool), ...omitUndefined({ fingerprint }) };
}

/** Returns the stored call of a question. */
export function getStoredCall(deferral: QuestionDeferral): StoredCall {
  const { question, schemaHash, fingerprint, isUnverified } = deferral;
  const { arguments: shown, writtenArguments: input = shown, unparsed } = question;
  const isUsable = unparsed !== true && isUnverified !== true;
  return { input, value: isUsable ? shown : undefined, schemaHash, fingerprint };
}

/**
 * Binds a stored call to the tool. The stored value runs. If the schema has changed, it runs only
 * if the new schema produces the same value from the arguments, or leaves the value unchanged.
 */
export function restoreCall(tool: OwnCall["tool"], stored: StoredCall): OwnCall | RejectedCall;
export function restoreCall(tool: Tool, stored: StoredCall): BoundCall;
export function restoreCall(tool: Tool, { input, value, schemaHash }: StoredCall): BoundCall {
  // Another program computed the result from the arguments that it was shown.
  if (tool.kind === "external") return rebindCall(tool, input, value ?? input);
  if (value === undefined || schemaHash === computeSchemaHash(tool))
    return rebindCall(tool, input, value);
  const again = rebindCall(tool, input);
  const isUnchanged =
    hasParsedValue(again, value) || hasParsedValue(rebindCall(tool, value), value);
  return isUnchanged ? rebindCall(tool, input, value) : again;
}

function hasParsedValue(bound: BoundCall, value: JsonValue): boolean {
  return bound.type !== "rejected" && sameJson(tryCloneJson(bound.value), value);
}

/** Returns why a call differs from the stored one. `undefined` if it does not differ. */
export function findCallDifference(bound: OwnCall, stored: StoredCall): string | undefined {
  const { value, fingerprint } = stored;
  if (value !== undefined) return hasParsedValue(bound, value) ? undefined : OTHER_SCHEMA;
  if (fingerprint === undefined) return NOT_COMPARABLE;
  return computeFingerprint(bound.value) === fingerprint ? undefined : OTHER_VALUE;
}

const OTHER_SCHEMA = "This is no longer the approved call: its schema has changed.";
const OTHER_VALUE =
  "This is no longer the approved call: its schema produced other argument values.";
const NOT_COMPARABLE =
  "The approved arguments could not be stored, so this call cannot be compared with them.";

/** Returns the approved call with the value that was shown, or the reason why it cannot run. */
export function restoreApprovedCall(
  bound: OwnCall,
  deferral: QuestionDeferral,
  isSameProcess: boolean,
): OwnCall | RejectedCall | string {
  if (deferral.isUnverified === true) return rejectUnverifiedCall(bound.tool);
  const stored = getStoredCall(deferral);
  const { input, value, fingerprint } = stored;
  // Other code that holds the value may have changed it in memory.
  if (isSameProcess && value !== undefined) return rebindCall(bound.tool, input, value);
  if (isSameProcess && fingerprint === undefined) return bound;
  return findCallDifference(bound, stored) ?? bound;
}

const schemaHashes = new WeakMap<object, string>();

/** Returns the hash of a tool's JSON Schema, independent of key order. */
export function computeSchemaHash({ inputSchema }: Tool): string {
  return getOrCompute(schemaHashes, inputSchema, (schema) => sha256(stringifyCanonical(schema)));
}

/** A call whose arguments fit its tool. */
export type CheckedCall = Exclude<BoundCall, { readonly type: "rejected" }>;

/**
 * Returns the value that the tool receives, including defaults and transforms, so that guards see
 * it. Returns the arguments before parsing if the value is not JSON. Frozen.
 */
export function getUsedArguments({ value, input }: CheckedCall): JsonValue {
  const used = tryCloneJson(value);
  return deepFreeze(used === undefined ? copyJson(input) : used);
}

/** Returns a copy of a JSON object. `undefined` for other values, which a question cannot show. */
export function cloneObject(value: unknown): JsonObject | undefined {
  const copy = tryCloneJson(value);
  return isJsonObject(copy) ? copy : undefined;
}

/**
 * Returns a copy of a value that is JSON. Returns `undefined` for other values, such as a `Date`.
 */
function tryCloneJson(value: unknown): JsonValue | undefined {
  try {
    return cloneJson(value, MOST_LEVELS);
  } catch {
    return undefined;
  }
}

/**
 * Returns the arguments of the call after hooks and answers. Returns the text itself if it is not
 * JSON.
 */
export function getWrittenArguments({ bound, argumentsText }: CallInProgress): JsonValue {
  return "input" in bound ? bound.input : (readArguments(argumentsText) ?? argumentsText);
}

/**
 * Returns the arguments of a call that nothing has checked yet. `undefined` if they are not JSON.
 */
export function readArguments(argumentsText: string): JsonValue | undefined {
  try {
    return parseRawArguments(argumentsText);
  } catch {
    return undefined;
  }
}
