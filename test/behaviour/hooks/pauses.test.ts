// Goal: hooks and pauses do not interfere: each call passes the hooks before it once and those
// after it once.
// Method: runs that pause for an answer and are resumed by a new orchestrator from JSON.

import { expect, test } from "vitest";
import { z } from "zod";

import { transform, type Hook } from "../../../src/hooks/hook.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { approve, deny, provideResult, type Question } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, receivedTexts, use } from "../../harness/scripted-agents.ts";

/** A tool that needs approval and records its arguments. */
function payTool(): { readonly tool: ReturnType<typeof defineTool>; readonly paid: number[] } {
  const paid: number[] = [];
  const tool = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({ amount: z.number() }),
    needsApproval: true,
    execute: ({ amount }) => `paid ${paid.push(amount) > 0 ? amount : 0}`,
  });
  return { tool, paid };
}

function questionOf({ status, questions }: RunResult): Question {
  expect([status, questions.length]).toEqual(["paused", 1]);
  const [question] = questions;
  if (question === undefined) throw new Error("There is no question.");
  return question;
}

/** Records the input of hooks before and after calls; the former double the amount. */
function doubling(log: unknown[]): readonly Hook[] {
  return [
    transform(
      "beforeTool",
      ({ arguments: input }) => {
        log.push(["before", input]);
        const { amount } = z.object({ amount: z.number() }).parse(input);
        return { arguments: { amount: amount * 2 } };
      },
      { tools: ["pay"] },
    ),
    transform("afterTool", ({ arguments: input, text }) => void log.push(["after", input, text]), {
      tools: ["pay"],
    }),
  ];
}

proves(
  ["R79"],
  "asks about and runs the arguments that a hook wrote, without calling the hook again",
  async () => {
    const log: unknown[] = [];
    const { tool, paid } = payTool();
    const { role, model } = soloist([asks("pay", { amount: 1 }), says("done")], {
      tools: [tool],
      hooks: doubling(log),
    });
    const fixture = newFixture();
    const paused = await fixture.run(role);
    const question = questionOf(paused);
    expect([question.arguments, log, paid]).toEqual([
      { amount: 2 },
      [["before", { amount: 1 }]],
      [],
    ]);
    const result = await fixture.outcome(
      fixture.resume(role, paused.pausedRun, [approve(question)]),
    );
    expect([result.status, receivedTexts(model.requests[1]), paid]).toEqual([
      "completed",
      ["paid 2"],
      [2],
    ]);
    expect(log).toEqual([
      ["before", { amount: 1 }],
      ["after", { amount: 2 }, "paid 2"],
    ]);
    expect(fixture.sink.ofType("hook.applied").map(({ before, after }) => [before, after])).toEqual(
      [[{ amount: 1 }, { amount: 2 }]],
    );
  },
);

test("shows the hook after a call the arguments from the answer", async () => {
  const log: unknown[] = [];
  const { tool, paid } = payTool();
  const { role } = soloist([asks("pay", { amount: 1 }), says("done")], {
    tools: [tool],
    hooks: doubling(log),
  });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const answer = approve(questionOf(paused), { arguments: { amount: 5 } });
  await fixture.outcome(fixture.resume(role, paused.pausedRun, [answer]));
  expect([paid, log]).toEqual([
    [5],
    [
      ["before", { amount: 1 }],
      ["before", { amount: 5 }], // It may deny these, but not change them.
      ["after", { amount: 5 }, "paid 5"],
    ],
  ]);
});

test("asks an in-process approver about the arguments that a hook wrote", async () => {
  const log: unknown[] = [];
  const { tool, paid } = payTool();
  const { role } = soloist([asks("pay", { amount: 1 }), says("done")], {
    tools: [tool],
    hooks: doubling(log),
  });
  const asked: unknown[] = [];
  const fixture = newFixture({
    approver: (question) => {
      asked.push(question.arguments);
      return approve(question);
    },
  });
  const result = await fixture.run(role);
  expect([result.status, asked, paid, log]).toEqual([
    "completed",
    [{ amount: 2 }],
    [2],
    [
      ["before", { amount: 1 }],
      ["after", { amount: 2 }, "paid 2"],
    ],
  ]);
});

