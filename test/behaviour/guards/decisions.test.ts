// Goal: the answer of a guard decides a call: it runs, it does not, or an approver is asked; deny
// beats ask beats allow.
// Method: complete runs over a scripted model; results, events and messages to the model compared.

import { expect, test } from "vitest";

import { approve, deny, type Question } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { toolGuard, type ToolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, ending, questionOf, texts } from "../../support/pause-stories.ts";
import { calls, quiet, receivedTexts, use } from "../../harness/scripted-agents.ts";
import {
  ALLOW,
  allows,
  asksAbout,
  denies,
  fates,
  guardings,
  refusal,
  write,
  writeTool,
} from "../../support/guard-stories.ts";

proves(["R65"], "executes, denies or asks about a call as its guard answers", async () => {
  const tools = [spyTool("read"), spyTool("burn"), spyTool("send")];
  const guards = [
    toolGuard(() => ALLOW, { name: "first", tools: ["read"] }),
    toolGuard(() => ({ type: "deny", reason: "Fire." }), { name: "second", tools: ["burn"] }),
    toolGuard(() => ({ type: "ask", reason: "To whom?" }), { name: "third", tools: ["send"] }),
  ];
  const script = [calls(use("read"), use("burn"), use("send")), says("done")];
  const { role } = soloist(script, { tools, guards });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  expect(paused.questions.map(({ kind, toolName, reason }) => [kind, toolName, reason])).toEqual([
    ["approval", "send", "To whom?"],
  ]);
  expect(tools.map((tool) => tool.calls.length)).toEqual([1, 0, 0]);
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect(fates(result)).toEqual([["succeeded"], ["refused", "blocked", "second"], ["succeeded"]]);
  expect(guardings(fixture)).toEqual([
    ["read", "allow", "first allow"],
    ["burn", "deny", "second deny Fire."],
    ["send", "ask", "third ask To whom?"],
    ["send", "ask", "third ask To whom?"],
  ]);
});

const ORDERS = [
  ["allow", "ask", "deny"],
  ["allow", "deny", "ask"],
  ["ask", "allow", "deny"],
  ["ask", "deny", "allow"],
  ["deny", "allow", "ask"],
  ["deny", "ask", "allow"],
] as const;

function made(kind: "allow" | "ask" | "deny"): ToolGuard {
  if (kind === "allow") return allows();
  return kind === "ask" ? asksAbout() : denies();
}

proves(
  ["R66"],
  "prefers deny to ask to allow in any order of guards, and asks no approver about a denied call",
  async () => {
    for (const order of ORDERS) {
      const tool = spyTool("send");
      let questions = 0;
      const fixture = newFixture({
        approver: (question) => {
          questions += 1;
          return approve(question);
        },
      });
      const guards = order.map(made);
      const { role, model } = soloist([asks("send", {}), says("done")], { tools: [tool], guards });
      const result = await fixture.run(role);
      expect(fates(result), order.join()).toEqual([["refused", "blocked", "deny"]]);
      expect(receivedTexts(model.requests[1])).toEqual([refusal("send", "Not here.")]);
      expect([tool.calls.length, questions]).toEqual([0, 0]);
      expect(fixture.sink.ofType("tool.guarded")[0]?.answers.map(({ answer }) => answer)).toEqual(
        order,
      );
    }
    for (const order of [
      ["allow", "ask"],
      ["ask", "allow"],
    ] as const) {
      const { role } = soloist([asks("send", {}), says("done")], {
        tools: [spyTool("send")],
        guards: order.map(made),
      });
      const paused = await newFixture().run(role);
      expect(paused.questions.map(({ reason }) => reason)).toEqual(["Look at it first."]);
    }
  },
);

proves(["R66"], "denies a call whose guard throws, with the error as the reason", async () => {
  const failing = toolGuard(
    () => {
      throw new TypeError("the list is gone");
    },
    { name: "failing" },
  );
  for (const guards of [
    [failing, allows(), asksAbout()],
    [asksAbout(), allows(), failing],
  ]) {
    const tool = spyTool("send");
    const { role, model } = soloist([asks("send", {}), says("done")], { tools: [tool], guards });
    const result = await newFixture().run(role);
    expect([ending(result), fates(result), tool.calls.length]).toEqual([
      ["completed", "completed"],
      [["refused", "blocked", "failing"]],
      0,
    ]);
    expect(receivedTexts(model.requests[1])).toEqual([
      refusal("send", "The guard failing failed: the list is gone."),
    ]);
  }
});

