// Goal: what a run at rest cannot be continued with is refused before anything happens: it is resumed afterwards as if nothing had been asked.

import { expect } from "vitest";

import { approve } from "../../src/protocol/question.ts";
import type { Budget } from "../../src/policies/budget.ts";
import { counts, doings, engineWorld, runId, solo, turns } from "../engine/engine-world.ts";
import { proves } from "../harness/proves.ts";
import { rejectionOf, thrownBy } from "../support/thrown.ts";

const ID = runId("order-4711");

const MISTAKEN: readonly Budget[] = [{ steps: 3 }, { costUsd: 1 }, { wallTimeMs: 1_000 }];

for (const budget of MISTAKEN)
  proves(["D282"], `more of what is not limited: ${Object.keys(budget).join()}`, async () => {
    const done = doings();
    const role = solo(done, {
      count: 1,
      tool: { needsApproval: true },
      more: { budget: { totalTokens: 10_000 } },
    });
    const { process, pushed, store, clock } = engineWorld();
    const one = process({ roles: [role] });
    const { pausedRun, questions } = await pushed(one.start(role, "Go.", { runId: ID }).result);
    if (pausedRun === undefined) throw new Error("It is not paused.");
    const answers = questions.map((question) => approve(question));
    const grants = [
      { budget: { totalTokens: 10 }, by: "me" },
      { budget, by: "me" },
    ];
    const before = await store.find(ID);
    const errors = [
      thrownBy(() => one.resume(pausedRun, answers, { grants })),
      await rejectionOf(one.recover(ID, { answers, grants })),
    ];
    expect(errors.map(({ code }) => code)).toEqual(["invalid_option", "invalid_option"]);
    await turns(20);
    expect([await store.find(ID), clock.pendingTimers]).toEqual([before, 0]);
    const { status } = await pushed(one.resume(pausedRun, answers).result);
    expect([status, counts(done), clock.pendingTimers]).toEqual(["completed", [1], 0]);
  });

proves(["D284"], "by resume, by recover and by mail", async () => {
  const role = solo(doings(), { count: 1, tool: { needsApproval: true } });
  const { process, pushed, store } = engineWorld();
  const one = process({ roles: [role] });
  const { pausedRun, questions } = await pushed(one.start(role, "Go.", { runId: ID }).result);
  const [question] = questions;
  if (pausedRun === undefined || question === undefined) throw new Error("It is not paused.");
  const before = await store.find(ID);
  for (const answers of [approve(question), null, "approve"]) {
    const errors = [
      // @ts-expect-error -- Answers are a list.
      thrownBy(() => one.resume(pausedRun, answers)),
      // @ts-expect-error -- Answers are a list.
      await rejectionOf(one.recover(ID, { answers })),
      // @ts-expect-error -- Answers are a list.
      await rejectionOf(one.answer(ID, answers)),
    ];
    for (const { code, data, message } of errors)
      expect([code, data, message]).toEqual([
        "invalid_answer",
        { problem: "malformed" },
        expect.stringMatching(/^Expected answers to be a list, got /),
      ]);
  }
  expect(await store.find(ID)).toEqual(before);
});
