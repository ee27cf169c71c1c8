// Bounds the time that compiling a foreign JSON Schema takes. Ajv generates a function for the whole
// schema and one for each part that is referred to; the time grows faster than a function.

import { isRecord, type JsonObject } from "../../kernel/json.ts";
import { lookUp } from "./schema-pointer.ts";

const MAX_PARTS = 2_000;
/** Parts of all functions: a part within a part that is referred to is compiled more than once. */
const MAX_COMPILED_PARTS = 4_000;
const MAX_NAME_PATTERNS = 200;

/** Returns why a schema is too large to be compiled, or undefined. */
export function findSchemaExcess(schema: JsonObject): string | undefined {
  const parts = countParts(schema);
  if (parts > MAX_PARTS) return `it has more than ${MAX_PARTS} parts`;
  const found = createEmptyCounts();
  countKinds(schema, found);
  if (found.required > MAX_PARTS) return `it has more than ${MAX_PARTS} dependent names`;
  if (found.namePatterns > MAX_NAME_PATTERNS)
    return `its patternProperties have more than ${MAX_NAME_PATTERNS} patterns`;
  const named = collectNamedParts(schema);
  // A dynamic anchor is compiled apart from the part in which it is, also within another one.
  let compiled = parts * 2 ** found.anchors;
  for (const reference of found.references) {
    const target = lookUp(schema, reference) ?? named.get(reference);
    // A pointer that finds nothing, where no $id changes what it means, is an error that Ajv names.
    if (target === undefined && named.size === 0) continue;
    compiled += target === undefined ? parts : countParts(target);
  }
  return compiled > MAX_COMPILED_PARTS ? "its references make it too large" : undefined;
}

/**
 * Returns the parts that `$anchor` or `$id` names, by the references that mean them: `#name` and the
 * `$id` as it is written. Of two parts with the same name it returns the larger one.
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

/** A part that fits one function of Ajv. With more, its code is nested too deeply for the call stack. */
const MAX_NESTED_PARTS = 500;

/**
 * True if the check that stops at the first error cannot be compiled: Ajv nests the code of each part
 * in that of the part before it.
 */
export function isTooWide(schema: JsonObject): boolean {
  const { $defs: _parts, definitions: _earlier, ...whole } = schema;
  const found = createEmptyCounts();
  countKinds(schema, found);
  const targets = [...found.references].map((reference) => lookUp(schema, reference));
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

function countKinds(part: unknown, found: SchemaCounts): void {
  if (typeof part !== "object" || part === null) return;
  for (const [key, below] of Object.entries<unknown>({ ...part })) {
    if (key === "$ref" && typeof below === "string") found.references.add(below);
    if (key === "$dynamicAnchor" || key === "$recursiveAnchor") found.anchors += 1;
    if (key === "patternProperties" && isRecord(below))
      found.namePatterns += Object.keys(below).length;
    if ((key === "dependentRequired" || key === "dependencies") && isRecord(below))
      found.required += Object.values(below).flat().length;
    countKinds(below, found);
  }
}
