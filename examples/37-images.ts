// Images and files in tasks, messages and tool results. Models without vision read a line of text
// instead.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, toolResult, type ContentPart } from "espalier";
import { getContentParts } from "espalier/extend";
import { asks, says, ScriptedModel } from "espalier/testing";

// A PNG of one pixel. Yours come from a file: readFileSync("monday.png", "base64").
const monday =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

const draw = defineTool({
  name: "draw",
  description: "Draws the difference.",
  inputSchema: z.object({}),
  execute: () =>
    toolResult({
      structured: { changed: 3 },
      attachments: [
        {
          type: "image",
          mediaType: "image/png",
          name: "difference.png",
          data: monday,
        },
      ],
    }),
});

const tuesday = "https://example.com/tuesday.png";
const task: readonly ContentPart[] = [
  { type: "text", text: "What has changed from" },
  { type: "image", mediaType: "image/png", name: "monday.png", data: monday },
  { type: "text", text: "to" },
  { type: "image", mediaType: "image/png", uri: tuesday },
];

const orchestrator = new Orchestrator();

async function shownTo(inputModalities: readonly ("image" | "audio" | "file")[]) {
  const model = new ScriptedModel([asks("draw", {}), says("Three things.")], { inputModalities });
  const analyst = defineAgent({ name: "analyst", instructions: "Compare.", model, tools: [draw] });
  const run = orchestrator.start(analyst, task);
  assert.equal((await run.result).text, "Three things.");
  const [, told, , result] = model.requests[1]?.messages ?? [];
  assert(told?.role === "user" && result?.role === "tool");
  return { told, result };
}

const seeing = await shownTo(["image"]);
assert.deepEqual(
  getContentParts(seeing.told).map((part) => part.type),
  ["text", "image", "text", "image"],
);
assert.deepEqual(
  getContentParts(seeing.result).map((part) => part.type),
  ["text", "image"],
);

const blind = await shownTo([]);
assert.equal(blind.told.content, undefined);
assert.equal(
  blind.told.text,
  `What has changed from
[image/png "monday.png", 68 bytes]
to
[image/png, https://example.com/tuesday.png]`,
);
assert.equal(blind.result.text, '{"changed":3}\n[image/png "difference.png", 68 bytes]');

console.log(blind.told.text);
