// Goal: a persisted run that its budget stopped can be granted more by any later process; no other
// ended run continues.
// Method: runs in a store, each granted more by a separate orchestrator, as in another process.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { ResumeGrant } from "../../../src/orchestrator/run/run-options.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";
import { rejectionOf } from "../../support/thrown.ts";

/** An agent that looks three times, 100 ms each. */
function world() {
  const clock = new ManualClock();
  const store = memoryStore({ clock });
  const ids = sequentialIds();
  const calls = new Map<string, number>();
  const role = defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length < 3
        ? { calls: [["look", { thing: `${results.length}` }]] }
        : { text: `Looked: ${results.join(" ")}.` },
    ),
    tools: [
      countedTool(calls, "look", async ({ thing }) => {
        clock.advance(100);
        return thing;
      }),
    ],
  });
  const process = () => new Orchestrator({ clock, store, ids, roles: [role] });
  return {
    store,
    process,
    role,
    executed: () => [...calls.values()],
    more: (runId: string, ...grants: readonly ResumeGrant[]) => process().resume(runId, { grants }),
  };
}

interface Limited {
  readonly budget: Budget;
  readonly more: Budget;
  readonly text: string;
  /** The number of executed calls, each once. */
  readonly calls: number;
}

const LIMITED: Readonly<Record<string, Limited>> = {
  step_limit: { budget: { steps: 2 }, more: { steps: 2 }, text: "Looked: 0 1 2.", calls: 3 },
  time_limit: {
    budget: { timeMs: 150 },
    more: { timeMs: 1_000 },
    text: "Looked: 0 Cancelled: the agent was stopped before this call had a result. 2.",
    calls: 3,
  },
  tool_call_limit: {
    budget: { toolCalls: 1 },
    more: { toolCalls: 5 },
    text: "Looked: 0 Not executed: the toolCalls budget of lead, which is 1, is used up. Answer with what you have. 2.",
    calls: 2,
  },
};

for (const [code, { budget, more, text, calls }] of Object.entries(LIMITED))
  proves(
    ["D287"],
    `a run stopped by ${code} continues from there in the same run after a grant`,
    async () => {
      const { process, role, more: granted, executed, store } = world();
      const run = process().start(role, "Look.", { budget });
      expect(await run.result).toMatchObject({ status: "stopped", reason: { code } });
      const again = await granted(run.runId, { budget: more, by: "Ada" });
      const result = await again.result;
      expect(result).toMatchObject({ status: "completed", text, runId: run.runId });
      expect(executed()).toEqual(Array.from({ length: calls }, () => 1));
      expect(result.accounts[0]?.grants.map(({ by }) => by)).toEqual(["Ada"]);
      expect((await store.find(run.runId))?.status).toBe("ended");
      expect(await process().getResult(run.runId)).toEqual(result);
    },
  );

proves(["D287"], "a stopped run may be granted more several times", async () => {
  const { process, role, more } = world();
  const { runId, result } = process().start(role, "Look.", { budget: { steps: 1 } });
  await result;
  for (const status of ["stopped", "stopped", "completed"]) {
    const run = await more(runId, { budget: { steps: 1 }, by: "Ada" });
    expect((await run.result).status).toBe(status);
  }
});

proves(
  ["D287"],
  "a resume without a suitable grant, or of a run that no limit stopped, is refused without effect",
  async () => {
    const { process, role, more, store } = world();
    const stopped = process().start(role, "Look.", { budget: { steps: 1 } });
    const done = process().start(role, "Look.");
    const before = [await stopped.result, await done.result];
    const kept = await store.list();
    expect(await rejectionOf(process().resume(stopped.runId))).toMatchObject({
      code: "run_ended",
    });
    const unlimited = more(stopped.runId, { budget: { toolCalls: 1 }, by: "Ada" });
    expect(await rejectionOf(unlimited)).toMatchObject({ code: "invalid_argument" });
    expect(await rejectionOf(more(done.runId, { budget: { steps: 1 }, by: "Ada" }))).toMatchObject({
      code: "invalid_paused_run",
    });
    expect(await store.list()).toEqual(kept);
    const after = [await process().getResult(stopped.runId), await process().getResult(done.runId)];
    expect(after).toEqual(before);
  },
);
