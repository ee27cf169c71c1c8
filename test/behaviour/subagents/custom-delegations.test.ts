// Goal: spawning is a service of the context: a delegation uses the public API only, and obeys the
// same laws.
// Method: delegations of users, imported from the public entry only; roles, limits, pauses.

import { expect, test } from "vitest";

import type { DelegationContext } from "../../../src/index.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, asked, ending } from "../../support/pause-stories.ts";
import { calls, ends, part, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { delegation, plain } from "../../support/custom-delegations.ts";
import { outcomes } from "../../support/call-outcomes.ts";

proves(["R171"], "starts a child and returns its result with the public context only", async () => {
  const child = part("child", [says("Child.")]);
  const root = part("root", [calls(use("delegate")), says("ok")], {
    tools: [plain],
    subagents: [child.role],
  });
  const fixture = newFixture();
  const result = await fixture.run(root.role);
  expect([
    ending(result),
    ends(result),
    outcomes(result).map(([name, type]) => [name, type]),
  ]).toEqual([["completed", "completed"], ["completed", "completed"], [["delegate", "succeeded"]]]);
  expect(child.model.requests[0]?.messages.map(({ text }) => text)).toEqual([
    "You are child.",
    "Help root.",
  ]);
  expect(JSON.parse(receivedTexts(root.model.requests[1])[0] ?? "")).toMatchObject({
    outcome: "completed",
    text: "Child.",
  });
  expect(
    fixture.sink
      .ofType("agent.started")
      .map(({ agentPath, spawnCallId }) => [agentPath, spawnCallId]),
  ).toEqual([
    ["root", null],
    ["root/child#1", "call_1"],
  ]);
  expect(root.model.requests[0]?.tools.map(({ name }) => name)).toEqual([
    "delegate",
    "SpawnSubagent",
  ]);
});

proves(["R171"], "receives a context of read-only data and services, without state", async () => {
  const contexts: DelegationContext[] = [];
  const keeper = delegation((context) => {
    contexts.push(context);
    return context.spawn({ role: "child", task: "Work." });
  });
  const child = part("child", [says("Child.")]);
  const root = part("root", [calls(use("delegate")), says("ok")], {
    tools: [keeper],
    subagents: [child.role],
  });
  await newFixture().run(root.role);
  expect(
    contexts.map((context) => [Object.isFrozen(context), Object.keys(context).toSorted()]),
  ).toEqual([
    [
      true,
      [
        "agentId",
        "agentPath",
        "callId",
        "context",
        "depth",
        "executionId",
        "idempotencyKey",
        "maxRetries",
        "messages",
        "metadata",
        "queueSubtask",
        "reportProgress",
        "retryCount",
        "runId",
        "signal",
        "spawn",
        "stepNumber",
        "subagents",
      ],
    ],
  ]);
});

proves(
  ["R171"],
  "refuses a role that the agent may not start, even if another agent of the tree may",
  async () => {
    const other = part("other", [says("never")]);
    const child = part("child", [says("Child.")], { subagents: [other.role] });
    const root = part(
      "root",
      [
        calls(
          { toolName: "delegate", arguments: { role: "other" } },
          { toolName: "delegate", arguments: { role: "nobody" } },
          { toolName: "delegate", arguments: { role: "root" } },
        ),
        says("ok"),
      ],
      { tools: [plain], subagents: [child.role] },
    );
    const fixture = newFixture();
    const result = await fixture.run(root.role);
    expect(outcomes(result).map(([, type, code]) => [type, code])).toEqual(
      [1, 2, 3].map(() => ["refused", "unknown_role"]),
    );
    expect([result.agents.length, other.model.requests.length]).toEqual([1, 0]);
    expect(result.refusalsByCode).toEqual({ unknown_role: 3 });
    expect(fixture.sink.ofType("subagent.spawned")).toEqual([]);
  },
);

test("starts no subagent for an agent without subagents", async () => {
  const root = part("root", [calls(use("delegate")), says("ok")], { tools: [plain] });
  const result = await newFixture().run(root.role);
  expect([ending(result), outcomes(result).map(([, type, code]) => [type, code])]).toEqual([
    ["completed", "completed"],
    [["refused", "unknown_role"]],
  ]);
});

test("obeys the limits of the tree", async () => {
  const child = part("child", [says("1"), says("2")]);
  const root = part(
    "root",
    [calls(use("delegate"), use("delegate"), use("delegate")), says("ok")],
    {
      tools: [plain],
      subagents: [child.role],
    },
  );
  const result = await newFixture({ limits: { maxBreadthPerParent: 2 } }).run(root.role);
  expect(outcomes(result).map(([, type, code]) => [type, code])).toEqual([
    ["succeeded", ""],
    ["succeeded", ""],
    ["refused", "breadth_limit"],
  ]);
});

proves(
  ["R171"],
  "pauses the run with its paused child, which continues elsewhere after resumption",
  async () => {
    const pay = spyTool("pay", () => "paid", { needsApproval: true });
    const build = (root: readonly ScriptedReply[], child: readonly ScriptedReply[]) =>
      part("root", root, {
        tools: [plain],
        subagents: [part("child", child, { tools: [pay] }).role],
      });
    const fixture = newFixture();
    const paused = await fixture.run(build([calls(use("delegate"))], [calls(use("pay"))]).role);
    expect([ending(paused), asked(paused)]).toEqual([
      ["paused", "input_required"],
      [["root/child#1", "pay"]],
    ]);
    const again = build([says("ok")], [says("Paid it.")]);
    const result = await fixture.outcome(
      fixture.resume(again.role, paused.pausedRun, approveAll(paused)),
    );
    expect([ending(result), pay.calls.length, ends(result)]).toEqual([
      ["completed", "completed"],
      1,
      ["completed", "completed"],
    ]);
    expect(JSON.parse(receivedTexts(again.model.requests[0])[0] ?? "")).toMatchObject({
      text: "Paid it.",
    });
    expect(fixture.sink.ofType("tool.resumed").map(({ toolName }) => toolName)).toEqual([
      "delegate",
    ]);
  },
);
