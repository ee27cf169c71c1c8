// Parts for tests of forks: a run of three steps, and the messages to a model.

import { says, type ScriptStep } from "../../src/testing/scripted-model.ts";
import { calls, part, spawn, tool, use, type Part } from "../harness/scripted-agents.ts";

export const PAY = { toolName: "pay", arguments: { amount: 1 } };

export const look = tool("look", () => "seen");

/** Returns the messages of a request as role and text. */
export function shown({ model }: Part, index: number): readonly string[] | undefined {
  return model.requests[index]?.messages.map(({ role, text }) => `${role}: ${text}`);
}

/** Three steps with a child in the second. */
export function threeSteps(more: readonly ScriptStep[]) {
  const worker = part("worker", () => says("Worked."));
  const lead = part(
    "lead",
    [calls(use("look")), calls(spawn("worker")), calls(use("look")), says("Original."), ...more],
    { subagents: [worker.role], tools: [look] },
  );
  return { worker, lead };
}

export const BEFORE = ["system: You are lead.", "user: Do it.", "assistant: ", "tool: seen"];
