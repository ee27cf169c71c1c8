// Goal: an impossible resume or grant is refused before the run starts, and the run remains
// resumable.
// Method: one attempt after the other on a run that a limit stopped; codes and messages compared in
// full.

import { describe, expect, test } from "vitest";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { rested } from "../../support/life-agents.ts";
import { ending } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, spawn, tool, use, until } from "../../harness/scripted-agents.ts";

async function stopped() {
  const s = newFixture();
  const worker = part("worker", () => says("Worked."));
  const lead = part("lead", [calls(spawn("worker")), says("At last.")], {
    subagents: [worker.role],
  });
  const { snapshot } = await rested(s, s.start(lead.role, "Do it.", { budget: { steps: 2 } }));
  return { s, lead, snapshot };
}

describe("an impossible resume or grant", () => {
  proves(["X7"], "is refused before the run starts, and the run remains resumable", async () => {
    const { s, lead, snapshot } = await stopped();
    const events = s.sink.events.length;
    const by = "Ann";
    const wrong = {
      "no grant": [],
      "a grant of nothing": [{ budget: {}, by }],
      "of zero": [{ budget: { steps: 0 }, by }],
      "without a name": [{ budget: { steps: 1 }, by: " " }],
      "to no agent": [{ budget: { steps: 1 }, by, agentPath: "lead/worker#2" }],
      "of what is not limited": [{ budget: { totalTokens: 9 }, by }],
      "to a child without limits": [{ budget: { steps: 1 }, by, agentPath: "lead/worker#1" }],
      "less than nothing": [{ budget: { steps: -1 }, by }],
    };
    const codes = Object.entries(wrong).map(([what, grants]) => {
      const { code } = thrownBy(() => s.grantOn(lead.role, snapshot, grants));
      return [what, code];
    });
    expect(Object.fromEntries(codes)).toEqual({
      "no grant": "invalid_paused_run",
      "a grant of nothing": "invalid_argument",
      "of zero": "invalid_argument",
      "without a name": "invalid_argument",
      "to no agent": "invalid_argument",
      "of what is not limited": "invalid_argument",
      "to a child without limits": "invalid_argument",
      "less than nothing": "invalid_argument",
    });
    expect(thrownBy(() => s.grantOn(lead.role, snapshot, [])).message).toContain(
      "Raise the limit that stopped it: options.grants.",
    );
    expect(thrownBy(() => s.grantOn(lead.role, snapshot, wrong["to no agent"])).message).toBe(
      'Expected resume options.grants[0].agentPath to be an agent of the run (lead, lead/worker#1), got "lead/worker#2". See result.agents.',
    );
    expect(s.sink.events.length).toBe(events);
    const after = await s.outcome(s.grantOn(lead.role, snapshot, [{ budget: { steps: 1 }, by }]));
    expect(after.text).toBe("At last.");
  });

  test("is refused for a run that completed, failed or was cancelled", async () => {
    const endings: readonly ScriptStep[] = [
      says("Done."),
      { error: new Error("gone") },
      { text: "I", finishReason: "length" },
    ];
    for (const end of endings) {
      const s = newFixture();
      const lead = part("lead", [end]);
      const { snapshot } = await rested(s, s.start(lead.role, "Do it.", { budget: { steps: 5 } }));
      const { code, message } = thrownBy(() =>
        s.grantOn(lead.role, snapshot, [{ budget: { steps: 1 }, by: "Ann" }]),
      );
      expect([code, message.endsWith("Fork the run instead: orchestrator.fork.")]).toEqual([
        "invalid_paused_run",
        true,
      ]);
    }
    const s = newFixture();
    const lead = part("lead", [says("Never.", { after: latch().opened })]);
    const run = s.start(lead.role, "Do it.", { budget: { steps: 5 } });
    await until(() => lead.model.requests.length === 1);
    void run.cancel("Enough.");
    const { snapshot } = await rested(s, run);
    expect(
      thrownBy(() => s.grantOn(lead.role, snapshot, [{ budget: { steps: 1 }, by: "Ann" }])).code,
    ).toBe("invalid_paused_run");
  });

  test("is refused for a stopped run that the orchestrator has already resumed", async () => {
    const { s, lead, snapshot } = await stopped();
    const grants = [{ budget: { steps: 1 }, by: "Ann" }];
    const again = (): unknown => s.orchestrator.resume(snapshot, { role: lead.role, grants });
    const first = s.orchestrator.resume(snapshot, { role: lead.role, grants });
    expect(thrownBy(again).code).toBe("already_resumed");
    const { result, snapshot: next } = await rested(s, first);
    expect([result.text, thrownBy(again).code]).toEqual(["At last.", "already_resumed"]);
    expect(next.pauseCount).toBe(snapshot.pauseCount + 1);
  });

  test("is refused for a fixed deadline, which never moves", async () => {
    const s = newFixture();
    const lead = part("lead", [calls(use("spend")), says("Never.")], {
      tools: [tool("spend", () => (s.clock.advance(1_000), "spent"))],
    });
    const { result, snapshot } = await rested(
      s,
      s.start(lead.role, "Do it.", { deadlineAtMs: s.clock.nowMs() + 500 }),
    );
    expect(ending(result)).toEqual(["stopped", "time_limit"]);
    expect(
      thrownBy(() => s.grantOn(lead.role, snapshot, [{ budget: { timeMs: 9_000 }, by: "Ann" }]))
        .code,
    ).toBe("invalid_argument");
  });
});
