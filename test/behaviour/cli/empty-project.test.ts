// Goal: listing commands work in a project without runs.
// Method: the command within the test, in an empty folder.

import { existsSync } from "node:fs";
import { join } from "node:path";

import { expect } from "vitest";

import { buildCommandTree } from "../../../src/cli/command-tree.ts";
import { STATUSES, formatRunList } from "../../../src/cli/run-text.ts";
import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { performed } from "../../support/cli/performed.ts";

function emptyFolder(): string {
  const folder = temporaryFolder({});
  afterwards(() => folder[Symbol.dispose]());
  return folder.path;
}

proves(["D525"], "lists nothing in an empty project and exits with 0", async () => {
  const cwd = emptyFolder();
  for (const [args, json] of [
    [["runs"], { runs: [] }],
    [["questions"], { questions: [] }],
    [["show"], { runs: [] }],
    [["show", "@last"], { runs: [] }],
  ] as const) {
    const asJson = await performed([...args, "--json"], { cwd });
    expect([args, asJson.code, JSON.parse(asJson.stdout)]).toEqual([args, 0, json]);
    const asText = await performed(args, { cwd });
    expect([args, asText.code, asText.stdout]).toEqual([args, 0, ""]);
    expect(asText.stderr).toContain("No run");
  }
  expect(existsSync(join(cwd, ".espalier"))).toBe(false);
});

const WAYS_TO_NAME_STORE =
  "name your store: --store desk.db, ESPALIER_STORE, or `store` in espalier.config.ts";

proves(["D755"], "names both remedies if the default store has no runs", async () => {
  const cwd = emptyFolder();
  const text = `No runs in ${join(cwd, ".espalier", "runs.db")}. Start one: espalier run …, or ${WAYS_TO_NAME_STORE}.\n`;
  for (const args of [["runs"], ["show"]])
    expect((await performed(args, { cwd })).stderr).toBe(text);
  const { stderr } = await performed(["resume", "@last"], { cwd });
  expect(stderr).toContain(`no such file. Start a run: espalier run …, or ${WAYS_TO_NAME_STORE}.`);
});

proves(["D755"], "names the configuration for a role that is defined in code", async () => {
  const { stderr } = await performed(["run", "clerk", "Go."], { cwd: emptyFolder() });
  expect(stderr).toContain(
    "Create role files: espalier init. Or list the role of a program in `roles` of espalier.config.ts.",
  );
});

proves(["D525"], "refuses a missing store named by --store", async () => {
  const { code, stderr } = await performed(["runs", "--store", "x.db"], { cwd: emptyFolder() });
  expect([code, stderr]).toEqual([2, expect.stringContaining("no such file")]);
});

proves(["D526"], "refuses an invalid port, even without a viewer", async () => {
  const cwd = emptyFolder();
  for (const args of [
    ["demo", "--port", "abc"],
    ["run", "lead.md", "Go.", "--port", "70000"],
  ]) {
    const { code, stderr } = await performed(args, { cwd });
    expect([code, stderr]).toEqual([2, expect.stringContaining("Expected --port")]);
  }
});

proves(["D526"], "lists every status in the help of runs, and groups the commands", () => {
  const tree = buildCommandTree(() => async () => {});
  const runs = tree.commands.find((command) => command.name() === "runs");
  for (const status of STATUSES) expect(runs?.helpInformation()).toContain(status);
  const help = tree.helpInformation();
  const groups = [...help.matchAll(/^(\S.*):$/gmu)].map(([, title]) => title);
  expect(groups).toEqual([
    "Options",
    "Run agents",
    "Inspect runs",
    "Answer and continue runs",
    "Set up a project",
    "Commands",
  ]);
});

proves(["D526"], "keeps the task of a run at 80 columns", () => {
  const row = {
    runId: RunIdSchema().parse("run_6-eHS5s2qSnieERFL5qLs"),
    title: "lead: Compare the three drafts.",
    status: "stopped",
    reason: { code: "step_limit", message: "" },
    createdAtMs: 0,
    updatedAtMs: 0,
    owner: null,
    spent: { totalTokens: 1_234_567, costUsd: 1.234567, unpricedCalls: 0 },
    agentCount: 12,
    failedAgents: 3,
    durationMs: 754_000,
  } as const;
  const text = formatRunList([row], { nowMs: 3_600_000, width: 80, hasColor: false });
  expect(text).toContain("lead: Compare");
  for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
});

proves(["D756"], "lists an answered run that nobody resumed as waiting to be resumed", () => {
  const row = {
    runId: RunIdSchema().parse("run_1"),
    title: "clerk: Mail it.",
    status: "waiting",
    reason: { code: "input_required", message: "" },
    createdAtMs: 0,
    updatedAtMs: 0,
    owner: null,
  } as const;
  const text = formatRunList([row], { nowMs: 0, width: 100, hasColor: false });
  expect(text).toContain("… waiting: answered, resume it");
});
