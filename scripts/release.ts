// `npm run release -- <version> [--publish]`: refuses what is not ready; then makes the release in a clone of what is committed: version and
// changelog, every check, and what would be published. Nothing of it reaches the repository, and nothing is published, without `--publish`.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { z } from "zod";

import { packFolder, type Packed } from "./pack.ts";

const BRANCH = "main";

/** What a release is checked against. */
export interface ReleaseFacts {
  /** The one that is asked for. */
  readonly version: string;
  /** That of package.json. */
  readonly current: string;
  readonly branch: string;
  /** What `git status --porcelain` says. */
  readonly status: string;
  /** Tags of the repository. */
  readonly tags: readonly string[];
  readonly changelog: string;
}

const VERSION = /^(\d+)\.(\d+)\.(\d+)$/;

/** True if the first comes after the second. */
function isGreater(version: string, other: string): boolean {
  const [ours, theirs] = [version, other].map(
    (text) => VERSION.exec(text)?.slice(1).map(Number) ?? [],
  );
  const differing = ours?.findIndex((part, at) => part !== theirs?.[at]) ?? -1;
  return differing >= 0 && (ours?.[differing] ?? 0) > (theirs?.[differing] ?? 0);
}

/** The lines of the section of the changelog whose heading begins so. */
function sectionOf(changelog: string, heading: string): readonly string[] {
  const sections = changelog.split(/^## /m);
  const found = sections.find((section) => section.startsWith(heading)) ?? "";
  return found
    .split("\n")
    .slice(1)
    .filter((line) => line.trim() !== "" && !line.startsWith("#"));
}

/** Why there can be no release; none: there can. */
export function releaseProblems(facts: ReleaseFacts): readonly string[] {
  const { version, current, branch, status, tags, changelog } = facts;
  const problems: string[] = [];
  if (!VERSION.test(version))
    return [
      `Expected a version such as 1.2.3, got ${JSON.stringify(version)}. Say which one is released.`,
    ];
  if (status.trim() !== "")
    problems.push(
      `Expected a clean working tree, got:\n${status.trimEnd()}\nCommit it, or put it away.`,
    );
  if (branch !== BRANCH)
    problems.push(
      `Expected the branch ${BRANCH}, got ${branch}. Releases are made from ${BRANCH}.`,
    );
  const released = tags.filter((tag) => /^v\d/.test(tag)).map((tag) => tag.slice(1));
  const notBefore = released.filter((tag) => tag === version || isGreater(tag, version));
  if (notBefore.length > 0)
    problems.push(
      `Expected a version after ${notBefore.join(", ")}, which is released, got ${version}. Take a later one.`,
    );
  else if (released.includes(current) ? !isGreater(version, current) : isGreater(current, version))
    problems.push(`Expected a version after ${current}, got ${version}. Take a later one.`);
  if (sectionOf(changelog, "[Unreleased]").length === 0)
    problems.push(
      `Expected lines under "## [Unreleased]" in CHANGELOG.md, got none. Say what has changed for users.`,
    );
  return problems;
}

/** The files that print the version. */
const VERSIONED_FILES = [
  "package.json",
  "package-lock.json",
  "src/kernel/own-package.ts",
  "CHANGELOG.md",
] as const;

/** A file as it is in the release. Throws if it does not print the version where it should. */
export function releasedText(
  file: (typeof VERSIONED_FILES)[number],
  text: string,
  { version, current, day }: Readonly<Record<"version" | "current" | "day", string>>,
): string {
  const [from, to] =
    file === "CHANGELOG.md"
      ? ["## [Unreleased]\n", `## [Unreleased]\n\n## [${version}] - ${day}\n`]
      : file.endsWith(".ts")
        ? [`version: "${current}"`, `version: "${version}"`]
        : [`"version": "${current}"`, `"version": "${version}"`];
  const parts = text.split(from);
  // The lockfile says it of the package and of its root; whatever else has that version comes after them.
  const count = file === "package-lock.json" ? 2 : 1;
  if (parts.length <= count)
    throw new Error(`Expected ${file} to have ${from.trim()}, ${count} times.`);
  return (
    parts.slice(0, count + 1).join(to) +
    parts
      .slice(count + 1)
      .map((part) => from + part)
      .join("")
  );
}

/** What would be published, in words. */
export function releaseReport(version: string, { files, size, unpackedSize }: Packed): string {
  const kib = (bytes: number): string => `${Math.ceil(bytes / 1024)} KiB`;
  const folders = new Map<string, number>();
  for (const { path, size: bytes } of files) {
    const folder = path.includes("/") ? `${path.split("/")[0]}/` : path;
    folders.set(folder, (folders.get(folder) ?? 0) + bytes);
  }
  const lines = [...folders].map(([folder, bytes]) => `  ${folder.padEnd(14)} ${kib(bytes)}`);
  return [
    `espalier ${version}: ${files.length} files, ${kib(size)} packed, ${kib(unpackedSize)} unpacked`,
    ...lines,
  ].join("\n");
}

function git(...args: readonly string[]): string {
  return execFileSync("git", args, { encoding: "utf8" }).trimEnd();
}

function main(): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { publish: { type: "boolean", default: false } },
  });
  const [version = ""] = positionals;
  const { version: current } = z
    .object({ version: z.string() })
    .parse(JSON.parse(readFileSync("package.json", "utf8")));
  const problems = releaseProblems({
    version,
    current,
    branch: git("branch", "--show-current"),
    status: git("status", "--porcelain"),
    tags: git("tag", "--list").split("\n"),
    changelog: readFileSync("CHANGELOG.md", "utf8"),
  });
  if (problems.length > 0) {
    console.error(problems.join("\n"));
    process.exitCode = 1;
    return;
  }
  const place = mkdtempSync(join(tmpdir(), "espalier-release-"));
  try {
    release({ version, current, place, isPublished: values.publish });
  } finally {
    rmSync(place, { recursive: true });
  }
}

