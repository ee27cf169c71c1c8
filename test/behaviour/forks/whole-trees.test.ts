// Goal: a whole tree is forked at a step of its root. The fork continues independently with ids of
// its own, and the original does not change.
// Method: real runs, snapshots compared byte by byte; the messages to the fork's models compared in
// full.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect, test } from "vitest";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { parsePausedRun, type PausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { says, ScriptedModel, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { rested, rests } from "../../support/life-agents.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { aborted, calls, part, tool, until, use } from "../../harness/scripted-agents.ts";
import { BEFORE, look, shown, threeSteps, PAY } from "../../support/life-forks.ts";

/** Returns the ids in a run. */
function idsIn({ runId, agents }: RunResult): readonly string[] {
  return [runId, ...agents.flatMap(({ agentId, executionId }) => [agentId, executionId])];
}

const WORKED =
  'tool: {"outcome":"completed","steps":1,"subagent":"worker#1","text":"Worked.","totalTokens":15}';

describe("a fork", () => {
  proves(
    ["X24"],
    "completes with another answer, and the snapshot of the original is unchanged",
    async () => {
      const { lead } = threeSteps([calls(use("look")), says("Forked.")]);
      const s = newFixture();
      const { result, snapshot } = await rested(s, s.start(lead.role));
      const text = JSON.stringify(snapshot);
      const fork = s.fork(lead.role, snapshot, { atStep: 2, message: "Try something else." });
      const forked = await s.outcome(fork);
      expect([result.text, forked.text, forked.status]).toEqual([
        "Original.",
        "Forked.",
        "completed",
      ]);
      expect(shown(lead, 4)).toEqual([
        ...BEFORE,
        "assistant: ",
        WORKED,
        "user: Try something else.",
      ]);
      expect(JSON.stringify(snapshot)).toBe(text);
      expect(s.sink.ofType("run.started").at(-1)).toMatchObject({
        runId: fork.runId,
        forkedFrom: { runId: result.runId, stepNumber: 2 },
      });
      const own = s.sink.events.filter(({ runId }) => runId === result.runId);
      expect(own.at(-1)?.type).toBe("run.ended");
    },
  );

  proves(["X24"], "has ids of its own, and starts without usage", async () => {
    const { lead } = threeSteps([says("Forked.")]);
    const s = newFixture();
    const { result, snapshot } = await rested(s, s.start(lead.role));
    const fork = s.fork(lead.role, snapshot, { atStep: 3 });
    const forked = await s.outcome(fork);
    expect(idsIn(forked).filter((id) => idsIn(result).includes(id))).toEqual([]);
    expect(forked.agents.map(({ agentPath, usage }) => [agentPath, usage.own.totalTokens])).toEqual(
      [
        ["lead", 15],
        ["lead/worker#1", 0],
      ],
    );
    expect(forked.usage.total.totalTokens).toBe(15);
  });

  test.each([1, 2, 3, 4])("has the history up to its step %i", async (atStep) => {
    const { lead } = threeSteps([says("Forked.")]);
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    await s.outcome(s.fork(lead.role, snapshot, { atStep, message: "Go on." }));
    const whole = [
      ...BEFORE,
      "assistant: ",
      WORKED,
      "assistant: ",
      "tool: seen",
      "assistant: Original.",
    ];
    const end = [4, 6, 8, 9][atStep - 1];
    expect(shown(lead, 4)).toEqual([...whole.slice(0, end), "user: Go on."]);
  });

  test("starts at the last step by default", async () => {
    const { lead } = threeSteps([says("Forked.")]);
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    const fork = s.fork(lead.role, snapshot, { message: "And?" });
    await s.outcome(fork);
    expect(s.sink.ofType("run.started").at(-1)?.forkedFrom?.stepNumber).toBe(4);
  });

  test("may be made several times from one snapshot, each as a separate run", async () => {
    const { lead } = threeSteps([says("A."), says("B."), says("C.")]);
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    const forks = [1, 2, 3].map((atStep) => s.fork(lead.role, snapshot, { atStep }));
    const results = await Promise.all(forks.map((fork) => s.outcome(fork)));
    expect([
      new Set(results.map(({ runId }) => runId)).size,
      results.map(({ text }) => text).toSorted(),
    ]).toEqual([3, ["A.", "B.", "C."]]);
  });

  test("may itself be forked", async () => {
    const { lead } = threeSteps([calls(use("look")), says("First fork."), says("Second fork.")]);
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    const first = await rested(s, s.fork(lead.role, snapshot, { atStep: 2, message: "Once." }));
    const second = await s.outcome(
      s.fork(lead.role, first.snapshot, { atStep: 1, message: "Twice." }),
    );
    expect(second.text).toBe("Second fork.");
    expect(shown(lead, 6)).toEqual([
      ...BEFORE,
      "assistant: ",
      WORKED,
      "user: Once.",
      "assistant: ",
      "tool: seen",
      "user: Twice.",
    ]);
    expect(Object.keys(rests(second))).toEqual(["lead", "lead/worker#1"]);
  });

  test("may use another role of the same name with new instructions and the old history", async () => {
    const { lead, worker } = threeSteps([]);
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    const model = new ScriptedModel([says("Otherwise.")]);
    const other = defineAgent({
      name: "lead",
      instructions: "You are another lead.",
      model,
      subagents: [worker.role],
      tools: [look],
    });
    const result = await s.outcome(s.fork(other, snapshot, { atStep: 1 }));
    expect([result.text, result.agents[0]?.model]).toEqual(["Otherwise.", "scripted"]);
    const texts = model.requests[0]?.messages.map(({ text }) => text) ?? [];
    expect(texts[0]).toBe("You are another lead.");
    expect(texts.slice(1)).toEqual(
      parsePausedRun(snapshot)
        .agents[0]?.state.conversation.messages.slice(1, texts.length)
        .map(({ text }) => text),
    );
  });
});

