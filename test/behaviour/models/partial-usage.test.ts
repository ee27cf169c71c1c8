// Goal: each plausible figure of a usage is charged even if another one is missing or rejected, and
// each rejection is reported.
// Method: the four interfaces over real HTTP; runs over models that report odd figures.

import { createOpenAI } from "@ai-sdk/openai";
import { describe, expect } from "vitest";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { TokenUsage } from "../../../src/model/token-usage.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { eventsOf, INTERFACES, WireServer } from "../../support/four-interfaces.ts";
import { MODES, never, QUESTION, reply } from "../../support/openai-calls.ts";

const NO_INPUT: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
  "Chat Completions": [
    ['"prompt_tokens":700', '"prompt_tokens":0'],
    ['"completion_tokens":2,"total_tokens":702', '"completion_tokens":180,"cost":0.25'],
  ],
  Responses: [
    ['"input_tokens":700', '"input_tokens":0'],
    ['"output_tokens":2,"total_tokens":702', '"output_tokens":180'],
  ],
  Anthropic: [
    ['"input_tokens":600,"cache_read_input_tokens":100', '"input_tokens":0'],
    ['"usage":{"output_tokens":2', '"usage":{"output_tokens":180'],
  ],
  Gemini: [
    ['"promptTokenCount":700', '"promptTokenCount":0'],
    ['"candidatesTokenCount":2', '"candidatesTokenCount":180'],
  ],
};

describe.each(INTERFACES)("a usage without input over $name", ({ model, events, name }) => {
  proves(["D552"], `preserves its output and cost (${name})`, async () => {
    let body = events.join("");
    for (const [from, to] of NO_INPUT[name] ?? []) body = body.replaceAll(from, to);
    await using server = await WireServer.start({ body });
    const asked = model(server.url).generate(QUESTION, {
      signal: never(),
      onDelta: () => undefined,
    });
    const { inputTokens, outputTokens, reportedCostUsd } = (await asked).usage ?? {};
    expect([inputTokens, outputTokens, reportedCostUsd]).toEqual([
      0,
      180,
      name === "Chat Completions" ? 0.25 : undefined,
    ]);
  });
});

const [chat, responses] = INTERFACES;

describe("a usage with missing figures", () => {
  const usages: readonly (readonly [string, object, readonly unknown[]])[] = [
    ["no input", { completion_tokens: 180, cost: 0.25 }, [0, 180, 0.25]],
    ["null as input", { prompt_tokens: null, completion_tokens: 180 }, [0, 180, undefined]],
    ["a cost alone", { cost: 0.25 }, [0, 0, 0.25]],
    [
      "input only in its total",
      { completion_tokens: 180, total_tokens: 900 },
      [720, 180, undefined],
    ],
    ["a total alone", { prompt_tokens: 0, completion_tokens: 0, total_tokens: 900 }, []],
    ["a text as input", { prompt_tokens: "700", completion_tokens: 180 }, []],
  ];
  for (const [what, usage, expected] of usages)
    for (const face of [chat, responses])
      proves(["D552"], `is read as far as it is plausible: ${what} (${face?.name})`, async () => {
        if (face === undefined) throw new Error("Expected an interface.");
        const isChat = face === chat;
        const said = JSON.stringify(usage);
        const own = isChat
          ? said
          : said.replace("prompt_tokens", "input_tokens").replace("completion_", "output_");
        const body = face.events.join("").replaceAll(/"usage":\{[^}]*\}/g, `"usage":${own}`);
        await using server = await WireServer.start({ body });
        const options = { signal: never(), onDelta: () => undefined };
        const { usage: got } = await face.model(server.url).generate(QUESTION, options);
        const figures = [got?.inputTokens, got?.outputTokens, got?.reportedCostUsd];
        // Only Chat Completions has servers that report a figure only in the total.
        const [, output, cost] = expected;
        const isOfTotal = !isChat && "total_tokens" in usage;
        expect(got === undefined ? [] : figures).toEqual(
          isOfTotal && expected.length > 0 ? [0, output, cost] : expected,
        );
      });

  proves(["D552"], "includes a cost that the package of its provider omits", async () => {
    const usage = { prompt_tokens: 700, completion_tokens: 2, cost: 0.25 };
    const tools = { ...usage, server_tool_use: { web_search_requests: 1 } };
    const body = (chat?.events.join("") ?? "").replace(
      /"usage":\{[^}]*"completion_tokens":2[^}]*\}/,
      `"usage":${JSON.stringify(tools)}`,
    );
    await using server = await WireServer.start({ body });
    const model = aiSdkModel(
      createOpenAI({ apiKey: "key-0123456789", baseURL: server.url }).chat("m"),
    );
    const { usage: got } = await model.generate(QUESTION, { signal: never() });
    expect([got?.reportedCostUsd, got?.hasServerTools]).toEqual([0.25, true]);
  });
});

