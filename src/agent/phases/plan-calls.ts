// Which of the calls may begin, and which have their result already: left out, denied, not there, not fitting, over a limit.

import { isRecord, type JsonValue } from "../../kernel/json.ts";
import { retriesOf } from "../../policies/failure-counts.ts";
import { identicalCallsBefore } from "../../policies/identical-calls.ts";
import type { CallId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { argumentsOf, bindCall, type BoundCall } from "../../tools/bind-call.ts";
import { deniedCall } from "../../tools/rejected-call.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import {
  openStepOf,
  pendingCallsOf,
  type AgentState,
  type Deferral,
  type OpenStep,
} from "../agent-state.ts";
import type { BudgetRefusal } from "../budget-gate.ts";
import type { PlannedCall } from "../effects.ts";
import { cutShort, dropAnswer, overLimit, unbegunCall, withheldCall } from "./withheld-call.ts";

/** A call with the arguments that it is to have. */
export interface Rewritten {
  readonly call: ToolCall;
  readonly argumentsText: string;
  /** What the hooks before it came to, besides other arguments. */
  readonly change:
    | { readonly type: "denied"; readonly reason: string; readonly by: string }
    | { readonly type: "failed"; readonly error: ErrorRecord }
    | { readonly type: "cancelled" }
    | undefined;
}

/** A call that no hook has changed. One that was put off keeps the arguments that it had then. */
export function asWritten({ deferrals }: OpenStep, call: ToolCall): Rewritten {
  const deferral = deferrals.find(({ callId }) => callId === call.callId);
  return { call, argumentsText: (deferral ?? call).argumentsText, change: undefined };
}

/** A call that was checked and admitted, or not. */
type CheckedCall = Omit<PlannedCall, "onEnd">;

/** What is to become of the calls. */
export interface Plan {
  readonly calls: readonly CheckedCall[];
  /** How many calls were charged. Giving a result is none; what was put off has been charged before. */
  readonly charged: number;
  /** The typed result, if the model gave it. */
  readonly output: JsonValue | undefined;
  /** Set when a limit refused a call. */
  readonly refusal: BudgetRefusal | undefined;
}

/** Why none of the calls begins: the execution fails, or whoever holds the run wants them left out. */
export interface Hold {
  readonly isFailing: boolean;
  readonly skip: string | undefined;
}

/** Checks and charges calls, in their order. */
export function planCalls(
  agent: AgentRuntime,
  state: AgentState,
  calls: readonly Rewritten[],
  { isFailing, skip }: Hold,
): Plan {
  const step = openStepOf(state);
  const places = placesIn(step);
  let charged = 0;
  let refusal: BudgetRefusal | undefined;
  let output: JsonValue | undefined;
  let before: Draft | undefined;
  const planned = calls.map((rewritten): CheckedCall => {
    const plan = drafted(agent, state, rewritten, { places, before });
    before = plan;
    const { deferral } = plan;
    const bound = isFailing
      ? unbegunCall(agent.tools.find(plan.call.toolName))
      : boundCall(agent, step, rewritten, skip);
    if (deferral?.type === "subagent") return { ...plan, bound };
    if (deferral !== undefined && bound.type === "rejected") dropAnswer(agent, step, plan);
    if (bound.type === "finish") output = bound.use;
    const isDenied = plan.denial !== undefined;
    const isFree =
      bound.type === "finish" || bound.type === "rejected" || isDenied || deferral !== undefined;
    const refused = isFree ? undefined : agent.chargeToolCall();
    if (refused !== undefined) {
      refusal ??= refused;
      return { ...plan, bound: overLimit(refused, bound.tool) };
    }
    if (!isFree) charged += 1;
    return { ...plan, bound };
  });
  return { calls: withGroup(agent, state, planned), charged, output, refusal };
}

