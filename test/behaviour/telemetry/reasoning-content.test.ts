// Goal: the reasoning of models is content like their texts. Data that providers seal into their
// replies is visible to no observer.
// Method: runs whose replies have every kind of part, with one canary in the reasoning and one in
// the data; everything that leaves a run is searched.

import { expect } from "vitest";

import { terminalView } from "../../../src/terminal/terminal.ts";
import { wrapModelCall } from "../../../src/hooks/hook.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import type { SpanContent } from "../../../src/protocol/message.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { FakeTerminal } from "../../support/terminal/fake-terminal.ts";
import { proves } from "../../harness/proves.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll } from "../../support/pause-stories.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";
import { contentOf } from "../../support/telemetry/spoken-spans.ts";

const SEAL = "sealed-7007";
const THOUGHT = "thought-4004";
const data = { acme: { [SEAL]: SEAL } };

function thinks(callId: string, toolName = "look"): ScriptedReply {
  return {
    pieces: [
      { type: "reasoning", text: `${THOUGHT} at first.`, data },
      { type: "text", text: "Let me ", data },
      { type: "opaque", kind: "search", data },
      { type: "text", text: "look." },
      { type: "reasoning", text: "", data },
      { type: "reasoning", text: `${THOUGHT} again.` },
      { type: "call", callId: CallIdSchema().parse(callId), toolName, argumentsText: "{}", data },
    ],
  };
}

const text = (content: string) => ({ type: "text", content });
const SAID = {
  role: "assistant",
  parts: [
    { type: "reasoning", content: `${THOUGHT} at first.` },
    text("Let me "),
    text("look."),
    { type: "reasoning", content: `${THOUGHT} again.` },
    { type: "tool_call", id: "c1", name: "look", arguments: {} },
  ],
};

proves(
  ["R178", "M5"],
  "exports reasoning between texts and calls, in order and without data, if content is on",
  async () => {
    const recording = recorder();
    const tracing = openTelemetry({ tracer: recording.tracer, content: true });
    const { role } = soloist([thinks("c1"), says("Done.")], { tools: [spyTool("look")] });
    await newFixture({ tracing }).run(role);
    const chats = contentOf(recording.spans()).filter(({ span }) => span === "chat scripted");
    expect(chats.map((chat) => [chat["input.messages"], chat["output.messages"]])).toEqual([
      [[{ role: "user", parts: [text("Do it.")] }], [{ ...SAID, finish_reason: "tool_call" }]],
      [
        [
          { role: "user", parts: [text("Do it.")] },
          SAID,
          {
            role: "tool",
            parts: [{ type: "tool_call_response", id: "c1", response: "look done" }],
          },
        ],
        [{ role: "assistant", parts: [text("Done.")], finish_reason: "stop" }],
      ],
    ]);
  },
);

proves(
  ["R178", "M5"],
  "lets a redaction hide reasoning like text, and shows it no data",
  async () => {
    const seen: SpanContent[] = [];
    const recording = recorder();
    const redact = (content: SpanContent): SpanContent => {
      seen.push(content);
      if (content.type !== "reply") return content;
      const { parts = [] } = content.message;
      const hidden = parts.map((one) => (one.type === "reasoning" ? { ...one, text: "…" } : one));
      return { ...content, message: { ...content.message, text: "[hidden]", parts: hidden } };
    };
    const tracing = openTelemetry({ tracer: recording.tracer, content: { redact } });
    const { role } = soloist([thinks("c1"), says("Done.")], { tools: [spyTool("look")] });
    await newFixture({ tracing }).run(role);
    const [chat] = contentOf(recording.spans());
    expect(chat?.["output.messages"]).toEqual([
      {
        role: "assistant",
        parts: [
          { type: "reasoning", content: "…" },
          text("[hidden]"),
          { type: "reasoning", content: "…" },
          { type: "reasoning", content: "…" },
          { type: "tool_call", id: "c1", name: "look", arguments: {} },
        ],
        finish_reason: "tool_call",
      },
    ]);
    expect(JSON.stringify(seen)).toContain(THOUGHT);
    expect(JSON.stringify(seen)).not.toContain(SEAL);
  },
);

