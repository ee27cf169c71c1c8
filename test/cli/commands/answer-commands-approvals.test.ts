// Goal: no call is approved unseen.
// Method: the command within the test, on a store with a run that asks; at a terminal with typed
// keys.

import { expect } from "vitest";

import { readOpenQuestions } from "../../../src/cli/stored-run-reader.ts";
import { performArguments } from "../../../src/cli/perform-arguments.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import { proves } from "../../harness/proves.ts";
import { atTerminal, FakeShell, seenIn } from "../../support/cli/fake-shell.ts";
import { fourRuns, keptRuns, type KeptRuns } from "../../support/cli/kept-runs.ts";
import { performed } from "../../support/cli/performed.ts";

const CALL = ['buyer asks: pay {"eur":400}', "  It is more than 100 EUR."];
const DONE = [
  "buyer: pay is approved.",
  "Resume the run: espalier --store runs.db resume run_4",
  "",
];
const ASKED = "May it run?";

async function asking(): Promise<KeptRuns & { readonly runId: RunId; readonly args: string[] }> {
  const kept = keptRuns();
  const runId = (await fourRuns(kept))[3];
  if (runId === undefined) throw new Error("There is no such run.");
  return { ...kept, runId, args: ["approve", runId, "--store", "runs.db"] };
}

/** Returns the number of open questions. */
async function open({ store, runId }: Awaited<ReturnType<typeof asking>>): Promise<number> {
  return (await readOpenQuestions(store, runId)).length;
}

proves(
  ["V155"],
  "prints the call and approves it without asking if there is no terminal",
  async () => {
    await using kept = await asking();
    const said = await performed(kept.args, { cwd: kept.folder });
    expect(said).toEqual({ code: 0, stdout: "", stderr: [...CALL, ...DONE].join("\n") });
    expect(await open(kept)).toBe(0);
  },
);

proves(["V155"], "prints the call only in the JSON object with --json", async () => {
  await using kept = await asking();
  const args = [...kept.args, "--json", "--arguments", '{"eur":40}'];
  const { code, stdout, stderr } = await performed(args, { cwd: kept.folder });
  expect([code, stderr, JSON.parse(stdout)]).toEqual([
    0,
    "",
    {
      runId: "run_4",
      questionId: expect.any(String) as unknown,
      agentPath: "buyer",
      toolName: "pay",
      arguments: { eur: 40 },
      answer: "approved",
      openQuestions: [],
    },
  ]);
});

proves(["D758"], "records the name of --by with the answer, or else the login name", async () => {
  for (const [env, more, by] of [
    [{ USER: "ada" }, [], "ada"],
    [{ LOGNAME: "ada" }, ["--by", "ben@example.com"], "ben@example.com"],
  ] as const) {
    await using kept = await asking();
    const at = { cwd: kept.folder, env };
    const { code, stderr } = await performed([...kept.args, ...more], at);
    expect([code, stderr]).toEqual([
      0,
      [...CALL, `buyer: pay is approved by ${by}.`, ...DONE.slice(1)].join("\n"),
    ]);
    const [mail] = await kept.store.readMail(kept.runId);
    expect(JSON.parse(mail?.body ?? "")).toMatchObject({ answer: { type: "approved", by } });
  }
});

proves(["V155"], "prints the call for a denial without asking", async () => {
  await using kept = await asking();
  const shell = new FakeShell(kept.folder);
  atTerminal(shell);
  expect(await performArguments(["deny", ...kept.args.slice(1)], shell)).toBe(0);
  expect(shell.written.stderr).toBe(
    [...CALL, "buyer: pay is denied.", ...DONE.slice(1)].join("\n"),
  );
});

proves(
  ["V155"],
  "asks at a terminal after printing the call, and treats Enter alone as no",
  async () => {
    await using kept = await asking();
    for (const [keys, code, left] of [
      ["\r", 4, 1],
      ["\u0003", 4, 1],
      ["y", 0, 0],
    ] as const) {
      const shell = new FakeShell(kept.folder);
      atTerminal(shell);
      const ended = performArguments(kept.args, shell);
      await seenIn(shell, ASKED);
      expect(shell.written.stderr).toContain(CALL.join("\n"));
      expect(await open(kept)).toBe(1);
      shell.stdin.write(keys);
      expect([await ended, await open(kept)]).toEqual([code, left]);
      expect(shell.written.stderr).toContain(left === 1 ? "No question was answered." : DONE[0]);
    }
  },
);

proves(["V155"], "does not ask with --yes", async () => {
  await using kept = await asking();
  const shell = new FakeShell(kept.folder);
  atTerminal(shell);
  expect(await performArguments([...kept.args, "--yes"], shell)).toBe(0);
  expect(shell.written.stderr).toBe([...CALL, ...DONE].join("\n"));
});
