// Goal: a history that grew too long is compacted and the agent continues, which is neither an
// error nor a step.
// Method: a model whose count is the number of messages, and one that refuses; requests, events and
// steps compared in full.

import { expect, test } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { PointInput } from "../../../src/hooks/hook-points.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { rebuildRequest } from "../../../src/orchestrator/run/rebuild-request.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { sumUsage } from "../../../src/protocol/event.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const NUMBER_OF_MESSAGES = {
  countTokens: ({ messages }: ModelRequest): number => messages.length * 10,
};

/** A worker whose requests count ten tokens for each message. */
function worker(
  script: readonly ScriptedReply[],
  more: Partial<Omit<AgentDefinition, "model">> = {},
): Soloist {
  return soloist(script, { tools: [spyTool("work")], ...more }, NUMBER_OF_MESSAGES);
}

const OVERFLOW: ScriptedReply = {
  error: new ModelError({ code: "model_context_overflow", message: "Too long." }),
};
const work = asks("work", {});

function rolesOf(request: ModelRequest | undefined): string {
  return (request?.messages ?? [])
    .map((message) => ("origin" in message ? message.origin : message.role))
    .join(" ");
}

const NOTICE =
  "Earlier messages were removed here to save space: 2. Request again what you still need.";

proves(
  ["R14"],
  "a history over the window is compacted once before an inference, and no step is counted for it",
  async () => {
    const fixture = newFixture();
    const compaction = { maxInputTokens: 50, keepMessages: 2 };
    const { role, model } = worker([work, work, says("done")], { compaction });
    const result = await fixture.run(role);
    expect(model.requests.map(rolesOf)).toEqual([
      "instructions task",
      "instructions task assistant tool",
      "instructions task notice assistant tool",
    ]);
    expect(model.requests[2]?.messages.slice(0, 3).map(({ text }) => text)).toEqual([
      "Work.",
      "Do it.",
      NOTICE,
    ]);
    expect(
      fixture.sink
        .ofType("conversation.compacted")
        .map(({ messagesBefore, messagesAfter, tokensBefore, tokensAfter }) => ({
          messagesBefore,
          messagesAfter,
          tokensBefore,
          tokensAfter,
        })),
    ).toEqual([{ messagesBefore: 6, messagesAfter: 5, tokensBefore: 60, tokensAfter: 50 }]);
    expect([
      result.status,
      result.steps.map(({ number }) => number),
      result.usage.total.steps,
      result.agents[0]?.errors,
    ]).toEqual(["completed", [1, 2, 3], 3, []]);
  },
);

proves(["R14"], "a history exactly as long as the window is not compacted", async () => {
  const fixture = newFixture();
  const { role } = worker([work, says("done")], { compaction: { maxInputTokens: 40 } });
  await fixture.run(role);
  expect(fixture.sink.ofType("conversation.compacted")).toEqual([]);
});

proves(
  ["R14"],
  "a request that the model refuses as too long is compacted and sent again without an error",
  async () => {
    const fixture = newFixture();
    const { role, model } = worker([work, work, OVERFLOW, says("done")], {
      compaction: { keepMessages: 2 },
    });
    const result = await fixture.run(role);
    expect(model.requests.map(rolesOf)).toEqual([
      "instructions task",
      "instructions task assistant tool",
      "instructions task assistant tool assistant tool",
      "instructions task notice assistant tool",
    ]);
    expect([result.status, result.text, result.agents[0]?.errors]).toEqual([
      "completed",
      "done",
      [],
    ]);
    expect(fixture.sink.ofType("conversation.compacted")).toHaveLength(1);
    expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal.reason.code)).toEqual([
      "completed",
    ]);
    expect(
      fixture.sink.ofType("continuation.evaluated").map(({ decision, work }) => [decision, work]),
    ).toEqual([
      ["continue", ["tool_calls"]],
      ["continue", ["tool_calls"]],
      ["compact", ["overflow"]],
      ["stop", []],
    ]);
  },
);

/** Returns the visible outcome of a run whose third request was too long. */
function seen({ result, fixture, model }: OverflowingRun): object {
  // The refused call counts as a call, and as one with an unknown price.
  const { modelCalls: _calls, unpricedCalls: _unpriced, ...used } = result.usage.total;
  return {
    text: result.text,
    status: result.status,
    used,
    steps: result.steps.map(({ telemetry: { usage }, ...step }) => ({
      ...step,
      usage: { ...usage, modelCalls: 1, unpricedCalls: 1 },
    })),
    errors: [result.agents[0]?.errors, result.agents[0]?.toolErrors, result.signals],
    messages: result.messages,
    request: model.requests.at(-1),
    events: ["step.started", "step.completed", "signal.raised", "conversation.compacted"].map(
      (type) => fixture.sink.events.filter((event) => event.type === type).length,
    ),
  };
}

