// Goal: commands at the borders of what they can be given: no name, no runs, stores that are none or of another release, lists that are cut.
// Method: the command within the test.

import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect } from "vitest";

import { proves } from "../harness/proves.ts";
import { says } from "../../src/testing/index.ts";
import { agent, fourRuns, keptRuns } from "./kept-runs.ts";
import { performed } from "./performed.ts";

proves(["V43"], "no name is the name of no run, also where there is one alone", async () => {
  await using kept = keptRuns();
  await kept.orchestrator.start(agent("lead", [says("Done.")]), "Go.").result;
  const at = { cwd: kept.folder };
  for (const command of ["show", "tail", "cancel", "resume", "view"]) {
    const { code, stdout, stderr } = await performed([command, "", "--store", kept.path], at);
    expect([code, stdout], command).toEqual([2, ""]);
    expect(stderr).toContain('got "", which no run has');
  }
});
