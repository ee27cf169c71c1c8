// Goal: a grant to a running run applies at once to each agent that waits for it or has not been
// stopped yet, and is recorded.
// Method: real runs that are held at a latch or a clock while the caller grants more; events,
// accounts and ends compared in full.

import { describe, expect, test } from "vitest";

import type { EventSink } from "../../../src/protocol/event.ts";
import { approve } from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { payTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import {
  aborted,
  byTask,
  calls,
  part,
  quiet,
  spawn,
  tool,
  until,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";

const BY = "Ada, who pays.";
const PAY = { toolName: "pay", arguments: { amount: 1 } };

/** An agent that waits in its first step, then takes another one and answers in the third. */
function held(): { readonly solo: Part; readonly open: () => void } {
  const { opened, open } = latch();
  const wait = tool("wait", async () => {
    await opened;
    return "opened";
  });
  const work = tool("work", () => "done");
  const solo = part("solo", [calls(use("wait")), calls(use("work")), says("Done.")], {
    tools: [wait, work],
  });
  return { solo, open };
}

function grants({ sink }: Fixture): readonly unknown[] {
  return sink
    .ofType("budget.granted")
    .map(({ accountPath, budget, by, remaining }) => ({ accountPath, budget, by, remaining }));
}

describe("a grant to a running run", () => {
  proves(
    ["X7"],
    "lets an agent below its limit continue, and is recorded with its author",
    async () => {
      const { solo, open } = held();
      const s = newFixture();
      const run = s.start(solo.role, "Do it.", { budget: { steps: 1 } });
      await until(() => s.sink.ofType("tool.started").length === 1);
      s.clock.advance(5);
      expect(run.grant({ steps: 2 }, { by: BY })).toBe(true);
      open();
      const result = await s.outcome(run);
      expect([result.status, result.text]).toEqual(["completed", "Done."]);
      expect(grants(s)).toEqual([
        { accountPath: "solo", budget: { steps: 2 }, by: BY, remaining: { steps: 2 } },
      ]);
      const [account] = result.accounts;
      expect([account?.limits, account?.grants]).toEqual([
        { steps: 3 },
        [{ by: BY, atMs: 5, budget: { steps: 2 } }],
      ]);
    },
  );

  test("is necessary for the same agent to continue", async () => {
    const { solo, open } = held();
    open();
    const result = await newFixture().run(solo.role, { budget: { steps: 1 } });
    expect([result.status, result.reason.code]).toEqual(["stopped", "step_limit"]);
  });

  proves(["X7"], "serves children that wait for a lease in order", async () => {
    const first = latch();
    const replies = [says("1.", { after: first.opened }), says("2."), says("3.")];
    const child = part("child", () => replies.shift() ?? says("Too many."), {
      maxOutputTokens: 30,
    });
    const three = calls(spawn("child", "A"), spawn("child", "B"), spawn("child", "C"));
    const lead = part("lead", [three, says("Done.")], {
      subagents: [child.role],
      maxOutputTokens: 5,
    });
    const s = newFixture();
    const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 75 } });
    await until(() => child.model.requests.length === 1);
    await quiet();
    s.clock.advance(8);
    expect(child.model.requests).toHaveLength(1);
    expect(run.grant({ totalTokens: 40 }, { by: BY })).toBe(true);
    await until(() => s.sink.ofType("agent.ended").length === 2);
    const waited = (): readonly unknown[] =>
      s.sink.ofType("budget.reserved").map(({ agentPath, waitedMs }) => [agentPath, waitedMs]);
    expect(waited().slice(1)).toEqual([
      ["lead/child#1", 0],
      ["lead/child#2", 8],
      ["lead/child#3", 8],
    ]);
    first.open();
    const result = await s.outcome(run);
    expect(result.agents.map(({ status }) => status)).toEqual(Array(4).fill("completed"));
  });

  proves(["X7"], "raises the limit of one subagent alone", async () => {
    const { opened, open } = latch();
    const wait = tool("wait", async () => await opened);
    const waits = [calls(use("wait")), says("Child.")];
    const child = part("child", byTask({ A: waits, B: waits }), {
      tools: [wait],
      budget: { steps: 1 },
    });
    const two = calls(spawn("child", "A"), spawn("child", "B"));
    const lead = part("lead", [two, says("Done.")], { subagents: [child.role] });
    const s = newFixture();
    const run = s.start(lead.role, "Do it.", { budget: { steps: 50 } });
    await until(() => s.sink.ofType("tool.started").length === 4);
    const first = s.sink.ofType("subagent.spawned")[0]?.childPath ?? expect.fail("no child");
    run.grant({ steps: 1 }, { by: BY, agentPath: first });
    open();
    const result = await s.outcome(run);
    expect(result.agents.map(({ status, text }) => [status, text])).toEqual([
      ["completed", "Done."],
      ["completed", "Child."],
      ["stopped", ""],
    ]);
    expect(result.accounts.map(({ agentPath: path, limits }) => [path, limits])).toEqual([
      ["lead", { steps: 50 }],
      ["lead/child#1", { steps: 2 }],
      ["lead/child#2", { steps: 1 }],
    ]);
    expect(grants(s)).toEqual([
      { accountPath: "lead/child#1", budget: { steps: 1 }, by: BY, remaining: { steps: 1 } },
    ]);
  });

  proves(["X7"], "moves the deadline to the millisecond if it adds time", async () => {
    const work = tool("work", ({ signal }) => aborted(signal));
    const solo = part("solo", [calls(use("work")), says("Done.")], { tools: [work] });
    const s = newFixture();
    const run = s.start(solo.role, "Do it.", { budget: { timeMs: 1_000 } });
    await until(() => s.sink.ofType("tool.started").length === 1);
    s.clock.advance(999);
    run.grant({ timeMs: 500 }, { by: BY });
    s.clock.advance(500);
    await quiet();
    expect(s.sink.ofType("agent.ended")).toEqual([]);
    s.clock.advance(1);
    const result = await s.outcome(run);
    expect([result.status, result.reason.code, result.durationMs]).toEqual([
      "stopped",
      "time_limit",
      1_500,
    ]);
    expect(grants(s)).toEqual([
      { accountPath: "solo", budget: { timeMs: 500 }, by: BY, remaining: { timeMs: 501 } },
    ]);
  });

  test("counts in the tick of the start, and its event follows the start of the run", async () => {
    const { solo, open } = held();
    open();
    const s = newFixture();
    const run = s.start(solo.role, "Do it.", { budget: { steps: 1 } });
    run.grant({ steps: 5 }, { by: BY });
    const result = await s.outcome(run);
    expect(result.status).toBe("completed");
    expect(s.sink.events.slice(0, 3).map(({ type }) => type)).toEqual([
      "run.started",
      "budget.granted",
      "agent.started",
    ]);
  });

  test("lets the run continue if a listener makes it at a threshold", async () => {
    const { solo, open } = held();
    open();
    const given: boolean[] = [];
    const generous: EventSink = {
      emit: ({ type }) => {
        if (type === "budget.threshold_reached" && given.length === 0)
          given.push(run.grant({ totalTokens: 100 }, { by: "A listener." }));
      },
    };
    const s = newFixture({ sinks: [generous] });
    const run = s.start(solo.role, "Do it.", { budget: { totalTokens: 18 } });
    const result = await s.outcome(run);
    expect([result.status, given]).toEqual(["completed", [true]]);
    expect(result.accounts[0]?.limits).toEqual({ totalTokens: 118 });
  });

  test("makes thresholds of the larger limit be reported again", async () => {
    const { solo, open } = held();
    const s = newFixture();
    const run = s.start(solo.role, "Do it.", { budget: { steps: 1 } });
    await until(() => s.sink.ofType("tool.started").length === 1);
    run.grant({ steps: 2 }, { by: BY });
    open();
    await s.outcome(run);
    const reached = s.sink.ofType("budget.threshold_reached");
    expect(reached.map(({ threshold, spent, maximum }) => [threshold, spent, maximum])).toEqual([
      [0.8, 1, 1],
      [0.95, 1, 1],
      [0.8, 3, 3],
      [0.95, 3, 3],
    ]);
  });
});

