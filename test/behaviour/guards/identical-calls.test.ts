// Goal: an agent that repeats the same call is not stopped, but an approver is asked whether it
// should continue.
// Method: scripts that repeat calls: within a reply, across replies, across pauses, with other key
// orders, and with others in between.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { transform } from "../../../src/hooks/hook.ts";
import { approve, deny, type Answer, type Question } from "../../../src/protocol/question.ts";
import {
  says,
  type ScriptedCall,
  type ScriptedReply,
} from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import {
  approveAll,
  ending,
  externalTool,
  leaveOpen,
  payTool,
  questionOf,
} from "../../support/pause-stories.ts";
import { calls, part, spawn, receivedTexts } from "../../harness/scripted-agents.ts";
import {
  asksAbout,
  denies,
  fates,
  guardings,
  refusal,
  watch,
} from "../../support/guard-stories.ts";

/** Returns a tool that accepts anything; `runs` counts its executions. */
function lookTool(
  maxIdenticalCalls?: number | "unlimited",
  name = "look",
): FunctionTool & { readonly runs: () => number } {
  let count = 0;
  const tool = defineTool({
    name,
    description: "Looks.",
    inputSchema: z.looseObject({}),
    ...(maxIdenticalCalls === undefined ? {} : { maxIdenticalCalls }),
    execute: () => {
      count += 1;
      return `look ${count}`;
    },
  });
  return Object.freeze({ ...tool, runs: () => count });
}

/** Returns a call with its arguments as written. */
function look(argumentsText: string | object, name = "look"): ScriptedCall {
  return { toolName: name, arguments: argumentsText };
}

/** Returns one reply for each call, and a final text. */
function oneByOne(...list: readonly ScriptedCall[]): readonly ScriptedReply[] {
  return [...list.map((call) => calls(call)), says("done")];
}

/** Returns the reasons for which calls were asked about as repetitions. */
function repetitions(fixture: Fixture): readonly string[] {
  return fixture.sink
    .ofType("tool.guarded")
    .flatMap(({ answers }) =>
      answers.flatMap(({ guard, reason = "" }) => (guard === "identical-calls" ? [reason] : [])),
    );
}

function times(count: number): string {
  if (count === 1) return "Each call of look needs approval.";
  const before = count === 2 ? "" : ` ${count - 1} times in a row`;
  return `look was already called with the same arguments${before}.`;
}

/** The instruction to the model without an approver. */
const INSTRUCTION = "Use its last result, or other arguments.";

const PAY = { toolName: "pay", arguments: { amount: 3 } };
const A = { path: "/a", depth: 1 };
const A_AGAIN = { depth: 1, path: "/a" };
const B = { path: "/b", depth: 1 };

proves(
  ["R74"],
  "executes two of three identical calls, and asks about the third without stopping",
  async () => {
    const tool = lookTool();
    const { role, model } = soloist(oneByOne(look(A), look(A), look(A)), { tools: [tool] });
    const fixture = newFixture({ approver: leaveOpen });
    const paused = await fixture.run(role);
    expect([paused.status, paused.reason.code, tool.runs(), model.requests.length]).toEqual([
      "paused",
      "input_required",
      2,
      3,
    ]);
    expect(
      paused.questions.map(({ kind, reason, arguments: input }) => [kind, reason, input]),
    ).toEqual([["approval", times(3), A]]);
    expect(fixture.sink.ofType("signal.raised")).toEqual([]);
    expect(guardings(fixture)).toEqual([["look", "ask", `identical-calls ask ${times(3)}`]]);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused)),
    );
    expect([ending(result), tool.runs(), receivedTexts(model.requests[3])]).toEqual([
      ["completed", "completed"],
      3,
      ["look 3"],
    ]);
  },
);

proves(
  ["D522"],
  "refuses the third of three identical calls with an instruction without an approver",
  async () => {
    for (const unanswered of ["pause", "deny"] as const) {
      const tool = lookTool();
      const { role, model } = soloist(oneByOne(look(A), look(A), look(A)), { tools: [tool] });
      const fixture = newFixture({ unansweredPolicy: unanswered });
      const result = await fixture.run(role);
      expect([ending(result), tool.runs(), receivedTexts(model.requests[3])]).toEqual([
        ["completed", "completed"],
        2,
        [
          `Not executed: look was denied. ${times(3)} ${INSTRUCTION} Do without it, or answer with what you have.`,
        ],
      ]);
      expect(fixture.sink.ofType("question.asked")).toEqual([]);
    }
  },
);

