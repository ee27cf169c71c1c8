// Goal: show reports retries, the same durations as runs, and the remaining budget.
// Method: the command within the test, on a store with runs of scripted models.

import { expect } from "vitest";
import { z } from "zod";

import { defineTool, Orchestrator, withRetries, ModelError, ToolRetryError } from "espalier";
import { asks, ManualClock, says } from "espalier/testing";

import { describeSettledRun } from "../../../src/cli/run-text.ts";
import { proves } from "../../harness/proves.ts";
import { agent, fourRuns, keptRuns, type KeptRuns } from "../../support/cli/kept-runs.ts";
import { performed } from "../../support/cli/performed.ts";

function limited(message: string) {
  return {
    error: new ModelError({ code: "model_rate_limited", message, retryAfterMs: 0 }),
  };
}

/** Returns the output of the command. */
async function printed(kept: KeptRuns, ...args: readonly string[]): Promise<string> {
  const { stdout } = await performed([...args, "--store", kept.path], { cwd: kept.folder });
  return stdout;
}

/** Starts a run whose model is refused once, and whose tool succeeds at the second attempt. */
async function runWithRetries({ store }: KeptRuns): Promise<string> {
  let tries = 0;
  const read = defineTool({
    name: "read",
    description: "Reads.",
    inputSchema: z.object({}),
    execute: () => {
      tries += 1;
      if (tries === 1) throw new Error("disk is on fire");
      return "read";
    },
  });
  const role = agent("solo", [limited("Slow\ndown."), asks("read", {}), says("Done.")], {
    tools: [withRetries(read, { initialDelayMs: 0 })],
  });
  return (await new Orchestrator({ store }).start(role, "Read.").result).runId;
}

const MODEL = "↻ attempt 1 failed (waited 0ms): model_rate_limited: Slow down.";
const TOOL = "↻ attempt 1 failed (waited 0ms): tool_error: disk is on fire";

proves(["D602"], "shows failed attempts of models and tools in the steps of an agent", async () => {
  await using kept = keptRuns();
  const text = await printed(kept, "show", await runWithRetries(kept), "solo");
  expect(text).toContain(MODEL);
  expect(text).toContain(TOOL);
});

proves(["D602"], "shows failed attempts of a step, as text and as JSON", async () => {
  await using kept = keptRuns();
  const runId = await runWithRetries(kept);
  const text = await printed(kept, "show", runId, "solo", "1");
  expect(text).toContain(MODEL);
  expect(text).toContain(TOOL);
  const json: unknown = JSON.parse(await printed(kept, "show", runId, "solo", "1", "--json"));
  expect(json).toMatchObject({
    attempts: [{ attempt: 1, code: "model_rate_limited", message: "Slow\ndown.", delayMs: 0 }],
    calls: [{ attempts: [{ attempt: 1, message: "disk is on fire", delayMs: 0 }] }],
  });
});

const ListSchema = z.object({
  runs: z.array(z.object({ runId: z.string(), status: z.string(), durationMs: z.number() })),
});
const ShownSchema = z.object({
  run: z.object({ durationMs: z.number(), startedAtMs: z.number() }),
});

proves(["D603"], "measures runs in show as in runs: until their end, or until now", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const { runs } = ListSchema.parse(JSON.parse(await printed(kept, "runs", "--json")));
  expect(runs.map(({ status }) => status).toSorted()).toEqual([
    "completed",
    "failed",
    "input_required",
    "stopped",
  ]);
  for (const { runId, status, durationMs } of runs) {
    const shown = ShownSchema.parse(JSON.parse(await printed(kept, "show", runId, "--json")));
    const { run } = shown;
    if (status !== "input_required") expect([runId, run.durationMs]).toEqual([runId, durationMs]);
    else {
      expect(durationMs).toBeGreaterThan(60_000);
      expect(Math.abs(Date.now() - run.startedAtMs - run.durationMs)).toBeLessThan(60_000);
      expect(Math.abs(run.durationMs - durationMs)).toBeLessThan(60_000);
    }
  }
});

proves(["D600"], "lists a failed run with the code of its error", async () => {
  await using kept = keptRuns();
  const role = agent("solo", [
    { error: new ModelError({ code: "model_unauthorized", message: "Wrong key." }) },
  ]);
  await kept.orchestrator.start(role, "Read.").result;
  expect(await printed(kept, "runs")).toMatch(/failed: model_unauthorized/);
});

proves(["D756"], "shows the code of a call that needs a correction once", async () => {
  await using kept = keptRuns();
  const read = defineTool({
    name: "read",
    description: "Reads.",
    inputSchema: z.object({}),
    execute: () => {
      throw new ToolRetryError("Name a file.");
    },
  });
  const role = agent("solo", [asks("read", {}), says("Done.")], { tools: [read] });
  await new Orchestrator({ store: kept.store }).start(role, "Read.").result;
  const text = await printed(kept, "show", "@last", "solo");
  expect(text).toMatch(/read ✖ needs correction tool_retry \d+ms/u);
});

proves(["D756"], "bounds the remaining budget of a subagent by that of its parent", async () => {
  await using kept = keptRuns();
  const reader = agent("reader", [says("Read.")], { budget: { steps: 5 } });
  const spawn = asks("SpawnSubagent", { role: "reader", task: "Read." });
  const lead = agent("lead", [spawn, says("Done.")], { subagents: [reader] });
  await kept.orchestrator.start(lead, "Read.", { budget: { steps: 9 } }).result;
  const lines = async (path: string): Promise<readonly string[]> =>
    (await printed(kept, "show", "run_1", path))
      .split("\n")
      .filter((line) => line.startsWith("left"));
  expect(await lines("lead")).toEqual(["left: steps 6 of 9"]);
  expect(await lines("lead/reader#1")).toEqual([
    "left (at most what its parent has left): steps 4 of 5",
  ]);
});

proves(
  ["D756"],
  "shows the time until the pause of a paused run, in show and after run",
  async () => {
    await using kept = keptRuns();
    const clock = new ManualClock(Date.UTC(2026, 0, 2));
    const pay = defineTool({
      name: "pay",
      description: "Pays.",
      inputSchema: z.object({}),
      needsApproval: () => {
        clock.advance(5_000);
        return "It is expensive.";
      },
      execute: () => "Paid.",
    });
    const role = agent("buyer", [asks("pay", {})], { tools: [pay] });
    const result = await new Orchestrator({ store: kept.store, clock }).start(role, "Buy.").result;
    const options = { isQuiet: false, isKept: true, command: "espalier", resumeOptions: "" };
    expect(describeSettledRun(result, [], options)[0]).toMatch(
      / paused \(input_required\): .*, 5\.0s$/,
    );
    const text = await printed(kept, "show", result.runId);
    expect(text).toContain("‖ paused after 5.0s  1 agent, 1 paused");
    expect(text).toMatch(/ lasted \d+h \d+m, paused for /);
  },
);
