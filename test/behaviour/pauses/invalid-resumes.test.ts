// Goal: an invalid resume of an inactive run is refused before it has any effect, and the run can
// be resumed afterwards as before.

import { expect } from "vitest";

import { approve } from "../../../src/protocol/question.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import {
  counts,
  doings,
  engineWorld,
  latch,
  runId,
  solo,
  turns,
} from "../../support/engine/engine-world.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { proves } from "../../harness/proves.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";

const ID = runId("order-4711");

proves(
  ["D739"],
  "the JSON text of a paused run is refused as a run id, and the error names `readPausedRun`",
  async () => {
    const role = solo(doings(), { count: 1, tool: { needsApproval: true } });
    const { process, pushed } = engineWorld();
    const one = process({ roles: [role] });
    const { pausedRun } = await pushed(one.start(role, "Go.", { runId: ID }).result);
    const text = JSON.stringify(pausedRun);
    const { code, message } = await rejectionOf(one.resume(text));
    expect([code, message]).toEqual([
      "invalid_argument",
      expect.stringMatching(/ Read a stored paused run with readPausedRun\(text\)\.$/),
    ]);
    const { message: plain } = await rejectionOf(one.resume("."));
    expect(plain).toMatch(/Choose another id\.$/);
  },
);

const MISTAKEN: readonly Budget[] = [{ steps: 3 }, { costUsd: 1 }, { timeMs: 1_000 }];

for (const budget of MISTAKEN)
  proves(
    ["D282"],
    `a grant on an unlimited axis is refused without effect: ${Object.keys(budget).join()}`,
    async () => {
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
        thrownBy(() => one.resume(pausedRun, { answers, grants })),
        await rejectionOf(one.resume(ID, { answers, grants })),
      ];
      expect(errors.map(({ code }) => code)).toEqual(["invalid_argument", "invalid_argument"]);
      await turns(20);
      expect([await store.find(ID), clock.pendingTimers]).toEqual([before, 0]);
      const { status } = await pushed(one.resume(pausedRun, { answers }).result);
      expect([status, counts(done), clock.pendingTimers]).toEqual(["completed", [1], 0]);
    },
  );

proves(
  ["D284"],
  "answers that are not an array are refused by `resume` in both forms and by `answer`",
  async () => {
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
        thrownBy(() => one.resume(pausedRun, { answers })),
        // @ts-expect-error -- Answers are a list.
        await rejectionOf(one.resume(ID, { answers })),
        // @ts-expect-error -- Answers are a list.
        await rejectionOf(one.answer(ID, answers)),
      ];
      for (const { code, data, message } of errors)
        expect([code, data, message]).toEqual([
          "invalid_answer",
          { problem: "malformed" },
          expect.stringMatching(/^Expected answers to be an array, got /),
        ]);
    }
    expect(await store.find(ID)).toEqual(before);
  },
);

proves(
  ["D286"],
  "a resume is refused if another run takes the session while it claims the run",
  async () => {
    const clock = new ManualClock(1_000_000);
    const inner = memoryStore({ clock });
    let meanwhile = (): void => undefined;
    const store: Store = forwarding(inner, {
      claim: async (...asked) => {
        const ownership = await inner.claim(...asked);
        meanwhile();
        return ownership;
      },
      release: async (...asked) => {
        await turns(10); // Pending journal records would be written first.
        await inner.release(...asked);
      },
    });
    const done = doings();
    const role = solo(done, { count: 1, tool: { needsApproval: true } });
    const { process, pushed } = engineWorld(store, clock);
    const one = process({ roles: [role] });
    const session = await one.openSession("customer-42");
    const { questions } = await pushed(one.start(role, "Go.", { runId: ID, session }).result);
    const answers = questions.map((question) => approve(question));
    const before = await inner.find(ID);
    const gate = latch();
    const other = solo(doings(), { name: "other", count: 1, hold: () => gate.opened });
    let run: Run | undefined;
    meanwhile = () => {
      meanwhile = () => undefined;
      run = one.start(other, "Meanwhile.", { session });
    };
    const { code } = await rejectionOf(pushed(one.resume(ID, { answers, session })));
    expect(code).toBe("invalid_state");
    await turns(20);
    expect(await inner.find(ID)).toMatchObject({
      status: "paused",
      owner: null,
      recordCount: before?.recordCount,
    });
    gate.open();
    await pushed(run?.result ?? Promise.reject(new Error("It was not started.")));
    const again = await one.resume(ID, { answers });
    expect([(await pushed(again.result)).status, counts(done)]).toEqual(["completed", [1]]);
    expect(clock.pendingTimers).toBe(0);
  },
);

proves(
  ["D289"],
  "a resume with answers is refused if another process resumed and released the run meanwhile",
  async () => {
    const clock = new ManualClock(1_000_000);
    const inner = memoryStore({ clock });
    let meanwhile = async (): Promise<unknown> => undefined;
    const store: Store = forwarding(inner, {
      claim: async (...asked) => {
        await meanwhile();
        return await inner.claim(...asked);
      },
    });
    const done = doings();
    const gate = latch();
    const role = solo(done, { count: 1, tool: { needsApproval: true }, hold: () => gate.opened });
    const { process, pushed } = engineWorld(store, clock);
    const one = process({ roles: [role] });
    const { questions } = await pushed(one.start(role, "Go.", { runId: ID }).result);
    const answers = questions.map((question) => approve(question));
    meanwhile = async () => {
      meanwhile = async () => undefined;
      const run = await process({ roles: [role] }).resume(ID, { answers });
      await turns(50);
      await run.release({ graceMs: 0 });
    };
    const { code } = await rejectionOf(pushed(one.resume(ID, { answers })));
    expect(code).toBe("invalid_answer");
    expect(await inner.find(ID)).toMatchObject({ status: "open", owner: null });
    gate.open();
    const again = await one.resume(ID);
    expect((await pushed(again.result)).status).toBe("completed");
  },
);
