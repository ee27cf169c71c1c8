// Goal: a listener receives the live output of the tree with its resets, and does not affect others
// by being slow, late or broken.
// Method: scripted agents; complete lists of parts are compared.

import { expect, test } from "vitest";

import { wrapModelCall } from "../../../src/hooks/hook.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { GenerateOptions, Model, ModelReply } from "../../../src/model/model.ts";
import { parseId } from "../../../src/protocol/ids.ts";
import type { StreamPart } from "../../../src/protocol/stream-part.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";
import { allOf } from "../../support/all-of.ts";
import { rejectionOf } from "../../support/thrown.ts";

/** Returns a stream part without its ids. */
function bodyOf({ runId: _run, agentId: _agent, stepId: _step, ...rest }: StreamPart): object {
  return rest;
}

function brief(pieces: readonly StreamPart[]): readonly unknown[] {
  return pieces.map((piece) => {
    switch (piece.type) {
      case "reset":
        return `reset ${piece.reason} ${piece.characters}`;
      case "call":
        return `${piece.callId} ${piece.toolName}`;
      case "result":
        return `${piece.callId} → ${piece.text}`;
      case "end":
        return `end ${piece.finishReason}`;
      default:
        return piece.text;
    }
  });
}

async function heard(script: readonly ScriptedReply[], more: object = {}): Promise<unknown[]> {
  const pieces: StreamPart[] = [];
  const fixture = newFixture({ onStreamPart: (piece) => void pieces.push(piece) });
  await fixture.run(soloist(script, { tools: [spyTool("work")], ...more }).role);
  return [...brief(pieces)];
}

proves(
  ["F2"],
  "a tree streams reasoning, texts, calls, arguments, results and ends of each agent, numbered",
  async () => {
    const helper = part("helper", [says("Part done.")]);
    const thinks: ScriptedReply = {
      pieces: [
        { type: "reasoning", text: "Hm." },
        { type: "text", text: "I ask the helper." },
        {
          type: "call",
          callId: parseId<"CallId">("call_1"),
          toolName: "SpawnSubagent",
          argumentsText: '{"role":"helper","task":"Help."}',
        },
      ],
      finishReason: "tool_calls",
    };
    const lead = part("lead", [thinks, says("All done.")], { subagents: [helper.role] });
    const pieces: StreamPart[] = [];
    const fixture = newFixture();
    const run = fixture.start(lead.role, "Do it.");
    const reading = (async () => {
      for await (const piece of run.stream()) pieces.push(piece);
    })();
    const result = await fixture.outcome(run);
    await reading;
    const first = { agentPath: "lead", stepNumber: 1 };
    const below = { agentPath: "lead/helper#1", stepNumber: 1 };
    const second = { agentPath: "lead", stepNumber: 2 };
    const bodies: readonly (readonly [object, object])[] = [
      [first, { type: "reasoning", text: "Hm." }],
      ...["I ", "ask ", "the ", "helper."].map(
        (piece) => [first, { type: "text", text: piece }] as const,
      ),
      [
        first,
        { type: "call", index: 0, callId: parseId<"CallId">("call_1"), toolName: "SpawnSubagent" },
      ],
      [first, { type: "arguments", index: 0, text: '{"role":"helper","task":"Help."}' }],
      [first, { type: "end", finishReason: "tool_calls" }],
      [below, { type: "text", text: "Part " }],
      [below, { type: "text", text: "done." }],
      [below, { type: "end", finishReason: "stop" }],
      [
        first,
        {
          type: "result",
          callId: parseId<"CallId">("call_1"),
          toolName: "SpawnSubagent",
          text: result.steps[0]?.tools.executions[0]?.text,
          isError: false,
        },
      ],
      [second, { type: "text", text: "All " }],
      [second, { type: "text", text: "done." }],
      [second, { type: "end", finishReason: "stop" }],
    ];
    expect(pieces.map(bodyOf)).toEqual(
      bodies.map(([place, body], index) => ({ ...place, seq: index + 1, ...body })),
    );
    const [root, child] = result.agents;
    expect([pieces[0], pieces.at(8)]).toMatchObject([
      { runId: result.runId, agentId: root?.agentId, stepId: root?.steps[0]?.stepId },
      { runId: result.runId, agentId: child?.agentId, stepId: child?.steps[0]?.stepId },
    ]);
  },
);

const broken = (text: string): ScriptedReply => ({
  text,
  error: new ModelError({ code: "model_unavailable", message: "Cut.", retryAfterMs: 0 }),
});

