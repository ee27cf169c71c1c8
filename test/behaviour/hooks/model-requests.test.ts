// Goal: hooks change one request and never the history, and no model receives an invalid list of
// messages.
// Method: hooks that redact, drop, swap and change the temperature; compare the request with the
// later history. The scripted model validates lists.

import { expect, test } from "vitest";

import { transform, type Hook } from "../../../src/hooks/hook.ts";
import type { PointInput, PointPatch } from "../../../src/hooks/hook-points.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { asks, says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, use } from "../../harness/scripted-agents.ts";

const SECRET = "hunter2";
function notice(text: string): Message {
  return { role: "user", origin: "notice", text };
}

const tools = [spyTool("work", () => `The password is ${SECRET}.`)];

function redacted<M extends Message>(message: M): M {
  return { ...message, text: message.text.replaceAll(SECRET, "***") };
}

function shows(messages: readonly Message[]): string {
  return messages.map(({ text }) => text).join("\n");
}

/** Returns the history from the last request, with a hook that changes only earlier requests. */
function firstOnly(change: (input: PointInput["beforeModel"]) => PointPatch["beforeModel"]): Hook {
  return transform("beforeModel", (input, { stepNumber }) =>
    stepNumber < 3 ? change(input) : undefined,
  );
}

const SCRIPT: readonly ScriptStep[] = [asks("work", {}), asks("work", {}), says("done")];

proves(["R78"], "redacts a word in the request but not in the history", async () => {
  const redact = firstOnly(({ messages }) => ({ messages: messages.map(redacted) }));
  const { role, model } = soloist(SCRIPT, { tools, hooks: [redact] });
  const fixture = newFixture();
  const run = fixture.start(role, `Log in with ${SECRET}.`);
  const histories: boolean[] = [];
  for await (const { state } of run.iterate())
    histories.push(shows(state.conversation.messages).includes(SECRET));
  await fixture.outcome(run);
  expect(model.requests.map(({ messages }) => shows(messages).includes(SECRET))).toEqual([
    false,
    false,
    true,
  ]);
  expect(new Set(histories.slice(1))).toEqual(new Set([true]));
  expect(model.requests[2]?.messages.filter(({ role: who }) => who === "tool")).toHaveLength(2);
  expect(fixture.sink.ofType("request.repaired")).toEqual([]);
});

proves(["R79"], "applies changed instructions and temperature to one request only", async () => {
  const hurry = transform(
    "beforeModel",
    ({ instructions }, { stepNumber }) =>
      stepNumber === 1 ? { instructions: `${instructions} Hurry.`, temperature: 0.25 } : undefined,
    { name: "hurry" },
  );
  const { role, model } = soloist([asks("work", {}), says("done")], { tools, hooks: [hurry] });
  const fixture = newFixture();
  await fixture.run(role);
  expect(
    model.requests.map(({ messages, temperature }) => [messages[0]?.text, temperature]),
  ).toEqual([
    ["Work. Hurry.", 0.25],
    ["Work.", undefined],
  ]);
  expect(
    fixture.sink
      .ofType("hook.applied")
      .map(({ point, changedBy, stepId }) => [point, changedBy, stepId]),
  ).toEqual([
    ["beforeModel", [{ hook: "hurry", fields: ["instructions", "temperature"] }], "execution_1.1"],
  ]);
});

const BREAKS: Readonly<Record<string, (messages: readonly Message[]) => readonly Message[]>> = {
  "drops results": (messages) => messages.filter(({ role }) => role !== "tool"),
  "drops calls": (messages) => messages.filter(({ role }) => role !== "assistant"),
  "drops one of two results": (messages) =>
    messages.filter(({ role }, index) => role !== "tool" || messages[index - 1]?.role !== "tool"),
  "turns the list round": (messages) => messages.toReversed(),
  "adds a result that no call asked for": (messages) => [
    ...messages,
    { role: "tool", callId: CallIdSchema().parse("nobody"), toolName: "work", text: "What?" },
  ],
  "leaves nothing": () => [],
};

for (const [what, change] of Object.entries(BREAKS)) {
  test(`repairs and reports an invalid list from a hook that ${what}, and leaves the history unchanged`, async () => {
    const hook = firstOnly(({ messages }) => ({ messages: change(messages) }));
    const script = [calls(use("work"), use("work")), asks("work", {}), says("done")];
    const plain = soloist(script, { tools });
    await newFixture().run(plain.role);
    const { role, model } = soloist(script, { tools, hooks: [hook] });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([result.status, model.requests.length, model.requests[2]?.messages]).toEqual([
      "completed",
      3,
      plain.model.requests[2]?.messages,
    ]);
    const repaired = fixture.sink
      .ofType("request.repaired")
      .map(({ repairCount }) => repairCount > 0);
    expect(repaired.length > 0 && repaired.every(Boolean)).toBe(true);
  });
}

test("counts the tokens of a changed request again and discards the provider's count", async () => {
  const long = "word ".repeat(3_000);
  const swell = transform("beforeModel", ({ messages }, { stepNumber }) =>
    stepNumber === 2 ? { messages: [...messages, notice(long)] } : undefined,
  );
  const script = [
    asks("work", {}, { usage: { inputTokens: 1_000 } }),
    asks("work", {}, { usage: { inputTokens: 5_000 } }),
    says("done"),
  ];
  const { role } = soloist(script, { tools, hooks: [swell] }, { countTokens: null });
  const fixture = newFixture();
  await fixture.run(role);
  const [first = 0, second = 0, third = 0] = fixture.sink
    .ofType("budget.reserved")
    .map(({ inputTokens }) => inputTokens);
  expect([first < 1_000, second > 5_000, third > 1_000 && third < 2_000]).toEqual([
    true,
    true,
    true,
  ]);
});

test("does not send a request that a hook made too long for the budget", async () => {
  const swell = transform("beforeModel", ({ messages }) => ({
    messages: [...messages, notice("word ".repeat(3_000))],
  }));
  const { role, model } = soloist([], { hooks: [swell] }, { countTokens: null });
  const result = await newFixture().run(role, { budget: { inputTokens: 1_000 } });
  expect([result.status, result.reason.code, model.requests.length]).toEqual([
    "stopped",
    "token_limit",
    0,
  ]);
});

proves(["R81"], "shows each hook the request as the hook before changed it", async () => {
  const shown: string[] = [];
  const add = (word: string): Hook =>
    transform("beforeModel", ({ instructions }) => {
      shown.push(instructions);
      return { instructions: `${instructions} ${word}` };
    });
  const { role, model } = soloist([says("done")], { hooks: [add("three."), add("four.")] });
  await newFixture({ hooks: [add("one."), add("two.")] }).run(role);
  expect([shown, model.requests[0]?.messages[0]?.text]).toEqual([
    ["Work.", "Work. one.", "Work. one. two.", "Work. one. two. three."],
    "Work. one. two. three. four.",
  ]);
});
