// Operations on runs that real workers execute over a real engine, the same for each engine.

import { expect } from "vitest";

import { approve, type EspalierEvent } from "../../../src/index.ts";
import type { RemoteRun } from "../../../src/engines.ts";
import {
  parseRecord,
  type JournalRecord,
} from "../../../src/orchestrator/durability/journal-record.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import type { Effect, SurveyPlace } from "../../support/survey-place.ts";
import { surveyTask, surveyText } from "../../support/surveys.ts";

/** Orders this many surveys of 25 agents. */
export async function orderSurveys(place: SurveyPlace, count: number): Promise<readonly Survey[]> {
  return await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const task = surveyTask(`s${index}`);
      return { task, run: await place.client.start("lead", task, { runId: `survey-${index}` }) };
    }),
  );
}

export interface Survey {
  readonly task: string;
  readonly run: RemoteRun;
}

/** Expects each survey to end with the text of an undisturbed run. */
export async function expectTexts(surveys: readonly Survey[]): Promise<void> {
  const results = await Promise.all(surveys.map(({ run }) => run.getResult()));
  expect(results.map(({ status, text }) => [status, text])).toEqual(
    surveys.map(({ task }) => ["completed", surveyText(task)]),
  );
}

/** Returns the surveys that another worker has continued. */
export async function movedRuns(surveys: readonly Survey[]): Promise<readonly Survey[]> {
  const areMoved = await Promise.all(
    surveys.map(async ({ run }) =>
      (await eventsOf(run)).some(({ type }) => type === "run.resumed"),
    ),
  );
  return surveys.filter((_, index) => areMoved[index]);
}

/** Returns how often an effect began beyond once, by key. */
export function repeated(effects: readonly Effect[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { what, key } of effects)
    if (what === "begin") counts.set(key, (counts.get(key) ?? 0) + 1);
  return new Map([...counts].flatMap(([key, count]) => (count > 1 ? [[key, count - 1]] : [])));
}

/** Returns the effects of all runs whose outcome is persisted. */
export async function keptEffects({ store }: SurveyPlace): Promise<ReadonlySet<string>> {
  const kept = new Set<string>();
  for (const { runId } of await store.list({ limit: 1_000 })) {
    const reader = new RecordCodec();
    for await (const line of store.read(runId))
      for (const key of reader.read(line).map(parseRecord).flatMap(keysIn)) kept.add(key);
  }
  return kept;
}

/**
 * Returns the keys of an effect's outcome: a reply has its key as response id, the result of a tool
 * names its path.
 */
function keysIn(record: JournalRecord): readonly string[] {
  if (record.type !== "effect") return [];
  const said = JSON.stringify(record.outcome);
  const replies = [...said.matchAll(/"responseId":"([^"]+)"/g)].map(([, key = ""]) => key);
  if (replies.length > 0) return replies;
  return [...said.matchAll(/"seen ([^"]+)"/g)].map(([, path = ""]) => `look ${path}`);
}

/** Returns the effects with these keys that began after a time. */
export function begunAfter(
  effects: readonly Effect[],
  atMs: number,
  keys: ReadonlySet<string>,
): readonly Effect[] {
  return effects.filter(
    ({ what, key, atMs: beganMs }) => what === "begin" && beganMs > atMs && keys.has(key),
  );
}

/** Returns all entries of effects that ended more than once. */
export function endedTwice(effects: readonly Effect[]): readonly Effect[] {
  const counts = new Map<string, number>();
  for (const { what, key } of effects)
    if (what === "end") counts.set(key, (counts.get(key) ?? 0) + 1);
  return effects.filter(({ key }) => (counts.get(key) ?? 0) > 1);
}

/** Orders a survey of a lead and leaves that pays once it is approved. */
export async function askedSurvey(place: SurveyPlace, name: string, leaves = 9): Promise<Survey> {
  const task = surveyTask(name, { sections: leaves, leaves: 0, asks: true });
  const run = await place.client.start("lead", task, { runId: name });
  return { task, run };
}

/** Approves the question of a run, once it asks one. */
export async function approved(run: RemoteRun): Promise<void> {
  const result = await run.getResult();
  const [question] = result.questions;
  if (question !== undefined) await run.answer([approve(question)]);
}

/** Returns all events of a run that has paused or ended. */
export async function eventsOf(run: RemoteRun): Promise<readonly EspalierEvent[]> {
  const events: EspalierEvent[] = [];
  for await (const event of run.events()) events.push(event);
  return events;
}

/** Returns the records of all runs that follow, or replace, records of a later owner. */
export function outOfTurn({ takenBatches }: SurveyPlace): readonly string[] {
  const byRun = Map.groupBy(takenBatches, ({ runId }) => runId);
  return [...byRun.values()].flatMap((ofRun) =>
    ofRun
      .filter(({ epoch, firstNumber, count }) =>
        ofRun.some((other) => other.epoch > epoch && other.firstNumber < firstNumber + count),
      )
      .map(({ runId, epoch, firstNumber }) => `${runId}: ${firstNumber} of owner ${epoch}`),
  );
}
