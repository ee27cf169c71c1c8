// Goal: trees run on the real `openai` client against a server that speaks the wire format, faults
// included.
// Method: the server replies by the system prompt of the request; no other part of the run is
// replaced.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { StartOptions } from "../../../src/orchestrator/run/run-options.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { checkRun, latch } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  calls,
  OpenAiServer,
  says,
  status,
  type Handler,
  type ServerReply,
  type WireRequest,
} from "../../support/openai-server.ts";
import type { StreamPart } from "../../../src/protocol/stream-part.ts";
import { texts } from "../../support/texts.ts";

const BodySchema = z.object({
  messages: z.array(z.object({ role: z.string(), content: z.unknown() })),
});

function promptOf(request: WireRequest): string {
  return String(BodySchema.parse(request.body).messages[0]?.content);
}

function isFirst(request: WireRequest): boolean {
  return !BodySchema.parse(request.body).messages.some((message) => message.role === "tool");
}

function family(baseUrl: string, names: readonly string[]): AgentRole {
  const model = openai("test-model", { baseUrl, apiKey: "secret-key" });
  const child = (name: string): AgentRole =>
    defineAgent({
      name,
      description: `Is ${name}`,
      instructions: name,
      model,
      tools: [spyTool("work")],
    });
  return defineAgent({ name: "lead", instructions: "lead", model, subagents: names.map(child) });
}

const spawnAll = (names: readonly string[]): ServerReply =>
  calls(...names.map((role) => ["SpawnSubagent", { role, task: `Be ${role}.` }] as const));

interface Outcome {
  readonly result: RunResult;
  readonly sink: RecordingSink;
}

async function runAll(
  server: OpenAiServer,
  names: readonly string[],
  options: StartOptions = {},
): Promise<Outcome> {
  const sink = new RecordingSink();
  const orchestrator = new Orchestrator({ sinks: [sink] });
  const result = await orchestrator.start(family(server.baseUrl, names), "Go.", options).result;
  checkRun(result, sink.events);
  return { result, sink };
}

function answering(names: readonly string[], child: Handler): Handler {
  return (request, count) => {
    if (promptOf(request) !== "lead") return child(request, count);
    return isFirst(request) ? spawnAll(names) : says("All done.");
  };
}

for (const isStreaming of [false, true]) {
  test(`completes a tree of three agents over the wire${isStreaming ? ", streaming" : ""}`, async () => {
    const names = ["one", "two"];
    const handler = answering(names, (request) =>
      isFirst(request) ? calls(["work", {}]) : says("Part done."),
    );
    await using server = await OpenAiServer.start(handler);
    const pieces: string[] = [];
    const streaming = {
      onStreamPart: texts<StreamPart>((text, { agentPath }) => void pieces.push(agentPath, text)),
    };
    const { result } = await runAll(server, names, isStreaming ? streaming : {});
    expect(
      result.agents.map(({ agentPath, status: ended, text }) => [agentPath, ended, text]),
    ).toEqual([
      ["lead", "completed", "All done."],
      ["lead/one#1", "completed", "Part done."],
      ["lead/two#1", "completed", "Part done."],
    ]);
    expect([
      result.usage.own.totalTokens,
      result.usage.total.totalTokens,
      server.requests.length,
    ]).toEqual([30, 90, 6]);
    expect(pieces.includes("lead/two#1")).toBe(isStreaming);
  });
}

test("confines each fault to the subagent that it hit, and retries transient faults", async () => {
  const names = ["limited", "broken", "cut", "garbled", "denied", "well"];
  const tries = new Map<string, number>();
  const handler = answering(names, (request) => {
    const name = promptOf(request);
    const tried = (tries.get(name) ?? 0) + 1;
    tries.set(name, tried);
    if (name === "limited" && tried === 1) return status(429, { "retry-after-ms": "1" });
    if (name === "broken" && tried === 1) return status(500, { "retry-after-ms": "1" });
    if (name === "cut" && tried === 1)
      return says("Part d", { interrupted: { type: "cut", afterChunks: 1 } });
    if (name === "garbled")
      return { type: "raw", body: "{ not json", contentType: "application/json" };
    if (name === "denied") return status(401);
    return says("Part done.");
  });
  await using server = await OpenAiServer.start(handler);
  const sink = new RecordingSink();
  const orchestrator = new Orchestrator({ sinks: [sink], limits: { maxBreadthPerParent: 6 } });
  const result = await orchestrator.start(family(server.baseUrl, names), "Go.").result;
  checkRun(result, sink.events);
  expect(
    result.agents.map(({ role, status: ended, errors }) => [role, ended, errors[0]?.code]),
  ).toEqual([
    ["lead", "completed", undefined],
    ["limited", "completed", undefined],
    ["broken", "completed", undefined],
    ["cut", "completed", undefined],
    ["garbled", "failed", "model_protocol_error"],
    ["denied", "failed", "model_unauthorized"],
    ["well", "completed", undefined],
  ]);
  expect(
    sink
      .ofType("model.retried")
      .map(({ agentPath, error }) => [agentPath, error.code])
      .toSorted(([left = ""], [right = ""]) => left.localeCompare(right)),
  ).toEqual([
    ["lead/broken#1", "model_unavailable"],
    ["lead/cut#1", "model_unavailable"],
    ["lead/limited#1", "model_rate_limited"],
  ]);
  expect(JSON.stringify([result, sink.events])).not.toContain("secret-key");
});

test("closes the sockets of every call in flight when the run is cancelled", async () => {
  const names = ["one", "two"];
  const held = latch();
  const both = latch();
  let waiting = 0;
  const handler = answering(names, async () => {
    waiting += 1;
    if (waiting === 2) both.open();
    await held.opened;
    return says("late");
  });
  await using server = await OpenAiServer.start(handler);
  const sink = new RecordingSink();
  const run = new Orchestrator({ sinks: [sink] }).start(family(server.baseUrl, names), "Go.");
  await both.opened;
  const result = await run.cancel();
  checkRun(result, sink.events);
  const ends = await Promise.all(server.requests.slice(1).map((request) => request.ended));
  expect([result.agents.map((agent) => agent.status), ends]).toEqual([
    ["cancelled", "cancelled", "cancelled"],
    ["closed early", "closed early"],
  ]);
  held.open();
});
