// Goal: an inactive run continues with more budget, and a run that cannot continue prints its state
// on stdout.
// Method: the command within the test, with a Chat Completions server and an MCP server.

import { rmSync } from "node:fs";
import { join } from "node:path";

import { expect } from "vitest";
import { z } from "zod";

import { temporaryFolder, type TemporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { calls, OpenAiServer, says, status } from "../../support/openai-server.ts";
import { performed, withVariable } from "../../support/cli/performed.ts";

const SERVER_FILE = new URL("../../support/cli/echo-server.ts", import.meta.url).pathname;

/** Starts a run that pauses with a question after the first of its two steps, and needs five. */
async function pausedRun(): Promise<TemporaryFolder> {
  const work = { command: process.execPath, args: [SERVER_FILE] };
  const folder = temporaryFolder({
    "lead.md": "---\nmodel: m\ntools: [work_*]\n---\nWork.\n",
    "mcp.json": JSON.stringify({ mcpServers: { work } }),
  });
  afterwards(() => folder[Symbol.dispose]());
  const server = await OpenAiServer.start((_request, count) => {
    if (count === 1) return calls(["work_data", {}]);
    return count < 5 ? calls(["work_look", { count }]) : says("Done.");
  });
  afterwards(() => server[Symbol.asyncDispose]());
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  const args = ["run", "lead.md", "Go.", "--budget", "steps=2"];
  expect((await performed(args, { cwd: folder.path })).code).toBe(4);
  return folder;
}

proves(["V115"], "resumes a paused run with a grant, which is recorded", async () => {
  const { path: cwd } = await pausedRun();
  expect((await performed(["approve", "@last"], { cwd })).code).toBe(0);
  for (const [amounts, words] of [
    ["steps=x", "Expected steps in --grant to be a whole number"],
    ["dollars=1", "Expected --grant to have parts such as cost=1"],
    ["steps=0", "a budget with at least one amount above 0"],
    ["tool-calls=1", "has no own limit on this axis"],
  ] as const) {
    const wrong = await performed(["resume", "@last", "--grant", amounts], { cwd });
    expect([wrong.code, wrong.stdout], amounts).toEqual([2, ""]);
    expect(wrong.stderr).toContain(words);
  }
  const resumed = await performed(["resume", "@last", "--grant", "steps=3,time=1m"], { cwd });
  expect([resumed.code, resumed.stdout]).toEqual([0, "Done.\n"]);
  const { stdout } = await performed(["tail", "@last", "--events"], { cwd });
  const granted = stdout.split("\n").filter((line) => line.includes('"budget.granted"'));
  expect(granted.map((line): unknown => JSON.parse(line))).toMatchObject([
    { by: "espalier resume", budget: { steps: 3, timeMs: 60_000 } },
  ]);
});

proves(
  ["V115", "D287", "D755"],
  "stops at the limit without a grant and reports how to continue",
  async () => {
    const { path: cwd } = await pausedRun();
    expect((await performed(["approve", "@last"], { cwd })).code).toBe(0);
    const stopped = await performed(["resume", "@last"], { cwd });
    expect([stopped.code, stopped.stdout]).toEqual([3, ""]);
    const [, runId = ""] =
      /^Raise its limits: espalier resume (\S+) --grant steps=20$/m.exec(stopped.stderr) ?? [];
    const ended = await performed(["resume", "@last"], { cwd });
    expect([ended.code, ended.stdout, ended.stderr]).toEqual([
      2,
      "",
      `Cannot resume ${runId}: it has ended: stopped (step_limit). Raise its limits: espalier resume ${runId} --grant steps=20 [usage]\n`,
    ]);
    const more = await performed(["resume", runId, "--grant", "steps=20"], { cwd });
    expect([more.code, more.stdout]).toEqual([0, "Done.\n"]);
    // An ended run needs no roles.
    rmSync(join(cwd, "lead.md"));
    expect((await performed(["resume", "@last"], { cwd })).stderr).toBe(
      `Cannot resume ${runId}: it has ended: completed (completed). See it: espalier show ${runId} [usage]\n`,
    );
  },
);

const WaitingSchema = z.object({
  runId: z.string(),
  status: z.literal("paused"),
  questions: z.tuple([z.looseObject({ toolName: z.literal("work_data") })]),
});

proves(["D499"], "refuses a grant for a run that no limit stopped as wrong use", async () => {
  const folder = temporaryFolder({ "lead.md": "---\nmodel: m\n---\nWork.\n" });
  afterwards(() => folder[Symbol.dispose]());
  const server = await OpenAiServer.start(() => status(401));
  afterwards(() => server[Symbol.asyncDispose]());
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  const at = { cwd: folder.path };
  expect((await performed(["run", "lead.md", "Go."], at)).code).toBe(1);
  const { code, stderr } = await performed(["resume", "@last", "--grant", "steps=3"], at);
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(
      /^Cannot resume \S+: it has ended: failed \(error\)\. See it: espalier show \S+ \[usage\]\n$/u,
    ),
  ]);
});

proves(
  ["V41"],
  "prints one JSON object for resume --json of a run that waits for answers",
  async () => {
    const { path: cwd } = await pausedRun();
    const { code, stdout } = await performed(["resume", "@last", "--json"], { cwd });
    expect(code).toBe(4);
    expect(WaitingSchema.safeParse(JSON.parse(stdout)).success).toBe(true);
  },
);
