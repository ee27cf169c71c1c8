// May a call run? Guards, the check whether it needs an approval, and the watch for calls that repeat themselves give one decision:
// deny beats ask beats allow, and a call is asked about once (C9, C12). Nothing of it rejects.

import { factsOf } from "../consult.ts";
import { isPromiseLike, runTimed, valueInTime } from "../../kernel/cancel.ts";
import { shown } from "../../kernel/check.ts";
import { messageOf } from "../../kernel/error.ts";
import { frozenList } from "../../kernel/grown.ts";
import { isRecord } from "../../kernel/json.ts";
import { joinSentences } from "../../kernel/sentence.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { EventBody } from "../../protocol/event.ts";
import { deniedCall, type RejectedCall } from "../../tools/rejected-call.ts";
import { redactSecrets } from "../../tools/redact-secrets.ts";
import {
  guardsFor,
  type GuardAnswer,
  type GuardContext,
  type GuardedCall,
  type NamedGuard,
} from "../../tools/tool-guard.ts";
import type { BoundCall } from "../../tools/bind-call.ts";
import type { PlannedCall } from "../effects.ts";
import { OpenCall } from "./open-call.ts";
import { usedArguments } from "./parsed-call.ts";

/** What is to be done with a call. */
export type Decision =
  | { readonly type: "allow" }
  | { readonly type: "ask"; readonly reason: string }
  | { readonly type: "deny"; readonly rejected: RejectedCall };

const ALLOW: Decision = Object.freeze({ type: "allow" });

/** A call about which guards are asked. */
export type GuardableCall = Exclude<BoundCall, { readonly type: "rejected" | "finish" }>;

/** A call that repeats itself too often. Without an approver it is denied, with an instruction. */
export interface Repetition extends NamedAnswer {
  readonly guard: "identical-calls" | "identical-delegations";
  readonly answer: "ask" | "deny";
  readonly reason: string;
}

/** The decision on a call that is made for the first time. */
export async function decideByGuards(
  call: OpenCall,
  bound: GuardableCall,
  repeated?: Repetition,
): Promise<Decision> {
  const others = [...denialOf(call.planned.denial)];
  if (repeated !== undefined) others.push(repeated);
  const guarded = await askGuards(call, bound, others);
  if (guarded.type === "deny") return guarded;
  const approval = await checkApproval(call, bound);
  if (approval.type === "allow") return guarded;
  if (approval.type === "deny" || guarded.type === "allow") return approval;
  return { type: "ask", reason: joinSentences([guarded.reason, approval.reason]) };
}

/**
 * The decision on a call that was approved before: guards, as they are now, and a hook (`denied`) can deny it still; that they want it
 * asked about is answered (C50).
 */
export async function decideAgain(
  call: OpenCall,
  bound: GuardableCall,
  denied?: PlannedCall["denial"],
): Promise<Decision> {
  const guarded = await askGuards(call, bound, denialOf(denied));
  return guarded.type === "deny" ? guarded : ALLOW;
}

/** A hook that denied the call, as one of the guards. */
function denialOf(denied: PlannedCall["denial"]): readonly NamedAnswer[] {
  return denied === undefined ? [] : [{ guard: denied.by, answer: "deny", reason: denied.reason }];
}

/** The decision of one guard, as events have it. */
type NamedAnswer = EventBody<"tool.guarded">["answers"][number];

/** `others`: what is said of the call besides: a hook denied it, or it repeats itself. */
async function askGuards(
  call: OpenCall,
  bound: GuardableCall,
  others: readonly NamedAnswer[],
): Promise<Decision> {
  const { agent } = call;
  const guards = guardsFor(agent.guards, bound.tool.name);
  if (guards.length === 0 && others.length === 0) return ALLOW;
  agent.beginWork();
  const guarded: GuardedCall = Object.freeze({
    toolName: bound.tool.name,
    callId: call.planned.call.callId,
    arguments: usedArguments(bound),
    kind: bound.type,
  });
  const asked = await Promise.all(
    guards.map(async (named): Promise<NamedAnswer> => {
      const { type: answer, ...why } = await askGuard(call, named, guarded);
      return { guard: named.name, answer, ...why };
    }),
  );
  agent.endWork();
  const answers = [...asked, ...others];
  const decision = decisionOf(bound, answers);
  const { toolName } = guarded;
  agent.emit({ type: "tool.guarded", toolName, decision: decision.type, answers }, call.position);
  return decision;
}

