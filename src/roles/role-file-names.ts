// What a role file names, for callers that have to find it first: its model, tools and subagents.

import { checkText, misdefinition } from "../kernel/check.ts";
import { errorsIn } from "./role-file-error.ts";
import { roleText } from "./role-text.ts";

/** What a role file names. A list that is none is empty here: it is an error of the file when it is read as a role. */
export interface RoleFileNames {
  /** Of the role; undefined: that of its file. */
  readonly name: string | undefined;
  /** The model; undefined: none is named. */
  readonly model: string | undefined;
  /** Names of tools, and beginnings of names with a star behind them. */
  readonly tools: readonly string[];
  /** The subagents. */
  readonly subagents: readonly string[];
}

/**
 * What the text of a role file names, to have models, tools and other files ready before it is read as a role. `file`: for errors.
 *
 * @throws EspalierError `invalid_role_file`, if its front matter cannot be read.
 */
export function roleFileNames(text: string, file: string): RoleFileNames {
  checkText("roleFileNames.file", file);
  if (typeof text !== "string")
    throw misdefinition("roleFileNames.text", "the text of a role file", text, "Decode it first.");
  const { values } = roleText(text, errorsIn(file));
  const name = values.get("name");
  const model = values.get("model");
  return {
    name: typeof name === "string" ? name : undefined,
    model: typeof model === "string" ? model : undefined,
    tools: textsIn(values.get("tools")),
    subagents: textsIn(values.get("subagents")),
  };
}

function textsIn(given: unknown): readonly string[] {
  return Array.isArray(given) ? given.filter((one) => typeof one === "string") : [];
}
