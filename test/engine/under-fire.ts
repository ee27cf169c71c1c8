// Surveys that are ordered and answered one after the other while workers, and the engine where it is a process, are killed at random.

import { setTimeout } from "node:timers/promises";

import { foldJournal } from "../../src/orchestrator/durability/fold-journal.ts";
import { RunIdSchema } from "../../src/protocol/ids.ts";
import type { SurveyPlace } from "../support/survey-place.ts";
import { surveyText } from "../support/surveys.ts";
import { approved, askedSurvey } from "./surveys.ts";

/** So many runs in two minutes. */
const RUNS_PER_SECOND = 100 / 120;

interface Outcome {
  readonly runs: number;
  readonly ended: number;
  /** Texts that no run without kills has, though nothing of it was interrupted. */
  readonly otherTexts: readonly string[];
  readonly paidTwice: readonly string[];
  /** Reservations that are left. */
  readonly openLeases: readonly string[];
  /** Runs whose journal does not end with their end. */
  readonly unended: readonly string[];
}

/** Kills for so long, lets all runs end, and says what came of them. */
export async function underFire(
  place: SurveyPlace,
  { seconds }: { readonly seconds: number },
): Promise<Outcome> {
  const untilMs = Date.now() + seconds * 1_000;
  const runs: Promise<{ readonly task: string; readonly text: string; readonly runId: string }>[] =
    [];
  const count = Math.max(10, Math.round(seconds * RUNS_PER_SECOND));
  const ordering = (async () => {
    for (let index = 0; index < count; index += 1) {
      runs.push(oneSurvey(place, `fire-${index}`));
      await setTimeout((seconds * 1_000) / count);
    }
  })();
  const { restate } = place.servers;
  for (let round = 0; Date.now() < untilMs; round += 1) {
    await setTimeout(randomMs(2_000, 8_000));
    const index = round % place.workers.length;
    if (restate !== undefined && round % 4 === 3) {
      await restate.crash();
      await setTimeout(500);
      await restate.start();
    } else {
      await place.workers[index]?.kill();
      await place.add(index);
    }
  }
  await ordering;
  const results = await Promise.all(runs);
  const otherTexts = results.flatMap(({ task, text }) =>
    text === surveyText(task) || text.includes("Not repeated") ? [] : [text],
  );
  const paid = new Map<string, number>();
  for (const { what, key } of place.effects)
    if (what === "begin" && key.startsWith("pay ")) paid.set(key, (paid.get(key) ?? 0) + 1);
  const openLeases: string[] = [];
  const unended: string[] = [];
  for (const { runId } of results) {
    const folded = await foldJournal(
      RunIdSchema.parse(runId),
      place.store.read(RunIdSchema.parse(runId)),
    );
    openLeases.push(...(folded.run.leases ?? []).map(({ lease }) => lease.leaseId));
    if (folded.status !== "ended") unended.push(runId);
  }
  return {
    runs: count,
    ended: results.length,
    otherTexts,
    paidTwice: [...paid].flatMap(([key, times]) => (times > 1 ? [key] : [])),
    openLeases,
    unended,
  };
}

async function oneSurvey(place: SurveyPlace, name: string) {
  const { task, run } = await again(() => askedSurvey(place, name));
  for (;;) {
    const result = await run.result();
    if (result.status !== "paused") return { task, text: result.text, runId: run.runId };
    await again(() => approved(run));
  }
}

/** What cannot be asked while the engine is away is asked again. */
async function again<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (cause) {
      if (!(cause instanceof Error) || !("code" in cause) || cause.code !== "engine_failed")
        throw cause;
      await setTimeout(200);
    }
  }
}

let state = 12_345;

/** By a sequence that is the same each time. */
function randomMs(least: number, most: number): number {
  state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
  return least + (state / 2 ** 31) * (most - least);
}
