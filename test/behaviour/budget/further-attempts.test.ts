// Goal: every further attempt of a model call is paid from the remaining budget, waits for room
// like any call, and is refused like any call.
// Method: models whose attempts break after a given number of lost tokens, under budgets that allow
// a given number of attempts; siblings held by latches.

import { expect, test } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import { wrapModelCall } from "../../../src/hooks/hook.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { EventSink } from "../../../src/protocol/event.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { replay } from "../../../src/testing/replay/replay.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop, type Fixture } from "../../harness/run-scripted.ts";
import { modelAt } from "../../support/openai-calls.ts";
import { OpenAiServer, says as served } from "../../support/openai-server.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

/** An attempt that breaks after it has written the given number of tokens. */
function brokenAfter(lostOutputTokens: number, more: Partial<ScriptedReply> = {}): ScriptedReply {
  const message = "Cut.";
  const error = new ModelError({
    code: "model_unavailable",
    message,
    retryAfterMs: 0,
    lostOutputTokens,
  });
  return { error, ...more };
}

const RETRY = { retryPolicy: { maxAttempts: 5 } };

function denials({ sink }: Fixture): readonly unknown[] {
  return sink
    .ofType("budget.refused")
    .map(({ axis, accountPath, agentPath, maximum, spent, requested }) => ({
      axis,
      accountPath,
      agentPath,
      maximum,
      spent,
      requested,
    }));
}

proves(
  ["S7.2", "S7.28"],
  "tokens lost beyond the cap are charged before the next attempt, which is refused for lack of budget",
  async () => {
    const lead = part("lead", [brokenAfter(500_000)], { maxOutputTokens: 50_000 });
    const s = newFixture(RETRY);
    const result = await s.run(lead.role, { budget: { totalTokens: 100_000 } });
    expect([result.status, result.reason.code, lead.model.requests.length]).toEqual([
      "stopped",
      "token_limit",
      1,
    ]);
    expect(denials(s)).toEqual([
      {
        axis: "totalTokens",
        accountPath: "lead",
        agentPath: "lead",
        maximum: 100_000,
        spent: 500_010,
        requested: 11,
      },
    ]);
    const { totalTokens, estimatedCalls, modelCalls, steps } = result.usage.total;
    expect([totalTokens, estimatedCalls, modelCalls, steps]).toEqual([500_010, 1, 1, 1]);
    expect(
      s.sink.ofType("model.failed").map(({ error, attemptCount }) => [error.code, attemptCount]),
    ).toEqual([["model_unavailable", 1]]);
    expect(result.accounts[0]?.reserved.totalTokens).toBe(0);
  },
);

proves(
  ["S7.2"],
  "the output cap of each attempt is computed from the budget that earlier attempts left",
  async () => {
    const lead = part("lead", [brokenAfter(300), brokenAfter(200), says("Done.")], {
      maxOutputTokens: 600,
    });
    const result = await newFixture(RETRY).run(lead.role, { budget: { totalTokens: 1_000 } });
    const caps = lead.model.requests.map(({ maxOutputTokens }) => maxOutputTokens);
    // 1,000 minus 310, minus 210, minus 10 for the input of the next attempt.
    expect([result.status, caps]).toEqual(["completed", [600, 600, 470]]);
    const { totalTokens, estimatedCalls, modelCalls, steps } = result.usage.total;
    expect([totalTokens, estimatedCalls, modelCalls, steps]).toEqual([535, 2, 1, 1]);
  },
);

proves(["S7.2"], "the cost of lost tokens is charged, and rounded up once", async () => {
  const price = { inputUsdPerMillion: 0.3, outputUsdPerMillion: 0.7 };
  const lead = part("lead", [brokenAfter(3), brokenAfter(1), says("Done.")], {
    scripted: { price },
  });
  const result = await newFixture(RETRY).run(lead.role, { budget: { costUsd: 1 } });
  // 30 input and 3 + 1 + 5 output tokens: 9 and 6.3 micro-dollars.
  expect([result.usage.total.costUsd, result.accounts[0]?.reserved.costUsd]).toEqual([0.000016, 0]);
});

proves(
  ["S7.28"],
  "a cost budget caps each attempt, and refuses an attempt that it cannot pay",
  async () => {
    const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
    const lead = part("lead", [brokenAfter(45), brokenAfter(35)], {
      maxOutputTokens: 50,
      scripted: { price },
    });
    const s = newFixture(RETRY);
    const result = await s.run(lead.role, { budget: { costUsd: 0.0001 } });
    const caps = lead.model.requests.map(({ maxOutputTokens }) => maxOutputTokens);
    expect([result.status, result.reason.code, caps]).toEqual(["stopped", "cost_limit", [50, 35]]);
    expect(denials(s)).toEqual([
      {
        axis: "costUsd",
        accountPath: "lead",
        agentPath: "lead",
        maximum: 0.0001,
        spent: 0.0001,
        requested: 0.000011,
      },
    ]);
  },
);

