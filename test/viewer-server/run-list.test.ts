// Goal: the lists of runs and the inbox show runs of every kind by status, words and page, and a
// viewer caches a bounded number of runs.
// Method: runs of each kind in one store.

import { expect } from "vitest";

import { engineWorld, latch, runId, solo, doings, turns } from "../support/engine/engine-world.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { forwarding } from "../support/journal/forwarding-store.ts";
import type { RunRow } from "../../src/read-model/viewer-data.ts";
import { askApi, openFeed, placeOf, type Place } from "../support/viewer-server/asking.ts";
import { asker, opened, survey, viewerWorld } from "../support/viewer-server/viewer-world.ts";
import { crowd, writtenRun } from "../support/viewer-server/written-runs.ts";

interface List {
  readonly runs: readonly RunRow[];
  readonly next?: string;
  readonly isCut?: true;
  readonly forgotten?: number;
}

async function listAt(place: Place, query = ""): Promise<List> {
  const { body } = await askApi(place, `runs${query}`);
  if (isList(body)) return body;
  throw new Error("There is no list.");
}

function isList(value: unknown): value is List {
  return typeof value === "object" && value !== null && "runs" in value;
}

function idsOf({ runs }: List): readonly string[] {
  return runs.map(({ runId }) => runId);
}

proves(["V81"], "lists a run of every status", async () => {
  const { place, process, store, clock, pushed } = await viewerWorld();
  const role = survey(1);
  const buyer = asker(["pear"]);
  const done = doings();
  const gate = latch();
  const worker = solo(done, { hold: () => gate.opened });
  const orchestrator = process({ roles: [role, buyer, worker] });
  await orchestrator.start(role, "Survey.", { runId: "completed" }).result;
  await orchestrator.start(role, "Survey.", { runId: "stopped", budget: { steps: 1 } }).result;
  await orchestrator.start(buyer, "Buy.", { runId: "input_required" }).result;
  const resting = orchestrator.start(worker, "Go.", { runId: "paused" });
  resting.requestPause();
  await pushed(resting.result);
  await store.create(runId("waiting"), "solo: Wait.", {
    token: "w",
    hostname: "elsewhere",
    processId: 1,
  });
  await store.release({ runId: runId("waiting"), token: "w", epoch: 1 }, "open");
  await store.create(runId("lost"), "solo: Lost.", {
    token: "l",
    hostname: "elsewhere",
    processId: 1,
  });
  clock.advance(31_000);
  const working = orchestrator.start(worker, "Go.", { runId: "working" });
  while (done.calls.size === 0) await turns(5);
  const { runs } = await listAt(place);
  for (const row of runs) expect(row.status).toBe(row.runId);
  expect(runs.map(({ runId }) => runId)).toEqual([
    "working",
    "lost",
    "waiting",
    "paused",
    "input_required",
    "stopped",
    "completed",
  ]);
  expect(runs.find(({ status }) => status === "input_required")).toMatchObject({
    questions: [{ toolName: "pay" }],
    reason: { code: "input_required" },
    agentCount: 1,
  });
  expect(runs.find(({ status }) => status === "stopped")).toMatchObject({
    reason: { code: "step_limit" },
    owner: null,
  });
  expect(runs.find(({ status }) => status === "working")).toMatchObject({
    owner: { isThisProcess: true },
    running: 1,
    agentCount: 1,
  });
  for (const row of runs) {
    const { status, body } = await askApi(place, `runs/${row.runId}`);
    expect([status, body], row.runId).toMatchObject([200, { run: { status: row.status } }]);
  }
  for (const status of ["completed", "input_required,paused", "lost"])
    expect(idsOf(await listAt(place, `?status=${status}`)).toSorted()).toEqual(
      status.split(",").toSorted(),
    );
  expect((await askApi(place, "questions")).body).toMatchObject({
    questions: [{ runId: "input_required", role: "asker", task: "Buy." }],
  });
  gate.open();
  await pushed(working.result);
});

proves(["V81"], "pages ended runs and searches titles and ids", async () => {
  const { place, process, clock } = await viewerWorld();
  const role = survey(1);
  const orchestrator = process({ roles: [role] });
  for (let nth = 1; nth <= 7; nth += 1) {
    clock.advance(1);
    await orchestrator.start(role, nth % 2 === 0 ? "Survey even." : "Survey odd.", {
      runId: `run-${nth}`,
    }).result;
  }
  const first = await listAt(place, "?limit=3");
  expect(first).toMatchObject({ next: "run-5" });
  expect(idsOf(first)).toEqual(["run-7", "run-6", "run-5"]);
  const second = await listAt(place, `?limit=3&before=${first.next}`);
  expect(idsOf(second)).toEqual(["run-4", "run-3", "run-2"]);
  const third = await listAt(place, `?limit=3&before=${second.next}`);
  expect([idsOf(third), third.next]).toEqual([["run-1"], undefined]);
  expect(idsOf(await listAt(place, "?q=EVEN"))).toEqual(["run-6", "run-4", "run-2"]);
  const even = await listAt(place, "?q=even&limit=2");
  expect([idsOf(even), even.next]).toEqual([["run-6", "run-4"], "run-4"]);
  expect(idsOf(await listAt(place, "?q=even&limit=2&before=run-4"))).toEqual(["run-2"]);
  expect(idsOf(await listAt(place, "?q=run-3"))).toEqual(["run-3"]);
  expect(await listAt(place, "?q=nothing")).toEqual({ runs: [] });
  for (const before of ["nobody", "%00", "a%00b"])
    expect((await askApi(place, `runs?before=${before}`)).status, before).toBe(404);
  expect(idsOf(await listAt(place, "?before=&limit=1"))).toEqual(["run-7"]);
});

