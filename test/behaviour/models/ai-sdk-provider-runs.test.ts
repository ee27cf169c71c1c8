// Goal: an agent with tools runs over each provider of the AI SDK as over any model, with its loop,
// its budget and its pauses. Reasoning is sent back through all of them.
// Method: whole runs over the providers themselves, with a scripted network; the requests, the
// outcome of the run and its charges.

import { readFileSync } from "node:fs";

import { expect } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { SDK_STREAMS } from "../../fixtures/streams/ai-sdk.ts";
import { approve } from "../../../src/protocol/question.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { proves } from "../../harness/proves.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  ANTHROPIC_OK,
  FakeNetwork,
  PROVIDERS,
  streaming,
} from "../../support/ai-sdk/provider-fixture.ts";

const streamText = (file: string): string =>
  readFileSync(new URL(`../../fixtures/streams/${file}`, import.meta.url), "utf8");

/** The answer "ok" in the format of each provider. */
const OK: Readonly<Record<(typeof SDK_STREAMS)[number]["provider"], string>> = {
  anthropic: ANTHROPIC_OK,
  google: streamText("gemini-signature-on-text.sse").replace("It is ", "o").replace("sunny.", "k"),
  openai: streamText("sdk-openai-reasoning-call.sse")
    .split("\n\n")
    .filter((event) => !event.includes("fc_1"))
    .join("\n\n")
    .replaceAll("Let me look.", "ok"),
  compatible: [
    { delta: { role: "assistant", content: "ok" }, finish_reason: null },
    { delta: {}, finish_reason: "stop" },
  ]
    .map((choice) => ({ id: "chat-2", created: 1, model: "m", choices: [{ index: 0, ...choice }] }))
    .map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`)
    .join(""),
  openrouter: `data: ${JSON.stringify({
    id: "gen-2",
    choices: [{ index: 0, delta: { content: "ok" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 90, completion_tokens: 1, total_tokens: 91 },
  })}\n\n`,
  ollama: `${JSON.stringify({
    model: "qwen3:8b",
    created_at: "2026-11-01T10:00:04Z",
    message: { role: "assistant", content: "ok" },
    done: true,
    done_reason: "stop",
    prompt_eval_count: 90,
    eval_count: 1,
  })}\n`,
};

const called = SDK_STREAMS.filter(({ reply }) => reply.message.toolCalls.length > 0);

for (const { file, provider, reply: first, sentBack } of called)
  proves(["M35", "M31"], `completes a run over ${provider} that begins with ${file}`, async () => {
    const network = new FakeNetwork(streaming(streamText(file)), streaming(OK[provider]));
    const weather = spyTool("weather", () => "It is sunny.");
    const role = defineAgent({
      name: "solo",
      instructions: "Work.",
      model: aiSdkModel(PROVIDERS[provider](network.fetch)),
      tools: [weather],
      maxOutputTokens: 3_000,
    });
    const fixture = newFixture();
    const result = await fixture.run(role, { budget: { totalTokens: 50_000 } });

    expect([result.status, result.text]).toEqual(["completed", "ok"]);
    const { toolCalls } = first.message;
    expect(weather.calls).toHaveLength(toolCalls.length);
    expect(network.bodies).toHaveLength(2);
    for (const text of sentBack) expect(network.lastText).toContain(text);
    expect(network.lastText.split("It is sunny.")).toHaveLength(toolCalls.length + 1);
    const [replied] = fixture.sink.events.flatMap((event) =>
      event.type === "model.replied" ? [event] : [],
    );
    const {
      cacheWriteInputTokens: _written,
      reportedCostUsd,
      serviceTier,
      ...usage
    } = first.usage ?? {};
    const reported = reportedCostUsd === undefined ? {} : { costUsd: reportedCostUsd };
    expect(replied?.usage).toMatchObject({ ...usage, ...reported });
    expect(replied?.serviceTier).toBe(serviceTier);
  });

function weatherRole(model: AgentRole["model"], name = "solo"): AgentRole {
  const tools = [spyTool("weather", () => "It is sunny.", { needsApproval: true })];
  return defineAgent({ name, instructions: "Work.", model, tools });
}

proves(
  ["M31", "M35"],
  "sends provider data over a pause to its writer only, and again after a change of models",
  async () => {
    const claude = new FakeNetwork(
      streaming(streamText("anthropic-thinking-redacted.sse")),
      streaming(ANTHROPIC_OK),
    );
    const gemini = new FakeNetwork(streaming(OK.google));
    const first = weatherRole(aiSdkModel(PROVIDERS.anthropic(claude.fetch)));
    const second = weatherRole(aiSdkModel(PROVIDERS.google(gemini.fetch)));
    const sentBack = SDK_STREAMS[0]?.sentBack ?? [];
    const fixture = newFixture();

    const paused = await fixture.outcome(fixture.start(first));
    expect([paused.status, paused.reason.code]).toEqual(["paused", "input_required"]);
    const answers = paused.questions.map((question) => approve(question));
    const resumed = fixture.resume(second, paused.pausedRun, answers);
    expect((await fixture.outcome(resumed)).text).toBe("ok");
    for (const secret of ["EqEECkYICxgC", "EqkECkYIBxgC", "The place is known"])
      expect(gemini.lastText).not.toContain(secret);
    expect(gemini.lastText).toContain("Let me look.");

    const forked = fixture.fork(first, resumed.snapshot(), { message: "Are you sure?" });
    expect((await fixture.outcome(forked)).text).toBe("ok");
    for (const text of sentBack) expect(claude.lastText).toContain(text);
    expect(claude.lastText).not.toContain("Es8FCswFAXLI");
  },
);
