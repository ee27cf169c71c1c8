// Goal: the client passes every scenario of the public conformance suite, including the drafts
// (offline access, another resource) and the extensions (client credentials, access across
// applications).
// Method: the published suite runs each scenario against a program on `connectMcp`; its servers
// listen on this machine only. Scenarios that an update adds are run without a change here.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";

const SUITE = fileURLToPath(import.meta.resolve("@modelcontextprotocol/conformance/dist/index.js"));
/** The suite ends a client that takes longer; then the suite itself is ended. */
const CLIENT_MS = 20_000;
const SUITE_MS = 25_000;

const scenarios = execFileSync(process.execPath, [SUITE, "list", "--client"], { encoding: "utf8" })
  .split("\n")
  .flatMap((line) => /^ {2}- (\S+) \[/.exec(line)?.[1] ?? []);

test("has at least the scenarios that are known", () => {
  expect(scenarios.length).toBeGreaterThanOrEqual(26);
  expect(scenarios).toContain("elicitation-sep1034-client-defaults");
  expect(scenarios).toContain("auth/scope-step-up");
});

for (const scenario of scenarios)
  proves(["M79"], `passes with the client in ${scenario}`, async () => {
    const { code, report } = await run(scenario);
    expect(code, report).toBe(0);
  });

/** Returns the exit code of the suite, and the output of the suite and the client. */
async function run(scenario: string): Promise<{ code: number | null; report: string }> {
  const folder = mkdtempSync(join(tmpdir(), "conformance-"));
  afterwards(() => rmSync(folder, { recursive: true }));
  const client = `${process.execPath} --conditions=@espalier/source ${sibling("../support/mcp/conformance-client.ts")}`;
  const asked = ["--scenario", scenario, "--command", client, "--timeout", String(CLIENT_MS)];
  const suite = [
    "--import",
    sibling("../support/mcp/conformance-listener.ts"),
    SUITE,
    "client",
    ...asked,
  ];
  // Uses its own process group: the suite leaves an abandoned client behind.
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

/** Returns the output of the client. */
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
