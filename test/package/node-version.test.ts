// Goal: importing the library on an outdated Node reports the required version.
// Method: a process that claims an older version, and the version in the manifest.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "../harness/proves.ts";

const ManifestSchema = z.object({ engines: z.object({ node: z.string() }) });

/** Returns the output of a process with this version of Node that imports the library. */
function importedBy(version: string): string {
  const older = `data:text/javascript,${encodeURIComponent(
    `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } });`,
  )}`;
  const program = `await import("espalier").then(
    () => console.log("imported"),
    ({ code, message }) => console.log(code + ": " + message),
  );`;
  const flags = ["--conditions=@espalier/source", "--no-warnings", "--import", older];
  const { stdout } = spawnSync(
    process.execPath,
    [...flags, "--input-type=module", "--eval", program],
    { encoding: "utf8" },
  );
  return stdout.trim();
}

proves(["D580"], "names the required version if an older Node imports the library", () => {
  const { engines } = ManifestSchema.parse(JSON.parse(readFileSync("package.json", "utf8")));
  expect(engines.node).toBe(">=22.19.0");
  for (const version of ["20.20.2", "22.18.0"])
    expect(importedBy(version)).toBe(
      `unsupported_node: espalier needs Node 22.19 or newer, got ${version}. Install it from https://nodejs.org.`,
    );
  for (const version of ["22.19.0", "100.1.0"]) expect(importedBy(version)).toBe("imported");
});