proves(["R67"], "continues the run after the only call of a reply is denied", async () => {
  const tool = spyTool("burn");
  const script = [asks("burn", { what: "it" }), says("Then I leave it.")];
  const { role, model } = soloist(script, { tools: [tool], guards: [denies("Fire is hot.")] });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect([ending(result), result.text, tool.calls.length]).toEqual([
    ["completed", "completed"],
    "Then I leave it.",
    0,
  ]);
  expect(model.requests.length).toBe(2);
  expect(model.requests[1]?.messages.slice(-2)).toEqual([
    expect.objectContaining({ role: "assistant" }),
    expect.objectContaining({
      role: "tool",
      callId: "call_1",
      text: refusal("burn", "Fire is hot."),
    }),
  ]);
  expect(fixture.sink.ofType("continuation.evaluated").map(({ decision }) => decision)).toEqual([
    "continue",
    "stop",
  ]);
  expect(result.agents[0]?.toolsUsed).toEqual({});
  expect(result.usage.total.toolCalls).toBe(1);
});

proves(
  ["R68"],
  "asks the approver for a guard, pauses without one, or denies according to unansweredPolicy",
  async () => {
    const outcomes = await Promise.all(
      [
        { approver: (question: Question) => approve(question) },
        {},
        { unansweredPolicy: "deny" as const },
        { approver: () => undefined },
        { approver: () => undefined, unansweredPolicy: "deny" as const },
        {
          approver: (question: Question) => approve(question),
          unansweredPolicy: "deny" as const,
        },
      ].map(async (options) => {
        const tool = spyTool("send");
        const script = [asks("send", {}), says("done")];
        const { role } = soloist(script, { tools: [tool], guards: [asksAbout()] });
        const fixture = newFixture(options);
        const result = await fixture.run(role);
        const answers = fixture.sink
          .ofType("question.answered")
          .map(({ answer, source }) => [answer, source]);
        return [result.status, fates(result).flat(), tool.calls.length, answers];
      }),
    );
    const ran = ["completed", ["succeeded"], 1, [["approved", "approver"]]];
    const paused = ["paused", [], 0, []];
    const denied = ["completed", ["refused", "denied"], 0, [["denied", "nobody"]]];
    expect(outcomes).toEqual([ran, paused, denied, paused, denied, ran]);
  },
);

proves(
  ["R69"],
  "records the own reason of each denied call in result, events and step log",
  async () => {
    const late = latch();
    // The first call is guarded first and answered last: the reason of the second must not become
    // its reason.
    const guard = toolGuard(
      async ({ arguments: input }) => {
        const isFirst = JSON.stringify(input).includes("/one");
        if (isFirst) await late.opened;
        else late.open();
        return { type: "deny", reason: isFirst ? "One is locked." : "Two is gone." };
      },
      { name: "doors" },
    );
    const script = [calls(write("/one"), write("/two")), says("done")];
    const { role, model } = soloist(script, { tools: [writeTool()], guards: [guard] });
    const fixture = newFixture();
    const result = await fixture.run(role);
    const reasons = ["One is locked.", "Two is gone."];
    const shown = reasons.map((reason) => refusal("write", reason));
    expect(receivedTexts(model.requests[1])).toEqual(shown);
    expect(texts(result)).toEqual(shown);
    expect(fates(result)).toEqual([
      ["refused", "blocked", "doors"],
      ["refused", "blocked", "doors"],
    ]);
    const said = fixture.sink
      .ofType("tool.guarded")
      .map(({ callId, answers }) => [callId, answers]);
    expect(said).toEqual([
      ["call_2", [{ guard: "doors", answer: "deny", reason: reasons[1] }]],
      ["call_1", [{ guard: "doors", answer: "deny", reason: reasons[0] }]],
    ]);
    const rejected = fixture.sink
      .ofType("tool.rejected")
      .map(({ callId, outcome, blockedBy, error, reason }) => [
        [callId, outcome, blockedBy, error.code],
        reason,
      ]);
    expect(rejected).toEqual([
      [["call_2", "refused", "doors", "blocked"], reasons[1]],
      [["call_1", "refused", "doors", "blocked"], reasons[0]],
    ]);
  },
);

