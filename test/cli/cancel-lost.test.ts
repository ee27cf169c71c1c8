// Goal: `espalier cancel` ends a run whose process has died, although the store still names that process as its owner.
// Method: a paused run is claimed for a process that is gone; the command has the role file.

import { spawnSync } from "node:child_process";
import { hostname } from "node:os";

import { says } from "espalier/testing";
import { expect } from "vitest";

import { temporaryFolder } from "../examples/temporary-folder.ts";
import { proves } from "../harness/proves.ts";
import { agent, keptRuns } from "./kept-runs.ts";
import { performed, withVariable } from "./performed.ts";

proves(["D498"], "cancels a run whose process has died, with the roles at hand", async () => {
  withVariable("OPENAI_API_KEY", "unused");
  await using kept = keptRuns();
  using folder = temporaryFolder({ "lead.md": "---\nmodel: some-model\n---\nWork.\n" });
  const run = kept.orchestrator.start(agent("lead", [says("Done.")]), "Wait.");
  run.requestPause();
  const { runId } = await run.result;
  const { pid: processId } = spawnSync(process.execPath, ["--version"]);
  const owner = { token: "dead", hostname: hostname(), processId };
  await kept.store.claim(runId, { owner, staleAfterMs: 30_000 });
  const { code, stderr } = await performed(["cancel", runId, "--store", kept.path], {
    cwd: folder.path,
  });
  expect([code, stderr]).toEqual([0, `Cancelled ${runId}.\n`]);
});
