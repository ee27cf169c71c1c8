// The installed drivers of SQLite. better-sqlite3 is not a development dependency: some versions of
// npm need a compiler to install it, although it compiles nothing. `npm install --no-save
// better-sqlite3` includes it in the tests.

import { createRequire } from "node:module";

import type { SqliteDriver } from "../../../src/store/sqlite/sqlite-driver.ts";

/** `node`, and better-sqlite3 if it is installed. */
export const DRIVERS: readonly SqliteDriver[] = isInstalled("better-sqlite3")
  ? ["node", "better-sqlite3"]
  : ["node"];

function isInstalled(name: string): boolean {
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch {
    return false;
  }
}
