// Goal: limits apply exactly at their value, including those of an ancestor, and a stop outranks
// any reason to continue.
// Method: real runs with counted requests, one token on either side of each boundary; signals in
// both orders of arrival.

import { describe, expect } from "vitest";

import type { AgentState } from "../../../src/agent/agent-state.ts";
import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { processStep, transform } from "../../../src/hooks/hook.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import type { StopCondition } from "../../../src/policies/stop-conditions.ts";
import { asks, says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { agentStateOf } from "../../support/agent-state-of.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

const PRICE = { inputUsdPerMillion: 1_000, outputUsdPerMillion: 1_000 };

function ending({ status, reason, steps }: RunResult): readonly [string, string, number] {
  return [status, reason.code, steps.length];
}

/** The axis, a usage function for 99 or 100 tokens on the axis, and the smallest request on it. */
const AXES = [
  ["inputTokens", (tokens: number) => ({ inputTokens: tokens, outputTokens: 7 }), 1],
  ["outputTokens", (tokens: number) => ({ inputTokens: 7, outputTokens: tokens }), 1],
  ["totalTokens", (tokens: number) => ({ inputTokens: 60, outputTokens: tokens - 60 }), 0],
] as const;

describe("used tokens", () => {
  for (const [axis, usageOf, counted] of AXES) {
    const outcomeAt = async (tokens: number, isMessage: boolean) => {
      const work = spyTool("work");
      const usage = usageOf(tokens);
      const first = isMessage ? says("so far", { usage }) : asks("work", {}, { usage });
      const { role, model } = soloist(
        [first, says("done", { usage: { inputTokens: 1, outputTokens: 0 } })],
        { tools: [work] },
        { countTokens: () => counted },
      );
      const fixture = newFixture();
      const run = fixture.start(role, "Do it.", { budget: { [axis]: 100 } });
      if (isMessage) {
        for await (const { phase, state } of run.iterate())
          if (phase === "infer" && state.log.steps.length === 0) void run.steer("And this?");
      }
      const result = await fixture.outcome(run);
      return [ending(result), result.reason.data, model.requests.length, work.calls.length];
    };
    const spent = { axis, accountPath: "solo", maximum: 100, current: 100 };

    proves(
      ["R53"],
      `allow a second inference at 99 of 100 ${axis}, and stop the run at 100`,
      async () => {
        expect(await outcomeAt(99, false)).toEqual([["completed", "completed", 2], {}, 2, 1]);
        const stopped = ["stopped", "token_limit", 1];
        expect(await outcomeAt(100, false)).toEqual([stopped, { ...spent, requested: 0 }, 1, 0]);
      },
    );

    proves(["R53"], `count the same for ${axis} if only a message is left to answer`, async () => {
      expect(await outcomeAt(99, true)).toEqual([["completed", "completed", 2], {}, 2, 0]);
      const stopped = ["stopped", "token_limit", 1];
      expect(await outcomeAt(100, true)).toEqual([stopped, { ...spent, requested: 1 }, 1, 0]);
    });
  }
});

/**
 * Runs two steps. The second request is counted as `second` tokens, after 15 tokens (10 of input)
 * in the first step.
 */
async function twoSteps(budget: Budget, first: number, second: number) {
  const { role, model } = soloist(
    [asks("work", {}), says("done", { usage: { inputTokens: second, outputTokens: 1 } })],
    { tools: [spyTool("work")] },
    { countTokens: ({ messages }) => (messages.length === 2 ? first : second) },
  );
  const result = await newFixture().run(role, { budget });
  return {
    ending: ending(result),
    requested: result.reason.data["requested"],
    caps: model.requests.map(({ maxOutputTokens }) => maxOutputTokens),
    total: result.usage.total.totalTokens,
  };
}

/** Runs one step whose request is counted as `count` tokens. */
async function oneStep(axis: "inputTokens" | "totalTokens", count: number) {
  const usage = { inputTokens: count, outputTokens: 1 };
  const { role, model } = soloist([says("done", { usage })], {}, { countTokens: () => count });
  const result = await newFixture().run(role, { budget: { [axis]: 100 } });
  const caps = model.requests.map(({ maxOutputTokens }) => maxOutputTokens);
  return [ending(result), result.reason.data["requested"], caps, result.usage.total.totalTokens];
}

const completed = (steps: number) => ["completed", "completed", steps];
const stopped = (steps: number) => ["stopped", "token_limit", steps];

describe("requested tokens", () => {
  proves(["R20"], "may use up all input tokens, and one more is refused", async () => {
    expect(await oneStep("inputTokens", 100)).toEqual([completed(1), undefined, [8_192], 101]);
    expect(await oneStep("inputTokens", 101)).toEqual([stopped(0), 101, [], 0]);
  });

  proves(["R20"], "must leave one token for the answer", async () => {
    expect(await oneStep("totalTokens", 99)).toEqual([completed(1), undefined, [1], 100]);
    expect(await oneStep("totalTokens", 100)).toEqual([stopped(0), 101, [], 0]);
  });

  proves(["R20"], "are limited by the rest of earlier steps", async () => {
    const room = 8_192;
    expect(await twoSteps({ inputTokens: 100 }, 10, 90)).toEqual({
      ending: completed(2),
      requested: undefined,
      caps: [room, room],
      total: 106,
    });
    expect(await twoSteps({ inputTokens: 100 }, 10, 91)).toEqual({
      ending: stopped(1),
      requested: 91,
      caps: [room],
      total: 15,
    });
    expect(await twoSteps({ totalTokens: 100 }, 10, 84)).toEqual({
      ending: completed(2),
      requested: undefined,
      caps: [90, 1],
      total: 100,
    });
    expect(await twoSteps({ totalTokens: 100 }, 10, 85)).toEqual({
      ending: stopped(1),
      requested: 86,
      caps: [90],
      total: 15,
    });
  });
});

/** Returns path, status, reason, limiting account, steps and model calls of each agent. */
function ends(result: RunResult): readonly (readonly unknown[])[] {
  return result.agents.map(({ agentPath, status, reason, steps, usage }) => [
    agentPath,
    status,
    reason.code,
    reason.data["accountPath"],
    steps.length,
    usage.own.modelCalls,
  ]);
}

/** Returns the refused spawns: parent, role and refusal. */
function refusals({ sink }: Fixture): readonly (readonly unknown[])[] {
  return sink
    .ofType("subagent.refused")
    .map(({ agentPath, role, error }) => [agentPath, role, error]);
}

function exhausted(maximum: number): object {
  const message = `Not started: ${maximum} of ${maximum} of the steps budget of root are spent. Answer with what you have.`;
  return { code: "budget_exhausted", message, maximum, current: maximum };
}

describe("an exhausted budget of an ancestor", () => {
  proves(["R5"], "allows no step if a limit is zero, whatever is left on other axes", async () => {
    for (const axis of ["totalTokens", "inputTokens", "outputTokens", "steps"] as const) {
      const { role, model } = soloist([says("never")]);
      const result = await newFixture().run(role, { budget: { [axis]: 0 } });
      const code = axis === "steps" ? "step_limit" : "token_limit";
      expect(ends(result)).toEqual([["solo", "stopped", code, "solo", 0, 0]]);
      expect([result.steps, model.requests]).toEqual([[], []]);
    }
  });

  for (const [how, first] of [
    ["subagent", calls(spawn("middle"))],
    ["subtask", calls(use("plan"))],
  ] as const) {
    proves(["R5"], `refuses a ${how} that starts when the root's steps are used up`, async () => {
      const middle = part("middle", [says("never")]);
      const plan = spyTool("plan", ({ queueSubtask }) =>
        queueSubtask({ role: "middle", task: "Look." }),
      );
      const root = part("root", [first, says("never")], {
        subagents: [middle.role],
        tools: [plan],
      });
      const fixture = newFixture();
      const result = await fixture.run(root.role, { budget: { steps: 1 } });
      expect(ends(result)).toEqual([["root", "stopped", "step_limit", "root", 1, 1]]);
      expect(refusals(fixture)).toEqual([["root", "middle", exhausted(1)]]);
      expect([root.model.requests.length, middle.model.requests.length]).toEqual([1, 0]);
      expect(fixture.sink.ofType("step.started").map(({ agentPath }) => agentPath)).toEqual([
        "root",
      ]);
    });
  }

  proves(["R5"], "refuses a spawn two levels down", async () => {
    const leaf = part("leaf", [says("never")]);
    const middle = part("middle", [calls(spawn("leaf")), says("never")], {
      subagents: [leaf.role],
    });
    const root = part("root", [calls(spawn("middle")), says("never")], {
      subagents: [middle.role],
    });
    const fixture = newFixture();
    const result = await fixture.run(root.role, { budget: { steps: 2 } });
    expect(ends(result)).toEqual([
      ["root", "stopped", "step_limit", "root", 1, 1],
      ["root/middle#1", "stopped", "step_limit", "root", 1, 1],
    ]);
    expect(refusals(fixture)).toEqual([["root/middle#1", "leaf", exhausted(2)]]);
    expect(leaf.model.requests).toEqual([]);
  });

  for (const [axis, limit, code] of [
    ["totalTokens", 30, "token_limit"],
    ["inputTokens", 20, "token_limit"],
    ["outputTokens", 10, "token_limit"],
    // 15 tokens at 1,000 dollars per million each cost $0.015.
    ["costUsd", 0.03, "cost_limit"],
  ] as const) {
    proves(
      ["R5"],
      `stops an agent without a call if its sibling has used up the ${axis}`,
      async () => {
        const scripted = { price: PRICE };
        const helper = part("helper", [says("Helped."), says("never")], { scripted });
        const plan = spyTool("plan", ({ queueSubtask }) => {
          for (const task of ["One.", "Two."]) queueSubtask({ role: "helper", task });
        });
        const root = part("root", [calls(use("plan")), says("never")], {
          subagents: [helper.role],
          tools: [plan],
          scripted,
        });
        const result = await newFixture().run(root.role, { budget: { [axis]: limit } });
        expect(ends(result)).toEqual([
          ["root", "stopped", code, "root", 1, 1],
          ["root/helper#1", "completed", "completed", undefined, 1, 1],
          ["root/helper#2", "stopped", code, "root", 0, 0],
        ]);
        expect([root.model.requests.length, helper.model.requests.length]).toEqual([1, 1]);
      },
    );
  }
});

const broken: StopCondition = ({ steps }) => {
  if (steps.length > 0) throw new Error("bug");
};
const limited: StopCondition = ({ steps }) =>
  steps.length === 0 ? undefined : { code: "step_limit", message: "Enough.", data: {} };
const breaking = processStep(() => {
  throw new Error("bug");
});
const unauthorized = new ModelError({ code: "model_unauthorized", message: "No." });

/** Runs whose last allowed step also fails, with the order in which the two signals arrive. */
const BOTH: Readonly<
  Record<
    string,
    readonly [
      order: readonly string[],
      script: readonly ScriptStep[],
      more: Partial<Omit<AgentDefinition, "model">>,
    ]
  >
> = {
  "a processor breaks after the limit": [
    ["step_limit", "error"],
    [says("done")],
    { wrapUp: true, hooks: [breaking] },
  ],
  "the calls of the last step are refused, then a condition breaks": [
    ["step_limit", "error"],
    [asks("work", {})],
    { wrapUp: true, stopWhen: [broken] },
  ],
  "the model fails in the last step": [
    ["error", "step_limit"],
    [{ error: unauthorized }],
    { wrapUp: true },
  ],
  "a condition breaks before the limit is given": [
    ["error", "step_limit"],
    [says("done")],
    { stopWhen: [broken, limited] },
  ],
  "a condition breaks after the limit is given": [
    ["step_limit", "error"],
    [says("done")],
    { stopWhen: [limited, broken] },
  ],
};

for (const [what, [order, script, more]] of Object.entries(BOTH)) {
  proves(["R22"], `an error outranks the step limit in one step: ${what}`, async () => {
    const fixture = newFixture();
    const { role } = soloist(script, { tools: [spyTool("work")], ...more });
    const run = fixture.start(role, "Do it.", { budget: { steps: 1 } });
    const states: AgentState[] = [];
    for await (const { state } of run.iterate()) states.push(agentStateOf(state));
    const result = await fixture.outcome(run);
    const last = states.at(-1) ?? expect.fail("no state");
    expect(last.log.signals.map(({ reason }) => reason.code)).toEqual(order);
    expect(raised(fixture)).toEqual(order);
    const evaluated = fixture.sink.ofType("continuation.evaluated");
    expect(evaluated.map(({ decision, reason }) => [decision, reason?.code])).toEqual([
      ["stop", "error"],
    ]);
    expect(evaluated[0]?.signals).toEqual(last.log.signals);
    const ended = fixture.sink.ofType("agent.ended").map(({ status, reason }) => [status, reason]);
    expect("reason" in last && [[last.status, last.reason]]).toEqual(ended);
    expect(evaluated[0]?.reason).toEqual(result.reason);
    expect([ending(result), ended]).toEqual([["failed", "error", 1], [["failed", result.reason]]]);
  });
}

function raised({ sink }: Fixture): readonly string[] {
  return sink.ofType("signal.raised").map(({ signal }) => signal.reason.code);
}

/** A condition that fires after the given step. */
const guard =
  (step: number): StopCondition =>
  ({ steps }) =>
    steps.length === step ? { code: "found", message: "Found.", data: {} } : undefined;

proves(["R61"], "a condition that fires outranks a hook that vetoes the stop", async () => {
  for (const [stopWhen, end, asked] of [
    [[], ["completed", "completed", 4], 4],
    [[guard(1)], ["stopped", "found", 1], 0],
    [[guard(2)], ["stopped", "found", 2], 1],
  ] as const) {
    let count = 0;
    const veto = transform("stop", ({ vetoes }) => {
      count += 1;
      return vetoes < 3 ? { continueWith: "Not yet." } : undefined;
    });
    const script = [says("one"), says("two"), says("three"), says("four")];
    const { role, model } = soloist(script, { hooks: [veto], stopWhen });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([ending(result), model.requests.length]).toEqual([end, end[2]]);
    // The veto is bounded: the fourth time no hook is called.
    expect(count).toBe(Math.min(asked, 3));
    const decisions = fixture.sink.ofType("continuation.evaluated").map(({ work }) => work);
    expect(decisions).toEqual([...Array.from({ length: end[2] - 1 }, () => ["veto"]), []]);
  }
});

proves(
  ["R61"],
  "a condition is checked after a request that was too long has been compacted and sent",
  async () => {
    const error = new ModelError({ code: "model_context_overflow", message: "Too long." });
    const script = [asks("work", {}), asks("work", {}), { error }, says("done")];
    for (const [stopWhen, end, isTooLong] of [
      [[], ["completed", "completed", 3], true],
      [[guard(2)], ["stopped", "found", 2], false],
      [[guard(3)], ["stopped", "found", 3], true],
    ] as const) {
      const fixture = newFixture();
      const { role, model } = soloist(script, {
        tools: [spyTool("work")],
        compaction: { keepMessages: 2 },
        stopWhen,
      });
      const result = await fixture.run(role);
      expect([ending(result), model.requests.length]).toEqual([end, isTooLong ? 4 : 2]);
      expect(fixture.sink.ofType("conversation.compacted")).toHaveLength(isTooLong ? 1 : 0);
      const decisions = fixture.sink
        .ofType("continuation.evaluated")
        .map(({ decision }) => decision);
      expect(decisions).toEqual([
        "continue",
        ...(isTooLong ? ["continue", "compact"] : []),
        "stop",
      ]);
    }
  },
);
