// Goal: a new project gets the module type and the MCP client only if the user asks for them, and a
// file that Node takes for CommonJS is refused with the command that fixes it.
// Method: the command as a process, at a pseudo-terminal where a person is asked, with an npm that
// records its arguments.

import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

import { expect } from "vitest";

import { temporaryFolder } from "../../support/temporary-folder.ts";
import { proves } from "../../harness/proves.ts";
import { linkPackage, startCommand } from "../../support/cli/process-program.ts";
import { startAtTerminal } from "../../support/cli/terminal-program.ts";

const PACKAGE = '{\n\t"name": "mine",\n\t"type": "commonjs"\n}\n';
const ROLE = `import { defineAgent } from "espalier";
import { says, ScriptedModel } from "espalier/testing";
const model = new ScriptedModel([says("Well.")]);
export default defineAgent({ name: "lead", description: "Leads.", instructions: "Lead.", model });
`;

/** Creates a project whose npm records its calls. */
function project(files: Readonly<Record<string, string>> = {}) {
  const folder = temporaryFolder({ "package.json": PACKAGE, ...files });
  mkdirSync(folder.at("bin"));
  writeFileSync(folder.at("bin/npm"), '#!/bin/sh\necho "$@" >> npm-calls.txt\n');
  chmodSync(folder.at("bin/npm"), 0o755);
  const read = (name: string): string =>
    existsSync(folder.at(name)) ? readFileSync(folder.at(name), "utf8") : "";
  return {
    at: { cwd: folder.path, env: { PATH: `${folder.at("bin")}:${process.env["PATH"] ?? ""}` } },
    calls: () => read("npm-calls.txt"),
    manifest: (): unknown => JSON.parse(read("package.json")),
    folder,
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

const scripts = { lead: "espalier run lead.md" };
const MODULE = 'Set "type": "module"';
const CLIENT = "Install @modelcontextprotocol/client";

proves(
  ["D533"],
  "sets the module type and installs the MCP client at a terminal only after a yes to each",
  async () => {
    for (const [first, second, type, packages] of [
      ["y", "n", "module", "espalier zod"],
      ["n", "y", "commonjs", "espalier zod @modelcontextprotocol/client"],
      // Enter alone means no.
      ["\r", "\r", "commonjs", "espalier zod"],
    ] as const) {
      using made = project();
      const terminal = startAtTerminal(["init"], made.at);
      await terminal.seen(MODULE);
      terminal.type(first);
      await terminal.seen(CLIENT);
      terminal.type(second);
      await terminal.seen("Make these changes?");
      expect(made.manifest()).toEqual({ name: "mine", type: "commonjs" });
      terminal.type("y");
      expect(await terminal.ended).toBe(0);
      expect([made.manifest(), made.calls()]).toEqual([
        { name: "mine", type, scripts },
        `install ${packages}\n`,
      ]);
      expect(terminal.screen().includes("npm pkg set type=module")).toBe(type === "commonjs");
    }
  },
);

proves(
  ["D533"],
  "does both without a terminal only with the options, and names the command otherwise",
  async () => {
    for (const [options, type, packages] of [
      [[], "commonjs", "espalier zod"],
      [["--module"], "module", "espalier zod"],
      [["--mcp"], "commonjs", "espalier zod @modelcontextprotocol/client"],
      [["--mcp", "--module"], "module", "espalier zod @modelcontextprotocol/client"],
    ] as const) {
      using made = project();
      const { code, stderr } = await startCommand(["init", "--yes", ...options], made.at).ended;
      expect([code, made.manifest(), made.calls()]).toEqual([
        0,
        { name: "mine", type, scripts },
        `install ${packages}\n`,
      ]);
      expect(stderr.includes("npm pkg set type=module")).toBe(type === "commonjs");
    }
  },
);

proves(
  ["D534"],
  "names a command after which a role or configuration in TypeScript loads",
  async () => {
    for (const [name, text] of [
      ["lead.ts", ROLE],
      ["espalier.config.ts", "export default {};\n"],
    ] as const) {
      using made = project({ "lead.ts": ROLE, [name]: text });
      linkPackage(made.folder.path);
      const run = async () => await startCommand(["run", "lead.ts", "Go."], made.at).ended;
      const { code, stdout, stderr } = await run();
      expect([code, stdout]).toEqual([2, ""]);
      expect(stderr).toContain(made.folder.at(name));
      expect(stderr).toContain(`Run in ${made.folder.path}: npm pkg set type=module`);
      const options = { cwd: made.folder.path, encoding: "utf8" } as const;
      expect(spawnSync("npm", ["pkg", "set", "type=module"], options).status).toBe(0);
      expect(await run()).toMatchObject({ code: 0, stdout: "Well.\n" });
    }
  },
);
