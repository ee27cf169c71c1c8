// Goal: code of a run that the command executes reads the context of the configuration.
// Method: the command within the test, with a Chat Completions server.

import { expect } from "vitest";

import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { performed, withVariable } from "../../support/cli/performed.ts";
import { calls, OpenAiServer, says } from "../../support/openai-server.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const CONFIG = `import { defineTool } from "espalier";
import { z } from "zod";
const inputSchema = z.object({});
const greet = { name: "greet", description: "Greets.", inputSchema, needsApproval: true };
const execute = (_input, { context }) => "Hello, " + context.user + ".";
export default {
  tools: [defineTool({ ...greet, execute, needsApproval: (_input, { context }) => context.user === "Ann" })],
  context: CONTEXT,
};`;

async function openProject(context: string): Promise<{ readonly cwd: string; results(): unknown }> {
  const folder = temporaryFolder({
    "lead.md": "---\nmodel: m\ntools: [greet]\n---\nWork.\n",
    "espalier.config.mjs": CONFIG.replace("CONTEXT", context),
  });
  afterwards(() => folder[Symbol.dispose]());
  const server = await OpenAiServer.start((_request, count) =>
    count === 1 ? calls(["greet", {}]) : says("Done."),
  );
  afterwards(() => server[Symbol.asyncDispose]());
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  return { cwd: folder.path, results: () => server.requests.at(-1)?.body };
}

proves(["D802"], "passes the context of the configuration to `run` and to `resume`", async () => {
  const { cwd, results } = await openProject('async () => ({ user: "Ann" })');
  expect((await performed(["run", "lead.md", "Go."], { cwd })).code).toBe(4);
  expect((await performed(["approve", "@last"], { cwd })).code).toBe(0);
  const resumed = await performed(["resume", "@last"], { cwd });
  expect([resumed.code, resumed.stdout]).toEqual([0, "Done.\n"]);
  expect(JSON.stringify(results())).toContain("Hello, Ann.");
});

proves(["D802"], "reports a context function that throws before the run starts", async () => {
  const { cwd } = await openProject('() => { throw new Error("no database"); }');
  const { code, stderr } = await performed(["run", "lead.md", "Go."], { cwd });
  expect([code, stderr]).toEqual([
    2,
    `Expected \`context\` of ${cwd}/espalier.config.mjs to return the context, but it threw: no database. Fix it. [context_failed]\n`,
  ]);
  expect(await performed(["runs"], { cwd })).toMatchObject({ code: 0 });
});
