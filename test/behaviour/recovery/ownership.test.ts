// Which process may recover a run, and how two concurrent attempts end: one owns it, and the former
// owner does nothing further (D3, D4).

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { QuestionIdSchema, type RunId } from "../../../src/protocol/ids.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { latch } from "../../harness/run-scripted.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { TickingClock } from "../../support/ticking-clock.ts";
import { aborted, playThrough, turns, type Play } from "../../support/journal/crash-play.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

interface Worker {
  readonly role: AgentRole;
  readonly calls: Map<string, number>;
  readonly ready: ReturnType<typeof latch>;
}

/** Returns an agent whose second call takes until the latch opens. */
function worker(): Worker {
  const calls = new Map<string, number>();
  const ready = latch();
  const role = defineAgent({
    name: "solo",
    instructions: "You work.",
    model: thinker("solo", ({ results }) =>
      results.length < 2
        ? { calls: [["work", { thing: `${results.length}` }]] }
        : { text: "Done." },
    ),
    tools: [
      countedTool(calls, "work", async ({ thing }, { signal }) => {
        if (thing === "1") await Promise.race([ready.opened, aborted(signal)]);
        return `worked ${thing}`;
      }),
    ],
  });
  return { role, calls, ready };
}

interface World {
  readonly store: Store;
  orchestrator(role: AgentRole, store?: Store): Orchestrator;
}

function world(): World {
  const store = memoryStore({ clock: new ManualClock() });
  const ids = sequentialIds();
  return {
    store,
    orchestrator: (role, own = store) =>
      new Orchestrator({ clock: new ManualClock(), ids, store: own, roles: [role] }),
  };
}

async function linesOf(store: Store, runId: RunId): Promise<readonly string[]> {
  const lines: string[] = [];
  for await (const line of store.read(runId)) lines.push(line);
  return lines;
}

proves(
  ["D444"],
  "leaves the run of a live owner unchanged if the takeover is refused",
  async () => {
    const { store, orchestrator } = world();
    const first = worker();
    const run = orchestrator(first.role).start(first.role, "Go.");
    await turns(20);
    const before = await store.find(run.runId);
    const other = { ...worker().role, name: "other" };
    const question = { questionId: QuestionIdSchema().parse("none"), argumentsHash: "none" };
    const answers = [approve(question)];
    const codes = [
      (await rejectionOf(orchestrator(other).resume(run.runId, { takeOver: true }))).code,
      (
        await rejectionOf(
          orchestrator(worker().role).resume(run.runId, { takeOver: true, answers }),
        )
      ).code,
    ];
    expect(codes).toEqual(["invalid_paused_run", "invalid_answer"]);
    expect(await store.find(run.runId)).toEqual(before);
    first.ready.open();
    expect((await run.result).status).toBe("completed");
  },
);

test("refuses to take over the run of a live process, and changes nothing", async () => {
  const { store, orchestrator } = world();
  const first = worker();
  const run = orchestrator(first.role).start(first.role, "Go.");
  await turns(20);
  const before = [await store.find(run.runId), await linesOf(store, run.runId)];
  const error = await rejectionOf(orchestrator(worker().role).resume(run.runId));
  expect(error).toMatchObject({ code: "run_active" });
  expect([await store.find(run.runId), await linesOf(store, run.runId)]).toEqual(before);
  first.ready.open();
  expect(await run.result).toMatchObject({ status: "completed", text: "Done." });
});

proves(
  ["S7.7"],
  "keeps a waiting run owned by heartbeats, and releases it at its end",
  async () => {
    const clock = new ManualClock();
    const store = memoryStore({ clock });
    const ids = sequentialIds();
    const [first, second] = [worker(), worker()];
    const leading = new Orchestrator({ clock, ids, store, roles: [first.role] });
    const other = new Orchestrator({ clock, ids, store, roles: [second.role] });
    const run = leading.start(first.role, "Go.");
    await turns(20);
    for (let beat = 1; beat <= 20; beat += 1) {
      clock.advance(5_000);
      await turns(2);
      expect((await store.find(run.runId))?.heartbeatAtMs).toBe(beat * 5_000);
    }
    clock.advance(4_999);
    expect(await rejectionOf(other.resume(run.runId))).toMatchObject({
      code: "run_active",
      data: { silentMs: 4_999 },
    });
    first.ready.open();
    expect(await run.result).toMatchObject({ status: "completed", text: "Done." });
    clock.advance(60_000);
    await turns(5);
    expect([clock.pendingTimers, (await store.find(run.runId))?.heartbeatAtMs]).toEqual([0, null]);
  },
);

