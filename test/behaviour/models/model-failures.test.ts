// Goal: a temporary provider failure costs time but no step; a refused request is not repeated; no
// caller waits for a run that is over.
// Method: the real client against a server that replies by script, on a clock that the test moves;
// scripted models for the rest.

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Model } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { ModelErrorCode } from "../../../src/kernel/error.ts";
import { says as speaks } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { modelAt } from "../../support/openai-calls.ts";
import { OpenAiServer, says, status, type ServerReply } from "../../support/openai-server.ts";
import { calls, part, spawn, receivedTexts } from "../../harness/scripted-agents.ts";
import { acting, ending, retries, succeeds } from "../../support/tool-acts.ts";

function agentWith(model: Model): AgentRole {
  return defineAgent({ name: "solo", instructions: "Work.", model });
}

function serving(...replies: readonly ServerReply[]): Promise<OpenAiServer> {
  return OpenAiServer.start((_request, count) => replies[count - 1] ?? status(500));
}

/** Waits for a condition: real connections take an unknown number of ticks. */
async function arrives(holds: () => boolean): Promise<void> {
  while (!holds()) await flushEventLoop();
}

proves(
  ["R167"],
  "retries a rate-limited request within one step, with one retry event",
  async () => {
    await using server = await serving(status(429), says("Done."));
    const fixture = newFixture();
    const run = fixture.start(agentWith(modelAt(server)));
    await arrives(() => fixture.sink.ofType("model.retried").length > 0);
    expect([server.requests.length, fixture.clock.pendingTimers]).toEqual([1, 1]);
    fixture.clock.advance(499);
    await flushEventLoop();
    expect(server.requests).toHaveLength(1);
    fixture.clock.advance(1);
    const result = await fixture.outcome(run);
    expect([result.status, result.text, result.steps.length, server.requests.length]).toEqual([
      "completed",
      "Done.",
      1,
      2,
    ]);
    expect(result.usage.own).toMatchObject({ steps: 1, modelCalls: 1 });
    expect(
      fixture.sink
        .ofType("model.retried")
        .map(({ attempt, delayMs, error }) => [attempt, delayMs, error.code]),
    ).toEqual([[1, 500, "model_rate_limited"]]);
    expect(fixture.sink.ofType("model.replied").map(({ attemptCount }) => attemptCount)).toEqual([
      2,
    ]);
    expect(fixture.sink.ofType("model.requested")).toHaveLength(1);
  },
);

proves(
  ["R167"],
  "does not repeat a request that the provider refuses, and fails the run",
  async () => {
    await using server = await serving(status(400), says("never"));
    const fixture = newFixture();
    const result = await fixture.run(agentWith(modelAt(server)));
    expect([server.requests.length, fixture.sink.ofType("model.retried")]).toEqual([1, []]);
    expect(ending(result)).toEqual(["failed", "error", { error: "model_invalid_request" }]);
    expect(result.agents[0]?.errors.map(({ code }) => code)).toEqual(["model_invalid_request"]);
    expect(
      fixture.sink
        .ofType("model.failed")
        .map(({ isRetryable, attemptCount }) => [isRetryable, attemptCount]),
    ).toEqual([[false, 1]]);
  },
);

proves(
  ["R167"],
  "ends a run that is cancelled between two attempts at once, without another request",
  async () => {
    await using server = await serving(status(429), says("never"));
    const fixture = newFixture({ graceMs: 5_000 });
    const run = fixture.start(agentWith(modelAt(server)));
    await arrives(() => fixture.sink.ofType("model.retried").length > 0);
    void run.cancel("Enough.");
    const result = await fixture.outcome(run);
    expect([result.status, fixture.clock.nowMs(), server.requests.length]).toEqual([
      "cancelled",
      0,
      1,
    ]);
    expect(fixture.clock.pendingTimers).toBe(0);
  },
);

const CLASSES: readonly (readonly [ModelErrorCode, boolean])[] = [
  ["model_rate_limited", true],
  ["model_overloaded", true],
  ["model_unavailable", true],
  ["model_timeout", true],
  ["model_invalid_request", false],
  ["model_unauthorized", false],
  ["model_protocol_error", false],
  ["model_context_overflow", false],
  ["model_invalid_reply", false],
];

