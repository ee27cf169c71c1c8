// Goal: the command helps a user who guesses: wrong words are refused with the right ones, and
// suggested commands can be pasted.
// Method: the command within the test, in a folder with or without a store.

import { expect, test } from "vitest";
import { z } from "zod";

import { formatOwnCommand } from "../../../src/cli/shell.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { calls, OpenAiServer } from "../../support/openai-server.ts";
import { FakeShell } from "../../support/cli/fake-shell.ts";
import { fourRuns, keptRuns } from "../../support/cli/kept-runs.ts";
import { performed, withVariable } from "../../support/cli/performed.ts";

test("fails with the nearest names on help of an unknown command", async () => {
  using folder = temporaryFolder({});
  expect(await performed(["help", "shaw"], { cwd: folder.path })).toEqual({
    code: 2,
    stdout: "",
    stderr: "Unknown command 'shaw'. Did you mean show? See: espalier --help [usage]\n",
  });
  expect((await performed(["help", "show"], { cwd: folder.path })).code).toBe(0);
});

test("refuses an amount with a second equals sign", async () => {
  using folder = temporaryFolder({});
  const args = ["run", "lead.md", "Go.", "--budget", "cost=1=2"];
  expect(await performed(args, { cwd: folder.path })).toEqual({
    code: 2,
    stdout: "",
    stderr:
      'Expected cost in --budget to be dollars, for example 0.5, got "1=2". Use cost=none for no limit. [usage]\n',
  });
});

/** Returns the lines that suggest a command. */
function suggestionsIn(...texts: readonly string[]): readonly string[] {
  const lines = texts.join("\n").split("\n");
  return lines.flatMap((line) => /(?:npx )?espalier .*/u.exec(line) ?? []);
}

test("names the user's store in suggested commands", async () => {
  await using kept = keptRuns();
  const [, , limited] = await fourRuns(kept);
  const suggested = async (...args: readonly string[]): Promise<readonly string[]> => {
    const { stdout, stderr } = await performed(args, {
      cwd: kept.folder,
      env: { npm_command: "exec" },
    });
    return suggestionsIn(stdout, stderr);
  };
  const at = ["--store", "runs.db"];
  expect([
    await suggested("questions", ...at),
    await suggested("resume", limited ?? "", ...at),
    await suggested("show", "nothing", ...at),
    await suggested("answer", "@last", "--result", "1", ...at),
    await suggested("cancel", limited ?? "", ...at),
    await suggested("deny", "@last", ...at),
  ]).toEqual([
    [
      expect.stringMatching(
        /^npx espalier --store runs\.db approve ([\da-f]{6}), or npx espalier --store runs\.db deny \1 --reason "…"$/,
      ),
    ],
    ["npx espalier --store runs.db resume run_3 --grant steps=20 [usage]"],
    ["npx espalier --store runs.db runs. For another store, add --store <path>. [usage]"],
    [
      'npx espalier --store runs.db approve execution_4.1.0, or npx espalier --store runs.db deny execution_4.1.0 --reason "…" [usage]',
    ],
    ["npx espalier --store runs.db show run_3 [run_ended]"],
    ["npx espalier --store runs.db resume run_4"],
  ]);
});

test("accepts --store before and after the name of a command", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const at = { cwd: kept.folder };
  const [before, after] = [
    await performed(["--store", "runs.db", "show", "run_1"], at),
    await performed(["show", "run_1", "--store", "runs.db"], at),
  ];
  expect([before.code, after.code]).toEqual([0, 0]);
  expect(before.stdout).toBe(after.stdout);
});

test("quotes a store in a suggested command and hides its password", () => {
  const shell = new FakeShell("/", {});
  const stores = [
    "my runs.db",
    "a$b.db",
    "postgres://me:secret@host/db",
    "postgres://me:se/cr@et@host/db",
    "postgres://host/db?password=secret&sslmode=require",
    undefined,
  ];
  expect(stores.map((store) => formatOwnCommand(shell, store))).toEqual([
    'espalier --store "my runs.db"',
    'espalier --store "a\\$b.db"',
    'espalier --store "postgres://me:<password>@host/db"',
    'espalier --store "postgres://me:<password>@host/db"',
    'espalier --store "postgres://host/db?password=<password>&sslmode=require"',
    "espalier",
  ]);
});

test("suggests commands for the store of a module that defines its own", async () => {
  const config = `import { defineAgent, openai } from "espalier";
const role = { name: "lead", instructions: "Work.", model: openai("m"), budget: { steps: 1 } };
export default { roles: [defineAgent(role)], store: "own.db" };`;
  await using server = await OpenAiServer.start(() => calls(["none", {}]));
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  using folder = temporaryFolder({ "package.json": "{}", "lead.mjs": config });
  const { stderr } = await performed(["run", "lead.mjs", "Go."], { cwd: folder.path });
  expect(suggestionsIn(stderr)).toEqual([
    expect.stringMatching(
      /^espalier --store \S+\/own\.db resume \S+ --roles lead\.mjs --grant steps=20$/u,
    ),
  ]);
});

test("reports an unknown run with the store that was searched", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const { stderr } = await performed(["tail", "x", "--store", "runs.db"], { cwd: kept.folder });
  expect(stderr).toBe(
    `No run matches "x" in ${kept.path}. Use a run id, a prefix or @last. List them: espalier --store runs.db runs. For another store, add --store <path>. [usage]\n`,
  );
});

const RUNS = z.object({ runs: z.array(z.object({ runId: z.string() })) });

test("accepts a status in the spelling of the list", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const list = async (status: string): Promise<string> => {
    const args = ["runs", "--status", status, "--json", "--store", "runs.db"];
    const { stdout } = await performed(args, { cwd: kept.folder });
    const { runs } = RUNS.parse(JSON.parse(stdout));
    return runs.map(({ runId }) => runId).join();
  };
  const spellings = ["input required", "input_required", "input-required,failed"];
  expect(await Promise.all(spellings.map(list))).toEqual(["run_4", "run_4", "run_4,run_2"]);
});

test('lists an answered run that nobody has resumed under "to do"', async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const at = { cwd: kept.folder };
  await performed(["approve", "@last", "--store", "runs.db"], at);
  const { stdout } = await performed(["runs", "--store", "runs.db"], at);
  expect(stdout).toMatch(/^to do \(1\) .*\nrun_4 +… waiting: answered, resume it /u);
});
