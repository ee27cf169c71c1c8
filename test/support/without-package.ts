// The sources in a folder whose node_modules lack one package.

import { spawnSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

/** Returns the output of a program that imports from `./src/…` without the installed package. */
export function outputWithout(missing: string, program: string): string {
  const folder = mkdtempSync(join(tmpdir(), "espalier-"));
  try {
    cpSync("src", join(folder, "src"), { recursive: true });
    linkAll("node_modules", join(folder, "node_modules"), missing);
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(join(folder, "program.ts"), program);
    return spawnSync(process.execPath, [join(folder, "program.ts")], { encoding: "utf8" }).stdout;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Links everything in a folder except the missing package, which may be scoped. */
function linkAll(from: string, to: string, missing: string): void {
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    if (name === dirname(missing))
      linkAll(join(from, name), join(to, name), missing.slice(name.length + 1));
    else if (name !== missing) symlinkSync(resolve(from, name), join(to, name), "dir");
  }
}
