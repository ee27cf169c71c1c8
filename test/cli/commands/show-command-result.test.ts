// Goal: show and tail print the result of a run.
// Method: the command within the test, on a store with ended runs.

import { expect } from "vitest";
import { z } from "zod";

import { asks, says } from "espalier/testing";

import { proves } from "../../harness/proves.ts";
import { agent, fourRuns, keptRuns } from "../../support/cli/kept-runs.ts";
import { performed } from "../../support/cli/performed.ts";

proves(["D527"], "ends show and tail with the text of the run", async () => {
  await using kept = keptRuns();
  const [runId = ""] = await fourRuns(kept);
  const options = { cwd: kept.folder };
  const shown = await performed(["show", runId, "--store", kept.path], options);
  expect(shown.stdout).toMatch(/\n\nResult\nAll is well\.\n$/u);
  const tailed = await performed(["tail", runId, "--store", kept.path], options);
  expect(tailed.stdout).toMatch(/\nAll is well\.\n$/u);
  const asJson = await performed(["show", runId, "--json", "--store", kept.path], options);
  expect(JSON.parse(asJson.stdout)).toMatchObject({ text: "All is well." });
});

proves(["D527"], "ends show and tail with the typed result as JSON", async () => {
  await using kept = keptRuns();
  const role = agent("judge", [asks("Finish", { verdict: "good" }), says("Never.")], {
    output: z.object({ verdict: z.string() }),
  });
  const { runId } = await kept.orchestrator.start(role, "Judge.").result;
  for (const command of ["show", "tail"]) {
    const args = [command, runId, "--store", kept.path];
    const { stdout } = await performed(args, { cwd: kept.folder });
    expect(stdout).toMatch(/\n\{\n {2}"verdict": "good"\n\}\n$/u);
  }
});

proves(["D527"], "prints no result of a paused run, with --errors or among events", async () => {
  await using kept = keptRuns();
  const [done = "", , , waits = ""] = await fourRuns(kept);
  const paused = await performed(["show", waits, "--store", kept.path], { cwd: kept.folder });
  expect(paused.stdout).not.toContain("Result");
  const errors = ["show", done, "--errors", "--store", kept.path];
  expect((await performed(errors, { cwd: kept.folder })).stdout).not.toContain("Result");
  const events = await performed(["tail", done, "--events", "--store", kept.path], {
    cwd: kept.folder,
  });
  for (const line of events.stdout.trim().split("\n")) expect(line).toMatch(/^\{"seq"/u);
});
