// Goal: a run can be forked before its first step, from a pause in that step, and with another role
// of the same name.
// Method: real runs; the messages to the models of the fork are compared with those of the
// original.

import { describe, expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { rested } from "../../support/life-agents.ts";
import { look, PAY, shown, threeSteps } from "../../support/life-forks.ts";
import { payTool } from "../../support/pause-stories.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

const FIRST_INPUT = ["system: You are lead.", "user: Do it."];

describe("a fork before the first step", () => {
  proves(["S7.20"], "repeats the first input without later messages", async () => {
    const { lead, worker } = threeSteps([calls(spawn("worker")), says("Forked.")]);
    const s = newFixture();
    const { result, snapshot } = await rested(s, s.start(lead.role));
    const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 0 }));
    expect([shown(lead, 0), shown(lead, 4)]).toEqual([FIRST_INPUT, FIRST_INPUT]);
    expect([result.text, forked.text, worker.model.requests.length]).toEqual([
      "Original.",
      "Forked.",
      2,
    ]);
    expect(forked.agents.map(({ agentPath, steps }) => [agentPath, steps.length])).toEqual([
      ["lead", 2],
      ["lead/worker#1", 1],
    ]);
    expect(s.sink.ofType("run.started").at(-1)?.forkedFrom?.stepNumber).toBe(0);
  });

  proves(["S7.20"], "may add a message", async () => {
    const { lead } = threeSteps([says("Forked.")]);
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    await s.outcome(s.fork(lead.role, snapshot, { atStep: 0, message: "In short." }));
    expect(shown(lead, 4)).toEqual([...FIRST_INPUT, "user: In short."]);
  });

  proves(["S7.20"], "has the history of the session and the task", async () => {
    const store = memoryStore();
    const lead = part("lead", [says("One."), says("Two."), says("Forked.")]);
    const orchestrator = new Orchestrator({ store, roles: [lead.role] });
    const session = await orchestrator.openSession("talk");
    await orchestrator.start(lead.role, "First.", { session }).result;
    const run = orchestrator.start(lead.role, "Second.", { session });
    await run.result;
    const forked = await orchestrator.fork(run.snapshot(), { atStep: 0 }).result;
    expect(forked.text).toBe("Forked.");
    expect(shown(lead, 2)).toEqual(shown(lead, 1));
  });

  proves(["S7.20"], "begins with the task if the run took no step", async () => {
    const lead = part("lead", [says("Forked.")]);
    const s = newFixture();
    const run = s.start(lead.role);
    run.requestStop();
    const { result, snapshot } = await rested(s, run);
    expect([result.reason.code, result.steps.length]).toEqual(["stop_requested", 0]);
    const forked = await s.outcome(s.fork(lead.role, snapshot));
    expect([forked.text, shown(lead, 0)]).toEqual(["Forked.", FIRST_INPUT]);
  });
});

describe("a fork of a run that was paused in its first step", () => {
  for (const atStep of [undefined, 0]) {
    const what = atStep === undefined ? "its last completed step" : "step 0";
    proves(["S7.20"], `repeats the first input without questions at ${what}`, async () => {
      const pay = payTool();
      const lead = part("lead", [calls(PAY), says("Forked.")], { tools: [pay] });
      const s = newFixture();
      const paused = await s.run(lead.role);
      expect([paused.status, paused.steps.length]).toEqual(["paused", 0]);
      const options = atStep === undefined ? {} : { atStep };
      const forked = await s.outcome(s.fork(lead.role, paused.pausedRun, options));
      expect([forked.text, forked.questions, pay.paid]).toEqual(["Forked.", [], []]);
      expect(shown(lead, 1)).toEqual(FIRST_INPUT);
    });
  }

  proves(
    ["S7.20"],
    "passes the task through the hooks if the run was paused before its first model call",
    async () => {
      const lead = part("lead", [says("Forked.")], {
        hooks: [transform("userInput", ({ task }) => ({ task: `${task} Please.` }))],
      });
      const s = newFixture();
      const run = s.start(lead.role);
      run.requestPause();
      const paused = await s.outcome(run);
      expect([paused.status, lead.model.requests.length]).toEqual(["paused", 0]);
      const forked = await s.outcome(s.fork(lead.role, paused.pausedRun));
      expect([forked.text, shown(lead, 0)]).toEqual([
        "Forked.",
        ["system: You are lead.", "user: Do it. Please."],
      ]);
    },
  );
});

describe("a fork with a role of its own", () => {
  proves(
    ["S7.20"],
    "uses it instead of the registered role of that name, even where other roles refer to it",
    async () => {
      const { lead, worker } = threeSteps([]);
      const helper = part("helper", [], { subagents: [lead.role] });
      const s = newFixture({ roles: [lead.role, worker.role, helper.role] });
      const { snapshot } = await rested(s, s.start(lead.role));
      const other = part("lead", [calls(use("look")), says("Otherwise.")], {
        subagents: [worker.role],
        tools: [look],
      });
      const forked = await s.outcome(s.fork(other.role, snapshot, { atStep: 1 }));
      expect([forked.text, other.model.requests.length]).toEqual(["Otherwise.", 2]);
    },
  );

  test("does not change that `start` refuses two different roles of one name", () => {
    const { lead } = threeSteps([]);
    const other = part("lead", []);
    const s = newFixture({ roles: [lead.role] });
    expect(() => s.start(other.role)).toThrow(/two different roles named "lead"/);
  });
});
