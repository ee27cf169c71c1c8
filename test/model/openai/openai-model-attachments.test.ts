// Goal: attachments reach each interface in its own format if the model accepts them. Otherwise a
// line of text names them.
// Method: the real client against a server that records every request; whole messages are compared,
// typed by the `openai` package.

import type { ChatCompletionMessageParam } from "openai/resources/chat/completions";
import type { ResponseInputItem } from "openai/resources/responses/responses";
import { describe, expect } from "vitest";

import type { AttachmentKind } from "../../../src/protocol/attachment.ts";
import type { Model } from "../../../src/model/model.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { buildReplyMessage } from "../../../src/protocol/reply-message.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import {
  createUserMessage,
  type AssistantMessage,
  type Message,
  type ToolMessage,
} from "../../../src/protocol/message.ts";
import { proves } from "../../harness/proves.ts";
import {
  CHART,
  CHART_LINE,
  PHOTO,
  REPORT,
  SAID,
  SAID_TEXT,
  SOUND,
  words,
} from "../../support/attachments.ts";
import { modelAt, never, QUESTION } from "../../support/openai-calls.ts";
import { OpenAiServer, says, type ServerReply } from "../../support/openai-server.ts";

const ids = ["call_1", "call_2"].map((id) => CallIdSchema().parse(id));
const [first, second] = ids;
const ASKED: AssistantMessage = buildReplyMessage(
  ids.map((callId) => ({ type: "call", callId, toolName: "draw", argumentsText: "{}" })),
);

function result(callId: (typeof ids)[number] | undefined, more: Partial<ToolMessage>): ToolMessage {
  return {
    role: "tool",
    callId: CallIdSchema().parse(callId),
    toolName: "draw",
    text: "Drawn.",
    ...more,
  };
}

const HISTORY: readonly Message[] = [
  createUserMessage(SAID, "task"),
  ASKED,
  result(first, { content: [CHART] }),
  result(second, {}),
];
const LATER: readonly Message[] = [...HISTORY, createUserMessage("Go on.", "steering")];

const CHART_URL = `data:image/png;base64,${CHART.data}`;
const REPORT_URL = `data:application/pdf;base64,${REPORT.data}`;

/** Returns a reply in the format of the requested interface. */
function ok({ path }: { readonly path: string }): ServerReply {
  if (path.endsWith("/chat/completions")) return says("ok");
  const output = [{ type: "message", content: [{ type: "output_text", text: "ok" }] }];
  return { type: "raw", body: JSON.stringify({ status: "completed", output }) };
}

/** Returns the messages of each request, and the text of its body up to the end of the messages. */
async function sent(
  options: {
    readonly api: "chat_completions" | "responses";
    readonly inputModalities?: readonly AttachmentKind[];
  },
  ...histories: readonly (readonly Message[])[]
) {
  await using server = await OpenAiServer.start(ok);
  const model = modelAt(server, options);
  for (const messages of histories)
    await model.generate({ ...QUESTION, messages }, { signal: never() });
  return server.requests.map(({ body, bodyText }) => ({
    messages: body[options.api === "chat_completions" ? "messages" : "input"],
    text: bodyText.slice(0, bodyText.lastIndexOf('],"max_')),
  }));
}

const ALL = ["image", "file", "audio"] as const;

describe("a request over Chat Completions", () => {
  const said = (content: unknown) => ({ role: "user", content });
  const asked = {
    role: "assistant",
    content: null,
    tool_calls: ids.map((id) => ({
      id,
      type: "function",
      function: { name: "draw", arguments: "{}" },
    })),
  };
  const drawn = ids.map((id) => ({ role: "tool", tool_call_id: id, content: "Drawn." }));

  proves(
    ["M71"],
    "contains parts in order, and those of results after the last result",
    async () => {
      const [request] = await sent({ api: "chat_completions", inputModalities: ALL }, HISTORY);
      const expected: readonly ChatCompletionMessageParam[] = [
        {
          role: "user",
          content: [
            { type: "text", text: "Compare" },
            { type: "image_url", image_url: { url: CHART_URL } },
            { type: "text", text: "with" },
            { type: "file", file: { filename: "report.pdf", file_data: REPORT_URL } },
            { type: "input_audio", input_audio: { data: SOUND.data ?? "", format: "wav" } },
            { type: "image_url", image_url: { url: PHOTO.uri ?? "" } },
          ],
        },
      ];
      const following = said([
        { type: "text", text: "Content of the result of draw (call_1):" },
        { type: "image_url", image_url: { url: CHART_URL } },
      ]);
      expect(request?.messages).toEqual([...expected, asked, ...drawn, following]);
    },
  );

  proves(
    ["M70", "M71"],
    "contains lines of text if the abilities of the server are unknown",
    async () => {
      const [request] = await sent({ api: "chat_completions" }, HISTORY);
      expect(request?.messages).toEqual([said(SAID_TEXT), asked, ...drawn]);
    },
  );

  proves(
    ["M71"],
    "contains a line of text for a file with only a URL and for an unsupported audio format",
    async () => {
      const odd = [
        { ...PHOTO, type: "file" },
        { ...SOUND, mediaType: "audio/ogg" },
      ] as const;
      const [request] = await sent({ api: "chat_completions", inputModalities: ALL }, [
        createUserMessage(odd, "task"),
      ]);
      expect(request?.messages).toEqual([
        said([
          { type: "text", text: "[image/jpeg, https://example.com/photo.jpg]" },
          { type: "text", text: "[audio/ogg, 4 bytes]" },
        ]),
      ]);
    },
  );
});

