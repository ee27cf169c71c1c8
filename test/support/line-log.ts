// A log that several processes write, and during which any of them may be killed.

import { appendFileSync, existsSync, readFileSync } from "node:fs";

import { parseJson } from "../../src/kernel/json.ts";

/** Adds a value. It begins a line of its own also after one that was cut off. */
export function appendLine(file: string, value: object): void {
  appendFileSync(file, `\n${JSON.stringify(value)}\n`);
}

/**
 * Returns the complete lines, oldest first. A kill can cut a line at a page boundary of the file;
 * the effect of a cut line had not begun.
 */
export function wholeLines(file: string): readonly unknown[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, "utf8").split("\n").slice(0, -1);
  return lines.filter((line) => line.endsWith("}")).map(parseJson);
}
