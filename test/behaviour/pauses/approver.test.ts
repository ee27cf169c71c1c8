// Goal: an approver in this process answers while the run waits. Whatever it does instead of
// answering, no call runs without an approval.

import { describe, expect, test } from "vitest";

import type { Approver } from "../../../src/agent/approver.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { QuestionIdSchema } from "../../../src/protocol/ids.ts";
import {
  approve,
  deny,
  provideResult,
  toQuestion,
  type Question,
} from "../../../src/protocol/question.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { soloist } from "../../harness/soloist.ts";
import {
  approveAll,
  asked,
  ending,
  externalTool,
  payTool,
  texts,
} from "../../support/pause-stories.ts";
import { aborted, calls, part, quiet, spawn, until, use } from "../../harness/scripted-agents.ts";

const pay = (amount: number) => ({ toolName: "pay", arguments: { amount } });

/** Runs one call that needs an approval, with the given approver. */
async function payingWith(
  approver: Approver | undefined,
  more: OrchestratorOptions = {},
  amount = 3,
) {
  const tool = payTool();
  const { role } = soloist([calls(pay(amount)), says("done")], { tools: [tool] });
  const fixture = newFixture({ ...(approver === undefined ? {} : { approver }), ...more });
  const result = await fixture.run(role);
  return { fixture, tool, role, result };
}

/** An approver that may return values of any type. */
function foreign(give: (question: Question) => unknown): Approver {
  return isApprover(give) ? give : expect.fail("no function");
}

function isApprover(value: unknown): value is Approver {
  return typeof value === "function";
}

proves(
  ["R33"],
  "a run with an approver does not pause, and the same script without one does",
  async () => {
    const questions: Question[] = [];
    const { fixture, tool, result } = await payingWith((question) => {
      questions.push(question);
      return approve(question);
    });
    expect([ending(result), tool.paid, result.questions]).toEqual([
      ["completed", "completed"],
      [3],
      [],
    ]);
    const types = fixture.sink.events.map(({ type }) => type);
    expect(types.filter((type) => type.endsWith(".paused"))).toEqual([]);
    const asked = fixture.sink.ofType("question.asked");
    expect(asked.map(toQuestion)).toEqual(questions);
    const join = (event: EspalierEvent<"question.asked" | "question.answered">): string =>
      `${event.agentPath} ${event.callId} ${event.questionId} ${event.toolName}`;
    expect(fixture.sink.ofType("question.answered").map(join)).toEqual(asked.map(join));
    expect(
      fixture.sink
        .ofType("question.answered")
        .map(({ answer, source, waitedMs }) => [answer, source, waitedMs]),
    ).toEqual([["approved", "approver", 0]]);

    const without = await payingWith(undefined);
    expect([ending(without.result), without.tool.paid]).toEqual([["paused", "input_required"], []]);
  },
);

