// Goal: values that a tool returned are equal in the persisted, the replayed and the live result,
// whatever their keys and texts (D1).
// Method: tools that return odd values, one each; the journal is read and replayed.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolResult } from "../../../src/tools/tool-result.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { thinker } from "../../support/journal/thinkers.ts";

function looking(structured: unknown): AgentRole {
  return defineAgent({
    name: "lead",
    instructions: "You look.",
    model: thinker("lead", ({ results }) =>
      results.length === 0 ? { calls: [["look", {}]] } : { text: "Seen." },
    ),
    tools: [
      defineTool({
        name: "look",
        description: "Looks.",
        inputSchema: z.object({}),
        execute: () => toolResult({ structured }),
      }),
    ],
  });
}

const REFUSED = ["a key __proto__", "such a key within"];

const ODD: readonly (readonly [string, unknown])[] = [
  ["a key __proto__", JSON.parse('{"__proto__":{"x":1},"b":2}')],
  ["such a key within", JSON.parse('{"a":[{"__proto__":1}]}')],
  ["keys of objects", { constructor: 1, toString: 2, valueOf: null, hasOwnProperty: [] }],
  ["a lone surrogate", { text: "\uD800", "\uDFFF": 1 }],
  ["what looks like a reference", ["\u0001#0", "\u0001=", "\u0001".repeat(300)]],
  ["numbers", [-0, 1e21, 5e-324, Number.NaN]],
];

for (const [what, structured] of ODD)
  test(`persists ${what} in the result of a tool, or fails the call`, async () => {
    const clock = new ManualClock();
    const store = memoryStore({ clock });
    const role = looking(structured);
    const fixture = newFixture({ store, clock });
    const run = fixture.start(role);
    const result = await fixture.outcome(run);
    const kept = await new Orchestrator({ store }).getResult(run.runId);
    expect(JSON.stringify(kept)).toBe(JSON.stringify(result));
    await replaysToTheSame({ role }, { recording: await loadRecording(store, run.runId), result });
    const failures = result.agents.flatMap(({ toolErrors }) => toolErrors);
    expect(failures.length).toBe(REFUSED.includes(what) ? 1 : 0);
  });
