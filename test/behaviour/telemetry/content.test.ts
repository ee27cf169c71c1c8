// Goal: with content on, the span of each call contains its input and output, and no other span
// does.
// Method: real runs with an in-memory exporter; the content of all spans is compared in full.

import { trace } from "@opentelemetry/api";
import { expect, test } from "vitest";
import { z } from "zod";

import { parseJson } from "../../../src/kernel/json.ts";
import { transform, wrapModelCall } from "../../../src/hooks/hook.ts";
import { localTracing } from "../../support/local-tracing.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import type { SpanContent } from "../../../src/protocol/message.ts";
import { approve, provideResult } from "../../../src/protocol/question.ts";
import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import { parseStructure } from "../../../src/telemetry/spans/span-content.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { asks, says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { buildToolSet } from "../../../src/tools/tool-set.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";
import { contentOf, type SpokenSpan } from "../../support/telemetry/spoken-spans.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";

type Traced = Pick<OrchestratorOptions, "approver" | "hooks">;

/** Returns the content of the spans of a run with one agent, in the order of their ends. */
async function spoken(
  script: readonly ScriptStep[],
  role: Partial<Omit<AgentDefinition, "model">> = {},
  options: Traced = {},
): Promise<readonly SpokenSpan[]> {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  await newFixture({ ...options, tracing }).run(soloist(script, role).role);
  return contentOf(recording.spans());
}

const text = (content: string) => [{ type: "text", content }];
const add = defineTool({
  name: "add",
  description: "Adds.",
  inputSchema: z.object({ a: z.int(), b: z.int().default(1) }),
  execute: ({ a, b }) => ({ sum: a + b }),
});

proves(
  ["R178"],
  "records messages on model calls, and arguments and results on tool calls",
  async () => {
    const question = [{ role: "user", parts: text("Do it.") }];
    const call = { type: "tool_call", id: "call_1", name: "add", arguments: { a: 2 } };
    const spans = await spoken([asks("add", { a: 2 }, { text: "Let me add." }), says("Three.")], {
      tools: [add],
    });
    const [offered] = buildToolSet("solo", [add]).specs;
    const {
      name,
      description,
      inputSchema: parameters,
    } = offered ?? expect.fail("offered nothing");
    const shared = {
      system_instructions: text("Work."),
      "tool.definitions": [{ type: "function", name, description, parameters }],
    };
    expect(spans).toEqual([
      {
        span: "chat scripted",
        ...shared,
        "input.messages": question,
        "output.messages": [
          { role: "assistant", parts: [...text("Let me add."), call], finish_reason: "tool_call" },
        ],
      },
      { span: "execute_tool add", "tool.call.arguments": { a: 2 }, "tool.call.result": { sum: 3 } },
      {
        span: "chat scripted",
        ...shared,
        "input.messages": [
          ...question,
          { role: "assistant", parts: [...text("Let me add."), call] },
          {
            role: "tool",
            parts: [{ type: "tool_call_response", id: "call_1", response: '{"sum":3}' }],
          },
        ],
        "output.messages": [{ role: "assistant", parts: text("Three."), finish_reason: "stop" }],
      },
    ]);
  },
);

test("records failures, refusals, unknown tools and invalid arguments unchanged", async () => {
  const broken = spyTool("broken", () => {
    throw new Error("the disk is full");
  });
  const spans = await spoken(
    [
      calls(
        use("broken"),
        { toolName: "nobody", arguments: { x: 1 } },
        { toolName: "broken", arguments: "{oops" },
        { toolName: "broken", arguments: "" },
      ),
      says("", { refusal: "I must not." }),
    ],
    { tools: [broken] },
  );
  expect(callsOf(spans)).toEqual([
    [
      "execute_tool unknown_tool",
      { x: 1 },
      'There is no tool named "nobody". Your tools are: broken.',
    ],
    ["execute_tool broken", "{oops", expect.stringContaining("are not valid JSON")],
    ["execute_tool broken", {}, "broken failed: the disk is full"],
    ["execute_tool broken", {}, "broken failed: the disk is full"],
  ]);
  const [, last] = spans.filter(({ span }) => span === "chat scripted");
  const [, asked] = z
    .array(z.object({ parts: z.array(z.unknown()) }))
    .parse(last?.["input.messages"]);
  expect(asked?.parts).toEqual([
    { type: "tool_call", id: "call_1", name: "broken", arguments: {} },
    { type: "tool_call", id: "call_2", name: "nobody", arguments: { x: 1 } },
    { type: "tool_call", id: "call_3", name: "broken", arguments: "{oops" },
    { type: "tool_call", id: "call_4", name: "broken", arguments: {} },
  ]);
  expect(last?.["output.messages"]).toEqual([
    { role: "assistant", parts: text("I must not."), finish_reason: "stop" },
  ]);
});

