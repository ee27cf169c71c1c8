// Bounds the time that compiling a foreign JSON Schema takes. Ajv generates a function for the whole
// schema and one for each part that is referred to; the time grows faster than a function.

import { isRecord, type JsonObject } from "../../kernel/json.ts";
import { lookUp } from "./schema-words.ts";

const MAX_PARTS = 2_000;
/** Parts of all functions: a part within a part that is referred to is compiled more than once. */
const MAX_COMPILED_PARTS = 4_000;
const MAX_NAME_PATTERNS = 200;

/** Returns why a schema is too large to be compiled, or undefined. */
export function excessOf(schema: JsonObject): string | undefined {
  const parts = countParts(schema);
  if (parts > MAX_PARTS) return `it has more than ${MAX_PARTS} parts`;
  const found = { references: new Set<string>(), anchors: 0, namePatterns: 0, required: 0 };
  note(schema, found);
  if (found.required > MAX_PARTS) return `it has more than ${MAX_PARTS} dependent names`;
  if (found.namePatterns > MAX_NAME_PATTERNS)
    return `its patternProperties have more than ${MAX_NAME_PATTERNS} patterns`;
  // A dynamic anchor is compiled apart from the part in which it is, also within another one.
  let compiled = parts * 2 ** found.anchors;
  for (const reference of found.references) {
    const target = lookUp(schema, reference);
    compiled += target === undefined ? parts : countParts(target);
  }
  return compiled > MAX_COMPILED_PARTS ? "its references make it too large" : undefined;
}

/** Returns the number of sub-schemas, or a little more: objects, lists and booleans. */
export function countParts(part: unknown): number {
  if (typeof part === "boolean") return 1;
  if (typeof part !== "object" || part === null) return 0;
  return Object.values(part).reduce<number>((sum, below) => sum + countParts(below), 1);
}

interface Found {
  readonly references: Set<string>;
  anchors: number;
  namePatterns: number;
  /** Names in dependentRequired: Ajv generates code for each. */
  required: number;
}

function note(part: unknown, found: Found): void {
  if (typeof part !== "object" || part === null) return;
  for (const [key, below] of Object.entries<unknown>({ ...part })) {
    if (key === "$ref" && typeof below === "string") found.references.add(below);
    if (key === "$dynamicAnchor" || key === "$recursiveAnchor") found.anchors += 1;
    if (key === "patternProperties" && isRecord(below))
      found.namePatterns += Object.keys(below).length;
    if ((key === "dependentRequired" || key === "dependencies") && isRecord(below))
      found.required += Object.values(below).flat().length;
    note(below, found);
  }
}
