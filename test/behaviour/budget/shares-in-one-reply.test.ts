// Goal: the subagents that one reply requests get shares of the same budget, whenever each of them
// starts.
// Method: an even share of steps; a sequential tool between two delegations, and a delegation that
// waits for an approval during a pause.

import { leaveOpen } from "../../support/pause-stories.ts";
import { expect } from "vitest";
import { z } from "zod";

import { approve } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

const EVEN = { share: { type: "even" } } as const;

/** Returns the step limits of the subagents. */
function parts({ accounts }: RunResult): readonly unknown[] {
  return accounts.slice(1).map(({ agentPath: path, limits }) => [path, limits.steps]);
}

proves(
  ["D274"],
  "a sequential call between two delegations does not enlarge either share",
  async () => {
    const alone = defineTool({
      name: "alone",
      description: "Works alone.",
      inputSchema: z.object({}),
      sequential: true,
      execute: () => "Done.",
    });
    const writer = part("writer", [says("One."), says("Two.")]);
    const lead = part(
      "lead",
      [calls(spawn("writer", "A"), use("alone"), spawn("writer", "B")), says("Done.")],
      { subagents: [writer.role], tools: [alone], delegation: EVEN },
    );
    const result = await newFixture().run(lead.role, { budget: { steps: 21 } });
    expect(parts(result)).toEqual([
      ["lead/writer#1", 10],
      ["lead/writer#2", 10],
    ]);
  },
);

proves(
  ["D274"],
  "a pause does not enlarge the share of a delegation after others of its reply have ended",
  async () => {
    const writer = part(
      "writer",
      ["One.", "Two.", "Three.", "Four."].map((text) => says(text)),
    );
    const lead = part(
      "lead",
      [
        calls(spawn("writer", "A")),
        calls(spawn("writer", "A"), spawn("writer", "B"), spawn("writer", "C")),
        says("Done."),
      ],
      { subagents: [writer.role], delegation: { ...EVEN, maxIdenticalDelegations: 1 } },
    );
    const s = newFixture({ approver: leaveOpen });
    const { pausedRun } = await s.run(lead.role, { budget: { steps: 32 } });
    const answers = pausedRun?.questions.map((question) => approve(question));
    const result = await s.outcome(s.resume(lead.role, pausedRun, answers));
    expect(parts(result)).toEqual([
      ["lead/writer#1", 31],
      ["lead/writer#2", 9],
      ["lead/writer#3", 9],
      ["lead/writer#4", 9],
    ]);
  },
);