test("shows a text as text if parsing it would lose information", () => {
  const whole = [
    '{"a":1,"b":[-0.5,1e5,1.50E+3,"1234567890123456789"]}',
    '[0,1.0,{"":" \\" \\\\ "}]',
    " [ ] ",
  ];
  expect(whole.map(parseStructure)).toEqual(whole.map(parseJson));
  const lossy = [
    "[1234567890.12345678901]",
    "[12345678901234567890]",
    "[1e-400]",
    "[1e400]",
    "[-0]",
    '{"a":1,"a":1}',
    '{"a":1,"a":2}',
    '{"a":{"b":1},"a":{"b":1}}',
    '{"__proto__":1}',
    "[1] and more",
    "7",
  ];
  expect(lossy.map((one) => [one, parseStructure(one)])).toEqual(
    lossy.map((one) => [one, undefined]),
  );
});

test("records the arguments with which a call ran and the result that the model read", async () => {
  const write = spyTool("write", () => "x".repeat(50), {
    needsApproval: true,
    maxResultCharacters: 10,
  });
  const hooks = [
    transform("beforeTool", () => ({ arguments: { by: "hook" } })),
    transform("afterTool", ({ text: result }) => ({ text: `${result}!` })),
  ];
  const spans = await spoken(
    [asks("write", { by: "model" }), says("Done.")],
    { tools: [write], hooks },
    { approver: (question) => approve(question, { arguments: { by: "person" } }) },
  );
  expect(callsOf(spans)).toEqual([
    [
      "execute_tool write",
      { by: "person" },
      "xxxxxxxxxx\n[Shortened: 10 of 51 characters are shown. Ask for a smaller part.]",
    ],
  ]);
  const [, last] = spans.filter(({ span }) => span === "chat scripted");
  expect(JSON.stringify(last)).toContain("[Shortened: 10 of 51 characters");
});

test("records a delegation and the tool by which its subagent returns a result", async () => {
  const recording = recorder();
  const reader = part("reader", [asks("Finish", { pages: 3 })], {
    output: z.object({ pages: z.int() }),
  });
  const lead = part("lead", [calls(spawn("reader", "Read.")), says("Done.")], {
    subagents: [reader.role],
  });
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  await newFixture({ tracing }).run(lead.role);
  const result = { outcome: "completed", output: { pages: 3 }, steps: 1 };
  expect(callsOf(contentOf(recording.spans()))).toEqual([
    ["execute_tool Finish", { pages: 3 }, "Your result was accepted."],
    ["spawn reader#1", { role: "reader", task: "Read." }, expect.objectContaining(result)],
  ]);
});

test("records arguments on both spans of a paused call, and the result on the last one", async () => {
  const recording = recorder();
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const elsewhere = defineTool({ name: "ask", description: "Asks.", inputSchema: z.object({}) });
  const clerk = part("clerk", [calls(use("pay"), use("ask")), says("Paid.")], {
    tools: [pay, elsewhere],
  });
  const lead = part("lead", [calls(spawn("clerk", "Pay.")), says("Done.")], {
    subagents: [clerk.role],
  });
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  const fixture = newFixture({ tracing });
  const paused = await fixture.run(lead.role);
  const answers = paused.questions.map((question) =>
    question.kind === "approval" ? approve(question) : provideResult(question, { yes: true }),
  );
  await fixture.outcome(fixture.resume(lead.role, paused.pausedRun, answers));
  const delegation = { role: "clerk", task: "Pay." };
  expect(callsOf(contentOf(recording.spans()))).toEqual([
    ["spawn clerk#1 (suspended)", delegation, undefined],
    ["execute_tool ask", {}, { yes: true }],
    ["execute_tool pay", {}, "paid"],
    ["spawn clerk#1", delegation, expect.objectContaining({ text: "Paid." })],
  ]);
});

