// Goal: a person at a real terminal can do what the command asks.
// Method: the command on a pseudo-terminal, typed into key by key.

import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";

import { expect } from "vitest";
import { z } from "zod";

import { isProcessGone } from "../../../src/store/ownership-rules.ts";
import { temporaryFolder, type TemporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { calls, OpenAiServer } from "../../support/openai-server.ts";
import { performed } from "../../support/cli/performed.ts";
import { linkPackage, startCommand } from "../../support/cli/process-program.ts";
import { startAtTerminal, type AtTerminal } from "../../support/cli/terminal-program.ts";

const DOWN = "\u001b[B";
const ENTER = "\r";

/** A role whose first reply calls `pay` three times in parallel; each call needs approval. */
const BUYER = `
  import { defineAgent, defineTool } from "espalier";
  import { says, ScriptedModel } from "espalier/testing";
  import { z } from "zod";
  const pay = defineTool({
    name: "pay", description: "Pays.", inputSchema: z.object({ eur: z.number() }),
    needsApproval: () => "It is money.",
    execute: ({ eur }) => "Paid " + eur,
  });
  const pays = { calls: [1, 2, 3].map((eur) => ({ toolName: "pay", arguments: { eur } })) };
  const model = new ScriptedModel(({ messages }) =>
    messages.some(({ role }) => role === "tool") ? says("All paid.") : pays);
  export default defineAgent({ name: "buyer", instructions: "Buy.", model, tools: [pay] });
`;

function projectWith(files: Readonly<Record<string, string>>): TemporaryFolder {
  const folder = temporaryFolder({ "package.json": '{"type":"module"}', ...files });
  afterwards(() => folder[Symbol.dispose]());
  linkPackage(folder.path);
  return folder;
}

/** Returns the statuses of the runs that `runs --json` lists. */
function statusesIn(stdout: string): readonly string[] {
  const { runs } = z
    .object({ runs: z.array(z.object({ status: z.string() })) })
    .parse(JSON.parse(stdout));
  return runs.map(({ status }) => status);
}

/** Returns the child processes of a process. */
async function childrenOf(pid: number): Promise<readonly number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  return text.trim().split(" ").map(Number);
}

/** Opens the question about this amount and approves it. */
async function approveAt(command: AtTerminal, eur: number): Promise<void> {
  await command.seen(`"eur": ${eur}`);
  await command.seen("Edit the arguments");
  command.type(DOWN);
  await command.seen("Approve");
  command.type(ENTER);
}

proves(["D520"], "answers three open questions, one after the other", async () => {
  const { path } = projectWith({ "buyer.ts": BUYER });
  const command = startAtTerminal(["run", "buyer.ts", "Buy."], { cwd: path });
  for (const eur of [1, 2, 3]) await approveAt(command, eur);
  await command.seen("All paid.");
  expect(await command.ended).toBe(0);
});

proves(
  ["D520"],
  "denies the first question with a typed reason, then approves the rest",
  async () => {
    const { path } = projectWith({ "buyer.ts": BUYER });
    const command = startAtTerminal(["run", "buyer.ts", "Buy."], { cwd: path });
    await command.seen("Edit the arguments");
    for (const key of [DOWN, DOWN]) {
      command.type(key);
      await command.seen("Deny, with a reason");
    }
    command.type(ENTER);
    await command.seen("Reason for the denial");
    command.type("Too much");
    await command.seen("Too much");
    command.type(ENTER);
    for (const eur of [2, 3]) await approveAt(command, eur);
    await command.seen("All paid.");
    expect(await command.ended).toBe(0);
  },
);

proves(["D520"], "asks the next question when another process answers the open one", async () => {
  const { path } = projectWith({ "buyer.ts": BUYER });
  const command = startAtTerminal(["run", "buyer.ts", "Buy."], { cwd: path });
  await command.seen("Edit the arguments");
  const listed = await performed(["questions", "--json"], { cwd: path });
  const { questions } = z
    .object({ questions: z.array(z.object({ questionId: z.string() })) })
    .parse(JSON.parse(listed.stdout));
  const [first] = questions;
  const approved = await performed(["approve", first?.questionId ?? ""], { cwd: path });
  expect(approved.code).toBe(0);
  for (const eur of [2, 3]) await approveAt(command, eur);
  await command.seen("All paid.");
  expect(await command.ended).toBe(0);
});

proves(["D520"], "answers the open questions of a paused run with resume", async () => {
  const { path } = projectWith({
    "buyer.ts": BUYER,
    "espalier.config.ts": `import buyer from "./buyer.ts"; export default { roles: [buyer] };`,
  });
  const paused = await performed(["run", "buyer", "Buy."], { cwd: path });
  expect(paused.code).toBe(4);
  const command = startAtTerminal(["resume", "@last"], { cwd: path });
  for (const eur of [1, 2, 3]) await approveAt(command, eur);
  await command.seen("All paid.");
  expect(await command.ended).toBe(0);
});

proves(["D526"], "shows a run as lost, with its task, once its process was killed", async () => {
  const { path } = projectWith({ "buyer.ts": BUYER });
  const started = startAtTerminal(["run", "buyer.ts", "Buy three pears."], { cwd: path });
  await started.seen("Edit the arguments");
  const listed = await performed(["runs", "--json"], { cwd: path });
  expect(statusesIn(listed.stdout)).toEqual(["input_required"]);
  for (const pid of await childrenOf(started.pid)) process.kill(pid, "SIGKILL");
  await started.ended;
  const after = await performed(["runs", "--json"], { cwd: path });
  expect(statusesIn(after.stdout)).toEqual(["lost"]);
  const screen = startAtTerminal(["runs"], { cwd: path }, 80);
  await screen.seen("Buy three");
  expect(screen.screen()).toContain("to do (1)");
  expect(screen.screen()).toContain("◌ lost");
  expect(screen.screen()).not.toContain("working");
  expect(await screen.ended).toBe(0);
});

