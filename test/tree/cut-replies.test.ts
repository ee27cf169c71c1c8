// Goal: a provider that ignores the cap costs an agent at most twice its cap. Method: a server that sends
// deltas until its connection is closed, and a child with a budget, with and without a reader of pieces.

import { describe, expect } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { says } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { modelAt } from "../support/openai-calls.ts";
import { OpenAiServer, says as served } from "../support/openai-server.ts";
import { calls, part, spawn } from "./scripted-agents.ts";

const CAP = 1_000;

function* deltas(delta: object): Generator<string, never> {
  const choices = [{ index: 0, delta, finish_reason: null }];
  for (;;) yield `data: ${JSON.stringify({ choices })}\n\n`;
}

describe("a child with a cap of 1,000 tokens, whose provider never ends its reply,", () => {
  const endless: Readonly<Record<string, object>> = {
    text: { content: "word " },
    reasoning: { reasoning_content: "word " },
    arguments: { tool_calls: [{ index: 0, id: "a", function: { name: "go", arguments: "1" } }] },
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
        purpose: "Helps.",
        instructions: "Help.",
        model: modelAt(server),
        maxOutputTokens: CAP,
        budget: { totalTokens: 2_000 },
      });
      const lead = part("lead", [calls(spawn("helper")), says("Done.")], { subagents: [helper] });
      const s = newFixture();
      await s.run(lead.role, { onPiece: () => undefined });
      expect(await server.request(1).ended).toBe("closed early");
      const [reply] = s.sink
        .of("model.replied")
        .filter(({ agentPath }) => agentPath.includes("helper"));
      expect(reply?.finishReason).toBe("length");
      expect(reply?.usage.outputTokens).toBeGreaterThan(1.9 * CAP);
      expect(reply?.usage.outputTokens).toBeLessThanOrEqual(2 * CAP);
      expect(s.sink.of("model.warned").map(({ warning }) => warning)).toContainEqual(
        expect.stringContaining("cut at twice the cap"),
      );
    });
  }
});
