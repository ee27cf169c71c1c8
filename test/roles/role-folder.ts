// What the tests of role files read with, and files to begin with.

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

/** A file with this front matter, as lines. */
export function roleFile(...frontMatter: readonly string[]): string {
  return ["---", ...frontMatter, "---", "", "Work.", ""].join("\n");
}

/** The role of a text in `roles/researcher.md`. Options may be wrong. */
export function parsed(text: string, options: object = {}): AgentRole {
  const given: Partial<RoleFileOptions> = options;
  return parseRole(text, { file: "roles/researcher.md", ...OPTIONS, ...given });
}

/** A file that says `fields` in YAML, or in JSON, which is YAML, too. */
export function written(fields: object, instructions: string, style: "yaml" | "json"): string {
  const front =
    style === "yaml"
      ? stringify(fields, { aliasDuplicateObjects: false })
      : `${JSON.stringify(fields, null, 2)}\n`;
  return `---\n${front}---\n\n${instructions}\n`;
}
