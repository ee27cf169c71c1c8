// Goal: a wrap around a call measures, repeats or replaces the call, and every effect is charged
// and bounded (B1, B4).
// Method: wraps over scripted models and counted tools, budgets that fit exactly, and latches that
// open late.

import { expect, test } from "vitest";

import { wrapModelCall, wrapToolCall, type Hook } from "../../../src/hooks/hook.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { Usage } from "../../../src/protocol/usage.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, quiet, spawn, receivedTexts } from "../../harness/scripted-agents.ts";

const INVENTED: ModelReply = {
  message: { role: "assistant", text: "Made up.", toolCalls: [] },
  finishReason: "stop",
  usage: { inputTokens: 900, cachedInputTokens: 0, outputTokens: 900, reasoningTokens: 0 },
};

const refusal = (): Error => new ModelError({ code: "model_invalid_request", message: "No." });

function spent({
  usage: { own },
}: RunResult): Pick<Usage, "modelCalls" | "steps" | "toolCalls" | "totalTokens"> {
  const { modelCalls, steps, toolCalls, totalTokens } = own;
  return { modelCalls, steps, toolCalls, totalTokens };
}

const passes: Hook = wrapModelCall((_call, next) => next(), { name: "passes" });
/** Calls the model until it answers or the budget refuses. */
const persists: Hook = wrapModelCall(async (_call, next) => {
  for (;;) {
    const reply = await next();
    if (reply.message.text === "good") return reply;
  }
});

proves(["R86"], "measures model calls and tool calls under its own name", async () => {
  const fixture = newFixture();
  const log: unknown[] = [];
  const hooks = [
    wrapModelCall(
      async ({ request, context }, next) => {
        const startedAtMs = fixture.clock.nowMs();
        const { message } = await next();
        const { hookName, agentPath, stepNumber } = context;
        const took = fixture.clock.nowMs() - startedAtMs;
        log.push([hookName, agentPath, stepNumber, request.messages.length, took]);
        return { message, finishReason: message.toolCalls.length > 0 ? "tool_calls" : "stop" };
      },
      { name: "watch" },
    ),
    wrapToolCall(async ({ toolName, callId, arguments: input, context }, next) => {
      const result = await next();
      log.push([context.hookName, toolName, callId, input, result]);
      return result;
    }),
  ];
  const slow = (): ScriptedReply => (fixture.clock.advance(7), says("done"));
  const { role } = soloist([asks("work", { depth: 1 }), slow], { tools: [spyTool("work")], hooks });
  const result = await fixture.run(role);
  expect([result.status, log]).toEqual([
    "completed",
    [
      ["watch", "solo", 1, 2, 0],
      ["wrapToolCall#1", "work", "call_1", { depth: 1 }, "work done"],
      ["watch", "solo", 2, 4, 7],
    ],
  ]);
});

proves(
  ["R86"],
  "runs neither model nor tool if a wrap does not call next, and uses the wrap's value",
  async () => {
    const cached = soloist([], { hooks: [wrapModelCall(() => Promise.resolve(INVENTED))] });
    const answered = await newFixture().run(cached.role);
    expect([answered.text, cached.model.requests.length, spent(answered)]).toEqual([
      "Made up.",
      0,
      { modelCalls: 1, steps: 1, toolCalls: 0, totalTokens: 1_800 }, // As the reply reports.
    ]);
    const { usage: _free, ...free } = INVENTED;
    const kept = soloist([], { hooks: [wrapModelCall(() => Promise.resolve(free))] });
    expect(spent(await newFixture().run(kept.role))).toEqual({
      modelCalls: 0,
      steps: 1,
      toolCalls: 0,
      totalTokens: 0,
    });

    const tool = spyTool("work");
    const replaced = soloist([asks("work", {}), says("done")], {
      tools: [tool],
      hooks: [wrapToolCall(() => ({ from: "cache" }))],
    });
    const result = await newFixture().run(replaced.role);
    expect([
      tool.calls.length,
      receivedTexts(replaced.model.requests[1]),
      result.agents[0]?.toolsUsed,
    ]).toEqual([0, ['{"from":"cache"}'], { work: 1 }]);
  },
);