describe("an approver", () => {
  test("may deny a call, change its arguments, and answer asynchronously", async () => {
    const denied = await payingWith((question) => deny(question, "No money."));
    expect([ending(denied.result), denied.tool.paid, texts(denied.result)]).toEqual([
      ["completed", "completed"],
      [],
      ["Not executed: pay was denied. No money. Do without it, or answer with what you have."],
    ]);
    const changed = await payingWith((question) =>
      Promise.resolve(approve(question, { arguments: { amount: 1 } })),
    );
    expect([changed.tool.paid, texts(changed.result)]).toEqual([[1], ["paid 1"]]);
  });

  test("is asked once for each call in parallel, and may answer in any order", async () => {
    const latches = [latch(), latch(), latch()];
    const seen: unknown[] = [];
    const tool = payTool();
    const { role } = soloist([calls(pay(0), pay(1), pay(2)), says("done")], { tools: [tool] });
    const fixture = newFixture({
      approver: async (question) => {
        seen.push(question.arguments);
        await latches[seen.length - 1]?.opened;
        return approve(question);
      },
    });
    const run = fixture.start(role);
    await until(() => seen.length === 3);
    for (const one of latches.toReversed()) {
      one.open();
      await quiet();
    }
    const result = await fixture.outcome(run);
    expect([seen, tool.paid, texts(result)]).toEqual([
      [{ amount: 0 }, { amount: 1 }, { amount: 2 }],
      [2, 1, 0],
      ["paid 0", "paid 1", "paid 2"],
    ]);
  });

  test("is asked neither about calls without approval nor about external calls", async () => {
    let count = 0;
    const tool = payTool(({ amount }) => amount > 5);
    const { role } = soloist([calls(pay(3), use("mail")), says("done")], {
      tools: [tool, externalTool("mail")],
    });
    const fixture = newFixture({
      approver: (question) => {
        count += 1;
        return approve(question);
      },
    });
    const paused = await fixture.run(role);
    expect([count, asked(paused), tool.paid]).toEqual([0, [["solo", "mail"]], [3]]);
  });

  const useless: Readonly<Record<string, Approver>> = {
    "throws an error": () => {
      throw new Error("broken");
    },
    "throws null": () => {
      // oxlint-disable-next-line typescript/only-throw-error -- what foreign code may do
      throw null;
    },
    rejects: () => Promise.reject(new Error("broken")),
    "throws a secret": () => {
      throw new Error(`Got Bearer ${"aB3".repeat(12)}`);
    },
    "says yes": foreign(() => true),
    "gives an empty object": foreign(() => ({})),
    "answers another question": (question) =>
      approve({ ...question, questionId: QuestionIdSchema().parse("execution_9.1.0") }),
    "answers for other arguments": (question) => approve({ ...question, argumentsHash: "0" }),
    "gives a result": (question) => provideResult(question, "paid"),
    "gives arguments that do not fit": (question) =>
      approve(question, { arguments: { amount: "all" } }),
    "gives arguments that are no object": foreign((question) => ({
      ...approve(question),
      arguments: [1],
    })),
  };

  const WRONG: Readonly<Record<string, string>> = {
    "throws an error": "broken",
    rejects: "broken",
    "throws a secret": "Got Bearer [redacted]",
    "throws null": "null",
    "says yes": "Invalid input: expected object, received boolean",
    "gives an empty object":
      "type: Invalid discriminator value. Expected 'approved' | 'denied' | 'result' | 'failure'",
    "answers another question": "it answers another question",
    "answers for other arguments": "its arguments differ from those of the call",
    "gives a result":
      "a question of kind approval takes approve() or deny(), not an answer of type result",
    "gives arguments that do not fit":
      'its arguments do not fit: amount: expected a number, got "all"',
    "gives arguments that are no object":
      "arguments: Invalid input: expected record, received array",
  };

  for (const [name, approver] of Object.entries(useless)) {
    test(`pauses the run, which can be answered, if it ${name}`, async () => {
      const { fixture, tool, role, result: paused } = await payingWith(approver);
      expect([ending(paused), tool.paid, takeWarnings().length]).toEqual([
        ["paused", "input_required"],
        [],
        1,
      ]);
      const resumed = fixture.resume(role, paused.pausedRun, approveAll(paused));
      const result = await fixture.outcome(resumed);
      expect([ending(result), tool.paid]).toEqual([["completed", "completed"], [3]]);
    });

    proves(["S7.9"], `leaves its failure in the question or the denial if it ${name}`, async () => {
      const { tool, result, fixture } = await payingWith(approver, { unansweredPolicy: "deny" });
      takeWarnings();
      const failure = `The approver returned no usable answer (${WRONG[name]}).`;
      expect([ending(result), tool.paid, texts(result)]).toEqual([
        ["completed", "completed"],
        [],
        [`Not executed: pay was denied. ${failure} Do without it, or answer with what you have.`],
      ]);
      const [answered] = fixture.sink.ofType("question.answered");
      expect([answered?.answer, answered?.source, answered?.reason]).toEqual([
        "denied",
        "approver",
        failure,
      ]);
      expect(fixture.sink.ofType("tool.rejected")[0]?.reason).toBe(failure);
      const { result: paused, fixture: other } = await payingWith(approver);
      takeWarnings();
      const reason = `pay needs approval. ${failure}`;
      expect(paused.questions.map((question) => question.reason)).toEqual([reason]);
      const [rest] = other.sink.ofType("run.paused");
      expect(rest?.questions.map((question) => question.reason)).toEqual([reason]);
    });
  }

  test("leaves the question open without a warning if it returns nothing", async () => {
    const { result } = await payingWith(() => undefined);
    expect([ending(result), takeWarnings()]).toEqual([["paused", "input_required"], []]);
  });

  test("may answer some questions, so approved calls run and the run pauses with the others", async () => {
    const tool = payTool();
    const { role } = soloist([calls(pay(1), pay(2)), says("done")], { tools: [tool] });
    const first = '{"amount":1}';
    const fixture = newFixture({
      approver: (question) =>
        JSON.stringify(question.arguments) === first ? approve(question) : undefined,
    });
    const paused = await fixture.run(role);
    expect([paused.questions.map((one) => one.arguments), tool.paid]).toEqual([
      [{ amount: 2 }],
      [1],
    ]);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, approveAll(paused)),
    );
    expect([ending(result), tool.paid, texts(result)]).toEqual([
      ["completed", "completed"],
      [1, 2],
      ["paid 1", "paid 2"],
    ]);
  });

  test("cannot change the question", async () => {
    const { tool, result } = await payingWith((question) => {
      expect(Reflect.set(question, "argumentsHash", "0")).toBe(false);
      expect(Reflect.set(Object(question.arguments), "amount", 1_000)).toBe(false);
      return approve(question);
    });
    expect([ending(result), tool.paid]).toEqual([["completed", "completed"], [3]]);
  });

  test("receives a cancel through its signal, and does not block the run if it never answers", async () => {
    const signals: AbortSignal[] = [];
    const tool = payTool();
    const { role } = soloist([calls(pay(3))], { tools: [tool] });
    const fixture = newFixture({
      approver: (_question, { signal }) => {
        signals.push(signal);
        return new Promise(() => undefined);
      },
    });
    const run = fixture.start(role);
    await until(() => signals.length === 1);
    void run.cancel();
    await quiet();
    fixture.clock.advance(0);
    const result = await fixture.outcome(run);
    expect([ending(result), signals[0]?.aborted, tool.paid]).toEqual([
      ["cancelled", "cancelled"],
      true,
      [],
    ]);
  });

  test("has no effect if it approves a cancelled call", async () => {
    const tool = payTool();
    const { role } = soloist([calls(pay(3))], { tools: [tool] });
    const fixture = newFixture({
      approver: async (question, { signal }) => {
        await aborted(signal);
        return approve(question);
      },
    });
    const run = fixture.start(role);
    await until(() => fixture.sink.ofType("question.asked").length === 1);
    void run.cancel();
    const result = await fixture.outcome(run);
    expect([ending(result), tool.paid]).toEqual([["cancelled", "cancelled"], []]);
  });

  test("answers for descendants, and sees their paths", async () => {
    const paths: string[] = [];
    const tool = payTool();
    const payer = part("payer", [calls(pay(3)), says("Paid.")], { tools: [tool] });
    const lead = part("lead", [calls(spawn("payer")), says("Done.")], { subagents: [payer.role] });
    const fixture = newFixture({
      approver: (question) => {
        paths.push(question.agentPath);
        return approve(question);
      },
    });
    const result = await fixture.run(lead.role);
    expect([ending(result), tool.paid, paths]).toEqual([
      ["completed", "completed"],
      [3],
      ["lead/payer#1"],
    ]);
  });
});

