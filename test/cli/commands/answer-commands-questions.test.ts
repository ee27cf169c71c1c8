// Goal: a person names a question briefly.
// Method: the command within the test, on a store with runs that ask.

import { expect, test } from "vitest";
import { z } from "zod";

import { defineTool, withApproval, Orchestrator } from "espalier";
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

/** Returns the codes in the list of questions, by the amounts of the questions. */
async function codes(kept: KeptRuns): Promise<Readonly<Record<string, string>>> {
  const { stdout } = await command(kept, "questions");
  const listed = stdout.matchAll(/^([\da-f]{6}) \? .*\n(?: .*\n)*? {2}\{"eur":(\d)\}$/gmu);
  return Object.fromEntries([...listed].map(([, code = "", eur = ""]) => [eur, code]));
}

proves(["D530"], "answers the question with the code in the list", async () => {
  await using kept = keptRuns();
  await startAsking(kept, 1, 2, 3);
  const known = await codes(kept);
  expect([Object.keys(known), new Set(Object.values(known)).size]).toEqual([["1", "2", "3"], 3]);
  const second = await command(kept, "approve", known["2"] ?? "");
  expect([second.code, second.stderr]).toEqual([0, expect.stringContaining('pay {"eur":2}')]);
});

proves(
  ["D619"],
  "keeps the code of each question, also if an older run asks again or ends",
  async () => {
    await using kept = keptRuns();
    const again = [
      { calls: [1, 2].map((eur) => ({ toolName: "pay", arguments: { eur } })) },
      { calls: [{ toolName: "pay", arguments: { eur: 3 } }] },
      says("Done."),
    ];
    const role = agent("buyer", again, { tools: [pay] });
    const { runId } = await kept.orchestrator.start(role, "Buy.").result;
    await startAsking(kept, 4);
    const { "1": first = "", "2": second = "", "4": fourth = "" } = await codes(kept);
    await command(kept, "approve", first);
    expect(await codes(kept)).toEqual({ "2": second, "4": fourth });
    await command(kept, "approve", second);
    const orchestrator = new Orchestrator({ store: kept.store, roles: [role] });
    await (
      await orchestrator.resume(runId)
    ).result;
    const { "3": third = "", ...others } = await codes(kept);
    expect([others, third]).toEqual([{ "4": fourth }, expect.stringMatching(/^[\da-f]{6}$/u)]);
    for (const answered of [first, second]) {
      const refused = await command(kept, "approve", answered);
      expect([refused.code, refused.stderr]).toEqual([
        2,
        expect.stringContaining("No open question matches"),
      ]);
    }
    await command(kept, "cancel", runId);
    expect(await codes(kept)).toEqual({ "4": fourth });
    const last = await command(kept, "deny", fourth, "--reason", "No.");
    expect([last.code, last.stderr]).toEqual([0, expect.stringContaining('pay {"eur":4}')]);
  },
);

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

test("refuses arguments that no store can persist, and quotes their beginning", async () => {
  await using kept = keptRuns();
  await startAsking(kept, 1);
  const deep = "[".repeat(5_000) + "]".repeat(5_000);
  for (const eur of ["1e999", deep]) {
    const wrong = await command(kept, "approve", "@last", "--arguments", `{"eur":${eur}}`);
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toMatch(
      /^Expected --arguments to be a JSON object, .{1,400} \[usage\]\n$/u,
    );
  }
  expect((await command(kept, "approve", "@last")).code).toBe(0);
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

proves(["D530"], "lists the codes if @last asks several questions", async () => {
  await using kept = keptRuns();
  await startAsking(kept, 1, 2);
  const { "1": first = "", "2": second = "" } = await codes(kept);
  const { code, stderr } = await command(kept, "deny", "@last");
  expect([code, stderr]).toEqual([
    2,
    `"@last" is ambiguous: it matches 2 questions: ${first} (pay {"eur":1}), ${second} (pay {"eur":2}). Use the code of one. [usage]\n`,
  ]);
});
