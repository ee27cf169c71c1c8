// Goal: a run whose approval is left open at the terminal stays paused with the same question.
// Method: the command within the test, with a Chat Completions server and typed keys.

import { expect } from "vitest";

import { performArguments } from "../../../src/cli/perform-arguments.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { atTerminal, FakeShell, seenIn } from "../../support/cli/fake-shell.ts";
import { performed, withVariable } from "../../support/cli/performed.ts";
import { calls, OpenAiServer, says } from "../../support/openai-server.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const CONFIG = `import { defineTool } from "espalier";
import { z } from "zod";
const inputSchema = z.object({ eur: z.number() });
const pay = { name: "pay", description: "Pays.", inputSchema, needsApproval: true, execute: () => "Paid." };
export default { tools: [defineTool(pay)] };`;

/** Types keys at the prompt of `espalier resume`. Enter alone leaves the question open. */
async function resumeAtTerminal(
  cwd: string,
  keys: string,
): Promise<{ readonly code: number; readonly shell: FakeShell }> {
  const shell = new FakeShell(cwd);
  atTerminal(shell);
  const ended = performArguments(["resume", "@last", "--quiet"], shell);
  await seenIn(shell, "May pay run?");
  shell.stdin.write(keys);
  return { code: await ended, shell };
}

async function readQuestions(cwd: string): Promise<unknown> {
  return JSON.parse((await performed(["questions", "--json"], { cwd })).stdout);
}

proves(
  ["D759"],
  "asks again on each resume while the approval is left open, and pays once it is approved",
  async () => {
    const folder = temporaryFolder({
      "lead.md": "---\nmodel: m\ntools: [pay]\n---\nWork.\n",
      "espalier.config.mjs": CONFIG,
    });
    afterwards(() => folder[Symbol.dispose]());
    const server = await OpenAiServer.start((_request, count) =>
      count === 1 ? calls(["pay", { eur: 400 }]) : says("Done."),
    );
    afterwards(() => server[Symbol.asyncDispose]());
    withVariable("OPENAI_BASE_URL", server.baseUrl);
    const cwd = folder.path;
    expect((await performed(["run", "lead.md", "Go."], { cwd })).code).toBe(4);
    const before = await readQuestions(cwd);
    expect(before).toMatchObject({ questions: [{ toolName: "pay", arguments: { eur: 400 } }] });
    for (let resumed = 0; resumed < 2; resumed += 1) {
      const left = await resumeAtTerminal(cwd, "\r");
      expect([left.code, left.shell.written.stdout]).toEqual([4, ""]);
      expect(await readQuestions(cwd)).toEqual(before);
    }
    expect(server.requests).toHaveLength(1);
    const approved = await resumeAtTerminal(cwd, "\u001b[B\r");
    expect([approved.code, approved.shell.written.stdout]).toEqual([0, "Done.\n"]);
    expect(await readQuestions(cwd)).toEqual({ questions: [] });
  },
);

proves(
  ["D805"],
  "leaves the run paused with the same question on Ctrl-C at its prompt",
  async () => {
    const folder = temporaryFolder({
      "lead.md": "---\nmodel: m\ntools: [pay]\n---\nWork.\n",
      "espalier.config.mjs": CONFIG,
    });
    afterwards(() => folder[Symbol.dispose]());
    const server = await OpenAiServer.start(() => calls(["pay", { eur: 1 }], ["pay", { eur: 2 }]));
    afterwards(() => server[Symbol.asyncDispose]());
    withVariable("OPENAI_BASE_URL", server.baseUrl);
    const cwd = folder.path;
    expect((await performed(["run", "lead.md", "Go."], { cwd })).code).toBe(4);
    const before = await readQuestions(cwd);
    const left = await resumeAtTerminal(cwd, "\u0003");
    expect([left.code, left.shell.written.stdout]).toEqual([4, ""]);
    expect(left.shell.written.stderr).not.toContain('"eur": 2');
    expect(await readQuestions(cwd)).toEqual(before);
  },
);
