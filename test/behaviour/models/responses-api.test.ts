// Goal: an agent that reasons and calls tools works over Responses end to end: its own output is
// sent back unchanged, byte for byte.
// Method: complete runs on the real client against a server that speaks Responses by the package's
// types, and refuses invalid requests like a provider.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import type { ResponseOutputItem } from "openai/resources/responses/responses";
import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { functionCall, message, reasoning } from "../../fixtures/streams/response-events.ts";
import { checkRun } from "../../harness/run-scripted.ts";
import { proves } from "../../harness/proves.ts";
import { OpenAiServer, type Handler } from "../../support/openai-server.ts";
import { approveAll } from "../../support/pause-stories.ts";
import { responds } from "../../support/responses-replies.ts";
import { texts } from "../../support/texts.ts";

/** Contains every character of base64 and of JSON escapes. */
const SEALED = ["gAAAAABq+/-_==", 'g"\\u00e4"AAABr'];

const thoughts = SEALED.map((sealed, index) => reasoning([`Thought ${index}.`], sealed));
const [first, second] = thoughts;
if (first === undefined || second === undefined) throw new Error("Expected two thoughts.");

const STEPS: readonly ResponseOutputItem[][] = [
  [
    first,
    message("Let me see.", { phase: "commentary" }),
    functionCall("call_1", "add", '{"a":1,"b":2}'),
  ],
  [
    second,
    functionCall("call_2", "add", '{"a":3,"b":3}'),
    functionCall("call_3", "add", '{"a":0,"b":0}'),
  ],
  [message("It is 6.", { phase: "final_answer" })],
];

const answer: Handler = (request, count) => responds(request, STEPS[count - 1] ?? []);

const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => a + b,
});

function adder(baseUrl: string, more: object = {}): AgentRole {
  const model = openai("gpt-5.6", { baseUrl, apiKey: "secret-key", api: "responses" });
  return defineAgent({ name: "adder", instructions: "Add.", model, tools: [add], ...more });
}

const thought = (index: number): object => ({
  type: "reasoning",
  summary: [{ type: "summary_text", text: `Thought ${index}.` }],
  encrypted_content: SEALED[index],
});
const called = (id: string, args: string): object => ({
  type: "function_call",
  call_id: id,
  name: "add",
  arguments: args,
});
const output = (id: string, text: string): object => ({
  type: "function_call_output",
  call_id: id,
  output: text,
});
const OPENING = [
  { role: "developer", content: "Add." },
  { role: "user", content: "Add 1, 2 and 3." },
];
const FIRST_STEP = [
  thought(0),
  { role: "assistant", content: "Let me see.", phase: "commentary" },
  called("call_1", '{"a":1,"b":2}'),
  output("call_1", "3"),
];
const SECOND_STEP = [
  thought(1),
  called("call_2", '{"a":3,"b":3}'),
  called("call_3", '{"a":0,"b":0}'),
  output("call_2", "6"),
  output("call_3", "0"),
];

for (const isStreaming of [false, true]) {
  proves(
    ["M1", "M13"],
    `sends back reasoning and calls unchanged in two steps of tools, ${isStreaming ? "streamed" : "whole"}`,
    async () => {
      await using server = await OpenAiServer.start(answer);
      const sink = new RecordingSink();
      const orchestrator = new Orchestrator({ sinks: [sink] });
      const heard: string[] = [];
      const options = isStreaming ? { onStreamPart: texts((text) => heard.push(text)) } : {};
      const role = adder(server.baseUrl);
      const result = await orchestrator.start(role, "Add 1, 2 and 3.", options).result;
      checkRun(result, sink.events);

      expect([result.status, result.text, heard.join("")]).toEqual([
        "completed",
        "It is 6.",
        isStreaming ? "Let me see.It is 6." : "",
      ]);
      expect(server.requests.map(({ body }) => body["input"])).toEqual([
        OPENING,
        [...OPENING, ...FIRST_STEP],
        [...OPENING, ...FIRST_STEP, ...SECOND_STEP],
      ]);
      const heads = server.requests.map(({ bodyText }) =>
        bodyText.slice(0, bodyText.lastIndexOf('],"max_output_tokens"')),
      );
      expect(heads.slice(1).map((head, index) => head.startsWith(heads[index] ?? "?"))).toEqual([
        true,
        true,
      ]);
      expect(sink.ofType("model.requested").map(({ prefix }) => prefix?.isUnchanged)).toEqual([
        undefined,
        true,
        true,
      ]);
    },
  );
}

proves(
  ["M1"],
  "sends back earlier output unchanged after pauses that are stored as JSON",
  async () => {
    await using server = await OpenAiServer.start(answer);
    const asking = defineTool({
      name: "add",
      description: "Adds two numbers.",
      inputSchema: z.object({ a: z.number(), b: z.number() }),
      needsApproval: true,
      execute: ({ a, b }) => a + b,
    });
    const role = adder(server.baseUrl, { tools: [asking] });
    const orchestrator = new Orchestrator();
    let result = await orchestrator.start(role, "Add 1, 2 and 3.").result;
    while (result.status === "paused") {
      const paused = JSON.stringify(result.pausedRun);
      result = await orchestrator.resume(readPausedRun(paused), {
        answers: approveAll(result),
        role,
      }).result;
    }
    expect([result.status, result.text]).toEqual(["completed", "It is 6."]);
    expect(server.request(3).body["input"]).toEqual([...OPENING, ...FIRST_STEP, ...SECOND_STEP]);
  },
);

proves(["M2"], "sends a subagent of another model only text and calls", async () => {
  await using server = await OpenAiServer.start((request, count) => {
    if (request.body["model"] === "gpt-5.6-luna") return responds(request, [message("Seen.")]);
    const [step = []] = STEPS;
    if (count === 1) return responds(request, step);
    const spawn = functionCall("call_2", "SpawnSubagent", '{"role":"child","task":"Look."}');
    return responds(request, count === 2 ? [second, spawn] : [message("Done.")]);
  });
  const at = { baseUrl: server.baseUrl, apiKey: "secret-key", api: "responses" } as const;
  const child = defineAgent({
    name: "child",
    description: "Looks.",
    instructions: "Look.",
    model: openai("gpt-5.6-luna", at),
  });
  const lead = adder(server.baseUrl, {
    subagents: [child],
    contextPolicy: { inheritMessages: true },
  });
  const result = await new Orchestrator().start(lead, "Add 1, 2 and 3.").result;
  expect(result.text).toBe("Done.");
  const inherited = server.request(3).body["input"];
  expect(JSON.stringify(inherited)).toContain('"call_id":"call_1"');
  expect(JSON.stringify(inherited)).not.toMatch(/reasoning|phase/);
  expect(server.request(4).body["input"]).toEqual([
    ...OPENING,
    ...FIRST_STEP,
    thought(1),
    expect.objectContaining({ name: "SpawnSubagent", call_id: "call_2" }),
    expect.objectContaining({ call_id: "call_2" }),
  ]);
});

test("refuses a model setting that Responses does not support when the role is defined", () => {
  const model = openai("gpt-5.6", { api: "responses" });
  const settings = { modelSettings: { seed: 1 } };
  expect(() => defineAgent({ name: "adder", instructions: "Add.", model, ...settings })).toThrow(
    /seed to be left out, got 1\. Responses has no such field/,
  );
});
