// Goal: with `showBudget`, a model reads the remaining budget at the end of each request, and the
// line never enters the history.
// Method: real runs; the last messages of all requests compared in full, with the leases that paid
// for them.

import { expect, test } from "vitest";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { calls, part, spawn, tool, until, use, type Part } from "../../harness/scripted-agents.ts";

const work = tool("work", () => "done");
const again = calls(use("work"));

function solo(
  script: readonly ScriptedReply[],
  more: Partial<Omit<AgentDefinition, "name" | "model">> = {},
  scripted: NonNullable<Parameters<typeof part>[2]>["scripted"] = {},
): Part {
  return part("solo", script, {
    tools: [work],
    showBudget: true,
    maxOutputTokens: 5,
    ...more,
    scripted,
  });
}

function lastTexts({ model }: Part): readonly unknown[] {
  return model.requests.map(({ messages }) => messages.at(-1)?.text);
}

proves(["X6"], "each request ends with the budget line if `showBudget` is set", async () => {
  const price = { inputUsdPerMillion: 1_000, outputUsdPerMillion: 2_000 };
  const agent = solo([again, again, says("Done.")], {}, { price });
  const s = newFixture();
  const budget = { steps: 4, totalTokens: 12_345, costUsd: 0.25, toolCalls: 9, timeMs: 40_000 };
  await s.run(agent.role, { budget });
  expect(lastTexts(agent)).toEqual([
    "Budget left: 4 steps, 9 tool calls, 12,345 tokens, $0.25, 40 s.",
    "Budget left: 3 steps, 8 tool calls, 12,330 tokens, $0.23, 40 s.",
    "Budget left: 2 steps, 7 tool calls, 12,315 tokens, $0.21, 40 s.",
  ]);
  const line = "Budget left: 4 steps, 9 tool calls, 12,345 tokens, $0.25, 40 s.";
  expect(agent.model.requests[0]?.messages.slice(1)).toEqual([
    { role: "user", origin: "task", text: "Do it." },
    { role: "user", origin: "notice", text: line },
  ]);
});

proves(["X6"], "no line is shown by default or without a limit", async () => {
  for (const [showBudget, budget] of [
    [false, { steps: 3 }],
    [undefined, { steps: 3 }],
    [true, {}],
  ] as const) {
    const agent = part("solo", [says("Done.")], showBudget === undefined ? {} : { showBudget });
    await newFixture().run(agent.role, { budget });
    expect(lastTexts(agent)).toEqual(["Do it."]);
  }
});

test("the line appears neither in the history nor in the reported steps", async () => {
  const agent = solo([again, says("Done.")]);
  const s = newFixture();
  const run = s.start(agent.role, "Do it.", { budget: { steps: 5 } });
  const origins: unknown[] = [];
  for await (const { phase, state } of run.iterate())
    if (phase === "ended")
      origins.push(
        ...state.conversation.messages.map((message) => message.role === "user" && message.origin),
      );
  await s.outcome(run);
  expect(origins).toEqual([false, "task", false, false, false]);
  expect(agent.model.requests.map(({ messages }) => messages.length)).toEqual([3, 5]);
});

proves(
  ["X6"],
  "a child reads the least of its own and its ancestors' remaining budgets, without their reserves",
  async () => {
    const child = part("child", [again, says("Child.")], {
      tools: [work],
      showBudget: true,
      budget: { steps: 2 },
      maxOutputTokens: 5,
    });
    const lead = part("lead", [calls(spawn("child")), says("Done.")], {
      subagents: [child.role],
      maxOutputTokens: 5,
      delegation: { reserve: { totalTokens: 100, steps: 1 } },
    });
    await newFixture().run(lead.role, { budget: { steps: 9, totalTokens: 1_000 } });
    expect(lastTexts(child)).toEqual([
      "Budget left: 2 steps, 885 tokens.",
      "Budget left: 1 step, 870 tokens.",
    ]);
    expect(lead.model.requests.map(({ messages }) => messages.at(-1)?.role)).toEqual([
      "user",
      "tool",
    ]);
  },
);

proves(["X6"], "the line follows the wrap-up notice in the last step", async () => {
  const agent = solo([again, says("Half.")], { wrapUp: "Wrap it up!" });
  const result = await newFixture().run(agent.role, { budget: { steps: 2 } });
  expect(
    agent.model.requests.map(({ messages }) => messages.slice(-2).map(({ text }) => text)),
  ).toEqual([
    ["Do it.", "Budget left: 2 steps."],
    ["Wrap it up!", "Budget left: 1 step."],
  ]);
  expect([result.reason.code, result.text]).toEqual(["step_limit", "Half."]);
});

