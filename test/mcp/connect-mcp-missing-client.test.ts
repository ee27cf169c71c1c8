// Goal: without the official client, which is optional, the entry can be imported, and connecting
// names the package to install.
// Method: the sources in a folder with all packages but that one, and a program in its own process.

import { spawn } from "node:child_process";
import { once } from "node:events";
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
import { join, resolve } from "node:path";

import { expect, test } from "vitest";

import { afterwards } from "../harness/afterwards.ts";

/** Creates a folder with the sources and every package that is not missing. */
function projectWithout(isMissing: (name: string) => boolean): string {
  const folder = mkdtempSync(join(tmpdir(), "espalier-"));
  afterwards(() => rmSync(folder, { recursive: true }));
  cpSync("src", join(folder, "src"), { recursive: true });
  mkdirSync(join(folder, "node_modules"));
  for (const name of readdirSync("node_modules")) {
    if (isMissing(name)) continue;
    symlinkSync(resolve("node_modules", name), join(folder, "node_modules", name), "dir");
  }
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  return folder;
}

async function output(folder: string, program: string): Promise<string> {
  writeFileSync(join(folder, "program.ts"), program);
  const flags = ["--disable-warning=ExperimentalWarning"];
  const child = spawn(process.execPath, [...flags, join(folder, "program.ts")]);
  afterwards(() => child.kill("SIGKILL"));
  let text = "";
  child.stdout.on("data", (chunk: unknown) => (text += String(chunk)));
  child.stderr.on("data", (chunk: unknown) => (text += String(chunk)));
  await once(child, "close");
  return text;
}

const CONNECT = `
  import { connectMcp } from "./src/mcp/connect-mcp.ts";
  console.log("imported");
  const said = ({ code, message, data, cause }) => console.log(JSON.stringify({ code, message, data, cause: cause?.code }));
  await connectMcp({ name: "files", transport: { type: "http", url: "http://127.0.0.1:1/mcp" } }).catch(said);
  await connectMcp({ name: "fi les" }).catch(({ code }) => console.log(code));
`;

test("imports the entry, and names the package to install when it connects", async () => {
  const folder = projectWithout((name) => name === "@modelcontextprotocol");
  const lines = (await output(folder, CONNECT)).trim().split("\n");
  expect([lines[0], JSON.parse(lines[1] ?? ""), ...lines.slice(2)]).toEqual([
    "imported",
    {
      code: "missing_package",
      message:
        "The package @modelcontextprotocol/client is not installed: without it, no MCP server can be reached. Run: npm install @modelcontextprotocol/client.",
      data: { package: "@modelcontextprotocol/client" },
      cause: "ERR_MODULE_NOT_FOUND",
    },
    "invalid_argument", // Invalid options are reported first.
  ]);
});

test("does not report a client as missing that is installed but broken", async () => {
  const folder = projectWithout((name) => name === "@modelcontextprotocol");
  const client = join(folder, "node_modules", "@modelcontextprotocol", "client");
  mkdirSync(client, { recursive: true });
  writeFileSync(
    join(client, "package.json"),
    '{ "type": "module", "exports": { ".": "./index.js", "./stdio": "./index.js" } }',
  );
  writeFileSync(join(client, "index.js"), 'import "not-there";');
  const text = await output(folder, CONNECT);
  expect(text).toContain("Cannot find package 'not-there'");
  expect(text).not.toContain("npm install");
});
