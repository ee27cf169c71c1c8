// Goal: behaviour that only a process shows: signals, an outdated Node, another copy of the
// package, configurations that Node loads, scripts in real shells.
// Method: the command spawned, against a server that speaks Chat Completions.

import { execFile } from "node:child_process";
import { readFileSync, realpathSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { promisify } from "node:util";

import { expect, test } from "vitest";
import { z } from "zod";

import { temporaryFolder, type TemporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { calls, OpenAiServer, says } from "../../support/openai-server.ts";
import {
  linkPackage,
  startCommand,
  type ProcessEnd,
  type StartOptions,
} from "../../support/cli/process-program.ts";

const LEAD = "---\nmodel: some-model\n---\nWork.\n";

function newFolder(files: Readonly<Record<string, string>> = {}): TemporaryFolder {
  const folder = temporaryFolder(files);
  afterwards(() => folder[Symbol.dispose]());
  return folder;
}

const command = (args: readonly string[], options: StartOptions): Promise<ProcessEnd> =>
  startCommand(args, options).ended;

/** Starts a server that never answers; `asked` resolves at its first request. */
async function silentServer() {
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const server = await OpenAiServer.start(() => {
    ask();
    return new Promise(() => {});
  });
  afterwards(() => server[Symbol.asyncDispose]());
  return { env: { OPENAI_BASE_URL: server.baseUrl }, asked };
}

proves(
  ["V48"],
  "cancels the tree on the first Ctrl-C and exits with 130 and the reason",
  async () => {
    const folder = newFolder({ "lead.md": LEAD });
    const { env, asked } = await silentServer();
    const { child, ended } = startCommand(["run", "lead.md", "Go."], { cwd: folder.path, env });
    await asked;
    child.kill("SIGINT");
    const { code, stdout, stderr } = await ended;
    expect([code, stdout]).toEqual([130, ""]);
    expect(stderr).toContain("Cancelling the run. Press Ctrl-C again to exit immediately.");
    expect(stderr).toContain("cancelled (cancelled): Ctrl-C was pressed.");
  },
);

proves(["V48"], "exits with 130 on the second Ctrl-C without waiting for a tool", async () => {
  const folder = newFolder({
    "package.json": '{"type":"module"}',
    "slow.ts": `
      import { defineAgent, defineTool } from "espalier";
      import { z } from "zod";
      const slow = defineTool({
        name: "slow", description: "Never ends.", inputSchema: z.object({}),
        execute: () => { process.stderr.write("at work\\n"); return new Promise(() => setInterval(() => {}, 1_000)); },
      });
      const model = {
        provider: "p", id: "m", price: { inputUsdPerMillion: 0, outputUsdPerMillion: 0 },
        generate: async () => ({
          message: { role: "assistant", text: "", toolCalls: [{ callId: "1", toolName: "slow", argumentsText: "{}" }] },
          finishReason: "tool_calls",
          usage: { inputTokens: 1, cachedInputTokens: 0, outputTokens: 1, reasoningTokens: 0 },
        }),
      };
      export default defineAgent({ name: "slow", instructions: "Work.", model, tools: [slow] });
    `,
  });
  linkPackage(folder.path);
  const { child, ended, seen } = startCommand(["run", "slow.ts", "Go."], { cwd: folder.path });
  await seen("at work");
  child.kill("SIGINT");
  await seen("Cancelling the run.");
  child.kill("SIGINT");
  const { code, stderr } = await ended;
  expect(code).toBe(130);
  expect(stderr).not.toContain("cancelled (cancelled)");
});

const SummarySchema = z.looseObject({ status: z.string(), runId: z.string() });

proves(
  ["V48"],
  "pauses a stored run on SIGTERM, which can be resumed, and cancels one without a store",
  async () => {
    const folder = newFolder({
      "lead.md": "---\nmodel: some-model\ntools: [folder_list]\n---\nWork.\n",
    });
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
    await using server = await OpenAiServer.start(async (_request, count) => {
      if (count > 1) return says("Resumed.");
      ask();
      await released;
      return calls(["folder_list", {}]);
    });
    const env = { OPENAI_BASE_URL: server.baseUrl };
    const at = { cwd: folder.path, env };
    const { child, ended, seen } = startCommand(["run", "lead.md", "Go.", "--json"], at);
    await asked;
    child.kill("SIGTERM");
    await seen("Received a termination signal: the run pauses before its next step");
    release();
    const { code, stdout } = await ended;
    expect([code, SummarySchema.parse(JSON.parse(stdout)).status]).toEqual([143, "paused"]);
    const resumed = await command(["resume", "@last"], at);
    expect([resumed.code, resumed.stdout]).toEqual([0, "Resumed.\n"]);
    expect(server.requests).toHaveLength(2);

    const silent = await silentServer();
    const unkept = startCommand(["run", "lead.md", "Go.", "--no-store"], {
      ...at,
      env: silent.env,
    });
    await silent.asked;
    unkept.child.kill("SIGTERM");
    const end = await unkept.ended;
    expect([end.code, end.stdout]).toEqual([143, ""]);
    expect(end.stderr).toContain("the run is cancelled, because it is not stored");
  },
);

proves(["V49"], "reports an outdated Node in one line and imports nothing", async () => {
  const folder = newFolder({
    "old.mjs": `import { registerHooks } from "node:module";
      Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.11.1" } });
      registerHooks({ load: (url, context, next) => { process.stdout.write(url + "\\n"); return next(url, context); } });`,
  });
  const flags = ["--import", folder.at("old.mjs")];
  const { code, stdout, stderr } = await command(["--help"], { cwd: folder.path, flags });
  expect([code, stderr]).toEqual([
    2,
    "espalier needs Node 22.19 or newer, got 20.11.1. Install it from https://nodejs.org.\n",
  ]);
  expect(
    stdout
      .trimEnd()
      .split("\n")
      .map((url) => url.replace(/.*\//, "")),
  ).toEqual(["main.ts"]);
  const json = await command(["runs", "--json"], { cwd: folder.path, flags });
  const [last = ""] = json.stdout.trimEnd().split("\n").slice(-1);
  expect([json.code, JSON.parse(last)]).toEqual([
    2,
    { error: { code: "unsupported_node", message: json.stderr.trimEnd() } },
  ]);
});

test("requires the Node of package.json", () => {
  const { engines } = z
    .object({ engines: z.object({ node: z.string() }) })
    .parse(JSON.parse(readFileSync("package.json", "utf8")));
  const [, major, minor] = /^>=(\d+)\.(\d+)\.0$/.exec(engines.node) ?? [];
  expect(readFileSync("src/cli/main.ts", "utf8")).toContain(`{ major: ${major}, minor: ${minor} }`);
});

proves(
  ["V49"],
  "loads no file of the library for help, and only the argument parser of its packages",
  async () => {
    const folder = newFolder({
      "list.mjs": `import { registerHooks } from "node:module";
      registerHooks({ load: (url, context, next) => { process.stderr.write(url + "\\n"); return next(url, context); } });`,
    });
    const flags = ["--import", folder.at("list.mjs")];
    const { code, stdout, stderr } = await command(["--help"], { cwd: folder.path, flags });
    expect([code, stdout.split("\n")[0]]).toEqual([0, "Usage: espalier [options] [command]"]);
    const loaded = stderr
      .trimEnd()
      .split("\n")
      .filter((url) => url.startsWith("file:"));
    const others = loaded.filter(
      (url) => !/\/(src\/cli|node_modules\/commander)\/[^/]+(\/[^/]+)?$/.test(url),
    );
    expect(others).toEqual([]);
    expect(loaded.filter((url) => url.includes("/commands/"))).toEqual([]);
  },
);

proves(["V49"], "runs the command of a project's own copy of the package", async () => {
  const folder = newFolder({
    "node_modules/espalier/package.json":
      '{"name":"espalier","version":"9.9.9","type":"module","bin":{"espalier":"own.js"}}',
    "node_modules/espalier/own.js":
      'process.stdout.write("own copy " + process.argv.slice(2).join() + "\\n"); process.exitCode = 7;',
  });
  expect(await command(["run", "x"], { cwd: folder.path })).toEqual({
    code: 7,
    stdout: "own copy run,x\n",
    stderr: "",
  });
});

const CONFIG = `
  import { defineConfig } from "espalier/config";
  import { lead } from "./lead.ts";
  export default defineConfig({ roles: [lead], store: "kept/runs.db" });
`;
const CODED_LEAD = `
  import { defineAgent, openai } from "espalier";
  export const lead = defineAgent({ name: "lead", instructions: "Work.", model: openai("some-model") });
`;

proves(
  ["V50"],
  "finds a configuration upwards to the project's root, and runs its roles by name",
  async () => {
    await using server = await OpenAiServer.start(() => says("Done."));
    const env = { OPENAI_BASE_URL: server.baseUrl };
    const folder = newFolder({
      "package.json": '{"type":"module"}',
      "espalier.config.ts": CONFIG,
      "lead.ts": CODED_LEAD,
      "deep/er/file.txt": "",
      "kept/": "",
      "other/package.json": "{}",
    });
    linkPackage(folder.path);
    const args = ["run", "lead", "Go.", "--quiet"];
    const done = await command(args, { cwd: folder.at("deep/er"), env });
    expect(done).toEqual({ code: 0, stdout: "Done.\n", stderr: "" });
    expect(readFileSync(folder.at("kept/runs.db")).length).toBeGreaterThan(0);
    const beyond = await command(args, { cwd: folder.at("other"), env });
    expect([beyond.code, beyond.stderr]).toEqual([
      2,
      expect.stringContaining("Roles of the configuration: none."),
    ]);
  },
);

/**
 * Returns the problem of each configuration, found in one process of Node itself, because the test
 * loader also loads what Node refuses.
 */
async function problemsWith(
  texts: readonly string[],
  folder: TemporaryFolder,
): Promise<readonly string[]> {
  const files = texts.map((text, index) => {
    const file = folder.at(`espalier.config-${index}.ts`);
    writeFileSync(file, text);
    return file;
  });
  const program = `
    import { importFile } from ${JSON.stringify(resolve("src/cli/import-file.ts"))};
    import { checkConfigExport } from ${JSON.stringify(resolve("src/cli/project.ts"))};
    const said = [];
    for (const file of ${JSON.stringify(files)})
      await importFile(file).then((found) => checkConfigExport(found, file)).then(() => said.push("well"), (error) => said.push(error.name + ": " + error.message));
    console.log(JSON.stringify(said));`;
  const flags = ["--conditions=@espalier/source", "--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, flags);
  return z.array(z.string()).parse(JSON.parse(stdout));
}

proves(["V50"], "reports a load failure with file, line and remedy", async () => {
  const folder = newFolder({
    "package.json": '{"type":"module"}',
    "there.ts": "export const a = 1;",
  });
  linkPackage(folder.path);
  const faults: readonly (readonly [text: string, says: RegExp])[] = [
    [
      "\nenum A { x }\nexport default {};",
      /config-0\.ts:2: TypeScript enum is not supported.*Use erasable syntax only/,
    ],
    [
      "class A { constructor(private x: number) {} }",
      /config-1\.ts:1: TypeScript parameter property is not supported/,
    ],
    ['import { a } from "./there.js";\nexport default { a };', /A file of that name ends in \.ts/],
    [
      'import a from "@/there";\nexport default { a };',
      /Paths of tsconfig\.json are not supported/,
    ],
    ["export default {\n  roles: ,\n};", /config-4\.ts:2: /],
    ["export const roles = [];", /to have a default export, got none/],
    ["export default { rols: [] };", /config-6\.ts: Expected config\.rols to be one of roles, /],
    ["export default [];", /UsageError: .*config-7\.ts: Expected config to be a plain object/],
    ['throw new Error("mine");', /^UsageError: \S+config-8\.ts:1 threw: mine$/],
  ];
  const said = await problemsWith(
    faults.map(([text]) => text),
    folder,
  );
  expect(said).toHaveLength(faults.length);
  for (const [index, [, words]] of faults.entries()) expect(said[index]).toMatch(words);
});

proves(
  ["V40", "V50"],
  "exits with 2 and one line for a configuration that cannot be loaded, with a stack only on request",
  async () => {
    const folder = newFolder({
      "a/espalier.config.ts": "enum A { x }\nexport default {};",
      "b/espalier.config.mjs": 'throw new Error("mine");',
    });
    const wrong = await command(["run", "lead", "Go."], { cwd: folder.at("a") });
    expect([wrong.code, wrong.stdout]).toEqual([2, ""]);
    expect(wrong.stderr).toMatch(/^[^\n]*espalier\.config\.ts:1: [^\n]+\n$/);
    const thrown = await command(["run", "lead", "Go."], { cwd: folder.at("b") });
    expect([thrown.code, thrown.stdout]).toEqual([2, ""]);
    expect(thrown.stderr).toBe(
      `${realpathSync(folder.at("b/espalier.config.mjs"))}:1 threw: mine [usage]\n`,
    );
    const verbose = await command(["run", "lead", "Go.", "--verbose"], { cwd: folder.at("b") });
    expect(verbose.stderr).toMatch(/^ +at .*espalier\.config\.mjs:1/m);
  },
);

proves(["V47"], "completes commands, options and run ids in bash", async () => {
  const folder = newFolder();
  const { stdout: script } = await command(["completion", "bash"], { cwd: folder.path });
  writeFileSync(
    folder.at("complete.sh"),
    `${script}
    espalier() { [ "$1 $2" = "__complete run" ] && printf '@last\\nrun_abc\\nrun_xyz\\n'; }
    try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _espalier; echo "\${COMPREPLY[*]}"; }
    try espalier de; try espalier run --allow; try espalier resume run_a; try espalier roles ch; try espalier resume --take`,
  );
  const { stdout } = await promisify(execFile)("bash", [folder.at("complete.sh")]);
  expect(stdout.split("\n")).toEqual([
    "demo deny",
    "--allow-read",
    "run_abc",
    "check",
    "--take-over",
    "",
  ]);
});