interface OverflowingRun {
  readonly result: RunResult;
  readonly fixture: ReturnType<typeof newFixture>;
  readonly model: Soloist["model"];
}

/**
 * Runs three steps. The request of the third is too long, by the local count or by the provider's.
 */
async function overflowing(
  counted: "by us" | "by the provider",
  more: Partial<Omit<AgentDefinition, "model">> = {},
): Promise<OverflowingRun> {
  const fixture = newFixture();
  const compaction = { keepMessages: 2, ...more.compaction };
  const isOurs = counted === "by us";
  const script = [work, work, ...(isOurs ? [] : [OVERFLOW]), says("done")];
  const { role, model } = worker(script, {
    ...more,
    compaction: isOurs ? { ...compaction, maxInputTokens: 50 } : compaction,
  });
  return { result: await fixture.run(role), fixture, model };
}

for (const [what, more] of Object.entries<Partial<Omit<AgentDefinition, "model">>>({
  plain: {},
  "with a budget of steps that just fits, and a notice of it": {
    budget: { steps: 3, totalTokens: 100_000 },
    showBudget: true,
    wrapUp: "Finish.",
  },
  "with hooks that change each request": {
    hooks: [
      transform("beforeModel", ({ messages }) => ({
        messages: [...messages, { role: "user", text: "Hurry.", origin: "notice" }],
      })),
    ],
  },
}))
  proves(
    ["S7.15", "R14"],
    `an overflow that compaction resolves counts as neither step nor error, by either count: ${what}`,
    async () => {
      const [ours, theirs] = [
        await overflowing("by us", more),
        await overflowing("by the provider", more),
      ];
      expect(seen(theirs)).toEqual(seen(ours));
      const { result, fixture } = theirs;
      expect(result.steps.map(({ number, error }) => [number, error])).toEqual([
        [1, undefined],
        [2, undefined],
        [3, undefined],
      ]);
      expect([result.usage.total.steps, result.usage.total.modelCalls]).toEqual([3, 4]);
      expect(sumUsage(fixture.sink.events)).toEqual(result.usage.total);
      expect(
        fixture.sink.ofType("model.failed").map(({ error, stepId }) => [error.code, stepId]),
      ).toEqual([["model_context_overflow", result.steps[2]?.stepId]]);
      expect(fixture.sink.ofType("budget.settled").map(({ usage }) => usage.steps)).toEqual([
        1, 1, 1, 0,
      ]);
    },
  );

proves(["S7.15"], "the compacted request and those of earlier steps can be rebuilt", async () => {
  const { role, model } = worker([work, work, OVERFLOW, work, says("done")], {
    compaction: { keepMessages: 2 },
  });
  const run = newFixture().orchestrator.start(role, "Do it.");
  await run.result;
  const stored = run.snapshot();
  const rebuilt = [1, 2, 3, 4].map(
    (stepNumber) => rebuildRequest(stored, { stepNumber }).request.messages,
  );
  const sent = model.requests.map(({ messages }) => messages);
  expect(rebuilt).toEqual([sent[0], sent[1], sent[3], sent[4]]);
});

proves(
  ["S7.15"],
  "a further attempt of the compacted request is charged, and the step is counted once",
  async () => {
    const fixture = newFixture();
    const flaky: ScriptedReply = {
      error: new ModelError({ code: "model_overloaded", message: "Busy.", lostOutputTokens: 3 }),
    };
    const { role } = worker([work, work, OVERFLOW, flaky, says("done")], {
      compaction: { keepMessages: 2 },
      budget: { steps: 3 },
    });
    const run = fixture.start(role);
    await flushEventLoop();
    fixture.clock.advance(fixture.sink.ofType("model.retried")[0]?.delayMs ?? 0);
    const result = await fixture.outcome(run);
    expect([result.status, result.usage.total.steps, result.steps.length]).toEqual([
      "completed",
      3,
      3,
    ]);
    expect(sumUsage(fixture.sink.events)).toEqual(result.usage.total);
  },
);

