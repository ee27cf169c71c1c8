// Goal: the signal of a caller cancels its run whenever it is aborted, and its listener is removed
// when the run is over.
// Method: signals that are aborted before, during and after a run.

import { getEventListeners } from "node:events";

import { expect, test } from "vitest";
import { z } from "zod";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { thrownBy } from "../../support/thrown.ts";

proves(
  ["S7.37"],
  "cancels the run and its model call in flight when the signal is aborted",
  async () => {
    const { start, outcome } = newFixture();
    const { role, model } = soloist([says("Late.", { after: latch().opened })]);
    const controller = new AbortController();
    const run = start(role, "Do it.", { signal: controller.signal });
    await flushEventLoop();
    expect(model.requests).toHaveLength(1);
    controller.abort(new Error("the user left"));
    const { status, reason } = await outcome(run);
    expect([status, reason.code]).toEqual(["cancelled", "cancelled"]);
    expect(reason.message).toBe("The signal of the run was aborted: the user left.");
  },
);

proves(
  ["S7.37"],
  "returns a cancelled run without a model call if the signal is already aborted",
  async () => {
    for (const store of [undefined, memoryStore()]) {
      const { start, outcome, sink } = newFixture(store === undefined ? {} : { store });
      const { role, model } = soloist([says("Never.")]);
      const { status, reason, usage } = await outcome(
        start(role, "Do it.", { signal: AbortSignal.abort() }),
      );
      expect([status, reason.message, usage.total.modelCalls, model.requests]).toEqual([
        "cancelled",
        "The signal of the run was aborted: This operation was aborted.",
        0,
        [],
      ]);
      expect(sink.events.some(({ type }) => type === "model.requested")).toBe(false);
    }
  },
);

test("removes its listener when a run is over, and ignores a later abort", async () => {
  const { start, outcome } = newFixture();
  const controller = new AbortController();
  const runs = ["One.", "Two."].map((task) =>
    start(soloist([says("Done.")]).role, task, { signal: controller.signal }),
  );
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(1);
  const results = await Promise.all(runs.map((run) => run.result));
  await outcome(runs[1] ?? expect.fail("two runs"));
  expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  controller.abort();
  await flushEventLoop();
  expect(results.map(({ status }) => status)).toEqual(["completed", "completed"]);
});

proves(["S7.37"], "cancels resumed, recovered and forked runs by their signals", async () => {
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({ eur: z.number() }),
    needsApproval: true,
    execute: () => "paid",
  });
  const { role, model } = soloist([says("Done."), asks("pay", { eur: 5 })], { tools: [pay] });
  const signal = AbortSignal.abort("enough");
  const orchestrator = new Orchestrator({ store: memoryStore(), roles: [role] });
  const ended = orchestrator.start(role, "Say it.");
  await ended.result;
  const run = orchestrator.start(role, "Pay.");
  const { pausedRun, questions } = await run.result;
  if (pausedRun === undefined) throw new Error("Expected a paused run.");
  const answers = questions.map((question) => approve(question));
  const elsewhere = new Orchestrator({ roles: [role] });
  const ends = [
    elsewhere.resume(pausedRun, { answers, signal }),
    elsewhere.fork(ended.snapshot(), { message: "Again.", signal }),
    await orchestrator.resume(run.runId, { answers, signal }),
  ].map(async ({ result }) => {
    const { status, reason } = await result;
    return [status, reason.message];
  });
  const cancelled = ["cancelled", "The signal of the run was aborted: enough."];
  expect(await Promise.all(ends)).toEqual([cancelled, cancelled, cancelled]);
  expect(model.requests).toHaveLength(2);
});

test("cancels a run within a tool by the signal of the tool call, and reports the reason", async () => {
  const orchestrator = new Orchestrator();
  const begun = latch();
  const { role: innerRole } = soloist([says("Late.", { after: latch().opened })]);
  const inner: Run[] = [];
  const nest = defineTool({
    name: "nest",
    description: "Runs another agent.",
    inputSchema: z.object({}),
    execute: async (_input, { signal }) => {
      const run = orchestrator.start(innerRole, "Do it.", { signal });
      inner.push(run);
      begun.open();
      return (await run.result).text;
    },
  });
  const { role } = soloist([asks("nest", {})], { tools: [nest] });
  const outer = orchestrator.start(role, "Do it.");
  await begun.opened;
  void outer.cancel("The user left.");
  const results = await Promise.all([outer, ...inner].map(({ result }) => result));
  expect(results.map(({ status, reason }) => [status, reason.message])).toEqual([
    ["cancelled", "The user left."],
    ["cancelled", "The signal of the run was aborted: The user left."],
  ]);
});

test("refuses values that are not signals, and suggests controller.signal for a controller", () => {
  const { role } = soloist([]);
  const start = (signal: unknown) => (): unknown =>
    Reflect.apply(Orchestrator.prototype.start, new Orchestrator(), [role, "Do it.", { signal }]);
  expect(thrownBy(start(new AbortController())).message).toBe(
    "Expected start options.signal to be an AbortSignal, got an object. Pass its signal: controller.signal.",
  );
  expect(thrownBy(start(5)).message).toBe(
    "Expected start options.signal to be an AbortSignal, got 5. Leave it out for none.",
  );
});