interface Release {
  readonly version: string;
  readonly current: string;
  /** An empty folder. */
  readonly place: string;
  readonly isPublished: boolean;
}

/** Who makes commits here, which a clone does not know. */
function identity(): readonly string[] {
  return ["user.name", "user.email"].flatMap((key) => {
    const value = git("config", "--default", "", key);
    return value === "" ? [] : ["-c", `${key}=${value}`];
  });
}

/** Checking takes its time. Throws if what was released could not be taken over any more. */
function checkUnmoved(commit: string): void {
  if (git("rev-parse", BRANCH) === commit && git("status", "--porcelain") === "") return;
  throw new Error(
    `Expected ${BRANCH} as it was when the release began, got other commits or a changed working tree. Nothing is published. Commit it, and release anew.`,
  );
}

function release({ version, current, place, isPublished }: Release): void {
  const clone = join(place, "clone");
  const commit = git("rev-parse", BRANCH);
  const shown = { stdio: "inherit", cwd: clone } as const;
  git("clone", "--quiet", ".", clone);
  const day = new Date().toISOString().slice(0, 10);
  for (const file of VERSIONED_FILES) {
    const text = readFileSync(join(clone, file), "utf8");
    writeFileSync(join(clone, file), releasedText(file, text, { version, current, day }));
  }
  git("-C", clone, ...identity(), "commit", "--quiet", "--all", `--message=Release ${version}`);
  git("-C", clone, ...identity(), "tag", `v${version}`);
  execFileSync("npm", ["ci"], shown);
  execFileSync("npm", ["run", "check"], shown); // builds, too
  execFileSync("npm", ["run", "pack", "--", place], shown);
  const tarball = join(place, `espalier-${version}.tgz`);
  console.log(releaseReport(version, packFolder(tarball, place, true)));
  if (!isPublished) return console.log("Nothing is published. With --publish it is.");
  checkUnmoved(commit);
  execFileSync("npm", ["publish", tarball], shown);
  git("fetch", "--quiet", "--tags", clone, BRANCH);
  git("merge", "--quiet", "--ff-only", "FETCH_HEAD");
  console.log(`Published. Push ${BRANCH} and the tag v${version}.`);
}

if (import.meta.main) main();
