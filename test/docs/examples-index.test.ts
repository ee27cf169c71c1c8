// Goal: a reader finds every example and the command that runs it.
// Method: compare the index with the folder.

import { globSync, readFileSync } from "node:fs";

import { expect } from "vitest";

import { proves } from "../harness/proves.ts";

const INDEX = readFileSync("examples/README.md", "utf8");

proves(["D702"], "lists each example once, with its command and a description", () => {
  const lines = [...INDEX.matchAll(/^- \[`node examples\/(.+?)`\]\((.+?)\):? (\w)?/gm)];
  const entries = lines.map(([, command = "", link, text]) => ({ command, link, hasText: !!text }));
  const programs = globSync("*.ts", { cwd: "examples" });
  expect(entries.filter(({ command }) => !command.includes("/")).toSorted(byCommand)).toEqual(
    programs.map((file) => ({ command: file, link: file, hasText: true })).toSorted(byCommand),
  );
  const folders = globSync("apps/*", { cwd: "examples" });
  expect(folders.filter((folder) => !INDEX.includes(`(${folder}/README.md)`))).toEqual([]);
});

function byCommand(left: { command: string }, right: { command: string }): number {
  return left.command.localeCompare(right.command);
}