/** A model that streams a text before it fails, or replies. */
function sayingFirst(...replies: readonly ScriptedReply[]): Model {
  const { model } = soloist(replies);
  let attempt = 0;
  return {
    provider: "own",
    id: "own",
    generate: (request, options: GenerateOptions): Promise<ModelReply> => {
      const { text = "", error } = replies[attempt] ?? {};
      attempt += 1;
      if (error !== undefined) options.onDelta?.({ type: "text", text });
      return model.generate(request, options);
    },
  };
}

proves(["F3"], "a retried attempt emits `reset` with the reason `retry` first", async () => {
  const pieces: StreamPart[] = [];
  const fixture = newFixture({ onStreamPart: (piece) => void pieces.push(piece) });
  const model = sayingFirst(broken("It was"), says("It is."));
  const role = defineAgent({ name: "solo", instructions: "Work.", model });
  const result = await fixture.run(role);
  expect([result.text, brief(pieces)]).toEqual([
    "It is.",
    ["It was", "reset retry 6", "It ", "is.", "end stop"],
  ]);
});

proves(["F3"], "a failed call emits `reset` with the reason `discarded`", async () => {
  const pieces: StreamPart[] = [];
  const fixture = newFixture({
    onStreamPart: (piece) => void pieces.push(piece),
    retryPolicy: { maxAttempts: 1 },
  });
  const model = sayingFirst(broken("It was"));
  await fixture.run(defineAgent({ name: "solo", instructions: "Work.", model }));
  expect(brief(pieces)).toEqual(["It was", "reset discarded 6"]);
});

proves(["F3"], "a reply that the loop changed is reset and streamed again", async () => {
  const leak = { ...asks("work", { path: "a", lines: 20 }), text: '{"path":"a","lines":20}' };
  const twins: ScriptedReply = {
    calls: [
      { toolName: "work", arguments: {}, callId: "one" },
      { toolName: "work", arguments: {}, callId: "one" },
    ],
  };
  const made = wrapModelCall(async (_call, next) => {
    const reply = await next();
    return { ...reply, message: { ...reply.message, text: "Made up." } };
  });
  expect(await heard([leak, says("Done.")])).toEqual([
    '{"path":"a","lines":20}',
    "call_1 work",
    '{"path":"a","lines":20}',
    "reset replaced 50",
    "call_1 work",
    '{"path":"a","lines":20}',
    "end tool_calls",
    expect.stringMatching(/^call_1 → /),
    "Done.",
    "end stop",
  ]);
  expect((await heard([twins, says("Done.")])).slice(0, 9)).toEqual([
    "one work",
    "{}",
    "one work",
    "{}",
    "reset replaced 12",
    "one work",
    "{}",
    "execution_1.1.1 work",
    "{}",
  ]);
  expect(await heard([says("No.")], { hooks: [made] })).toEqual([
    "No.",
    "reset replaced 3",
    "Made up.",
    "end stop",
  ]);
});

proves(["F3"], "an empty reply and one of a cancelled agent are reset", async () => {
  expect(await heard([says(" "), says("Done.")])).toEqual([
    " ",
    "reset discarded 1",
    "Done.",
    "end stop",
  ]);
  const held = latch();
  const pieces: StreamPart[] = [];
  const fixture = newFixture();
  const model: Model = {
    provider: "own",
    id: "own",
    generate: async (_request, { onDelta, signal }) => {
      onDelta?.({ type: "text", text: "Well" });
      await Promise.race([
        held.opened,
        new Promise((_resolve, reject) => signal.addEventListener("abort", reject)),
      ]);
      throw new Error("unreachable");
    },
  };
  const role = defineAgent({ name: "solo", instructions: "Work.", model });
  const run = fixture.start(role, "Do it.", { onStreamPart: (piece) => void pieces.push(piece) });
  await flushEventLoop();
  void run.cancel();
  await fixture.outcome(run);
  expect(brief(pieces)).toEqual(["Well", "reset cancelled 4"]);
});

