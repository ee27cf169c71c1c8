// Goal: an interface finds all messages of a conversation, whatever retention drops from its
// session, and its unfinished run.

import { expect } from "vitest";

import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

proves(
  ["D257"],
  "keeps messages that retention drops from the session in the results of its runs",
  async () => {
    const fixture = newFixture({ store: memoryStore({ clock: new ManualClock() }) });
    const { orchestrator } = fixture;
    const { role } = soloist([says("One."), says("Two."), says("Three.")]);
    const retention = { maxMessages: 2, maxExecutions: 1 };
    const session = await orchestrator.openSession("ann", { retention });
    for (const task of ["First?", "Second?", "Third?"])
      await fixture.outcome(fixture.start(role, task, { session }));
    expect(session.messages.map(({ text }) => text)).toEqual(["Third?", "Three."]);
    const runIds = session.executions.map(({ runId }) => runId);
    const turns = await Promise.all(runIds.map((runId) => orchestrator.getResult(runId)));
    expect(turns.map(({ newMessages }) => newMessages.map(({ text }) => text))).toEqual([
      ["First?", "One."],
      ["Second?", "Two."],
      ["Third?", "Three."],
    ]);
  },
);

proves(["D258"], "exposes the session that a run continues, also after its recovery", async () => {
  const store = memoryStore({ clock: new ManualClock() });
  const held = latch();
  const tools = [spyTool("work", async () => (await held.opened, "done"))];
  const { role } = soloist([asks("work", {}), says("Done.")], { tools });
  const { orchestrator } = newFixture({ store, roles: [role] });
  const run = orchestrator.start(role, "Go.", { session: await orchestrator.openSession("ann") });
  run.result.catch(() => undefined);
  const open = { runId: run.runId, sessionId: "ann" };
  expect(orchestrator.activeRuns()).toMatchObject([open]);
  expect(
    orchestrator.start(soloist([says("Hi.")], { name: "other" }).role, "Go.").sessionId,
  ).toBeUndefined();
  for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
  const leaving = run.release({ graceMs: 0 });
  held.open();
  await leaving;
  const next = newFixture({ store, roles: [role] });
  const { runs } = await next.orchestrator.resumeLostRuns();
  expect(runs).toMatchObject([open]);
  const [{ result } = run] = runs;
  expect((await result).session).toMatchObject({ sessionId: "ann", status: "saved" });
  expect(next.orchestrator.activeRuns()).toEqual([]);
});
