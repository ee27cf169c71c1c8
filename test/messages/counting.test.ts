// Goal: how long a request is says the model itself if it can count, else its provider as far as it goes and an estimate for the rest;
// what is an estimate is marked as one.
// Method: models that count, that cannot, and that count nonsense; leases and events compared.

import { expect, test } from "vitest";

import { openai } from "../../src/model/openai/openai-model.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import type { ReplyPiece } from "../../src/protocol/reply-message.ts";
import { countInputTokens } from "../../src/model/count-tokens.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import {
  asks,
  says,
  type ScriptedReply,
  type ScriptedModelOptions,
  type ScriptStep,
} from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";

const tools = [spyTool("work")];
const SCRIPT: readonly ScriptStep[] = [
  asks("work", {}, { usage: { inputTokens: 1_000 } }),
  says("Done."),
];

/** What each request was counted to be, and whether that is an estimate. */
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
  "a counter of one's own is asked about each whole request, and its word is no estimate",
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
  "without a counter the first request is estimated; later ones go by the provider's word, and the rest is estimated",
  async () => {
    const [first, second] = await counted({ countTokens: null });
    expect([first?.[1], second?.[1]]).toEqual([true, true]);
    expect(first?.[0]).toBeLessThan(200);
    expect(second).toEqual([1_000 + 5 + 6 + 3, true]); // The reply, and a result of nine bytes with its frame.
  },
);

for (const nonsense of [Number.NaN, -1, 1.5, Infinity])
  test(`a counter that says ${nonsense} is not believed: the request is estimated`, async () => {
    const [first] = await counted({ countTokens: () => nonsense });
    expect(first?.[1]).toBe(true);
  });

function broken(): number {
  throw new Error("broken");
}

function three(): number {
  return 3;
}

test("a counter that throws fails the run, in one way", async () => {
  const { role, model } = soloist(SCRIPT, { tools }, { countTokens: broken });
  const result = await newFixture().run(role);
  expect([result.status, model.requests.length]).toEqual(["failed", 0]);
});

test("a notice at the end is estimated, and so is then the whole", async () => {
  const [first] = await counted(
    { countTokens: () => 7 },
    { showBudget: true, budget: { steps: 9 } },
  );
  expect(first?.[1]).toBe(true);
});

proves(
  ["R101"],
  "what sections add does not pile up in what the provider has counted",
  async () => {
    const sections = [{ name: "state", lifetime: "step", text: "s".repeat(894) }] as const; // 304 tokens by our estimate
    const [, second] = await counted({ countTokens: null }, { sections });
    expect(second).toEqual([1_000 + 5 + 6 + 3, true]);
    const before = [{ name: "memory", lifetime: "execution", text: "s".repeat(894) }] as const;
    const [, other] = await counted({ countTokens: null }, { sections: before });
    expect(other).toEqual([1_000 + 5 + 6 + 3, true]);
  },
);

test("a provider that counts less than our estimate of the sections does not make the history negative", async () => {
  const sections = [{ name: "state", lifetime: "step", text: "s".repeat(30_000) }] as const;
  const [, second] = await counted({ countTokens: null }, { sections });
  expect(second?.[0]).toBe(10_006 + 5 + 6 + 3);
});

test("openai() takes a counter, and refuses what is none", () => {
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
  "reasoning that goes back is counted with its reply: by the provider's figure, or by an estimate",
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
