// Goal: nothing of a result is lost, and one invalid part does not affect the others.
// Method: handwritten results.

import { expect, test } from "vitest";

import { readMcpResult } from "../../src/mcp/mcp-toolset.ts";

test("joins texts by lines, and preserves every other part with a line of its own", () => {
  expect(
    readMcpResult({
      content: [
        { type: "text", text: "Here:" },
        { type: "image", data: "AAAA", mimeType: "image/png" },
        { type: "audio", data: "AA==", mimeType: "audio/wav" },
        { type: "resource", resource: { uri: "a://text", text: "é", mimeType: "text/html" } },
        { type: "resource", resource: { uri: "a://plain", text: "words" } },
        { type: "resource", resource: { uri: "a://blob", blob: "AAAA", mimeType: "image/gif" } },
        { type: "resource", resource: { uri: "a://any", blob: "" } },
        { type: "resource_link", uri: "a://link", name: "notes", description: "Kept for later." },
        { type: "text", text: "Done." },
      ],
    }),
  ).toEqual({
    text: [
      "Here:",
      "[image/png, 3 bytes]",
      "[audio/wav, 1 byte]",
      "[text/html, 2 bytes, a://text]",
      "é",
      "[text/plain, 5 bytes, a://plain]",
      "words",
      "[image/gif, 3 bytes, a://blob]",
      "[application/octet-stream, 0 bytes, a://any]",
      '[application/octet-stream "notes", a://link] Kept for later.',
      "Done.",
    ].join("\n"),
    attachments: [
      { type: "image", mediaType: "image/png", data: "AAAA" },
      { type: "audio", mediaType: "audio/wav", data: "AA==" },
      { type: "file", mediaType: "text/html", uri: "a://text", text: "é" },
      { type: "file", mediaType: "text/plain", uri: "a://plain", text: "words" },
      { type: "image", mediaType: "image/gif", uri: "a://blob", data: "AAAA" },
      { type: "file", mediaType: "application/octet-stream", uri: "a://any", data: "" },
      {
        type: "file",
        mediaType: "application/octet-stream",
        name: "notes",
        uri: "a://link",
      },
    ],
  });
});

test("shows data if the server sends no text, and preserves the data in any case", () => {
  const structuredContent = { b: 1, a: [true, null] };
  expect(readMcpResult({ content: [], structuredContent })).toEqual({
    text: '{"a":[true,null],"b":1}',
    attachments: [],
    structured: structuredContent,
  });
  expect(readMcpResult({ content: [{ type: "text", text: "One." }], structuredContent })).toEqual({
    text: "One.",
    attachments: [],
    structured: structuredContent,
  });
});

test("returns an empty text for an empty result", () => {
  expect(readMcpResult({ content: [] })).toEqual({ text: "", attachments: [] });
});

test("repairs invalid parts, or replaces them by a notice", () => {
  expect(
    readMcpResult({
      content: [
        { type: "image", data: "AA\nAA\n", mimeType: "a picture" },
        { type: "image", data: "no base64!", mimeType: "image/png" },
        { type: "resource_link", uri: "", name: "" },
        { type: "resource", resource: { uri: "a://x", text: "", mimeType: "" } },
      ],
    }),
  ).toEqual({
    text: [
      "[application/octet-stream, 3 bytes]",
      "[image, left out: its data cannot be read]",
      "[file, left out: its uri cannot be read]",
      "[application/octet-stream, 0 bytes, a://x]",
      "",
    ].join("\n"),
    attachments: [
      { type: "image", mediaType: "application/octet-stream", data: "AAAA" },
      { type: "file", mediaType: "application/octet-stream", uri: "a://x", text: "" },
    ],
  });
});
