// The keys of plain JSON and of JSON schemas, as paths such as `.log.steps[].stepId`.

import { isRecord } from "../../src/kernel/json.ts";

/** Returns the keys of a value as paths, without those in JSON of users. */
export function keysIn(value: unknown, path = ""): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((one) => keysIn(one, `${path}[]`));
  if (!isRecord(value) || FOREIGN.some((end) => path.endsWith(end))) return [path];
  return Object.entries(value).flatMap(([key, part]): readonly string[] =>
    keysIn(part, `${path}.${key}`),
  );
}

/** The keys that a JSON schema knows, as paths. */
export function keysOfSchema(schema: unknown, path = ""): readonly string[] {
  if (!isRecord(schema) || FOREIGN.some((end) => path.endsWith(end))) return [path];
  const choices = [schema["anyOf"], schema["oneOf"]].flatMap((list): readonly unknown[] =>
    Array.isArray(list) ? list : [],
  );
  if (choices.length > 0) {
    const known = choices.filter((choice) => isRecord(choice) && Object.keys(choice).length > 0);
    return known.flatMap((choice) => keysOfSchema(choice, path));
  }
  if (isRecord(schema["properties"])) {
    return Object.entries(schema["properties"]).flatMap(([key, part]) =>
      keysOfSchema(part, `${path}.${key}`),
    );
  }
  return schema["type"] === "array" ? keysOfSchema(schema["items"], `${path}[]`) : [path];
}

const FOREIGN = [
  "data",
  "metadata",
  "arguments",
  "output",
  "written",
  "writtenArguments",
  "usage",
  "retriesByTool",
  "fired",
  "definitions",
  "context.budget",
  "shown[].message",
  "toolChoice",
];

/** Each path once, in order. */
export function listed(keys: readonly string[]): readonly string[] {
  return [...new Set(keys)].toSorted();
}
