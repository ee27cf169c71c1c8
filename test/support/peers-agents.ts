// Agents that do not depend on their tasks, and delegations that all differ, since a repeated
// delegation needs approval.

import type { ModelRequest } from "../../src/model/model.ts";
import type { ScriptedCall, ScriptedReply, ScriptStep } from "../../src/testing/scripted-model.ts";
import { calls, spawn } from "../harness/scripted-agents.ts";

/** A script for many agents of one role: each follows this list, whatever its task. */
export function byTurn(steps: readonly ScriptStep[]): (request: ModelRequest) => ScriptedReply {
  return (request) => {
    const { messages } = request;
    const start = messages.findLastIndex(({ role, ...one }) => {
      return role === "user" && "origin" in one && one.origin === "task";
    });
    const said = messages.slice(start).filter(({ role }) => role === "assistant").length;
    const step = steps[said];
    if (step === undefined) throw new Error(`No reply ${said}.`);
    return typeof step === "function" ? step(request) : step;
  };
}

let parts = 0;

/** A call that starts a subagent, with a task that was not given before. */
export function another(role: string): ScriptedCall {
  parts += 1;
  return spawn(role, `Do part ${parts}.`);
}

/** A reply that starts so many subagents of a role, each with a task of its own. */
export function several(count: number, role: string): ScriptedReply {
  return calls(...Array.from({ length: count }, () => another(role)));
}
