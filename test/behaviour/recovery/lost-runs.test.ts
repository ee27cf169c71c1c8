// Goal: a starting process resumes every run that another one lost, and no other; an error in one
// does not affect the rest.
// Method: runs whose store dies under them at one point, a clock that is moved past the last
// heartbeat, a new orchestrator.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { createStoreError } from "../../../src/store/store-errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { latch, flushEventLoop } from "../../harness/run-scripted.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";

const STALE_MS = 30_000;

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  inputSchema: z.object({ eur: z.number() }),
  needsApproval: true,
  execute: () => "paid",
});

function role(name: string, more: { readonly after?: Promise<void> } = {}): AgentRole {
  const model = new ScriptedModel((request) =>
    request.messages.some(({ text }) => text.includes("pay"))
      ? asks("pay", { eur: 5 })
      : says(`${name} is done.`, more),
  );
  return defineAgent({ name, instructions: "Work.", model, tools: [pay] });
}

interface World {
  readonly clock: ManualClock;
  readonly store: Store;
  orchestrator(roles: readonly AgentRole[], store?: Store): Orchestrator;
  /** Returns a run whose process died at its second write. */
  lost(of: AgentRole): Promise<string>;
}

function world(): World {
  const clock = new ManualClock();
  const store = memoryStore({ clock });
  const ids = sequentialIds();
  const orchestrator: World["orchestrator"] = (roles, own = store) =>
    new Orchestrator({ clock, ids, store: own, roles });
  return {
    clock,
    store,
    orchestrator,
    lost: async (of) => {
      const dying = dyingStore(store, { at: 2, how: "before" });
      const run = orchestrator([], dying.store).start(of, "Do it.");
      await rejectionOf(run.result);
      return run.runId;
    },
  };
}

proves(["S7.37"], "resumes all lost runs, oldest first, and no others", async () => {
  const { clock, store, orchestrator, lost } = world();
  const [reader, writer] = [role("reader"), role("writer")];
  const left = [await lost(reader), await lost(writer)];
  const ended = orchestrator([]).start(reader, "Do it.");
  const paused = orchestrator([]).start(writer, "Please pay.");
  const emptied = dyingStore(store, { at: 1, how: "before" });
  const nothingKept = orchestrator([], emptied.store).start(reader, "Do it.");
  await Promise.all([ended.result, paused.result, rejectionOf(nothingKept.result)]);
  clock.advance(STALE_MS);
  const elsewhere = latch();
  const alive = orchestrator([]).start(role("reader", { after: elsewhere.opened }), "Do it.");
  const here = latch();
  const own = orchestrator([reader, writer]);
  const mine = own.start(role("helper", { after: here.opened }), "Do it.");
  await flushEventLoop();
  const { runs, failed } = await own.resumeLostRuns();
  expect([runs.map(({ runId }) => runId), failed]).toEqual([left, []]);
  expect(own.activeRuns()).toEqual([mine, ...runs]);
  const texts = await Promise.all(runs.map(async ({ result }) => (await result).text));
  expect(texts).toEqual(["reader is done.", "writer is done."]);
  elsewhere.open();
  here.open();
  expect((await Promise.all([alive.result, mine.result])).map(({ status }) => status)).toEqual([
    "completed",
    "completed",
  ]);
  expect(await store.find(paused.runId)).toMatchObject({ status: "paused" });
  expect(await own.resumeLostRuns()).toEqual({ runs: [], delayed: [], failed: [] });
});

proves(["S7.37"], "reports a run that cannot be resumed, and resumes the others", async () => {
  const { clock, orchestrator, lost, store } = world();
  const stranger = await lost(role("stranger"));
  const broken = await lost(role("reader"));
  const fine = await lost(role("reader"));
  clock.advance(STALE_MS);
  const unreadable: Store = forwarding(store, {
    read: (runId, from) => {
      if (runId === broken) throw new Error("a bad sector");
      return store.read(runId, from);
    },
  });
  const { runs, failed } = await orchestrator([role("reader")], unreadable).resumeLostRuns();
  expect(runs.map(({ runId }) => runId)).toEqual([fine]);
  expect(failed.map(({ runId, error }) => [runId, error.code])).toEqual([
    [stranger, "invalid_paused_run"],
    [broken, "store_failed"],
  ]);
  expect((await runs[0]?.result)?.status).toBe("completed");
});

test("omits a run that another process claims first, without reporting a failure", async () => {
  const { clock, orchestrator, lost, store } = world();
  const runId = await lost(role("reader"));
  clock.advance(STALE_MS);
  const taken: Store = forwarding(store, {
    claim: async (...asked) => {
      await orchestrator([role("reader")]).resume(runId);
      return await store.claim(...asked);
    },
  });
  expect(await orchestrator([role("reader")], taken).resumeLostRuns()).toEqual({
    runs: [],
    delayed: [],
    failed: [],
  });
});

test("rejects if the store cannot list its runs, or without a store", async () => {
  const failure = createStoreError("connection", "Expected a connection, got none. Look at it.");
  const deaf: Store = forwarding(memoryStore(), { list: () => Promise.reject(failure) });
  await expect(new Orchestrator({ store: deaf }).resumeLostRuns()).rejects.toBe(failure);
  const mute: Store = forwarding(memoryStore(), {
    list: () => Promise.reject(new Error("no route")),
  });
  expect(await rejectionOf(new Orchestrator({ store: mute }).resumeLostRuns())).toMatchObject({
    code: "store_failed",
    message:
      "Cannot read its runs: the store failed with: no route. Check the store; nothing was changed.",
  });
  expect((await rejectionOf(new Orchestrator().resumeLostRuns())).code).toBe("invalid_argument");
});

proves(
  ["S7.37"],
  "waits for a recovery in progress and its run when the orchestrator is closed",
  async () => {
    const { clock, orchestrator, lost, store } = world();
    await lost(role("reader"));
    clock.advance(STALE_MS);
    const { opened, open } = latch();
    const slow: Store = forwarding(store, {
      list: async (...asked) => {
        await opened;
        return await store.list(...asked);
      },
    });
    const own = orchestrator([role("reader")], slow);
    const recovering = own.resumeLostRuns();
    let isClosed = false;
    const closing = own.close().then(() => (isClosed = true));
    await flushEventLoop();
    expect(isClosed).toBe(false);
    open();
    const { runs } = await recovering;
    await closing;
    expect([runs.length, own.activeRuns()]).toEqual([1, []]);
  },
);
