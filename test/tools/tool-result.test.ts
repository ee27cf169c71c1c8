// Goal: a result with text, data and attachments is validated, frozen and recognised, and the model
// reads what it contains.
// Method: tables of options, results of another copy of the package, and changed copies.

import { describe, expect, test, vi } from "vitest";

import { createReturnedOutcome } from "../../src/agent/tool-calls/call-tool.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import {
  AttachmentSchema,
  findAttachmentSize,
  type Attachment,
} from "../../src/protocol/attachment.ts";
import { formatToolResult } from "../../src/tools/result-text.ts";
import { toolResult, type ToolResultOptions } from "../../src/tools/tool-result.ts";

/** Returns the outcome of a call whose tool returns this value. */
function outcomeOf(result: unknown): unknown {
  const { type, text, structured, attachments = [] } = createReturnedOutcome(result);
  expect(type).toBe("succeeded");
  return { text, structured, attachments };
}

const CHART: Attachment = {
  type: "image",
  mediaType: "image/png",
  name: "chart.png",
  data: Buffer.alloc(1234).toString("base64"),
};

const CHART_LINE = '[image/png "chart.png", 1,234 bytes]';

const TEXTS: readonly (readonly [string, ToolResultOptions, string])[] = [
  ["nothing", {}, ""],
  ["a text", { text: "as it is" }, "as it is"],
  ["an empty text", { text: "", structured: { a: 1 } }, ""],
  ["data", { structured: { b: 1, a: [null] } }, '{"a":[null],"b":1}'],
  ["data that is a text", { structured: "plain" }, "plain"],
  ["data that is null", { structured: null }, "null"],
  ["an attachment", { attachments: [CHART] }, CHART_LINE],
  [
    "data and attachments",
    { structured: [1], attachments: [CHART, CHART] },
    `[1]\n${CHART_LINE}\n${CHART_LINE}`,
  ],
  ["a text of its own and an attachment", { text: "See.", attachments: [CHART] }, "See."],
  ["no attachments", { structured: 1, attachments: [] }, "1"],
];

test.each(TEXTS)("describes to the model a result with %s", (_what, options, text) => {
  const result = toolResult(options);
  expect(result.text).toBe(text);
  const { structured } = result;
  expect(structured).toEqual(options.structured);
  expect(outcomeOf(result)).toEqual({ text, structured, attachments: options.attachments ?? [] });
});

const LINES: readonly (readonly [Attachment, string])[] = [
  [{ type: "file", mediaType: "text/plain", text: "\u00e9" }, "[text/plain, 2 bytes]"],
  [{ type: "file", mediaType: "text/plain", text: "" }, "[text/plain, 0 bytes]"],
  [{ type: "audio", mediaType: "audio/wav", data: "YQ==" }, "[audio/wav, 1 byte]"],
  [{ type: "audio", mediaType: "audio/wav", data: "YWI" }, "[audio/wav, 2 bytes]"],
  [
    { type: "file", mediaType: "a/b;x=1", data: "A".repeat(4_000_000) },
    "[a/b;x=1, 3,000,000 bytes]",
  ],
  [{ type: "file", mediaType: "a/b", name: "", uri: "file:///a" }, "[a/b, file:///a]"],
  [
    { type: "image", mediaType: "image/png", name: "a", uri: "https://x.org/a", data: "" },
    '[image/png "a", 0 bytes, https://x.org/a]',
  ],
  [
    { type: "file", mediaType: "a/b", name: 'a"]\n[b', uri: "x y\n]" },
    '[a/b "a\\"]\\n[b", "x y\\n]"]',
  ],
  [
    { type: "file", mediaType: "a/b", name: "n".repeat(300), uri: `data:${"u".repeat(300)}` },
    `[a/b "${"n".repeat(200)}…", data:${"u".repeat(195)}…]`,
  ],
];

test.each(LINES)("describes %o in one line", (attachment, line) => {
  expect(toolResult({ attachments: [attachment] }).text).toBe(line);
});

