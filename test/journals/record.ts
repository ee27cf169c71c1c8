// Makes the recordings of recorded/, on purpose only. Record them again after a change of the journal's
// format, or of the prompts and tools that espalier adds: `node test/journals/record.ts` makes those that
// are missing, `node test/journals/record.ts parallel groups` makes these. The bytes are the same each time.

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
