// Where the figures of the benches are written down.

import { readFileSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";

const DOCUMENT = "docs/BENCHMARKS.md";

/** On what was measured, and when. */
export function conditions(roundCount: number): string {
  const version = /"version": "(.*)"/.exec(readFileSync("package.json", "utf8"))?.[1];
  const date = new Date().toISOString().slice(0, 10);
  const machine = `Node ${process.versions.node}, ${cpus().length} cores (${cpus()[0]?.model.trim()})`;
  const rounds = roundCount === 1 ? "one round" : `medians of ${roundCount} rounds`;
  return `espalier ${version}, ${date}, ${machine}, ${rounds}.`;
}

/** Puts a text between `<!-- name -->` and `<!-- end of name -->`. */
export function write(name: string, text: string): void {
  const document = readFileSync(DOCUMENT, "utf8");
  const marked = new RegExp(`(<!-- ${name} -->\\n)[^]*(<!-- end of ${name} -->)`);
  if (!marked.test(document)) throw new Error(`Expected the marks of the ${name} in ${DOCUMENT}.`);
  writeFileSync(
    DOCUMENT,
    document.replace(marked, (_all, start: string, end: string) => `${start}\n${text}\n${end}`),
  );
}
