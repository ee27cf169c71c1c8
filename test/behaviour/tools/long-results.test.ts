// Goal: a result that is too long for the model is truncated, or summarised by a separate model
// call; the complete text is kept.
// Method: tools that return texts of a known size, scripted summaries; requests, records and events
// compared.

import { expect, test } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import { sumUsage } from "../../../src/protocol/event.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { ending } from "../../support/pause-stories.ts";
import { calls, part, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import { outcomes } from "../../support/call-outcomes.ts";
import { texts } from "../../support/texts.ts";

const LONG = "abcdefghijklmnopqrstuvwxy";
const CUT = "abcdefghij\n[Shortened: 10 of 25 characters are shown. Ask for a smaller part.]";

const teller = (name: string, text: string, more: Parameters<typeof spyTool>[2] = {}) =>
  spyTool(name, () => text, { maxResultCharacters: 10, ...more });
const longTool = (name = "read", text = LONG) =>
  teller(name, text, { longResultPolicy: "summarize" });

proves(
  ["R111"],
  "truncates a long result with a notice of both sizes, and keeps the complete text",
  async () => {
    const { role, model } = soloist([calls(use("long"), use("exact"), use("emoji")), says("ok")], {
      tools: [
        teller("long", LONG),
        teller("exact", "abcdefghij"),
        teller("emoji", "abcdefghi\u{1F600}tail"),
      ],
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    const emoji = "abcdefghi\n[Shortened: 9 of 15 characters are shown. Ask for a smaller part.]";
    expect(receivedTexts(model.requests[1])).toEqual([CUT, "abcdefghij", emoji]);
    expect(
      result.steps[0]?.tools.executions.map(({ text, fullText }) => ({ text, fullText })),
    ).toEqual([
      { text: CUT, fullText: LONG },
      { text: "abcdefghij", fullText: undefined },
      { text: emoji, fullText: "abcdefghi\u{1F600}tail" },
    ]);
    expect(
      fixture.sink
        .ofType("tool.ended")
        .map(({ resultCharacters, shownCharacters }) => [resultCharacters, shownCharacters]),
    ).toEqual([
      [25, 10],
      [10, undefined],
      [15, 9],
    ]);
    expect([model.requests.length, result.usage.total.modelCalls]).toEqual([2, 2]);
  },
);

test("truncates structured values, failures and subagent results alike, and keeps an empty result", async () => {
  const failing = spyTool("fail", () => {
    throw new Error("e".repeat(2_000));
  });
  const tools = [failing, spyTool("list", () => ["abcdefghijkl"]), spyTool("nothing", () => "")];
  const child = part("child", [says("c".repeat(40))]);
  const root = part(
    "root",
    [calls(use("fail"), use("list"), use("nothing"), spawn("child")), says("ok")],
    {
      tools,
      subagents: [child.role],
      toolDefaults: { maxResultCharacters: 5 },
    },
  );
  const result = await newFixture().run(root.role);
  expect(
    result.steps[0]?.tools.executions.map(({ text, fullText }) => [
      text.split("\n")[0]?.slice(0, 20),
      fullText?.slice(0, 20),
    ]),
  ).toEqual([
    ["fail failed: eeeee", "fail failed: eeeeeee"],
    ['["abc', '["abcdefghijkl"]'],
    ["", undefined],
    ['{"outcome":"complete', '{"outcome":"complete'],
  ]);
});

test("shows only the notice with a limit of 0", async () => {
  const tool = teller("read", LONG, { maxResultCharacters: 0 });
  const { role, model } = soloist([calls(use("read")), says("ok")], { tools: [tool] });
  await newFixture().run(role);
  expect(receivedTexts(model.requests[1])).toEqual([
    "[Shortened: 0 of 25 characters are shown. Ask for a smaller part.]",
  ]);
});

proves(
  ["S7.29", "R181"],
  "adds up the usage of steps and summaries to that of the result",
  async () => {
    const { role } = soloist([calls(use("read")), says("letters"), says("ok")], {
      tools: [longTool()],
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect(fixture.sink.ofType("result.summarized").map(({ usage }) => usage.modelCalls)).toEqual([
      1,
    ]);
    expect(result.usage.total.modelCalls).toBe(3);
    expect(sumUsage(fixture.sink.events)).toEqual(result.usage.total);
  },
);

const SUMMARY = "[Summary of a result of 25 characters]\nletters";

proves(
  ["R112"],
  "summarises a long result by a model call that counts in usage and leases, but not as a step",
  async () => {
    const { role, model } = soloist([calls(use("read")), says("letters"), says("ok")], {
      tools: [longTool()],
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([ending(result), result.steps.length]).toEqual([["completed", "completed"], 2]);
    expect(receivedTexts(model.requests[2])).toEqual([SUMMARY]);
    const [execution] = result.steps[0]?.tools.executions ?? [];
    expect([execution?.text, execution?.fullText]).toEqual([SUMMARY, LONG]);
    const { modelCalls, steps, totalTokens, toolCalls } = result.usage.total;
    expect({ modelCalls, steps, totalTokens, toolCalls }).toEqual({
      modelCalls: 3,
      steps: 2,
      totalTokens: 45,
      toolCalls: 1,
    });
    expect(result.steps[0]?.telemetry.usage).toMatchObject({ modelCalls: 2, steps: 1 });
    const [, summary] = model.requests;
    expect([summary?.tools, summary?.maxOutputTokens]).toEqual([[], 64]);
    expect(summary?.messages.map(({ role: who }) => who)).toEqual(["system", "user"]);
    expect(summary?.messages[1]?.text).toBe(
      `Shorten the result of read, called with {}, to at most 10 characters.\n\n${LONG}`,
    );
    const about = fixture.sink.events.filter(
      ({ type, callId }) => callId !== null && /^(budget|model|result)/.test(type),
    );
    expect(about.map(({ type, stepId, callId }) => [type, stepId, callId])).toEqual(
      [
        "budget.reserved",
        "model.requested",
        "model.replied",
        "budget.settled",
        "result.summarized",
      ].map((type) => [type, "execution_1.1", "call_1"]),
    );
    expect(
      fixture.sink
        .ofType("result.summarized")
        .map(({ toolName, resultCharacters, shownCharacters, usage }) => [
          toolName,
          resultCharacters,
          shownCharacters,
          usage.totalTokens,
          usage.steps,
        ]),
    ).toEqual([["read", 25, SUMMARY.length, 15, 0]]);
  },
);

const BROKEN = new ModelError({ code: "model_invalid_request", message: "No such thing." });
const BUSY = new ModelError({ code: "model_overloaded", message: "Busy." });

const useless: readonly (readonly [string, ScriptedReply, number])[] = [
  ["an error", { error: BROKEN }, 30],
  ["an empty text", says("  \n"), 45],
  ["a refusal", { text: "No.", refusal: "No." }, 45],
  ["a tool call", calls(use("read")), 45],
];

for (const [what, reply, totalTokens] of useless) {
  proves(["R112"], `keeps the truncated result if a summary ends with ${what}`, async () => {
    const tool = longTool();
    const { role, model } = soloist([calls(use("read")), reply, says("ok")], { tools: [tool] });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([ending(result), receivedTexts(model.requests[2]), tool.calls.length]).toEqual([
      ["completed", "completed"],
      [CUT],
      1,
    ]);
    expect([result.usage.total.totalTokens, result.usage.total.modelCalls]).toEqual([
      totalTokens,
      3,
    ]);
    expect(fixture.sink.ofType("result.summarized")).toEqual([]);
    expect(result.steps[0]?.tools.executions[0]?.fullText).toBe(LONG);
    expect(result.steps.map(({ error }) => error)).toEqual([undefined, undefined]);
  });
}

test("truncates a summary that is too long, and retries a failed summary", async () => {
  const busy = BUSY;
  const { role, model } = soloist(
    [calls(use("read")), { error: busy }, says("0123456789+"), says("ok")],
    { tools: [longTool()] },
  );
  const fixture = newFixture();
  const run = fixture.start(role);
  while (fixture.sink.ofType("run.ended").length === 0) {
    fixture.clock.advance(60_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const result = await fixture.outcome(run);
  expect(receivedTexts(model.requests[3])).toEqual([
    "[Summary of a result of 25 characters]\n0123456789\n[Shortened: 10 of 11 characters are shown. Ask for a smaller part.]",
  ]);
  expect([fixture.sink.ofType("model.retried").length, result.usage.total.steps]).toEqual([1, 2]);
});

test("summarises each of several long results of a reply, in call order", async () => {
  const tools = [longTool("a", `${LONG}!`), spyTool("short"), longTool("b")];
  const script = [calls(use("a"), use("short"), use("b")), says("A"), says("B"), says("ok")];
  const { role, model } = soloist(script, { tools });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect(receivedTexts(model.requests[3])).toEqual([
    "[Summary of a result of 26 characters]\nA",
    "short done",
    "[Summary of a result of 25 characters]\nB",
  ]);
  expect([result.usage.total.modelCalls, result.steps[0]?.telemetry.usage.modelCalls]).toEqual([
    4, 3,
  ]);
  expect(fixture.sink.ofType("result.summarized").map(({ callId }) => callId)).toEqual([
    "call_1",
    "call_3",
  ]);
});

test("keeps one summary if another one fails", async () => {
  const tools = [longTool("a"), longTool("b")];
  const script = [calls(use("a"), use("b")), says(""), says("B"), says("ok")];
  const { role, model } = soloist(script, { tools });
  await newFixture().run(role);
  expect(receivedTexts(model.requests[3])).toEqual([
    CUT,
    "[Summary of a result of 25 characters]\nB",
  ]);
});

test("streams only answers to onStreamPart, and no summaries", async () => {
  const heard: string[] = [];
  const { role } = soloist([calls(use("read")), says("letters"), says("the answer")], {
    tools: [longTool()],
  });
  const fixture = newFixture();
  await fixture.outcome(
    fixture.start(role, "Do it.", { onStreamPart: texts((text) => void heard.push(text)) }),
  );
  expect(heard.join("")).toBe("the answer");
  expect(fixture.sink.ofType("model.requested").map(({ streaming }) => streaming)).toEqual([
    true,
    false,
    true,
  ]);
});

test("summarises a long failure, which stays a failure", async () => {
  const tool = spyTool(
    "read",
    () => {
      throw new Error(LONG.repeat(100));
    },
    { maxResultCharacters: 10, longResultPolicy: "summarize" },
  );
  const { role } = soloist([calls(use("read")), says("broken"), says("ok")], { tools: [tool] });
  const result = await newFixture().run(role);
  expect(outcomes(result)).toEqual([
    ["read", "failed", "tool_error", "[Summary of a result of 2513 characters]\nbroken"],
  ]);
});

test("summarises a subagent's result by the parent's model, at the parent's cost", async () => {
  const child = part("child", [says("c".repeat(40))]);
  const root = part("root", [calls(spawn("child")), says("forty c"), says("ok")], {
    subagents: [child.role],
    toolDefaults: { maxResultCharacters: 10, longResultPolicy: "summarize" },
  });
  const result = await newFixture().run(root.role);
  expect(result.agents.map(({ usage }) => usage.own.modelCalls)).toEqual([3, 1]);
  expect(outcomes(result).map(([, type, , text]) => [type, text.split("\n")[1]])).toEqual([
    ["succeeded", "forty c"],
  ]);
});