/** States in which the original may be after its first step. */
const RESTS: Readonly<
  Record<
    string,
    {
      readonly second: ScriptStep;
      readonly act?: (s: Fixture, run: ReturnType<Fixture["start"]>) => unknown;
      readonly status: string;
      readonly budget?: object;
    }
  >
> = {
  completed: { second: says("Original."), status: "completed" },
  failed: { second: { error: new Error("gone") }, status: "failed" },
  cancelled: {
    second: calls(use("listen")),
    act: (_s, run) => void run.cancel("Enough."),
    status: "cancelled",
  },
  stopped: { second: calls(use("look"), use("look")), budget: { toolCalls: 2 }, status: "stopped" },
  paused: { second: calls(PAY), status: "paused" },
  "paused on request": {
    second: calls(use("listen")),
    act: (_s, run) => run.requestPause(),
    status: "paused",
  },
};

describe("a fork of a run that", () => {
  for (const [name, { second, act, status, budget = {} }] of Object.entries(RESTS))
    proves(["X24"], `is ${name}`, async () => {
      const listen = tool("listen", async ({ signal }) => {
        act?.(s, run);
        if (status === "cancelled") await aborted(signal);
        return "heard";
      });
      const lead = part("lead", [calls(use("look")), second, says("Forked.")], {
        tools: [look, payTool(), listen],
      });
      const s = newFixture();
      const run = s.start(lead.role, "Do it.", { budget });
      const { result, snapshot } = await rested(s, run);
      expect(result.status).toBe(status);
      const text = JSON.stringify(snapshot);
      const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 1, message: "Go on." }));
      expect([forked.status, forked.text, JSON.stringify(snapshot) === text]).toEqual([
        "completed",
        "Forked.",
        true,
      ]);
      expect(shown(lead, lead.model.requests.length - 1)).toEqual([...BEFORE, "user: Go on."]);
      if (status !== "paused") return;
      expect(snapshot).toEqual(result.pausedRun);
    });

  test("is paused leaves the paused run resumable", async () => {
    const pay = payTool();
    const lead = part(
      "lead",
      [calls(use("look")), calls(PAY), says("Forked."), says("Original.")],
      {
        tools: [look, pay],
      },
    );
    const s = newFixture();
    const paused = await s.outcome(s.start(lead.role));
    const forked = await s.outcome(s.fork(lead.role, paused.pausedRun, {}));
    const result = await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
    expect([forked.text, forked.questions, result.text, pay.paid]).toEqual([
      "Forked.",
      [],
      "Original.",
      [1],
    ]);
  });
});

