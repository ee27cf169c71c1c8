// Options with which the tests read role files, and files to start from.

import { stringify } from "yaml";

import { parseRole, type RoleFileOptions } from "../../src/roles/read-roles.ts";
import type { AgentRole } from "../../src/agent/agent-role.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { spyTool } from "../harness/tools.ts";

export const fast = new ScriptedModel([], { id: "fast" });
export const strong = new ScriptedModel([], {
  id: "strong",
  price: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 },
});
export const search = spyTool("search");
export const save = spyTool("save");

export const OPTIONS = { models: { fast, strong }, tools: [search, save] };

/** Returns a file with these lines of front matter. */
export function roleFile(...frontMatter: readonly string[]): string {
  return ["---", ...frontMatter, "---", "", "Work.", ""].join("\n");
}

/** Parses a text as `roles/researcher.md`. Options may be wrong. */
export function parsed(text: string, options: object = {}): AgentRole {
  const given: Partial<RoleFileOptions> = options;
  return parseRole(text, { file: "roles/researcher.md", ...OPTIONS, ...given });
}

/** Returns a file with `fields` as YAML, or as JSON, which is YAML as well. */
export function written(fields: object, instructions: string, style: "yaml" | "json"): string {
  const front =
    style === "yaml"
      ? stringify(fields, { aliasDuplicateObjects: false })
      : `${JSON.stringify(fields, null, 2)}\n`;
  return `---\n${front}---\n\n${instructions}\n`;
}