proves(
  ["S7.28", "X2"],
  "an attempt waits without a slot or reservation if it may fit once a sibling settles",
  async () => {
    const held = latch();
    const slow = part("slow", [{ ...says("Slow."), after: held.opened }], { maxOutputTokens: 50 });
    const broken = part("broken", [brokenAfter(20), says("Whole.")], { maxOutputTokens: 40 });
    const lead = part("lead", [calls(spawn("slow"), spawn("broken")), says("Done.")], {
      maxOutputTokens: 10,
      subagents: [slow.role, broken.role],
    });
    const s = newFixture(RETRY);
    // 15 for the lead; of the other 117 the siblings reserve 60 and 50. 30 were lost, so the next
    // attempt needs 50.
    const run = s.start(lead.role, "Go.", { budget: { totalTokens: 132 } });
    await flushEventLoop();
    expect(broken.model.requests.length, "it waits").toBe(1);
    held.open();
    const result = await s.outcome(run);
    expect(result.agents.map(({ agentPath, status, text }) => [agentPath, status, text])).toEqual([
      ["lead", "completed", "Done."],
      ["lead/slow#1", "completed", "Slow."],
      ["lead/broken#1", "completed", "Whole."],
    ]);
    expect(denials(s)).toEqual([]);
  },
);

proves(
  ["S7.28"],
  "an attempt that waits for room releases the only slot to the sibling that holds the room",
  async () => {
    const slow = part("slow", [says("Slow.")], { maxOutputTokens: 50 });
    const broken = part("broken", [brokenAfter(20), says("Whole.")], { maxOutputTokens: 40 });
    const lead = part("lead", [calls(spawn("broken"), spawn("slow")), says("Done.")], {
      maxOutputTokens: 10,
      subagents: [slow.role, broken.role],
    });
    const s = newFixture({ ...RETRY, concurrency: { modelCalls: 1, toolCalls: 4 } });
    const result = await s.run(lead.role, { budget: { totalTokens: 132 } });
    expect(result.agents.map(({ agentPath, status }) => [agentPath, status])).toEqual([
      ["lead", "completed"],
      ["lead/broken#1", "completed"],
      ["lead/slow#1", "completed"],
    ]);
  },
);

proves(["S7.28"], "two attempts that wait for each other's lost tokens are refused", async () => {
  const both = ["one", "two"].map((name) => part(name, [brokenAfter(40)], { maxOutputTokens: 40 }));
  const lead = part("lead", [calls(spawn("one"), spawn("two")), says("Done.")], {
    maxOutputTokens: 10,
    subagents: both.map(({ role }) => role),
    delegation: { reserve: { totalTokens: 20 } },
  });
  const s = newFixture(RETRY);
  const result = await s.run(lead.role, { budget: { totalTokens: 140 } });
  expect(
    result.agents.map(({ agentPath, status, reason }) => [agentPath, status, reason.code]),
  ).toEqual([
    ["lead", "completed", "completed"],
    ["lead/one#1", "stopped", "token_limit"],
    ["lead/two#1", "stopped", "token_limit"],
  ]);
  expect(denials(s)).toHaveLength(2);
});

test("an agent stopped while its attempt waits for room ends at once, and is charged for its losses", async () => {
  const held = latch();
  const slow = part("slow", [{ ...says("Slow."), after: held.opened }], { maxOutputTokens: 50 });
  const broken = part("broken", [brokenAfter(20)], { maxOutputTokens: 40 });
  const lead = part("lead", [calls(spawn("slow"), spawn("broken"))], {
    maxOutputTokens: 10,
    subagents: [slow.role, broken.role],
  });
  const s = newFixture(RETRY);
  const run = s.start(lead.role, "Go.", { budget: { totalTokens: 132 } });
  await flushEventLoop();
  run.requestStop("Enough.");
  await flushEventLoop();
  held.open();
  const result = await s.outcome(run);
  expect(
    result.agents.map(({ status, reason, usage }) => [status, reason.code, usage.own.totalTokens]),
  ).toEqual([
    ["stopped", "stop_requested", 15],
    // Its call was aborted; its input is charged.
    ["stopped", "stop_requested", 10],
    ["stopped", "stop_requested", 30],
  ]);
  expect(broken.model.requests).toHaveLength(1);
});

proves(["S7.7"], "reasoning streamed before a break is charged", async () => {
  const begun = { choices: [{ index: 0, delta: { reasoning_content: "abc".repeat(600) } }] };
  await using server = await OpenAiServer.start((_request, count) =>
    count === 1
      ? { type: "events", data: [begun] }
      : served("Done.", { usage: { prompt_tokens: 10, completion_tokens: 5 } }),
  );
  const role = defineAgent({ name: "lead", instructions: "Lead.", model: modelAt(server) });
  const clock = new ManualClock();
  const waits: EventSink = {
    emit: ({ type }) => {
      if (type === "model.retried") queueMicrotask(() => clock.advance(500));
    },
  };
  const run = new Orchestrator({ clock, sinks: [waits] }).start(role, "Go.", {
    onStreamPart: () => {},
  });
  const { total } = (await run.result).usage;
  expect([total.outputTokens, total.estimatedCalls]).toEqual([605, 1]);
});

