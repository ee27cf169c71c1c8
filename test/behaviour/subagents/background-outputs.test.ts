// Goal: an agent with a typed result may wait for its background subagents with a text, as any
// other agent.
// Method: real runs with scripted models; complete lists of the messages to the agent.

import { expect } from "vitest";
import { z } from "zod";

import { approve } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, receivedTexts, use } from "../../harness/scripted-agents.ts";

const TYPED = {
  delegation: { background: true },
  output: z.object({ count: z.int() }),
} as const;

const beside = (role: string) => ({
  toolName: "SpawnSubagent",
  arguments: { role, task: "Work.", background: true },
});

const report = (name: string): unknown =>
  expect.stringContaining(`${name}, which ran in the background`);

proves(
  ["D303"],
  "an agent that waits several times and works in between returns its typed result at the end",
  async () => {
    const names = ["one", "two", "three"] as const;
    const workers = names.map((name) =>
      part(name, [calls(use("look")), says("Worked.")], {
        tools: [spyTool("look")],
      }),
    );
    const waits = names.flatMap((name) => [calls(beside(name)), says("I wait.")]);
    const lead = part("lead", [...waits, calls(use("look")), asks("Finish", { count: 3 })], {
      ...TYPED,
      subagents: workers.map(({ role }) => role),
      tools: [spyTool("look")],
    });
    const fixture = newFixture();
    const { status, output, agents } = await fixture.run(lead.role);
    expect([status, output, agents.map((agent) => agent.status)]).toEqual([
      "completed",
      { count: 3 },
      Array.from({ length: 4 }, () => "completed"),
    ]);
    const told = lead.model.requests.map((request) => receivedTexts(request));
    expect([told[2], told[4], told[6], told[7]]).toEqual([
      [report("one#1")],
      [report("two#1")],
      [report("three#1")],
      ["look done"],
    ]);
  },
);

proves(
  ["D303"],
  "a question of a background subagent pauses a run with a typed result, and is answered on resume",
  async () => {
    const ask = spyTool("ask", undefined, { needsApproval: true });
    const worker = part("worker", [asks("ask", {}), says("Worked.")], { tools: [ask] });
    const lead = part(
      "lead",
      [calls(beside("worker")), says("I wait."), says("Hm."), asks("Finish", { count: 1 })],
      { ...TYPED, subagents: [worker.role] },
    );
    const fixture = newFixture();
    const paused = await fixture.run(lead.role);
    expect([paused.status, lead.model.requests.length]).toEqual(["paused", 2]);
    const [question = expect.fail()] = paused.questions;
    const resumed = fixture.resume(lead.role, paused.pausedRun, [approve(question)]);
    const { status, output } = await fixture.outcome(resumed);
    expect([status, output]).toEqual(["completed", { count: 1 }]);
    // The agent is asked for its result once no subagent works for it any more.
    expect(lead.model.requests.slice(2).map((request) => receivedTexts(request))).toEqual([
      [report("worker#1")],
      [expect.stringContaining("You have not given your result yet: ")],
    ]);
  },
);

proves(["D308"], "an agent with an empty reply waits for its subagents each time", async () => {
  const workers = ["one", "two"].map((name) =>
    part(name, [calls(use("look")), says("Worked.")], { tools: [spyTool("look")] }),
  );
  const lead = part(
    "lead",
    [calls(beside("one")), says(""), says(" "), calls(beside("two")), says(""), says("Done.")],
    { delegation: { background: true }, subagents: workers.map(({ role }) => role) },
  );
  const { status, text, agents } = await newFixture().run(lead.role);
  expect([status, text, agents.map((agent) => agent.status)]).toEqual([
    "completed",
    "Done.",
    Array.from({ length: 3 }, () => "completed"),
  ]);
  const told = lead.model.requests.map((request) => receivedTexts(request).at(-1));
  expect([told[2], told[5]]).toEqual([report("one#1"), report("two#1")]);
});
