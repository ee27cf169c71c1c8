// Goal: no provider is ever asked for more output than the cap of the request, since the lease of
// the budget covers no more.
// Method: the bodies that each provider sends, for every setting of reasoning and caps of every
// size; models that insist on more.

import { describe, expect, test } from "vitest";

import { aiSdkModel, type AiSdkOptions } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { readSentCap } from "../../../src/model/ai-sdk/call-options.ts";
import { proves } from "../../harness/proves.ts";
import { rejection } from "../../support/openai-calls.ts";
import { ask, fakeModel, finish, streamOf, text } from "../../support/ai-sdk/fake-model.ts";
import {
  ANTHROPIC_OK,
  failing,
  FakeNetwork,
  PROVIDER_NAMES,
  PROVIDERS,
  streaming,
  type Body,
  type ProviderName,
} from "../../support/ai-sdk/provider-fixture.ts";

const LEVELS = [
  undefined,
  "provider-default",
  "none",
  "minimal",
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
] as const;
const CAPS = [1, 16, 1_000, 1_024, 2_047, 2_048, 9_000, 60_000];

/** Models of each kind that a provider treats differently. */
const IDS: Readonly<Record<ProviderName, readonly string[]>> = {
  anthropic: [
    "claude-3-7-sonnet-20250219",
    "claude-haiku-4-5",
    "claude-sonnet-4-5",
    "claude-opus-4-6",
    "claude-sonnet-5",
    "unheard-of",
  ],
  google: ["gemini-2.5-flash", "gemini-3-pro-preview", "unheard-of"],
  openai: ["gpt-4.1", "gpt-5.6", "unheard-of"],
  chat: ["gpt-4.1", "gpt-5.6", "unheard-of"],
  compatible: ["deepseek-v4"],
  openrouter: ["anthropic/claude-sonnet-4.5", "openai/gpt-5.6"],
  ollama: ["qwen3:8b"],
};

/** Returns every cap in a body, at any depth. */
function capsIn(body: Body): readonly number[] {
  return [
    ...JSON.stringify(body).matchAll(/"(?:max_\w*tokens|maxOutputTokens|num_predict)":(\d+)/g),
  ].map(([, cap]) => Number(cap));
}

for (const name of PROVIDER_NAMES)
  proves(
    ["M32"],
    `asks ${name} for no more than the cap, for every model, level and cap`,
    async () => {
      for (const id of IDS[name])
        for (const reasoning of LEVELS) {
          const network = new FakeNetwork(
            name === "anthropic" ? streaming(ANTHROPIC_OK) : failing(400, "{}"),
          );
          const options: AiSdkOptions = reasoning === undefined ? {} : { reasoning };
          const model = aiSdkModel(PROVIDERS[name](network.fetch, id), options);
          for (const maxOutputTokens of CAPS) {
            const before = network.bodies.length;
            await ask(model, { maxOutputTokens }).catch(() => undefined);
            const [last = {}] = network.bodies.slice(-1);
            const caps = capsIn(last);
            expect(caps.length, `${id} ${reasoning}: ${JSON.stringify(last)}`).toBeGreaterThan(0);
            expect(Math.max(...caps), `${id} ${reasoning}`).toBeLessThanOrEqual(maxOutputTokens);
            expect(readSentCap(last)).toBe(Math.max(...caps));
            // Learnt once: after the first call of a model no request is repeated.
            expect(network.bodies.length - before).toBeLessThanOrEqual(before === 0 ? 2 : 1);
          }
        }
    },
  );

