// How a call is told: that it began and how it ended, or, if it does not run, that it was rejected. Hooks after it see its result, and
// the model reads the text that is left. Nothing of it rejects.

import type { JsonValue } from "../../kernel/json.ts";
import type { Chain } from "../../hooks/hook-set.ts";
import type { SpanContent } from "../../protocol/span-content.ts";
import { spanOf, timed, type TimeSpan } from "../../protocol/step-timing.ts";
import { argumentsOf } from "../../tools/bind-call.ts";
import { descriptorOf } from "../../tools/tool.ts";
import type { EventPosition } from "../agent-identity.ts";
import type { CallEnd, PlannedCall } from "../effects.ts";
import { errorRecord } from "../error-record.ts";
import { applyChain } from "./apply-chain.ts";
import { ended, executed, formatted, rejected, type Formatted } from "./call-end.ts";
import { NOT_BEGUN, withinRetries, type CallOutcome, type FailedOutcome } from "./call-outcome.ts";
import type { PausedChild } from "./delegate.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { PlacedCall } from "./call-context.ts";
import { usedArguments } from "./used-arguments.ts";

/** Runs `work` between the events that say so. `queuedMs`: how long it waited for a slot. */
export async function perform(
  agent: AgentRuntime,
  call: PlacedCall,
  work: () => Promise<CallOutcome | PausedChild>,
  queuedMs = 0,
): Promise<CallEnd> {
  const { planned } = call;
  const { toolName, callId } = planned.call;
  const where = placeOf(call);
  const startedAtMs = agent.nowMs();
  const isResumed = planned.deferral?.type === "subagent";
  agent.emit(
    {
      type: isResumed ? "tool.resumed" : "tool.started",
      toolName,
      ...descriptorOf(planned.bound.tool),
    },
    where,
  );
  agent.recordContent(where, () => argumentsContent(planned));
  const given = runArguments(planned);
  const worked = await work();
  const workedAtMs = agent.nowMs();
  const own = worked.type === "paused" ? undefined : worked.spans;
  const spans = own ?? spanOf("tool", startedAtMs, workedAtMs);
  if (worked.type === "paused") {
    agent.emit({ type: "tool.paused", toolName }, where);
    const { childId, subtasks = [], startedIds = [] } = worked;
    const argumentsText = JSON.stringify(writtenArguments(planned));
    const left = {
      ...(subtasks.length === 0 ? {} : { subtasks }),
      ...(startedIds.length === 0 ? {} : { startedIds }),
    };
    const deferral = { type: "subagent", callId, childId, argumentsText, ...left } as const;
    return { type: "deferred", deferral, ...timed(spans) };
  }
  const conclusion = concluded(agent, call, worked);
  const { outcome, spans: after } = conclusion instanceof Promise ? await conclusion : conclusion;
  const endedAtMs = agent.nowMs();
  agent.recordContent(where, () => resultContent(outcome));
  agent.emit(ended(toolName, outcome, { durationMs: endedAtMs - startedAtMs, queuedMs }), where);
  const end = {
    ...executed(planned, { startedAtMs, endedAtMs }, { ...given, ...outcome }),
    ...timed([...spans, ...after]),
  };
  planned.onEnd(end);
  return end;
}

/** A call that does not run: one event says so. */
export async function reject(
  agent: AgentRuntime,
  call: PlacedCall,
  refused: FailedOutcome,
): Promise<CallEnd> {
  const startedAtMs = agent.nowMs();
  const conclusion = concluded(agent, call, refused);
  const { outcome, spans } = conclusion instanceof Promise ? await conclusion : conclusion;
  return { ...recordRejected(agent, call, startedAtMs, outcome), ...timed(spans) };
}

/** A call of which nothing has happened when its agent is told to end: hooks do not see it. */
export function leaveUnbegun(
  agent: AgentRuntime,
  call: PlacedCall,
  startedAtMs = agent.nowMs(),
): CallEnd {
  return recordRejected(agent, call, startedAtMs, { ...NOT_BEGUN, isShortened: false });
}

function recordRejected(
  agent: AgentRuntime,
  call: PlacedCall,
  startedAtMs: number,
  outcome: Formatted<FailedOutcome>,
): CallEnd {
  const { planned } = call;
  agent.emit(rejected(planned, outcome), placeOf(call), () => [
    argumentsContent(planned),
    resultContent(outcome),
  ]);
  const end = executed(planned, { startedAtMs, endedAtMs: agent.nowMs() }, outcome);
  planned.onEnd(end);
  return end;
}

interface Concluded<Outcome extends CallOutcome> {
  readonly outcome: Formatted<Outcome>;
  readonly spans: readonly TimeSpan[];
}

/** What a call came to as the model will read it, once the hooks after it have seen it; at once if there are none. */
function concluded<Outcome extends CallOutcome>(
  agent: AgentRuntime,
  call: PlacedCall,
  worked: Outcome,
): Concluded<Outcome> | Promise<Concluded<Outcome>> {
  const { planned } = call;
  const workedAtMs = agent.nowMs();
  const counted = withinRetries(planned, worked);
  const chain = agent.hooks.chain("afterTool", planned.call.toolName);
  const shown = (followed: Outcome): Concluded<Outcome> => {
    const followedAtMs = agent.nowMs();
    const outcome = formatted(planned, followed);
    const formatting = spanOf("formatting", followedAtMs, agent.nowMs());
    return { outcome, spans: [...spanOf("hooks", workedAtMs, followedAtMs), ...formatting] };
  };
  return chain.length === 0 ? shown(counted) : followUp(agent, call, counted, chain).then(shown);
}

/** Lets the hooks that follow a call see its result, and change what the model reads of it. */
async function followUp<Outcome extends CallOutcome>(
  agent: AgentRuntime,
  call: PlacedCall,
  outcome: Outcome,
  chain: Chain<"afterTool">,
): Promise<Outcome> {
  const { place, planned } = call;
  const { toolName, callId } = planned.call;
  if (agent.signal.aborted) return outcome;
  const { type, text } = outcome;
  try {
    const { patch } = await applyChain(agent, {
      point: "afterTool",
      chain,
      input: { toolName, callId, arguments: writtenArguments(planned), outcome: type, text },
      place,
      at: placeOf(call),
    });
    const { metadata } = patch;
    const noted = metadata === undefined ? {} : { metadata };
    const rewritten = patch.text === undefined ? {} : { text: patch.text, words: undefined };
    return { ...outcome, ...rewritten, ...noted };
  } catch (cause) {
    return agent.signal.aborted ? outcome : { ...outcome, failure: errorRecord(cause) };
  }
}

export function placeOf({
  place,
  planned,
}: PlacedCall): Required<Pick<EventPosition, "stepId" | "callId">> {
  return { stepId: place.stepId, callId: planned.call.callId };
}

function argumentsContent(planned: PlannedCall): SpanContent {
  return { type: "arguments", value: writtenArguments(planned) };
}

function resultContent({ text }: Formatted): SpanContent {
  return { type: "result", text };
}

/** The arguments with which the call was made, as hooks and answers left them; the text itself, if it is no JSON. */
export function writtenArguments({ bound, argumentsText }: PlannedCall): JsonValue {
  if ("input" in bound) return bound.input;
  try {
    return argumentsOf(argumentsText);
  } catch {
    return argumentsText;
  }
}

/** The arguments as the tool gets them. Read before it runs: it may change what it was given. */
function runArguments({ bound }: PlannedCall): Pick<CallOutcome, "arguments"> {
  return bound.type === "rejected" ? {} : { arguments: usedArguments(bound) };
}