for (const { limit, status, requests } of [
  { limit: 45, status: "completed", requests: 3 },
  { limit: 40, status: "stopped", requests: 2 },
]) {
  proves(
    ["R86"],
    `charges ${requests} calls of 15 tokens that a wrap makes within a budget of ${limit}`,
    async () => {
      const script = [says("bad"), says("bad"), says("good")];
      const { role, model } = soloist(script, { hooks: [persists], maxOutputTokens: 5 });
      const fixture = newFixture();
      const result = await fixture.run(role, { budget: { totalTokens: limit } });
      const errors = result.agents[0]?.errors.map(({ code, message }) => [code, message]);
      const denied = fixture.sink
        .ofType("budget.refused")
        .map(({ axis, requested }) => [axis, requested]);
      expect([result.status, model.requests.length, spent(result), errors, denied]).toEqual([
        status,
        requests,
        { modelCalls: requests, steps: 1, toolCalls: 0, totalTokens: requests * 15 },
        [],
        requests === 3 ? [] : [["totalTokens", 11]],
      ]);
      const [account] = result.accounts;
      expect([account?.excess.totalTokens, account?.reserved.totalTokens]).toEqual([0, 0]);
      expect([
        fixture.sink.ofType("budget.reserved").length,
        fixture.sink.ofType("budget.settled").map(({ usage }) => usage.totalTokens),
        fixture.sink.ofType("model.replied").length,
      ]).toEqual([1, [requests * 15], requests]);
    },
  );
}

test("charges each of several parallel calls of a wrap", async () => {
  const twice = wrapModelCall(async (_call, next) => {
    const [first] = await Promise.all([next(), next()]);
    return first;
  });
  const script = [says("one"), says("two")];
  const { role } = soloist(script, { hooks: [twice], maxOutputTokens: 5 });
  const enough = await newFixture().run(role, { budget: { totalTokens: 30 } });
  expect([enough.status, enough.text, spent(enough).totalTokens]).toEqual(["completed", "one", 30]);
});

test("uses an earlier reply if the budget refuses another call of the wrap", async () => {
  const modest = wrapModelCall(async (_call, next) => {
    const first = await next();
    return await next().catch(() => first);
  });
  const { role, model } = soloist([says("first")], { hooks: [modest], maxOutputTokens: 5 });
  const result = await newFixture().run(role, { budget: { totalTokens: 15 } });
  expect([result.status, result.text, model.requests.length]).toEqual(["completed", "first", 1]);
});

test("lets a wrap catch a model error and retry; otherwise reports the model's error", async () => {
  const again = wrapModelCall((_call, next) => next().catch(() => next()));
  const { role } = soloist([{ error: refusal() }, says("better")], { hooks: [again] });
  expect((await newFixture().run(role)).text).toBe("better");

  const failed = await newFixture().run(soloist([{ error: refusal() }], { hooks: [passes] }).role);
  expect([failed.status, failed.agents[0]?.errors.map(({ code }) => code)]).toEqual([
    "failed",
    ["model_invalid_request"],
  ]);
});

test("runs the calls of a wrap's reply and repairs duplicate ids", async () => {
  const work = spyTool("work");
  let round = 0;
  const asksTwice = wrapModelCall(async (_call, next) => {
    round += 1;
    const reply = await next();
    const call = { toolName: "work", argumentsText: "{}" };
    const twin = reply.message.toolCalls.map(({ callId }) => ({ ...call, callId }));
    const message = { ...reply.message, toolCalls: [...twin, ...twin] };
    return round === 1 ? { ...reply, message } : reply;
  });
  const { role, model } = soloist([asks("work", {}), says("done")], {
    tools: [work],
    hooks: [asksTwice],
  });
  const result = await newFixture().run(role);
  expect([result.status, work.calls.length, receivedTexts(model.requests[1])]).toEqual([
    "completed",
    2,
    ["work done", "work done"],
  ]);
});

proves(["R86"], "makes no call if next is called after its wrap settled", async () => {
  const kept: (() => Promise<unknown>)[] = [];
  const tool = spyTool("work");
  const hooks = [
    wrapModelCall(async (_call, next) => {
      kept.push(next);
      return await next();
    }),
    wrapToolCall((_call, next) => {
      kept.push(next);
      return "early";
    }),
  ];
  const { role, model } = soloist([asks("work", {}), says("done")], { tools: [tool], hooks });
  const fixture = newFixture();
  const result = await fixture.run(role);
  const late = await Promise.allSettled(kept.map((next) => next()));
  const codes = late.map((one) =>
    one.status === "rejected" && EspalierError.is(one.reason) ? one.reason.code : one.status,
  );
  expect([result.status, codes, model.requests.length, tool.calls.length]).toEqual([
    "completed",
    ["invalid_hook_result", "invalid_hook_result", "invalid_hook_result"],
    2,
    0,
  ]);
});

