// Goal: attachments reach each provider of the AI SDK in its own format, inside the result of a
// tool if its model accepts them there.
// Method: the providers themselves, and one against a real server; the bodies that they send.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { describe, expect } from "vitest";

import type { AttachmentKind } from "../../../src/protocol/attachment.ts";
import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import {
  createUserMessage,
  type Message,
  type ToolMessage,
} from "../../../src/protocol/message.ts";
import { buildReplyMessage } from "../../../src/protocol/reply-message.ts";
import { proves } from "../../harness/proves.ts";
import {
  CHART,
  PHOTO,
  PHOTO_LINE,
  png,
  REPORT,
  SAID,
  SAID_TEXT,
  SOUND,
  SOUND_LINE,
  words,
} from "../../support/attachments.ts";
import { rejection } from "../../support/openai-calls.ts";
import { OpenAiServer, says } from "../../support/openai-server.ts";
import { ask, fakeModel, finish, saying, streamOf, text } from "../../support/ai-sdk/fake-model.ts";
import {
  failing,
  FakeNetwork,
  PROVIDERS,
  type ProviderName,
} from "../../support/ai-sdk/provider-fixture.ts";

const ids = ["call_1", "call_2"].map((id) => CallIdSchema().parse(id));
const DRAWN = { ...CHART, name: "drawn.png", data: png(20, 20, 7) };

function result(
  callId: (typeof ids)[number] | undefined,
  more: Partial<ToolMessage> = {},
): ToolMessage {
  return {
    role: "tool",
    callId: CallIdSchema().parse(callId),
    toolName: "draw",
    text: "Drawn.",
    ...more,
  };
}

const HISTORY: readonly Message[] = [
  createUserMessage([words("Look at"), CHART, words("and"), REPORT], "task"),
  buildReplyMessage(
    ids.map((callId) => ({ type: "call", callId, toolName: "draw", argumentsText: "{}" })),
  ),
  result(ids[0], { content: [DRAWN] }),
  result(ids[1]),
];
const TOOLS = [{ name: "draw", description: "Draws.", inputSchema: { type: "object" } }];
const HEADING = "Content of the result of draw (call_1):";

/** Returns the body that a provider sends for the history. */
async function sentBy(
  provider: ProviderName,
  inputModalities?: readonly AttachmentKind[],
  messages = HISTORY,
): Promise<string> {
  const network = new FakeNetwork(failing(400, "{}"));
  const model = aiSdkModel(
    PROVIDERS[provider](network.fetch),
    inputModalities === undefined ? {} : { inputModalities },
  );
  await rejection(ask(model, { messages, tools: TOOLS }));
  expect(network.bodies).toHaveLength(1);
  return network.lastText;
}

const has = (body: string): readonly boolean[] =>
  [CHART, REPORT, DRAWN].map(({ data = "none" }) => body.includes(data));

describe("a request without `inputModalities`", () => {
  for (const [provider, expected] of [
    ["anthropic", [true, true, true]],
    ["google", [true, true, true]],
    ["openai", [true, true, true]],
    ["chat", [true, true, true]],
    ["compatible", [false, false, false]],
    ["openrouter", [false, false, false]],
    ["ollama", [false, false, false]],
  ] as const)
    proves(
      ["M71"],
      `contains the attachments that models of ${provider} are known to accept`,
      async () => {
        expect(has(await sentBy(provider))).toEqual(expected);
      },
    );

  proves(
    ["M70"],
    "contains only lines of text for a model that accepts no attachments",
    async () => {
      const body = await sentBy("compatible");
      expect(body).toContain(
        JSON.stringify('Look at\n[image/png "chart.png", 24 bytes]\nand\n').slice(0, -1),
      );
      expect(body).not.toContain(HEADING);
    },
  );
});

describe("an image in the result of a tool", () => {
  for (const { provider, inResult } of [
    { provider: "anthropic", inResult: true },
    { provider: "google", inResult: true },
    { provider: "openai", inResult: true },
    { provider: "openrouter", inResult: true },
    { provider: "chat", inResult: false },
    { provider: "compatible", inResult: false },
    { provider: "ollama", inResult: false },
  ] as const)
    proves(
      ["M71"],
      `is sent ${inResult ? "inside the result" : "after the results"} to ${provider}`,
      async () => {
        const body = await sentBy(provider, ["image"]);
        expect(has(body)).toEqual([true, false, true]);
        expect(body.includes(HEADING)).toBe(!inResult);
        // As JSON text it would be many times as long for the model.
        expect(body).not.toContain(String.raw`\"data\"`);
      },
    );
});

