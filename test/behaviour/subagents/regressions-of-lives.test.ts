// Goal: bugs in the life cycle of subagents that a review found stay fixed.
// Method: real runs with scripted models, latches and the manual clock.

import { leaveOpen } from "../../support/pause-stories.ts";
import { expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import { says, type ScriptedCall } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { thrownBy } from "../../support/thrown.ts";
import {
  calls,
  listens,
  part,
  spawn,
  receivedTexts,
  until,
  use,
} from "../../harness/scripted-agents.ts";

function beside(role: string): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { role, task: "Work.", background: true } };
}

test("an impossible spawn is refused before guards and hooks run", async () => {
  const asked: string[] = [];
  const worker = part("worker", []);
  const lead = part("lead", [calls(spawn("worker")), says("Done.")], {
    subagents: [worker.role],
    delegation: { reserve: { steps: 1 } },
    guards: [
      toolGuard(() => {
        asked.push("guard");
        return { type: "deny", reason: "Nobody may." };
      }),
    ],
    hooks: [transform("subagentStart", () => void asked.push("hook"))],
  });
  const s = newFixture();
  const result = await s.outcome(s.start(lead.role, "Do it.", { budget: { steps: 2 } }));
  expect([result.status, result.agents.length, asked]).toEqual(["completed", 1, []]);
  expect(receivedTexts(lead.model.requests[1])).toEqual([
    "Not started: 1 of 2 of the steps budget of lead are spent. The rest is reserved for the answer of lead. Answer with what you have.",
  ]);
  expect(s.sink.ofType("tool.started")).toEqual([]);
});

test("continuing a subagent with an earlier task requires an approval", async () => {
  const worker = part("worker", () => says("Worked."));
  const goOn = calls({
    toolName: "SpawnSubagent",
    arguments: { role: "worker", task: "Work.", continue: "worker#1" },
  });
  const lead = part("lead", [calls(spawn("worker")), goOn, goOn], {
    subagents: [worker.role],
    delegation: { maxIdenticalDelegations: 2 },
  });
  const paused = await newFixture({ approver: leaveOpen }).run(lead.role);
  expect([paused.status, worker.model.requests.length]).toEqual(["paused", 2]);
});

test("a detached agent obeys the time limit of its run after the root has ended", async () => {
  const worker = part("worker", [calls(use("listen"))], { tools: [listens("listen")] });
  const lead = part("lead", [calls(beside("worker")), says("Done.")], {
    subagents: [worker.role],
    delegation: { background: true, parentEndPolicy: "detach" },
  });
  const s = newFixture();
  const run = s.start(lead.role, "Do it.", { budget: { timeMs: 1_000 } });
  await run.result;
  await until(() => s.sink.ofType("tool.started").some(({ toolName }) => toolName === "listen"));
  s.clock.advance(1_000);
  const result = await s.outcome(run);
  expect(
    result.agents.map(({ agentPath, status, reason }) => [agentPath, status, reason.code]),
  ).toEqual([
    ["lead", "completed", "completed"],
    ["lead/worker#1", "stopped", "time_limit"],
  ]);
});

test("a result that was unread when a limit stopped the agent is read after the grant", async () => {
  const worker = part("worker", [says("Worked.")]);
  const lead = part("lead", [calls(beside("worker")), says("Done.")], {
    subagents: [worker.role],
    delegation: { background: true },
  });
  const s = newFixture();
  const run = s.start(lead.role, "Do it.", { budget: { steps: 2 } });
  const stopped = await s.outcome(run);
  expect(stopped.reason.code).toBe("step_limit");
  const again = s.grantOn(lead.role, run.snapshot(), [{ budget: { steps: 1 }, by: "Ada" }]);
  const result = await s.outcome(again);
  expect(result.text).toBe("Done.");
  expect(
    receivedTexts(lead.model.requests[1]).some((text) => text.startsWith("worker#1, which ran in")),
  ).toBe(true);
});

test("a pause request after the end of the root does not affect detached agents", async () => {
  const held = latch();
  const worker = part("worker", [says("Worked.", { after: held.opened })]);
  const lead = part("lead", [calls(beside("worker")), says("Done.")], {
    subagents: [worker.role],
    delegation: { background: true, parentEndPolicy: "detach" },
  });
  const s = newFixture();
  const run = s.start(lead.role);
  await run.result;
  run.requestPause();
  held.open();
  const result = await s.outcome(run);
  expect(result.agents.map(({ status }) => status)).toEqual(["completed", "completed"]);
});

test("a fork of an answer requires a message", async () => {
  const lead = part("lead", [says("Done.")]);
  const s = newFixture();
  const run = s.start(lead.role);
  await s.outcome(run);
  const error = thrownBy(() => s.fork(lead.role, run.snapshot()));
  expect([error.code, error.message]).toEqual([
    "invalid_argument",
    "Expected fork options.message to be set, since lead has answered by step 1, got undefined. Pass the next task.",
  ]);
});
