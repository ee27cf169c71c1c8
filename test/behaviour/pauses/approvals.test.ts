// Goal: a run with calls that need an external answer pauses with typed questions, and continues
// with the answers.

import { expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import {
  approve,
  computeArgumentsHash,
  deny,
  provideResult,
  provideError,
  toQuestion,
} from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  approveAll,
  asked,
  ending,
  externalTool,
  payTool,
  questionOf,
  texts,
} from "../../support/pause-stories.ts";
import { calls, receivedTexts, use } from "../../harness/scripted-agents.ts";

const pay = (amount: number) => ({ toolName: "pay", arguments: { amount } });

proves(
  ["R26", "R28"],
  "a call that needs an approval pauses the run, which continues from there once it is approved",
  async () => {
    const tool = spyTool("pay", () => "paid", { needsApproval: true });
    const { role, model } = soloist([asks("pay", {}), says("done")], { tools: [tool] });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect([paused.status, paused.reason.code, tool.calls.length]).toEqual([
      "paused",
      "input_required",
      0,
    ]);
    const ends: readonly string[] = ["run.ended", "agent.ended", "step.completed"];
    expect(fixture.sink.events.filter(({ type }) => ends.includes(type))).toEqual([]);
    const question = questionOf(paused);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, [approve(question)]),
    );
    expect([result.status, result.text, tool.calls.length, model.requests.length]).toEqual([
      "completed",
      "done",
      1,
      2,
    ]);
    expect(result.steps.map(({ number }) => number)).toEqual([1, 2]);
    expect(result.agents[0]?.executionId).toBe(paused.agents[0]?.executionId);
    expect(receivedTexts(model.requests[1])).toEqual(["paid"]);
  },
);

proves(
  ["R27"],
  "two waiting calls of one reply both appear in the questions with all fields",
  async () => {
    const { role } = soloist([calls(pay(3), { toolName: "mail", arguments: { to: "x" } })], {
      tools: [payTool(), externalTool("mail")],
    });
    const fixture = newFixture({ answerTimeoutMs: 500 });
    fixture.clock.advance(1_000);
    const paused = await fixture.run(role);
    const agent = { agentId: "agent_1", agentPath: "solo" };
    const time = { askedAtMs: 1_000, deadlineAtMs: 1_500 };
    expect(paused.questions).toEqual([
      {
        questionId: "execution_1.1.0",
        kind: "approval",
        ...agent,
        callId: "call_1",
        toolName: "pay",
        arguments: { amount: 3 },
        argumentsHash: computeArgumentsHash("pay", { amount: 3 }),
        reason: "pay needs approval.",
        ...time,
      },
      {
        questionId: "execution_1.1.1",
        kind: "external",
        ...agent,
        callId: "call_2",
        toolName: "mail",
        arguments: { to: "x" },
        argumentsHash: computeArgumentsHash("mail", { to: "x" }),
        reason: "mail is executed elsewhere.",
        ...time,
      },
    ]);
    expect(paused.pausedRun?.questions).toEqual(paused.questions);
    expect(fixture.sink.ofType("run.paused").map(({ questions }) => questions)).toEqual([
      paused.questions,
    ]);
    const asking = fixture.sink.ofType("question.asked").map(toQuestion);
    expect(asking.toSorted((left, right) => left.callId.localeCompare(right.callId))).toEqual(
      paused.questions,
    );
  },
);

proves(
  ["R29"],
  "an approved call is executed, and a result from elsewhere is accepted unchanged",
  async () => {
    const tool = payTool();
    const { role, model } = soloist([calls(pay(3), use("mail"), use("mail")), says("done")], {
      tools: [tool, externalTool("mail")],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect(paused.questions.map(({ kind }) => kind)).toEqual(["approval", "external", "external"]);
    const [first, second, third] = [0, 1, 2].map((index) => questionOf(paused, index));
    if (first === undefined || second === undefined || third === undefined) expect.fail("three");
    const answers = [
      provideError(third, "No such box."),
      provideResult(second, { sent: true }),
      approve(first),
    ];
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
    expect([result.status, tool.paid]).toEqual(["completed", [3]]);
    expect(receivedTexts(model.requests[1])).toEqual([
      "paid 3",
      '{"sent":true}',
      "mail failed: No such box.",
    ]);
    const executions = result.steps[0]?.tools.executions ?? [];
    expect(executions.map(({ type, errorCode }) => [type, errorCode])).toEqual([
      ["succeeded", undefined],
      ["succeeded", undefined],
      ["failed", "tool_error"],
    ]);
    expect(
      fixture.sink.ofType("question.answered").map(({ answer, source }) => [answer, source]),
    ).toEqual([
      ["approved", "caller"],
      ["result", "caller"],
      ["failure", "caller"],
    ]);
  },
);

proves(
  ["R32"],
  "calls that need no answer run once before the pause, and the results are in call order",
  async () => {
    const plain = [spyTool("first"), spyTool("third")];
    const tool = payTool();
    const { role, model } = soloist(
      [calls(use("first"), pay(3), use("third"), pay(4)), says("done")],
      { tools: [...plain, tool] },
    );
    const fixture = newFixture();
    const paused = await fixture.run(role);
    expect(plain.map((one) => one.calls.length)).toEqual([1, 1]);
    expect(fixture.sink.ofType("run.paused")[0]?.seq).toBe(fixture.sink.events.at(-1)?.seq);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused).toReversed()),
    );
    expect([plain.map((one) => one.calls.length), tool.paid]).toEqual([
      [1, 1],
      [3, 4],
    ]);
    expect(receivedTexts(model.requests[1])).toEqual([
      "first done",
      "paid 3",
      "third done",
      "paid 4",
    ]);
    expect(result.usage.total.toolCalls).toBe(4);
  },
);

