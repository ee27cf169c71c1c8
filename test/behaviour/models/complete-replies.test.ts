// Goal: a complete reply is accepted, however its response ends, and is not requested again.
// Method: the four interfaces over real HTTP; a server that omits the last blank line or breaks the
// connection.

import { describe, expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Model, ModelReply } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { ReportedInput } from "../../../src/model/token-usage.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import {
  eventsOf,
  INTERFACES,
  WireServer,
  type WireAnswer,
  type WireEnd,
} from "../../support/four-interfaces.ts";
import { MODES, never, QUESTION, rejection, reply } from "../../support/openai-calls.ts";

async function replyTo(model: Model): Promise<ModelReply> {
  return await model.generate(QUESTION, { signal: never(), onDelta: () => undefined });
}

describe.each(INTERFACES)("a complete reply over $name", ({ model, events, name }) => {
  const whole = events.join("");
  const ends: readonly (readonly [string, string, WireEnd])[] = [
    ["whose stream is closed", whole, "closed"],
    ["without its last blank line", whole.trimEnd(), "closed"],
    ["without the last line feed", whole.slice(0, -1), "closed"],
    ["whose connection is destroyed", whole, "destroyed"],
    ["whose connection is reset", whole, "reset"],
    ["without its last blank line whose connection is destroyed", whole.trimEnd(), "destroyed"],
  ];
  for (const [what, body, end] of ends)
    proves(["D550"], `is accepted with its usage: ${what} (${name})`, async () => {
      await using server = await WireServer.start({ body, end });
      const reply = await replyTo(model(server.url));
      const cached = name === "Anthropic" ? 100 : 0;
      expect([reply.message.text, reply.finishReason, reply.usage, server.requests]).toEqual([
        "ok",
        "stop",
        {
          inputTokens: 700,
          cachedInputTokens: cached,
          ...(name === "Anthropic" ? { cacheWriteInputTokens: 0 } : {}),
          outputTokens: 2,
          reasoningTokens: 0,
        },
        1,
      ]);
    });
});

describe.each(INTERFACES)("a call over $name", ({ model, call, name }) => {
  proves(["D550"], `is complete even if its connection breaks after it (${name})`, async () => {
    await using server = await WireServer.start({ body: call.join(""), end: "destroyed" });
    const { message, finishReason } = await replyTo(model(server.url));
    const calls = message.toolCalls.map((one) => [one.toolName, one.argumentsText]);
    expect([calls, finishReason]).toEqual([[["look", '{"at":1}']], "tool_calls"]);
  });
});

describe("a body that is not streamed", () => {
  proves(["D550"], "is accepted if its connection breaks after it", async () => {
    const choices = [{ index: 0, finish_reason: "stop", message: { content: "ok" } }];
    const body = JSON.stringify({ id: "c", model: "m", choices });
    const headers = { "content-type": "application/json" };
    await using server = await WireServer.start({ body, headers, end: "destroyed" });
    const [chat] = INTERFACES;
    const reply = await chat?.model(server.url).generate(QUESTION, { signal: never() });
    expect(reply?.message.text).toBe("ok");
  });
});

describe.each(INTERFACES)(
  "a broken attempt over $name",
  ({ model, events, begun, failed, name }) => {
    const half = events.slice(0, begun).join("");
    const cached = name === "Anthropic" ? 100 : 0;
    const broken: readonly (readonly [string, WireAnswer])[] = [
      ["its connection is destroyed", { body: half, end: "destroyed" }],
      ["its stream ends", { body: half }],
      ["its server reports an error", { body: half + failed }],
    ];
    for (const [what, answer] of broken)
      proves(["D551"], `reports the input tokens received from ${name} when ${what}`, async () => {
        await using server = await WireServer.start(answer);
        const thrown = await rejection(replyTo(model(server.url)));
        if (!(thrown instanceof ModelError)) throw new Error("Expected a ModelError.");
        const { inputTokens, cachedInputTokens } = thrown.lostInput ?? {};
        const lost = [thrown.isRetryable, thrown.lostOutputTokens, inputTokens, cachedInputTokens];
        // The Responses interface reports usage in its last event only.
        const isReported = name !== "Responses" || what === "its server reports an error";
        expect(lost).toEqual(isReported ? [true, 1, 700, cached] : [true, 1, undefined, undefined]);
      });
  },
);

