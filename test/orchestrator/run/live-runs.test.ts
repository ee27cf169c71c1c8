// Goal: an orchestrator knows its active runs, and closes without interrupting any.
// Method: runs that are held at a latch; orchestrators that are queried meanwhile.

import type { PausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { createStoreError } from "../../../src/store/store-errors.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { latch, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { rejectionOf, thrownBy } from "../../support/thrown.ts";

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  inputSchema: z.object({ eur: z.number() }),
  needsApproval: true,
  execute: () => "paid",
});

/** Returns a role that replies when the latch opens. */
function held(): { readonly role: AgentRole; open(): void } {
  const { opened, open } = latch();
  return { role: soloist([says("Done.", { after: opened })]).role, open };
}

const idsOf = (runs: readonly Run[]): readonly string[] => runs.map(({ runId }) => runId);

proves(["S7.37"], "lists and finds runs from their start until they pause or end", async () => {
  const orchestrator = new Orchestrator({ ids: sequentialIds() });
  const [left, right] = [held(), held()];
  const first = orchestrator.start(left.role, "One.");
  const second = orchestrator.start(right.role, "Two.");
  expect(orchestrator.activeRuns()).toEqual([first, second]);
  expect(orchestrator.findActiveRun(second.runId)).toBe(second);
  left.open();
  await first.result;
  expect([orchestrator.activeRuns(), orchestrator.findActiveRun(first.runId)]).toEqual([
    [second],
    undefined,
  ]);
  await second.cancel();
  expect(orchestrator.activeRuns()).toEqual([]);
  expect(orchestrator.findActiveRun("run_99")).toBeUndefined();
});

proves(["S7.37"], "lists a paused run again once it is resumed, and lists a fork", async () => {
  const orchestrator = new Orchestrator({ ids: sequentialIds() });
  const { role } = soloist([asks("pay", { eur: 5 }), says("Paid."), says("Again.")], {
    tools: [pay],
  });
  const run = orchestrator.start(role, "Pay.");
  const { pausedRun, questions } = await run.result;
  if (pausedRun === undefined) throw new Error("Expected a paused run.");
  expect(orchestrator.activeRuns()).toEqual([]);
  const answers = questions.map((question) => approve(question));
  const again = orchestrator.resume(pausedRun, { answers, role });
  expect([again.runId, orchestrator.findActiveRun(run.runId)]).toEqual([run.runId, again]);
  await again.result;
  expect(orchestrator.activeRuns()).toEqual([]);
  const fork = orchestrator.fork(again.snapshot(), { role, message: "And now?" });
  expect(idsOf(orchestrator.activeRuns())).toEqual([fork.runId]);
  expect((await fork.result).text).toBe("Again.");
  expect(orchestrator.activeRuns()).toEqual([]);
});

test("removes a run that its store could not persist", async () => {
  const full = createStoreError("full", "Expected room in the store, got none. Make some.");
  const store = forwarding(memoryStore(), { append: () => Promise.reject(full) });
  const orchestrator = new Orchestrator({ store });
  const run = orchestrator.start(held().role, "One.");
  await expect(run.result).rejects.toBe(full);
  expect(orchestrator.activeRuns()).toEqual([]);
  await orchestrator.close();
});

proves(["S7.37"], "waits for active runs when it is closed, and starts no more", async () => {
  const store = memoryStore();
  const orchestrator = new Orchestrator({ store });
  const { role, open } = held();
  const run = orchestrator.start(role, "One.");
  let isClosed = false;
  const closing = orchestrator.close().then(() => (isClosed = true));
  const refused = {
    code: "invalid_state",
    message:
      "Cannot start or continue a run: the orchestrator was closed. Create a new orchestrator.",
    data: {},
  };
  expect(thrownBy(() => orchestrator.start(role, "Two."))).toEqual(refused);
  const stored = z.custom<PausedRun>().parse({});
  expect(thrownBy(() => orchestrator.resume(stored))).toEqual(refused);
  expect(thrownBy(() => orchestrator.fork(stored))).toEqual(refused);
  expect(await rejectionOf(orchestrator.resume(run.runId))).toEqual(refused);
  expect(await rejectionOf(orchestrator.resumeLostRuns())).toEqual(refused);
  await flushEventLoop();
  expect([isClosed, orchestrator.activeRuns()]).toEqual([false, [run]]);
  open();
  await closing;
  expect((await run.result).text).toBe("Done.");
  await orchestrator.close();
  expect((await orchestrator.getResult(run.runId)).text).toBe("Done.");
});

test("closes at once without active runs, and at the end of an `await using` block", async () => {
  await new Orchestrator().close();
  const { role, open } = held();
  let run: Run;
  {
    await using orchestrator = new Orchestrator();
    run = orchestrator.start(role, "One.");
    open();
  }
  expect(() => run.snapshot()).not.toThrow();
});

test("refuses an invalid run id", () => {
  expect(thrownBy(() => new Orchestrator().findActiveRun(" "))).toMatchObject({
    code: "invalid_argument",
  });
});