proves(
  ["D522"],
  "refuses a third identical call without an approver even if its tool needs approval",
  async () => {
    const pay = payTool();
    const twice = [calls(PAY), calls(PAY), calls(PAY), says("done")];
    const { role } = soloist(twice, { tools: [pay] });
    const fixture = newFixture();
    let result = await fixture.run(role);
    for (let count = 0; count < 2; count += 1) {
      expect(questionOf(result).reason).not.toContain("in a row");
      result = await fixture.outcome(fixture.resume(role, result.pausedRun, approveAll(result)));
    }
    expect([ending(result), pay.paid.length]).toEqual([["completed", "completed"], 2]);
  },
);

proves(["D522"], "states the repetition beside the tool's own reason in the question", async () => {
  const reasons: string[] = [];
  const pay = payTool();
  const list = [calls(PAY), calls(PAY), calls(PAY), says("done")];
  const { role } = soloist(list, { tools: [pay] });
  const approver = (question: Question): Answer => {
    reasons.push(question.reason);
    return approve(question);
  };
  await newFixture({ approver }).run(role);
  expect(reasons[2]).toContain("pay was already called with the same arguments 2 times in a row.");
  expect(reasons[2]).toContain(reasons[1]);
});

proves(["R74"], "ignores the order of keys, at any depth, and white space", async () => {
  const nested = [
    look('{"filter":{"b":[1,{"x":1,"y":2}],"a":null}}'),
    look('{"filter":{"a":null,"b":[1,{"y":2,"x":1}]}}'),
    look('{ "filter" : { "b" : [ 1.0, { "x" : 1e0, "y" : 2 } ], "a" : null } }'),
  ];
  for (const list of [
    [look(A), look(A_AGAIN), look(A)],
    nested,
    [look(""), look("{}"), look(" ")],
  ]) {
    const tool = lookTool();
    const fixture = newFixture({ approver: leaveOpen });
    const paused = await fixture.run(soloist(oneByOne(...list), { tools: [tool] }).role);
    expect([paused.questions.length, tool.runs()]).toEqual([1, 2]);
  }
});

proves(["R74"], "restarts the count after a different call", async () => {
  const tool = lookTool();
  const other = lookTool("unlimited", "other");
  const rows = [
    [look(A), look(A), look(B), look(A), look(A)],
    [look(A), look(A), look(A, "other"), look(A), look(A)],
    [look(A), look(B), look(A), look(B), look(A), look(B)],
    [look({ list: [1, 2] }), look({ list: [2, 1] }), look({ list: [1, 2] })],
    [look({ n: 1 }), look({ n: "1" }), look({ n: 1 }), look({ n: true })],
    [look(A), look(A), look({}, "nobody"), look(A), look(A)],
  ];
  for (const row of rows) {
    const fixture = newFixture({ approver: leaveOpen });
    const { role } = soloist(oneByOne(...row), { tools: [tool, other] });
    expect(ending(await fixture.run(role))).toEqual(["completed", "completed"]);
    expect(repetitions(fixture)).toEqual([]);
  }
});

