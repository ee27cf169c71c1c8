// Makes recordings of latest/. On purpose only. Where what espalier itself says to models has changed (its tools, its notices), a replay of
// an older recording rightly differs: then move those of latest/ into a folder of their own, which is read for ever (D3), and make them
// anew. Without names it makes those that are missing: `node test/journals/record.ts`; with names, these: `node test/journals/record.ts
// parallel groups`. A second making gives the same bytes. In v1-last/ and v2/ is what the last releases before versions 2 and 3 wrote.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

import { pathOf, recordingFor } from "./recordings.ts";
import { stories } from "./roles.ts";

const names = process.argv.slice(2);
for (const name of names.length > 0 ? names : Object.keys(stories)) {
  const path = pathOf(name);
  if (names.length === 0 && existsSync(path)) continue;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, await recordingFor(name));
}