type Watched = Pick<OrchestratorOptions, "tracing" | "sinks" | "clock">;
type Play = (options: Watched, heard: string[]) => Promise<RunResult>;

/** Paths of a reply with parts through a run. */
const PLAYS: Readonly<Record<string, Play>> = {
  "a tree whose child inherits": async (options, heard) => {
    const helper = part("helper", [thinks("c2"), says("Ok.")], { tools: [spyTool("look")] });
    const script = [thinks("c1"), calls(spawn("helper", "Help.")), says("Done.")];
    const lead = part("lead", script, {
      tools: [spyTool("look")],
      subagents: [helper.role],
      contextPolicy: { inheritMessages: true },
    });
    const fixture = newFixture(options);
    const onStreamPart = (piece: unknown): void => void heard.push(JSON.stringify(piece));
    return await fixture.outcome(fixture.start(lead.role, "Do it.", { onStreamPart }));
  },
  "a pause": async (options) => {
    const tools = [spyTool("pay", undefined, { needsApproval: true })];
    const { role } = soloist([thinks("c1", "pay"), says("Done.")], { tools });
    const fixture = newFixture(options);
    const paused = await fixture.run(role);
    return await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  },
  "a summary": async (options) => {
    const model = {
      countTokens: ({ messages }: { messages: readonly unknown[] }) => messages.length * 300,
    };
    const compaction = { strategy: "summarize", maxInputTokens: 1_600, keepMessages: 2 } as const;
    const script = [thinks("c1"), thinks("c2"), says("Summed up."), says("Done.")];
    const { role } = soloist(script, { tools: [spyTool("look")], compaction }, model);
    return await newFixture(options).run(role);
  },
  "parts that do not fit": async (options) => {
    const { role, model } = soloist([thinks("c1")], { tools: [spyTool("look")] });
    const generate = model.generate.bind(model);
    model.generate = async (...asked): Promise<ModelReply> => {
      const reply = await generate(...asked);
      return { ...reply, message: { ...reply.message, text: "Shorter." } };
    };
    return await newFixture(options).run(role);
  },
  "a hook that gives what is no reply": async (options) => {
    const wrap = wrapModelCall(async (_call, next) =>
      Object.assign({}, await next(), { finishReason: "enough" }),
    );
    const { role } = soloist([thinks("c1")], { tools: [spyTool("look")], hooks: [wrap] });
    return await newFixture(options).run(role);
  },
};

for (const [name, play] of Object.entries(PLAYS))
  proves(
    ["M5"],
    `exposes data nowhere, and reasoning only in content of spans and in stream parts: ${name}`,
    async () => {
      const watched = async (content: boolean) => {
        const clock = new ManualClock();
        const recording = recorder();
        const screens = [true, false].map((isTTY) => new FakeTerminal({ isTTY }));
        const views = screens.map((stream) => terminalView({ stream, env: {}, clock }));
        const events: string[] = [];
        const heard: string[] = [];
        const listens = { emit: (event: unknown) => void events.push(JSON.stringify(event)) };
        const tracing = openTelemetry({ tracer: recording.tracer, content });
        const result = await play({ tracing, sinks: [...views, listens], clock }, heard);
        const shown = screens.map(({ writes }) => writes.join(""));
        const errors = JSON.stringify(result.agents.map((agent) => agent.errors));
        const others = [...shown, ...events, errors, ...takeWarnings()].join("\n");
        return { spans: JSON.stringify(recording.spans()), others, heard: heard.join("\n") };
      };
      const [on, off] = [await watched(true), await watched(false)];
      expect(on.others.length).toBeGreaterThan(500);
      expect([on, off].map((seen) => JSON.stringify(seen).includes(SEAL))).toEqual([false, false]);
      expect([on.others, off.others, off.spans].filter((seen) => seen.includes(THOUGHT))).toEqual(
        [],
      );
      expect(on.heard.includes(THOUGHT)).toBe(name === "a tree whose child inherits");
      expect(on.spans.includes(THOUGHT)).toBe(name !== "parts that do not fit");
    },
  );