describe("the prompt", () => {
  const file = ({ data = "", mediaType, name: filename }: typeof CHART) => ({
    type: "file",
    data: { type: "data", data },
    mediaType,
    ...(filename === undefined ? {} : { filename }),
  });
  const done = [...text("ok"), finish()];

  proves(
    ["M71"],
    "contains parts in order, and those of results after the last result",
    async () => {
      const model = saying(done);
      await ask(aiSdkModel(model, { inputModalities: ["image", "file", "audio"] }), {
        messages: [createUserMessage(SAID, "task"), ...HISTORY.slice(1)],
      });
      expect(model.asked[0]?.prompt.map(({ role, content }) => [role, content])).toEqual([
        [
          "user",
          [
            { type: "text", text: "Compare" },
            file(CHART),
            { type: "text", text: "with" },
            file(REPORT),
            file(SOUND),
            { type: "text", text: PHOTO_LINE },
          ],
        ],
        ["assistant", expect.anything()],
        [
          "tool",
          ids.map((id) => ({
            type: "tool-result",
            toolCallId: id,
            toolName: "draw",
            output: { type: "text", value: "Drawn." },
          })),
        ],
        ["user", [{ type: "text", text: HEADING }, file(DRAWN)]],
      ]);
    },
  );

  proves(["M71"], "contains a URL if the provider reports that it fetches from there", async () => {
    for (const supportedUrls of [
      { "image/*": [/^https:\/\/example\.com\//] },
      Promise.resolve({ "*": [/photo/] }),
      { "image/png": [/./], "audio/*": [/./] },
      {},
    ]) {
      const model = { ...saying(done), supportedUrls };
      const asked: unknown[] = [];
      const watched = {
        ...model,
        doStream: (options: Parameters<typeof model.doStream>[0]) => {
          asked.push(options.prompt[0]?.content);
          return model.doStream(options);
        },
      };
      await ask(aiSdkModel(watched, { inputModalities: ["image"] }), {
        messages: [createUserMessage([PHOTO], "task")],
      });
      const isFetched = !JSON.stringify(Object.keys(await supportedUrls)).match(/png|\[\]/);
      expect(asked).toEqual([
        [
          isFetched
            ? {
                type: "file",
                data: { type: "url", url: new URL(PHOTO.uri ?? "") },
                mediaType: "image/jpeg",
              }
            : { type: "text", text: PHOTO_LINE },
        ],
      ]);
    }
  });

  proves(["M71", "M33"], "is abandoned while it is prepared when the call is aborted", async () => {
    const never = new Promise<Record<string, RegExp[]>>(() => undefined);
    const model = { ...fakeModel(() => ({ stream: streamOf([]) })), supportedUrls: never };
    const controller = new AbortController();
    const asking = ask(aiSdkModel(model), {}, controller.signal);
    controller.abort(new Error("Enough."));
    expect(await rejection(asking)).toMatchObject({ message: "Enough." });
    expect(model.asked).toEqual([]);
  });
});

proves(
  ["M71"],
  "sends all attachments to a real server, and extends the previous request",
  async () => {
    await using server = await OpenAiServer.start(() => says("ok"));
    const sdk = createOpenAICompatible({ name: "mine", baseURL: server.baseUrl, apiKey: "key" })(
      "m",
    );
    const model = aiSdkModel(sdk, { inputModalities: ["image"] });
    const first = [createUserMessage([words("See"), CHART, SOUND], "task")];
    const messages = [...first, ...HISTORY.slice(1)];
    await ask(model, { messages });
    await ask(model, { messages: [...messages, createUserMessage("Go on.", "steering")] });
    const [one, two] = server.requests.map(({ body }) => body["messages"]);
    const url = (data: string | undefined) => ({
      type: "image_url",
      image_url: { url: `data:image/png;base64,${data}` },
    });
    expect(one).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "See" },
          url(CHART.data),
          { type: "text", text: SOUND_LINE },
        ],
      },
      expect.objectContaining({ role: "assistant" }),
      ...ids.map((id) => ({ role: "tool", tool_call_id: id, content: "Drawn." })),
      { role: "user", content: [{ type: "text", text: HEADING }, url(DRAWN.data)] },
    ]);
    expect(Array.isArray(two) && two.slice(0, -1)).toEqual(one);
  },
);

proves(["M70"], "sends lines of text to a real server whose abilities are unknown", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  const sdk = createOpenAICompatible({ name: "mine", baseURL: server.baseUrl, apiKey: "key" })("m");
  await ask(aiSdkModel(sdk), { messages: [createUserMessage(SAID, "task")] });
  expect(server.request(1).body["messages"]).toEqual([{ role: "user", content: SAID_TEXT }]);
});
