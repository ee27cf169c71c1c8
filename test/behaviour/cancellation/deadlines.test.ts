// Goal: time limits and stop requests end a tree at the right place: running work ends or is
// aborted, and no new work starts.
// Method: trees that wait at a tool, a queue, a backoff or a latch while the clock is advanced past
// a deadline by hand.

import { describe, expect, test } from "vitest";

import { findCancelReason } from "../../../src/kernel/cancel-signal.ts";
import type { Clock } from "../../../src/kernel/clock.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { EventSink } from "../../../src/protocol/event.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  aborted,
  byTask,
  calls,
  chain,
  ends,
  listens,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

describe("time limits", () => {
  proves(["R56", "D738"], "end every agent of the run during a tool two levels down", async () => {
    const reasons: unknown[] = [];
    const work = tool("work", async ({ signal }) => {
      await aborted(signal);
      reasons.push(findCancelReason(signal));
    });
    const s = newFixture();
    const tree = chain(work);
    const run = s.start(tree.root.role, "Do it.", { budget: { timeMs: 1_000 } });
    await until(() => s.sink.ofType("tool.started").length === 3);
    s.clock.advance(999);
    await quiet();
    expect(s.sink.ofType("agent.ended")).toEqual([]);
    s.clock.advance(1);
    const result = await s.outcome(run);
    const message = "The time limit of root allows 1000 ms; that time is over.";
    const at = { deadlineAtMs: 1_000, agentId: "agent_1" };
    expect(reasons).toEqual([
      { type: "deadline", message, ...at, maximumMs: 1_000, agentPath: "root" },
    ]);
    const limit = { axis: "timeMs", accountPath: "root", maximum: 1_000, current: 1_000 };
    const reason = { code: "time_limit", message, data: { ...limit, ...at } };
    expect(result.agents.map((agent) => [agent.status, agent.reason, agent.durationMs])).toEqual([
      ["stopped", reason, 1_000],
      ["stopped", reason, 1_000],
      ["stopped", reason, 1_000],
    ]);
    expect(s.sink.ofType("agent.ended").map((event) => event.depth)).toEqual([2, 1, 0]);
    expect([tree.root, tree.child, tree.leaf].map((one) => one.model.requests.length)).toEqual([
      1, 1, 1,
    ]);
  });

  test("end the child that has them and its subtree, and its parent continues", async () => {
    const s = newFixture();
    const tree = chain(listens("work"), undefined, { child: { timeMs: 100 } });
    const run = s.start(tree.root.role, "Do it.", { budget: { timeMs: 1_000 } });
    await until(() => s.sink.ofType("tool.started").length === 3);
    s.clock.advance(100);
    const result = await s.outcome(run);
    expect(result.agents.map((agent) => [agent.status, agent.reason.code])).toEqual([
      ["completed", "completed"],
      ["stopped", "time_limit"],
      ["stopped", "time_limit"],
    ]);
    expect(
      receivedTexts(tree.root.model.requests[1]).map((text): unknown => JSON.parse(text)),
    ).toEqual([
      {
        subagent: "child#1",
        outcome: "no_output",
        reason: "time_limit",
        explanation: "The time limit of root/child#1 allows 100 ms; that time is over.",
        text: "",
        steps: 1,
        totalTokens: 30,
      },
    ]);
  });

  proves(
    ["R58"],
    "let no agent call a model after the run's absolute deadline, whatever its own limit",
    async () => {
      const s = newFixture();
      s.clock.advance(5_000);
      const tree = chain(listens("work"), undefined, { leaf: { timeMs: 60_000 } });
      const run = s.start(tree.root.role, "Do it.", {
        deadlineAtMs: 5_400,
        budget: { timeMs: 10_000 },
      });
      await until(() => s.sink.ofType("tool.started").length === 3);
      s.clock.advance(400);
      const result = await s.outcome(run);
      expect(ends(result)).toEqual(["stopped", "stopped", "stopped"]);
      const late = s.sink.events.filter(
        (event) => event.type === "model.requested" && event.atMs >= 5_400,
      );
      expect(late).toEqual([]);
      expect(result.accounts.map((account) => account.fixedDeadlineAtMs)).toEqual([
        5_400, 5_400, 5_400,
      ]);
    },
  );

  test("end a run without a model call if its deadline has passed when it starts", async () => {
    for (const options of [{ deadlineAtMs: 10 }, { budget: { timeMs: 0 } }]) {
      const s = newFixture();
      s.clock.advance(10);
      const tree = chain(listens("work"));
      const result = await s.outcome(s.start(tree.root.role, "Do it.", options));
      expect([result.status, result.reason.code, result.steps]).toEqual([
        "stopped",
        "time_limit",
        [],
      ]);
      expect(tree.root.model.requests).toEqual([]);
    }
  });

  test("abandon a tool that ignores the deadline after the grace period", async () => {
    const s = newFixture({ graceMs: 50 });
    const work = tool("work", () => latch().opened);
    const run = s.start(chain(work).root.role, "Do it.", { budget: { timeMs: 100 } });
    await until(() => s.sink.ofType("tool.started").length === 3);
    s.clock.advance(149);
    await quiet();
    expect(s.sink.ofType("agent.ended")).toEqual([]);
    s.clock.advance(1);
    const result = await s.outcome(run);
    expect(result.agents.map((agent) => [agent.status, agent.durationMs])).toEqual([
      ["stopped", 150],
      ["stopped", 150],
      ["stopped", 150],
    ]);
  });

  test("apply while an agent waits for a lease, and end it there", async () => {
    const holder = latch();
    const helper = part("helper", byTask({ A: [says("A.", { after: holder.opened })] }), {
      maxOutputTokens: 60,
      budget: { timeMs: 80 },
    });
    const patient = part("patient", [says("P.", { after: holder.opened })], {
      maxOutputTokens: 60,
    });
    const lead = part("lead", [calls(spawn("patient"), spawn("helper", "B")), says("Done.")], {
      subagents: [helper.role, patient.role],
      maxOutputTokens: 5,
    });
    const s = newFixture();
    const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 100 } });
    await until(() => patient.model.requests.length === 1);
    await quiet();
    s.clock.advance(80);
    await until(() => s.sink.ofType("subagent.ended").length === 1);
    holder.open();
    const result = await s.outcome(run);
    expect(
      result.agents.map((agent) => [agent.agentPath, agent.status, agent.budgetWaitMs]),
    ).toEqual([
      ["lead", "completed", 0],
      ["lead/patient#1", "completed", 0],
      ["lead/helper#1", "stopped", 80],
    ]);
    expect(helper.model.requests).toEqual([]);
  });

  test("cut a retry delay short at the deadline", async () => {
    const s = newFixture();
    const error = new ModelError({
      code: "model_overloaded",
      message: "Busy.",
      retryAfterMs: 10_000,
    });
    const tree = chain(listens("work"), { error });
    const run = s.start(tree.root.role, "Do it.", { budget: { timeMs: 300 } });
    await until(() => s.sink.ofType("model.retried").length === 1);
    s.clock.advance(300);
    const result = await s.outcome(run);
    expect(ends(result)).toEqual(["stopped", "stopped", "stopped"]);
    expect([result.durationMs, tree.leaf.model.requests.length]).toEqual([300, 1]);
  });

  test("apply at the deadline even if its timer is late, and the refused call names the time limit", async () => {
    const manual = new ManualClock();
    let lateMs = 0;
    const clock: Clock = {
      nowMs: () => manual.nowMs() + lateMs,
      monotonicMs: () => manual.monotonicMs() + lateMs,
      setTimer: (delayMs, wake) => manual.setTimer(delayMs, wake),
    };
    const work = tool("work", () => expect.fail("nothing may start after the deadline"));
    const role = part("root", [calls(use("work"))], { tools: [work] }).role;
    const s = newFixture({ clock });
    const run = s.start(role, "Do it.", { budget: { timeMs: 100 } });
    for await (const { phase } of run.iterate()) if (phase === "evaluate") lateMs = 150;
    const result = await s.outcome(run);
    expect([result.status, result.reason.code]).toEqual(["stopped", "time_limit"]);
    const execution = result.steps[0]?.tools.executions[0];
    expect([execution?.type, execution?.errorCode]).toEqual(["refused", "time_limit"]);
    expect(execution?.text).not.toContain("tool calls of the budget");
  });
});

