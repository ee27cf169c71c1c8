// `npm run bench:engines`: what it costs to have runs led by an engine, and how soon another worker continues. Real servers, PostgreSQL and
// Restate, and two workers in processes of their own, all on this machine. Prints a table for docs/scale-out.md; a limit stands beside what
// has one, and a figure above its limit ends the program with 1.

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { setTimeout } from "node:timers/promises";

import { approve, type EspalierEvent } from "espalier";

import { cleanUp } from "../test/harness/afterwards.ts";
import { findServers, SurveyPlace, type EngineName } from "../test/support/survey-place.ts";
import { surveyTask, surveyText } from "../test/support/surveys.ts";
import { markdownTable } from "./figures/markdown-table.ts";
import { median } from "./figures/median.ts";

/** Effects as SCALEOUT's prototype had them. Of 30 runs each worker has some: what one connection has no room for, the other one gets. */
const PACE = { modelMs: 150, toolMs: 75, maxRuns: 20 };
const ROUNDS = 3;

interface Row {
  readonly what: string;
  readonly unit: "ms" | "s";
  /** By engine; left out: none. */
  readonly limits: Partial<Record<EngineName, number>>;
  /** Seconds or milliseconds; undefined: it cannot be measured separately. */
  readonly measure: (place: SurveyPlace, round: number) => Promise<number | undefined>;
}

const rows: readonly Row[] = [
  {
    what: "30 runs of 25 agents",
    unit: "s",
    limits: {},
    measure: async (place, round) => {
      const beganMs = performance.now();
      await completed(place, await ordered(place, `all-${round}`, 30));
      return (performance.now() - beganMs) / 1_000;
    },
  },
  {
    what: "takeover of the last of 10 runs after `kill -9` of a worker",
    unit: "ms",
    limits: { restate: 1_000, "pg-boss": 35_000 },
    measure: async (place, round) => {
      await completed(place, await ordered(place, `warm-${round}`, 30)); // One of them may have been added just now.
      const runs = await ordered(place, `kill-${round}`, 10);
      await place.until(
        (effects) => effects.filter(({ key }) => key.includes(`kill-${round}`)).length > 300,
      );
      const busiest = await place.busiest();
      const killedMs = Date.now();
      await place.workers[busiest]?.kill();
      await completed(place, runs);
      await place.add(busiest);
      const resumed = await Promise.all(runs.map(({ runId }) => firstResumed(place, runId)));
      const moved = resumed.flatMap((atMs) => (atMs === undefined ? [] : [atMs - killedMs]));
      return moved.length === 0 ? undefined : Math.max(...moved);
    },
  },
  {
    what: "cancelling a run of 25 agents",
    unit: "ms",
    limits: { restate: 500, "pg-boss": 500 },
    measure: async (place, round) => {
      const [run] = await ordered(place, `cancel-${round}`, 1);
      if (run === undefined) return undefined;
      await place.until((effects) =>
        effects.some(({ key }) => key.startsWith(`model leaf cancel-${round}`)),
      );
      const remote = place.client.attach(run.runId);
      const requestedMs = performance.now();
      await remote.cancel();
      await remote.getResult();
      return performance.now() - requestedMs;
    },
  },
  {
    what: "cancelling a waiting run",
    unit: "ms",
    limits: { restate: 500, "pg-boss": 500 },
    measure: async (place, round) => {
      const remote = await asked(place, `waits-${round}`);
      await remote.getResult();
      const requestedMs = performance.now();
      await remote.cancel();
      await remote.getResult();
      return performance.now() - requestedMs;
    },
  },
  {
    what: "from answer to result, with all workers replaced in between",
    unit: "ms",
    limits: { restate: 1_000, "pg-boss": 1_000 },
    measure: async (place, round) => {
      const remote = await asked(place, `answer-${round}`);
      const [question] = (await remote.getResult()).questions;
      await setTimeout(500); // Then its engine knows, too, that it waits: no worker leads it any more.
      for (const worker of place.workers) await worker.kill();
      for (const index of place.workers.keys()) await place.add(index);
      const answerMs = performance.now();
      if (question !== undefined) await remote.answer([approve(question)]);
      await remote.getResult();
      // A model and a tool are asked in between.
      return performance.now() - answerMs;
    },
  },
  {
    what: "CPU of the engine's server per run",
    unit: "ms",
    limits: { restate: 5 },
    measure: async (place, round) => {
      const pid = place.servers.restate?.pid;
      if (pid === undefined) return undefined; // It is the database itself.
      const idleMs = await cpuOver(pid, () => setTimeout(2_000));
      let lastedMs = 0;
      const busyMs = await cpuOver(pid, async () => {
        const beganMs = performance.now();
        await completed(place, await ordered(place, `cpu-${round}`, 60));
        lastedMs = performance.now() - beganMs;
      });
      return (busyMs - (idleMs * lastedMs) / 2_000) / 60;
    },
  },
];

