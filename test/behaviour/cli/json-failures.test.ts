// Goal: a program that asks for JSON always gets one JSON value.
// Method: the command within the test, with each kind of failure.

import { expect } from "vitest";
import { z } from "zod";

import { temporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { performed } from "../../support/cli/performed.ts";

const FAILURE = z.strictObject({
  error: z.strictObject({ code: z.string(), message: z.string() }),
});

/** The arguments, the exit code, the error code, and a part of its message. */
type Case = readonly [args: readonly string[], exit: number, code: string, words: string];

async function codesOf(
  files: Readonly<Record<string, string>>,
  cases: readonly Case[],
): Promise<void> {
  const folder = temporaryFolder(files);
  afterwards(() => folder[Symbol.dispose]());
  for (const [args, exit, code, words] of cases) {
    const { stdout, code: given, stderr } = await performed(args, { cwd: folder.path });
    const { error } = FAILURE.parse(JSON.parse(stdout));
    expect([args, given, error.code]).toEqual([args, exit, code]);
    expect(error.message).toContain(words);
    expect(stderr).toContain(words);
  }
}

proves(["D524"], "prints wrong uses as one JSON value with their code", async () => {
  await codesOf({ "lead.md": "---\nmodel: m\n---\nWork.\n" }, [
    [
      ["runs", "--json", "--nothing"],
      2,
      "usage",
      "Unknown option '--nothing'. See: espalier runs --help",
    ],
    [
      ["runz", "--json"],
      2,
      "usage",
      "Unknown command 'runz'. Did you mean one of run, runs? See: espalier --help",
    ],
    [
      ["roles", "check", "--json", "a", "b"],
      2,
      "usage",
      "Too many arguments for 'check'. Expected 1 argument but got 2: a, b. See: espalier roles check --help",
    ],
    [["runs", "--json", "--limit", "x"], 2, "usage", "--limit"],
    [["tail", "--json"], 2, "usage", "--json"],
    [["show", "run_9", "--json"], 2, "usage", 'No run matches "run_9" in '],
    [["answer", "q", "--json"], 2, "usage", "Expected --result or --failure, got neither."],
    [["show", "run_9", "--json", "--store", "none.db"], 2, "usage", "no such file"],
    [["run", "lead.md", "--json"], 2, "usage", "task"],
    [["run", "none.md", "Go.", "--json"], 2, "usage", "none.md"],
    [["run", "lead.md", "Go.", "--json", "--port", "abc"], 2, "usage", "--port"],
    [["run", "lead.md", "Go.", "--json"], 2, "missing_api_key", "OPENAI_API_KEY"],
    [["resume", "@last", "--json"], 2, "usage", "No runs in "],
    [["approve", "q", "--json"], 2, "usage", "open question"],
  ]);
});

proves(["D524"], "prints faults of role files as one JSON value", async () => {
  await codesOf({ "lead.md": "---\nmodel: [\n---\nWork.\n" }, [
    [["run", "lead.md", "Go.", "--json"], 2, "invalid_role_file", "lead.md"],
  ]);
});

proves(["D524"], "prints faults of the configuration as one JSON value", async () => {
  await codesOf(
    { "package.json": '{"type":"module"}', "espalier.config.js": "export default 7;" },
    [
      [["runs", "--json"], 2, "usage", "espalier.config.js"],
      [["run", "lead", "Go.", "--json"], 2, "usage", "espalier.config.js"],
    ],
  );
});

proves(["D524"], "treats --json after -- as part of the task", async () => {
  const folder = temporaryFolder({});
  afterwards(() => folder[Symbol.dispose]());
  const { stdout, code } = await performed(["run", "none.md", "--", "--json"], {
    cwd: folder.path,
  });
  expect([stdout, code]).toEqual(["", 2]);
});
