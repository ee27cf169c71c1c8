// Goal: attachments are counted, bounded and rejected before they cost anything; a compacted
// history keeps the newest.
// Method: real runs with scripted models; image headers of known size; invalid input at every entry
// point.

import { describe, expect } from "vitest";

import { estimateMessages } from "../../../src/model/count-tokens.ts";
import type { Attachment } from "../../../src/protocol/attachment.ts";
import type { ContentPart, MessageContent } from "../../../src/protocol/message-content.ts";
import { createUserMessage, type Message } from "../../../src/protocol/message.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { transform } from "../../../src/hooks/hook.ts";
import { toolResult } from "../../../src/tools/tool-result.ts";
import { loadGptTokenCounter } from "../../../src/tokens/gpt-token-counter.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  CHART,
  CHART_LINE,
  jpeg,
  PHOTO,
  png,
  REPORT,
  SOUND,
  words,
} from "../../support/attachments.ts";

const image = (data: string | undefined): Attachment => ({
  type: "image",
  mediaType: "image/png",
  ...(data === undefined ? { uri: PHOTO.uri } : { data }),
});

/** Returns the tokens that a part adds to the estimate of its line. */
function added(part: ContentPart): number {
  const { content: _none, ...plain } = createUserMessage([part], "task");
  return estimateMessages([createUserMessage([part], "task")]) - estimateMessages([plain]);
}

/** Returns base64 of the given number of bytes. */
const ofBytes = (bytes: number): string => Buffer.alloc(bytes).toString("base64");

describe("the token estimate of attachments", () => {
  proves(
    ["M74"],
    "depends on the size of an image within bounds, and is 1,600 if the size is unknown",
    () => {
      expect(
        [
          png(750, 1_000),
          png(751, 1_000),
          png(10, 10),
          png(10_000, 10_000),
          jpeg(1_500, 500),
          jpeg(1_500, 500, 60_000),
          ofBytes(30),
          jpeg(1_500, 500).slice(0, 12),
          undefined,
        ].map((data) => added(image(data))),
      ).toEqual([1_000, 1_002, 85, 4_800, 1_000, 1_000, 1_600, 1_600, 1_600]);
    },
  );

  proves(["M74"], "depends on the bytes of a file or a sound", () => {
    expect(
      [
        { ...REPORT, data: ofBytes(1_000) },
        { ...REPORT, data: undefined, uri: PHOTO.uri },
        { ...SOUND, data: ofBytes(5_001) },
      ].map(added),
    ).toEqual([2_050, 2_000, 11]);
  });

  proves(["M74", "R101"], "is part of the reservation until the provider has counted", async () => {
    const options = { inputModalities: ["image"], countTokens: null } as const;
    const { role } = soloist([says("Done.")], {}, options);
    const fixture = newFixture();
    await fixture.outcome(fixture.start(role, [CHART]));
    const blind = soloist([says("Done.")], {}, { countTokens: null });
    await fixture.outcome(fixture.start(blind.role, [CHART]));
    const [seen = 0, unseen = 0] = fixture.sink
      .ofType("model.requested")
      .map(({ estimatedInputTokens }) => estimatedInputTokens);
    expect(seen - unseen).toBe(1_000);
  });

  proves(["M74"], "is part of the tokenizer's count", async () => {
    const count = await loadGptTokenCounter("gpt-5");
    const request = { tools: [], maxOutputTokens: 10 };
    const { content: _none, ...plain } = createUserMessage([CHART], "task");
    const counted = (messages: readonly Message[]): number => count({ ...request, messages });
    expect(counted([createUserMessage([CHART], "task")]) - counted([plain])).toBe(1_000);
  });
});

/** Returns the code and the message of a rejected task. */
function refusal(task: unknown): readonly unknown[] {
  const { role, model } = soloist([says("Done.")]);
  try {
    // @ts-expect-error Any value may be passed.
    newFixture().start(role, task);
  } catch (cause) {
    expect(model.requests).toEqual([]);
    if (EspalierError.is(cause)) return [cause.code, cause.message];
  }
  return ["none"];
}

