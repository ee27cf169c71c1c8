// Goal: documented exit codes and options match the command.
// Method: compare the tree of commands with the code and the pages.

import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { buildCommandTree } from "../../src/cli/command-tree.ts";
import {
  BROKEN,
  EXIT_CODES,
  chooseExitCode,
  MISUSED,
  TERMINATED,
} from "../../src/cli/exit-codes.ts";
import { proves } from "../harness/proves.ts";
import { performed } from "../support/cli/performed.ts";

const CODES = new Set([
  ...Object.values(EXIT_CODES),
  BROKEN,
  MISUSED,
  chooseExitCode("store_failed"),
  ...Object.values(TERMINATED),
]);

proves(["V40"], "uses the exit code of an invalid journal for an invalid paused run", () => {
  expect(chooseExitCode("invalid_paused_run")).toBe(chooseExitCode("invalid_journal"));
  expect(chooseExitCode("invalid_paused_run")).not.toBe(BROKEN);
});

proves(["V40"], "names exactly the existing exit codes in the help and on the page", async () => {
  const { stdout } = await performed(["--help"], { cwd: "." });
  const [, help = ""] = /^Exit codes: ([\s\S]*)\.$/m.exec(stdout) ?? [];
  const [, table = ""] = /^\| Code .*\n.*\n((?:\|.*\n)+)/m.exec(pageOf("cli")) ?? [];
  const rows = [...table.matchAll(/^\| ([\d, ]+)\|/gm)].map(([, codes = ""]) => codes).join();
  for (const said of [help, rows])
    expect(new Set((said.match(/\d+/g) ?? []).map(Number))).toEqual(CODES);
});

/** The pages of a command, if they differ from the general page. */
const PAGES: Readonly<Record<string, readonly string[]>> = {
  runs: ["inspect-runs"],
  show: ["inspect-runs"],
  tail: ["inspect-runs"],
  view: ["viewer"],
  approve: ["cli-questions"],
  deny: ["cli-questions", "cli"],
  answer: ["cli-questions", "cli"],
  resume: ["cli-questions", "cli"],
  cancel: ["cli-questions"],
};

test("documents each option on the page of its command", () => {
  const tree = buildCommandTree(() => async () => {});
  const commands = [tree, ...tree.commands, ...tree.commands.flatMap((one) => one.commands)];
  const missing = commands.flatMap((command) => {
    const page = (PAGES[command.name()] ?? ["cli"]).map(pageOf).join("");
    return command.options
      .map(({ long }) => long ?? "")
      .filter((flag) => !new RegExp(`(?<![\\w-])${flag}(?![\\w-])`).test(page))
      .map((flag) => `${command.name()} ${flag}`);
  });
  expect(missing).toEqual([]);
});

function pageOf(name: string): string {
  return readFileSync(`docs/${name}.md`, "utf8");
}
