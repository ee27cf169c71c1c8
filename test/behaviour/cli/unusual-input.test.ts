// Goal: commands handle unusual input: no name, no runs, invalid stores or those of another
// release, and truncated lists.
// Method: the command within the test.

import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";

import { expect } from "vitest";
import { z } from "zod";

import { RunIdSchema } from "../../../src/protocol/ids.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { proves } from "../../harness/proves.ts";
import { says } from "../../../src/testing/index.ts";
import { agent, fourRuns, keptRuns } from "../../support/cli/kept-runs.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { performed } from "../../support/cli/performed.ts";

const RowsSchema = z.object({
  runs: z.array(z.looseObject({ runId: z.string(), status: z.string() })),
});

const FilesSchema = z.object({
  files: z.array(z.looseObject({ role: z.string(), problem: z.string().optional() })),
});

proves(["V43"], "refuses an empty name, even if there is only one run", async () => {
  await using kept = keptRuns();
  await kept.orchestrator.start(agent("lead", [says("Done.")]), "Go.").result;
  const at = { cwd: kept.folder };
  for (const command of ["show", "tail", "cancel", "resume", "view"]) {
    const { code, stdout, stderr } = await performed([command, "", "--store", kept.path], at);
    expect([code, stdout], command).toEqual([2, ""]);
    expect(stderr).toContain('No run matches ""');
  }
});

proves(
  ["V112"],
  "creates no tables in an empty file and changes no store of another version by reading",
  async () => {
    using folder = temporaryFolder({ "empty.db": "" });
    const other = sqliteStore(folder.at("other.db"));
    await other.list();
    await other.close();
    const database = new DatabaseSync(folder.at("other.db"));
    database.exec("pragma user_version = 3");
    database.close();
    for (const [file, codes] of [
      ["empty.db", [6, 6, 6, 1]],
      ["other.db", [6, 6, 6, 1]],
    ] as const) {
      const before = readFileSync(folder.at(file));
      const said = [];
      for (const args of [["questions"], ["runs"], ["show", "@last"], ["doctor"]])
        said.push(await performed([...args, "--store", file], { cwd: folder.path }));
      expect(
        said.map(({ code }) => code),
        JSON.stringify(said),
      ).toEqual(codes);
      expect(readFileSync(folder.at(file)).equals(before), file).toBe(true);
    }
  },
);

proves(
  ["V113"],
  "reports an unreadable journal, lists the other runs, and refuses an answer to the broken run",
  async () => {
    await using kept = keptRuns();
    await fourRuns(kept);
    const broken = RunIdSchema().parse("broken");
    const owner = { token: "t", hostname: "h", processId: 1 };
    const ownership = await kept.store.create(broken, "lead: Go.", owner);
    await kept.store.append(ownership, { firstNumber: 1, records: ["{\u001b[31mcanary"] });
    await kept.store.release(ownership, "paused");
    const at = { cwd: kept.folder };
    const told = /^broken cannot be read: .* record 1 .*\[invalid_journal\]$/m;
    const questions = await performed(["questions", "--store", kept.path], at);
    expect([questions.code, questions.stdout]).toEqual([0, expect.stringContaining("asks: pay")]);
    expect(questions.stderr).toMatch(told);
    expect(questions.stderr).not.toContain("\u001b");
    const runs = await performed(["runs", "--json", "--store", kept.path], at);
    const { runs: rows } = RowsSchema.parse(JSON.parse(runs.stdout));
    expect(rows.map(({ runId, status }) => `${runId} ${status}`)).toEqual([
      "broken paused",
      "run_4 input_required",
      "run_3 stopped",
      "run_2 failed",
      "run_1 completed",
    ]);
    expect(runs.stderr).toMatch(told);
    expect((await performed(["approve", "run_4", "--store", kept.path], at)).code).toBe(0);
    expect(await rejectionOf(kept.orchestrator.answer(broken, []))).toMatchObject({
      code: "invalid_journal",
      data: { record: 1 },
    });
  },
);

proves(["V114"], "reports a truncated list of runs and how to see the rest", async () => {
  await using kept = keptRuns();
  await fourRuns(kept);
  const at = { cwd: kept.folder };
  const stderrOf = async (...args: readonly string[]): Promise<string> =>
    (await performed(["runs", "--store", kept.path, ...args], at)).stderr;
  expect(await stderrOf("--limit", "3")).toBe("There are older ones: --limit 6\n");
  expect(await stderrOf("--limit", "4")).toBe("");
  expect(await stderrOf("--status", "completed,failed", "--limit", "1")).toContain("older ones");
  expect(await stderrOf("--status", "cancelled")).toContain("No matching runs in");
  const long = RunIdSchema().parse("long");
  const owner = { token: "t", hostname: "h", processId: 1 };
  const records = Array.from({ length: 20_001 }, () => "1");
  const ownership = await kept.store.create(long, "lead: Go.", owner);
  await kept.store.append(ownership, { firstNumber: 1, records });
  await kept.store.release(ownership, "ended");
  expect(await stderrOf("--status", "failed")).toContain("Long runs were not read (5)");
});

proves(
  ["V45"],
  "starts a server once during roles check, however many files name it, and ends it",
  async () => {
    const started =
      "data:text/javascript,import fs from 'node:fs';fs.appendFileSync('started','.')";
    const server = new URL("../../support/cli/echo-server.ts", import.meta.url).pathname;
    const work = { command: process.execPath, args: ["--import", started, server] };
    const gone = { command: "no-such-program" };
    const role = (...tools: readonly string[]): string =>
      `---\nmodel: m\ntools: [${tools.join(", ")}]\n---\nWork.\n`;
    using folder = temporaryFolder({
      "mcp.json": JSON.stringify({ mcpServers: { work, gone } }),
      "one.md": role("work_*"),
      "two.md": role("work_look", "folder_list"),
      "three.md": role("work_data", "gone_*"),
      "four.md": role("folder_list"),
    });
    const { code, stdout } = await performed(["roles", "check", "--json"], { cwd: folder.path });
    expect(code).toBe(2);
    const { files } = FilesSchema.parse(JSON.parse(stdout));
    expect(files.map(({ role: name, problem }) => [name, problem === undefined])).toEqual([
      ["four", true],
      ["one", true],
      ["three", false],
      ["two", true],
    ]);
    expect(readFileSync(folder.at("started"), "utf8")).toBe(".");
  },
);

const HOSTILE = "\u001b]0;title\u0007\u001b[2J\u009b31m\b\r\u202eturned\u2066\u0000";
// oxlint-disable-next-line no-control-regex -- the test looks for them
const STEERS = /[\0-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/u;

proves(
  ["V27", "V41"],
  "prevents text of files, servers and names from controlling the terminal",
  async () => {
    using folder = temporaryFolder({
      "lead.md": `---\nmodel: m\ntools: ["${HOSTILE.slice(-8, -1)}"]\n---\nWork.\n`,
      "mcp.json": JSON.stringify({ mcpServers: { [HOSTILE]: { command: HOSTILE } } }),
    });
    for (const args of [
      ["roles", "check"],
      ["doctor"],
      ["run", HOSTILE, "Go."],
      ["runs", "--limit", HOSTILE],
    ]) {
      const { code, stdout, stderr } = await performed(args, { cwd: folder.path });
      expect(code, args[0]).not.toBe(0);
      expect(STEERS.exec(`${stdout}${stderr}`), args[0]).toBeNull();
    }
  },
);
