// Goal: a person names a question briefly.
// Method: the command within the test, on a store with runs that ask.

import { expect, test } from "vitest";
import { z } from "zod";

import { defineTool, withApproval } from "espalier";
import { asks, says } from "espalier/testing";

import { proves } from "../../harness/proves.ts";
import { agent, keptRuns, type KeptRuns } from "../../support/cli/kept-runs.ts";
import { performed } from "../../support/cli/performed.ts";

const pay = defineTool({
  name: "pay",
  description: "Pays.",
  inputSchema: z.object({ eur: z.number() }),
  needsApproval: true,
  execute: () => "Paid.",
});

/** Starts a run that asks about each amount. */
async function startAsking(kept: KeptRuns, ...amounts: readonly number[]): Promise<void> {
  const calls = amounts.map((eur) => ({ toolName: "pay", arguments: { eur } }));
  const role = agent("buyer", [{ calls }, says("Done.")], { tools: [pay] });
  await kept.orchestrator.start(role, "Buy.").result;
}

const command = async (kept: KeptRuns, ...args: readonly string[]) =>
  await performed([...args, "--store", kept.path], { cwd: kept.folder });

proves(["D530"], "answers the question with the number in the list", async () => {
  await using kept = keptRuns();
  await startAsking(kept, 1, 2, 3);
  const { stdout } = await command(kept, "questions");
  expect([...stdout.matchAll(/^(\d)\. \? /gmu)].map(([, number]) => number)).toEqual([
    "1",
    "2",
    "3",
  ]);
  const second = await command(kept, "approve", "2");
  expect([second.code, second.stderr]).toEqual([0, expect.stringContaining('pay {"eur":2}')]);
});

proves(["D804"], "indents every line of a task and a reason in the list", async () => {
  await using kept = keptRuns();
  const tools = [withApproval(pay, { reason: "Large.\nNot yet paid." })];
  const role = agent("buyer", [asks("pay", { eur: 1 })], { tools });
  const { runId } = await kept.orchestrator.start(role, "Buy:\n- pears\n- plums").result;
  const { stdout } = await command(kept, "questions");
  expect(stdout.split("\n").slice(1, 7)).toEqual([
    `  run ${runId}  buyer: Buy:`,
    "  - pears",
    "  - plums",
    '  {"eur":1}',
    "  Large.",
    "  Not yet paid.",
  ]);
});

proves(["D619"], "keeps the number of each question after others are answered", async () => {
  await using kept = keptRuns();
  await startAsking(kept, 1, 2, 3);
  await startAsking(kept, 4);
  const numbers = async () => {
    const { stdout } = await command(kept, "questions");
    const amounts = [...stdout.matchAll(/^  \{"eur":(\d)\}/gmu)].map(([, eur]) => eur);
    return [...stdout.matchAll(/^(\d)\. \? /gmu)].map(([, number], at) => [number, amounts[at]]);
  };
  const all = [1, 2, 3, 4].map((one) => [`${one}`, `${one}`]);
  expect(await numbers()).toEqual(all);
  await command(kept, "approve", "2");
  expect(await numbers()).toEqual(all.filter(([number]) => number !== "2"));
  const again = await command(kept, "deny", "2");
  expect([again.code, again.stderr]).toEqual([
    2,
    expect.stringContaining("No open question matches"),
  ]);
  const third = await command(kept, "deny", "3", "--reason", "No.");
  expect([third.code, third.stderr]).toEqual([0, expect.stringContaining('pay {"eur":3}')]);
  await command(kept, "approve", "1");
  await startAsking(kept, 5);
  expect(await numbers()).toEqual([
    ["4", "4"],
    ["5", "5"],
  ]);
});

test("refuses arguments that no store can persist, and quotes their beginning", async () => {
  await using kept = keptRuns();
  await startAsking(kept, 1);
  const deep = "[".repeat(5_000) + "]".repeat(5_000);
  for (const eur of ["1e999", deep]) {
    const wrong = await command(kept, "approve", "1", "--arguments", `{"eur":${eur}}`);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(
      /^Expected --arguments to be a JSON object, .{1,400} \[usage\]\n$/u,
    );
  }
  expect((await command(kept, "approve", "1")).code).toBe(0);
});

test("names the command that shows an ended run when its cancellation is refused", async () => {
  await using kept = keptRuns();
  await kept.orchestrator.start(agent("lead", [says("Well.")]), "Greet.").result;
  const { code, stderr } = await command(kept, "cancel", "run_1");
  expect([code, stderr]).toEqual([
    2,
    `Cannot cancel run_1: it has ended. See it: espalier --store ${kept.path} show run_1 [run_ended]\n`,
  ]);
});

proves(
  ["D530"],
  "resolves @last to the newest run that asks, even behind one that does not",
  async () => {
    await using kept = keptRuns();
    await startAsking(kept, 7);
    await kept.orchestrator.start(agent("lead", [says("Well.")]), "Greet.").result;
    const { code, stderr } = await command(kept, "approve", "@last");
    expect([code, stderr]).toEqual([0, expect.stringContaining('pay {"eur":7}')]);
  },
);

proves(["D530"], "lists the numbers if @last asks several questions", async () => {
  await using kept = keptRuns();
  await startAsking(kept, 1, 2);
  const { code, stderr } = await command(kept, "deny", "@last");
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /is ambiguous: it matches 2 questions: 1 \(.*\), 2 \(.*\)\. Use the number of one\./u,
  );
});