proves(
  ["S7.2"],
  "the charge of a broken attempt is recovered once after its process died",
  async () => {
    const held = latch();
    const lead = part("lead", [brokenAfter(300), { ...says("Never."), after: held.opened }], {
      maxOutputTokens: 600,
    });
    const store = memoryStore({ clock: new ManualClock() });
    const s = newFixture({ ...RETRY, store });
    const run = s.start(lead.role, "Go.", { budget: { totalTokens: 2_000 } });
    for (let turn = 0; turn < 50 && lead.model.requests.length < 2; turn += 1)
      await flushEventLoop();
    expect(lead.model.requests).toHaveLength(2);
    const records = (await loadRecording(store, run.runId)).trimEnd().split("\n");
    const later = memoryStore({ clock: new ManualClock() });
    const owner = { token: "t", hostname: "h", processId: 1 };
    const ownership = await later.create(run.runId, "lead", owner);
    await later.append(ownership, { firstNumber: 1, records });
    await later.release(ownership, "paused");
    const again = part("lead", [says("Done.")]);
    const roles = [again.role];
    const orchestrator = new Orchestrator({ store: later, roles, clock: new ManualClock() });
    const recovered = await (await orchestrator.resume(run.runId)).result;
    // 310 of the broken attempt, 10 of the one in flight, 15 of the repeated step.
    const { totalTokens, estimatedCalls, modelCalls } = recovered.usage.total;
    expect([recovered.status, totalTokens, estimatedCalls, modelCalls]).toEqual([
      "completed",
      335,
      2,
      2,
    ]);
    expect(recovered.accounts[0]?.reserved.totalTokens).toBe(0);
    void run.cancel("Over.");
    held.open();
    await s.outcome(run);
  },
);

test("parallel calls of a hook are charged as they end, and do not wait for each other's reservations", async () => {
  const twice = wrapModelCall(async (_call, next) => {
    const [first] = await Promise.all([next(), next()]);
    return first;
  });
  const lead = part("lead", [brokenAfter(10), says("Two."), says("One.")], {
    maxOutputTokens: 20,
    hooks: [twice],
  });
  const result = await newFixture(RETRY).run(lead.role, { budget: { totalTokens: 70 } });
  const { totalTokens, modelCalls, steps } = result.usage.total;
  // Lost 20, and two replies of 15.
  expect([result.status, totalTokens, modelCalls, steps]).toEqual(["completed", 50, 2, 1]);
});

/**
 * A call whose first attempt breaks once `first` opens and whose second one ends once `second`
 * opens, and a sibling that requests room in between.
 */
const BESIDE_A_SIBLING = {
  "waits for a sibling": { lostTokens: 20, cap: 40, siblingCap: 50, totalTokens: 132 },
  "makes room for a sibling": { lostTokens: 5, cap: 90, siblingCap: 50, totalTokens: 170 },
  "lost more than it held": { lostTokens: 300, cap: 40, siblingCap: 50, totalTokens: 500 },
} as const;

for (const [what, { lostTokens, cap, siblingCap, totalTokens }] of Object.entries(
  BESIDE_A_SIBLING,
)) {
  proves(["R175", "S7.28"], `a call that ${what} between two attempts is replayed`, async () => {
    const latches = [latch(), latch(), latch()] as const;
    const [first, second, third] = latches;
    const sibling = part("sibling", [{ ...says("Late."), after: third.opened }], {
      maxOutputTokens: siblingCap,
    });
    const broken = part(
      "broken",
      [
        brokenAfter(lostTokens, { after: first.opened }),
        { ...says("Whole."), after: second.opened },
      ],
      { maxOutputTokens: cap },
    );
    const lead = part("lead", [calls(spawn("broken"), spawn("sibling")), says("Done.")], {
      maxOutputTokens: 10,
      subagents: [broken.role, sibling.role],
    });
    const store = memoryStore();
    const s = newFixture({ ...RETRY, store });
    const run = s.start(lead.role, "Go.", { budget: { totalTokens } });
    for (const { open } of [first, third, second]) {
      for (let turn = 0; turn < 30; turn += 1) await flushEventLoop();
      open();
    }
    const { agents, usage } = await s.outcome(run);
    const recording = await loadRecording(store, run.runId);
    expect(recording).toContain('"operation":"extend"');
    const again = await replay(recording, { role: lead.role });
    expect([again.agents.map(({ text }) => text), again.usage]).toEqual([
      agents.map(({ text }) => text),
      usage,
    ]);
  });
}