describe("a request over Responses", () => {
  const answered = (output: readonly unknown[]) => [
    ...ids.map((id) => ({ type: "function_call", call_id: id, name: "draw", arguments: "{}" })),
    ...ids.map((id, at) => ({ type: "function_call_output", call_id: id, output: output[at] })),
  ];

  proves(["M71"], "contains parts in order, and those of results inside their result", async () => {
    const [request] = await sent({ api: "responses", inputModalities: ALL }, HISTORY);
    const said: ResponseInputItem = {
      role: "user",
      content: [
        { type: "input_text", text: "Compare" },
        { type: "input_image", image_url: CHART_URL, detail: "auto" },
        { type: "input_text", text: "with" },
        { type: "input_file", filename: "report.pdf", file_data: REPORT_URL },
        { type: "input_text", text: "[audio/wav, 4 bytes]" },
        { type: "input_image", image_url: PHOTO.uri ?? "", detail: "auto" },
      ],
    };
    const shown = [
      { type: "input_text", text: "Drawn." },
      { type: "input_image", image_url: CHART_URL, detail: "auto" },
    ];
    expect(request?.messages).toEqual([said, ...answered([shown, "Drawn."])]);
  });

  proves(["M71"], "contains the URL of a file that the provider can fetch", async () => {
    const named = createUserMessage(
      [
        { ...PHOTO, type: "file" },
        { ...REPORT, name: undefined },
      ],
      "task",
    );
    const [request] = await sent({ api: "responses", inputModalities: ["file"] }, [named]);
    const content = [
      { type: "input_file", file_url: PHOTO.uri },
      { type: "input_file", filename: "file.pdf", file_data: REPORT_URL },
    ];
    expect(request?.messages).toEqual([{ role: "user", content }]);
  });

  proves(["M70", "M71"], "contains lines of text if `inputModalities` is empty", async () => {
    const [request] = await sent({ api: "responses", inputModalities: [] }, HISTORY);
    expect(request?.messages).toEqual([
      { role: "user", content: SAID_TEXT },
      ...answered(["Drawn.", "Drawn."]),
    ]);
  });
});

for (const api of ["chat_completions", "responses"] as const) {
  proves(["M71"], `begins a request with the text of the previous one over ${api}`, async () => {
    const [one, two] = await sent({ api, inputModalities: ALL }, HISTORY, LATER);
    expect(two?.text.startsWith(one?.text ?? "none")).toBe(true);
    expect(two?.text).toContain("Go on.");
  });

  proves(
    ["M71"],
    `sends one message differently to models with other \`inputModalities\` over ${api}`,
    async () => {
      const [image] = await sent({ api, inputModalities: ["image"] }, HISTORY);
      const [file] = await sent({ api, inputModalities: ["file"] }, HISTORY);
      const [again] = await sent({ api, inputModalities: ["image"] }, HISTORY);
      const counts = [image, file, again].map((one) =>
        [CHART, REPORT].map(({ data = "none" }) => (one?.text.split(data).length ?? 0) - 1),
      );
      expect(counts).toEqual([
        [2, 0],
        [0, 1],
        [2, 0],
      ]);
      expect(again).toEqual(image);
    },
  );

  proves(["M70"], `sends the text that a hook has changed over ${api}`, async () => {
    const changed: Message = {
      ...createUserMessage([words("Secret"), CHART], "task"),
      text: "Hidden",
    };
    const [request] = await sent({ api, inputModalities: ["image"] }, [changed]);
    expect(request?.text).toContain("Hidden");
    expect(request?.text).toContain(CHART.data);
    expect(request?.text).not.toMatch(/Secret|chart\.png/);
  });
}

describe("the input modalities of a model", () => {
  const KEY = { apiKey: "sk-test" };
  const taken = ({ inputModalities }: Model) => inputModalities;

  proves(["M71"], "are known for OpenAI and Azure, and set by the option elsewhere", () => {
    expect(
      [
        openai("gpt-5.6", KEY),
        openai("gpt-5.6", { ...KEY, baseUrl: "https://eu.api.openai.com/v1" }),
        openai("gpt-5.6", { ...KEY, baseUrl: "https://me.openai.azure.com/openai/v1" }),
        openai("llava", { ...KEY, baseUrl: "http://127.0.0.1:1/v1" }),
        openai("llava", { ...KEY, baseUrl: "http://127.0.0.1:1/v1", inputModalities: ["image"] }),
        openai("gpt-5.6", { ...KEY, inputModalities: [] }),
      ].map(taken),
    ).toEqual([["image", "file"], ["image", "file"], ["image", "file"], [], ["image"], []]);
  });

  proves(["M74"], "are rejected if they are not a list of known kinds", () => {
    // @ts-expect-error An unknown kind.
    expect(() => openai("gpt-5.6", { inputModalities: ["video"] })).toThrow(
      "Expected openai.inputModalities to be an array of image, audio and file, got an array.",
    );
  });
});

proves(["M70"], "describes an attachment that is not shown in a line of text", () => {
  expect(createUserMessage([CHART], "task").text).toBe(CHART_LINE);
  expect(createUserMessage([{ ...REPORT, data: undefined, text: "Whole." }], "task")).toMatchObject(
    {
      text: '[application/pdf "report.pdf", 6 bytes]\nWhole.',
    },
  );
});