test("records the reason given to each call if a guard reuses one decision object [R69]", async () => {
  const answer = { type: "deny" as const, reason: "" };
  const guard = toolGuard(
    ({ arguments: input }) => {
      answer.reason = `Not ${JSON.stringify(input)}.`;
      return answer;
    },
    { name: "thrifty" },
  );
  const script = [calls(write("/one"), write("/two")), says("done")];
  const { role, model } = soloist(script, { tools: [writeTool()], guards: [guard] });
  await newFixture().run(role);
  expect(receivedTexts(model.requests[1])).toEqual([
    refusal("write", 'Not {"path":"/one"}.'),
    refusal("write", 'Not {"path":"/two"}.'),
  ]);
});

proves(
  ["R69"],
  "includes a guard's reason in the question, the events, the paused run and the denial",
  async () => {
    const script = [asks("send", {}), says("done")];
    const { role, model } = soloist(script, {
      tools: [spyTool("send")],
      guards: [asksAbout("Is this spam?")],
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const reason = "Is this spam?";
    expect(paused.questions.map((question) => question.reason)).toEqual([reason]);
    expect(paused.pausedRun?.questions.map((question) => question.reason)).toEqual([reason]);
    expect(fixture.sink.ofType("question.asked").map(({ reason }) => reason)).toEqual([reason]);
    expect(guardings(fixture)).toEqual([["send", "ask", "ask ask Is this spam?"]]);
    const answers = [deny(questionOf(paused), "Yes, it is.")];
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
    expect(fixture.sink.ofType("question.answered").map((event) => event.reason)).toEqual([
      "Yes, it is.",
    ]);
    expect([receivedTexts(model.requests[1]), texts(result)]).toEqual([
      [refusal("send", "Yes, it is.", reason)],
      [refusal("send", "Yes, it is.", reason)],
    ]);
  },
);

proves(
  ["R72"],
  "prefers a slow denial to a fast question, and waits for all guards before it asks",
  async () => {
    const slow = latch();
    const slowly = toolGuard(
      async () => {
        await slow.opened;
        return { type: "deny", reason: "I looked it up." };
      },
      { name: "slow" },
    );
    for (const guards of [
      [slowly, asksAbout("Sure?"), allows()],
      [allows(), asksAbout("Sure?"), slowly],
    ]) {
      let questions = 0;
      const fixture = newFixture({
        approver: (question) => {
          questions += 1;
          return approve(question);
        },
      });
      const tool = spyTool("send");
      const { role } = soloist([asks("send", {}), says("done")], { tools: [tool], guards });
      const run = fixture.start(role);
      await quiet();
      slow.open();
      const result = await fixture.outcome(run);
      expect([fates(result), tool.calls.length, questions]).toEqual([
        [["refused", "blocked", "slow"]],
        0,
        0,
      ]);
      const [event] = fixture.sink.ofType("tool.guarded");
      expect(event?.decision).toBe("deny");
      expect(event?.answers.toSorted((one, two) => one.guard.localeCompare(two.guard))).toEqual([
        { guard: "allow", answer: "allow" },
        { guard: "ask", answer: "ask", reason: "Sure?" },
        { guard: "slow", answer: "deny", reason: "I looked it up." },
      ]);
    }
  },
);

test("reports all denials and their guards, in the order of the guards", async () => {
  const guards = [denies("One.", { name: "a" }), allows(), denies("Two.", { name: "b" })];
  const { role, model } = soloist([asks("burn", {}), says("done")], {
    tools: [spyTool("burn")],
    guards,
  });
  const result = await newFixture().run(role);
  expect(fates(result)).toEqual([["refused", "blocked", "a, b"]]);
  expect(receivedTexts(model.requests[1])).toEqual([refusal("burn", "One. Two.")]);
});
