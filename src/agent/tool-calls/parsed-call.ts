// A call whose arguments were parsed, as it is shown and stored. The value that was shown runs. It is
// parsed again only if the schema of the tool has changed, or if JSON cannot hold the value.

import { sha256 } from "../../kernel/crypto.ts";
import { computeFingerprint } from "../../kernel/fingerprint.ts";
import {
  stringifyCanonical,
  omitUndefined,
  sameJson,
  copyJson,
  deepFreeze,
  cloneJson,
  type JsonValue,
} from "../../kernel/json.ts";
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

/** A parsed call, as it is stored. */
export interface StoredCall {
  /** The arguments before parsing: after hooks and coercion. */
  readonly input: JsonValue;
  /** The parsed value. `undefined` if it is not JSON. */
  readonly value: JsonValue | undefined;
  /** Hash of the JSON Schema that parsed them. */
  readonly schemaHash: string;
  /** Of a value that is not JSON. `undefined` if it has none. */
  readonly fingerprint: string | undefined;
}

/** Returns the arguments as a question shows them. */
export function pickShownArguments(
  bound: CheckedCall,
): Pick<Question, "arguments" | "writtenArguments" | "unparsed"> {
  const { input } = bound;
  const value = tryCloneJson(bound.value);
  if (value === undefined) return { arguments: input, unparsed: true };
  return { arguments: value, ...(sameJson(value, input) ? {} : { writtenArguments: input }) };
}

/** Returns what is stored of a call beside its arguments, to compare it with later. */
export function parseRecordOf({
  tool,
  value,
}: CheckedCall): Pick<QuestionDeferral, "schemaHash" | "fingerprint"> {
  const isJson = tryCloneJson(value) !== undefined;
  const fingerprint = isJson ? undefined : computeFingerprint(value);
  return { schemaHash: computeSchemaHash(tool), ...omitUndefined({ fingerprint }) };
}

/** Returns the call that a question is about, as it was stored. */
export function getStoredCall(deferral: QuestionDeferral): StoredCall {
  const { question, schemaHash, fingerprint, isUnverified } = deferral;
  const { arguments: shown, writtenArguments: input = shown, unparsed } = question;
  const isUsable = unparsed !== true && isUnverified !== true;
  return { input, value: isUsable ? shown : undefined, schemaHash, fingerprint };
}

/**
 * Binds a stored call to the tool. The stored value runs. If the schema has changed, it runs only if
 * the schema makes that same value of the arguments, or leaves the value as it is.
 */
export function restoreCall(tool: OwnCall["tool"], stored: StoredCall): OwnCall | RejectedCall;
export function restoreCall(tool: Tool, stored: StoredCall): BoundCall;
export function restoreCall(tool: Tool, { input, value, schemaHash }: StoredCall): BoundCall {
  // Another program made the result from the arguments that were shown.
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

/** Returns why a call is not the one that was stored. `undefined` if it is. */
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

/** Returns the call that was approved: the value that was shown. Returns a reason if there is none. */
export function restoreApprovedCall(
  bound: OwnCall,
  deferral: QuestionDeferral,
  isSameProcess: boolean,
): OwnCall | RejectedCall | string {
  if (deferral.isUnverified === true) return rejectUnverifiedCall(bound.tool);
  const stored = getStoredCall(deferral);
  const { input, value, fingerprint } = stored;
  // The value in memory may have been changed by code that has it, too.
  if (isSameProcess && value !== undefined) return rebindCall(bound.tool, input, value);
  if (isSameProcess && fingerprint === undefined) return bound;
  return findCallDifference(bound, stored) ?? bound;
}

const schemaHashes = new WeakMap<object, string>();

/** Returns the hash of the JSON Schema of a tool, whatever the order of its keys. */
export function computeSchemaHash({ inputSchema }: Tool): string {
  const known = schemaHashes.get(inputSchema);
  if (known !== undefined) return known;
  const hash = sha256(stringifyCanonical(inputSchema));
  schemaHashes.set(inputSchema, hash);
  return hash;
}

/** A call whose arguments fit its tool. */
export type CheckedCall = Exclude<BoundCall, { readonly type: "rejected" }>;

/** What the tool gets, so that no default and no transform goes past a guard; as it was written, if that is no JSON. Frozen. */
export function getUsedArguments({ value, input }: CheckedCall): JsonValue {
  const used = tryCloneJson(value);
  return deepFreeze(used === undefined ? copyJson(input) : used);
}

/** Returns a copy of a value that is JSON. Returns `undefined` for other values, such as a `Date`. */
export function tryCloneJson(value: unknown): JsonValue | undefined {
  try {
    return cloneJson(value, MOST_LEVELS);
  } catch {
    return undefined;
  }
}

/** The arguments with which the call was made, as hooks and answers left them; the text itself, if it is no JSON. */
export function getWrittenArguments({ bound, argumentsText }: CallInProgress): JsonValue {
  return "input" in bound ? bound.input : (readArguments(argumentsText) ?? argumentsText);
}

/** The arguments of a call that has not been looked at yet; undefined: they are no JSON. */
export function readArguments(argumentsText: string): JsonValue | undefined {
  try {
    return parseRawArguments(argumentsText);
  } catch {
    return undefined;
  }
}
