// Goal: a release does not change the repository until it is published, and takes over exactly what
// was checked.
// Method: the script itself on a small repository, with an npm that records its commands.

import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, readFileSync } from "node:fs";
import { delimiter, resolve } from "node:path";

import { expect } from "vitest";

import { temporaryFolder } from "../support/temporary-folder.ts";
import { proves } from "../harness/proves.ts";

const SCRIPT = resolve("scripts/release.ts");
const PACKED = [
  { filename: "a.tgz", size: 900, unpackedSize: 1_900, files: [{ path: "LICENSE", size: 800 }] },
];
const NPM = `#!/bin/sh
echo "$@" >> "$NPM_LOG"
case "$1 $2" in
"run check") eval "$ON_CHECK" ;;
"pack "*) echo '${JSON.stringify(PACKED)}' ;;
esac
`;
const FILES = {
  "package.json": '{ "version": "0.1.0" }\n',
  "package-lock.json": '{ "version": "0.1.0", "packages": { "": { "version": "0.1.0" } } }\n',
  "src/kernel/own-package.ts": 'export const OWN_PACKAGE = { version: "0.1.0" };\n',
  "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n- A thing.\n",
};

/**
 * Releases a repository whose own configuration names the author. `onCheck` runs during the checks.
 */
function released(onCheck: string, ...options: readonly string[]) {
  using folder = temporaryFolder({ "bin/npm": NPM });
  using project = temporaryFolder(FILES);
  const { path: repository } = project;
  chmodSync(folder.at("bin/npm"), 0o755);
  const env = {
    ...process.env,
    PATH: `${folder.at("bin")}${delimiter}${process.env["PATH"] ?? ""}`,
    NPM_LOG: folder.at("npm.log"),
    REPOSITORY: repository,
    ON_CHECK: onCheck,
    GIT_CONFIG_GLOBAL: "/dev/null",
    GIT_CONFIG_SYSTEM: "/dev/null",
  };
  const git = (...words: readonly string[]): string =>
    execFileSync("git", words, { cwd: repository, env, encoding: "utf8" }).trimEnd();
  git("init", "--quiet", "--initial-branch=main");
  git("config", "user.name", "Somebody");
  git("config", "user.email", "somebody@example.org");
  git("add", ".");
  git("commit", "--quiet", "--message=All");
  const { status, stdout, stderr } = spawnSync(process.execPath, [SCRIPT, "0.2.0", ...options], {
    cwd: repository,
    env,
    encoding: "utf8",
  });
  const asked = readFileSync(folder.at("npm.log"), "utf8").trimEnd().split("\n");
  return {
    status,
    stdout,
    stderr,
    // Replaces the place, which is another one each time.
    asked: asked.map((line) => line.replaceAll(/\S*\/espalier-release-[^/\s]+/g, "<place>")),
    commits: git("log", "--format=%an: %s").split("\n"),
    tags: git("tag"),
    tree: git("status", "--porcelain"),
    version: readFileSync(project.at("package.json"), "utf8"),
  };
}

const CHECKED = [
  "ci",
  "run check",
  "run pack -- <place>",
  "pack <place>/espalier-0.2.0.tgz --json --pack-destination <place> --dry-run",
];
const UNTOUCHED = {
  commits: ["Somebody: All"],
  tags: "",
  tree: "",
  version: FILES["package.json"],
};

proves(["D206"], "checks and reports everything without --publish, and changes nothing", () => {
  const { stdout, ...rest } = released("true");
  expect(rest).toEqual({ ...UNTOUCHED, status: 0, stderr: "", asked: CHECKED });
  expect(stdout).toBe(
    "espalier 0.2.0: 1 files, 1 KiB packed, 2 KiB unpacked\n  LICENSE        1 KiB\nNothing is published. With --publish it is.\n",
  );
});

proves(["D206"], "publishes the tarball with --publish, and adds the commit and its tag", () => {
  const { stdout, ...rest } = released("true", "--publish");
  expect(rest).toEqual({
    status: 0,
    stderr: "",
    asked: [...CHECKED, "publish <place>/espalier-0.2.0.tgz"],
    commits: ["Somebody: Release 0.2.0", "Somebody: All"],
    tags: "v0.2.0",
    tree: "",
    version: '{ "version": "0.2.0" }\n',
  });
  expect(stdout).toContain("Published. Push main and the tag v0.2.0.\n");
});

proves(["D206"], "packs and publishes nothing if a check fails", () => {
  const { status, asked, commits, tags, tree, version } = released("exit 1", "--publish");
  expect({ commits, tags, tree, version }).toEqual(UNTOUCHED);
  expect([status, asked]).toEqual([1, CHECKED.slice(0, 2)]);
});

for (const [what, onCheck, tree] of [
  ["a file changed", 'echo >> "$REPOSITORY/CHANGELOG.md"', " M CHANGELOG.md"],
  ["main moved", 'git -C "$REPOSITORY" commit --quiet --allow-empty --message=Later', ""],
] as const)
  proves(["D206"], `publishes nothing if ${what} while the checks ran`, () => {
    const told = released(onCheck, "--publish");
    expect(told.stderr).toContain("Nothing is published. Commit it, and release anew.");
    expect(told).toMatchObject({ status: 1, asked: CHECKED, tags: "", tree });
  });
