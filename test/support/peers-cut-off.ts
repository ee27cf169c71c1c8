// Subagents that are cut off before their answer, each by a different limit, and their reported
// results.

import { z } from "zod";

import type { AgentDefinition } from "../../src/agent/define-agent.ts";
import { hasToolCall } from "../../src/policies/stop-conditions.ts";
import { says, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import { tool, use } from "../harness/scripted-agents.ts";

export const LOOK = tool("look", () => "seen");
export const TYPED = z.object({ pages: z.number() });

function looks(text: string): ScriptedReply {
  return says(text, { calls: [use("look")] });
}

/** A subagent that something cuts off. */
interface CutOff {
  readonly script: readonly ScriptedReply[];
  readonly role?: Omit<AgentDefinition, "name" | "description" | "instructions" | "model">;
  /** The outcome, the status and the code of the reason. */
  readonly end: readonly [string, string, string];
  readonly text: string;
}

/** Subagents by the limit that cuts them off. */
export const CUT_OFF: Readonly<Record<string, CutOff>> = {
  "steps, after a text": {
    script: [looks("Half of it.")],
    role: { budget: { steps: 1 } },
    end: ["partial", "stopped", "step_limit"],
    text: "Half of it.",
  },
  "steps, without a word": {
    script: [looks("")],
    role: { budget: { steps: 1 } },
    end: ["no_output", "stopped", "step_limit"],
    text: "",
  },
  "steps, with nothing but white space": {
    script: [looks(" \n\t ")],
    role: { budget: { steps: 1 } },
    end: ["no_output", "stopped", "step_limit"],
    text: " \n\t ",
  },
  "steps, wound up on the last one": {
    script: [looks(""), says("As far as I came.")],
    role: { budget: { steps: 2 }, wrapUp: true },
    end: ["partial", "stopped", "step_limit"],
    text: "As far as I came.",
  },
  "tokens, after a text": {
    script: [looks("Half of it.")],
    role: { budget: { totalTokens: 20 }, maxOutputTokens: 5 },
    end: ["partial", "stopped", "token_limit"],
    text: "Half of it.",
  },
  "tokens, before its first word": {
    script: [],
    role: { budget: { totalTokens: 5 } },
    end: ["no_output", "stopped", "token_limit"],
    text: "",
  },
  "tool calls": {
    script: [looks("Looking.")],
    role: { budget: { toolCalls: 0 } },
    end: ["partial", "stopped", "tool_call_limit"],
    text: "Looking.",
  },
  "the length of its reply": {
    script: [says("Half a sen", { finishReason: "length" })],
    end: ["partial", "stopped", "finish_reason"],
    text: "Half a sen",
  },
  "the length of its reply, all of it thoughts": {
    script: [says("", { finishReason: "length" })],
    end: ["no_output", "stopped", "finish_reason"],
    text: "",
  },
  "a filter of its provider": {
    script: [says("I will", { finishReason: "content_filter" })],
    end: ["partial", "stopped", "finish_reason"],
    text: "I will",
  },
  "a stop condition": {
    script: [looks("")],
    role: { stopWhen: [hasToolCall("look")] },
    end: ["no_output", "stopped", "tool_called"],
    text: "",
  },
  "steps, with a typed result still due": {
    script: [looks("Three, I think.")],
    role: { output: TYPED, budget: { steps: 1 } },
    end: ["partial", "stopped", "step_limit"],
    text: "Three, I think.",
  },
};
