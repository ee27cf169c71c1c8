// Goal: a user who watches the list of runs sees its changes in place until leaving.
// Method: the command at a terminal in memory, over a store in which a run is held at a gate
// meanwhile.

import { stripVTControlCharacters } from "node:util";

import { expect } from "vitest";

import { performArguments } from "../../../src/cli/perform-arguments.ts";
import { says } from "../../../src/testing/index.ts";
import { proves } from "../../harness/proves.ts";
import { latch } from "../../harness/run-scripted.ts";
import { FakeShell } from "../../support/cli/fake-shell.ts";
import { agent, fourRuns, keptRuns } from "../../support/cli/kept-runs.ts";
import { performed } from "../../support/cli/performed.ts";

proves(["V135"], "redraws a watched list when runs change, and ends on Ctrl-C", async () => {
  await using kept = keptRuns();
  await kept.orchestrator.start(agent("lead", [says("Hello.")]), "Greet.").result;
  const shell = atScreen(kept.folder, { columns: 100, rows: 20 });
  const watched = performArguments(["runs", "--watch", "--store", kept.path], shell);
  await shows(shell, /^done \(1\)[^\n]*\nrun_1 [^\n]*lead: Greet\.\n$/);
  const { opened, open } = latch();
  const run = kept.orchestrator.start(agent("lead", [says("Done.", { after: opened })]), "Wait.");
  await shows(shell, /^working \(1\)[^\n]*\nrun_2 [^\n]*lead: Wait\.\n\ndone \(1\)[^\n]*\nrun_1 /);
  open();
  await run.result;
  await shows(
    shell,
    /^done \(2\)[^\n]*\nrun_2 [^\n]*✔ completed[^\n]*lead: Wait\.\nrun_1 [^\n]*\n$/,
  );
  expect(shell.signal("SIGINT")).toBe(undefined);
  expect(await watched).toBe(130);
  expect(shell.written.stdout.endsWith("\u001b[?25h"), "the cursor is there again").toBe(true);
  expect(shell.written.stderr).toBe("");
});

proves(
  ["V135"],
  "shows the top of a list that exceeds the terminal, and how many lines are missing",
  async () => {
    await using kept = keptRuns();
    await fourRuns(kept);
    const shell = atScreen(kept.folder, { columns: 100, rows: 5 });
    const watched = performArguments(["runs", "--watch", "--store", kept.path], shell);
    await shows(shell, /^to do \(1\)[^\n]*\nrun_4[^\n]*\n\n… 4 more lines\n$/);
    shell.signal("SIGINT");
    expect(await watched).toBe(130);
  },
);

proves(["V135"], "refuses --watch without a terminal or with --json", async () => {
  await using kept = keptRuns();
  const elsewhere = await performed(["runs", "--watch", "--store", kept.path], {
    cwd: kept.folder,
  });
  expect([elsewhere.code, elsewhere.stdout, elsewhere.stderr.trim()]).toEqual([
    2,
    "",
    `${REFUSED} [usage]`,
  ]);
  const shell = atScreen(kept.folder, { columns: 100, rows: 5 });
  expect(await performArguments(["runs", "--watch", "--json"], shell)).toBe(2);
  const error = { code: "usage", message: REFUSED };
  expect(JSON.parse(shell.written.stdout)).toEqual({ error });
  expect(shell.written.stderr.trim()).toBe(`${REFUSED} [usage]`);
});

const REFUSED =
  "--watch needs a terminal and excludes --json. In a program, poll the list or use espalier tail <run> --events.";

/** A shell whose output is a screen. */
function atScreen(
  cwd: string,
  size: { readonly columns: number; readonly rows: number },
): FakeShell {
  const shell = new FakeShell(cwd, { NO_COLOR: "1" });
  Object.assign(shell.stdout, { isTTY: true, ...size });
  return shell;
}

/** Resolves once the screen shows only this; overwritten text is gone. */
async function shows(shell: FakeShell, what: RegExp): Promise<void> {
  while (!what.test(screenOf(shell.written.stdout)))
    await new Promise((resolve) => setImmediate(resolve));
}

/** Returns the last frame: each frame begins by moving to where the one before began. */
function screenOf(written: string): string {
  const frame = written.split("\r").at(-1) ?? "";
  return stripVTControlCharacters(frame);
}
