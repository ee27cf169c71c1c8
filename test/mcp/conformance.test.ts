// Goal: the public conformance suite for clients passes, every scenario of it: also the drafts (offline access, a resource that is another)
// and the extensions (client credentials, access across applications). Method: the suite as it is published runs each scenario against a
// program on `connectMcp`; its servers listen on this machine only. What the suite adds with an update is run without a change here.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";

const SUITE = fileURLToPath(import.meta.resolve("@modelcontextprotocol/conformance/dist/index.js"));
/** The suite ends a client that takes longer; then it is ended itself. */
const CLIENT_MS = 20_000;
const SUITE_MS = 25_000;

const scenarios = execFileSync(process.execPath, [SUITE, "list", "--client"], { encoding: "utf8" })
  .split("\n")
  .flatMap((line) => /^ {2}- (\S+) \[/.exec(line)?.[1] ?? []);

test("the suite has what it had, or more", () => {
  expect(scenarios.length).toBeGreaterThanOrEqual(26);
  expect(scenarios).toContain("elicitation-sep1034-client-defaults");
  expect(scenarios).toContain("auth/scope-step-up");
});

for (const scenario of scenarios)
  proves(["M79"], `the client conforms in ${scenario}`, async () => {
    const { code, report } = await run(scenario);
    expect(code, report).toBe(0);
  });

/** How the suite ends, and all that it and the client said. */
async function run(scenario: string): Promise<{ code: number | null; report: string }> {
  const folder = mkdtempSync(join(tmpdir(), "conformance-"));
  afterwards(() => rmSync(folder, { recursive: true }));
  const client = `${process.execPath} --conditions=@espalier/source ${sibling("conformance-client.ts")}`;
  const asked = ["--scenario", scenario, "--command", client, "--timeout", String(CLIENT_MS)];
  const suite = ["--import", sibling("conformance-listener.ts"), SUITE, "client", ...asked];
  // A group of its own: the suite leaves a client that it has given up behind.
  const child = spawn(process.execPath, [...suite, "--output-dir", folder], { detached: true });
  const end = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // All of them have ended.
    }
  };
  afterwards(end);
  const guard = setTimeout(end, SUITE_MS);
  let report = "";
  child.stdout.on("data", (chunk: unknown) => (report += String(chunk)));
  child.stderr.on("data", (chunk: unknown) => (report += String(chunk)));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  clearTimeout(guard);
  return { code, report: `${report}\n${wordsIn(folder)}` };
}

/** What the client wrote. */
function wordsIn(folder: string): string {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => file.endsWith(".txt"))
    .map((file) => readFileSync(join(folder, file), "utf8"))
    .join("\n");
}

function sibling(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}
