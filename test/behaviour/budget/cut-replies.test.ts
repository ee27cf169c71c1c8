// Goal: a provider that ignores the output cap costs an agent at most twice its cap.
// Method: servers that send deltas until their connection is closed, or a long reply at once, and a
// child with a budget.

import { describe, expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { Model } from "../../../src/model/model.ts";
import type { Usage } from "../../../src/protocol/usage.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { fakeModel, finish, NO_USAGE, streamOf } from "../../support/ai-sdk/fake-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { modelAt } from "../../support/openai-calls.ts";
import { OpenAiServer, says as served, type ServerReply } from "../../support/openai-server.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const CAP = 1_000;

function* deltas(delta: object): Generator<string, never> {
  const choices = [{ index: 0, delta, finish_reason: null }];
  for (;;) yield `data: ${JSON.stringify({ choices })}\n\n`;
}

describe("a child with a cap of 1,000 tokens whose provider never ends its reply", () => {
  const endless: Readonly<Record<string, object>> = {
    text: { content: "word " },
    reasoning: { reasoning_content: "word " },
    arguments: {
      tool_calls: [{ index: 0, id: "a", function: { name: "go", arguments: "1" } }],
    },
    "Chinese text": { content: "語" },
    emoji: { content: "👍🏽" },
  };
  for (const [what, delta] of Object.entries(endless)) {
    proves(["D432"], `is charged at most twice its cap for ${what}`, async () => {
      await using server = await OpenAiServer.start((_request, count) =>
        count === 1 ? { type: "pours", pieces: deltas(delta) } : served("Done."),
      );
      const helper = defineAgent({
        name: "helper",
        description: "Helps.",
        instructions: "Help.",
        model: modelAt(server),
        maxOutputTokens: CAP,
        budget: { totalTokens: 2_000 },
      });
      const lead = part("lead", [calls(spawn("helper")), says("Done.")], { subagents: [helper] });
      const s = newFixture();
      await s.run(lead.role, { onStreamPart: () => undefined });
      expect(await server.request(1).ended).toBe("closed early");
      const [reply] = s.sink
        .ofType("model.replied")
        .filter(({ agentPath }) => agentPath.includes("helper"));
      expect(reply?.finishReason).toBe("length");
      expect(reply?.usage.outputTokens).toBeGreaterThan(1.9 * CAP);
      expect(reply?.usage.outputTokens).toBeLessThanOrEqual(2 * CAP);
      expect(s.sink.ofType("model.warned").map(({ warning }) => warning)).toContainEqual(
        expect.stringContaining("cut at twice the cap"),
      );
    });
  }
});

/** Returns the usage charged for the first call of a child with a cap of 1,000 tokens. */
async function chargedFor(model: Model, isStreamed: boolean): Promise<Usage> {
  const helper = defineAgent({
    name: "helper",
    description: "Helps.",
    instructions: "Help.",
    model,
    maxOutputTokens: CAP,
    budget: { totalTokens: 2_000 },
  });
  const lead = part("lead", [calls(spawn("helper")), says("Done.")], { subagents: [helper] });
  const s = newFixture();
  await s.run(lead.role, isStreamed ? { onStreamPart: () => undefined } : {});
  const [reply] = s.sink
    .ofType("model.replied")
    .filter(({ agentPath }) => agentPath.includes("helper"));
  if (reply === undefined) throw new Error("Expected a reply of the helper.");
  expect(reply.finishReason).toBe("length");
  return reply.usage;
}

describe("a child with a cap of 1,000 tokens is charged twice its cap for 20,000 bytes without usage", () => {
  const long = "word ".repeat(4_000);
  const raw = (body: object): ServerReply => ({ type: "raw", body: JSON.stringify(body) });
  const message = (fields: object): ServerReply =>
    raw({ choices: [{ index: 0, message: { role: "assistant", ...fields } }] });
  const item = { type: "message", content: [{ type: "output_text", text: long }] };
  const call = { type: "function_call", call_id: "c", name: "go", arguments: long };
  const done = [item, call].map((one, index) => {
    return { type: "response.output_item.done", output_index: index, item: one };
  });

  const answers: Readonly<
    Record<string, readonly ["chat_completions" | "responses", boolean, ServerReply]>
  > = {
    "a text over Chat Completions": ["chat_completions", false, message({ content: long })],
    "a refusal over Chat Completions": ["chat_completions", false, message({ refusal: long })],
    "a text over Responses": ["responses", false, raw({ output: [item] })],
    "a call over Responses": ["responses", false, raw({ output: [call] })],
    "a text in a whole item": ["responses", true, { type: "events", data: [done[0]] }],
    "a call in a whole item": ["responses", true, { type: "events", data: [done[1]] }],
  };
  for (const [what, [api, isStreamed, answer]] of Object.entries(answers))
    proves(["D504", "D506"], what, async () => {
      await using server = await OpenAiServer.start(() => answer);
      const { outputTokens } = await chargedFor(modelAt(server, { api }), isStreamed);
      expect(outputTokens).toBe(2 * CAP);
    });

  proves(["D504"], "a call in one part over the AI SDK", async () => {
    const part = { type: "tool-call", toolCallId: "c", toolName: "go", input: long } as const;
    const end = finish("stop", "stop", NO_USAGE);
    const model = aiSdkModel(fakeModel(() => ({ stream: streamOf([part, end]) })));
    expect((await chargedFor(model, false)).outputTokens).toBe(2 * CAP);
  });
});
