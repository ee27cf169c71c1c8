// Goal: what a definition or a call lacks is a compile error that contains the advice, and other mistakes have the messages that they
// would have without it (H10).
// Method: the compiler checks files in which a comment above each faulty line has a part of its message; `advice` or `error`.

import { execFile } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { expect } from "vitest";

import { proves } from "../harness/proves.ts";

const FOLDER = join(import.meta.dirname, "advice");
const TSC = join(import.meta.dirname, "../../node_modules/typescript/bin/tsc");

interface Diagnostic {
  /** The file and the line. */
  readonly at: string;
  readonly text: string;
}

function runCompiler(): Promise<string> {
  const args = [TSC, "-p", FOLDER, "--pretty", "false"];
  return new Promise((resolve) => {
    execFile(process.execPath, args, (_error, stdout) => resolve(stdout));
  });
}

function parse(output: string): readonly Diagnostic[] {
  return output.split(/\n(?! )/).flatMap((text) => {
    const [, file, line] = /([\w-]+\.ts)\((\d+),/.exec(text) ?? [];
    return file === undefined ? [] : [{ at: `${file}:${line}`, text }];
  });
}

const files = globSync("*.ts", { cwd: FOLDER }).toSorted();
const expected = files.flatMap((file) => {
  const lines = readFileSync(join(FOLDER, file), "utf8").split("\n");
  return lines.flatMap((line, index) => {
    const [, kind, text = ""] = /^\s*\/\/ (advice|error): (.+)/.exec(line) ?? [];
    return kind === undefined ? [] : [{ at: `${file}:${index + 2}`, kind, text }];
  });
});

proves(["H10"], "a compile error contains the advice, and no other error does", async () => {
  const found = parse(await runCompiler());
  expect(files).toEqual(["context.ts", "definitions.ts", "schemas.ts"]);
  expect(found.map(({ at }) => at)).toEqual(expected.map(({ at }) => at));
  const advice = expected.filter(({ kind }) => kind === "advice").map(({ text }) => text);
  for (const [index, { at, kind, text }] of expected.entries()) {
    const message = found[index]?.text ?? "";
    expect(message, at).toContain(text);
    if (kind === "error") {
      expect(
        advice.filter((one) => message.includes(one)),
        at,
      ).toEqual([]);
    }
  }
});
