// Goal: calls of a reply that was evaluated before a pause run after it, whatever was used
// meanwhile.
// Method: a lead is asked to pause during its model call. A background subagent uses the budget of
// both before the lead pauses.

import { expect } from "vitest";

import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { beside } from "../../support/life-agents.ts";
import { calls, part, quiet, until, use } from "../../harness/scripted-agents.ts";

/**
 * A run paused before the calls of its second step, whose budget was exhausted after their
 * evaluation.
 */
async function overspentPause(options: OrchestratorOptions = {}) {
  const [replied, spent] = [latch(), latch()];
  const work = spyTool("work");
  const spending = { text: "Spent.", usage: { outputTokens: 100 }, after: spent.opened };
  const spender = part("spender", [spending], { maxOutputTokens: 100 });
  const second = { ...calls(use("work")), after: replied.opened };
  const lead = part("lead", [calls(beside("spender")), second, says("Done.")], {
    delegation: { background: true },
    maxOutputTokens: 5,
    subagents: [spender.role],
    tools: [work],
  });
  const fixture = newFixture(options);
  const run = fixture.start(lead.role, "Do it.", { budget: { totalTokens: 140 } });
  await until(() => lead.model.requests.length + spender.model.requests.length === 3);
  run.requestPause();
  replied.open();
  await until(() => fixture.sink.ofType("model.replied").length === 2);
  await quiet();
  spent.open();
  const paused = await fixture.outcome(run);
  expect(paused.reason.code).toBe("pause_requested");
  return { fixture, role: lead.role, work, run, paused };
}

/** Returns the reason of the end, and the outcomes of the calls in the second step. */
function readEnd({ reason, steps }: RunResult): readonly unknown[] {
  return [reason.code, steps[1]?.tools.executions.map(({ type }) => type)];
}

const ANSWERED_BY_TOOL = ["token_limit", ["succeeded"]];

proves(["D725"], "a reply evaluated before a pause is not evaluated again", async () => {
  const { fixture, role, work, paused } = await overspentPause();
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun));
  expect([readEnd(result), work.calls.length]).toEqual([ANSWERED_BY_TOOL, 1]);
});

proves(["D725"], "a reply evaluated before two pauses is not evaluated again", async () => {
  const { fixture, role, work, paused } = await overspentPause();
  const again = fixture.resume(role, paused.pausedRun);
  again.requestPause();
  const second = await fixture.outcome(again);
  expect([second.reason.code, work.calls.length]).toEqual(["pause_requested", 0]);
  const result = await fixture.outcome(fixture.resume(role, second.pausedRun));
  expect([readEnd(result), work.calls.length]).toEqual([ANSWERED_BY_TOOL, 1]);
});

proves(
  ["D725"],
  "a reply evaluated before a pause is not evaluated again in a process that recovers the run",
  async () => {
    const store = memoryStore({ clock: new ManualClock() });
    const { fixture, role, work, run } = await overspentPause({ store });
    const recovered = await fixture.orchestrator.resume(run.runId, { role });
    const result = await fixture.outcome(recovered);
    expect([readEnd(result), work.calls.length]).toEqual([ANSWERED_BY_TOOL, 1]);
  },
);