test("rejects with run_fenced in the former process after a takeover, which does nothing further", async () => {
  const { orchestrator } = world();
  const [first, second] = [worker(), worker()];
  const run = orchestrator(first.role).start(first.role, "Go.");
  await turns(20);
  expect([...first.calls.values()]).toEqual([1, 1]);
  const again = await orchestrator(second.role).resume(run.runId, { takeOver: true });
  const lost = rejectionOf(run.result);
  first.ready.open();
  expect(await lost).toMatchObject({ code: "run_fenced" });
  second.ready.open();
  expect(await again.result).toMatchObject({ status: "completed", text: "Done." });
  await turns(10);
  expect([...first.calls.values()]).toEqual([1, 1]);
  expect([...second.calls.values()]).toEqual([1]);
});

test("lets one of two concurrent recoveries proceed", async () => {
  const { store, orchestrator } = world();
  const first = worker();
  const dying = dyingStore(store, { at: 4, how: "before" });
  const run = orchestrator(first.role, dying.store).start(first.role, "Go.");
  expect(await rejectionOf(run.result)).toMatchObject({ code: "store_failed" });
  await store.release({ runId: run.runId, ...(await ownerOf(store, run.runId)) }, "paused");
  const [left, right] = [worker(), worker()];
  left.ready.open();
  right.ready.open();
  const both = await Promise.allSettled([
    orchestrator(left.role).resume(run.runId),
    orchestrator(right.role).resume(run.runId),
  ]);
  const codes = both.map((one) => (one.status === "rejected" ? codeOf(one.reason) : "leads"));
  expect(codes).toEqual(["leads", "run_active"]);
  const [leader] = both;
  expect(leader?.status === "fulfilled" && (await leader.value.result).status).toBe("completed");
});

async function ownerOf(store: Store, runId: RunId): Promise<{ token: string; epoch: number }> {
  const found = await store.find(runId);
  return { token: found?.owner?.token ?? "", epoch: found?.epoch ?? 0 };
}

function codeOf(cause: unknown): string {
  return EspalierError.is(cause) ? cause.code : String(cause);
}

test("refuses to recover runs that have ended and unknown runs", async () => {
  const { store, orchestrator } = world();
  const { role, ready } = worker();
  ready.open();
  const run = orchestrator(role).start(role, "Go.");
  await run.result;
  const before = [await store.find(run.runId), await linesOf(store, run.runId)];
  for (const takeOver of [false, true]) {
    const error = await rejectionOf(orchestrator(role).resume(run.runId, { takeOver }));
    expect(error).toMatchObject({
      code: "run_ended",
      message: `Cannot continue run "${run.runId}": it has ended. Read its result with orchestrator.getResult, or start another run. If a limit stopped it, resume it with grants.`,
    });
  }
  expect([await store.find(run.runId), await linesOf(store, run.runId)]).toEqual(before);
  const unknown = await rejectionOf(orchestrator(role).resume("run_99"));
  expect(unknown).toMatchObject({ code: "unknown_run" });
});

/**
 * Returns the refusal of a run whose process died in the middle, and whose records were changed.
 */
async function changed(change: (lines: readonly string[]) => readonly string[]) {
  const { store, orchestrator } = world();
  const { role } = worker();
  const dying = dyingStore(store, { at: 4, how: "after" });
  const run = orchestrator(role, dying.store).start(role, "Go.");
  await rejectionOf(run.result);
  const lines = change(await linesOf(store, run.runId));
  const read = async function* () {
    yield* lines;
  };
  const other: Store = forwarding(store, { read });
  const found = await store.find(run.runId);
  const recover = () => orchestrator(role, other).resume(run.runId, { takeOver: true });
  return { error: await rejectionOf(recover()), found, after: await store.find(run.runId) };
}

test("refuses to recover a journal of another version, and names both versions", async () => {
  const { error } = await changed((lines) =>
    lines.map((line, index) => (index === 0 ? line.replace('"version":1', '"version":4') : line)),
  );
  expect(error).toMatchObject({ code: "unsupported_version", data: { expected: 1, got: 4 } });
});