describe("a request to stop", () => {
  test("aborts running calls, and no further work starts at any level", async () => {
    const late = latch();
    const s = newFixture();
    const work = tool("work", async ({ signal }) => {
      await late.opened;
      return signal.aborted ? "cut off" : "worked to the end";
    });
    const tree = chain(work);
    const run = s.start(tree.root.role);
    await until(() => s.sink.ofType("tool.started").length === 3);
    run.requestStop("Time for lunch.");
    await quiet();
    expect(s.sink.ofType("agent.ended")).toEqual([]); // The tool does not obey its signal.
    late.open();
    const result = await s.outcome(run);
    const reason = { code: "stop_requested", message: "Time for lunch.", data: {} };
    expect(result.agents.map((agent) => [agent.status, agent.reason])).toEqual([
      ["stopped", reason],
      ["stopped", reason],
      ["stopped", reason],
    ]);
    const [execution] = result.agents[2]?.steps[0]?.tools.executions ?? [];
    expect([execution?.type, execution?.errorCode]).toEqual(["cancelled", "cancelled"]);
    expect([tree.root, tree.child, tree.leaf].map((one) => one.model.requests.length)).toEqual([
      1, 1, 1,
    ]);
  });

  test("ends the run without a model call before the first tick", async () => {
    const s = newFixture();
    const tree = chain(listens("work"));
    const run = s.start(tree.root.role);
    run.requestStop();
    const result = await s.outcome(run);
    expect([result.status, result.reason.code, result.steps]).toEqual([
      "stopped",
      "stop_requested",
      [],
    ]);
    expect(tree.root.model.requests).toEqual([]);
  });

  test("stops agents that wait for a lease before they call a model", async () => {
    const holder = latch();
    const script = byTask({ A: [says("A.", { after: holder.opened })], C: [] });
    const helper = part("helper", script, { maxOutputTokens: 60 });
    const lead = part(
      "lead",
      [calls(spawn("helper", "A"), spawn("helper", "B"), spawn("helper", "C"))],
      {
        subagents: [helper.role],
        maxOutputTokens: 5,
      },
    );
    const s = newFixture();
    const run = s.start(lead.role, "Do it.", { budget: { totalTokens: 100 } });
    await until(() => helper.model.requests.length === 1);
    await quiet();
    run.requestStop();
    holder.open();
    const result = await s.outcome(run);
    // A gave its answer and received no further request, but the stop request outranks the answer.
    expect(result.agents.map((agent) => [agent.status, agent.steps.length])).toEqual([
      ["stopped", 1],
      ["stopped", 1],
      ["stopped", 0],
      ["stopped", 0],
    ]);
    expect(helper.model.requests).toHaveLength(1);
  });

  test("reaches children that start at the same moment", async () => {
    const helper = part("helper", () => says("Worked."));
    const lead = part("lead", [calls(spawn("helper"), spawn("helper"), spawn("helper"))], {
      subagents: [helper.role],
    });
    let stop: (() => void) | undefined;
    const viewer: EventSink = {
      emit: (event) => {
        if (event.type === "subagent.spawned" && event.childPath === "lead/helper#1") stop?.();
      },
    };
    const s = newFixture({ sinks: [viewer] });
    const run = s.start(lead.role);
    stop = () => run.requestStop();
    const result = await s.outcome(run);
    expect(new Set(result.agents.map((agent) => agent.reason.code))).toEqual(
      new Set(["stop_requested"]),
    );
    expect(helper.model.requests).toEqual([]);
  });

  test("remains the reason if a cancel follows, and the cancel is recorded", async () => {
    const s = newFixture();
    const run = s.start(chain(listens("work")).root.role);
    await until(() => s.sink.ofType("tool.started").length === 3);
    run.requestStop();
    void run.cancel();
    const result = await s.outcome(run);
    const signals = s.sink.ofType("signal.raised").filter((event) => event.depth === 2);
    expect(signals.map((event) => event.signal.reason.code)).toEqual([
      "stop_requested",
      "cancelled",
    ]);
    expect(result.agents.map((agent) => [agent.status, agent.reason.code])).toEqual([
      ["stopped", "stop_requested"],
      ["stopped", "stop_requested"],
      ["stopped", "stop_requested"],
    ]);
  });
});
