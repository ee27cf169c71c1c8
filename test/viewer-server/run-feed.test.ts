// Goal: a feed sends exactly what is new since a record, whichever process serves it and whichever
// owns the run.
// Method: feeds over real sockets.

import { createServer, get } from "node:http";

import { expect } from "vitest";

import type { RunSnapshot } from "../../src/read-model/viewer-data.ts";
import { engineWorld, latch, runId, turns } from "../support/engine/engine-world.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { dyingStore } from "../support/journal/dying-store.ts";
import { forwarding } from "../support/journal/forwarding-store.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import {
  appliedOf,
  appliedTo,
  NOTHING_YET,
  type AppliedRun,
} from "../support/viewer-server/applied-run.ts";
import { storedEvents } from "../support/journal/stored-events.ts";
import { crowd, linesOf, writtenRun } from "../support/viewer-server/written-runs.ts";
import {
  askApi,
  openFeed,
  placeOf,
  type Feed,
  type Place,
} from "../support/viewer-server/asking.ts";
import { asker, opened, survey, viewerWorld } from "../support/viewer-server/viewer-world.ts";

const ID = runId("survey");

async function snapshotAt(place: Place): Promise<RunSnapshot> {
  const { body } = await askApi(place, `runs/${ID}`);
  if (isSnapshot(body)) return body;
  throw new Error("There is no snapshot.");
}

function isSnapshot(value: unknown): value is RunSnapshot {
  return typeof value === "object" && value !== null && "agents" in value;
}

/** Advances the clock until the work is done and lets sockets run in between. */
async function during<T>(clock: ManualClock, work: Promise<T>, stepMs = 50): Promise<T> {
  const over = { isSo: false };
  const note = (): void => void (over.isSo = true);
  work.then(note, note);
  while (!over.isSo) {
    await turns(20);
    clock.advance(stepMs);
  }
  return await work;
}

/**
 * Reads a feed to its end, from another server after each entry; returns every state of the run
 * that was shown.
 */
async function followed(
  places: readonly Place[],
  headers: (id: number) => Parameters<typeof openFeed>[2],
): Promise<readonly AppliedRun[]> {
  const states: AppliedRun[] = [NOTHING_YET];
  for (let nth = 0; ; nth += 1) {
    const place = places[nth % places.length];
    const last = states.at(-1);
    if (place === undefined || last === undefined) throw new Error("There is no place.");
    const feed = await openFeed(place, ID, headers(last.record));
    const read = await feed.next();
    feed.close();
    if (read?.entry.type === "end") return states;
    if (read?.entry.type !== "patch") throw new Error(`Got ${read?.entry.type}.`);
    expect(read.id).toBe(read.entry.patch.record);
    states.push(appliedTo(last, read.entry.patch));
  }
}

proves(
  ["V73"],
  "serves a reader that reconnects to another server after each entry, while the owner crashes",
  async () => {
    const world = engineWorld();
    const { clock, store, process } = world;
    const places = [await opened({ store, clock }), await opened({ store, clock })].map(placeOf);
    const dying = dyingStore(store, { at: 6, how: "after" });
    const role = survey(3);
    // The third append is refused: earlier records are not repeated.
    const limits = { maxBreadthPerParent: 2 };
    const first = process({ roles: [role], limits, store: dying.store });
    first.start(role, "Survey.", { runId: ID }).result.catch(() => undefined);
    while ((await store.find(ID)) === undefined) await turns(1);
    const byHeader = followed(places, (id) => ({ headers: { "last-event-id": String(id) } }));
    const byQuery = followed(places.toReversed(), (id) => ({ after: id }));
    const recovered = (async () => {
      while (!dying.isDead) await turns(5);
      for (;;) {
        await turns(5);
        const found = await store.find(ID);
        if (found !== undefined && clock.nowMs() - (found.heartbeatAtMs ?? 0) > 31_000) break;
      }
      return await (
        await process({ roles: [role] }).resume(ID)
      ).result;
    })();
    const [headed, queried, result] = await during(
      clock,
      Promise.all([byHeader, byQuery, recovered]),
    );
    expect(result.status).toBe("completed");
    for (const states of [headed, queried]) {
      expect(states.at(-1)?.refusals).toHaveLength(1);
      const records = states.map(({ record }) => record);
      expect(records).toEqual(records.toSorted((one, other) => one - other));
      expect(states.length).toBeGreaterThan(3);
      for (const place of places) expect(states.at(-1)).toEqual(appliedOf(await snapshotAt(place)));
    }
  },
);