describe("the count of identical calls", () => {
  test("includes calls of one reply: the first two run, the third waits", async () => {
    const tool = lookTool();
    const script = [calls(look(A), look(A_AGAIN), look(A)), says("done")];
    const { role, model } = soloist(script, { tools: [tool] });
    const fixture = newFixture({ approver: leaveOpen });
    const paused = await fixture.run(role);
    expect([paused.questions.map(({ callId }) => callId), tool.runs()]).toEqual([["call_3"], 2]);
    const answers = [deny(questionOf(paused), "Enough.")];
    const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
    expect([fates(result), receivedTexts(model.requests[1])]).toEqual([
      [["succeeded"], ["succeeded"], ["refused", "denied"]],
      ["look 1", "look 2", refusal("look", "Enough.", times(3))],
    ]);
  });

  test("continues across replies with several calls, in call order", async () => {
    const fixture = newFixture({ approver: leaveOpen });
    const script = [calls(look(B), look(A)), calls(look(A), look(A), look(B)), says("done")];
    const paused = await fixture.run(soloist(script, { tools: [lookTool()] }).role);
    expect([paused.questions.map(({ callId }) => callId), repetitions(fixture)]).toEqual([
      ["call_4"],
      [times(3)],
    ]);
  });

  test("continues after an approval, with the number in the next question", async () => {
    const tool = lookTool();
    const { role } = soloist(oneByOne(...Array.from({ length: 5 }, () => look(A))), {
      tools: [tool],
    });
    const fixture = newFixture({ approver: (question) => approve(question) });
    const result = await fixture.run(role);
    expect([ending(result), tool.runs(), repetitions(fixture)]).toEqual([
      ["completed", "completed"],
      5,
      [times(3), times(4), times(5)],
    ]);
  });

  test("continues after a denial, and includes the denied call", async () => {
    const tool = lookTool();
    const list = Array.from({ length: 4 }, () => look(A));
    const { role } = soloist([...oneByOne(...list)], { tools: [tool] });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([fates(result), tool.runs(), repetitions(fixture)]).toEqual([
      [
        ["succeeded"],
        ["succeeded"],
        ["refused", "blocked", "identical-calls"],
        ["refused", "blocked", "identical-calls"],
      ],
      2,
      [3, 4].map((count) => `${times(count)} ${INSTRUCTION}`),
    ]);
  });

  test("continues across pauses, once per repetition", async () => {
    const tool = lookTool();
    const { role } = soloist(oneByOne(look(A), look(A), look(A), look(A_AGAIN)), { tools: [tool] });
    const fixture = newFixture({ approver: leaveOpen });
    const first = await fixture.run(role);
    const second = await fixture.outcome(fixture.resume(role, first.pausedRun, approveAll(first)));
    expect([second.status, tool.runs(), questionOf(second).reason]).toEqual([
      "paused",
      3,
      times(4),
    ]);
    const result = await fixture.outcome(
      fixture.resume(role, second.pausedRun, approveAll(second)),
    );
    expect([ending(result), tool.runs()]).toEqual([["completed", "completed"], 4]);
  });

  test("continues across pauses for other reasons", async () => {
    const tool = lookTool();
    const { role } = soloist(oneByOne(look(A), look(A), look(A)), {
      tools: [tool],
      guards: [asksAbout("Sure?")],
    });
    const fixture = newFixture({ approver: leaveOpen });
    let result = await fixture.run(role);
    const reasons: string[] = [];
    while (result.status === "paused") {
      reasons.push(questionOf(result).reason);
      result = await fixture.outcome(fixture.resume(role, result.pausedRun, approveAll(result)));
    }
    expect([reasons, tool.runs()]).toEqual([["Sure?", "Sure?", `Sure? ${times(3)}`], 3]);
  });

  test("is separate for each agent", async () => {
    const tool = lookTool();
    const child = part("child", oneByOne(look(A), look(A)), { tools: [tool] });
    const script = [calls(look(A), look(A)), calls(spawn("child")), calls(look(A)), says("done")];
    const root = part("root", script, { tools: [tool], subagents: [child.role] });
    const fixture = newFixture({ approver: leaveOpen });
    expect(ending(await fixture.run(root.role))).toEqual(["completed", "completed"]);
    expect([tool.runs(), repetitions(fixture)]).toEqual([5, []]);
  });
});

describe("maxIdenticalCalls", () => {
  const five = Array.from({ length: 5 }, () => look(A));
  async function askedOf(tool: FunctionTool, toolDefaults = {}): Promise<readonly string[]> {
    const fixture = newFixture({ approver: (question) => approve(question) });
    const { role } = soloist(oneByOne(...five), { tools: [tool], toolDefaults });
    expect(ending(await fixture.run(role))).toEqual(["completed", "completed"]);
    return repetitions(fixture);
  }

  test("comes from the tool, else from the role, else is two", async () => {
    expect(await askedOf(lookTool())).toEqual([times(3), times(4), times(5)]);
    expect(await askedOf(lookTool(4))).toEqual([times(5)]);
    expect(await askedOf(lookTool(), { maxIdenticalCalls: 3 })).toEqual([times(4), times(5)]);
    expect(await askedOf(lookTool(4), { maxIdenticalCalls: 1 })).toEqual([times(5)]);
    expect(await askedOf(lookTool(1), { maxIdenticalCalls: "unlimited" })).toEqual(
      [2, 3, 4, 5].map(times),
    );
  });

  test("asks never if it is unlimited, and always if it is zero", async () => {
    expect(await askedOf(lookTool("unlimited"))).toEqual([]);
    expect(await askedOf(lookTool("unlimited"), { maxIdenticalCalls: 0 })).toEqual([]);
    expect(await askedOf(lookTool(), { maxIdenticalCalls: "unlimited" })).toEqual([]);
    expect(await askedOf(lookTool(0))).toEqual([1, 2, 3, 4, 5].map(times));
  });
});

