// `npm run check:examples`: runs every numbered example as a user would. Each asserts what it shows and exits non-zero if it fails.

import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";

const examples = globSync("examples/[0-9]*.ts").toSorted();
if (examples.length === 0) throw new Error("Expected examples/01-….ts and so on, found none.");
for (const example of examples) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--conditions=@espalier/source", "--disable-warning=ExperimentalWarning", example],
    { encoding: "utf8" },
  );
  const [, skipped = ""] = /^(Skipped: .*)$/m.exec(stdout) ?? [];
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${example} ${skipped}`.trimEnd());
  if (status === 0) continue;
  console.error(stdout + stderr);
  process.exitCode = 1;
}