proves(
  ["F4"],
  "a reader that joins in the middle of a reply reads it from its beginning",
  async () => {
    const held = latch();
    const fixture = newFixture();
    const model: Model = {
      provider: "own",
      id: "own",
      generate: async (request, { onDelta }) => {
        for (const text of ["One ", "two "]) onDelta?.({ type: "text", text });
        await held.opened;
        onDelta?.({ type: "text", text: "three." });
        return await soloist([says("One two three.")]).model.generate(request, {
          signal: new AbortController().signal,
        });
      },
    };
    const early: StreamPart[] = [];
    const role = defineAgent({ name: "solo", instructions: "Work.", model });
    const run = fixture.start(role, "Do it.", { onStreamPart: (piece) => void early.push(piece) });
    await flushEventLoop();
    const late = run.stream();
    held.open();
    await fixture.outcome(run);
    const read = await allOf(late);
    expect(brief(early)).toEqual(["One ", "two ", "three.", "end stop"]);
    expect(read.map((piece) => [piece.seq, ...brief([piece])])).toEqual([
      [2, "reset joined 0"],
      [2, "One two "],
      [3, "three."],
      [4, "end stop"],
    ]);
    expect(brief(await allOf(run.stream()))).toEqual([
      "reset joined 0",
      "One two three.",
      "end stop",
    ]);
  },
);

proves(
  ["F4"],
  "a reader that joins receives calls in the order in which they were streamed",
  async () => {
    const held = latch();
    const fixture = newFixture();
    const message = {
      role: "assistant",
      text: "",
      toolCalls: ["one", "two"].map((id) => ({
        callId: parseId<"CallId">(id),
        toolName: "work",
        argumentsText: "{}",
      })),
    } as const;
    let replies = 0;
    const model: Model = {
      provider: "own",
      id: "own",
      generate: async (request, options) => {
        replies += 1;
        if (replies > 1) return await soloist([says("Done.")]).model.generate(request, options);
        for (const index of [1, 0]) {
          const { callId = parseId<"CallId">(""), toolName = "" } = message.toolCalls[index] ?? {};
          options.onDelta?.({ type: "call", index, callId, toolName });
          options.onDelta?.({ type: "arguments", index, text: "{}" });
          await held.opened;
        }
        return { message, finishReason: "tool_calls" };
      },
    };
    const tools = [spyTool("work")];
    const role = defineAgent({ name: "solo", instructions: "Work.", model, tools });
    const run = fixture.start(role, "Do it.", { onStreamPart: () => undefined });
    await flushEventLoop();
    const late = run.stream();
    held.open();
    await fixture.outcome(run);
    expect(brief(await allOf(late)).slice(0, 6)).toEqual([
      "reset joined 0",
      "two work",
      "{}",
      "one work",
      "{}",
      "end tool_calls",
    ]);
  },
);

proves(
  ["F4"],
  "a slow reader fails alone, and a listener that throws causes one warning",
  async () => {
    const fixture = newFixture();
    const bad = (): void => {
      throw new Error("full");
    };
    const run = fixture.start(soloist([says("One two three four.")]).role, "Do it.", {
      onStreamPart: bad,
    });
    const slow = run.stream({ maxBacklog: 2 });
    const result = await fixture.outcome(run);
    const reads = [await slow.next(), await slow.next()];
    const texts = reads.map(({ value }) => brief(value === undefined ? [] : [value]));
    expect([result.text, texts]).toEqual(["One two three four.", [["One "], ["two "]]]);
    expect((await rejectionOf(slow.next())).code).toBe("backlog_overflow");
    expect(takeWarnings().map(String)).toEqual([
      expect.stringContaining("A listener of stream parts threw (full); the run continues."),
    ]);
  },
);

proves(["D300"], "a listener that rejects causes one warning", async () => {
  const fixture = newFixture();
  const bad = (): unknown => Promise.reject(new Error("full"));
  const { role } = soloist([says("One two three four.")]);
  const run = fixture.start(role, "Do it.", { onStreamPart: bad });
  expect((await fixture.outcome(run)).text).toBe("One two three four.");
  expect(takeWarnings()).toEqual([
    "EspalierWarning: A listener of stream parts threw (full); the run continues.",
  ]);
});

test("a reader may follow one agent, and models stream only while someone listens", async () => {
  const helper = part("helper", [says("Part done.")]);
  const lead = part("lead", [calls(spawn("helper", "Help.")), says("All done.")], {
    subagents: [helper.role],
  });
  const fixture = newFixture();
  const run = fixture.start(lead.role);
  for await (const event of run.events()) {
    if (event.type !== "agent.started" || event.depth !== 1) continue;
    const own = run.stream({ agentId: event.agentId });
    await fixture.outcome(run);
    expect(brief(await allOf(own))).toEqual(["Part ", "done.", "end stop"]);
  }
  const streaming = fixture.sink.ofType("model.requested").map((event) => event.streaming);
  expect(streaming).toEqual([false, true, true]);
  expect(() => run.stream({ agentId: parseId<"AgentId">("nobody") })).toThrow(/id of an agent/);
});