describe("a message over Chat Completions", () => {
  for (const field of ["annotations", "executed_tools"])
    for (const mode of MODES)
      proves(["D553"], `reports by its ${field} that a server tool ran (${mode})`, async () => {
        const message = { content: "ok", [field]: [{ type: "any" }] };
        const choice = { index: 0, finish_reason: "stop" };
        const usage = { prompt_tokens: 404_500, completion_tokens: 2 };
        const answer =
          mode === "streamed"
            ? {
                body: eventsOf({ id: "c", choices: [{ ...choice, delta: message }], usage }).join(
                  "",
                ),
              }
            : {
                body: JSON.stringify({ id: "c", choices: [{ ...choice, message }], usage }),
                headers: { "content-type": "application/json" },
              };
        await using server = await WireServer.start(answer);
        if (chat === undefined) throw new Error("Expected an interface.");
        const { reply: came } = await reply(chat.model(server.url), mode);
        expect(came.usage?.hasServerTools).toBe(true);
      });
});

describe("a reply that shows server tools only in its events", () => {
  proves(["D613"], "reports the tools that Groq ran, over the AI SDK", async () => {
    const ran = '"delta":{"executed_tools":[{"type":"search"}],';
    const body = chat?.events.join("").replace('"delta":{', ran) ?? "";
    await using server = await WireServer.start({ body });
    const model = createOpenAI({ apiKey: "key-0123456789", baseURL: server.url }).chat("m");
    const { usage } = await aiSdkModel(model).generate(QUESTION, { signal: never() });
    expect(usage?.hasServerTools).toBe(true);
  });

  for (const [type, isServers] of [
    ["local_shell_call", undefined],
    ["shell_call_output", true],
    ["code_interpreter_call", true],
  ] as const)
    for (const mode of MODES)
      proves(
        ["D613"],
        `reports whether the server runs a ${type} beside text (${mode})`,
        async () => {
          const content = [{ type: "output_text", text: "ok", annotations: [] }];
          const output = [
            { type: "message", id: "i", role: "assistant", content },
            { type, id: "p", status: "completed" },
          ];
          const usage = { input_tokens: 700, output_tokens: 2 };
          const response = { id: "r", status: "completed", output, usage };
          const streamed = eventsOf(
            ...output.map((item, index) => ({
              type: "response.output_item.done",
              output_index: index,
              item,
            })),
            { type: "response.completed", response },
          );
          const json = { "content-type": "application/json" };
          await using server = await WireServer.start(
            mode === "streamed"
              ? { body: streamed.join("") }
              : { body: JSON.stringify(response), headers: json },
          );
          if (responses === undefined) throw new Error("Expected an interface.");
          const { reply: came } = await reply(responses.model(server.url), mode);
          expect(came.usage?.hasServerTools).toBe(isServers);
        },
      );
});

async function chargeOf(usage: Partial<TokenUsage>): Promise<readonly unknown[]> {
  const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
  const { role } = soloist([says("Done.", { usage })], {}, { price });
  const { usage: used } = await newFixture().run(role);
  const { inputTokens, outputTokens, costUsd, estimatedCalls } = used.total;
  return [inputTokens, outputTokens, costUsd, estimatedCalls];
}

describe("a call whose usage has no input", () => {
  proves(["D552"], "is charged by the reported output and an estimate of its input", async () => {
    expect(await chargeOf({ inputTokens: 0, outputTokens: 180 })).toEqual([10, 180, 0.00019, 1]);
  });

  proves(["D552"], "is charged by the reported cost and output", async () => {
    const usage = { inputTokens: 0, outputTokens: 180, reportedCostUsd: 0.25 };
    expect(await chargeOf(usage)).toEqual([10, 180, 0.25, 1]);
  });

  proves(["D552"], "is charged by the reported cost if it also has no output", async () => {
    const usage = { inputTokens: 0, outputTokens: 0, reportedCostUsd: 0.25 };
    expect(await chargeOf(usage)).toEqual([10, 2, 0.25, 1]);
  });

  proves(["D552"], "is charged by an estimate if all figures are zero", async () => {
    expect(await chargeOf({ inputTokens: 0, outputTokens: 0 })).toEqual([10, 2, 0.000012, 1]);
    expect(takeWarnings()).toEqual([]);
  });
});

