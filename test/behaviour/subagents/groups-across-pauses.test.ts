// Goal: subagents started by one reply form one group before, during and after a pause for
// approvals.
// Method: real runs that are paused and resumed in fresh orchestrators. Members work until they are
// cancelled, so a forgotten member makes the test hang.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { approve, deny } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { beside, idOf, onward, rests, settlements } from "../../support/life-agents.ts";
import { calls, spawn, tool, until, use } from "../../harness/scripted-agents.ts";
import {
  newGroup,
  members,
  FAILED,
  COMPLETED,
  CANCELLED,
  receivedTexts1,
} from "../../support/life-groups.ts";

describe("group members that wait for an approval", () => {
  proves(["X11"], "are cancelled with their sibling, and no question remains", async () => {
    const one = newGroup("fail_fast", [
      members("Ask and succeed.", "Look and fail."),
      says("Done."),
    ]);
    const run = one.fixture.start(one.lead.role);
    await until(() => one.fixture.sink.ofType("agent.paused").length === 1);
    one.look.open();
    const result = await one.fixture.outcome(run);
    expect([result.status, result.questions, receivedTexts1(one)]).toEqual([
      "completed",
      [],
      [CANCELLED, FAILED],
    ]);
    expect(settlements(one.fixture)).toEqual(["lead/member#2 failed", "lead/member#1 cancelled"]);
  });

  test("are cancelled once enough members have completed", async () => {
    const one = newGroup({ quorum: 1 }, [
      members("Ask and succeed.", "Look and succeed."),
      says("Done."),
    ]);
    const run = one.fixture.start(one.lead.role);
    await until(() => one.fixture.sink.ofType("agent.paused").length === 1);
    one.look.open();
    const result = await one.fixture.outcome(run);
    expect([result.status, receivedTexts1(one)]).toEqual(["completed", [CANCELLED, COMPLETED]]);
  });

  test.each([spawn, beside])(
    "remain one group after the pause in a fresh orchestrator (%o)",
    async (start) => {
      const one = newGroup("fail_fast", [
        calls(start("member", "Ask and work on."), start("member", "Ask and fail.")),
        says("Early."),
        says("Late."),
        says("Later."),
      ]);
      const paused = await one.fixture.outcome(one.fixture.start(one.lead.role));
      expect([paused.status, paused.questions.length]).toEqual(["paused", 2]);
      const answers = paused.questions.map((question) => approve(question));
      const result = await one.fixture.outcome(
        one.fixture.resume(one.lead.role, paused.pausedRun, answers),
      );
      expect([result.status, settlements(one.fixture)]).toEqual([
        "completed",
        ["lead/member#2 failed", "lead/member#1 cancelled"],
      ]);
    },
  );

  test("count members that completed before the pause", async () => {
    const one = newGroup({ quorum: 2 }, [
      members("Succeed.", "Ask and work on.", "Ask and succeed."),
      says("Done."),
    ]);
    const paused = await one.fixture.outcome(one.fixture.start(one.lead.role));
    const answers = paused.questions.map((question) => approve(question));
    const result = await one.fixture.outcome(
      one.fixture.resume(one.lead.role, paused.pausedRun, answers),
    );
    expect([result.status, rests(result)]).toEqual([
      "completed",
      {
        lead: "completed",
        "lead/member#1": "completed",
        "lead/member#2": "cancelled (cancelled)",
        "lead/member#3": "completed",
      },
    ]);
  });

  test("count members that failed before the pause", async () => {
    const one = newGroup({ quorum: 2 }, [
      members("Fail.", "Ask and work on.", "Ask and fail."),
      says("Done."),
    ]);
    const paused = await one.fixture.outcome(one.fixture.start(one.lead.role));
    const answers = paused.questions.map((question) => approve(question));
    const result = await one.fixture.outcome(
      one.fixture.resume(one.lead.role, paused.pausedRun, answers),
    );
    expect(rests(result)).toMatchObject({
      "lead/member#2": "cancelled (cancelled)",
      "lead/member#3": "failed (error)",
    });
  });

  test("continue and may complete if they are denied, without ending others", async () => {
    const one = newGroup("fail_fast", [
      members("Ask and succeed.", "Ask and succeed."),
      says("Done."),
    ]);
    const paused = await one.fixture.outcome(one.fixture.start(one.lead.role));
    const [first, second] = paused.questions;
    if (first === undefined || second === undefined) expect.fail("no questions");
    const result = await one.fixture.outcome(
      one.fixture.resume(one.lead.role, paused.pausedRun, [deny(first, "No."), approve(second)]),
    );
    expect([result.status, receivedTexts1(one)]).toEqual(["completed", [COMPLETED, COMPLETED]]);
  });
});

test("cancelling a parent ends all members, whatever the policy", async () => {
  for (const failurePolicy of ["isolate", "fail_fast", { quorum: 1 }] as const) {
    const one = newGroup(failurePolicy, [members("Work on.", "Work on."), says("Never.")]);
    const run = one.fixture.start(one.lead.role);
    await until(() => one.fixture.sink.ofType("tool.started").length === 4);
    void run.cancel("Enough.");
    const result = await one.fixture.outcome(run);
    expect(rests(result)).toEqual({
      lead: "cancelled (cancelled)",
      "lead/member#1": "cancelled (cancelled)",
      "lead/member#2": "cancelled (cancelled)",
    });
    expect(idOf(result, "lead")).toBe("agent_1");
  }
});

describe("the delegations of one reply", () => {
  test("form one group even if a sequential tool runs between them", async () => {
    const alone = defineTool({
      name: "alone",
      description: "Runs alone.",
      inputSchema: z.object({}),
      sequential: true,
      execute: () => "ran alone",
    });
    const one = newGroup(
      { quorum: 2 },
      [
        calls(spawn("member", "Succeed."), use("alone"), spawn("member", "Succeed.")),
        says("Done."),
      ],
      { tools: [alone] },
    );
    await one.fixture.run(one.lead.role);
    expect(receivedTexts1(one)).toEqual([COMPLETED, "ran alone", COMPLETED]);
  });

  test("do not include subtasks, so a failed subtask ends no subagent of the next reply", async () => {
    const plan = tool("plan", ({ queueSubtask }) => {
      queueSubtask({ role: "member", task: "Fail." });
      return "planned";
    });
    const one = newGroup(
      "fail_fast",
      [calls(use("plan")), members("Succeed.", "Succeed."), says("Done.")],
      { tools: [plan] },
    );
    const result = await one.fixture.run(one.lead.role);
    expect([receivedTexts1(one, 2), result.refusalsByCode]).toEqual([[COMPLETED, COMPLETED], {}]);
  });

  test("form one group if they only continue subagents", async () => {
    const one = newGroup({ quorum: 1 }, [
      members("Succeed.", "Fail."),
      calls(onward("member#1", "Work on."), onward("member#2", "Succeed.")),
      says("Done."),
    ]);
    const result = await one.fixture.run(one.lead.role);
    expect([result.status, settlements(one.fixture).slice(-2)]).toEqual([
      "completed",
      ["lead/member#2 completed", "lead/member#1 cancelled"],
    ]);
  });
});
