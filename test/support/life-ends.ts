// A lead with one child in the background, which works until the test lets it give its result.

import type { AgentDefinition } from "../../src/agent/define-agent.ts";
import type { AtEnd } from "../../src/policies/delegation-policy.ts";
import { says, type ScriptStep } from "../../src/testing/scripted-model.ts";
import { gate, scene, type Gate, type Scene } from "../harness/run-scripted.ts";
import { beside } from "./life-cast.ts";
import { aborted, calls, part, tool, use, type Part } from "../tree/cast.ts";

export type More = Partial<Omit<AgentDefinition, "name" | "model">>;

export interface Stage {
  readonly s: Scene;
  readonly lead: Part;
  readonly slow: Part;
  /** Lets the child give its result. */
  readonly done: Gate;
}

/** A lead with one child in the background that works until `done`. */
export function stage(atEnd: AtEnd, replies: readonly ScriptStep[], more: More = {}): Stage {
  const done = gate();
  const work = tool("work", async ({ signal }) => {
    await Promise.race([done.opened, aborted(signal)]);
    return "worked";
  });
  const slow = part("slow", [calls(use("work")), says("Slow.")], { tools: [work] });
  const lead = part("lead", [calls(beside("slow")), ...replies], {
    ...more,
    delegation: { background: true, atEnd },
    subagents: [slow.role],
  });
  return { s: scene(), lead, slow, done };
}
