// A tree whose agents ask from different depths, created again in each process of the run. Its
// tools write their effects into a file, so that tests count them over all processes.

import { appendFileSync } from "node:fs";

import { z } from "zod";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { says, type ScriptedCall } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { byTask, calls, part, spawn, tool, use } from "../harness/scripted-agents.ts";

/** The log of the tools, and the promise for which the workers wait before they work. */
export interface Surroundings {
  readonly logFile: string;
  readonly mayWork: Promise<void>;
}

/**
 * A call that needs approval. Its id is fixed, because a model in another process would count its
 * calls from the beginning.
 */
function write(line: string): ScriptedCall {
  return { toolName: "write", arguments: { line }, callId: `write_${line}` };
}

/**
 * The root of the tree, by task. "One question.": one grandchild asks while its sibling and its
 * cousin work. "Many questions.": root, child and two grandchildren ask, one of them for an
 * external call. "One after another.": a grandchild asks twice. "The same twice.": two
 * grandchildren ask for identical calls.
 */
export function askingTree({ logFile, mayWork }: Surroundings): AgentRole {
  const log = (line: string): void => appendFileSync(logFile, `${line}\n`);
  const writing = defineTool({
    name: "write",
    description: "Writes a line.",
    inputSchema: z.object({ line: z.string() }),
    needsApproval: true,
    execute: ({ line }, { agentPath }) => {
      log(`${agentPath} wrote ${line}`);
      return `written: ${line}`;
    },
  });
  const working = tool("work", async ({ agentPath }) => {
    await mayWork;
    log(`${agentPath} worked`);
    return "worked";
  });
  const mail = defineTool({
    name: "mail",
    description: "Sends a letter.",
    inputSchema: z.object({}),
  });
  const grandchild = part(
    "grandchild",
    byTask({
      ask: [calls(write("one")), says("Asked.")],
      "ask twice": [calls(write("one")), calls(write("two")), says("Asked twice.")],
      mail: [calls({ ...use("mail"), callId: "mail_1" }), says("Mailed.")],
      work: [calls(use("work")), calls(use("work")), says("Worked.")],
    }),
    { tools: [writing, working, mail] },
  );
  const child = part(
    "child",
    byTask({
      north: [calls(spawn("grandchild", "ask"), spawn("grandchild", "work")), says("North.")],
      south: [calls(spawn("grandchild", "work")), says("South.")],
      mixed: [
        calls(write("child's"), spawn("grandchild", "ask"), spawn("grandchild", "mail")),
        says("Mixed."),
      ],
      twice: [calls(spawn("grandchild", "ask twice")), says("Twice.")],
      same: [calls(spawn("grandchild", "ask"), spawn("grandchild", "ask")), says("Same.")],
    }),
    { subagents: [grandchild.role], tools: [writing] },
  );
  const root = part(
    "root",
    byTask({
      "One question.": [calls(spawn("child", "north"), spawn("child", "south")), says("Root.")],
      "Many questions.": [calls(write("root's"), spawn("child", "mixed")), says("Root.")],
      "One after another.": [calls(spawn("child", "twice")), says("Root.")],
      "The same twice.": [calls(spawn("child", "same")), says("Root.")],
    }),
    { subagents: [child.role], tools: [writing] },
  );
  return root.role;
}
