// A lead with a failure policy, whose members act by their task.

import { expect } from "vitest";
import type { FailurePolicy } from "../../src/policies/delegation-policy.ts";
import { says, type ScriptedReply, type ScriptStep } from "../../src/testing/scripted-model.ts";
import type { AgentDefinition } from "../../src/agent/define-agent.ts";
import { latch, newFixture, type Fixture } from "../harness/run-scripted.ts";
import { outcomes } from "./life-agents.ts";
import { payTool } from "./pause-stories.ts";
import {
  byTask,
  calls,
  listens,
  part,
  spawn,
  receivedTexts,
  tool,
  use,
  type Part,
} from "../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 1 } };

export const broken = { error: new Error("The model is gone.") };

/** Actions of the members by task. */
const SCRIPTS: Readonly<Record<string, readonly ScriptStep[]>> = {
  "Succeed.": [says("Succeeded.")],
  "Fail.": [broken],
  "Say nothing.": [{ text: "I", finishReason: "length" }],
  "Be mute.": [{ finishReason: "length" }],
  "Work on.": [calls(use("listen")), says("Never.")],
  "Look and succeed.": [calls(use("look")), says("Looked.")],
  "Look and fail.": [calls(use("look")), broken],
  "Ask and succeed.": [calls(PAY), says("Paid.")],
  "Ask and fail.": [calls(PAY), broken],
  "Ask and work on.": [calls(PAY), calls(use("listen")), says("Never.")],
};

export interface GroupFixture {
  readonly lead: Part;
  readonly fixture: Fixture;
  readonly look: ReturnType<typeof latch>;
}

/** Creates a lead with this policy. Its members act by their task; `look` holds those that look. */
export function newGroup(
  failurePolicy: FailurePolicy,
  replies: readonly ScriptStep[],
  more: Partial<Omit<AgentDefinition, "name" | "model">> = {},
): GroupFixture {
  const look = latch();
  const member = part("member", byTask(SCRIPTS), {
    tools: [listens("listen"), tool("look", async () => (await look.opened, "seen")), payTool()],
  });
  const lead = part("lead", replies, {
    ...more,
    delegation: {
      background: true,
      failurePolicy,
      maxIdenticalDelegations: "unlimited",
    },
    subagents: [member.role, ...(more.subagents ?? [])],
  });
  return { lead, fixture: newFixture(), look };
}

export const members = (...tasks: readonly string[]): ScriptedReply =>
  calls(...tasks.map((task) => spawn("member", task)));

export const FAILED: unknown = expect.objectContaining({ outcome: "failed" });

export const COMPLETED: unknown = expect.objectContaining({ outcome: "completed" });

export const CANCELLED: unknown = expect.objectContaining({ outcome: "cancelled" });

export const receivedTexts1 = ({ lead }: GroupFixture, index = 1) =>
  outcomes(receivedTexts(lead.model.requests[index]));
