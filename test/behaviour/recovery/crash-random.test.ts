// Goal: whenever the process of a run, or of its recovery, is killed, the run ends as if
// undisturbed (D1, D2).
// Method: real processes over a SQLite file and a real PostgreSQL server, each killed by SIGKILL at
// a random time of the run, again and again. `KILLS=100 npm run test:deep --
// test/behaviour/recovery/crash-random.test.ts` kills that often over each store (four minutes; also part of
// `npm run test:long`), `FC_SEED=…` at other times.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Pool } from "pg";
import { afterAll, describe, expect, test } from "vitest";

import { foldJournal } from "../../../src/orchestrator/durability/fold-journal.ts";
import type { JournalRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { randomFrom } from "../../support/random-from.ts";
import { checkRun } from "../../harness/run-scripted.ts";
import { findPostgres } from "../../support/store/postgres-server.ts";
import {
  gist,
  linesOf,
  live,
  lostCallsIn,
  resultIn,
  type Life,
} from "../../support/journal/crash-lives.ts";
import { named } from "../../support/journal/crash-play.ts";
import { EXACT_BUDGET, world } from "../../support/journal/crash-world.ts";
import { checkRecordedOnce, recordedLines } from "../../support/journal/recorded-once.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { storedEvents, storedRecords } from "../../support/journal/stored-events.ts";
import {
  checkKept,
  eventsIn,
  idempotencyKeyOf,
  settledCalls,
} from "../../support/journal/stored-story.ts";

const KILLS = Number(process.env["KILLS"] ?? 4);
const SEED = Number(process.env["FC_SEED"] ?? 20_261_121);
const MS_PER_KILL = 5_000;

const found = await findPostgres();
const server = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Kills over PostgreSQL are skipped: ${found}.`);
const folder = mkdtempSync(join(tmpdir(), "crash-random-"));
const schemas: string[] = [];
const tallies: Tally[] = [];

afterAll(async () => {
  // For readers of the output.
  for (const tally of tallies) process.stdout.write(`${JSON.stringify(tally)}\n`);
  rmSync(folder, { recursive: true });
  if (server === undefined) return;
  const admin = new Pool({ connectionString: server.url, max: 1 });
  for (const schema of schemas) await admin.query(`drop schema if exists ${schema} cascade`);
  await admin.end();
  await server.close();
});

/** The store and files of the processes of one run. */
interface Place {
  readonly folder: string;
  readonly program: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  open(): Store;
}

/** Without it, a process would spend most of its life compiling modules. */
const COMPILED = { NODE_COMPILE_CACHE: join(folder, "modules") };

let places = 0;

function newFolder(): string {
  places += 1;
  return mkdtempSync(join(folder, `${places}-`));
}

function placeOfFile(): Place {
  const folder = newFolder();
  return {
    folder,
    program: ["--folder", folder, "--slowly"],
    env: COMPILED,
    open: () => sqliteStore(join(folder, "runs.db")),
  };
}

/** Returns a place with its own schema, since a kill may occur while it is created. */
function placeOfSchema(): Place {
  const folder = newFolder();
  const schema = `espalier_crash_${process.pid}_${places}`;
  schemas.push(schema);
  const url = server?.url ?? "";
  return {
    folder,
    program: ["--folder", folder, "--slowly", "--schema", schema],
    env: { ...COMPILED, ESPALIER_TEST_POSTGRES_URL: url },
    open: () => postgresStore({ connectionString: url, schema }),
  };
}

/** The state of the store when a process is gone. */
interface Remains {
  /** `undefined` if its process died before its first record. */
  readonly runId: RunId | undefined;
  readonly records: readonly JournalRecord[];
}

/** Reads with its own store, so that the next process opens one that no other has open. */
async function remainsIn(place: Place): Promise<Remains> {
  const store = place.open();
  try {
    const run = (await store.list()).find(({ recordCount }) => recordCount > 0);
    if (run === undefined) return { runId: undefined, records: [] };
    return { runId: run.runId, records: await storedRecords(store, run.runId) };
  } finally {
    await store.close();
  }
}

/** A run that has ended, as persisted. */
interface Outcome {
  readonly result: RunResult;
  readonly events: readonly EspalierEvent[];
}

/** Checks everything that is persisted of a run, however often its processes died. */
async function outcomeIn(place: Place): Promise<Outcome> {
  const { runId = expect.fail("there is no run") } = await remainsIn(place);
  const store = place.open();
  try {
    const result = await new Orchestrator({ store }).getResult(runId);
    const events = await storedEvents(store, runId);
    const { run, status } = await foldJournal(runId, store.read(runId));
    expect([status, (await store.find(runId))?.status]).toEqual(["ended", "ended"]);
    checkRecordedOnce(events);
    checkRun(result, events);
    checkKept(result, run);
    checkBudget(result);
    checkCalls(place, events);
    const recording = await loadRecording(store, runId);
    await replaysToTheSame(world({ isPaying: true }), { recording, result });
    return { result, events };
  } finally {
    await store.close();
  }
}

/** B1. It used all of its budget and was not stopped by it: each call was charged exactly once. */
function checkBudget({ accounts: [root] }: RunResult): void {
  expect(root?.limits).toEqual(EXACT_BUDGET);
  expect(root?.total).toMatchObject(EXACT_BUDGET);
  expect(root?.excess).toMatchObject({ steps: 0, toolCalls: 0 });
}

/** D2: a payment with a persisted result was made once; one with an unknown result at most once. */
function checkCalls({ folder }: Place, events: readonly EspalierEvent[]): void {
  const paid = linesOf(folder, "pay.txt");
  expect(new Set(paid).size, "D2: no payment is repeated").toBe(paid.length);
  const known = endsOf(events, "pay").filter(isKnown).map(idempotencyKeyOf);
  const unknown = new Set(unknownPaymentsIn(events).map(idempotencyKeyOf));
  expect(paid.filter((key) => !unknown.has(key)).toSorted()).toEqual(known.toSorted());
  expect(known.length + unknown.size, "each is reported").toBe(PAYMENTS);
  const measured = endsOf(events, "measure");
  expect(measured.every(isKnown)).toBe(true);
  expect(new Set(linesOf(folder, "measure.txt"))).toEqual(new Set(measured.map(idempotencyKeyOf)));
}

type ToolEnd = EspalierEvent<"tool.ended" | "tool.rejected">;

/** Returns the ends of a tool's calls. */
function endsOf(events: readonly EspalierEvent[], tool: string): readonly ToolEnd[] {
  return events.flatMap((event) =>
    (event.type === "tool.ended" || event.type === "tool.rejected") && event.toolName === tool
      ? [event]
      : [],
  );
}

function isKnown({ outcome }: ToolEnd): boolean {
  return outcome === "succeeded";
}

function unknownPaymentsIn(events: readonly EspalierEvent[]): readonly ToolEnd[] {
  return endsOf(events, "pay").filter(({ error }) => error?.code === "interrupted");
}

const PAYMENTS = 24;

/** Returns the events of the run except the ends of its payments. */
function linesBesidesPayments(events: readonly EspalierEvent[]): readonly string[] {
  return recordedLines(
    events.filter((event) => event.type !== "tool.ended" || event.toolName !== "pay"),
  );
}

interface Tally {
  readonly store: string;
  /** The duration of the last undisturbed run: the machine has other work, too. */
  undisturbedMs: number;
  runs: number;
  /**
   * Processes that were killed before they persisted anything, during the run, and after its end
   * was persisted.
   */
  readonly killed: { before: number; amid: number; after: number };
  /** Processes that ended before they could be killed. */
  survived: number;
  recoveries: number;
  lostCalls: number;
  repeatedMeasurements: number;
  unknownPayments: number;
}

/**
 * Plays runs over one store to their ends, killing their processes, until the given number was
 * killed.
 */
class Killer {
  readonly #random: () => number;
  readonly #newPlace: () => Place;
  readonly #plain: Outcome;
  readonly #tally: Tally;

  constructor(newPlace: () => Place, plain: Outcome, tally: Tally) {
    this.#random = randomFrom(SEED);
    this.#newPlace = newPlace;
    this.#plain = plain;
    this.#tally = tally;
  }

  async kill(): Promise<void> {
    while (this.#kills < KILLS) {
      const killedAfterMs: number[] = [];
      await named({ seed: SEED, killedAfterMs }, () => this.#story(killedAfterMs));
    }
  }

  get #kills(): number {
    const { before, amid, after } = this.#tally.killed;
    return before + amid + after;
  }

  /** Some delays exceed the run: a process that survives shows how long a run takes now. */
  #delayMs(): number {
    return this.#random() * 1.25 * this.#tally.undisturbedMs;
  }

  async #story(delays: number[]): Promise<void> {
    const place = this.#newPlace();
    let remains: Remains = { runId: undefined, records: [] };
    let life: Life;
    do {
      const before = remains;
      const killedAfterMs = this.#kills < KILLS ? this.#delayMs() : undefined;
      if (killedAfterMs !== undefined) delays.push(killedAfterMs);
      const made = linesOf(place.folder, "measure.txt").length;
      const { runId, records } = before;
      const program = runId === undefined ? place.program : [...place.program, "--run", runId];
      life = await live({ program, env: place.env, killedAfterMs });
      const settled = settledCalls(records);
      const again = linesOf(place.folder, "measure.txt").slice(made);
      expect(
        again.filter((key) => settled.has(key)),
        "D2: done before, and done again",
      ).toEqual([]);
      expect(new Set(again).size, "no process makes a call twice").toBe(again.length);
      remains = await remainsIn(place);
      this.#count(life, before, remains);
      const kept = remains.records.slice(0, records.length);
      if (runId === remains.runId) expect(kept, "D1: what was kept stays").toEqual(records);
    } while (life.end === "killed");
    const outcome = await outcomeIn(place);
    if (life.end === "ended")
      expect(JSON.parse(JSON.stringify(outcome.result)), "what the process said is kept").toEqual(
        resultIn(place.folder),
      );
    this.#compare(place, outcome);
  }

  #compare({ folder }: Place, { result, events }: Outcome): void {
    const lostCalls = lostCallsIn(events);
    const { result: plainResult, events: plainEvents } = this.#plain;
    expect(gist(result, lostCalls)).toEqual(gist(plainResult, 0));
    expect(linesBesidesPayments(events)).toEqual(linesBesidesPayments(plainEvents));
    const measured = linesOf(folder, "measure.txt");
    const tally = this.#tally;
    tally.runs += 1;
    tally.lostCalls += lostCalls;
    tally.repeatedMeasurements += measured.length - new Set(measured).size;
    tally.unknownPayments += unknownPaymentsIn(events).length;
  }

  #count({ end, lastedMs }: Life, before: Remains, { records }: Remains): void {
    if (before.runId === undefined && end === "ended") this.#tally.undisturbedMs = lastedMs;
    if (before.runId !== undefined && end !== "run_ended") this.#tally.recoveries += 1;
    if (end !== "killed") {
      if (this.#kills < KILLS) this.#tally.survived += 1;
      return;
    }
    const isOver = eventsIn(records).at(-1)?.type === "run.ended";
    const hasKept = records.length > before.records.length;
    this.#tally.killed[isOver ? "after" : hasKept ? "amid" : "before"] += 1;
  }
}

describe.each([
  { store: "SQLite", newPlace: placeOfFile, isThere: true },
  { store: "PostgreSQL", newPlace: placeOfSchema, isThere: server !== undefined },
])("a tree of thirty agents over $store", ({ store, newPlace, isThere }) => {
  test.skipIf(!isThere)(
    "ends like an undisturbed run although it is killed at any time, also during its recovery",
    async () => {
      const place = newPlace();
      const life = await live(place);
      expect(life.end).toBe("ended");
      const plain = await outcomeIn(place);
      const tally: Tally = {
        store,
        undisturbedMs: life.lastedMs,
        runs: 0,
        killed: { before: 0, amid: 0, after: 0 },
        survived: 0,
        recoveries: 0,
        lostCalls: 0,
        repeatedMeasurements: 0,
        unknownPayments: 0,
      };
      tallies.push(tally);
      await new Killer(newPlace, plain, tally).kill();
    },
    30_000 + KILLS * MS_PER_KILL,
  );
});
