// Goal: a configuration that cannot be loaded is reported with place and reason, as wrong use.
// Method: the command as a process, in folders with broken configurations.

import { realpathSync } from "node:fs";
import { join } from "node:path";

import { expect } from "vitest";
import { z } from "zod";

import { temporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { linkPackage, startCommand, type ProcessEnd } from "../../support/cli/process-program.ts";

const FAILURE = z.strictObject({
  error: z.strictObject({ code: z.string(), message: z.string() }),
});

const SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz123456";

/** The text of `espalier.config.<extension>`, and the message with `$` for its path. */
const BROKEN: Readonly<Record<string, readonly [extension: string, text: string, said: string]>> = {
  "has a syntax error": [
    "js",
    "export default {\n  roles: = [],\n};\n",
    "$:2: Unexpected token '='. Correct it.",
  ],
  "has a syntax error as an .mjs file": [
    "mjs",
    "export default {\n  roles: [\n};\n",
    "$:3: Unexpected token '}'. Correct it.",
  ],
  "imports a file with a syntax error": [
    "js",
    'import "./parts/broken.js";\nexport default {};\n',
    "%/parts/broken.js:2: Missing initializer in const declaration. Correct it.",
  ],
  throws: ["js", 'const url = 1;\nthrow new Error("no database");\n', "$:2 threw: no database"],
  "throws as TypeScript": [
    "ts",
    'const url: number = 1;\nthrow new Error("no database");\nexport default { url };\n',
    "$:2 threw: no database",
  ],
  "throws what is no error": ["js", 'throw "no database";\n', "$ threw: no database"],
  "calls a function that throws": [
    "js",
    'import { connect } from "./parts/connect.js";\nconnect();\nexport default {};\n',
    "$ (%/parts/connect.js:2) threw: no host",
  ],
  "reads broken JSON": [
    "js",
    'export default JSON.parse("{]");\n',
    expect.stringMatching(/^\$:1 threw: Expected property name/u),
  ],
  "awaits a rejection": [
    "js",
    'await Promise.reject(new Error("no database"));\nexport default {};\n',
    "$:1 threw: no database",
  ],
  "awaits a promise that never settles": [
    "js",
    "await new Promise(() => {});\nexport default {};\n",
    "$ awaits a promise that never settles. Correct the await at its top level.",
  ],
  "calls process.exit": [
    "js",
    "\nprocess.exit(0);\n",
    "$:2 called process.exit(0) while $ was loaded. Throw an error instead.",
  ],
  "has no default export": [
    "js",
    "export const config = {};\n",
    "Expected $ to have a default export, got none. Write: export default ….",
  ],
  "quotes a secret": [
    "js",
    `throw new Error("wrong key ${SECRET}");\n`,
    "$:1 threw: wrong key [redacted]",
  ],
};

for (const [what, [extension, text, said]] of Object.entries(BROKEN))
  proves(["D616"], `names the place of a configuration that ${what}`, async () => {
    const name = `espalier.config.${extension}`;
    const folder = newFolder({ [name]: text });
    const ended = await startCommand(["runs", "--json"], { cwd: folder }).ended;
    const { error } = FAILURE.parse(JSON.parse(ended.stdout));
    const file = join(folder, name);
    const message = error.message.replaceAll(file, "$").replaceAll(folder, "%");
    expect([ended.code, error.code, message]).toEqual([2, "usage", said]);
    expect(ended.stderr).toBe(`${error.message} [usage]\n`);
  });

proves(
  ["D616"],
  "names the command that makes Node read an imported file as a module",
  async () => {
    const folder = newFolder({
      "package.json": '{ "type": "commonjs" }',
      "espalier.config.mjs":
        'import { lead } from "./roles.ts";\n\nexport default { roles: [lead] };\n',
      "roles.ts": 'export const lead = "lead";\n',
    });
    const { code, stderr } = await startCommand(["runs"], { cwd: folder }).ended;
    expect(code).toBe(2);
    expect(stderr).toContain(
      `Node reads ${join(folder, "roles.ts")} as CommonJS, since ${join(folder, "package.json")} lacks "type": "module". Run in ${folder}: npm pkg set type=module [usage]`,
    );
    expect(stderr.split("\n")).toHaveLength(2);
  },
);

proves(["D616"], "keeps the code of an espalier error that a configuration throws", async () => {
  const folder = newFolder({
    "espalier.config.js": `import { defineAgent } from "espalier";

export default { roles: [defineAgent({ name: "lead", tool: [], apiKey: "${SECRET}" })] };
`,
  });
  linkPackage(folder);
  const ended = await startCommand(["runs", "--json", "--verbose"], { cwd: folder }).ended;
  const { error } = FAILURE.parse(JSON.parse(ended.stdout));
  expect([ended.code, error.code]).toEqual([2, "invalid_argument"]);
  expect(error.message).toContain(`${join(folder, "espalier.config.js")}:3: `);
  expect(ended.stderr).not.toContain(SECRET);
});

proves(["D617"], "redirects stdout of a configuration and of tools to stderr", async () => {
  const files = {
    "espalier.config.js": `import { defineConfig } from "espalier/config";

console.log("configured");
export default defineConfig({});
`,
    "lead.js": `import { defineAgent, defineTool } from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";
import { z } from "zod";

const talk = defineTool({
  name: "talk",
  description: "Talks.",
  inputSchema: z.object({}),
  execute: () => {
    console.log("a tool logs");
    console.info("a tool informs");
    process.stdout.write("a tool writes\\n");
    return "talked";
  },
});
const model = new ScriptedModel([asks("talk", {}), says("Done.")]);
export default defineAgent({ name: "lead", description: "Leads.", instructions: "Lead.", model, tools: [talk] });
`,
  };
  const folder = newFolder(files);
  linkPackage(folder);
  const run = async (...more: readonly string[]): Promise<ProcessEnd> => {
    const args = ["run", "lead.js", "Go.", "--no-store", ...more];
    return await startCommand(args, { cwd: folder }).ended;
  };
  const json = await run("--json");
  expect(JSON.parse(json.stdout)).toMatchObject({ status: "completed", text: "Done." });
  const text = await run();
  expect(text.stdout).toBe("Done.\n");
  for (const { code, stderr } of [json, text]) {
    expect(code).toBe(0);
    for (const said of ["configured", "a tool logs", "a tool informs", "a tool writes"])
      expect(stderr).toContain(`${said}\n`);
  }
  const events = await run("--events");
  for (const line of events.stdout.trimEnd().split("\n")) JSON.parse(line);
});

function newFolder(files: Readonly<Record<string, string>>): string {
  const folder = temporaryFolder({
    "package.json": '{ "type": "module" }',
    "parts/broken.js": "export const a = 1;\nexport const b: = 2;\n",
    "parts/connect.js": 'export function connect() {\n  throw new Error("no host");\n}\n',
    ...files,
  });
  afterwards(() => folder[Symbol.dispose]());
  return realpathSync(folder.path);
}
