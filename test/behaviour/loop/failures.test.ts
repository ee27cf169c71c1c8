// Goal: every failure takes one path, is recorded once and leaves a valid history for a model.
// Method: each part that may throw throws in turn; a model's mistakes are returned to it as
// instructions.

import { expect, test } from "vitest";
import { z } from "zod";

import { ModelError } from "../../../src/model/model-error.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

function broken(): never {
  throw new Error("broken");
}

const BROKEN_ROLES: Readonly<Record<string, () => AgentRole>> = {
  "a model that fails": () =>
    soloist([{ error: new ModelError({ code: "model_invalid_request", message: "broken" }) }]).role,
  "a model that throws anything": () => soloist([{ error: new Error("broken") }]).role,
  "a model that cannot count": () => soloist([], {}, { countTokens: broken }).role,
  "a stop condition that throws": () => soloist([says("done")], { stopWhen: [broken] }).role,
};

for (const [what, role] of Object.entries(BROKEN_ROLES)) {
  proves(["R16", "R18"], `${what} fails the run once, with one error`, async () => {
    const fixture = newFixture();
    const result = await fixture.run(role());
    const [agent] = result.agents;
    expect([result.status, result.reason.code, agent?.errors.length]).toEqual([
      "failed",
      "error",
      1,
    ]);
    expect(agent?.errors[0]?.message).toContain("broken");
    expect(fixture.sink.ofType("agent.ended").map((event) => event.error)).toEqual(agent?.errors);
    expect(fixture.sink.ofType("signal.raised").map((event) => event.signal.reason.code)).toContain(
      "error",
    );
  });
}

proves(["R18"], "each step is completed once, whether answered, refused or broken", async () => {
  const endings: Readonly<Record<string, () => AgentRole>> = {
    answered: () => soloist([says("done")]).role,
    "tool refused": () => soloist([asks("nobody", {}), says("done")]).role,
    "tool broken": () =>
      soloist([asks("work", {}), says("done")], { tools: [spyTool("work", broken)] }).role,
    "model broken": () =>
      soloist([asks("work", {}), { error: new Error("x") }], { tools: [spyTool("work")] }).role,
  };
  for (const [ending, role] of Object.entries(endings)) {
    const fixture = newFixture();
    const result = await fixture.run(role());
    const completed = fixture.sink.ofType("step.completed").map((event) => event.number);
    expect([ending, completed]).toEqual([ending, result.steps.map((step) => step.number)]);
  }
});

test("a tool that throws returns a failed result, and the run continues", async () => {
  const { role, model } = soloist([asks("work", {}), says("done")], {
    tools: [spyTool("work", broken)],
  });
  const result = await newFixture().run(role);
  expect([result.status, model.requests[1]?.messages.at(-1)?.text]).toEqual([
    "completed",
    "work failed: broken",
  ]);
});

test("a model's mistakes are returned as instructions, and its correct calls run", async () => {
  const tool = spyTool("work");
  const { role, model } = soloist(
    [
      {
        calls: [
          { toolName: "wrok", arguments: {} },
          { toolName: "work", arguments: "{oops" },
          { toolName: "work", arguments: {} },
        ],
      },
      says("done"),
    ],
    { tools: [tool] },
  );
  await newFixture().run(role);
  const results = model.requests[1]?.messages
    .filter((message) => message.role === "tool")
    .map(({ text }) => text);
  expect(results?.[0]).toBe('There is no tool named "wrok". Your tools are: work.');
  expect(results?.[1]).toMatch(
    /^The arguments of work are not valid JSON \(.+\)\. Call it again with one JSON object\.$/,
  );
  expect([results?.[2], tool.calls.length]).toEqual(["work done", 1]);
});

test("an agent without its typed result is reminded and corrected, and fails in the end", async () => {
  const output = z.object({ count: z.int() });
  const taken = soloist(
    [says("It is three."), asks("Finish", { count: "three" }), asks("Finish", { count: 3 })],
    { output },
  );
  const result = await newFixture().run(taken.role);
  expect([result.status, result.output, result.steps.length]).toEqual([
    "completed",
    { count: 3 },
    3,
  ]);

  const missed = soloist([says("a"), asks("Finish", {}), asks("Finish", { count: 1.5 })], {
    output,
  });
  const failed = await newFixture().run(missed.role);
  expect([failed.status, failed.output, failed.reason.data]).toEqual([
    "failed",
    undefined,
    { error: "model_invalid_reply" },
  ]);
});

test("a reply that was cut off or filtered stops the run, and its text is kept", async () => {
  for (const finishReason of ["length", "content_filter"] as const) {
    const result = await newFixture().run(soloist([says("half a", { finishReason })]).role);
    const { status, reason, text } = result;
    expect([status, reason.code, reason.data["finishReason"], text]).toEqual([
      "stopped",
      "finish_reason",
      finishReason,
      "half a",
    ]);
  }
});

test("two calls with the same id get different ids", async () => {
  const calls = [
    { toolName: "work", arguments: {}, callId: "same" },
    { toolName: "work", arguments: {}, callId: "same" },
  ];
  const result = await newFixture().run(
    soloist([{ calls }, says("done")], { tools: [spyTool("work")] }).role,
  );
  expect(result.steps[0]?.tools.calls.map((call) => call.callId)).toEqual([
    "same",
    "execution_1.1.1",
  ]);
});

test("a failed attempt is retried after its delay, and belongs to the same step", async () => {
  const error = new ModelError({
    code: "model_rate_limited",
    message: "Slow down.",
    retryAfterMs: 2_000,
  });
  let attempt = 0;
  const model = new ScriptedModel(() => {
    attempt += 1;
    return attempt === 1 ? { error } : says("done");
  });
  const fixture = newFixture();
  const run = fixture.start(defineAgent({ name: "solo", instructions: "Work.", model }));
  await flushEventLoop();
  expect(
    fixture.sink.ofType("model.retried").map(({ attempt: failed, delayMs }) => [failed, delayMs]),
  ).toEqual([[1, 2_200]]);
  fixture.clock.advance(2_200);
  const result = await fixture.outcome(run);
  expect([result.status, result.steps.length, result.usage.own.modelCalls]).toEqual([
    "completed",
    1,
    1,
  ]);
});

proves(
  ["R12", "X33"],
  "a model that ignores its signal is abandoned after the grace period",
  async () => {
    const held = latch();
    const fixture = newFixture({ graceMs: 300 });
    const run = fixture.start(
      soloist([says("late", { after: held.opened, ignoresSignal: true })]).role,
    );
    await flushEventLoop();
    const cancelled = run.cancel("Enough.");
    await flushEventLoop();
    expect(fixture.sink.ofType("agent.ended")).toEqual([]);
    fixture.clock.advance(300);
    await cancelled;
    const result = await fixture.outcome(run);
    const count = fixture.sink.events.length;
    held.open();
    await flushEventLoop();
    expect([result.status, result.reason.message, fixture.sink.events.length]).toEqual([
      "cancelled",
      "Enough.",
      count,
    ]);
  },
);
