// Goal: the end of an agent or a run reports every stop signal in order of arrival, and every error
// of the tree.
// Method: signals that arrive together, one after the other, late, and without stopping the agent.

import { expect } from "vitest";

import { SPAWN_TOOL_NAME } from "../../../src/agent/agent-role.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { StopCondition } from "../../../src/policies/stop-conditions.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { calls, part, spawn, until } from "../../harness/scripted-agents.ts";

const LATE: StopCondition = ({ steps }) =>
  steps.length === 0 ? undefined : { code: "found_enough", message: "Found.", data: {} };

type Result = Awaited<ReturnType<Fixture["outcome"]>>;

function failure(message: string): ModelError {
  return new ModelError({ code: "model_unauthorized", message });
}

function recorded(message: string): object {
  const data: unknown = expect.any(Object);
  return { code: "model_unauthorized", message, data };
}

/**
 * Returns the codes of the signals; the event of the agent, the event of the run and the result
 * must agree.
 */
function listed(fixture: Fixture, result: Result): readonly string[] {
  const [run] = fixture.sink.ofType("run.ended");
  const agent = fixture.sink.ofType("agent.ended").find(({ depth }) => depth === 0);
  expect(agent?.signals).toEqual(result.signals);
  expect(run?.signals).toEqual(result.signals);
  expect(result.agents[0]?.signals).toEqual(result.signals);
  return result.signals.map(({ reason }) => reason.code);
}

proves(
  ["S7.17"],
  "the end of an agent, of a run and the result list all signals in order of arrival",
  async () => {
    const fixture = newFixture();
    const { role } = soloist([asks("work", {}, { usage: { outputTokens: 99 } })], {
      tools: [spyTool("work")],
      stopWhen: [LATE],
    });
    const result = await fixture.run(role, { budget: { totalTokens: 50 } });
    expect(listed(fixture, result)).toEqual(["token_limit", "found_enough"]);
    expect(result.reason.code).toBe("token_limit");
  },
);

proves(["S7.17"], "a second stop request is recorded with its own message", async () => {
  const fixture = newFixture();
  const { role } = soloist([asks("work", {})], {
    tools: [
      spyTool("work", () => {
        run.requestStop("First.");
        run.requestStop("Second.");
        return "done";
      }),
    ],
  });
  const run = fixture.start(role);
  const result = await fixture.outcome(run);
  expect(listed(fixture, result)).toEqual(["stop_requested", "stop_requested"]);
  expect(result.signals.map(({ reason }) => reason.message)).toEqual(["First.", "Second."]);
  expect(result.reason.message).toBe("First.");
});

proves(
  ["S7.17"],
  "a stop request is recorded if it arrives while an agent waits for its subagents to end",
  async () => {
    const fixture = newFixture();
    const held = latch();
    const helper = part("helper", [says("Late.", { after: held.opened, ignoresSignal: true })]);
    const lead = part(
      "lead",
      [
        calls({
          toolName: SPAWN_TOOL_NAME,
          arguments: { role: "helper", task: "Work.", background: true },
        }),
        () => (run.requestStop("First."), says("On.")),
      ],
      { subagents: [helper.role], delegation: { background: true } },
    );
    const run = fixture.start(lead.role);
    await flushEventLoop();
    run.requestStop("Second.");
    held.open();
    await flushEventLoop();
    fixture.clock.advance(60_000);
    const result = await fixture.outcome(run);
    expect(result.signals.map(({ reason }) => reason.message)).toEqual(["First.", "Second."]);
  },
);

proves(
  ["S7.17"],
  "an answer over the budget completes the run, and the overshoot is listed",
  async () => {
    const fixture = newFixture();
    const { role } = soloist([says("Done.", { usage: { outputTokens: 500 } })]);
    const result = await fixture.run(role, { budget: { totalTokens: 100, outputTokens: 400 } });
    expect(listed(fixture, result)).toEqual(["token_limit", "token_limit", "completed"]);
    expect([result.status, result.reason.code]).toEqual(["completed", "completed"]);
    expect(result.signals[0]).toEqual({
      source: "budget",
      isOvershoot: true,
      reason: {
        code: "token_limit",
        message:
          "The totalTokens budget of solo allows 100; 510 are spent, because a reply used more than was left.",
        data: { axis: "totalTokens", accountPath: "solo", maximum: 100, current: 510 },
      },
    });
  },
);

