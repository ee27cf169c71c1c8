// Goal: the command that is suggested after a run resumes it, wherever its role is.
// Method: the command within the test, which then performs the suggested command, with a Chat
// Completions server.

import { expect, test } from "vitest";

import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { performed, withVariable } from "../../support/cli/performed.ts";
import { calls, OpenAiServer, says } from "../../support/openai-server.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const PROGRAM = `import { defineAgent, defineTool, openai } from "espalier";
import { z } from "zod";
const ask = { name: "ask", description: "Asks.", inputSchema: z.object({}) };
const model = openai("m");
const lead = { name: "lead", description: "Leads.", instructions: "Work.", model };
export default defineAgent({ ...lead, tools: [defineTool(ask)] });`;
const CONFIG = `import { defineTool } from "espalier";
import { z } from "zod";
const ask = { name: "ask", description: "Asks.", inputSchema: z.object({}) };
export default { tools: [defineTool(ask)] };`;
const ROLE = "---\ntools: [ask]\n---\nWork.\n";

/** Returns a folder of these files, and a server whose model asks `questions` times. */
async function newProject(files: Readonly<Record<string, string>>, questions = 1): Promise<string> {
  const folder = temporaryFolder(files);
  afterwards(() => folder[Symbol.dispose]());
  const server = await OpenAiServer.start((_request, count) =>
    count <= questions ? calls(["ask", {}]) : says("Done."),
  );
  afterwards(() => server[Symbol.asyncDispose]());
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  return folder.path;
}

/** Answers the open question, and returns the arguments of the command that is suggested next. */
async function answerAndReadNext(cwd: string, stderr: string): Promise<readonly string[]> {
  expect((await performed(["answer", "@last", "--result", "Yes."], { cwd })).code).toBe(0);
  const [, next = ""] = /Then: espalier (resume .*)$/mu.exec(stderr) ?? [];
  return next.split(" ");
}

const CASES: Readonly<Record<string, readonly [string, Readonly<Record<string, string>>, string]>> =
  {
    "a program": ["lead.mjs", { "lead.mjs": PROGRAM }, "--roles lead.mjs"],
    "a role file in another folder": [
      "team/lead.md --model m",
      { "team/lead.md": ROLE, "espalier.config.mjs": CONFIG },
      "--roles team --model m",
    ],
    "a role file in the working folder": [
      "lead.md --model m --allow-read .",
      { "lead.md": ROLE, "espalier.config.mjs": CONFIG },
      "--model m --allow-read .",
    ],
  };

for (const [name, [args, files, suggested]] of Object.entries(CASES))
  proves(["D795"], `suggests a command that resumes the run of ${name}`, async () => {
    const cwd = await newProject(files, 2);
    const [role = "", ...options] = args.split(" ");
    let last = await performed(["run", role, "Go.", ...options], { cwd });
    for (let pause = 0; pause < 2; pause += 1) {
      expect(last.code).toBe(4);
      const next = await answerAndReadNext(cwd, last.stderr);
      expect(next.slice(2).join(" ")).toBe(suggested);
      last = await performed(next, { cwd });
    }
    expect([last.code, last.stdout]).toEqual([0, "Done.\n"]);
  });

proves(["D795"], "suggests the program of a run that a limit stopped", async () => {
  const cwd = await newProject({ "lead.mjs": PROGRAM });
  const paused = await performed(["run", "lead.mjs", "Go.", "--budget", "steps=1"], { cwd });
  const stopped = await performed(await answerAndReadNext(cwd, paused.stderr), { cwd });
  expect(stopped.code).toBe(3);
  const [, next = ""] = /^Raise its limits: espalier (.*)$/mu.exec(stopped.stderr) ?? [];
  expect(next).toMatch(/^resume \S+ --roles lead\.mjs --grant steps=20$/u);
  expect((await performed(next.split(" "), { cwd })).stdout).toBe("Done.\n");
});

test("explains which option finds the role of a program", async () => {
  const cwd = await newProject({ "lead.mjs": PROGRAM });
  await performed(["run", "lead.mjs", "Go."], { cwd });
  const failed = await performed(["resume", "@last"], { cwd });
  expect([failed.code, failed.stderr]).toEqual([
    2,
    expect.stringContaining("To resume a run of a program, pass it: --roles <program>."),
  ]);
});
