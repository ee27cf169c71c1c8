// One tool call: authorize, run or delegate, record. What the model wrote was rewritten, checked and admitted before (C44). Nothing of it
// rejects: whatever goes wrong is a result that the model can read.

import type { OwnCall } from "../../tools/bind-call.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { CallEnd, PlannedCall } from "../effects.ts";
import { authorize } from "./authorize.ts";
import type { CallOutcome } from "./call-outcome.ts";
import { delegate, resumeDelegation } from "./delegate.ts";
import { callExternally } from "./external-call.ts";
import { authorizeOnce } from "./kept-permit.ts";
import { OpenCall, type CallPosition } from "./open-call.ts";
import type { Permission } from "./questions.ts";
import { perform } from "./record.ts";
import { reject, forbiddenOutcome, rejectUnbegun } from "./reject.ts";

import { runTool } from "./run-tool.ts";

export function callTool(
  agent: AgentRuntime,
  place: CallPosition,
  planned: PlannedCall,
): Promise<CallEnd> {
  return agent.log === undefined
    ? called(agent, place, planned)
    : agent.log.callTool(place, planned, (one) => called(agent, place, one));
}

function called(agent: AgentRuntime, place: CallPosition, planned: PlannedCall): Promise<CallEnd> {
  const call = new OpenCall(agent, place, planned);
  return agent.at(call.position, () => stages(call));
}

function stages(call: OpenCall): Promise<CallEnd> {
  const { agent, planned } = call;
  const { bound, deferral } = planned;
  if (deferral?.type === "subagent") return resumeDelegation(call, deferral);
  switch (bound.type) {
    case "rejected":
      return reject(call, forbiddenOutcome(call, bound));
    case "finish":
      return perform(call, () => Promise.resolve(TAKEN));
    case "external":
      return callExternally(call, bound);
    case "delegation": {
      // So many subagents start in one turn of the event loop, and the others in the next ones.
      const turn = agent.run.throttle.turn();
      return turn === undefined ? callOwn(call, bound) : turn.then(() => callOwn(call, bound));
    }
    case "function":
      return callOwn(call, bound);
  }
}

const TAKEN: CallOutcome = { type: "succeeded", text: "Your result was taken." };

/** Waits for permission without a slot; a function then works within one, a delegation waits for its child without (S1). */
function callOwn(call: OpenCall, bound: OwnCall): Promise<CallEnd> {
  const asked = call.agent.log === undefined ? authorize(call, bound) : authorizeOnce(call, bound);
  return asked instanceof Promise
    ? asked.then((permission) => act(call, permission))
    : act(call, asked);
}

/** What becomes of a call once it is known whether it may run. */
function act(call: OpenCall, permission: Permission): Promise<CallEnd> {
  const { agent } = call;
  switch (permission.type) {
    case "deferred":
      return Promise.resolve(permission);
    case "cancelled":
      return Promise.resolve(rejectUnbegun(call));
    case "impossible":
      return reject(call, permission.outcome);
    case "adopted":
      return perform(call, () => delegate(call, permission.bound));
    case "refused": {
      const { rejected, failure } = permission;
      if (call.toolName === SPAWN_TOOL_NAME) agent.run.subagents.forgo(agent, call.delegated);
      const outcome = forbiddenOutcome(call, rejected);
      return reject(call, failure === undefined ? outcome : { ...outcome, failure });
    }
    case "granted": {
      const granted = call.boundTo(permission.bound);
      const claiming = agent.log?.claimed();
      return claiming === undefined
        ? run(granted, permission.bound)
        : claiming.then(() => run(granted, permission.bound));
    }
  }
}

function run(call: OpenCall, bound: OwnCall): Promise<CallEnd> {
  if (bound.type === "function") return runTool(call, bound);
  if (call.signal.aborted) return Promise.resolve(rejectUnbegun(call));
  return perform(call, () => delegate(call, bound));
}
