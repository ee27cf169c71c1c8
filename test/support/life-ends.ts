// A lead with one child in the background, which works until the test lets it give its result.

import type { AgentDefinition } from "../../src/agent/define-agent.ts";
import type { ParentEndPolicy } from "../../src/policies/delegation-policy.ts";
import { says, type ScriptStep } from "../../src/testing/scripted-model.ts";
import { latch, newFixture, type Latch, type Fixture } from "../harness/run-scripted.ts";
import { beside } from "./life-agents.ts";
import { aborted, calls, part, tool, use, type Part } from "../harness/scripted-agents.ts";

export type More = Partial<Omit<AgentDefinition, "name" | "model">>;

export interface EndsFixture {
  readonly s: Fixture;
  readonly lead: Part;
  readonly slow: Part;
  /** Lets the child give its result. */
  readonly done: Latch;
}

/** A lead with one child in the background that works until `done`. */
export function setUp(
  parentEndPolicy: ParentEndPolicy,
  replies: readonly ScriptStep[],
  more: More = {},
): EndsFixture {
  const done = latch();
  const work = tool("work", async ({ signal }) => {
    await Promise.race([done.opened, aborted(signal)]);
    return "worked";
  });
  const slow = part("slow", [calls(use("work")), says("Slow.")], { tools: [work] });
  const lead = part("lead", [calls(beside("slow")), ...replies], {
    ...more,
    delegation: { background: true, parentEndPolicy },
    subagents: [slow.role],
  });
  return { s: newFixture(), lead, slow, done };
}
