// Goal: `orThrow` rejects for a run that did not complete, with the reason and the result.
// Method: one run for each way to end.

import { inspect } from "node:util";

import { expect, test } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { RunError } from "../../../src/orchestrator/run/run-error.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { soloist } from "../../harness/soloist.ts";

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  inputSchema: z.object({ eur: z.number() }),
  needsApproval: true,
  execute: () => "paid",
});

function start(script: Parameters<typeof soloist>[0], budget = {}): Run {
  const { role } = soloist(script, { tools: [pay] });
  return new Orchestrator({ ids: sequentialIds() }).start(role, "Do it.", { budget });
}

const SO_FAR = "See error.result for its partial result.";

const ENDS: Readonly<
  Record<string, { readonly run: () => Run; readonly message: string; readonly reason: string }>
> = {
  run_failed: {
    run: () => start([{ error: new Error("boom") }]),
    reason: "error",
    message: `Expected run run_1 to complete, got failed (error): The model scripted failed: boom. ${SO_FAR}`,
  },
  run_stopped: {
    run: () => start([asks("nothing", {}), says("Done.")], { steps: 1 }),
    reason: "step_limit",
    message: `Expected run run_1 to complete, got stopped (step_limit): `,
  },
  run_cancelled: {
    run: () => {
      const run = start([says("Done.")]);
      void run.cancel("Not needed any more.");
      return run;
    },
    reason: "cancelled",
    message: `Expected run run_1 to complete, got cancelled (cancelled): Not needed any more. ${SO_FAR}`,
  },
  run_paused: {
    run: () => start([asks("pay", { eur: 5 })]),
    reason: "input_required",
    message:
      "Expected run run_1 to complete, got paused (input_required): Waits for approval of pay (solo). Continue it: orchestrator.resume(error.result.pausedRun, { answers }).",
  },
};

for (const [code, { run: begin, message, reason }] of Object.entries(ENDS))
  proves(["S7.36"], `rejects with ${code}, the reason and the result`, async () => {
    const run = begin();
    const error: unknown = await run.orThrow().catch((cause: unknown) => cause);
    if (!(error instanceof RunError)) throw new Error("Expected a RunError.", { cause: error });
    expect(error.message.startsWith(message), error.message).toBe(true);
    expect([EspalierError.is(error), error.code]).toEqual([true, code]);
    expect(error.data).toEqual({ runId: "run_1", status: code.slice("run_".length), reason });
    expect(error.result).toBe(await run.result);
  });

proves(["S7.36"], "names the first failure of a tree in its message", async () => {
  const child = defineAgent({
    name: "child",
    description: "Works",
    instructions: "Work.",
    model: new ScriptedModel([
      { error: new ModelError({ code: "model_invalid_request", message: "No such model" }) },
    ]),
  });
  const script = [
    asks("SpawnSubagent", { role: "child", task: "Work." }),
    { error: new ModelError({ code: "model_unauthorized", message: "The key has run out" }) },
  ];
  const { role } = soloist(script, { subagents: [child] });
  const run = new Orchestrator({ ids: sequentialIds() }).start(role, "Do it.");
  expect(await rejectionOf(run.orThrow())).toEqual({
    code: "run_failed",
    message: `Expected run run_1 to complete, got failed (error): The key has run out. First, solo/child#1 failed: No such model. ${SO_FAR}`,
    data: { runId: "run_1", status: "failed", reason: "error" },
  });
});

proves(["S7.36"], "resolves to the result of a completed run", async () => {
  const run = start([says("Done.")]);
  const result = await run.orThrow();
  expect([result.text, result === (await run.result)]).toEqual(["Done.", true]);
});

test("hides the result from the inspected error", async () => {
  const run = start([{ error: new Error("boom") }]);
  const error: unknown = await run.orThrow().catch((cause: unknown) => cause);
  expect(inspect(error)).toContain("Expected run run_1 to complete");
  expect(inspect(error)).not.toContain("newMessages");
});
