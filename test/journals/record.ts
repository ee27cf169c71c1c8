// Makes recordings of v1/. On purpose only: they are kept for ever, so that journals of every release can be read (D3). Without names it
// makes those that are missing: `node test/journals/record.ts`; with names, these anew: `node test/journals/record.ts parallel groups`.
// A second making gives the same bytes.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

import { pathOf, recordingFor } from "./kept.ts";
import { scenes } from "./roles.ts";

const names = process.argv.slice(2);
for (const name of names.length > 0 ? names : Object.keys(scenes)) {
  const path = pathOf(name);
  if (names.length === 0 && existsSync(path)) continue;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, await recordingFor(name));
}