describe("an error without output", () => {
  const usage = { prompt_tokens: 5_000, completion_tokens: 0, total_tokens: 5_000 };
  const error = { code: "server_error", message: "Busy." };
  const response = {
    id: "r",
    status: "failed",
    error,
    usage: { input_tokens: 5_000, output_tokens: 0 },
  };
  const reports: Readonly<Record<string, object>> = {
    "Chat Completions": { id: "c", choices: [], error, usage },
    Responses: response,
  };
  for (const { name, model } of INTERFACES.slice(0, 2))
    for (const mode of MODES)
      proves(["D607"], `is charged with the input that it reports (${name}, ${mode})`, async () => {
        const report = reports[name] ?? {};
        const event = name === "Responses" ? { type: "response.failed", response } : report;
        const answer =
          mode === "streamed"
            ? { body: eventsOf(event).join("") }
            : { body: JSON.stringify(report), headers: { "content-type": "application/json" } };
        await using server = await WireServer.start(answer);
        const thrown = await rejection(reply(model(server.url), mode));
        if (!(thrown instanceof ModelError)) throw new Error("Expected a ModelError.");
        const { code, lostOutputTokens, lostInput } = thrown;
        expect([code, lostOutputTokens, lostInput?.inputTokens]).toEqual([
          "model_unavailable",
          0,
          5_000,
        ]);
      });
});

describe("the charge of a broken attempt", () => {
  proves(["D607"], "is the reported input even if the server reports no output", async () => {
    const usage = { prompt_tokens: 300, completion_tokens: 0, total_tokens: 300 };
    const failed = { id: "c", choices: [], error: { message: "Try again in 0 s." }, usage };
    const message = { role: "assistant", content: "ok" };
    const choices = [{ index: 0, finish_reason: "stop", message }];
    const whole = { id: "c", choices, usage: { prompt_tokens: 700, completion_tokens: 2 } };
    const headers = { "content-type": "application/json" };
    await using server = await WireServer.start(
      { headers, body: JSON.stringify(failed) },
      { headers, body: JSON.stringify(whole) },
    );
    const [chat] = INTERFACES;
    if (chat === undefined) throw new Error("Expected an interface.");
    const model = chat.model(server.url);
    const role = defineAgent({ name: "solo", instructions: "Work.", model });
    const { usage: charged } = await newFixture({ retryPolicy: { maxAttempts: 2 } }).run(role);
    expect(charged.total.inputTokens).toBe(1_000);
  });

  const part = { cachedInputTokens: 100 };
  const chargeOf = async (lostInput: ReportedInput): Promise<readonly number[]> => {
    const lost = { retryAfterMs: 0, lostOutputTokens: 7, lostInput };
    const error = new ModelError({ code: "model_unavailable", message: "Cut.", ...lost });
    const { role } = soloist([{ error }, { error }, says("Done.")]);
    const { usage } = await newFixture({ retryPolicy: { maxAttempts: 3 } }).run(role);
    const { inputTokens, cachedInputTokens, outputTokens } = usage.total;
    return [inputTokens, cachedInputTokens, outputTokens];
  };

  proves(["D551"], "is the reported input of each attempt, including its cached part", async () => {
    expect(await chargeOf({ inputTokens: 700, ...part })).toEqual([1_410, 200, 19]);
  });

  proves(["D551"], "is an estimate if the reported input is implausible", async () => {
    expect(await chargeOf({ inputTokens: 1e12, ...part })).toEqual([30, 0, 19]);
    expect(takeWarnings()).toHaveLength(1);
  });
});
