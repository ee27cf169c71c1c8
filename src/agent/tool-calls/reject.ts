// A call that does not run: one event says so, and why.

import type { EventBody } from "../../protocol/event.ts";
import { timed } from "../../protocol/step-timing.ts";
import type { RejectedCall } from "../../tools/rejected-call.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import type { CallEnd } from "../effects.ts";
import { writtenArguments } from "./call-arguments.ts";
import type { FailedOutcome } from "./call-outcome.ts";
import { NOT_BEGUN, rejectedOutcome } from "./failed-outcome.ts";
import type { OpenCall } from "./open-call.ts";
import { argumentsContent, concluded, descriptorOf, executed } from "./record.ts";
import type { Formatted } from "./outcome-text.ts";

/** Records that a call does not run, once the hooks after it have seen why. */
export async function reject(call: OpenCall, refused: FailedOutcome): Promise<CallEnd> {
  const startedAtMs = call.agent.run.clock.nowMs();
  const conclusion = concluded(call, refused, startedAtMs);
  const { outcome, spans } = conclusion instanceof Promise ? await conclusion : conclusion;
  return timed(recordRejected(call, startedAtMs, outcome), spans);
}

/** A call of which nothing has happened when its agent has to end: hooks do not see it. */
export function rejectUnbegun(call: OpenCall, startedAtMs = call.agent.run.clock.nowMs()): CallEnd {
  return recordRejected(call, startedAtMs, { ...NOT_BEGUN, isShortened: false });
}

function recordRejected(
  call: OpenCall,
  startedAtMs: number,
  outcome: Formatted<FailedOutcome>,
): CallEnd {
  const { agent, planned } = call;
  agent.emit(rejected(call, outcome), call.position, () => [
    argumentsContent(call),
    { type: "result", text: outcome.text },
  ]);
  const end = executed(planned, { startedAtMs, endedAtMs: agent.run.clock.nowMs() }, outcome);
  planned.onEnd(end);
  return end;
}

/** The outcome of a call that does not run. One that would have started a subagent, and that a guard or a rule forbids, is a refused spawn (X14). */
export function forbiddenOutcome(call: OpenCall, rejected: RejectedCall): FailedOutcome {
  const { agent } = call;
  const outcome = rejectedOutcome(rejected);
  const { code, text: message } = rejected;
  const isForbidden = code === "blocked" || code === "tool_not_available";
  if (call.toolName !== SPAWN_TOOL_NAME || !isForbidden) return outcome;
  const refusal = { code, message };
  const input = writtenArguments(call);
  const spawn = agent.run.subagents.forbid(agent, input, refusal, call.delegation());
  return spawn === undefined ? outcome : { ...outcome, spawn };
}

/** The event that says that a call does not run. */
function rejected(
  { toolName, bound }: OpenCall,
  outcome: Formatted<FailedOutcome>,
): EventBody<"tool.rejected"> {
  const { type, text, fullText, shownCharacters, errorCode, severity } = outcome;
  const { blockedBy, reason, spawn } = outcome;
  return {
    type: "tool.rejected",
    toolName,
    ...descriptorOf(bound.tool),
    outcome: type,
    errorCode,
    severity,
    ...(blockedBy === undefined ? {} : { blockedBy }),
    ...(reason === undefined ? {} : { reason }),
    ...(spawn === undefined ? {} : { spawn }),
    resultCharacters: (fullText ?? text).length,
    ...(shownCharacters === undefined ? {} : { shownCharacters }),
  };
}