/** A guard that breaks, takes too long or gives no answer has denied the call (R66). */
async function askGuard(
  { agent, effectPosition, planned, signal: callSignal }: OpenCall,
  named: NamedGuard,
  guarded: GuardedCall,
): Promise<GuardAnswer> {
  const { name, guard } = named;
  const outcome = await runTimed<GuardAnswer>(
    (signal) => {
      const context: GuardContext = Object.freeze({
        ...factsOf(agent),
        guardName: name,
        role: agent.role.name,
        stepNumber: effectPosition.stepNumber,
        messages: frozenList(planned.history.messages),
        signal,
      });
      const given: unknown = guard.check(guarded, context);
      // Read before anything else runs: the same object may be the answer to the next call (R69).
      return isPromiseLike(given)
        ? Promise.resolve(given).then((answer) => readAnswer(named, answer))
        : readAnswer(named, given);
    },
    { ...agent.bounds, signal: callSignal },
  );
  switch (outcome.type) {
    case "returned":
      return outcome.value;
    case "threw":
      return denial(`The guard ${name} failed: ${redactSecrets(messageOf(outcome.error))}.`);
    case "timed_out":
    case "abandoned":
      return denial(`The guard ${name} did not answer in time.`);
  }
}

/** The answer that a guard gave, whatever it is. Looks at each part once: it may be an object with a life of its own. */
function readAnswer(named: NamedGuard, given: unknown): GuardAnswer {
  try {
    if (isRecord(given)) {
      const { type, reason } = given;
      if (type === "allow") return { type };
      const isText = typeof reason === "string" && reason.trim() !== "";
      if ((type === "deny" || type === "ask") && isText) return { type, reason };
    }
    return useless(named, shown(given));
  } catch (cause) {
    return useless(named, messageOf(cause));
  }
}

/** Warns its author as well: a guard that denies everything by mistake shows nowhere else. */
function useless({ name, guard }: NamedGuard, got: string): GuardAnswer {
  const given = redactSecrets(got);
  warnOnce(
    guard,
    `Expected the guard ${name} to give { type: "allow" }, or { type: "deny" } or { type: "ask" } with a reason, got ${given}. The call is denied.`,
  );
  return denial(`The guard ${name} gave no answer that can be used: ${given}.`);
}

function denial(reason: string): GuardAnswer {
  return { type: "deny", reason };
}

/** Deny beats ask beats allow, in whatever order they are given; reasons of the winning kind are all given. */
function decisionOf({ tool }: GuardableCall, answers: readonly NamedAnswer[]): Decision {
  const type = ["deny", "ask"].find((one) => answers.some(({ answer }) => answer === one));
  const winning = answers.filter(({ answer }) => answer === type);
  const reason = joinSentences(winning.map((one) => one.reason ?? ""));
  if (type === "ask") return { type, reason };
  if (type === undefined) return ALLOW;
  const by = winning.map(({ guard }) => guard).join(", ");
  return { type: "deny", rejected: deniedCall(tool, { by, reason }) };
}

/** Whether the tool itself wants an approval, and why. A check that throws refuses the call. */
async function checkApproval(call: OpenCall, bound: GuardableCall): Promise<Decision> {
  if (bound.type !== "function") return ALLOW;
  const { tool, use } = bound;
  const needsApproval = use.needsApproval ?? call.planned.settings.needsApproval;
  if (needsApproval === false) return ALLOW;
  const asking = new OpenCall(call.agent, call.effectPosition, call.planned);
  asking.close(); // What it asks for on the side is dropped.
  try {
    const given: unknown =
      typeof needsApproval === "function" ? needsApproval(asking.context) : needsApproval;
    const answer: unknown = isPromiseLike(given) ? await inTime(call, given) : given;
    if (answer === false) return ALLOW;
    if (answer === true) return { type: "ask", reason: plainReason(tool.name) };
    if (typeof answer === "string" && answer !== "") return { type: "ask", reason: answer };
    throw new TypeError("it gave neither true, false nor a reason");
  } catch (cause) {
    const text = `Not executed: whether ${tool.name} may run could not be decided (${redactSecrets(messageOf(cause))}).`;
    return {
      type: "deny",
      rejected: { type: "rejected", tool, code: "approval_check_failed", text },
    };
  }
}

/** Why a call is asked about whose tool says no more than that it needs it. */
export function plainReason(toolName: string): string {
  return `${toolName} needs an approval.`;
}

async function inTime({ agent, signal }: OpenCall, given: PromiseLike<unknown>): Promise<unknown> {
  agent.beginWork();
  try {
    return await valueInTime(() => given, { ...agent.bounds, signal });
  } finally {
    agent.endWork();
  }
}
