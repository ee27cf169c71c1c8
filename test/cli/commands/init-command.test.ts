// Goal: commands that set a project up, check it or complete words never overwrite files, and
// report faults with their line.
// Method: the command within the test, on temporary folders.

import { readFileSync, writeFileSync } from "node:fs";

import { expect } from "vitest";
import { z } from "zod";

import { describeBudget } from "../../../src/cli/amount-options.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { proves } from "../../harness/proves.ts";
import { OpenAiServer, says } from "../../support/openai-server.ts";
import { performed, withVariable } from "../../support/cli/performed.ts";

const CONFIG_ENTRY = new URL("../../../src/config/define-config.ts", import.meta.url);
const INIT = ["init", "--yes", "--no-install"];

proves(["V44"], "creates roles that run unchanged with init, and reports each action", async () => {
  using folder = temporaryFolder({ "package.json": '{\n    "name": "mine"\n}\n' });
  await using server = await OpenAiServer.start(() => says("It is a project."));
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  const made = await performed(INIT, { cwd: folder.path });
  expect(made.code).toBe(0);
  for (const what of [
    "create lead.md",
    "create reader.md",
    "create mcp.json",
    "add to package.json the script lead",
  ])
    expect(made.stderr).toContain(what);
  expect(readFileSync(folder.at("package.json"), "utf8")).toBe(
    '{\n    "name": "mine",\n    "scripts": {\n        "lead": "espalier run lead.md"\n    }\n}\n',
  );
  expect((await performed(["roles", "check"], { cwd: folder.path })).code).toBe(0);
  const run = await performed(["run", "lead.md", "What is this project?", "--quiet"], {
    cwd: folder.path,
  });
  expect(run).toEqual({ code: 0, stdout: "It is a project.\n", stderr: "" });
  expect(server.request(1).body).toMatchObject({ model: "gpt-5-mini" });
});

proves(["V44"], "overwrites nothing and repeats nothing with init", async () => {
  using folder = temporaryFolder({
    "lead.md": "mine",
    "package.json": '{"scripts":{"lead":"mine"}}',
  });
  expect((await performed(INIT, { cwd: folder.path })).stderr).not.toContain("lead.md\n");
  writeFileSync(folder.at("reader.md"), "mine, too");
  const again = await performed(INIT, { cwd: folder.path });
  expect([again.code, again.stderr]).toEqual([
    0,
    "Everything already exists. Nothing was changed.\n",
  ]);
  const texts = ["lead.md", "reader.md", "package.json"].map((name) =>
    readFileSync(folder.at(name), "utf8"),
  );
  expect(texts).toEqual(["mine", "mine, too", '{"scripts":{"lead":"mine"}}']);
});

proves(["V44"], "changes nothing with init if there is neither a terminal nor --yes", async () => {
  using folder = temporaryFolder();
  const { code, stderr } = await performed(["init"], { cwd: folder.path });
  expect([code, stderr]).toEqual([2, expect.stringContaining("Nothing was changed. [usage]\n")]);
});

proves(
  ["V45"],
  "reports every fault by file and line with roles check, and skips other files",
  async () => {
    using folder = temporaryFolder({
      "good.md": "---\nsubagents: [good]\n---\nWork.\n",
      "steps.md": "---\nmodel: m\nbudget: { steps: many }\n---\nWork.\n",
      "lost.md": "---\nmodel: m\nsubagents:\n  - nobody\n---\nWork.\n",
      "yaml.md": "---\nmodel: [\n---\nWork.\n",
      "README.md": "# None\n",
    });
    const { code, stdout, stderr } = await performed(["roles", "check"], { cwd: folder.path });
    expect([code, stderr]).toEqual([2, `4 role files in ${folder.path}, 3 problems.\n`]);
    expect(
      stdout
        .trimEnd()
        .split("\n")
        .map((line) => line.replace(`${folder.path}/`, "")),
    ).toEqual([
      expect.stringMatching(/^lost\.md:3: Expected a role file/),
      expect.stringMatching(/^steps\.md:3: Expected steps\.budget/),
      expect.stringMatching(/^yaml\.md:2: Expected valid YAML/),
    ]);
    const json = await performed(["roles", "check", "--json"], { cwd: folder.path });
    const { files } = z
      .object({ files: z.array(z.looseObject({ role: z.string() })) })
      .parse(JSON.parse(json.stdout));
    expect(files.map(({ role }) => role)).toEqual(["good", "lost", "steps", "yaml"]);
  },
);