proves(["V73"], "sends exactly the records after any given record", async () => {
  const { clock, store, process, pushed } = engineWorld();
  const role = asker(["pear", "plum"]);
  const paused = await process({ roles: [role] }).start(role, "Buy.", { runId: ID }).result;
  const answers = (paused.questions ?? []).map(({ questionId, argumentsHash }) => ({
    type: "denied" as const,
    questionId,
    argumentsHash,
    reason: "No.",
  }));
  await pushed((await process({ roles: [role] }).resume(ID, { answers })).result);
  const whole = placeOf(await opened({ store, clock }));
  const last = await snapshotAt(whole);
  const count = (await store.find(ID))?.recordCount ?? 0;
  expect(last.record).toBe(count);
  for (let record = 0; record <= count; record += 1) {
    const cut = forwarding(store, {
      find: async (id: typeof ID) => {
        const found = await store.find(id);
        return found && { ...found, recordCount: record };
      },
      read: (id: typeof ID, from = 1) => store.read(id, from, Math.max(0, record - from + 1)),
    });
    const before = appliedOf(await snapshotAt(placeOf(await opened({ store: cut, clock }))));
    expect(before.record).toBe(record);
    const feed = await openFeed(whole, ID, { after: record });
    const read = await feed.next();
    if (record === count) expect(read?.entry).toEqual({ type: "end" });
    else if (read?.entry.type !== "patch") throw new Error("There is something new.");
    else expect(appliedTo(before, read.entry.patch)).toEqual(appliedOf(last));
    feed.close();
  }
});

proves(
  ["V73"],
  "refuses a feed of an unknown run, and restarts one beyond the end of the journal",
  async () => {
    const { place, process } = await viewerWorld();
    const role = survey(1);
    await process({ roles: [role] }).start(role, "Survey.", { runId: ID }).result;
    const feed = await openFeed(place, ID, { after: 1_000 });
    expect(await feed.next()).toMatchObject({ entry: { type: "reset" } });
    expect(await feed.next()).toBeUndefined();
    expect(await askApi(place, "runs/nobody/feed")).toMatchObject({
      status: 404,
      body: { code: "unknown_run" },
    });
    const headers = { "last-event-id": "x" };
    expect(await askApi(place, `runs/${ID}/feed`, { headers })).toMatchObject({ status: 400 });
  },
);

/** Collects the output of a feed as it arrives. */
function saidBy({ response }: Feed): {
  readonly text: () => string;
  /** Resolves once this many entries and comments have arrived. */
  readonly until: (count: number) => Promise<void>;
} {
  let text = "";
  let hear: () => void = () => undefined;
  response.setEncoding("utf8").on("data", (part: string) => {
    text += part;
    hear();
  });
  return {
    text: () => text,
    until: (count) =>
      new Promise((resolve) => {
        hear = () => text.split("\n\n").length > count && resolve();
        hear();
      }),
  };
}