describe("Claude with a budget for reasoning", () => {
  const asked = async (id: string, options: AiSdkOptions, cap: number): Promise<Asked> => {
    const network = new FakeNetwork(streaming(ANTHROPIC_OK));
    const model = aiSdkModel(PROVIDERS.anthropic(network.fetch, id), options);
    const replies = [
      await ask(model, { maxOutputTokens: cap }),
      await ask(model, { maxOutputTokens: cap }),
    ];
    return {
      sent: network.bodies.map((body) => ({
        max_tokens: body["max_tokens"],
        thinking: body["thinking"],
      })),
      warnings: replies.map(({ warnings = [] }) => warnings),
    };
  };
  const budgeted = (budgetTokens: number): AiSdkOptions => ({
    providerOptions: { anthropic: { thinking: { type: "enabled", budgetTokens } } },
  });

  proves(
    ["M32"],
    "is requested again once with half of the cap and a warning, if the provider chose the budget",
    async () => {
      const facts = await asked("claude-sonnet-4-5", { reasoning: "high" }, 9_000);
      const within = { max_tokens: 9_000, thinking: { type: "enabled", budget_tokens: 4_500 } };
      expect(facts).toEqual({
        sent: [
          { max_tokens: 47_400, thinking: { type: "enabled", budget_tokens: 38_400 } },
          within,
          within,
        ],
        warnings: [
          [
            "The provider asked for 47400 output tokens where 9000 are allowed: broken off, and asked again with a smaller budget for reasoning. The provider may charge the input of both.",
          ],
          [],
        ],
      });
    },
  );

  proves(["M32"], "is requested again by each of several concurrent calls", async () => {
    const network = new FakeNetwork(streaming(ANTHROPIC_OK));
    const options = { reasoning: "high" } as const;
    const model = aiSdkModel(PROVIDERS.anthropic(network.fetch, "claude-sonnet-4-5"), options);
    const call = () => ask(model, { maxOutputTokens: 9_000 });
    await Promise.all([call(), call()]);
    const caps = network.bodies.map((body) => body["max_tokens"]);
    expect(caps).toEqual([47_400, 47_400, 9_000, 9_000]);
  });

  test.each([
    [4_000, 9_000, { max_tokens: 9_000, thinking: { type: "enabled", budget_tokens: 4_000 } }],
    [40_000, 9_000, { max_tokens: 9_000, thinking: { type: "enabled", budget_tokens: 7_976 } }],
    [4_000, 2_048, { max_tokens: 2_048, thinking: { type: "enabled", budget_tokens: 1_024 } }],
    [4_000, 2_047, { max_tokens: 2_047, thinking: { type: "disabled" } }],
  ])("limits a budget of %i tokens to a cap of %i", async (budget, cap, body) => {
    const { sent, warnings } = await asked("claude-sonnet-4-5", budgeted(budget), cap);
    expect(sent).toEqual([body, body]);
    const warning = `A cap of ${cap} output tokens leaves no room for reasoning: the request disables it.`;
    expect(warnings).toEqual(body.thinking.type === "disabled" ? [[warning], [warning]] : [[], []]);
  });

  test("is requested once with the whole cap if the model adapts its reasoning", async () => {
    const { sent } = await asked("claude-sonnet-5", { reasoning: "high" }, 9_000);
    expect(sent.map(({ max_tokens }) => max_tokens)).toEqual([9_000, 9_000]);
  });
});

interface Asked {
  readonly sent: readonly { readonly max_tokens: unknown; readonly thinking: unknown }[];
  readonly warnings: readonly (readonly string[])[];
}

describe("a provider that insists on more", () => {
  const bodies: readonly unknown[] = [
    { max_tokens: 101 },
    { max_completion_tokens: 101 },
    { max_output_tokens: 101 },
    { generationConfig: { maxOutputTokens: 101 } },
    { inferenceConfig: { maxTokens: 101 } },
    { options: { num_predict: 101 } },
    JSON.stringify({ max_tokens: 101 }),
    { max_tokens: 101, thinking: { budget_tokens: 50 } },
  ];

  for (const body of bodies)
    proves(["M32"], `is aborted and reported if it sends ${JSON.stringify(body)}`, async () => {
      let lettingGo = 0;
      const fake = fakeModel(() => ({
        stream: new ReadableStream({ cancel: () => void (lettingGo += 1) }),
        request: { body },
      }));
      expect(await rejection(ask(aiSdkModel(fake)))).toMatchObject({
        code: "model_invalid_request",
        isRetryable: false,
        lostOutputTokens: 0,
        message:
          "Expected a reply from the model, got a request by its provider for 101 output tokens where 100 are allowed; it was broken off. Leave caps and budgets out of providerOptions, or raise maxOutputTokens of the role.",
        data: { sentTokens: 101, maxOutputTokens: 100 },
      });
      // Requested again only if a known setting may lower the cap.
      const times = JSON.stringify(body).includes("budget_tokens") ? 2 : 1;
      expect([lettingGo, fake.asked.length]).toEqual([times, times]);
    });

  test.each([{}, { max_tokens: 100 }, "no JSON", undefined])(
    "is not assumed if it sends %o",
    async (body) => {
      const fake = fakeModel(() => ({
        stream: streamOf([...text("ok"), finish()]),
        request: { body },
      }));
      expect((await ask(aiSdkModel(fake))).message.text).toBe("ok");
    },
  );
});
