// Goal: a run has one documented sequence of hook points and events.
// Method: compare the whole list of a recorder at every point and for every event.

import { expect } from "vitest";

import { approve } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { hookRecorder } from "../../support/hook-recorder.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

/** One model call of an agent, from the hooks before it to its settlement. */
function modelCall(agent: string): readonly string[] {
  return [
    `${agent}: beforeModel`,
    `${agent}: (budget.reserved)`,
    `${agent}: (step.started)`,
    `${agent}: wrapModelCall`,
    `${agent}: (model.requested)`,
    `${agent}: (model.replied)`,
    `${agent}: wrapModelCall ends`,
    `${agent}: (budget.settled)`,
  ];
}

const WITH_A_TOOL = [
  ...modelCall("lead"),
  "lead: beforeTool",
  "lead: (tool.started)",
  "lead: wrapToolCall work",
  "lead: wrapToolCall work ends",
  "lead: afterTool",
  "lead: (tool.ended)",
  "lead: (step.completed)",
  "lead: processStep 1",
  "lead: (continuation.evaluated)",
];

const CHILD = [
  "lead/child#1: (agent.started)",
  ...modelCall("lead/child#1"),
  "lead/child#1: (step.completed)",
  "lead/child#1: processStep 1",
  "lead/child#1: subagentStop",
  "lead/child#1: (signal.raised)",
  "lead/child#1: (continuation.evaluated)",
  "lead/child#1: (agent.ended)",
];

const WITH_A_CHILD = [
  ...modelCall("lead"),
  "lead: beforeTool",
  "lead: (tool.started)",
  "lead: subagentStart",
  "lead: (subagent.spawned)",
  ...CHILD,
  "lead: (subagent.ended)",
  "lead: afterTool",
  "lead: (tool.ended)",
  "lead: (step.completed)",
  "lead: processStep 2",
  "lead: (continuation.evaluated)",
];

const WITH_THE_ANSWER = [
  "lead: beforeCompaction",
  "lead: (conversation.compacted)",
  ...modelCall("lead"),
  "lead: (step.completed)",
  "lead: processStep 3",
  "lead: stop",
  "lead: (signal.raised)",
  "lead: (continuation.evaluated)",
  "lead: (agent.ended)",
];

proves(
  ["R89"],
  "records the documented sequence of a run with one tool and one child",
  async () => {
    const { hooks, log } = hookRecorder();
    const child = part("child", [says("Child.")]);
    const lead = part("lead", [asks("work", {}), calls(spawn("child")), says("Done.")], {
      tools: [spyTool("work")],
      subagents: [child.role],
      compaction: { maxInputTokens: 50, keepMessages: 2 },
      scripted: { countTokens: ({ messages }) => (messages.length > 4 ? 100 : 10) },
    });
    const result = await newFixture({ hooks }).run(lead.role);
    expect(result.status).toBe("completed");
    expect(log).toEqual([
      "lead: (run.started)",
      "lead: (agent.started)",
      "run: userInput",
      ...WITH_A_TOOL,
      ...WITH_A_CHILD,
      ...WITH_THE_ANSWER,
      "lead: (run.ended)",
    ]);
  },
);

proves(
  ["R89", "R76"],
  "reports a question, a pause and a resumption to observers in order",
  async () => {
    const { hooks, log } = hookRecorder();
    const work = spyTool("work", () => "done", { needsApproval: true });
    const { role } = soloist([asks("work", {}), says("Done.")], { tools: [work], hooks });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const [question] = paused.questions;
    if (question === undefined) throw new Error("There is no question.");
    await fixture.outcome(fixture.resume(role, paused.pausedRun, [approve(question)]));
    expect(log).toEqual([
      "solo: (run.started)",
      "solo: (agent.started)",
      "run: userInput",
      ...modelCall("solo"),
      "solo: beforeTool",
      "solo: (question.asked)",
      "solo: (agent.paused)",
      "solo: (run.paused)",
      "solo: (run.resumed)",
      "solo: (agent.resumed)",
      "solo: (question.answered)",
      "solo: (tool.started)",
      "solo: wrapToolCall work",
      "solo: wrapToolCall work ends",
      "solo: afterTool",
      "solo: (tool.ended)",
      "solo: (step.completed)",
      "solo: processStep 1",
      "solo: (continuation.evaluated)",
      ...modelCall("solo"),
      "solo: (step.completed)",
      "solo: processStep 2",
      "solo: stop",
      "solo: (signal.raised)",
      "solo: (continuation.evaluated)",
      "solo: (agent.ended)",
      "solo: (run.ended)",
    ]);
  },
);