test.each<readonly [string, (lines: readonly string[]) => readonly string[], number]>([
  ["a record that is cut", (lines) => withLine(lines, 4, (line) => line.slice(0, -7)), 5],
  ["a record that is no object", (lines) => withLine(lines, 4, () => "null"), 5],
  ["a record of an unknown kind", (lines) => withLine(lines, 4, () => '{"type":"x"}'), 5],
  ["a record that is gone", (lines) => lines.filter((_line, index) => index !== 1), 2],
  ["no records at all", () => [], 0],
])("refuses a journal with %s, and names the record", async (_what, change, record) => {
  const { error } = await changed(change);
  expect(error).toMatchObject({ code: "invalid_journal", data: { record } });
});

function withLine(
  lines: readonly string[],
  at: number,
  change: (line: string) => string,
): readonly string[] {
  return lines.map((line, index) => (index === at ? change(line) : line));
}

test("leaves the run unchanged if a recovery cannot start", async () => {
  const { store, orchestrator } = world();
  const { role } = worker();
  const dying = dyingStore(store, { at: 4, how: "before" });
  const run = orchestrator(role, dying.store).start(role, "Go.");
  await rejectionOf(run.result);
  const before = await linesOf(store, run.runId);
  const other = defineAgent({
    name: "other",
    instructions: "x",
    model: thinker("x", () => ({ text: "x" })),
  });
  const error = await rejectionOf(orchestrator(other).resume(run.runId, { takeOver: true }));
  expect(error).toMatchObject({ code: "invalid_paused_run" });
  expect(await linesOf(store, run.runId)).toEqual(before);
  expect(await store.list({ status: "open" })).toHaveLength(1);
  const fresh = worker();
  fresh.ready.open();
  const again = await orchestrator(fresh.role).resume(run.runId, { takeOver: true });
  expect(await again.result).toMatchObject({ status: "completed" });
});

function tree(): Play {
  const calls = new Map<string, number>();
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: thinker("worker", ({ task, results }) =>
      results.length === 0 ? { calls: [["work", { thing: task }]] } : { text: `Did ${task}` },
    ),
    tools: [
      countedTool(calls, "work", async ({ thing }) => {
        await turns(2);
        return `worked ${thing}`;
      }),
    ],
  });
  const role = defineAgent({
    name: "lead",
    instructions: "You lead.",
    delegation: { background: true },
    model: thinker("lead", ({ results, heard }) =>
      results.length === 0
        ? { calls: [spawnCall("worker", "a", { background: true }), spawnCall("worker", "b")] }
        : { text: `Led with ${heard.length}` },
    ),
    subagents: [worker],
  });
  return { role, calls };
}

test("recovers a run that is killed twice, and during its recovery", async () => {
  const plain = await playThrough(tree);
  const endings = ({ ends }: typeof plain): readonly unknown[] =>
    ends.map(({ path, ended }) => [path, ended[0], ended[3], ended[4]]);
  for (let first = 2; first <= plain.appends; first += 3)
    for (const second of [1, 2, 4, 7]) {
      const story = await playThrough(tree, [
        { at: first, how: "before" },
        { at: second, how: "before" },
        { at: second, how: "after" },
      ]);
      expect([first, second, endings(story)]).toEqual([first, second, endings(plain)]);
    }
});

proves(
  ["S7.31"],
  "continues timestamps with microseconds, and reports durations in whole milliseconds",
  async () => {
    const alive = (): Play => {
      const { role, ready } = worker();
      ready.open();
      return { role, task: "Go." };
    };
    const story = await playThrough(
      alive,
      [{ at: 5, how: "after" }],
      (startMs) => new TickingClock(startMs),
    );
    const { events, kept } = story;
    const stamps = events.map(({ atMs }) => atMs);
    expect(stamps).toEqual(stamps.toSorted((one, other) => one - other));
    expect(stamps.some((atMs) => !Number.isInteger(atMs))).toBe(true);
    const told = events.flatMap((event) => [
      ...("durationMs" in event ? [event.durationMs] : []),
      ...(event.type === "run.resumed" ? [event.pausedMs] : []),
    ]);
    const counted = [...kept.agents, kept].map(({ durationMs }) => durationMs);
    const stood = kept.accounts.map(({ pausedMs }) => pausedMs);
    expect(events.some(({ type }) => type === "run.resumed")).toBe(true);
    expect([...told, ...counted, ...stood].filter((ms) => !Number.isInteger(ms))).toEqual([]);
  },
);