proves(
  ["S7.15"],
  "a pause between the refusal and the compacted request changes nothing",
  async () => {
    const held = latch();
    const fixture = newFixture();
    const script = [work, work, { ...OVERFLOW, after: held.opened }, says("done")];
    const { role, model } = worker(script, {
      compaction: { keepMessages: 2 },
      budget: { steps: 3 },
    });
    const run = fixture.start(role);
    await flushEventLoop();
    run.requestPause();
    held.open();
    const paused = await fixture.outcome(run);
    const { pausedRun = expect.fail("not paused") } = paused;
    expect(paused.status).toBe("paused");
    expect(rebuildRequest(pausedRun, { stepNumber: 3 }).request.messages).toEqual(
      model.requests[2]?.messages,
    );
    const result = await fixture.outcome(fixture.resume(role, pausedRun));
    expect([result.status, result.steps.length, result.usage.total.steps]).toEqual([
      "completed",
      3,
      3,
    ]);
    expect(fixture.sink.ofType("step.started").map(({ number }) => number)).toEqual([1, 2, 3]);
    expect(sumUsage(fixture.sink.events)).toEqual(result.usage.total);
    const unpaused = await overflowing("by the provider", { budget: { steps: 3 } });
    expect(model.requests.at(-1)).toEqual(unpaused.model.requests.at(-1));
  },
);

test("an agent stopped during a refused request records a step, and sends no further request", async () => {
  const held = latch();
  const fixture = newFixture();
  const script = [work, work, { ...OVERFLOW, after: held.opened }, says("never")];
  const { role, model } = worker(script, { compaction: { keepMessages: 2 } });
  const run = fixture.start(role);
  await flushEventLoop();
  run.requestStop("Enough.");
  held.open();
  const result = await fixture.outcome(run);
  expect([result.status, result.usage.total.steps, model.requests.length]).toEqual([
    "stopped",
    3,
    3,
  ]);
  expect(fixture.sink.ofType("conversation.compacted")).toEqual([]);
});

test("an overflow without removable messages fails the run, and the request is not sent again", async () => {
  const { role, model } = worker([work, OVERFLOW], { compaction: { keepMessages: 1 } });
  const { status, agents } = await newFixture().run(role);
  expect([status, agents[0]?.errors.map(({ code }) => code), model.requests.length]).toEqual([
    "failed",
    ["model_context_overflow"],
    2,
  ]);
});

proves(
  ["R14"],
  "a second overflow right after a compaction fails the run with the model's error",
  async () => {
    const fixture = newFixture();
    const { role, model } = worker([work, work, OVERFLOW, OVERFLOW, says("never")], {
      compaction: { keepMessages: 2 },
    });
    const result = await fixture.run(role);
    expect([result.status, result.agents[0]?.errors, model.requests.length]).toEqual([
      "failed",
      [{ code: "model_context_overflow", message: "Too long.", data: {} }],
      4,
    ]);
    expect(fixture.sink.ofType("conversation.compacted")).toHaveLength(1);
  },
);

test("each overflow that is followed by a reply may be compacted again", async () => {
  const { role, model } = worker([work, work, OVERFLOW, work, OVERFLOW, says("done")], {
    compaction: { keepMessages: 2 },
  });
  expect([(await newFixture().run(role)).status, model.requests.length]).toEqual(["completed", 6]);
});

test("a request that is too long fails the run at once without compaction", async () => {
  const { role, model } = worker([work, OVERFLOW, says("never")]);
  const result = await newFixture().run(role);
  expect([result.status, result.reason.data, model.requests.length]).toEqual([
    "failed",
    { error: "model_context_overflow" },
    2,
  ]);
});

test("a task that is too long by itself fails the run", async () => {
  const fixture = newFixture();
  const { role } = worker([OVERFLOW, OVERFLOW, says("never")], { compaction: {} });
  const result = await fixture.run(role);
  expect([
    result.status,
    result.reason.data,
    fixture.sink.ofType("conversation.compacted").length,
  ]).toEqual(["failed", { error: "model_context_overflow" }, 0]);
});

test("a history over the window without removable messages is sent unchanged", async () => {
  const fixture = newFixture();
  const compaction = { maxInputTokens: 1, keepMessages: 9 };
  const { role, model } = worker([work, says("done")], { compaction });
  const result = await fixture.run(role);
  expect([result.status, fixture.sink.ofType("conversation.compacted").length]).toEqual([
    "completed",
    0,
  ]);
  expect(rolesOf(model.requests[1])).toBe("instructions task assistant tool");
});