/** Returns the error code, and the field or agent that the error names. */
function complaint(cause: () => unknown): readonly unknown[] {
  const { code, data } = thrownBy(cause);
  return [code, data["field"] ?? data["agentPath"]];
}

describe("an impossible grant", () => {
  proves(["X7"], "throws an error with the field name, and changes nothing", async () => {
    const { solo, open } = held();
    const s = newFixture();
    const run = s.start(solo.role, "Do it.", { budget: { steps: 3, totalTokens: 500 } });
    const bad: readonly (readonly [given: readonly unknown[], why: readonly unknown[]])[] = [
      [
        [{}, { by: BY }],
        ["invalid_argument", "grant.budget"],
      ],
      [
        [{ steps: 0 }, { by: BY }],
        ["invalid_argument", "grant.budget"],
      ],
      [
        [{ steps: undefined }, { by: BY }],
        ["invalid_argument", "grant.budget"],
      ],
      [
        [{ steps: -0, totalTokens: 0 }, { by: BY }],
        ["invalid_argument", "grant.budget"],
      ],
      [
        [{ steps: -1 }, { by: BY }],
        ["invalid_argument", "grant.budget.steps"],
      ],
      [
        [{ steps: 0.5 }, { by: BY }],
        ["invalid_argument", "grant.budget.steps"],
      ],
      [
        [{ steps: NaN }, { by: BY }],
        ["invalid_argument", "grant.budget.steps"],
      ],
      [
        [{ step: 1 }, { by: BY }],
        ["invalid_argument", "grant.budget.step"],
      ],
      [
        [null, { by: BY }],
        ["invalid_argument", "grant.budget"],
      ],
      [
        [{ toolCalls: 1 }, { by: BY }],
        ["invalid_argument", "grant.budget.toolCalls"],
      ],
      [
        [{ steps: 1, costUsd: 1 }, { by: BY }],
        ["invalid_argument", "grant.budget.costUsd"],
      ],
      [
        [{ timeMs: 1 }, { by: BY }],
        ["invalid_argument", "grant.budget.timeMs"],
      ],
      [
        [{ steps: 1 }, {}],
        ["invalid_argument", "grant.by"],
      ],
      [
        [{ steps: 1 }, { by: " " }],
        ["invalid_argument", "grant.by"],
      ],
      [
        [{ steps: 1 }, { by: 7 }],
        ["invalid_argument", "grant.by"],
      ],
      [
        [{ steps: 1 }, { by: BY, agent: "solo" }],
        ["invalid_argument", "grant options.agent"],
      ],
      [
        [{ steps: 1 }, { by: BY, agentPath: "solo/nobody#1" }],
        ["unknown_agent", "solo/nobody#1"],
      ],
    ];
    for (const [given, why] of bad)
      expect(complaint(() => Reflect.apply(run.grant, run, [...given]))).toEqual(why);
    open();
    const result = await s.outcome(run);
    expect([result.accounts[0]?.limits, result.accounts[0]?.grants]).toEqual([
      { steps: 3, totalTokens: 500 },
      [],
    ]);
    expect(grants(s)).toEqual([]);
  });

  test("returns false for an ended run and for a paused one", async () => {
    const solo = part("solo", [calls(PAY), says("Done.")], { tools: [payTool()] });
    const s = newFixture();
    const run = s.start(solo.role, "Do it.", { budget: { steps: 2 } });
    const paused = await s.outcome(run);
    expect(run.grant({ steps: 1 }, { by: BY })).toBe(false);
    const answers = (paused.pausedRun?.questions ?? []).map((question) => approve(question));
    const resumed = s.resume(solo.role, paused.pausedRun, answers);
    await s.outcome(resumed);
    expect(resumed.grant({ steps: 1 }, { by: BY })).toBe(false);
    expect(grants(s)).toEqual([]);
  });

  test("does not wake an agent that has been stopped", async () => {
    const { solo, open } = held();
    open();
    const s = newFixture();
    const run = s.start(solo.role, "Do it.", { budget: { steps: 1 } });
    for await (const { phase, state } of run.iterate())
      if (state.log.signals.length > 0 && phase !== "ended") run.grant({ steps: 5 }, { by: BY });
    const result = await s.outcome(run);
    expect([result.status, result.reason.code]).toEqual(["stopped", "step_limit"]);
  });
});