proves(
  ["V81", "V82"],
  "lists a run that is slow to read without its details first, and with them later",
  async () => {
    const { clock, store, process } = engineWorld();
    const role = survey(1);
    await process({ roles: [role] }).start(role, "Survey.", { runId: "slow" }).result;
    const gate = latch();
    async function* slowly(...asked: Parameters<typeof store.read>) {
      await gate.opened;
      yield* store.read(...asked);
    }
    const place = placeOf(await opened({ store: forwarding(store, { read: slowly }), clock }));
    const early = listAt(place);
    while (clock.pendingTimers === 0) await turns(1);
    clock.advance(500);
    expect((await early).runs).toEqual([
      expect.objectContaining({ runId: "slow", status: "ended", title: "lead: Survey." }),
    ]);
    expect((await early).runs[0]?.agentCount).toBeUndefined();
    gate.open();
    expect((await listAt(place)).runs).toMatchObject([{ status: "completed", agentCount: 2 }]);
  },
);

proves(
  ["V82"],
  "caches eight runs and those that are watched, and reads others again",
  async () => {
    const { clock, store, process } = engineWorld();
    const role = survey(1);
    const ids = Array.from({ length: 10 }, (_, nth) => runId(`run-${nth}`));
    for (const id of ids)
      await process({ roles: [role] }).start(role, "Survey.", { runId: id }).result;
    // Its feed does not end.
    const watched = runId("watched");
    const run = await writtenRun(store, watched);
    await run.append(crowd(watched, 1, "Go.").begin);
    const reads: string[] = [];
    const counting = forwarding(store, {
      read: (...asked: Parameters<typeof store.read>) => (
        reads.push(asked[0]),
        store.read(...asked)
      ),
    });
    const place = placeOf(await opened({ store: counting, clock }));
    const feed = await openFeed(place, watched);
    afterwards(() => feed.close());
    await feed.next();
    for (const id of ids) await askApi(place, `runs/${id}`);
    expect(reads).toEqual([watched, ...ids]);
    await askApi(place, `runs/${watched}`);
    for (const id of ids.slice(-7)) await askApi(place, `runs/${id}`);
    expect(reads).toHaveLength(11);
    await askApi(place, `runs/${ids[2]}`);
    expect(reads.at(-1)).toBe(ids[2]);
    expect(reads).toHaveLength(12);
  },
);

proves(["V82"], "refuses to watch nine runs at once", async () => {
  const { store, clock, place } = await viewerWorld();
  const ids = Array.from({ length: 9 }, (_, nth) => runId(`run-${nth}`));
  for (const id of ids) {
    const run = await writtenRun(store, id);
    await run.append(crowd(id, 1, "Go.").begin);
  }
  for (const id of ids.slice(0, 8))
    expect(await (await openFeed(place, id)).next()).toMatchObject({ entry: { type: "patch" } });
  expect(await askApi(place, `runs/${ids[8]}/feed`)).toMatchObject({
    status: 503,
    body: { code: "too_many_feeds" },
  });
  expect(await (await openFeed(place, ids[0] ?? runId("none"))).next()).toMatchObject({
    entry: { type: "patch" },
  });
  expect((await askApi(place, `runs/${ids[8]}`)).status).toBe(200);
  clock.advance(0);
});

proves(["V82"], "yields to other work while it folds a long journal", async () => {
  const { store, clock, place } = await viewerWorld();
  const id = runId("long");
  const run = await writtenRun(store, id);
  const { begin, touchAll } = crowd(id, 200, "Go.");
  await run.append(begin);
  for (let nth = 0; nth < 50; nth += 1) await run.append(touchAll());
  let turnsTaken = 0;
  const over = { isSo: false };
  const counting = (async () => {
    while (!over.isSo) {
      await turns(1);
      turnsTaken += 1;
    }
  })();
  const { body } = await askApi(place, `runs/${id}`);
  over.isSo = true;
  await counting;
  expect(body).toMatchObject({ record: 203 + 50 * 201 });
  // 200 records per turn.
  expect(turnsTaken).toBeGreaterThanOrEqual(50);
  clock.advance(0);
});

proves(
  ["V116"],
  "evicts the earliest ended runs of the viewer's own store and reports it in the list",
  async () => {
    const view = await opened({});
    const place = placeOf(view);
    const records = ["x".repeat(60_000_000)]; // All records share one string.
    for (const nth of [1, 2, 3, 4, 5, 6]) {
      const owner = { token: "t", hostname: "h", processId: 1 };
      const held = await view.store.create(runId(`run_${nth}`), "lead: Go.", owner);
      await view.store.append(held, { firstNumber: 1, records });
      await view.store.release(held, nth === 1 ? "paused" : "ended");
    }
    const list = await listAt(place);
    expect([idsOf(list), list.forgotten]).toEqual([["run_1", "run_6", "run_5", "run_4"], 2]);
  },
);

proves(
  ["V114"],
  "reports in the list and the inbox that there are more active runs than listed",
  async () => {
    const { place, store } = await viewerWorld();
    const make = async (nth: number): Promise<void> => {
      const owner = { token: "t", hostname: "h", processId: 1 };
      await store.create(runId(`run_${nth}`), "lead: Go.", owner);
    };
    for (let nth = 1; nth <= 500; nth += 1) await make(nth);
    const whole = await listAt(place);
    expect([whole.runs.length, whole.isCut]).toEqual([500, undefined]);
    expect((await askApi(place, "questions")).body).toEqual({ questions: [] });
    await make(501);
    const cut = await listAt(place);
    expect([cut.runs.length, cut.isCut]).toEqual([500, true]);
    expect((await askApi(place, "questions")).body).toEqual({ questions: [], isCut: true });
  },
);
