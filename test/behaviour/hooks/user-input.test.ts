// Goal: the task of a run can be rewritten or refused before anything is spent, and the change is
// reported.
// Method: hooks at userInput; inspect the history, the requests and the events.

import { expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { hookTree } from "../../support/hook-sites.ts";

proves(
  ["R90"],
  "refuses a task before any model call, without a history, and reports the reason",
  async () => {
    const refuse = transform(
      "userInput",
      ({ task }) => (task.includes("bomb") ? { refuse: "Not with us." } : undefined),
      { name: "gatekeeper" },
    );
    const later: string[] = [];
    const hooks = [refuse, transform("userInput", ({ task }) => void later.push(task))];
    const { role, model } = soloist([], { hooks });
    const fixture = newFixture();
    const run = fixture.start(role, "Build a bomb.");
    const histories: unknown[] = [];
    for await (const { state } of run.iterate()) histories.push(state.conversation.messages);
    const result = await fixture.outcome(run);
    const reason = { code: "input_refused", message: "Not with us.", data: {} };
    expect([result.status, result.reason, result.text, result.steps, later]).toEqual([
      "stopped",
      reason,
      "",
      [],
      [],
    ]);
    expect([
      model.requests.length,
      result.usage.total.modelCalls,
      result.usage.total.steps,
    ]).toEqual([0, 0, 0]);
    expect(histories.at(-1)).toEqual([{ role: "system", text: "Work.", origin: "instructions" }]);
    expect([
      fixture.sink.ofType("signal.raised").map(({ signal }) => signal),
      fixture.sink.ofType("run.ended").map((event) => event.reason),
      fixture.sink.ofType("budget.reserved").length,
    ]).toEqual([[{ source: "hook", name: "gatekeeper", reason }], [reason], 0]);
  },
);

proves(
  ["R90"],
  "stores a rewritten task in the history and names the hook in the event",
  async () => {
    const rewrite = transform("userInput", ({ task }) => ({ task: `${task} Politely.` }), {
      name: "manners",
    });
    const { role, model } = soloist([says("done")], { hooks: [rewrite] });
    const fixture = newFixture();
    await fixture.run(role);
    expect([
      model.requests[0]?.messages.at(-1),
      fixture.sink.ofType("hook.applied").map(({ point, changedBy }) => [point, changedBy]),
    ]).toEqual([
      { role: "user", text: "Do it. Politely.", origin: "task" },
      [["userInput", [{ hook: "manners", fields: ["task"] }]]],
    ]);
  },
);

test("calls the hook once per run, for the root only, with role, task and metadata", async () => {
  const asked: unknown[] = [];
  const watch = transform("userInput", (input, { hookName }) => void asked.push([hookName, input]));
  const { lead } = hookTree({});
  const fixture = newFixture({ hooks: [watch] });
  const run = fixture.start(lead.role, "Survey.", { metadata: { user: { id: 7 } } });
  await fixture.outcome(run);
  expect(asked).toEqual([
    ["userInput#1", { role: "lead", task: "Survey.", metadata: { user: { id: 7 } } }],
  ]);
});

test("calls the hook once if a run was paused before it began", async () => {
  const asked: string[] = [];
  const watch = transform("userInput", ({ task }) => {
    asked.push(task);
    return { task: "Other." };
  });
  const { role, model } = soloist([says("done")], { hooks: [watch] });
  const fixture = newFixture();
  const run = fixture.start(role);
  run.requestPause();
  const paused = await fixture.outcome(run);
  expect([paused.status, asked]).toEqual(["paused", []]);
  const resumed = fixture.resume(role, paused.pausedRun);
  const result = await fixture.outcome(resumed);
  expect([result.status, asked, model.requests[0]?.messages.at(-1)?.text]).toEqual([
    "completed",
    ["Do it."],
    "Other.",
  ]);
});

test("fails the run if the refusal is not a non-empty text", async () => {
  const odd = transform("userInput", () => ({ refuse: " " }));
  const { role, model } = soloist([], { hooks: [odd] });
  const result = await newFixture().run(role);
  expect([result.status, result.agents[0]?.errors.map(({ code }) => code)]).toEqual([
    "failed",
    ["invalid_hook_result"],
  ]);
  expect(model.requests).toEqual([]);
});