proves(
  ["D618"],
  "ends tail of a run whose process was killed, and reports how to resume it",
  async () => {
    const { path } = projectWith({ "buyer.ts": BUYER });
    const started = startAtTerminal(["run", "buyer.ts", "Buy three pears."], { cwd: path });
    await started.seen("Edit the arguments");
    const follower = startAtTerminal(["tail", "@last"], { cwd: path }, 200);
    await follower.seen("buyer");
    for (const pid of await childrenOf(started.pid)) process.kill(pid, "SIGKILL");
    await started.ended;
    const lost =
      /Run run_\S+ is lost: its process has stopped responding\. Resume it: espalier resume run_/u;
    const piped = await performed(["tail", "@last"], { cwd: path });
    expect([piped.code, piped.stderr]).toEqual([4, expect.stringMatching(lost)]);
    const events = await performed(["tail", "@last", "--events"], { cwd: path });
    expect([events.code, events.stderr]).toEqual([4, expect.stringMatching(lost)]);
    for (const line of events.stdout.trimEnd().split("\n")) JSON.parse(line);
    expect(await follower.ended).toBe(4);
    expect(follower.screen()).toMatch(/is lost: its process has stopped/u);
  },
);

const GREETER = `
  import { defineAgent } from "espalier";
  import { says, ScriptedModel } from "espalier/testing";
  const model = new ScriptedModel(() => says("Good morning to all."));
  export default defineAgent({ name: "greeter", instructions: "Greet.", model });
`;

proves(["D527"], "ends show and tail at a terminal with the result", async () => {
  const { path } = projectWith({ "greeter.ts": GREETER });
  expect((await performed(["run", "greeter.ts", "Go."], { cwd: path })).code).toBe(0);
  for (const command of ["show", "tail"]) {
    const started = startAtTerminal([command, "@last"], { cwd: path });
    expect(await started.ended).toBe(0);
    expect(started.screen()).toMatch(/Good morning to all\.\s*$/u);
  }
});

/** A tool server that ignores SIGHUP and the end of its input. The file contains its process id. */
const STUBBORN = (echo: string): string => `
  import { writeFileSync } from "node:fs";
  writeFileSync("server.pid", String(process.pid));
  process.on("SIGHUP", () => {});
  setInterval(() => {}, 1_000);
  await import(${JSON.stringify(echo)});
`;

proves(
  ["D529"],
  "pauses its run and ends its tool servers when the terminal is closed",
  async () => {
    const server = { command: process.execPath, args: ["stubborn.ts"] };
    const { path } = projectWith({
      "lead.md": "---\nmodel: some-model\ntools: [echo_look]\n---\nWork.\n",
      "stubborn.ts": STUBBORN(resolve("test/support/cli/echo-server.ts")),
      "mcp.json": JSON.stringify({ mcpServers: { echo: server } }),
    });
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
    await using api = await OpenAiServer.start(async () => {
      ask();
      await released;
      return calls(["echo_look", {}]);
    });
    const env = { OPENAI_BASE_URL: api.baseUrl };
    const command = startAtTerminal(["run", "lead.md", "Go."], { cwd: path, env });
    await asked;
    const pid = Number(await readFile(join(path, "server.pid"), "utf8"));
    expect(isProcessGone(pid)).toBe(false);
    process.kill(command.pid, "SIGKILL");
    await command.ended;
    release();
    await expect.poll(() => isProcessGone(pid)).toBe(true);
    const listed = await performed(["runs", "--json"], { cwd: path });
    expect(statusesIn(listed.stdout)).toEqual(["paused"]);
  },
);

proves(["D529"], "pauses its run at an open question when the terminal is closed", async () => {
  const { path } = projectWith({ "buyer.ts": BUYER });
  const command = startAtTerminal(["run", "buyer.ts", "Buy."], { cwd: path });
  await command.seen("Edit the arguments");
  const [pid = 0] = await childrenOf(command.pid);
  process.kill(command.pid, "SIGKILL");
  await command.ended;
  await expect.poll(() => isProcessGone(pid)).toBe(true);
  const { stdout } = await performed(["questions", "--json"], { cwd: path });
  const { questions } = z.object({ questions: z.array(z.unknown()) }).parse(JSON.parse(stdout));
  expect(questions.length).toBe(3);
  const { stdout: listed } = await performed(["runs", "--json"], { cwd: path });
  expect(statusesIn(listed)).toEqual(["input_required"]);
});

proves(["D529"], "exits with 129 on SIGHUP, once its run is cancelled", async () => {
  const { path } = projectWith({ "lead.md": "---\nmodel: some-model\n---\nWork.\n" });
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  await using api = await OpenAiServer.start(() => {
    ask();
    return new Promise(() => {});
  });
  const env = { OPENAI_BASE_URL: api.baseUrl };
  const args = ["run", "lead.md", "Go.", "--no-store"];
  const { child, ended } = startCommand(args, { cwd: path, env });
  await asked;
  child.kill("SIGHUP");
  const { code, stderr } = await ended;
  expect(code).toBe(129);
  expect(stderr).toContain("the run is cancelled, because it is not stored");
});