proves(["R31"], "a paused run and its JSON text resume with the same result", async () => {
  const ways = await Promise.all(
    [false, true].map(async (isText) => {
      const fixture = newFixture();
      const tool = payTool();
      const script = [calls(pay(3), use("plain")), says("done")];
      const tools = [tool, spyTool("plain")];
      const paused = await fixture.run(soloist(script, { tools }).role);
      const again = soloist([says("done")], { tools });
      const run = isText
        ? fixture.resume(again.role, paused.pausedRun, approveAll(paused))
        : fixture.orchestrator.resume(paused.pausedRun ?? expect.fail("not paused"), {
            answers: approveAll(paused),
            role: again.role,
          });
      const { traceId: _random, ...result } = await fixture.outcome(run);
      return {
        result,
        paid: tool.paid,
        requests: again.model.requests,
        events: fixture.sink.events.map(({ traceId: _trace, spanId: _span, ...event }) => ({
          ...event,
          previousTraceId: undefined,
          previousSpanId: undefined,
        })),
      };
    }),
  );
  expect(ways[0]).toEqual(ways[1]);
  expect(ways[0]?.result.status).toBe("completed");
});

test("a denial returns its reason to the model, and the run continues", async () => {
  const tool = payTool();
  const { role, model } = soloist([asks("pay", { amount: 3 }), says("done")], { tools: [tool] });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const answers = [deny(questionOf(paused), "Too much.")];
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
  expect([ending(result), tool.paid]).toEqual([["completed", "completed"], []]);
  expect(receivedTexts(model.requests[1])).toEqual([
    "Not executed: pay was denied. Too much. Do without it, or answer with what you have.",
  ]);
  const [execution] = result.steps[0]?.tools.executions ?? [];
  expect([execution?.type, execution?.errorCode]).toEqual(["refused", "denied"]);
  expect(result.agents[0]?.toolsUsed).toEqual({});
});

test("an approval with other arguments runs these, and hooks see them", async () => {
  const seen: unknown[] = [];
  const tool = payTool();
  const { role } = soloist([asks("pay", { amount: 300 }), says("done")], {
    tools: [tool],
    hooks: [
      transform("afterTool", ({ arguments: input }) => {
        seen.push(input);
      }),
    ],
  });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const answers = [approve(questionOf(paused), { arguments: { amount: 5 } })];
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
  expect([ending(result), tool.paid, texts(result)]).toEqual([
    ["completed", "completed"],
    [5],
    ["paid 5"],
  ]);
  expect(seen).toEqual([{ amount: 5 }]);
});

test("a question contains the arguments after the hooks, which do not run again on resume", async () => {
  const tool = payTool();
  let asking = 0;
  const { role } = soloist([asks("pay", { amount: 300 }), says("done")], {
    tools: [tool],
    hooks: [
      transform("beforeTool", () => {
        asking += 1;
        return { arguments: { amount: 150 } };
      }),
    ],
  });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  expect(questionOf(paused).arguments).toEqual({ amount: 150 });
  await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect([tool.paid, asking]).toEqual([[150], 1]);
});

test("invalid arguments are returned to the model without a question", async () => {
  const tool = payTool();
  const { role } = soloist([calls({ toolName: "pay", arguments: { amount: "x" } }), says("done")], {
    tools: [tool],
  });
  const result = await newFixture().run(role);
  expect([ending(result), tool.paid]).toEqual([["completed", "completed"], []]);
});

test("two pauses in a row have the questions of each", async () => {
  const tool = payTool();
  const script = [asks("pay", { amount: 1 }), asks("pay", { amount: 2 }), says("done")];
  const { role, model } = soloist(script, { tools: [tool] });
  const fixture = newFixture();
  const first = await fixture.run(role);
  const second = await fixture.outcome(fixture.resume(role, first.pausedRun, approveAll(first)));
  expect([asked(second), questionOf(second).questionId, tool.paid]).toEqual([
    [["solo", "pay"]],
    "execution_1.2.0",
    [1],
  ]);
  const result = await fixture.outcome(fixture.resume(role, second.pausedRun, approveAll(second)));
  expect([ending(result), tool.paid, model.requests.length]).toEqual([
    ["completed", "completed"],
    [1, 2],
    3,
  ]);
});

test("an approved call runs if the tool call budget has room for it alone", async () => {
  const tool = payTool();
  const { role } = soloist([asks("pay", { amount: 1 }), says("done")], {
    tools: [tool],
    budget: { toolCalls: 1 },
  });
  const fixture = newFixture();
  const atOnce = await newFixture({ approver: (question) => approve(question) }).run(role);
  expect([ending(atOnce), tool.paid]).toEqual([["completed", "completed"], [1]]);
  const again = soloist([asks("pay", { amount: 2 }), says("done")], {
    tools: [tool],
    budget: { toolCalls: 1 },
  });
  const paused = await fixture.run(again.role);
  const result = await fixture.outcome(
    fixture.resume(again.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ending(result), tool.paid]).toEqual([
    ["completed", "completed"],
    [1, 2],
  ]);
});
