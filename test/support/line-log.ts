// A log that several processes write and that any of them may be killed in the midst of.

import { appendFileSync, existsSync, readFileSync } from "node:fs";

import { parseJson } from "../../src/kernel/json.ts";

/** Adds a value. It begins a line of its own also after one that was cut off. */
export function appendLine(file: string, value: object): void {
  appendFileSync(file, `\n${JSON.stringify(value)}\n`);
}

/** What was written as a whole, oldest first. A kill cuts a line off where the file's next page begins: what it was to note had not gone on. */
export function wholeLines(file: string): readonly unknown[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n").slice(0, -1);
  return lines.filter((line) => line.endsWith("}")).map(parseJson);
}
