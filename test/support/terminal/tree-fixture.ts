// A small tree for the views: a lead with two parallel researchers and one refused spawn. Each
// researcher waits at a latch, so that tests can inspect the running tree.

import { defineAgent, defineTool, type AgentRole } from "espalier";
import type { ModelRequest } from "espalier/extend";
import { asks, says, ScriptedModel, type ScriptedReply } from "espalier/testing";
import { z } from "zod";

import { latch, type Latch } from "../../harness/run-scripted.ts";

export interface TreeFixture {
  readonly lead: AgentRole;
  /** Resolves when both researchers wait at their latches. */
  readonly isWaiting: Promise<unknown>;
  /** Opened by the test, so that the researcher of the docs answers. */
  readonly docs: Latch;
  /** Opened by the test, so that the researcher of the code answers; its tool fails before. */
  readonly code: Latch;
}

export const TASK = "Survey the repository.\nIn few words.";

export function newTreeFixture(): TreeFixture {
  const docs = latch();
  const code = latch();
  const docsAsked = latch();
  const codeAsked = latch();
  const researched = ({ messages }: ModelRequest): ScriptedReply => {
    if (messages.some((message) => message.text === "Read the docs.")) {
      docsAsked.open();
      return says("The docs are short.", { after: docs.opened });
    }
    if (messages.length === 2) return asks("compile", {});
    codeAsked.open();
    return says("The code is long.", { after: code.opened });
  };
  const compile = defineTool({
    name: "compile",
    description: "Compiles.",
    inputSchema: z.object({}),
    execute: () => {
      throw new Error("no compiler");
    },
  });
  const researcher = defineAgent({
    name: "researcher",
    description: "Researches.",
    instructions: "Research.",
    model: new ScriptedModel(researched, {
      id: "small",
      price: { inputUsdPerMillion: 100, outputUsdPerMillion: 400 },
    }),
    tools: [compile],
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([spawns("Read the docs."), says("All is well.")], {
      id: "large",
      price: { inputUsdPerMillion: 1_000, outputUsdPerMillion: 4_000 },
    }),
    subagents: [researcher],
  });
  const isWaiting = Promise.all([docsAsked.opened, codeAsked.opened]);
  return { lead, isWaiting, docs, code };
}

function spawns(task: string): ScriptedReply {
  const requests = [
    { role: "researcher", task },
    { role: "researcher", task: "Read the code." },
    { role: "poet", task: "Write a poem." },
  ];
  return { calls: requests.map((input) => ({ toolName: "SpawnSubagent", arguments: input })) };
}
