// Goal: the reason of a paused run names the calls that wait.
// Method: trees whose root and subagents wait for approvals and results.

import { expect } from "vitest";

import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { externalTool, payTool } from "../../support/pause-stories.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 3 } };

proves(["D523"], "names the waiting calls of all agents in the reason of the run", async () => {
  const payer = part("payer", [calls(PAY), says("Paid.")], { tools: [payTool()] });
  const lead = part(
    "lead",
    [calls(spawn("payer"), { toolName: "mail", arguments: {} }), says("Done.")],
    { subagents: [payer.role], tools: [externalTool("mail")] },
  );
  const fixture = newFixture();
  const { reason } = await fixture.run(lead.role);
  expect(reason).toEqual({
    code: "input_required",
    message: "Waits for result of mail (lead), approval of pay (lead/payer#1).",
    data: { questions: 2, pausedSubagents: 1 },
  });
  expect(fixture.sink.ofType("run.paused").map((event) => event.reason)).toEqual([reason]);
});

proves(["D523"], "names five waiting calls and counts the others", async () => {
  const pays = Array.from({ length: 7 }, (_, amount) => ({ ...PAY, arguments: { amount } }));
  const lead = part("lead", [calls(...pays), says("Done.")], { tools: [payTool()] });
  const { reason } = await newFixture().run(lead.role);
  const named = Array.from({ length: 5 }, () => "approval of pay (lead)");
  expect(reason.message).toBe(`Waits for ${named.join(", ")} and 2 more.`);
});