test("records a summary like any other model call", async () => {
  const read = spyTool("read", () => "long ".repeat(20), {
    maxResultCharacters: 10,
    longResultPolicy: "summarize",
  });
  const spans = await spoken([asks("read", {}), says("Short."), says("Done.")], { tools: [read] });
  const summary = spans[2];
  expect(summary?.span).toBe("chat scripted");
  expect(JSON.stringify(summary?.["input.messages"])).toContain("long long long");
  expect(summary?.["output.messages"]).toEqual([
    { role: "assistant", parts: text("Short."), finish_reason: "stop" },
  ]);
});

test("records two spans for a model call that a hook makes twice, each with its own content", async () => {
  const twice = wrapModelCall(async (_call, next) => {
    await next();
    return await next();
  });
  const spans = await spoken([says("First."), says("Second.")], { hooks: [twice] });
  const said = spans.map((span) => JSON.stringify(span["output.messages"]));
  expect(said.map((one) => [one.includes("First."), one.includes("Second.")])).toEqual([
    [true, false],
    [false, true],
  ]);
});

test("records the input of a failed call, and nothing for a span that is not sampled", async () => {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  const { role } = soloist([{ error: new TypeError("The model is down.") }]);
  await newFixture({ tracing }).run(role);
  expect(contentOf(recording.spans())).toEqual([
    {
      span: "chat scripted",
      system_instructions: text("Work."),
      "input.messages": [{ role: "user", parts: text("Do it.") }],
    },
  ]);
  const off = openTelemetry({ tracer: trace.getTracer("none"), content: { redact: neverAsked } });
  await newFixture({ tracing: off }).run(soloist([says("Done.")]).role);
});

test("drops content whose call is not open", async () => {
  const recording = recorder();
  const tracing = openTelemetry({ tracer: recording.tracer, content: true });
  const { recordContent } = tracing;
  if (recordContent === undefined) expect.fail("content is on");
  const stray: readonly SpanContent[] = [
    { type: "request", messages: [], tools: [] },
    {
      type: "reply",
      message: { role: "assistant", text: "stray", toolCalls: [] },
      finishReason: "stop",
    },
    { type: "arguments", value: "stray" },
    { type: "result", text: "stray" },
  ];
  const astray: Tracing = {
    ...tracing,
    traceEvent: (draft) => {
      const ids = tracing.traceEvent(draft);
      const { scope } = draft;
      for (const content of stray) {
        recordContent({ ...scope, callId: null, stepId: null }, content);
        if (
          draft.body.type === "tool.started" &&
          content.type !== "arguments" &&
          content.type !== "result"
        )
          recordContent(scope, content);
      }
      return ids;
    },
    runInSpan: (scope, work) => tracing.runInSpan(scope, work),
    getIds: (scope) => tracing.getIds(scope),
    recordContent: undefined,
  };
  const { role } = soloist([asks("look", {}), says("Done.")], { tools: [spyTool("look")] });
  await newFixture({ tracing: astray }).run(role);
  expect(recording.spans().length).toBe(5);
  expect(contentOf(recording.spans())).toEqual([]);
});

test("continues the run without a tracing that fails to record content", async () => {
  for (const failing of [1, 2, 3, 4]) {
    const local = localTracing();
    let pieces = 0;
    const recordContent = (): void => {
      pieces += 1;
      if (pieces === failing) throw new Error("no room");
    };
    const { role } = soloist([asks("look", {}), says("Done.")], { tools: [spyTool("look")] });
    const result = await newFixture({ tracing: { ...local, recordContent } }).run(role);
    await new Promise((resolve) => setImmediate(resolve));
    expect([result.text, pieces, takeWarnings()]).toEqual([
      "Done.",
      failing,
      ["EspalierWarning: The tracing threw (no room); the run continues without it."],
    ]);
  }
});

test("has no `recordContent` unless content is on", async () => {
  const local = localTracing();
  expect([
    local.recordContent,
    openTelemetry().recordContent,
    openTelemetry({ content: false }).recordContent,
  ]).toEqual([undefined, undefined, undefined]);
});

function neverAsked(): undefined {
  throw new Error("asked about a span that is not recorded");
}

/** Returns the tool calls with their arguments and results. */
function callsOf(spans: readonly SpokenSpan[]): readonly (readonly unknown[])[] {
  return spans
    .filter(({ span }) => /^(execute_tool|spawn) /.test(span))
    .map((span) => [span.span, span["tool.call.arguments"], span["tool.call.result"]]);
}
