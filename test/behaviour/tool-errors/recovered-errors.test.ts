// Goal: tool errors are reported beside the end of the agent, and neither determines the other.
// Method: scripts in which the model recovers, or does not, alone and in a tree; the complete list
// of tool errors compared.

import { expect, test } from "vitest";

import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll } from "../../support/pause-stories.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";
import { acting, fails, retries, succeeds, throws } from "../../support/tool-acts.ts";

const DONE = says("Done.");

proves(["R168"], "lists the tool error of a completed agent", async () => {
  const { role } = soloist([calls(use("t")), DONE], { tools: [acting("t", [fails])] });
  const result = await newFixture().run(role);
  expect([result.status, result.reason.code, result.text]).toEqual([
    "completed",
    "completed",
    "Done.",
  ]);
  const [agent] = result.agents;
  expect(agent?.toolErrors).toEqual([
    {
      callId: "call_1",
      toolName: "t",
      stepNumber: 1,
      code: "tool_error",
      severity: "recoverable",
      message: "t failed: broken",
    },
  ]);
  expect(agent?.errors).toEqual([]);
});

proves(
  ["R168"],
  "lists failed, retried, denied and unknown calls in call order, and no others",
  async () => {
    const guards = [
      toolGuard(() => ({ type: "deny", reason: "No." }), { name: "no", tools: ["held"] }),
    ];
    const tools = [
      acting("bad", [fails]),
      acting("good", [succeeds]),
      acting("again", [retries]),
      spyTool("held"),
      acting("shut", [throws(new ToolError("Shut.", { severity: "fatal" }))]),
    ];
    const { role } = soloist(
      [
        calls(use("good"), use("again"), use("nobody")),
        calls(use("held"), use("good"), use("shut")),
        DONE,
      ],
      { tools, guards },
    );
    const result = await newFixture().run(role);
    expect(result.status).toBe("completed");
    expect(
      result.agents[0]?.toolErrors.map(({ stepNumber, callId, code, severity }) => [
        stepNumber,
        callId,
        code,
        severity,
      ]),
    ).toEqual([
      [1, "call_2", "tool_retry", "retryable"],
      [1, "call_3", "unknown_tool", "recoverable"],
      [2, "call_4", "blocked", "fatal"],
      [2, "call_6", "tool_error", "fatal"],
    ]);
  },
);

test("returns an empty list for an agent without errors", async () => {
  const { role } = soloist([calls(use("t")), DONE], { tools: [acting("t", [succeeds])] });
  expect((await newFixture().run(role)).agents[0]?.toolErrors).toEqual([]);
});

test("lists no calls that never started", async () => {
  const { role } = soloist([calls(use("t"), use("t")), DONE], { tools: [acting("t", [succeeds])] });
  const result = await newFixture().run(role, { budget: { toolCalls: 1 } });
  expect([result.status, result.agents[0]?.toolErrors]).toEqual(["stopped", []]);
});

proves(["R168"], "lists the errors of each agent of a tree separately", async () => {
  const child = part("child", [calls(use("t")), says("Child.")], {
    tools: [acting("t", [fails])],
  });
  const broken = part("broken", [{ error: new Error("no") }]);
  const root = part("root", [calls(spawn("child"), spawn("broken")), says("Root.")], {
    subagents: [child.role, broken.role],
  });
  const result = await newFixture().run(root.role);
  expect(
    result.agents.map(({ status, toolErrors }) => [status, toolErrors.map(({ code }) => code)]),
  ).toEqual([
    ["completed", ["subagent_failed"]],
    ["completed", ["tool_error"]],
    ["failed", []],
  ]);
});

test("preserves the list across a pause", async () => {
  const tools = [acting("t", [fails]), spyTool("pay", () => "paid", { needsApproval: true })];
  const { role } = soloist([calls(use("t")), calls(use("t"), use("pay")), DONE], { tools });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect(
    result.agents[0]?.toolErrors.map(({ stepNumber, callId }) => [stepNumber, callId]),
  ).toEqual([
    [1, "call_1"],
    [2, "call_2"],
  ]);
});

test("returns the list as plain JSON data", async () => {
  const { role } = soloist([calls(use("t")), DONE], { tools: [acting("t", [fails])] });
  const [agent] = (await newFixture().run(role)).agents;
  expect(JSON.parse(JSON.stringify(agent?.toolErrors))).toEqual(agent?.toolErrors);
});
