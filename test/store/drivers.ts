// The drivers of SQLite that are there. better-sqlite3 is no development dependency: to install it, some versions of npm need a compiler at
// hand, though it compiles nothing. `npm install --no-save better-sqlite3` brings it into the suite.

import { createRequire } from "node:module";

import type { SqliteDriver } from "../../src/store/sqlite/sqlite-driver.ts";

/** `node`, and better-sqlite3 where it is installed. */
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