describe("input that the provider adds itself", () => {
  const ADDED = 404_500;
  /** Where each interface names a tool that its server ran, and the input of that tool. */
  const named: Readonly<Record<string, readonly (readonly [string, string])[]>> = {
    "Chat Completions": [
      ['"prompt_tokens":700', `"prompt_tokens":${ADDED}`],
      ['"total_tokens":702', '"server_tool_use":{"web_search_requests":2}'],
    ],
    Responses: [
      ['"input_tokens":700', `"input_tokens":${ADDED}`],
      [
        'data: {"type":"response.completed"',
        'data: {"type":"response.output_item.done","output_index":1,"item":{"type":"web_search_call","id":"w","status":"completed"}}\n\ndata: {"type":"response.completed"',
      ],
    ],
    Anthropic: [
      [
        '"input_tokens":600',
        `"server_tool_use":{"web_search_requests":2},"input_tokens":${ADDED - 100}`,
      ],
    ],
    Gemini: [
      ['"promptTokenCount":700', `"toolUsePromptTokenCount":9,"promptTokenCount":${ADDED - 9}`],
    ],
  };

  for (const { name, model, events } of INTERFACES)
    proves(["D553"], `is accepted if the reply names server tools (${name})`, async () => {
      let body = events.join("");
      for (const [from, to] of named[name] ?? []) body = body.replaceAll(from, to);
      await using server = await WireServer.start({ body });
      const asked = model(server.url).generate(QUESTION, {
        signal: never(),
        onDelta: () => undefined,
      });
      const { inputTokens, hasServerTools } = (await asked).usage ?? {};
      expect([inputTokens, hasServerTools]).toEqual([ADDED, true]);
    });

  const replied = async (at: number, from: string, to: string): Promise<TokenUsage | undefined> => {
    const one = INTERFACES[at];
    if (one === undefined) throw new Error("Expected an interface.");
    await using server = await WireServer.start({ body: one.events.join("").replace(from, to) });
    const options = { signal: never(), onDelta: () => undefined };
    return (await one.model(server.url).generate(QUESTION, options)).usage;
  };

  proves(["D553"], "is accepted if Gemini reports the searches of the reply", async () => {
    const end = '"finishReason":"STOP"';
    const searched = `${end},"groundingMetadata":{"webSearchQueries":["oaks"]}`;
    expect((await replied(3, end, searched))?.hasServerTools).toBe(true);
    const unsearched = `${end},"groundingMetadata":{"webSearchQueries":[]}`;
    expect((await replied(3, end, unsearched))?.hasServerTools).toBeUndefined();
  });

  proves(["D553"], "is not accepted for a call that the client should answer", async () => {
    const end = 'data: {"type":"response.completed"';
    const item = (type: string): string =>
      `data: {"type":"response.output_item.done","output_index":1,"item":{"type":"${type}","id":"w","status":"completed"}}\n\n${end}`;
    expect((await replied(1, end, item("web_search_call")))?.hasServerTools).toBe(true);
    for (const type of ["apply_patch_call", "shell_call", "custom_tool_call"])
      expect((await replied(1, end, item(type)))?.hasServerTools, type).toBeUndefined();
  });

  proves(["D553"], "is charged in full if the reply names server tools", async () => {
    const usage = { inputTokens: ADDED, hasServerTools: true } as const;
    expect(await chargeOf(usage)).toEqual([ADDED, 5, 0.404505, 0]);
  });

  proves(
    ["D553"],
    "is rejected otherwise, with an event that reports how the call was charged",
    async () => {
      const { role } = soloist([says("Done.", { usage: { inputTokens: ADDED } })]);
      const s = newFixture();
      const { usage } = await s.run(role);
      expect([usage.total.inputTokens, usage.total.estimatedCalls]).toEqual([10, 1]);
      expect(s.sink.ofType("model.warned").map(({ warning }) => warning)).toEqual([
        "The provider reported an impossible usage (inputTokens 404500, cachedInputTokens 0, outputTokens 5, reasoningTokens 0). It was rejected, and the call was charged by the token count of espalier.",
      ]);
      expect(takeWarnings()).toHaveLength(1);
    },
  );
});