const BAD: readonly (readonly [what: string, task: unknown, code: string, message: string])[] = [
  ["no parts", [], "invalid_argument", "Expected task to be at least one part, got an array."],
  ["nothing", [null], "invalid_argument", "Expected task[0] to be a plain object, got null."],
  [
    "a message",
    [{ role: "user", content: "Hi" }],
    "invalid_argument",
    "Expected task to be a string or an array of content parts, got an array. Pass the task as text. To continue a history, use a session",
  ],
  [
    "an unknown kind",
    [{ type: "video", mediaType: "video/mp4", data: "AAAA" }],
    "invalid_argument",
    'Expected task[0].type to be text, image, audio or file, got "video".',
  ],
  [
    "an empty text",
    [CHART, words(" ")],
    "invalid_argument",
    'Expected task[1].text to be a non-empty string, got " ".',
  ],
  [
    "a key too many",
    [{ ...CHART, url: "https://example.com" }],
    "invalid_argument",
    'Expected task[0].url to be one of type, mediaType, name, uri, data, text, got "url".',
  ],
  [
    "no media type",
    [{ type: "image", data: "AAAA" }],
    "invalid_argument",
    "Expected task[0].mediaType to be a string, got undefined.",
  ],
  [
    "broken base64",
    [{ ...CHART, data: `AAA${"!".repeat(100)}` }],
    "invalid_argument",
    `Expected task[0].data to be bytes in base64, got "AAA${"!".repeat(57)}…".`,
  ],
  [
    "no bytes",
    [{ ...CHART, data: "" }],
    "invalid_argument",
    'Expected task[0].data to be bytes in base64, got "". Pass the bytes of the file: it is empty.',
  ],
  [
    "a broken data: address",
    [{ ...PHOTO, uri: "data:image/png;base64,AAA!" }],
    "invalid_argument",
    'Expected task[0].data to be bytes in base64, got "AAA!".',
  ],
  [
    "an address that is not safe",
    [{ ...PHOTO, uri: "http://example.com/photo.jpg" }],
    "invalid_argument",
    'Expected task[0].uri to be an https: or data: URL, got "http://example.com/photo.jpg". espalier fetches nothing. Pass other content as data.',
  ],
  [
    "a file of this machine",
    [{ ...PHOTO, uri: "file:///etc/passwd" }],
    "invalid_argument",
    "Expected task[0].uri to be an https: or data: URL",
  ],
  [
    "an address with text in it",
    [{ ...PHOTO, uri: "data:text/plain,hello" }],
    "invalid_argument",
    "Expected task[0].uri to be an https: or data: URL",
  ],
  [
    "neither bytes nor an address",
    [{ type: "image", mediaType: "image/png" }],
    "invalid_argument",
    "Expected task[0] to be something with a uri, or with either data or text, got an object.",
  ],
];

for (const [what, task, code, message] of BAD)
  proves(["M74"], `a task with ${what} is rejected`, () => {
    const [got, words = ""] = refusal(task);
    expect(got).toBe(code);
    expect(words).toContain(message);
  });

proves(
  ["M74"],
  "an attachment of 20,000,000 bytes is accepted; one byte more and three of them are rejected",
  () => {
    const most = { ...CHART, data: ofBytes(20_000_000) };
    expect(refusal([most])).toEqual(["none"]);
    expect(refusal([{ ...CHART, data: ofBytes(20_000_001) }])).toEqual([
      "invalid_argument",
      "Expected task[0] to be at most 20,000,000 bytes, got 20000001. Make it smaller.",
    ]);
    expect(refusal([most, most, most])).toEqual([
      "invalid_argument",
      "Expected task to be at most 50,000,000 bytes, got 60000000. Remove some parts.",
    ]);
  },
);

proves(
  ["M74"],
  "invalid attachments are rejected in a steering message and in a fork's message",
  async () => {
    const { role } = soloist([says("Done."), says("Done.")]);
    const fixture = newFixture();
    const run = fixture.start(role);
    const bad: MessageContent = [{ ...PHOTO, uri: "http://example.com/a.jpg" }];
    expect(() => run.steer(bad)).toThrow("Expected message[0].uri to be an https: or data: URL");
    await fixture.outcome(run);
    expect(() => fixture.fork(role, run.snapshot(), { message: bad })).toThrow(
      "Expected fork options.message[0].uri to be an https: or data: URL",
    );
  },
);

proves(["M74"], "invalid attachments are rejected by `toolResult`", () => {
  expect(() => toolResult({ attachments: [{ ...CHART, data: "!" }] })).toThrow(
    'Expected toolResult.attachments[0].data to be bytes in base64, got "!".',
  );
  // @ts-expect-error An invalid value.
  expect(() => toolResult({ showAttachments: "no" })).toThrow(
    "Expected toolResult.showAttachments to be true or false",
  );
});

proves(["M74"], "a model with unknown input modalities is rejected by `defineAgent`", () => {
  // @ts-expect-error An unknown modality.
  const smelling = (): unknown => soloist([], {}, { inputModalities: ["smell"] });
  expect(smelling).toThrow(
    "Expected solo.model.inputModalities to be an array of image, audio and file, got an array.",
  );
});

