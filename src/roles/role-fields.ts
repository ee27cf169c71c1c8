// Which fields of a definition a role file may say, and which only code can. What `defineAgent` learns to take must be entered here: the
// compiler asks for it.

import type { AgentDefinition } from "../agent/define-agent.ts";

/** `data` stands in a file as in code, `names` are looked up, `text` is what follows the front matter, `code` no file can say. */
type FieldKind = "data" | "names" | "text" | "code";

const KINDS = {
  name: "data",
  purpose: "data",
  instructions: "text",
  model: "names",
  tools: "names",
  toolDefaults: "data",
  guards: "code",
  toolFilters: "code",
  errorBudget: "data",
  errorPolicy: "data",
  subagents: "names",
  context: "data",
  delegation: "data",
  limits: "data",
  dynamicRoles: "code",
  budget: "data",
  showBudget: "data",
  stopWhen: "code",
  hooks: "code",
  wrapUp: "data",
  sections: "code",
  compaction: "data",
  maxOutputTokens: "data",
  temperature: "data",
  modelSettings: "data",
  output: "code",
} as const satisfies Record<keyof AgentDefinition, FieldKind>;

function fieldsOf(...kinds: readonly FieldKind[]): readonly string[] {
  const fields = Object.entries(KINDS).filter(([, kind]) => kinds.some((known) => known === kind));
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
