// `npm run check:examples`: installs the package in an empty folder, as a user would, copies the examples out of it, and runs each numbered one there.
// Each asserts what it shows and exits non-zero if it fails. `npm run build` comes first.

import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { z } from "zod";

import { packFolder, stagePackage } from "./pack.ts";

const VersionsSchema = z.record(z.string(), z.string());
const { devDependencies, peerDependencies } = z
  .object({ devDependencies: VersionsSchema, peerDependencies: VersionsSchema })
  .parse(JSON.parse(readFileSync("package.json", "utf8")));

/** Returns the packages that the examples need beside espalier, in the versions that the project is tested with. */
function neededPackages(): Readonly<Record<string, string>> {
  const code = globSync("examples/**/*.ts").map((file) => readFileSync(file, "utf8"));
  const isNeeded = (name: string): boolean =>
    name in peerDependencies ||
    code.some((text) => text.includes(`"${name}`) || text.includes(`\`${name}`));
  return Object.fromEntries(Object.entries(devDependencies).filter(([name]) => isNeeded(name)));
}

/** Makes a tarball of the package and installs it in an empty folder. */
function installPackage(folder: string): void {
  const staged = mkdtempSync(join(tmpdir(), "espalier-package-"));
  try {
    stagePackage(staged);
    const { filename } = packFolder(staged, folder);
    const dependencies = { espalier: `file:${filename}`, ...neededPackages() };
    const manifest = { private: true, type: "module", dependencies };
    writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  } finally {
    rmSync(staged, { recursive: true });
  }
  const args = ["install", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"];
  execFileSync("npm", args, { cwd: folder, stdio: "inherit" });
  cpSync(join(folder, "node_modules/espalier/examples"), join(folder, "examples"), {
    recursive: true,
  });
}

/** Runs an example in the folder. Returns false if it failed. */
function runExample(folder: string, example: string): boolean {
  const args = ["--disable-warning=ExperimentalWarning", example];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: "utf8",
  });
  const [, skipped = ""] = /^(Skipped: .*)$/m.exec(stdout) ?? [];
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${example} ${skipped}`.trimEnd());
  if (status !== 0) console.error(stdout + stderr);
  return status === 0;
}

const folder = mkdtempSync(join(tmpdir(), "espalier-examples-"));
try {
  installPackage(folder);
  const examples = globSync("examples/[0-9]*.ts", { cwd: folder }).toSorted();
  if (examples.length === 0) throw new Error("Expected examples/01-….ts and so on, found none.");
  const failed = examples.filter((example) => !runExample(folder, example));
  if (failed.length > 0) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true });
}