proves(["S7.17"], "an answer that uses the budget exactly lists no overshoot", async () => {
  const fixture = newFixture();
  const result = await fixture.run(soloist([says("Done.")]).role, { budget: { totalTokens: 15 } });
  expect(listed(fixture, result)).toEqual(["completed"]);
});

proves(
  ["S7.17"],
  "an agent that a limit stopped lists the limit once, however far it was exceeded",
  async () => {
    const fixture = newFixture();
    const { role } = soloist([asks("work", {}, { usage: { outputTokens: 500 } })], {
      tools: [spyTool("work")],
    });
    const result = await fixture.run(role, { budget: { totalTokens: 100 } });
    expect(listed(fixture, result)).toEqual(["token_limit"]);
  },
);

proves(
  ["S7.17"],
  "the result lists the errors of the whole tree, the root cause first",
  async () => {
    const fixture = newFixture();
    const held = latch();
    const slow = part("slow", [{ error: failure("Slow."), after: held.opened }]);
    const fast = part("fast", [
      () => {
        held.open();
        return says("", { error: failure("Fast.") });
      },
    ]);
    const lead = part("lead", [calls(spawn("slow"), spawn("fast")), { error: failure("Lead.") }], {
      subagents: [slow.role, fast.role],
    });
    const result = await fixture.run(lead.role);
    expect(result.errors).toEqual([
      { agentId: "agent_3", agentPath: "lead/fast#1", ...recorded("Fast.") },
      { agentId: "agent_2", agentPath: "lead/slow#1", ...recorded("Slow.") },
      { agentId: "agent_1", agentPath: "lead", ...recorded("Lead.") },
    ]);
  },
);

proves(
  ["S7.17"],
  "the order of errors is preserved across a pause and in the result from a store",
  async () => {
    const store = memoryStore({ clock: new ManualClock() });
    const fixture = newFixture({ store });
    const names = ["first", "third", "second"];
    const latches = names.map(() => latch());
    const parts = names.map((name, index) =>
      part(name, [{ error: failure(name), after: latches[index]?.opened ?? Promise.resolve() }]),
    );
    const pay = { toolName: "pay", arguments: { amount: 3 } };
    const script = [calls(...names.map((name) => spawn(name))), calls(pay), says("Done.")];
    const lead = part("lead", script, {
      subagents: parts.map(({ role }) => role),
      tools: [payTool()],
    });
    const run = fixture.start(lead.role);
    await until(() => parts.every(({ model }) => model.requests.length === 1));
    for (const [before, next] of [0, 2, 1].entries()) {
      latches[next]?.open();
      await until(() => fixture.sink.ofType("subagent.ended").length > before);
      fixture.clock.advance(10);
    }
    const paused = await fixture.outcome(run);
    const failed = ["lead/first#1", "lead/second#1", "lead/third#1"];
    const paths = ({ errors }: Pick<Result, "errors">) => errors.map(({ agentPath }) => agentPath);
    expect([paused.status, paths(paused)]).toEqual(["paused", failed]);
    expect(paths(await new Orchestrator({ store }).getResult(run.runId))).toEqual(failed);
    const resumed = fixture.resume(lead.role, paused.pausedRun, approveAll(paused));
    const result = await fixture.outcome(resumed);
    expect([result.status, paths(result)]).toEqual(["completed", failed]);
    expect(paths(await new Orchestrator({ store }).getResult(run.runId))).toEqual(failed);
  },
);

proves(["S7.17"], "a completed run lists the errors of its failed subagents", async () => {
  const helper = part("helper", [{ error: failure("No.") }]);
  const lead = part("lead", [calls(spawn("helper")), says("Done.")], { subagents: [helper.role] });
  const result = await newFixture().run(lead.role);
  expect([result.status, result.errors.map(({ agentPath }) => agentPath)]).toEqual([
    "completed",
    ["lead/helper#1"],
  ]);
});