describe("identical calls beside guards, hooks and answers", () => {
  test("are asked about despite a guard that allows, and not if a guard denies", async () => {
    const fixture = newFixture({ approver: leaveOpen });
    const denying = soloist(oneByOne(look(A), look(A), look(A)), {
      tools: [lookTool()],
      guards: [denies("Never.")],
    });
    const result = await fixture.run(denying.role);
    expect(fates(result).map(([, code]) => code)).toEqual(["blocked", "blocked", "blocked"]);
    expect(guardings(fixture).at(-1)).toEqual([
      "look",
      "deny",
      "deny deny Never.",
      `identical-calls ask ${times(3)}`,
    ]);
    const other = newFixture({ approver: leaveOpen });
    const allowing = soloist(oneByOne(look(A), look(A), look(A)), {
      tools: [lookTool()],
      guards: [watch().guard],
    });
    const paused = await other.run(allowing.role);
    expect(paused.questions.map(({ reason }) => reason)).toEqual([times(3)]);
  });

  test("are compared as the model wrote them, not as hooks changed them", async () => {
    const tool = lookTool();
    let number = 0;
    const counting = transform("beforeTool", () => {
      number += 1;
      return { arguments: { number } };
    });
    const same = transform("beforeTool", () => ({ arguments: { always: "same" } }));
    const differing = newFixture({ approver: leaveOpen });
    const rewritten = soloist(oneByOne(look(A), look(A), look(A)), {
      tools: [tool],
      hooks: [counting],
    });
    const paused = await differing.run(rewritten.role);
    expect(paused.questions.map(({ reason, arguments: input }) => [reason, input])).toEqual([
      [times(3), { number: 3 }],
    ]);
    const levelling = newFixture({ approver: leaveOpen });
    const levelled = soloist(oneByOne(look({ n: 1 }), look({ n: 2 }), look({ n: 3 })), {
      tools: [tool],
      hooks: [same],
    });
    expect(ending(await levelling.run(levelled.role))).toEqual(["completed", "completed"]);
    expect(repetitions(levelling)).toEqual([]);
  });

  test("continue to count after an answer changed the arguments", async () => {
    const tool = lookTool();
    const { role } = soloist(oneByOne(look(A), look(A), look(A), look(A)), { tools: [tool] });
    const fixture = newFixture({ approver: (question) => approve(question, { arguments: B }) });
    const result = await fixture.run(role);
    expect([tool.runs(), repetitions(fixture)]).toEqual([4, [times(3), times(4)]]);
    expect(fixture.sink.ofType("question.answered").map((event) => event.arguments)).toEqual([
      B,
      B,
    ]);
    expect(fates(result)).toEqual([["succeeded"], ["succeeded"], ["succeeded"], ["succeeded"]]);
  });

  test("are not counted for subagents and external tools", async () => {
    const child = part("child", () => says("Child."));
    const root = part(
      "root",
      [calls(spawn("child"), spawn("child"), spawn("child")), says("Root.")],
      { subagents: [child.role], toolDefaults: { maxIdenticalCalls: 0 } },
    );
    const fixture = newFixture({ approver: leaveOpen });
    expect(ending(await fixture.run(root.role))).toEqual(["completed", "completed"]);
    expect(guardings(fixture)).toEqual([]);
    const elsewhere = soloist([calls(look({}, "mail"), look({}, "mail"), look({}, "mail"))], {
      tools: [externalTool("mail")],
    });
    const paused = await newFixture({ approver: leaveOpen }).run(elsewhere.role);
    expect(paused.questions.map(({ reason }) => reason)).toEqual(
      Array.from({ length: 3 }, () => "mail is executed elsewhere."),
    );
  });

  test("are compared exactly, even with unusual arguments", async () => {
    const deep = `{"a":${"[".repeat(150)}${"]".repeat(150)}}`;
    const lone = '{"a":"\\ud800"}';
    const long = JSON.stringify({ a: "x".repeat(200_000) });
    for (const text of [deep, lone, long, '{"toString":1,"constructor":null}']) {
      const tool = lookTool();
      const fixture = newFixture({ approver: leaveOpen });
      const { role } = soloist(oneByOne(look(text), look(text), look(text)), { tools: [tool] });
      const paused = await fixture.run(role);
      expect([paused.status, tool.runs()]).toEqual(["paused", 2]);
    }
  });
});