describe('a run with `unansweredPolicy: "deny"`', () => {
  for (const [name, options] of [
    ["without an approver", {}],
    [
      "with an approver, which is not asked",
      { approver: (question: Question) => approve(question) },
    ],
  ] as const)
    test(`fails an external call at once ${name}, and the model reads why`, async () => {
      const { role } = soloist([calls(use("mail")), says("done")], {
        tools: [externalTool("mail")],
      });
      const fixture = newFixture({ unansweredPolicy: "deny", ...options });
      const result = await fixture.run(role);
      expect([ending(result), texts(result)]).toEqual([
        ["completed", "completed"],
        ["mail failed: It is executed elsewhere, and this run does not wait for its result."],
      ]);
      expect(
        fixture.sink.ofType("question.answered").map(({ answer, source }) => [answer, source]),
      ).toEqual([["failure", "nobody"]]);
    });

  test("denies a call if its approver returns nothing, and the model reads so", async () => {
    const { tool, result, fixture } = await payingWith(() => undefined, {
      unansweredPolicy: "deny",
    });
    expect([tool.paid, texts(result)]).toEqual([
      [],
      [
        "Not executed: pay was denied. The approver returned no answer. Do without it, or answer with what you have.",
      ],
    ]);
    expect(
      fixture.sink.ofType("question.answered").map(({ answer, source }) => [answer, source]),
    ).toEqual([["denied", "nobody"]]);
  });
});