proves(["X6"], "hooks change the messages before the line, and do not see it", async () => {
  const seen: string[] = [];
  const shout = transform("beforeModel", ({ messages }) => {
    seen.push(...messages.map(({ text }) => text));
    return {
      messages: messages.map((message) =>
        message.role === "user" ? { ...message, text: "Shouted." } : message,
      ),
    };
  });
  const agent = solo([says("Done.")], { hooks: [shout] });
  await newFixture().run(agent.role, { budget: { steps: 2 } });
  expect(seen).toEqual(["Do it."]);
  expect(agent.model.requests[0]?.messages.map(({ text }) => text)).toEqual([
    "You are solo.",
    "Shouted.",
    "Budget left: 2 steps.",
  ]);
});

proves(
  ["X6"],
  "the budget counts the line, so a request that fits only without it is not sent",
  async () => {
    const counted = { countTokens: ({ messages }: ModelRequest) => messages.length * 10 };
    const make = (showBudget: boolean): Part =>
      solo(
        [says("Done.", { usage: { inputTokens: 20, outputTokens: 1 } })],
        { showBudget },
        counted,
      );
    const budget = { inputTokens: 30 };
    expect((await newFixture().run(make(false).role, { budget })).text).toBe("Done.");
    const told = make(true);
    const result = await newFixture().run(told.role, { budget });
    expect([result.status, result.reason.code, told.model.requests.length]).toEqual([
      "stopped",
      "token_limit",
      0,
    ]);
  },
);

test("the line is never longer than its counted length, whatever is left", async () => {
  const bytes = { countTokens: ({ messages }: ModelRequest) => messages.length * 10 };
  const price = { inputUsdPerMillion: 7, outputUsdPerMillion: 3 };
  const agent = solo(
    [...Array<ScriptedReply>(20).fill(again), says("Done.")],
    {},
    { ...bytes, price },
  );
  const s = newFixture();
  await s.run(agent.role, { budget: { steps: 21, costUsd: 0.0105, totalTokens: 10_001 } });
  const held = s.sink.ofType("budget.reserved").map(({ inputTokens }) => inputTokens);
  expect(agent.model.requests).toHaveLength(21);
  for (const [index, { messages }] of agent.model.requests.entries()) {
    const line = messages.at(-1)?.text ?? "";
    expect(line).toMatch(/^Budget left: /);
    expect(held[index]).toBeGreaterThanOrEqual((messages.length - 1) * 10 + line.length / 4);
  }
});

test("an agent that waited for its lease reads the budget left at that time", async () => {
  const first = latch();
  const replies = [says("1.", { after: first.opened }), says("2.")];
  const child = part("child", () => replies.shift() ?? says("Too many."), {
    showBudget: true,
    maxOutputTokens: 60,
  });
  const both = calls(spawn("child", "A"), spawn("child", "B"));
  const lead = part("lead", [both, says("Done.")], { subagents: [child.role], maxOutputTokens: 5 });
  const s = newFixture();
  const run = s.start(lead.role, "Do it.", { budget: { outputTokens: 70 } });
  await until(() => child.model.requests.length === 1);
  first.open();
  await s.outcome(run);
  expect(lastTexts(child)).toEqual([
    "Budget left: 65 output tokens.",
    "Budget left: 60 output tokens.",
  ]);
});

test("the provider's count of a request with a line is used for the next request", async () => {
  const text = "x".repeat(30_000);
  const read = tool("read", () => text);
  const usage = [
    { inputTokens: 100, outputTokens: 5 },
    { inputTokens: 4_000, outputTokens: 5 },
  ];
  const script = [
    { ...calls(use("read")), usage: usage[0] ?? {} },
    { ...again, usage: usage[1] ?? {} },
    says("Done."),
  ];
  const leases = async (showBudget: boolean): Promise<readonly number[]> => {
    const uncounted = { countTokens: () => Number.NaN };
    const agent = solo(script, { showBudget, tools: [read, work] }, uncounted);
    const s = newFixture();
    await s.run(agent.role, { budget: { steps: 9 } });
    return s.sink.ofType("budget.reserved").map(({ inputTokens }) => inputTokens);
  };
  const [plain, shown] = [await leases(false), await leases(true)];
  const more = shown.map((tokens, index) => tokens - (plain[index] ?? 0));
  expect(plain[2]).toBeLessThan(5_000);
  expect(more[0]).toBeGreaterThan(0);
  // The provider's count of a request with the line is used as the count of one without it, so the
  // old line is not counted in addition to the new one.
  expect(more.every((tokens) => tokens >= 0 && tokens < 30)).toBe(true);
});