proves(
  ["R14"],
  "instructions and task remain after every compaction, and calls keep their results",
  async () => {
    const fixture = newFixture();
    const many: ScriptedReply = calls(
      { toolName: "work", arguments: {} },
      { toolName: "work", arguments: {} },
      { toolName: "work", arguments: {} },
    );
    const compaction = { maxInputTokens: 50, keepMessages: 1 };
    const { role, model } = worker([many, many, many, many, says("done")], { compaction });
    const result = await fixture.run(role);
    expect(result.status).toBe("completed");
    expect(model.requests.slice(2).map(rolesOf)).toEqual(
      Array.from({ length: 3 }, () => "instructions task notice assistant tool tool tool"),
    );
    expect(model.requests[4]?.messages[2]?.text).toBe(NOTICE.replace("2.", "12."));
  },
);

proves(
  ["R14"],
  "a hook sees the messages to remove, and may change how many are kept",
  async () => {
    const seen: PointInput["beforeCompaction"][] = [];
    const keepOne = transform(
      "beforeCompaction",
      (input) => {
        seen.push(input);
        return { keepMessages: 4 };
      },
      { name: "keeper" },
    );
    const fixture = newFixture();
    const compaction = { maxInputTokens: 70, keepMessages: 2 };
    const { role, model } = worker([work, work, work, says("done")], {
      compaction,
      hooks: [keepOne],
    });
    await fixture.run(role);
    expect(seen.map(({ messages, ...rest }) => ({ ...rest, messages: messages.length }))).toEqual([
      { messages: 8, inputTokens: 80, maxInputTokens: 70 },
    ]);
    expect(rolesOf(model.requests[3])).toBe(
      "instructions task notice assistant tool assistant tool",
    );
    expect(
      fixture.sink.ofType("hook.applied").map(({ point, changedBy }) => [point, changedBy]),
    ).toEqual([["beforeCompaction", [{ hook: "keeper", fields: ["keepMessages"] }]]]);
  },
);

test("a hook that throws before a compaction fails the run without a model call", async () => {
  const broken = transform("beforeCompaction", () => {
    throw new Error("broken");
  });
  const { role, model } = worker([work, says("never")], {
    compaction: { maxInputTokens: 30, keepMessages: 1 },
    hooks: [broken],
  });
  const result = await newFixture().run(role);
  expect([result.status, result.reason.data, model.requests.length]).toEqual([
    "failed",
    { error: "hook_failed" },
    1,
  ]);
});

test("a stop requested in a hook before a compaction takes effect before the model call", async () => {
  const stopping = transform("beforeCompaction", (_input, { requestStop }) => requestStop("No."));
  const { role, model } = worker([work, says("never")], {
    compaction: { maxInputTokens: 30, keepMessages: 1 },
    hooks: [stopping],
  });
  const result = await newFixture().run(role);
  expect([result.status, result.reason.message, model.requests.length]).toEqual([
    "stopped",
    "No.",
    1,
  ]);
});

test("a subagent keeps its own task in a compaction, and not an inherited one", async () => {
  const child = part("child", [calls({ toolName: "work", arguments: {} }), says("Child.")], {
    tools: [spyTool("work")],
    compaction: { maxInputTokens: 40, keepMessages: 2 },
    scripted: NUMBER_OF_MESSAGES,
  });
  const root = part(
    "root",
    [calls({ toolName: "work", arguments: {} }), calls(spawn("child", "Part two.")), says("Root.")],
    { tools: [spyTool("work")], subagents: [child.role], contextPolicy: { inheritMessages: true } },
  );
  const result = await newFixture().run(root.role);
  expect(result.status).toBe("completed");
  for (const { messages } of child.model.requests)
    expect(messages.map(({ text }) => text)).toContain("Part two.");
});

test("the window is checked against an estimate if the model cannot count", async () => {
  const fixture = newFixture();
  const long = spyTool("work", () => "x".repeat(600));
  const { role, model } = soloist(
    [
      { ...work, usage: null },
      { ...work, usage: null },
      { text: "done", usage: null },
    ],
    { tools: [long], compaction: { maxInputTokens: 300, keepMessages: 2 } },
    { countTokens: null },
  );
  const result = await fixture.run(role);
  expect([result.status, fixture.sink.ofType("conversation.compacted").length]).toEqual([
    "completed",
    1,
  ]);
  expect(rolesOf(model.requests[2])).toBe("instructions task notice assistant tool");
});

test("an impossible window or number of messages is rejected at definition", () => {
  for (const compaction of [
    { maxInputTokens: 0 },
    { keepMessages: 0 },
    { maxInputTokens: 1.5 },
    { keepMessages: -1 },
  ])
    expect(() => worker([], { compaction })).toThrow(/compaction\./);
});