interface Ordered {
  readonly runId: string;
  readonly task: string;
}

async function ordered(
  place: SurveyPlace,
  name: string,
  count: number,
): Promise<readonly Ordered[]> {
  return await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const runId = `${name}-${index}`;
      const task = surveyTask(runId);
      await place.client.start("lead", task, { runId });
      return { runId, task };
    }),
  );
}

async function asked(place: SurveyPlace, name: string) {
  const task = surveyTask(name, { sections: 9, leaves: 0, asks: true });
  return await place.client.start("lead", task, { runId: name });
}

/** Throws if one of them did not come to what it had to. */
async function completed(place: SurveyPlace, runs: readonly Ordered[]): Promise<void> {
  for (const { runId, task } of runs) {
    const { text } = await place.client.attach(runId).getResult();
    if (text !== surveyText(task)) throw new Error(`${runId} came to ${text}`);
  }
}

/** When another process continued a run; undefined: none had to. */
async function firstResumed(place: SurveyPlace, runId: string): Promise<number | undefined> {
  const isResumed = ({ type }: EspalierEvent): boolean => type === "run.resumed";
  for await (const event of place.client.attach(runId).events())
    if (isResumed(event)) return event.atMs;
  return undefined;
}

/** Milliseconds of CPU that a process used meanwhile. */
async function cpuOver(pid: number, work: () => Promise<unknown>): Promise<number> {
  const beforeMs = cpuMs(pid);
  await work();
  return cpuMs(pid) - beforeMs;
}

function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13)
    .map(Number);
  return (user + system) * 10; // In hundredths of a second.
}

async function figuresOf(name: EngineName): Promise<ReadonlyMap<Row, number | undefined>> {
  const servers = await findServers(name);
  const figures = new Map<Row, number | undefined>();
  if (typeof servers === "string") {
    console.warn(`${name} is left out: ${servers}.`);
    return figures;
  }
  const place = await SurveyPlace.open(servers, PACE);
  await completed(place, await ordered(place, "warm", 5));
  for (const row of rows) {
    const measured: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const figure = await row.measure(place, round);
      if (figure !== undefined) measured.push(figure);
    }
    figures.set(row, measured.length === 0 ? undefined : median(measured));
    console.warn(
      `${name}: ${row.what}: ${measured.map((one) => one.toFixed(1)).join(", ")} ${row.unit}`,
    );
  }
  await cleanUp();
  await servers.restate?.close();
  await servers.postgres.close();
  return figures;
}

const names = ["restate", "pg-boss"] as const;
const byEngine = new Map<EngineName, ReadonlyMap<Row, number | undefined>>();
for (const name of names) byEngine.set(name, await figuresOf(name));

let isWithin = true;
const cells = rows.map((row) => {
  const shown = names.map((name) => {
    const figure = byEngine.get(name)?.get(row);
    const limit = row.limits[name];
    if (figure === undefined) return "";
    if (limit !== undefined && figure > limit) isWithin = false;
    const digits = row.unit === "s" || figure < 10 ? 1 : 0;
    const bound = limit === undefined ? "" : ` (at most ${limit.toLocaleString("en")})`;
    return `${figure.toFixed(digits)} ${row.unit}${bound}`;
  });
  return [row.what, ...shown];
});
const head = ["median of 3", "Restate", "pg-boss"];
console.log(
  `Node ${process.version}, ${availableParallelism()} cores, ${new Date().toISOString().slice(0, 10)}.\n`,
);
console.log(markdownTable([head, ...cells]));
process.exitCode = isWithin ? 0 : 1;
