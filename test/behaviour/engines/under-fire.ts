// Surveys that are ordered and answered one after the other while workers are killed and frozen at
// random, and the engine is killed.

import { setTimeout } from "node:timers/promises";

import { EspalierError } from "../../../src/kernel/error.ts";
import { foldJournal } from "../../../src/orchestrator/durability/fold-journal.ts";
import { RunIdSchema } from "../../../src/protocol/ids.ts";
import type { SurveyPlace } from "../../support/survey-place.ts";
import { surveyText } from "../../support/surveys.ts";
import { approved, askedSurvey, outOfTurn } from "./surveys-under-fire.ts";

/** A hundred runs in two minutes. */
const RUNS_PER_SECOND = 100 / 120;

interface Outcome {
  readonly runs: number;
  readonly ended: number;
  /** Texts that differ from those of undisturbed runs, though no call was interrupted. */
  readonly otherTexts: readonly string[];
  readonly paidTwice: readonly string[];
  /** Reservations that were not released. */
  readonly openLeases: readonly string[];
  /** Runs whose journal does not end with their end, or cannot be read. */
  readonly unended: readonly string[];
  /** Records of an older owner that follow or replace some of a newer one. */
  readonly outOfTurn: readonly string[];
}

/** Kills for this long, lets all runs end, and returns their outcomes. */
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
      const runId = `fire-${index}`;
      const failed = (cause: unknown) => ({ task: "", text: String(cause), runId });
      runs.push(oneSurvey(place, runId).catch(failed));
      await setTimeout((seconds * 1_000) / count);
    }
  })();
  for (let round = 0; Date.now() < untilMs; round += 1) {
    await setTimeout(randomMs(2_000, 8_000));
    await shoot(place, round);
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
  for (const { runId: name } of results) {
    const runId = RunIdSchema().parse(name);
    const folded = await foldJournal(runId, place.store.read(runId)).catch(String);
    if (typeof folded === "string") {
      unended.push(`${name}: ${folded}`);
      continue;
    }
    openLeases.push(...(folded.run.leases ?? []).map(({ lease }) => lease.leaseId));
    if (folded.status !== "ended") unended.push(name);
  }
  return {
    runs: count,
    ended: results.length,
    otherTexts,
    paidTwice: [...paid].flatMap(([key, times]) => (times > 1 ? [key] : [])),
    openLeases,
    unended,
    outOfTurn: outOfTurn(place),
  };
}

/**
 * In turn: kills one worker, kills the other, freezes one for so long that its runs are taken over,
 * and kills the engine.
 */
async function shoot(place: SurveyPlace, round: number): Promise<void> {
  const index = round % place.workers.length;
  const worker = place.workers[index];
  if (round % 4 < 2) {
    await worker?.kill();
    await place.add(index);
    return;
  }
  const isFreezing = round % 4 === 2;
  if (isFreezing) worker?.freeze();
  // Restate has to lose its connections, or it would wait for a frozen worker for a minute.
  if (!isFreezing || place.servers.restate !== undefined) await crashEngine(place);
  if (isFreezing) await setTimeout(randomMs(14_000, 18_000));
  worker?.thaw();
}

/** Crashes the server of the engine, which over pg-boss is the database. */
async function crashEngine({ servers }: SurveyPlace): Promise<void> {
  const engine = servers.restate ?? servers.postgres.machine;
  await engine?.crash();
  await setTimeout(500);
  await engine?.start();
}

async function oneSurvey(place: SurveyPlace, name: string) {
  const { task, run } = await again(() => askedSurvey(place, name));
  for (;;) {
    const result = await again(() => run.getResult());
    if (result.status !== "paused") return { task, text: result.text, runId: run.runId };
    await again(() => approved(run));
  }
}

const AWAY: ReadonlySet<string> = new Set(["engine_failed", "store_failed"]);

/** Repeats a request while the engine or the database is away. */
async function again<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (cause) {
      if (!EspalierError.is(cause) || !AWAY.has(cause.code)) throw cause;
      await setTimeout(200);
    }
  }
}

let state = 12_345;

/** A deterministic random sequence. */
function randomMs(least: number, most: number): number {
  state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
  return least + (state / 2 ** 31) * (most - least);
}
