// Goal: the size of a request is counted by the model itself if it can. Otherwise the provider's
// count is used as far as it goes, with an estimate for the rest. Estimates are marked.
// Method: models that count, that cannot, and that return invalid counts; leases and events are
// compared.

import { expect, test } from "vitest";

import { openai } from "../../../src/model/openai/openai-model.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import type { ReplyPiece } from "../../../src/protocol/reply-message.ts";
import { countInputTokens } from "../../../src/model/count-tokens.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import {
  asks,
  says,
  type ScriptedReply,
  type ScriptedModelOptions,
  type ScriptStep,
} from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

const tools = [spyTool("work")];
const SCRIPT: readonly ScriptStep[] = [
  asks("work", {}, { usage: { inputTokens: 1_000 } }),
  says("Done."),
];

/** Returns the counted size of each request, and whether it is an estimate. */
async function counted(
  options: ScriptedModelOptions,
  more: Parameters<typeof soloist>[1] = {},
): Promise<readonly (readonly [number, boolean])[]> {
  const fixture = newFixture();
  await fixture.run(soloist(SCRIPT, { tools, ...more }, options).role);
  return fixture.sink
    .ofType("model.requested")
    .map(({ estimatedInputTokens, isEstimated }) => [estimatedInputTokens, isEstimated]);
}

proves(
  ["R101"],
  "calls a model's own counter with each whole request and marks no estimate",
  async () => {
    const asked: ModelRequest[] = [];
    const countTokens = (request: ModelRequest): number => {
      asked.push(request);
      return request.messages.length * 7;
    };
    expect(await counted({ countTokens })).toEqual([
      [14, false],
      [28, false],
    ]);
    expect(asked.map(({ messages, tools: specs }) => [messages.length, specs.length])).toEqual([
      [2, 1],
      [4, 1],
    ]);
  },
);

proves(
  ["R101"],
  "estimates the first request without a counter, and later ones from the provider's count",
  async () => {
    const [first, second] = await counted({ countTokens: null });
    expect([first?.[1], second?.[1]]).toEqual([true, true]);
    expect(first?.[0]).toBeLessThan(200);
    expect(second).toEqual([1_000 + 5 + 6 + 3, true]); // The reply, and a result of nine bytes with its frame.
  },
);

for (const nonsense of [Number.NaN, -1, 1.5, Infinity])
  test(`estimates the request if the counter returns ${nonsense}`, async () => {
    const [first] = await counted({ countTokens: () => nonsense });
    expect(first?.[1]).toBe(true);
  });

function broken(): number {
  throw new Error("broken");
}

function three(): number {
  return 3;
}

test("fails the run if the counter throws", async () => {
  const { role, model } = soloist(SCRIPT, { tools }, { countTokens: broken });
  const result = await newFixture().run(role);
  expect([result.status, model.requests.length]).toEqual(["failed", 0]);
});

test("marks the size as an estimate if a notice is at the end", async () => {
  const [first] = await counted(
    { countTokens: () => 7 },
    { showBudget: true, budget: { steps: 9 } },
  );
  expect(first?.[1]).toBe(true);
});

proves(
  ["R101"],
  "does not accumulate the estimates of sections in the provider's count",
  async () => {
    const sections = [{ name: "state", lifetime: "step", text: "s".repeat(894) }] as const; // 304 tokens by our estimate
    const [, second] = await counted({ countTokens: null }, { sections });
    expect(second).toEqual([1_000 + 5 + 6 + 3, true]);
    const before = [{ name: "memory", lifetime: "execution", text: "s".repeat(894) }] as const;
    const [, other] = await counted({ countTokens: null }, { sections: before });
    expect(other).toEqual([1_000 + 5 + 6 + 3, true]);
  },
);

test("counts no negative history if the provider counts less than the estimate of the sections", async () => {
  const sections = [{ name: "state", lifetime: "step", text: "s".repeat(30_000) }] as const;
  const [, second] = await counted({ countTokens: null }, { sections });
  expect(second?.[0]).toBe(10_006 + 5 + 6 + 3);
});

test("accepts a counter in openai() and rejects a value that is not a function", () => {
  const request: ModelRequest = { messages: [], tools: [], maxOutputTokens: 1 };
  const model = openai("gpt-5", { apiKey: "sk-test", countTokens: three });
  expect(countInputTokens(model, request, { messageCount: 0, tokens: 0 })).toEqual({
    tokens: 3,
    isEstimated: false,
  });
  expect("countTokens" in openai("gpt-5", { apiKey: "sk-test" })).toBe(false);
  const wrong: object = { apiKey: "sk-test", countTokens: 3 };
  expect(() => openai("gpt-5", wrong)).toThrow(/^Expected openai\.countTokens to be a function/);
});

proves(
  ["R101", "M1"],
  "counts reasoning that is sent back by the provider's figure, or by an estimate",
  async () => {
    const calls = [
      { type: "call", callId: CallIdSchema().parse("c1"), toolName: "work", argumentsText: "{}" },
    ] as const;
    const thought = { type: "reasoning", text: "x".repeat(300) } as const;
    const data = { acme: { sealed: "x".repeat(1_178) } }; // 1,200 bytes, of which three in four are read
    const secondOf = async (pieces: readonly ReplyPiece[], usage: ScriptedReply["usage"]) => {
      const fixture = newFixture();
      const script = [{ pieces, usage: usage ?? null }, says("Done.")];
      await fixture.run(soloist(script, { tools }, { countTokens: null }).role);
      return fixture.sink.ofType("model.requested")[1]?.estimatedInputTokens ?? 0;
    };
    const usage = { inputTokens: 1_000, outputTokens: 50, reasoningTokens: 40 };
    const [bare, estimated] = [await secondOf(calls, usage), await secondOf(calls, null)];
    expect([
      (await secondOf([thought, ...calls], usage)) - bare,
      (await secondOf([thought, ...calls], null)) - estimated,
      (await secondOf([{ ...thought, data }, ...calls], null)) - estimated,
    ]).toEqual([40, 100, 400]);
  },
);
