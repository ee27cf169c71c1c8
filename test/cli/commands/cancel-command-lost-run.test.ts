// Goal: `espalier cancel` ends a run whose process has crashed, although the store still names that
// process as its owner.
// Method: a paused run is claimed for a process that is gone; the command has the role file.

import { spawnSync } from "node:child_process";
import { hostname } from "node:os";

import { asks, says, ScriptedModel } from "espalier/testing";
import { defineTool, type Run, type RunId } from "espalier";
import { expect } from "vitest";
import { z } from "zod";

import { parseId } from "../../../src/protocol/ids.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { proves } from "../../harness/proves.ts";
import { crowd, writtenRun } from "../../support/viewer-server/written-runs.ts";
import { agent, keptRuns, type KeptRuns } from "../../support/cli/kept-runs.ts";
import { performed, withVariable } from "../../support/cli/performed.ts";

/** Returns a paused run whose owner in the store is a process that is gone. */
async function createLostRun(kept: KeptRuns, run: Run, code?: "input_required"): Promise<RunId> {
  if (code === undefined) run.requestPause();
  const { runId, reason } = await run.result;
  if (code !== undefined) expect(reason.code).toBe(code);
  return await claimByDeadProcess(kept, runId);
}

async function claimByDeadProcess(kept: KeptRuns, runId: RunId): Promise<RunId> {
  const { pid: processId } = spawnSync(process.execPath, ["--version"]);
  const owner = { token: "dead", hostname: hostname(), processId };
  await kept.store.claim(runId, { owner, staleAfterMs: 30_000 });
  return runId;
}

proves(["D498"], "cancels a run whose process has crashed, with the available roles", async () => {
  withVariable("OPENAI_API_KEY", "unused");
  await using kept = keptRuns();
  using folder = temporaryFolder({ "lead.md": "---\nmodel: some-model\n---\nWork.\n" });
  const lead = agent("lead", [says("Done.")]);
  const runId = await createLostRun(kept, kept.orchestrator.start(lead, "Wait."));
  const { code, stderr } = await performed(["cancel", runId, "--store", kept.path], {
    cwd: folder.path,
  });
  expect([code, stderr]).toEqual([0, `Cancelled ${runId}.\n`]);
});

proves(["D498"], "cancels a run whose process has crashed, without its roles", async () => {
  await using kept = keptRuns();
  using folder = temporaryFolder({});
  const lead = agent("lead", [says("Done.")]);
  const runId = await createLostRun(kept, kept.orchestrator.start(lead, "Wait."));
  const at = { cwd: folder.path };
  const args = ["cancel", runId, "--reason", "Enough.", "--store", kept.path];
  expect(await performed(args, at)).toEqual({
    code: 0,
    stdout: "",
    stderr: `Cancelled ${runId}.\n`,
  });
  const { stdout } = await performed(["show", runId, "--store", kept.path], at);
  expect(stdout.split("\n").slice(0, 3)).toEqual([
    `${runId} ⊘ cancelled`,
    "lead: Wait.",
    "Enough.",
  ]);
});

for (const kind of ["approval", "external"] as const)
  proves(["D498"], `cancels a lost tree whose subagent asked an ${kind} question`, async () => {
    await using kept = keptRuns();
    using folder = temporaryFolder({});
    const definition = { name: "pay", description: "Pays.", inputSchema: z.object({}) };
    const pay =
      kind === "external"
        ? defineTool(definition)
        : defineTool({ ...definition, needsApproval: true, execute: () => "Paid." });
    const buyer = agent("buyer", [asks("pay", {})], { tools: [pay] });
    const spawn = asks("SpawnSubagent", { role: "buyer", task: "Buy pears." });
    const lead = agent("lead", [spawn], { subagents: [buyer] });
    const runId = await createLostRun(
      kept,
      kept.orchestrator.start(lead, "Shop."),
      "input_required",
    );
    const { code, stderr } = await performed(["cancel", runId, "--store", kept.path], {
      cwd: folder.path,
    });
    expect([code, stderr]).toEqual([0, `Cancelled ${runId}.\n`]);
  });

proves(["D526"], "shows the agents of a lost run in their last state", async () => {
  await using kept = keptRuns();
  const lead = agent("lead", [says("Done.")]);
  const runId = await createLostRun(kept, kept.orchestrator.start(lead, "Wait."));
  const at = { cwd: kept.folder };
  const { stdout } = await performed(["show", runId, "--store", kept.path], at);
  expect(stdout).toContain(
    "\n\nThe process of the run has stopped. Each agent is shown as it was then:\n",
  );
  expect(stdout).toMatch(/, without a process for [^·]* of it ·/u);
  expect(stdout).not.toContain("paused for");
});

proves(["D772"], "shows the agents at work in a lost run as lost", async () => {
  await using kept = keptRuns();
  const runId = parseId<"RunId">("crowd");
  const written = await writtenRun(kept.store, runId);
  await written.append(crowd(runId, 1, "Wait.").begin);
  await written.leave();
  await claimByDeadProcess(kept, runId);
  const { stdout } = await performed(["show", runId, "--store", kept.path], { cwd: kept.folder });
  expect(stdout.match(/◌ lost: \w+/gu)).toEqual(["◌ lost: preparing", "◌ lost: preparing"]);
  expect(stdout).toMatch(/^◌ .* {2}2 agents, 2 lost$/mu);
});

proves(["D498"], "records the cancellation of a run that only its roles can end", async () => {
  await using kept = keptRuns();
  using folder = temporaryFolder({});
  const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
  const lead = agent("lead", [], { model: new ScriptedModel([says("Done.")], { price }) });
  const budget = { costUsd: 1 };
  const runId = await createLostRun(kept, kept.orchestrator.start(lead, "Wait.", { budget }));
  const { code, stderr } = await performed(["cancel", runId, "--store", kept.path], {
    cwd: folder.path,
  });
  expect([code, stderr]).toEqual([
    0,
    `Recorded the cancellation of ${runId}. It takes effect when the run is resumed with its roles: espalier --store ${kept.path} resume ${runId}\n`,
  ]);
});