function idsIn(text: string): readonly number[] {
  return [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
}

async function recorded(role = survey(2)): Promise<readonly string[]> {
  const { store, process } = engineWorld();
  await process({ roles: [role] }).start(role, "Survey.", { runId: ID }).result;
  return await linesOf(store, ID);
}

proves(
  ["V73"],
  "sends an entry every 100 ms at most, a comment after 15 idle seconds, and the end",
  async () => {
    const lines = await recorded();
    const { clock, store, place } = await viewerWorld();
    const run = await writtenRun(store, ID);
    await run.append(lines.slice(0, 2));
    const feed = await openFeed(place, ID);
    const said = saidBy(feed);
    await said.until(1);
    for (const line of lines.slice(2, 8)) {
      await run.append([line]);
      clock.advance(16);
      await turns(20);
    }
    clock.advance(4);
    await said.until(2);
    expect(idsIn(said.text())).toEqual([2, 8]);
    clock.advance(14_999);
    await turns(20);
    expect(said.text()).not.toContain(": still here");
    clock.advance(1);
    await said.until(3);
    await run.append(lines.slice(8));
    await run.end();
    clock.advance(100);
    await said.until(5);
    expect(idsIn(said.text())).toEqual([2, 8, lines.length, lines.length]);
  },
);

proves(
  ["V73", "V83"],
  "reads local changes immediately, and polls nothing without a feed",
  async () => {
    const lines = await recorded();
    const { clock, store } = engineWorld();
    const looks = { finds: 0, reads: 0 };
    const counting = forwarding(store, {
      find: (id: typeof ID) => ((looks.finds += 1), store.find(id)),
      read: (...asked: Parameters<typeof store.read>) => ((looks.reads += 1), store.read(...asked)),
    });
    const view = await opened({ store: counting, clock });
    const run = await writtenRun(store, ID);
    await run.append(lines.slice(0, 2));
    const [event] = await storedEvents(store, ID);
    if (event === undefined) throw new Error("It has begun.");
    view.sink.emit(event);
    clock.advance(60_000);
    await turns(20);
    expect([looks, clock.pendingTimers]).toEqual([{ finds: 0, reads: 0 }, 0]);
    const feed = await openFeed(placeOf(view), ID);
    const said = saidBy(feed);
    await said.until(1);
    await run.append(lines.slice(2, 5));
    view.sink.emit(event); // Its reader was notified just now.
    clock.advance(99);
    await turns(20);
    expect(idsIn(said.text())).toEqual([2]);
    clock.advance(1);
    await said.until(2);
    clock.advance(100);
    while (clock.pendingTimers < 2) await turns(1);
    clock.advance(10);
    await run.append(lines.slice(5, 7));
    view.sink.emit(event);
    clock.advance(20);
    await said.until(3);
    expect(idsIn(said.text())).toEqual([2, 5, 7]);
    feed.close();
    await new Promise((resolve) => feed.response.once("close", resolve));
    while (clock.pendingTimers > 0) await turns(1);
    const { finds } = looks;
    clock.advance(60_000);
    await turns(20);
    expect(looks.finds).toBe(finds);
  },
);

proves(
  ["V74"],
  "disconnects a slow reader as lagging without affecting the run or other readers",
  async () => {
    const { clock, store, place } = await viewerWorld();
    const run = await writtenRun(store, ID);
    const { begin, touchAll, end } = crowd(ID, 500, "漢".repeat(200));
    await run.append(begin);
    const slow = await openFeed(place, ID);
    slow.response.pause();
    const quick = await openFeed(place, ID);
    const first = await quick.next();
    if (first?.entry.type !== "patch") throw new Error("It has a run.");
    let state = appliedTo(NOTHING_YET, first.entry.patch);
    let bytes = 0;
    while (bytes < 20_000_000) {
      await run.append(touchAll());
      clock.advance(100);
      const read = await quick.next();
      if (read?.entry.type !== "patch") throw new Error(`Got ${read?.entry.type}.`);
      state = appliedTo(state, read.entry.patch);
      bytes += Buffer.byteLength(JSON.stringify(read.entry));
    }
    await run.append(end);
    await run.end();
    clock.advance(100);
    const last = await quick.next();
    if (last?.entry.type !== "patch") throw new Error("There is a last one.");
    expect(appliedTo(state, last.entry.patch)).toEqual(appliedOf(await snapshotAt(place)));
    expect(await quick.next()).toMatchObject({ entry: { type: "end" } });
    slow.response.resume();
    let entries = 0;
    for (;;) {
      const read = await slow.next();
      if (read?.entry.type === "lagging") break;
      expect(read?.entry.type).toBe("patch");
      entries += 1;
    }
    expect(await slow.next()).toBeUndefined();
    expect(entries).toBeGreaterThan(10);
  },
);

proves(["V110"], "releases everything if a reader disconnects while its run is read", async () => {
  const { clock, store, process } = engineWorld();
  const role = survey(1);
  await process({ roles: [role] }).start(role, "Survey.", { runId: ID }).result;
  const [asked, gate, gone] = [latch(), latch(), latch()];
  const find = async (id: typeof ID) => {
    asked.open();
    await gate.opened;
    return await store.find(id);
  };
  // Its readers do not know that the run has ended: the feed would continue.
  const slow = forwarding(store, { find, read: (id: typeof ID) => store.read(id, 1, 2) });
  const view = await opened({ store: slow, clock });
  const server = createServer(view.handler());
  server.on("connection", (socket) => socket.once("close", gone.open));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterwards(() => server.close());
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  const headers = { authorization: `Bearer ${placeOf(view).token}` };
  const left = get({ host: "127.0.0.1", port, path: `/api/v1/runs/${ID}/feed`, headers });
  left.once("error", () => undefined);
  await asked.opened;
  left.destroy();
  await gone.opened;
  gate.open();
  await turns(50);
  expect(clock.pendingTimers).toBe(0);
});
