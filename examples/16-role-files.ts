// Roles from Markdown files. An invalid file is reported with its name and line.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineTool, EspalierError, Orchestrator } from "espalier";
import { observe } from "espalier/hooks";
import { parseRole, readRoles } from "espalier/roles";
import { asks, says, ScriptedModel } from "espalier/testing";

const search = defineTool({
  name: "search",
  description: "Searches an encyclopaedia.",
  inputSchema: z.object({ words: z.string() }),
  execute: ({ words }) => `1 article on ${words}: "Espalier", grown on walls since antiquity.`,
});

const strong = new ScriptedModel([
  asks("SpawnSubagent", { role: "researcher", task: "Since when are there espaliers?" }),
  asks("SpawnSubagent", { role: "writer", task: "Write: since antiquity (Espalier)." }),
  says("There have been espaliers since antiquity."),
]);
const fast = new ScriptedModel([
  asks("search", { words: "espaliers" }),
  says("Since antiquity. Source: Espalier."),
  says("There have been espaliers since antiquity."),
]);

const searches: string[] = [];
const watch = observe(["tool.started"], (event) => {
  if (event.type === "tool.started") searches.push(event.toolName);
});

// With real models: `models: openai`, and files that say `model: gpt-5-mini`.
const roles = await readRoles(new URL("roles", import.meta.url), {
  models: { fast, strong },
  tools: [search],
  extend: { researcher: { hooks: [watch] } }, // fields that need code
});
const lead = roles.find(({ name }) => name === "lead");
assert.ok(lead);

const run = new Orchestrator({ roles }).start(lead, "Since when are there espaliers?");
const { status, text, agents } = await run.result;
console.log(text);
assert.equal(status, "completed");
assert.deepEqual(
  agents.map(({ agentPath }) => agentPath),
  ["lead", "lead/researcher#1", "lead/writer#1"],
);
assert.deepEqual(searches, ["search"]);

const slip = `---
model: fast
budget:
  steps: many
---
Work.`;
assert.throws(
  () => parseRole(slip, { file: "roles/slip.md", models: { fast } }),
  (error) => {
    assert.ok(EspalierError.is(error));
    console.log(error.message);
    return error.code === "invalid_role_file" && error.message.startsWith("roles/slip.md:4: ");
  },
);
