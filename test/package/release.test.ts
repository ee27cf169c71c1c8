// Goal: a release that is not ready is refused with all reasons, and a ready one lists the files to
// publish.
// Method: the facts that the script checks, with one fault at a time, and the files of the
// repository.

import { readFileSync } from "node:fs";

import { expect } from "vitest";

import {
  releasedText,
  releaseProblems,
  releaseReport,
  type ReleaseFacts,
} from "../../scripts/release.ts";
import { ManifestSchema } from "../../scripts/pack.ts";
import { proves } from "../harness/proves.ts";

const READY: ReleaseFacts = {
  version: "0.2.0",
  current: "0.1.0",
  branch: "main",
  status: "",
  tags: ["v0.1.0", "something"],
  changelog:
    "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [0.1.0] - 2026-11-27\n\n- All.\n",
};

proves(["D204"], "accepts a release that is ready, even the first version", () => {
  expect(releaseProblems(READY)).toEqual([]);
  expect(
    releaseProblems({ ...READY, version: "0.10.0", current: "0.9.1", tags: ["v0.9.1"] }),
  ).toEqual([]);
  expect(releaseProblems({ ...READY, version: "0.1.0", tags: [] })).toEqual([]);
});

for (const [what, change, problem] of [
  ["a dirty tree", { status: " M README.md\n" }, /clean working tree, got:\n M README\.md/],
  ["another branch", { branch: "work" }, /Expected the branch main, got work/],
  ["no branch", { branch: "" }, /Expected the branch main/],
  ["the same version", { version: "0.1.0" }, /after 0\.1\.0, which is released, got 0\.1\.0/],
  ["a lower version", { version: "0.0.9" }, /after 0\.1\.0, which is released, got 0\.0\.9/],
  [
    "a lower version than that of the manifest",
    { version: "0.1.9", current: "0.2.0" },
    /after 0\.2\.0/,
  ],
  ["a version that is none", { version: "next" }, /Expected a version such as 1\.2\.3, got "next"/],
  ["no version", { version: "" }, /Expected a version such as 1\.2\.3/],
  [
    "nothing under Unreleased",
    { changelog: READY.changelog.replace("- A thing.", "") },
    /lines under/,
  ],
  ["no Unreleased", { changelog: "# Changelog\n\n## [0.1.0]\n\n- All.\n" }, /lines under/],
] as const)
  proves(["D204"], `refuses ${what}`, () => {
    const problems = releaseProblems({ ...READY, ...change });
    expect(problems).toEqual([expect.stringMatching(problem)]);
  });

proves(["D204"], "reports all reasons at once", () => {
  expect(releaseProblems({ ...READY, branch: "work", status: "?? a", changelog: "" }).length).toBe(
    3,
  );
});

proves(
  ["D204"],
  "writes the version into every file that contains it and dates the changelog",
  () => {
    const { version: current } = ManifestSchema.parse(
      JSON.parse(readFileSync("package.json", "utf8")),
    );
    const facts = { version: "9.8.7", current, day: "2026-11-27" };
    const released = (file: Parameters<typeof releasedText>[0]): string =>
      releasedText(file, readFileSync(file, "utf8"), facts);
    expect(JSON.parse(released("package.json"))).toMatchObject({
      name: "espalier",
      version: "9.8.7",
    });
    expect(JSON.parse(released("package-lock.json"))).toMatchObject({
      version: "9.8.7",
      packages: { "": { version: "9.8.7" } },
    });
    expect(released("src/kernel/own-package.ts")).toContain('version: "9.8.7"');
    const changelog = readFileSync("CHANGELOG.md", "utf8");
    const [before = "", since = ""] = changelog.split("## [Unreleased]\n");
    expect(released("CHANGELOG.md")).toBe(
      `${before}## [Unreleased]\n\n## [9.8.7] - 2026-11-27\n${since}`,
    );
    expect(() => releasedText("CHANGELOG.md", "# Changelog", facts)).toThrow(
      "Expected CHANGELOG.md",
    );
  },
);

proves(["D204"], "lists the files to publish with their sizes", () => {
  const files = [
    { path: "LICENSE", size: 1_000 },
    { path: "dist/index.js", size: 3_000 },
    { path: "dist/a/b.js", size: 3_000 },
  ];
  expect(
    releaseReport("0.2.0", { filename: "a.tgz", size: 2_000, unpackedSize: 7_000, files }),
  ).toBe(
    [
      "espalier 0.2.0: 3 files, 2 KiB packed, 7 KiB unpacked",
      "  LICENSE        1 KiB",
      "  dist/          6 KiB",
    ].join("\n"),
  );
});
