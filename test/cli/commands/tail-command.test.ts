// Goal: a user who follows a run sees past and new events, and how it ended.
// Method: ended runs, and one that is held at a gate while it is followed.

import { expect, test } from "vitest";
import { z } from "zod";

import { performArguments } from "../../../src/cli/perform-arguments.ts";
import { says } from "../../../src/testing/index.ts";
import { proves } from "../../harness/proves.ts";
import { latch } from "../../harness/run-scripted.ts";
import { FakeShell } from "../../support/cli/fake-shell.ts";
import { agent, fourRuns, keptRuns } from "../../support/cli/kept-runs.ts";
import { performed } from "../../support/cli/performed.ts";

proves(["V28"], "prints the events of an inactive run and exits with its code", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const tail = (...args: readonly string[]) =>
    performed(["tail", ...args, "--store", kept.path], { cwd: kept.folder });
  const failed = await tail("run_2");
  expect([failed.code, failed.stderr]).toEqual([1, ""]);
  expect(`\n${failed.stdout}`).toMatchInlineSnapshot(`
      "
          0ms  lead started: Audit the code.
          0ms  lead/reader#1 started: Read the docs.
          0ms  lead/reader#1 read failed (tool_error): ENOENT
          0ms  lead/reader#1 step 1: 15 tokens, cost unknown, 1 tool call
          0ms  lead/reader#1 step 2: 0 tokens, cost unknown
          0ms  lead/reader#1 failed (error: Wrong key.): 2 steps, 15 tokens, cost unknown, 0ms
          0ms  lead step 1: 15 tokens, cost unknown, 1 tool call
          0ms  lead step 2: 0 tokens, cost unknown
          0ms  lead failed (error: Wrong key.): 2 steps, 15 tokens, cost unknown, subtree 30 tokens, cost unknown, 0ms
      "
    `);
  const codes = await Promise.all(["run_1", "run_3", "run_4"].map((run) => tail(run)));
  expect(codes.map(({ code }) => code)).toEqual([0, 3, 4]);
  expect((await tail("run_2", "--agent", "lead/reader#1")).stdout.split("\n")).toEqual(
    failed.stdout.split("\n").filter((line) => line === "" || line.includes("reader#1")),
  );
  const events = await tail("run_2", "--events", "--from", "3");
  const numbers = events.stdout.trimEnd().split("\n").map(numberIn);
  const last = numbers.at(-1) ?? 0;
  expect(numbers).toEqual(Array.from({ length: last - 2 }, (_none, index) => index + 3));
  expect(last).toBeGreaterThan(20);
});

proves(["V28"], "follows a run of another process until it ends", async () => {
  await using kept = keptRuns();
  const { opened, open } = latch();
  const run = kept.orchestrator.start(agent("lead", [says("Done.", { after: opened })]), "Wait.");
  for await (const { type } of run.events()) if (type === "model.requested") break;
  await run.whenPersisted();
  const shell = new FakeShell(kept.folder);
  const tailed = performArguments(["tail", run.runId, "--store", kept.path], shell);
  await written(shell, "started: Wait.");
  expect(shell.written.stdout).not.toContain("completed");
  open();
  await run.result;
  const code = await tailed;
  const { stdout } = shell.written;
  expect([code, stdout.match(/started/g)?.length, stdout.match(/completed/g)?.length]).toEqual([
    0, 1, 1,
  ]);
});

test("refuses the path of an agent that the run does not have", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const args = ["tail", "run_2", "--agent", "nobody", "--store", kept.path];
  const { code, stdout, stderr } = await performed(args, { cwd: kept.folder });
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^Expected --agent to be the path of an agent \(lead, .*got "nobody"\./u);
});

test("does not affect the run on Ctrl-C", async () => {
  await using kept = keptRuns();
  const { opened, open } = latch();
  const run = kept.orchestrator.start(agent("lead", [says("Done.", { after: opened })]), "Wait.");
  for await (const { type } of run.events()) if (type === "model.requested") break;
  await run.whenPersisted();
  const shell = new FakeShell(kept.folder);
  const tailed = performArguments(["tail", run.runId, "--store", kept.path], shell);
  await written(shell, "started: Wait.");
  expect(shell.signal("SIGINT")).toBe(130);
  open();
  expect((await run.result).status).toBe("completed");
  await tailed;
});

function numberIn(line: string): number {
  return z.object({ seq: z.number() }).parse(JSON.parse(line)).seq;
}

/** Resolves once the command has printed it. */
async function written(shell: FakeShell, text: string): Promise<void> {
  while (!shell.written.stdout.includes(text))
    await new Promise((resolve) => setImmediate(resolve));
}