proves(["V153"], 'uses singular and "no" for counts of one and zero with roles check', async () => {
  using folder = temporaryFolder({ "bad.md": "---\nmodel: [\n---\nWork.\n" });
  const bad = await performed(["roles", "check"], { cwd: folder.path });
  expect([bad.code, bad.stderr]).toEqual([2, `1 role file in ${folder.path}, 1 problem.\n`]);
  using good = temporaryFolder({ "good.md": "---\nmodel: m\n---\nWork.\n" });
  const well = await performed(["roles", "check"], { cwd: good.path });
  expect([well.code, well.stderr]).toEqual([0, `1 role file in ${good.path}, no problems.\n`]);
  expect(describeBudget({ steps: 1, totalTokens: 1, toolCalls: 1 })).toBe(
    "1 step, 1 token, 1 tool call",
  );
});

proves(
  ["V46"],
  "reports good and bad parts with doctor, creates no store, and exits with 1 for a bad part",
  async () => {
    using folder = temporaryFolder({
      "mcp.json": '{"mcpServers":{"gone":{"command":"no-such-program"}}}',
    });
    const { code, stdout } = await performed(["doctor", "--json"], { cwd: folder.path });
    const { findings } = z
      .object({ findings: z.array(z.looseObject({ what: z.string(), state: z.string() })) })
      .parse(JSON.parse(stdout));
    const states = Object.fromEntries(findings.map(({ what, state }) => [what, state]));
    expect(code).toBe(1);
    expect(states).toMatchObject({
      node: "well",
      store: "well",
      models: "note",
      "MCP server gone": "wrong",
    });
    const { stdout: listed } = await performed(["__complete", "run"], { cwd: folder.path });
    expect(listed).toBe("");
  },
);

proves(["V47"], "contains every visible command and option in completion scripts", async () => {
  using folder = temporaryFolder();
  for (const shell of ["bash", "zsh", "fish"]) {
    const { code, stdout } = await performed(["completion", shell], { cwd: folder.path });
    expect(code).toBe(0);
    for (const word of ["run", "demo", "init", "doctor", "resume", "questions", "approve"])
      expect(stdout).toContain(word);
    for (const option of ["budget", "allow-read", "arguments"]) expect(stdout).toContain(option);
    expect(stdout).toContain("espalier __complete run");
  }
  expect((await performed(["completion", "tcsh"], { cwd: folder.path })).code).toBe(2);
  expect((await performed(["--help"], { cwd: folder.path })).stdout).not.toContain("__complete");
});

proves(
  ["V138", "V158"],
  "names a configuration that throws or whose folder is missing",
  async () => {
    const said = async (config: string): Promise<readonly [number, string]> => {
      using folder = temporaryFolder({
        "espalier.config.mjs": config,
        "lead.md": "---\nmodel: some-model\n---\nWork.\n",
      });
      const { code, stderr } = await performed(["run", "lead", "Go."], { cwd: folder.path });
      return [code, stderr.replaceAll(folder.path, "…").trim()];
    };
    expect(await said('throw new Error("boom");')).toEqual([
      2,
      "…/espalier.config.mjs:1 threw: boom [usage]",
    ]);
    expect(await said('export default { roles: "nowhere" };')).toEqual([
      2,
      "Expected config.roles to be a folder of role files, but …/nowhere does not exist. Correct it in …/espalier.config.mjs. [usage]",
    ]);
    const at = String.raw`^…/espalier\.config\.mjs(?::1)?: Expected `;
    const defined = (config: string): string =>
      `import { defineConfig } from ${JSON.stringify(CONFIG_ENTRY.href)}; export default defineConfig(${config});`;
    expect(await said(defined("{ role: [] }"))).toEqual([
      2,
      expect.stringMatching(new RegExp(`${at}.*config\\.role.*\\[invalid_argument\\]$`)),
    ]);
    withVariable("OPENAI_BASE_URL", "http://127.0.0.1:1");
    expect(await said("export default { limits: { maxDepth: -1 } };")).toEqual([
      2,
      expect.stringMatching(new RegExp(`${at}.*maxDepth.*\\[invalid_argument\\]$`)),
    ]);
  },
);