test("emits no event of an unawaited model call after its agent has ended (L2)", async () => {
  const held = latch();
  const away = wrapModelCall((_call, next) => {
    void next();
    return Promise.resolve(INVENTED);
  });
  const fixture = newFixture();
  const { role } = soloist([says("late", { after: held.opened })], { hooks: [away] });
  const result = await fixture.run(role);
  const { length } = fixture.sink.events;
  held.open();
  await quiet();
  expect([result.text, spent(result).modelCalls]).toEqual(["Made up.", 2]);
  expect(fixture.sink.events.slice(length).map(({ type }) => type)).toEqual([]);
});

test("reports a stop that a wrap requested before the inner call as a stop", async () => {
  const stops = wrapModelCall(
    ({ context }, next) => {
      context.requestStop("Enough.");
      return next();
    },
    { name: "stops" },
  );
  const { role, model } = soloist([], { hooks: [stops] });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect([result.status, result.reason.message, model.requests.length]).toEqual([
    "stopped",
    "Enough.",
    0,
  ]);
  expect(result.agents[0]?.errors).toEqual([]);
  expect(
    fixture.sink.ofType("signal.raised").map(({ signal }) => [signal.source, signal.name]),
  ).toEqual([["hook", "stops"]]);
});

test("reports a stop during the wait for a slot of a wrapped call as a stop", async () => {
  const held = latch();
  const child = part("child", () => says("Child.", { after: held.opened }), { hooks: [passes] });
  const lead = part("lead", [calls(spawn("child"), spawn("child"))], { subagents: [child.role] });
  const fixture = newFixture({ concurrency: { modelCalls: 1 } });
  const run = fixture.start(lead.role);
  await quiet();
  run.requestStop("Enough.");
  held.open();
  const result = await fixture.outcome(run);
  expect([result.agents.map(({ status }) => status), child.model.requests.length]).toEqual([
    ["stopped", "stopped", "stopped"],
    1,
  ]);
});

proves(["R86"], "cancels a wrapped call and charges its usage", async () => {
  const held = latch();
  const fixture = newFixture();
  const { role, model } = soloist([says("late", { after: held.opened })], { hooks: [passes] });
  const run = fixture.start(role);
  await quiet();
  void run.cancel("Enough.");
  const result = await fixture.outcome(run);
  expect([
    result.status,
    result.agents[0]?.errors,
    model.requests.length,
    spent(result).modelCalls,
  ]).toEqual(["cancelled", [], 1, 1]);
});

test("makes no call if a wrap retries because of the cancel", async () => {
  const stubborn = wrapModelCall((_call, next) => next().catch(() => next()));
  const held = latch();
  const fixture = newFixture();
  const { role, model } = soloist([says("late", { after: held.opened }), says("again")], {
    hooks: [stubborn],
  });
  const run = fixture.start(role);
  await quiet();
  void run.cancel("Enough.");
  const result = await fixture.outcome(run);
  expect([result.status, result.agents[0]?.errors, model.requests.length]).toEqual([
    "cancelled",
    [],
    1,
  ]);
});

test("streams text through a wrap and replaces it if the wrap returns another reply", async () => {
  const pieces: unknown[] = [];
  const fixture = newFixture();
  const run = fixture.start(
    soloist([says("one two")], {
      hooks: [wrapModelCall(async (_call, next) => (await next(), INVENTED))],
    }).role,
    "Do it.",
    { onStreamPart: (piece) => pieces.push("text" in piece ? piece.text : piece.type) },
  );
  const result = await fixture.outcome(run);
  expect([pieces, result.text]).toEqual([["one ", "two", "reset", "Made up.", "end"], "Made up."]);
});

test("reports an error of a tool wrap to the model as the failure of the call", async () => {
  const work = spyTool("work", () => {
    throw new Error("ENOENT");
  });
  const explain = wrapToolCall(async (_call, next) => {
    try {
      return await next();
    } catch (cause) {
      throw new Error("The file is not there.", { cause });
    }
  });
  const { role, model } = soloist([asks("work", {}), says("done")], {
    tools: [work],
    hooks: [explain],
  });
  const result = await newFixture().run(role);
  expect([result.status, model.requests[1]?.messages.at(-1)]).toEqual([
    "completed",
    {
      role: "tool",
      callId: "call_1",
      toolName: "work",
      text: "work failed: The file is not there.",
    },
  ]);
});