/** Delegations know of each other: they share what is left of the budget, and perhaps one's failure is the end of the others. */
function withGroup(
  { tools }: AgentRuntime,
  state: AgentState,
  calls: readonly CheckedCall[],
): readonly CheckedCall[] {
  if (!calls.some(({ bound }) => bound.type === "delegation")) return calls;
  const planned = new Map(calls.map((one) => [one.call.callId, one]));
  const group = pendingCallsOf(state).flatMap((call) => {
    const { bound } = planned.get(call.callId) ?? {};
    if (bound !== undefined) return bound.type === "delegation" ? rolesAskedFor(bound.input) : [];
    const isLater = tools.find(call.toolName)?.kind === "delegation";
    return isLater ? rolesAskedFor(inputOf(call.argumentsText)) : [];
  });
  return calls.map((call) => (call.bound.type === "delegation" ? { ...call, group } : call));
}

/** The role that a delegation names, as `SpawnSubagent` does, or that of the subagent that goes on; none: it is of another kind. */
function rolesAskedFor(input: unknown): readonly string[] {
  const { role, continue: childName } = isRecord(input) ? input : {};
  if (typeof role === "string") return [role];
  const [name = ""] = typeof childName === "string" ? childName.split("#") : [];
  return name === "" ? [] : [name];
}

/** The arguments of a call that has not been looked at yet; undefined: they cannot be read. */
function inputOf(argumentsText: string): unknown {
  try {
    return argumentsOf(argumentsText);
  } catch {
    return undefined;
  }
}

type Draft = Omit<CheckedCall, "bound">;

/** Where the calls of a step stand: each is found at once, however many there are. */
interface Places {
  /** In the reply, from 0: a call is known by its place, also after a pause. */
  readonly indexes: ReadonlyMap<CallId, number>;
  readonly deferrals: ReadonlyMap<CallId, Deferral>;
}

function placesIn({ reply, deferrals }: OpenStep): Places {
  const calls = reply?.message.toolCalls ?? [];
  return {
    indexes: new Map(calls.map(({ callId }, index) => [callId, index])),
    deferrals: new Map(deferrals.map((deferral) => [deferral.callId, deferral])),
  };
}

/** Everything about a call but whether it may begin. `before`: the one that was drafted last. */
function drafted(
  agent: AgentRuntime,
  state: AgentState,
  { call, argumentsText, change }: Rewritten,
  { places, before }: { readonly places: Places; readonly before: Draft | undefined },
): Draft {
  const calls = openStepOf(state).reply?.message.toolCalls ?? [];
  const index = places.indexes.get(call.callId) ?? 0;
  const deferral = places.deferrals.get(call.callId);
  const countBefore = before?.index === index - 1 ? before.identicalCalls : undefined;
  const answer =
    deferral?.type === "question" ? agent.run.answers.get(deferral.question.questionId) : undefined;
  const settings = agent.tools.settingsOf(call.toolName);
  const isWatched = settings.maxIdenticalCalls !== "unlimited";
  const { steps } = state.log;
  return {
    call,
    argumentsText,
    denial: change?.type === "denied" ? change : undefined,
    index,
    settings,
    retryCount: retriesOf(state.log.failures, call.toolName),
    identicalCalls: isWatched ? identicalCallsBefore(steps, { calls, index, countBefore }) : 0,
    history: { messages: state.conversation.messages, steps },
    group: [],
    deferral,
    answer,
  };
}

/** The call as its tool takes it, unless it may not begin. */
function boundCall(
  agent: AgentRuntime,
  step: OpenStep,
  { call, argumentsText, change }: Rewritten,
  skip: string | undefined,
): BoundCall {
  const { tools } = agent;
  const isPlain = change === undefined && skip === undefined && step.hiddenTools.length === 0;
  const withheld =
    isPlain && tools.find(call.toolName) !== undefined
      ? undefined
      : withheldCall(agent, step, call, { isCancelled: change?.type === "cancelled", skip });
  const bound = withheld ?? bindCall(tools, { ...call, argumentsText });
  // No guard is asked about the typed result: a hook may deny it alone.
  if (bound.type === "finish" && change?.type === "denied") return deniedCall(bound.tool, change);
  return bound.type === "rejected" ? cutShort(step, call, bound) : bound;
}
