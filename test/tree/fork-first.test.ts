// Goal: a run is forked at its very beginning: before its first step, out of a pause in it, and with another role of the same name.
// Method: real runs; what the models of the fork are shown is compared with what those of the original were.

import { describe, expect, test } from "vitest";

import { transform } from "../../src/hooks/hook.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { says } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { rested } from "../support/life-agents.ts";
import { look, PAY, shown, threeSteps } from "../support/life-forks.ts";
import { payTool } from "../support/pause-stories.ts";
import { calls, part, spawn, use } from "./scripted-agents.ts";

const FIRST_INPUT = ["system: You are lead.", "user: Do it."];

describe("a fork before the first step", () => {
  proves(["S7.20"], "gives the first input again, and nothing that came after it", async () => {
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
    expect(s.sink.of("run.started").at(-1)?.forkedFrom?.stepNumber).toBe(0);
  });

  proves(["S7.20"], "may get a message besides", async () => {
    const { lead } = threeSteps([says("Forked.")]);
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    await s.outcome(s.fork(lead.role, snapshot, { atStep: 0, message: "In short." }));
    expect(shown(lead, 4)).toEqual([...FIRST_INPUT, "user: In short."]);
  });

  proves(["S7.20"], "on a session has the history that the session had, and the task", async () => {
    const store = memoryStore();
    const lead = part("lead", [says("One."), says("Two."), says("Forked.")]);
    const orchestrator = new Orchestrator({ store, roles: [lead.role] });
    const session = await orchestrator.session("talk");
    await orchestrator.start(lead.role, "First.", { session }).result;
    const run = orchestrator.start(lead.role, "Second.", { session });
    await run.result;
    const forked = await orchestrator.fork(run.snapshot(), { atStep: 0 }).result;
    expect(forked.text).toBe("Forked.");
    expect(shown(lead, 2)).toEqual(shown(lead, 1));
  });

  proves(["S7.20"], "of a run that never took a step begins with its task", async () => {
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
    proves(["S7.20"], `at ${what} gives the first input again, and asks nothing`, async () => {
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

  proves(["S7.20"], "before its first model call, takes the task as a new run would", async () => {
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
  });
});

describe("a fork with a role of its own", () => {
  proves(
    ["S7.20"],
    "takes it in place of the one that the registry knows under that name, also where others name it",
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

  test("starting one that differs from a known role of its name is refused as before", () => {
    const { lead } = threeSteps([]);
    const other = part("lead", []);
    const s = newFixture({ roles: [lead.role] });
    expect(() => s.start(other.role)).toThrow(/two different roles named "lead"/);
  });
});
