// What holds of runs that workers lead over a real engine and PostgreSQL, whatever is killed: they come to what a run comes to that nothing
// happens to. Real servers, and workers in processes of their own, which are killed, frozen and replaced.

import { afterAll, describe, expect, vi } from "vitest";

import { approve } from "../../src/index.ts";
import { proves } from "../harness/proves.ts";
import { rejectionOf } from "../support/thrown.ts";
import { findServers, SurveyPlace, type EngineName } from "../support/survey-place.ts";
import { surveyTask } from "../support/surveys.ts";
import { underFire } from "./under-fire.ts";
import {
  approved,
  askedSurvey,
  begunAfter,
  endedTwice,
  eventsOf,
  expectTexts,
  keptEffects,
  movedRuns,
  orderSurveys,
  outOfTurn,
  repeated,
} from "./surveys.ts";

/** How long workers and the engine are killed. */
const KILL_SECONDS = Number(process.env["KILL_SECONDS"] ?? 30);
/** Only a hang is caught. */
const HANG_MS = 300_000 + KILL_SECONDS * 1_000;

export async function surveysOver(name: EngineName): Promise<void> {
  const found = await findServers(name);
  if (typeof found === "string") console.warn(`Surveys over ${name} are skipped: ${found}.`);
  const open = (pace = {}): Promise<SurveyPlace> => {
    if (typeof found === "string") throw new Error(found);
    return SurveyPlace.open(found, pace);
  };
  vi.setConfig({ testTimeout: HANG_MS });
  afterAll(async () => {
    vi.resetConfig();
    if (typeof found === "string") return;
    await found.restate?.close();
    await found.postgres.close();
  });

  describe.skipIf(typeof found === "string")(`over ${name}`, () => {
    proves(
      ["E100"],
      "30 runs of 25 agents, a worker of which is killed, are the runs that they would be",
      async () => {
        const place = await open();
        const surveys = await orderSurveys(place, 30);
        await place.until((effects) => effects.length > 600);
        const kept = await keptEffects(place);
        const busiest = await place.busiest();
        const killedMs = Date.now();
        await place.workers[busiest]?.kill();
        await expectTexts(surveys);
        const { effects } = place;
        expect([kept.size > 100, begunAfter(effects, killedMs, kept)]).toEqual([true, []]);
        // All that the dead worker had under way, no more: the leaves of each run that it led.
        const moved = await movedRuns(surveys);
        const again = [...repeated(effects).values()].reduce((sum, count) => sum + count, 0);
        expect([moved.length > 0, again <= moved.length * 20]).toEqual([true, true]);
      },
    );

    proves(
      ["E101", "E113"],
      "a frozen worker that wakes up harms nothing: one text, one journal, and no call twice that must not be",
      async () => {
        const place = await open({ modelMs: 200, toolMs: 400 });
        const survey = await askedSurvey(place, "pears", 3);
        await approved(survey.run);
        await place.until((effects) =>
          effects.some(({ what, key }) => what === "begin" && key === "pay pears"),
        );
        const payer = place.effects.find(({ key }) => key === "pay pears")?.pid;
        const frozen = place.workers.find(({ pid }) => pid === payer);
        frozen?.freeze();
        const { text, status } = await survey.run.getResult();
        frozen?.thaw();
        await frozen?.terminate(); // What it had still to write, it has tried to.
        expect(outOfTurn(place)).toEqual([]);
        expect(status).toBe("completed");
        expect(text).toContain("Not repeated");
        const events = await eventsOf(survey.run);
        expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
        expect(
          place.effects.filter(({ what, key }) => what === "begin" && key === "pay pears"),
        ).toHaveLength(1);
      },
    );

    proves(["E102"], "one order a hundred times at once is one run", async () => {
      const place = await open();
      const task = surveyTask("once");
      const runs = await Promise.all(
        Array.from({ length: 100 }, () => place.client.start("lead", task, { runId: "once" })),
      );
      await expectTexts(runs.map((run) => ({ task, run })));
      expect([...repeated(place.effects)]).toEqual([]);
      expect(place.effects.filter(({ what }) => what === "begin")).toHaveLength(70);
      expect(
        (await rejectionOf(place.client.start("lead", "Another.", { runId: "once" }))).code,
      ).toBe("run_id_conflict");
    });

    proves(
      ["E103"],
      "a run of 25 agents is cancelled while it is led; none of its calls begins later",
      async () => {
        const place = await open({ modelMs: 2_000 });
        const [survey] = await orderSurveys(place, 1);
        if (survey === undefined) throw new Error();
        await place.until((effects) => effects.some(({ key }) => key.startsWith("model leaf")));
        const requestedMs = Date.now();
        await survey.run.cancel("Not needed.");
        const { status } = await survey.run.getResult();
        expect(status).toBe("cancelled");
        expect(
          place.effects.filter(({ what, atMs }) => what === "begin" && atMs > requestedMs + 1_000),
        ).toEqual([]);
      },
    );

    proves(
      ["E103"],
      "a run that waits for an answer is cancelled: the call is not made",
      async () => {
        const place = await open();
        const { run } = await askedSurvey(place, "pears", 2);
        expect((await run.getResult()).status).toBe("paused");
        await run.cancel("Not needed.");
        expect((await run.getResult()).status).toBe("cancelled");
        expect(place.effects.filter(({ key }) => key.startsWith("pay"))).toEqual([]);
        expect((await rejectionOf(run.cancel())).code).toBe("run_ended");
      },
    );

    proves(
      ["E104"],
      "a run goes on with an answer that came after all workers were replaced; the call is made once, a second answer refused",
      async () => {
        const place = await open();
        const survey = await askedSurvey(place, "pears", 2);
        const [question] = (await survey.run.getResult()).questions;
        if (question === undefined) throw new Error();
        for (const worker of place.workers) await worker.kill();
        for (const index of place.workers.keys()) await place.add(index);
        await survey.run.answer([approve(question)]);
        expect((await rejectionOf(survey.run.answer([approve(question)]))).code).toBe(
          "invalid_answer",
        );
        await expectTexts([survey]);
        expect(
          place.effects.filter(({ key }) => key === "pay pears").map(({ what }) => what),
        ).toEqual(["begin", "end"]);
      },
    );

    proves(
      ["E105"],
      "a worker that is told to end gives its runs up: what had returned is not done again",
      async () => {
        const place = await open();
        const surveys = await orderSurveys(place, 10);
        await place.until((effects) => effects.length > 200);
        await place.workers[0]?.terminate();
        await expectTexts(surveys);
        expect(endedTwice(place.effects)).toEqual([]);
      },
    );

    proves(
      ["E106"],
      "a run that cannot be led is tried once, and says why; a role that no worker has is refused at once",
      async () => {
        const place = await open({ workers: 1 });
        const run = await place.client.start("broke", "Go.", { budget: { costUsd: 1 } });
        expect((await rejectionOf(run.getResult())).code).toBe("price_unknown");
        expect((await rejectionOf(place.client.start("nobody", "Go."))).code).toBe("unknown_role");
        expect(place.effects).toEqual([]);
      },
    );

    proves(
      ["E107"],
      "a run that moved is one list of events without a gap and one trace, in which no span began twice",
      async () => {
        const place = await open();
        const [survey] = await orderSurveys(place, 1);
        if (survey === undefined) throw new Error();
        await place.until((effects) => effects.length > 40);
        const leader = place.effects.at(-1)?.pid;
        await place.workers.find(({ pid }) => pid === leader)?.kill();
        await expectTexts([survey]);
        const events = await eventsOf(survey.run);
        expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
        expect(events.map(({ type }) => type)).toContain("run.resumed");
        expect(new Set(events.map(({ traceId }) => traceId)).size).toBe(1);
        const begun = events.flatMap(({ type, spanId }) =>
          ["agent.started", "agent.resumed", "model.requested", "tool.started"].includes(type)
            ? [spanId]
            : [],
        );
        expect(new Set(begun).size).toBe(begun.length);
      },
    );

    proves(
      ["E109", "E113"],
      "while workers and the engine are killed at random, every run ends, and no call that must not be repeated is begun twice",
      async () => {
        const place = await open({ modelMs: 100, toolMs: 50 });
        const outcome = await underFire(place, { seconds: KILL_SECONDS });
        expect(outcome).toEqual({
          runs: outcome.runs,
          ended: outcome.runs,
          otherTexts: [],
          paidTwice: [],
          openLeases: [],
          unended: [],
          outOfTurn: [],
        });
      },
    );
  });

  const machine = typeof found === "string" ? undefined : found.postgres.machine;
  describe.skipIf(machine === undefined)(
    `over ${name}, with a database that is ours to end`,
    () => {
      proves(
        ["E108"],
        "runs are left when their database dies, and go on when it is back: nothing that was kept is done again",
        async () => {
          const place = await open();
          const surveys = await orderSurveys(place, 10);
          await place.until((effects) => effects.length > 200);
          const kept = await keptEffects(place);
          const endedMs = Date.now();
          await machine?.crash();
          await machine?.start();
          await expectTexts(surveys);
          expect([kept.size > 20, begunAfter(place.effects, endedMs, kept)]).toEqual([true, []]);
        },
      );
    },
  );
}