test("finds the size of an attachment, or undefined if its bytes are elsewhere", () => {
  const place: Attachment = { type: "file", mediaType: "a/b", uri: "x" };
  expect(
    [place, { ...place, data: "AAAA" }, { ...place, text: "ab" }].map(findAttachmentSize),
  ).toEqual([undefined, 3, 2]);
});

const cyclic: unknown[] = [];
cyclic.push(cyclic);

const REFUSED: readonly (readonly [string, unknown, string])[] = [
  [
    "a text",
    "text",
    'Expected toolResult to be a plain object, got "text". Its fields are text, structured, attachments, showAttachments.',
  ],
  [
    "nothing",
    undefined,
    "Expected toolResult to be a plain object, got undefined. Its fields are text, structured, attachments, showAttachments.",
  ],
  [
    "another field",
    { txt: "a" },
    'Expected toolResult.txt to be one of text, structured, attachments, showAttachments, got "txt". Use text.',
  ],
  [
    "a text that is a number",
    { text: 5 },
    "Expected toolResult.text to be a string, got 5. Leave it out to send the data to the model.",
  ],
  [
    "data that is a function",
    { structured: () => 1 },
    "Expected toolResult.structured to be a value that JSON can express, got a function. Return plain data.",
  ],
  [
    "data that contains itself, though there is a text",
    { text: "a", structured: { cyclic } },
    "Expected toolResult.structured.cyclic[0] to be a value that does not contain itself, got a circular reference. Return plain data.",
  ],
  [
    "no list of attachments",
    { attachments: CHART },
    "Expected toolResult.attachments to be an array, got an object. Pass an array: [a, b].",
  ],
  [
    "null for attachments",
    { attachments: null },
    "Expected toolResult.attachments to be an array, got null. Pass an array: [a, b].",
  ],
  [
    "an attachment that is none",
    { attachments: [CHART, "a.png"] },
    'Expected toolResult.attachments[1] to be a plain object, got "a.png". See the type Attachment.',
  ],
  [
    "a gap",
    { attachments: Object.assign([], { length: 1 }) },
    "Expected toolResult.attachments[0] to be a plain object, got undefined. See the type Attachment.",
  ],
  [
    "an attachment with another field",
    { attachments: [{ ...CHART, url: "x" }] },
    'Expected toolResult.attachments[0].url to be one of type, mediaType, name, uri, data, text, got "url". Use uri.',
  ],
  [
    "a type that is none",
    { attachments: [{ ...CHART, type: "video" }] },
    'Expected toolResult.attachments[0].type to be image, audio or file, got "video". See the type Attachment.',
  ],
  [
    "no media type",
    { attachments: [{ type: "file", text: "" }] },
    "Expected toolResult.attachments[0].mediaType to be a string, got undefined. See the type Attachment.",
  ],
  [
    "a media type with a line break",
    { attachments: [{ ...CHART, mediaType: "image/png;\n]" }] },
    'Expected toolResult.attachments[0].mediaType to be a media type such as image/png, got "image/png;\\n]". See the type Attachment.',
  ],
  [
    "a name that is none",
    { attachments: [{ ...CHART, name: 5 }] },
    "Expected toolResult.attachments[0].name to be a string, got 5. See the type Attachment.",
  ],
  [
    "an empty address",
    { attachments: [{ ...CHART, uri: "" }] },
    'Expected toolResult.attachments[0].uri to be a URL, got "". See the type Attachment.',
  ],
  [
    "bytes as they are",
    { attachments: [{ ...CHART, data: Buffer.alloc(1) }] },
    "Expected toolResult.attachments[0].data to be a string, got an object. See the type Attachment.",
  ],
  [
    "no base64",
    { attachments: [{ ...CHART, data: "a-b_" }] },
    'Expected toolResult.attachments[0].data to be bytes in base64, got "a-b_". See the type Attachment.',
  ],
  [
    "nothing in it",
    { attachments: [{ type: "file", mediaType: "a/b" }] },
    "Expected toolResult.attachments[0] to be something with a uri, or with either data or text, got an object. See the type Attachment.",
  ],
  [
    "data and text",
    { attachments: [{ ...CHART, text: "a" }] },
    "Expected toolResult.attachments[0] to be something with a uri, or with either data or text, got an object. See the type Attachment.",
  ],
];

