// Goal: those that one reply started end with one another also where they wait for an answer: before a pause, over it and after it.
// Method: real runs that are paused and continue in fresh orchestrators; members work until they are asked to end, so none is forgotten unseen.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { approve, deny } from "../../src/protocol/question.ts";
import { says } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { proves } from "../harness/proves.ts";
import { beside, idOf, onward, rests, settlements } from "../support/life-agents.ts";
import { calls, spawn, tool, until, use } from "./scripted-agents.ts";
import {
  newGroup,
  members,
  FAILED,
  COMPLETED,
  CANCELLED,
  receivedTexts1,
} from "../support/life-groups.ts";

describe("members that wait for an approval", () => {
  proves(["X11"], "end with their sibling: no approver is asked any more", async () => {
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

  test("the same once enough have completed", async () => {
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
    "after the pause they are one group still, in a fresh orchestrator (%o)",
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

  test("what had completed before the pause counts after it", async () => {
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

  test("and what could not complete before it does not after it", async () => {
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

  test("denied, a member continues and may complete: it ends no other", async () => {
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

test("a parent that is cancelled ends all members, whatever the policy", async () => {
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

describe("one reply is one group", () => {
  test("also if a tool that runs alone stands between its delegations", async () => {
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

  test("and subtasks are none of it: one that fails ends no subagent of the next reply", async () => {
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

  test("a reply that only continues is one, too", async () => {
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