test("asks no question about a call that a hook denies", async () => {
  const { tool, paid } = payTool();
  const { role, model } = soloist([asks("pay", { amount: 1 }), says("done")], {
    tools: [tool],
    hooks: [transform("beforeTool", () => ({ deny: "Broke." }))],
  });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect([
    result.status,
    fixture.sink.ofType("question.asked"),
    paid,
    receivedTexts(model.requests[1]),
  ]).toEqual([
    "completed",
    [],
    [],
    ["Not executed: pay was denied. Broke. Do without it, or answer with what you have."],
  ]);
});

test("passes an external result to the hooks after the call and records their metadata", async () => {
  const fetchTool = defineTool({
    name: "fetch",
    description: "Is done elsewhere.",
    inputSchema: z.object({}),
  });
  const shown: unknown[] = [];
  const hooks = [
    transform("beforeTool", ({ toolName }) => void shown.push(`before ${toolName}`)),
    transform("afterTool", ({ toolName, text, outcome }) => {
      shown.push([toolName, outcome, text]);
      return { text: "tidied", metadata: { from: "outside" } };
    }),
  ];
  const { role, model } = soloist([asks("fetch", {}), says("done")], {
    tools: [fetchTool],
    hooks,
  });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  expect(shown).toEqual(["before fetch"]);
  const answer = provideResult(questionOf(paused), { rows: 3 });
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, [answer]));
  expect([shown, receivedTexts(model.requests[1])]).toEqual([
    ["before fetch", ["fetch", "succeeded", '{"rows":3}']],
    ["tidied"],
  ]);
  expect(result.steps[0]?.tools.executions.map(({ metadata }) => metadata)).toEqual([
    { from: "outside" },
  ]);
});

proves(["R82"], "persists the metadata of a sibling call over the pause", async () => {
  const { tool } = payTool();
  const notes: unknown[] = [];
  const hooks = [
    transform("afterTool", ({ toolName }) => ({ metadata: { seen: toolName } })),
    transform("beforeModel", ({ steps }) => {
      notes.push(steps.flatMap(({ tools }) => tools.executions.map(({ metadata }) => metadata)));
    }),
  ];
  const { role } = soloist(
    [calls(use("work"), { toolName: "pay", arguments: { amount: 1 } }), says("done")],
    { tools: [spyTool("work"), tool], hooks },
  );
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const result = await fixture.outcome(
    fixture.resume(role, paused.pausedRun, [deny(questionOf(paused), "No.")]),
  );
  expect([result.status, notes[0], notes.length]).toEqual(["completed", [], 2]);
  expect(result.steps[0]?.tools.executions.map(({ metadata }) => metadata)[0]).toEqual({
    seen: "work",
  });
});

test("resumes the child of a delegation that a hook corrected", async () => {
  const { tool, paid } = payTool();
  const child = part(
    "child",
    [calls({ toolName: "pay", arguments: { amount: 3 } }), says("Child.")],
    {
      tools: [tool],
    },
  );
  const mend = transform("beforeTool", () => ({ arguments: { role: "child", task: "Mended." } }), {
    tools: ["SpawnSubagent"],
  });
  const lead = part(
    "lead",
    [calls({ toolName: "SpawnSubagent", arguments: { to: "nobody" } }), says("Done.")],
    { subagents: [child.role], hooks: [mend] },
  );
  const fixture = newFixture();
  const paused = await fixture.run(lead.role);
  const question = questionOf(paused);
  const result = await fixture.outcome(
    fixture.resume(lead.role, paused.pausedRun, [approve(question)]),
  );
  expect([result.status, paid, result.agents.map(({ status, task }) => [status, task])]).toEqual([
    "completed",
    [3],
    [
      ["completed", "Do it."],
      ["completed", "Mended."],
    ],
  ]);
});

test("counts vetoes across a pause", async () => {
  const asked: (readonly [number, boolean])[] = [];
  const veto = transform("stop", ({ vetoes, isActive }) => {
    asked.push([vetoes, isActive]);
    return { continueWith: "More." };
  });
  const { tool } = payTool();
  const script = [
    says("one"),
    asks("pay", { amount: 1 }),
    says("two"),
    says("three"),
    says("four"),
  ];
  const { role } = soloist(script, { tools: [tool], hooks: [veto] });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const answers = [approve(questionOf(paused))];
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, answers));
  expect([result.status, result.text, asked]).toEqual([
    "completed",
    "four",
    [
      [0, false],
      [1, true],
      [2, true],
    ],
  ]);
});