for (const [code, isRetryable] of CLASSES) {
  proves(["R167"], `${isRetryable ? "retries" : "does not retry"} after ${code}`, async () => {
    const error = new ModelError({ code, message: "No." });
    const fixture = newFixture();
    const { role, model } = soloist([{ error }, speaks("Done.")]);
    const run = fixture.start(role);
    await flushEventLoop();
    if (isRetryable) fixture.clock.advance(500);
    const result = await fixture.outcome(run);
    expect([result.status, model.requests.length, result.steps.length]).toEqual(
      isRetryable ? ["completed", 2, 1] : ["failed", 1, 1],
    );
    expect(result.reason.data).toEqual(isRetryable ? {} : { error: code });
  });
}

proves(
  ["R167"],
  "retries with growing delays and bounded attempts, then fails the run",
  async () => {
    const error = new ModelError({ code: "model_overloaded", message: "Busy." });
    const { role, model } = soloist([{ error }, { error }, { error }, { error }]);
    const fixture = newFixture({ retryPolicy: { maxAttempts: 4 } });
    const run = fixture.start(role);
    for (const delayMs of [500, 1_000, 2_000]) {
      await flushEventLoop();
      fixture.clock.advance(delayMs);
    }
    const result = await fixture.outcome(run);
    expect(
      fixture.sink.ofType("model.retried").map(({ attempt, delayMs }) => [attempt, delayMs]),
    ).toEqual([
      [1, 500],
      [2, 1_000],
      [3, 2_000],
    ]);
    expect([result.status, model.requests.length, result.steps.length]).toEqual(["failed", 4, 1]);
  },
);

proves(["R167"], "counts no model retries against the error budget of tools", async () => {
  const error = new ModelError({ code: "model_overloaded", message: "Busy." });
  const tool = acting("a", [retries, succeeds], { maxRetries: 1 });
  const { role } = soloist(
    [
      calls({ toolName: "a", arguments: {} }),
      { error },
      calls({ toolName: "a", arguments: {} }),
      speaks("Done."),
    ],
    { tools: [tool], errorBudget: { maxToolErrors: 0, maxRetryErrors: 1 } },
  );
  const fixture = newFixture();
  const run = fixture.start(role, "Do it.", { budget: { steps: 3 } });
  await flushEventLoop();
  fixture.clock.advance(500);
  const result = await fixture.outcome(run);
  expect([
    result.status,
    result.steps.length,
    tool.calls.map(({ retryCount }) => retryCount),
  ]).toEqual(["completed", 3, [0, 1]]);
});

test("ends the wait for a provider at the time limit of the run", async () => {
  const error = new ModelError({
    code: "model_rate_limited",
    message: "No.",
    retryAfterMs: 50_000,
  });
  const { role, model } = soloist([{ error }, speaks("never")]);
  const fixture = newFixture();
  const run = fixture.start(role, "Do it.", { budget: { timeMs: 1_000 } });
  await flushEventLoop();
  fixture.clock.advance(1_000);
  const result = await fixture.outcome(run);
  expect([result.status, result.reason.code, model.requests.length]).toEqual([
    "stopped",
    "time_limit",
    1,
  ]);
});

test("fails a subagent whose provider fails, and informs its parent of the reason", async () => {
  const error = new ModelError({
    code: "model_unauthorized",
    message: "Expected a key that is valid.",
  });
  const child = part("child", [{ error }]);
  const root = part("root", [calls(spawn("child")), speaks("Root.")], { subagents: [child.role] });
  const result = await newFixture().run(root.role);
  expect(result.agents.map(({ status }) => status)).toEqual(["completed", "failed"]);
  expect(JSON.parse(receivedTexts(root.model.requests[1])[0] ?? "")).toMatchObject({
    outcome: "failed",
    error: "model_unauthorized",
    explanation: "Expected a key that is valid.",
  });
});

test("redacts a key that a provider quotes in its error from the parent's messages", async () => {
  const key = "sk-proj-abcdefghijklmnop1234567890";
  const error = new ModelError({
    code: "model_unauthorized",
    message: `Incorrect API key: ${key}`,
  });
  const child = part("child", [{ error }]);
  const root = part("root", [calls(spawn("child")), speaks("Root.")], { subagents: [child.role] });
  await newFixture().run(root.role);
  expect(receivedTexts(root.model.requests[1])[0]).not.toContain("abcdefghijklmnop");
});
