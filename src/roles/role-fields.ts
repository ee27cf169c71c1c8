// Which fields of a definition a role file may say, and which only code can: by the table of `defineAgent`.

import { DEFINITION_FIELDS, type FieldKind } from "../agent/define-agent.ts";

function fieldsOf(...kinds: readonly FieldKind[]): readonly string[] {
  const fields = Object.entries(DEFINITION_FIELDS).filter(([, kind]) => kinds.includes(kind));
  return Object.freeze(fields.map(([field]) => field));
}

/** What may stand in the front matter. */
export const FILE_FIELDS = fieldsOf("data", "names");

/** What holds plain data: a group of it is put together from file and code, key by key. */
export const DATA_FIELDS = fieldsOf("data");

/** What only code can say. */
export const CODE_FIELDS = fieldsOf("code");

/** What code may say of a role that stands in a file. */
export const EXTENSION_FIELDS = Object.freeze(
  [...FILE_FIELDS, ...CODE_FIELDS].filter((field) => field !== "name"),
);