describe("a request over 50,000,000 bytes", () => {
  const big = { ...CHART, data: ofBytes(18_000_000) };
  const draw = spyTool("draw", () => toolResult({ attachments: [big] }));
  const script = [asks("draw", {}), asks("draw", {}), asks("draw", {}), says("Done.")];
  const seeing = { inputModalities: ["image"] } as const;

  proves(["M74"], "fails the agent before the model call", async () => {
    const { role, model } = soloist(script, { tools: [draw] }, seeing);
    const { status, errors } = await newFixture().run(role);
    expect(status).toBe("failed");
    expect(errors).toMatchObject([
      {
        code: "invalid_argument",
        message:
          "Expected the attachments of a request to be at most 50,000,000 bytes, got 54000000. Set compaction, which keeps the newest attachments, or send the model fewer: toolResult({ showAttachments: false }).",
      },
    ]);
    expect(model.requests).toHaveLength(3);
  });

  proves(["M74"], "is compacted if the role has a compaction", async () => {
    const compaction = { keepAttachments: 2 };
    const { role, model } = soloist(script, { tools: [draw], compaction }, seeing);
    const { status } = await newFixture().run(role);
    expect(status).toBe("completed");
    expect(attached(model.requests[3]?.messages)).toEqual(["tool 1", "tool 1"]);
  });

  proves(["M74"], "is compacted even if few of its messages have attachments", async () => {
    const look = spyTool("look", () => "Nothing.");
    const looking = Array.from({ length: 10 }, () => asks("look", {}));
    const tools = [draw, look];
    const { role, model } = soloist([...looking, ...script], { tools, compaction: {} }, seeing);
    const { status } = await newFixture().run(role);
    const { messages = [] } = model.requests[13] ?? {};
    expect([status, messages.length, attached(messages)]).toEqual([
      "completed",
      28,
      ["tool 1", "tool 1"],
    ]);
  });

  proves(["M74"], "is measured after the hooks have changed it", async () => {
    const without = transform("beforeModel", ({ messages }) => ({
      messages: messages.map((message) => {
        if (message.role !== "tool") return message;
        const { content: _none, ...plain } = message;
        return plain;
      }),
    }));
    const lean = soloist(script, { tools: [draw], hooks: [without] }, seeing);
    expect((await newFixture().run(lean.role)).status).toBe("completed");

    const more = createUserMessage([big, big, big], "notice");
    const adding = transform("beforeModel", ({ messages }) => ({ messages: [...messages, more] }));
    const heavy = soloist([says("Done.")], { hooks: [adding] }, seeing);
    const { errors } = await newFixture().run(heavy.role);
    expect([errors.map(({ code }) => code), heavy.model.requests]).toEqual([
      ["invalid_argument"],
      [],
    ]);
    const blind = soloist([says("Done.")], { hooks: [adding] });
    expect((await newFixture().run(blind.role)).status).toBe("completed");
    expect(attached(blind.model.requests[0]?.messages)).toEqual([]);
  });

  proves(["M74"], "is not too large for a model that takes no images", async () => {
    const { role } = soloist(script, { tools: [draw] });
    expect((await newFixture().run(role)).status).toBe("completed");
  });
});

/** Returns the number of attachments of each message that has some. */
function attached(messages: readonly Message[] = []): readonly string[] {
  return messages.flatMap((message) =>
    "content" in message && message.content !== undefined
      ? [`${message.role} ${message.content.filter(({ type }) => type !== "text").length}`]
      : [],
  );
}

describe("a compaction", () => {
  const draw = spyTool("draw", () => toolResult({ attachments: [CHART] }));
  const counted = {
    inputModalities: ["image"],
    countTokens: ({ messages }: { readonly messages: readonly Message[] }) =>
      10 * messages.length + 1_000 * attached(messages).length,
  } as const;

  proves(
    ["M74", "R14"],
    "replaces all but the newest attachments with lines, and keeps those of the task",
    async () => {
      const script = [asks("draw", {}), asks("draw", {}), asks("draw", {}), says("Done.")];
      const compaction = { maxInputTokens: 3_500, keepAttachments: 1 };
      const { role, model } = soloist(script, { tools: [draw], compaction }, counted);
      const fixture = newFixture();
      const result = await fixture.outcome(fixture.start(role, [CHART]));
      expect(model.requests.map(({ messages }) => attached(messages))).toEqual([
        ["user 1"],
        ["user 1", "tool 1"],
        ["user 1", "tool 1", "tool 1"],
        ["user 1", "tool 1"],
      ]);
      const last = model.requests[3]?.messages ?? [];
      expect(last.filter(({ role: by }) => by === "tool").map(({ text }) => text)).toEqual([
        CHART_LINE,
        CHART_LINE,
        CHART_LINE,
      ]);
      expect(fixture.sink.ofType("conversation.compacted")).toMatchObject([
        { messagesBefore: 8, messagesAfter: 8, tokensBefore: 4_080, tokensAfter: 2_080 },
      ]);
      expect(attached(result.newMessages)).toEqual(["user 1", "tool 1", "tool 1", "tool 1"]);
    },
  );

  proves(["M74"], "rejects an invalid `keepAttachments`", () => {
    expect(() => soloist([], { compaction: { keepAttachments: -1 } })).toThrow(
      "Expected solo.compaction.keepAttachments to be a whole number from 0 up, got -1.",
    );
    const strict = { strategy: "error", maxInputTokens: 10, keepAttachments: 1 } as const;
    expect(() => soloist([], { compaction: strict })).toThrow(
      "Expected solo.compaction.keepAttachments to be left out with the strategy error, got 1.",
    );
  });
});
