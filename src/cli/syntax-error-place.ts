// The line of a syntax error. Node tells it to nobody but the reader of an uncaught error, so a child process reads the files once more.

import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

/** Files that are looked through. */
const MAX_FILES = 50;
/** Imports of a file by a relative path. */
const RELATIVE_IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*["'](\.{1,2}\/[^"'\n]+)["']/gu;
const CHECKED = /\.[cm]?js$/u;

/** Returns true for a file that cannot be parsed, and false for an error that code has thrown, for example `JSON.parse`. */
export function isSyntaxError(error: Error): boolean {
  return error instanceof SyntaxError && /^ +at compileSourceTextModule /mu.test(error.stack ?? "");
}

/** Returns `file:line` of the first file with a syntax error, among a file and those that it imports. `undefined` if there is none. */
export async function syntaxErrorPlace(file: string, error: Error): Promise<string | undefined> {
  if (!isSyntaxError(error)) return undefined;
  const files = new Set([file]);
  for (const one of files) {
    const place = CHECKED.test(one) ? await checkSyntax(one) : undefined;
    if (place !== undefined) return place;
    for (const imported of importsOf(one)) if (files.size < MAX_FILES) files.add(imported);
  }
  return undefined;
}

function importsOf(file: string): readonly string[] {
  const text = readFileSync(file, "utf8");
  return [...text.matchAll(RELATIVE_IMPORT)]
    .map(([, path = ""]) => resolve(dirname(file), path))
    .filter((path) => existsSync(path));
}

function checkSyntax(file: string): Promise<string | undefined> {
  return new Promise((done) => {
    execFile(process.execPath, ["--check", file], (_failure, _stdout, stderr) => {
      const [place = ""] = stderr.split("\n");
      done(place.startsWith(`${file}:`) ? place : undefined);
    });
  });
}
