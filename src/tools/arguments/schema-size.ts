// Bounds the time to compile a foreign JSON Schema. Ajv generates one function for the whole schema
// and one per referenced part. The time grows faster than the size of a function.

import { isRecord, type JsonObject } from "../../kernel/json.ts";
import { lookUp } from "./schema-pointer.ts";

const MAX_PARTS = 2_000;
/** Parts of all functions: a part within a referenced part is compiled more than once. */
const MAX_COMPILED_PARTS = 4_000;
const MAX_NAME_PATTERNS = 200;

/** Returns the reason why a schema is too large to be compiled, or `undefined`. */
export function findSchemaExcess(schema: JsonObject): string | undefined {
  const parts = countParts(schema);
  if (parts > MAX_PARTS) return `it has more than ${MAX_PARTS} parts`;
  const counts = createEmptyCounts();
  countKinds(schema, counts);
  if (counts.required > MAX_PARTS) return `it has more than ${MAX_PARTS} dependent names`;
  if (counts.namePatterns > MAX_NAME_PATTERNS)
    return `its patternProperties have more than ${MAX_NAME_PATTERNS} patterns`;
  const named = collectNamedParts(schema);
  // A part with a dynamic anchor is compiled separately, also within another such part.
  let compiled = parts * 2 ** counts.anchors;
  for (const reference of counts.references) {
    const target = lookUp(schema, reference) ?? named.get(reference);
    // Ajv reports an unresolved pointer, unless an `$id` changes its meaning.
    if (target === undefined && named.size === 0) continue;
    compiled += target === undefined ? parts : countParts(target);
  }
  return compiled > MAX_COMPILED_PARTS ? "its references make it too large" : undefined;
}

/**
 * Returns the parts with an `$anchor` or `$id`, by the references to them: `#name`, and the literal
 * `$id`. If two parts have the same name, returns the larger one.
 */
function collectNamedParts(schema: JsonObject): ReadonlyMap<string, unknown> {
  const named = new Map<string, unknown>();
  const visit = (part: unknown): void => {
    if (typeof part !== "object" || part === null) return;
    const { $anchor, $id }: Readonly<Record<string, unknown>> = isRecord(part) ? part : {};
    const names = [typeof $anchor === "string" ? `#${$anchor}` : undefined, $id];
    for (const name of names)
      if (typeof name === "string" && countParts(part) > countParts(named.get(name)))
        named.set(name, part);
    Object.values(part).forEach(visit);
  };
  visit(schema);
  return named;
}

/**
 * Most parts in one function of Ajv. Beyond that its code is nested too deeply for the call stack.
 */
const MAX_NESTED_PARTS = 500;

/**
 * Returns true if the validation that stops at the first error cannot be compiled: Ajv nests the
 * code of each part in the code of the previous part.
 */
export function isTooWide(schema: JsonObject): boolean {
  const { $defs: _parts, definitions: _earlier, ...whole } = schema;
  const counts = createEmptyCounts();
  countKinds(schema, counts);
  const targets = [...counts.references].map((reference) => lookUp(schema, reference));
  return [whole, ...targets].some((part) => part !== schema && countParts(part) > MAX_NESTED_PARTS);
}

/** Returns the number of sub-schemas, or a little more: objects, lists and booleans. */
export function countParts(part: unknown): number {
  if (typeof part === "boolean") return 1;
  if (typeof part !== "object" || part === null) return 0;
  return Object.values(part).reduce<number>((sum, below) => sum + countParts(below), 1);
}

interface SchemaCounts {
  readonly references: Set<string>;
  anchors: number;
  namePatterns: number;
  /** Names in dependentRequired: Ajv generates code for each. */
  required: number;
}

function createEmptyCounts(): SchemaCounts {
  return { references: new Set(), anchors: 0, namePatterns: 0, required: 0 };
}

function countKinds(part: unknown, counts: SchemaCounts): void {
  if (typeof part !== "object" || part === null) return;
  for (const [key, below] of Object.entries<unknown>({ ...part })) {
    if (key === "$ref" && typeof below === "string") counts.references.add(below);
    if (key === "$dynamicAnchor" || key === "$recursiveAnchor") counts.anchors += 1;
    if (key === "patternProperties" && isRecord(below))
      counts.namePatterns += Object.keys(below).length;
    if ((key === "dependentRequired" || key === "dependencies") && isRecord(below))
      counts.required += Object.values(below).flat().length;
    countKinds(below, counts);
  }
}
