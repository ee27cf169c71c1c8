// Goal: a person at a real terminal can do what the command asks. Method: the command on a pseudo-terminal, typed into key by key.

import { readFile } from "node:fs/promises";

import { expect } from "vitest";
import { z } from "zod";

import { temporaryFolder, type TemporaryFolder } from "../examples/temporary-folder.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { performed } from "./performed.ts";
import { linkPackage } from "./process-program.ts";
import { startAtTerminal, type AtTerminal } from "./terminal-program.ts";

const DOWN = "\u001b[B";
const ENTER = "\r";

/** A role whose first reply calls `pay` three times at once; each call needs an approval. */
const BUYER = `
  import { defineAgent, defineTool } from "espalier";
  import { says, ScriptedModel } from "espalier/testing";
  import { z } from "zod";
  const pay = defineTool({
    name: "pay", description: "Pays.", input: z.object({ eur: z.number() }),
    needsApproval: () => "It is money.",
    execute: ({ eur }) => "Paid " + eur,
  });
  const pays = { calls: [1, 2, 3].map((eur) => ({ name: "pay", arguments: { eur } })) };
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

/** The statuses of the runs that `runs --json` lists. */
function statusesIn(stdout: string): readonly string[] {
  const { runs } = z
    .object({ runs: z.array(z.object({ status: z.string() })) })
    .parse(JSON.parse(stdout));
  return runs.map(({ status }) => status);
}

/** The processes that a process has started. */
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
    await command.seen("Why not?");
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
  expect(statusesIn(listed.stdout)).toEqual(["needs_you"]);
  for (const pid of await childrenOf(started.pid)) process.kill(pid, "SIGKILL");
  await started.ended;
  const after = await performed(["runs", "--json"], { cwd: path });
  expect(statusesIn(after.stdout)).toEqual(["lost"]);
  const screen = startAtTerminal(["runs"], { cwd: path }, 80);
  await screen.seen("Buy three");
  expect(screen.screen()).toContain("lost");
  expect(await screen.ended).toBe(0);
});

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