test.each(REFUSED)("refuses %s", (_what, options, message) => {
  let thrown: unknown;
  try {
    Reflect.apply(toolResult, undefined, [options]);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(EspalierError);
  expect(thrown).toMatchObject({ code: "invalid_argument", message });
});

function fits(data: string): boolean {
  return AttachmentSchema().safeParse({ type: "file", mediaType: "a/b", data }).success;
}

test("accepts base64 of any length only if it is complete, with or without padding", () => {
  const whole = ["", "YQ", "YQ==", "YWI", "YWI=", "YWJj", "+/+/", "A".repeat(40_000_000)];
  const broken = ["Y", "Y===", "YQ=", "YWJj=", "YQ==YQ==", "=", "YQ\n==", "YW Jj", "YWJ\u00e9"];
  expect(whole.filter((data) => !fits(data))).toEqual([]);
  expect([...broken, `${"A".repeat(40_000_000)}?`].filter(fits)).toEqual([]);
});

test("freezes the result deeply and copies its input", () => {
  const structured = { list: [1] };
  const chart = { ...CHART };
  const attachments = [chart];
  const result = toolResult({ structured, attachments });
  structured.list.push(2);
  attachments.push(CHART);
  chart.name = "other.png";
  expect(result).toEqual(toolResult({ structured: { list: [1] }, attachments: [CHART] }));
  for (const part of [result, result.structured, result.attachments, result.attachments[0]])
    expect(Object.isFrozen(part)).toBe(true);
  expect(Object.isFrozen(structured.list) || Object.isFrozen(attachments)).toBe(false);
});

test("formats any other return value as text without attachments", () => {
  expect(outcomeOf("text")).toEqual({ text: "text", attachments: [] });
  expect(outcomeOf(undefined)).toEqual({ text: "", attachments: [] });
  expect(outcomeOf(null)).toEqual({ text: "null", attachments: [] });
  const lookalike = { text: "mine", attachments: [CHART] };
  expect(outcomeOf(lookalike)).toEqual({ text: formatToolResult(lookalike), attachments: [] });
  expect(() => outcomeOf(cyclic)).toThrow(/circular/);
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(() => outcomeOf(proxy)).toThrow(TypeError);
});

test("formats a result within another value as text without its attachments", () => {
  const result = toolResult({ attachments: [CHART] });
  expect(formatToolResult(result)).toBe(CHART_LINE);
  expect(outcomeOf([result])).toEqual({ text: JSON.stringify([CHART_LINE]), attachments: [] });
});

describe("results from another origin", () => {
  test("recognises a result of another copy of the package", async () => {
    vi.resetModules();
    const copy = await import("../../src/tools/tool-result.ts");
    expect(copy.toolResult).not.toBe(toolResult);
    const foreign = copy.toolResult({ structured: { a: 1 }, attachments: [CHART] });
    expect(outcomeOf(foreign)).toEqual({
      text: `{"a":1}\n${CHART_LINE}`,
      structured: { a: 1 },
      attachments: [CHART],
    });
  });

  test("recognises a copy with a changed text", () => {
    const copy = Object.assign({}, toolResult({ text: "a", attachments: [CHART] }), { text: "b" });
    expect(outcomeOf(copy)).toEqual({ text: "b", attachments: [CHART] });
  });

  test("refuses a copy with an invalid attachment", () => {
    const copy = Object.assign({}, toolResult({ text: "a" }), { attachments: [{ type: "image" }] });
    expect(() => outcomeOf(copy)).toThrow(/toolResult\.attachments\[0\]\.mediaType/);
  });
});
