// Goal: a reply that comes whole, or in whole items and calls, is cut at twice its cap by the same
// count as a stream.
// Method: servers of both APIs that ignore the cap, with and without usage.

import { describe, expect } from "vitest";

import type { ModelReply } from "../../../src/model/model.ts";
import { readFailedCall } from "../../../src/model/openai/from-openai.ts";
import { proves } from "../../harness/proves.ts";
import { modelAt, QUESTION, reply, type Mode } from "../../support/openai-calls.ts";
import { OpenAiServer, type ServerReply } from "../../support/openai-server.ts";

const CAP = QUESTION.maxOutputTokens;
const CUT_BYTES = 2 * CAP * 3;
/** The longest reply that is accepted if its usage is within the cap. */
const TRUSTED_BYTES = 8 * CAP;
const ENDLESS = "x".repeat(5_000);

type Api = "chat_completions" | "responses";

interface Facts {
  readonly finishReason: string;
  readonly bytes: number;
  readonly outputTokens: number | undefined;
  readonly isWarned: boolean;
}

async function answered(api: Api, answer: ServerReply, mode: Mode): Promise<Facts> {
  await using server = await OpenAiServer.start(() => answer);
  const { reply: cut, pieces } = await reply(modelAt(server, { api }), mode);
  if (mode === "streamed") expect(pieces.join("")).toBe(cut.message.text);
  return {
    finishReason: cut.finishReason,
    bytes: Buffer.byteLength(writtenIn(cut)),
    outputTokens: cut.usage?.outputTokens,
    isWarned: cut.warnings?.some((warning) => warning.includes("cut at twice the cap")) ?? false,
  };
}

/** Returns all text that budgets count. */
function writtenIn({ message }: ModelReply): string {
  const { text, refusal = "", parts = [], toolCalls } = message;
  const reasoning = parts.map((part) => (part.type === "reasoning" ? part.text : ""));
  const calls = toolCalls.map((call) => call.toolName + call.argumentsText);
  return [text, refusal, ...reasoning, ...calls].join("");
}

const CUT: Facts = {
  finishReason: "length",
  bytes: CUT_BYTES,
  outputTokens: undefined,
  isWarned: true,
};

function bodyOf(value: object): ServerReply {
  return { type: "raw", body: JSON.stringify(value) };
}

const completion = (message: object, outputTokens?: number): ServerReply =>
  bodyOf({
    choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop" }],
    ...(outputTokens === undefined
      ? {}
      : { usage: { prompt_tokens: 5, completion_tokens: outputTokens } }),
  });

const usageIn = (outputTokens?: number): object =>
  outputTokens === undefined ? {} : { usage: { input_tokens: 5, output_tokens: outputTokens } };

const response = (output: readonly object[], outputTokens?: number): ServerReply =>
  bodyOf({ status: "completed", output, ...usageIn(outputTokens) });

const sent = (type: string, fields: object): object => ({ type: `response.${type}`, ...fields });

/** Sends each item as one whole event, then the end of the response. */
function items(output: readonly object[]): ServerReply {
  const done = output.map((item, place) => sent("output_item.done", { output_index: place, item }));
  return { type: "events", data: [...done, sent("completed", { response: {} })] };
}

/** Sends all items in the last event. */
const end = (output: readonly object[], outputTokens?: number): ServerReply => ({
  type: "events",
  data: [sent("completed", { response: { output, ...usageIn(outputTokens) } })],
});

const said = (text: string): object => ({
  type: "message",
  content: [{ type: "output_text", text }],
});
const go = (args: string, id = "c"): object => ({
  type: "function_call",
  call_id: id,
  name: "go",
  arguments: args,
});

/** In each message the content at the end is beyond the cut. */
const MESSAGES: Readonly<Record<string, object>> = {
  text: { content: ENDLESS },
  "characters of many bytes": { content: "語".repeat(2_000) },
  reasoning: { reasoning_content: ENDLESS, content: "So." },
  "a refusal": { refusal: ENDLESS },
  arguments: { tool_calls: [{ id: "a", function: { name: "go", arguments: ENDLESS } }] },
  "many calls": {
    tool_calls: Array.from({ length: 40 }, (_call, index) => ({
      id: `${index}`,
      function: { name: "t", arguments: '{"to":"the tree"}' },
    })),
  },
};

