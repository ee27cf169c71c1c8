// Runs that workers execute over a real engine and PostgreSQL end like undisturbed ones, whatever
// is killed. Real servers, and workers in their own processes, which are killed, frozen and
// replaced.

import { afterAll, describe, expect, vi } from "vitest";

import { approve } from "../../../src/index.ts";
import { proves } from "../../harness/proves.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { findServers, SurveyPlace, type EngineName } from "../../support/survey-place.ts";
import { surveyTask } from "../../support/surveys.ts";
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
} from "./surveys-under-fire.ts";

/** How long workers and the engine are killed. */
const KILL_SECONDS = Number(process.env["KILL_SECONDS"] ?? 30);
/** Catches only a hang. */
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
      "completes 30 runs of 25 agents with the same texts although one of their workers is killed",
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
        // At most the calls that the dead worker had in flight: the leaves of each of its runs.
        const moved = await movedRuns(surveys);
        const again = [...repeated(effects).values()].reduce((sum, count) => sum + count, 0);
        expect([moved.length > 0, again <= moved.length * 20]).toEqual([true, true]);
      },
    );

    proves(
      ["E101", "E113"],
      "completes a run of a frozen worker once, with one journal and no unrepeatable call twice after it wakes",
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
        await frozen?.terminate(); // By then it has tried to write its pending records.
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

    proves(["E102"], "executes one run for a hundred concurrent starts of one order", async () => {
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
      "cancels an active run of 25 agents, and starts none of its calls later",
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

    proves(["E103"], "cancels a run that waits for an answer without making the call", async () => {
      const place = await open();
      const { run } = await askedSurvey(place, "pears", 2);
      expect((await run.getResult()).status).toBe("paused");
      await run.cancel("Not needed.");
      expect((await run.getResult()).status).toBe("cancelled");
      expect(place.effects.filter(({ key }) => key.startsWith("pay"))).toEqual([]);
      expect((await rejectionOf(run.cancel())).code).toBe("run_ended");
    });

    proves(
      ["E104"],
      "continues a run with an answer after all workers were replaced, makes the call once, and rejects a second answer",
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
      "releases the runs of a terminated worker, and repeats no call that had returned",
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
      "attempts a run that cannot be executed once, reports why, and refuses an unknown role at once",
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
      "records the events of a moved run without a gap, in one trace in which no span began twice",
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
      "ends every run while workers and the engine are killed at random, and starts no unrepeatable call twice",
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
    `over ${name}, with a database that the test may crash`,
    () => {
      proves(
        ["E108"],
        "continues runs after their database crashed, and repeats no persisted call",
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
