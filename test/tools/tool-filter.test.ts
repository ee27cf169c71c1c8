// Goal: a tool filter that names an unknown tool is refused when the role is defined.
// Method: definitions of roles.

import { expect, test } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { toolFilter } from "../../src/tools/tool-filter.ts";
import { spyTool } from "../harness/tools.ts";
import { thrownBy } from "../support/thrown.ts";

const role = (tools: readonly string[], subagents: readonly string[] = []): unknown =>
  defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([]),
    tools: [spyTool("read")],
    subagents,
    toolFilters: [toolFilter(() => true, { tools })],
  });

test("accepts a filter that names tools of its role, the delegation included", () => {
  expect(() => role(["read"])).not.toThrow();
  expect(() => role(["read", "SpawnSubagent"], ["helper"])).not.toThrow();
});

for (const [tools, stray] of [
  [["read", "wread"], "wread"],
  [["SpawnSubagent"], "SpawnSubagent"],
] as const) {
  test(`refuses a filter for ${tools.join(", ")} if the role lacks that tool`, () => {
    const { code, message } = thrownBy(() => role(tools));
    expect([code, message]).toEqual([
      "invalid_argument",
      `Expected lead.toolFilters[0].tools to be names of its tools (read), got "${stray}". Name them as the model calls them.`,
    ]);
  });
}