const OUTPUTS: Readonly<Record<string, readonly object[]>> = {
  text: [said(ENDLESS)],
  "characters of many bytes": [said("語".repeat(2_000))],
  "text in many items": Array.from({ length: 50 }, () => said("word ".repeat(10))),
  "a summary and a text": [
    { type: "reasoning", summary: [{ type: "summary_text", text: ENDLESS }] },
    said("So."),
  ],
  "reasoning in clear": [
    { type: "reasoning", content: [{ type: "reasoning_text", text: ENDLESS }] },
  ],
  "a refusal": [{ type: "message", content: [{ type: "refusal", refusal: ENDLESS }] }],
  arguments: [go(ENDLESS)],
  "many calls": Array.from({ length: 40 }, (_call, index) => ({
    type: "function_call",
    call_id: `${index}`,
    name: "t",
    arguments: '{"to":"the tree"}',
  })),
};

describe("a whole reply without usage over Chat Completions is cut at twice the cap:", () => {
  for (const [what, message] of Object.entries(MESSAGES))
    proves(["D504"], what, async () => {
      expect(await answered("chat_completions", completion(message), "whole")).toEqual(CUT);
    });
});

proves(["D504"], "cuts a call that the server rejected at twice the cap", async () => {
  const written = `<function=go>${" x".repeat(15_000)}</function>`;
  const error = { code: "tool_use_failed", message: "Failed.", failed_generation: written };
  expect([
    await answered("chat_completions", { type: "status", status: 400, body: { error } }, "whole"),
    await answered("chat_completions", bodyOf({ error }), "whole"),
    await answered("chat_completions", { type: "events", data: [{ error }] }, "streamed"),
  ]).toEqual([CUT, CUT, CUT]);
});

proves(["D508"], "parses a rejected call in linear time, however many blanks it contains", () => {
  const fastestMs = (blanks: number): number => {
    const written = `<function=go>x${" ".repeat(blanks)}y</function>`;
    const report = { code: "tool_use_failed", failed_generation: written };
    const times = Array.from({ length: 3 }, () => {
      const startedMs = performance.now();
      expect(readFailedCall(report)?.argumentsText).toHaveLength(blanks + 2);
      return performance.now() - startedMs;
    });
    return Math.min(...times);
  };
  // Quadratic time would take 64 times as long for eight times the length.
  expect(fastestMs(40_000)).toBeLessThan(30 * Math.max(1, fastestMs(5_000)));
});

describe.each([
  ["whole", "whole", response],
  ["in whole items", "streamed", items],
  ["all at the end of a stream", "streamed", end],
] as const)(
  "a reply without usage over Responses, %s, is cut at twice the cap:",
  (_how, mode, serve) => {
    for (const [what, output] of Object.entries(OUTPUTS))
      proves(["D504"], what, async () => {
        expect(await answered("responses", serve(output), mode)).toEqual(CUT);
      });
  },
);

proves(["D504"], "cuts an item that is longer than its deltas at twice the cap", async () => {
  const piece = "x".repeat(400);
  const item = said(piece + "y".repeat(400));
  const data = [
    sent("output_text.delta", { output_index: 0, delta: piece }),
    sent("output_item.done", { output_index: 0, item }),
    sent("completed", { response: {} }),
  ];
  expect(await answered("responses", { type: "events", data }, "streamed")).toEqual(CUT);
});

proves(["D504"], "counts the deltas of items that end empty", async () => {
  const round = (place: number): readonly object[] => [
    sent("output_text.delta", { output_index: place, delta: "x".repeat(100) }),
    sent("output_item.done", { output_index: place, item: said("") }),
  ];
  const data = Array.from({ length: 7 }, (_none, place) => round(place)).flat();
  await using server = await OpenAiServer.start(() => ({ type: "events", data }));
  const { reply: cut, pieces } = await reply(modelAt(server, { api: "responses" }), "streamed");
  expect([cut.finishReason, pieces.join("").length]).toEqual(["length", CUT_BYTES]);
});