describe("the budget of a fork", () => {
  proves(
    ["X24"],
    "is that of the original without its usage, and can be tightened but not raised",
    async () => {
      const lead = part("lead", () => calls(use("look")), { tools: [look] });
      const s = newFixture();
      const { result, snapshot } = await rested(
        s,
        s.start(lead.role, "Do it.", { budget: { steps: 3 } }),
      );
      expect([result.status, result.steps.length]).toEqual(["stopped", 3]);
      const anew = await s.outcome(s.fork(lead.role, snapshot, { atStep: 2 }));
      const less = await s.outcome(
        s.fork(lead.role, snapshot, { atStep: 2, budget: { steps: 1 } }),
      );
      const more = await s.outcome(
        s.fork(lead.role, snapshot, { atStep: 2, budget: { steps: 50 } }),
      );
      expect([anew, less, more].map(({ steps, reason }) => [steps.length, reason.code])).toEqual([
        [3, "step_limit"],
        [1, "step_limit"],
        [3, "step_limit"],
      ]);
      expect(
        anew.accounts.map(({ agentPath: path, limits, grants }) => [path, limits, grants]),
      ).toEqual([["lead", { steps: 3 }, []]]);
    },
  );

  test("restarts the time limit, and does not copy a fixed deadline", async () => {
    const lead = part(
      "lead",
      [calls(use("look")), says("Original."), calls(use("spend")), says("Never.")],
      {
        tools: [look, tool("spend", () => (s.clock.advance(600), "spent"))],
      },
    );
    const s = newFixture();
    const { snapshot } = await rested(
      s,
      s.start(lead.role, "Do it.", {
        budget: { timeMs: 500 },
        deadlineAtMs: s.clock.nowMs() + 400,
      }),
    );
    s.clock.advance(10_000);
    const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 1 }));
    expect([forked.status, forked.reason.code]).toEqual(["stopped", "time_limit"]);
  });
});

describe("an impossible fork", () => {
  test("is refused before the run starts", async () => {
    const { lead } = threeSteps([]);
    const s = newFixture();
    const { snapshot } = await rested(s, s.start(lead.role));
    const events = s.sink.events.length;
    const codes = [5, 99, -1, 1.5, Number.NaN].map(
      (atStep) => thrownBy(() => s.fork(lead.role, snapshot, { atStep })).code,
    );
    expect(new Set(codes)).toEqual(new Set(["invalid_argument"]));
    const error = thrownBy(() => s.fork(lead.role, snapshot, { atStep: 9 }));
    expect(error.message).toBe(
      "Expected fork options.atStep to be 0, or a step that lead has completed (1 to 4), got 9. Leave it out for its last, or 0 to begin with its first input.",
    );
    expect([
      thrownBy(() => s.fork(lead.role, snapshot, { message: " " })).code,
      thrownBy(() => s.fork(lead.role, undefined)).code,
      thrownBy(() => s.orchestrator.fork(readPausedRun("{"), { role: lead.role })).code,
      thrownBy(() => s.orchestrator.fork(snapshot, { atStep: 1 })).code,
      s.sink.events.length,
    ]).toEqual([
      "invalid_argument",
      "invalid_paused_run",
      "invalid_paused_run",
      "invalid_paused_run",
      events,
    ]);
  });

  test("is refused for a run without steps, and an active run has no snapshot", async () => {
    const held = latch();
    const lead = part("lead", [says("Done.", { after: held.opened })]);
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => lead.model.requests.length === 1);
    expect(thrownBy(() => run.snapshot())).toMatchObject({
      code: "invalid_state",
      message:
        "Cannot take a snapshot while the run is active. Await run.settled, or pause the run first.",
    });
    void run.cancel("Enough.");
    await s.outcome(run);
    held.open();
    const failing = part("lead", [
      { error: new EspalierError({ code: "model_timeout", message: "gone" }) },
    ]);
    const stopped = s.start(failing.role, "Do it.", { budget: { steps: 0 } });
    const { snapshot } = await rested(s, stopped);
    const error = thrownBy(() => s.fork(failing.role, snapshot, { atStep: 1 }));
    expect([error.code, error.message]).toEqual([
      "invalid_argument",
      "Expected fork options.atStep to be 0, or a step that lead has completed (none), got 1. Leave it out for its last, or 0 to begin with its first input.",
    ]);
  });
});

test("a snapshot is frozen plain JSON, created at each call", async () => {
  const { lead } = threeSteps([]);
  const s = newFixture();
  const run = s.start(lead.role);
  await s.outcome(run);
  const [one, two]: readonly PausedRun[] = [run.snapshot(), run.snapshot()];
  expect([
    one === two,
    JSON.stringify(one),
    Object.isFrozen(one),
    Object.isFrozen(one?.agents[0]?.state),
  ]).toEqual([false, JSON.stringify(two), true, true]);
  expect(JSON.parse(JSON.stringify(one))).toEqual(one);
});