proves(["D507"], "cuts the forwarded deltas of items that end with other content", async () => {
  const round = (place: number): readonly object[] => [
    sent("refusal.delta", { output_index: place, delta: "x".repeat(100) }),
    sent("output_item.done", { output_index: place, item: said("y".repeat(100)) }),
  ];
  const data = Array.from({ length: 7 }, (_none, place) => round(place)).flat();
  await using server = await OpenAiServer.start(() => ({ type: "events", data }));
  let handed = "";
  await modelAt(server, { api: "responses" }).generate(QUESTION, {
    signal: new AbortController().signal,
    onDelta: (delta) => {
      if ("text" in delta) handed += delta.text;
    },
  });
  expect(handed).toBe("x".repeat(CUT_BYTES));
});

proves(["D504"], "counts the separators between summaries like the summaries", async () => {
  const data = Array.from({ length: 1_000 }, (_none, index) =>
    sent("reasoning_summary_text.delta", {
      output_index: 0,
      summary_index: index,
      delta: index === 0 ? "x" : "",
    }),
  );
  const answer = { type: "events", data } as const;
  expect(await answered("responses", answer, "streamed")).toEqual(CUT);
});

proves(
  ["D504"],
  "omits a call whose name does not fit, instead of truncating the name",
  async () => {
    const call = { id: "a", function: { name: "t".repeat(CUT_BYTES + 1), arguments: "{}" } };
    const item = {
      type: "function_call",
      call_id: "a",
      name: call.function.name,
      arguments: "{}",
    };
    const added = sent("output_item.added", { output_index: 0, item });
    const none = { ...CUT, bytes: 0 };
    expect([
      await answered("chat_completions", completion({ tool_calls: [call] }), "whole"),
      await answered("responses", response([item]), "whole"),
      await answered("responses", items([item]), "streamed"),
      await answered("responses", { type: "events", data: [added] }, "streamed"),
    ]).toEqual([none, none, none, none]);
  },
);

proves(["D504"], "drops encrypted reasoning if its summary is cut", async () => {
  const summary = [{ type: "summary_text", text: ENDLESS }];
  const item = { type: "reasoning", encrypted_content: "sealed", summary };
  await using server = await OpenAiServer.start(() => response([item]));
  const { reply: cut } = await reply(modelAt(server, { api: "responses" }), "whole");
  expect(cut.message.parts).toEqual([{ type: "reasoning", text: "x".repeat(CUT_BYTES) }]);
});

describe.each([
  [
    "Chat Completions",
    "chat_completions",
    "whole",
    (text: string, usage: number) => completion({ content: text }, usage),
  ],
  [
    "Responses",
    "responses",
    "whole",
    (text: string, usage: number) => response([said(text)], usage),
  ],
  [
    "the end of a stream of Responses",
    "responses",
    "streamed",
    (text: string, usage: number) => end([said(text)], usage),
  ],
] as const)("a whole reply with usage over %s", (_name, api, mode, serve) => {
  const withUsage = (bytes: number, usage: number): Promise<Facts> =>
    answered(api, serve("x".repeat(bytes), usage), mode);

  proves(["D505"], "is not cut if its usage is within the cap", async () => {
    expect(await withUsage(TRUSTED_BYTES, CAP)).toEqual({
      finishReason: "stop",
      bytes: TRUSTED_BYTES,
      outputTokens: CAP,
      isWarned: false,
    });
  });

  proves(["D505"], "is cut if its text is too long for the reported tokens", async () => {
    expect([await withUsage(TRUSTED_BYTES + 1, CAP), await withUsage(5_000, 80)]).toEqual([
      { ...CUT, bytes: TRUSTED_BYTES },
      { ...CUT, bytes: 640 },
    ]);
  });

  proves(
    ["D505"],
    "is cut at twice the cap if its usage exceeds that, and is charged by its usage",
    async () => {
      expect([
        await withUsage(5_000, 1_666),
        await withUsage(700, 150),
        await withUsage(5_000, 150),
      ]).toEqual([
        { ...CUT, outputTokens: 1_666 },
        { ...CUT, outputTokens: 150 },
        // 5,000 bytes are more than 150 tokens.
        CUT,
      ]);
    },
  );
});
