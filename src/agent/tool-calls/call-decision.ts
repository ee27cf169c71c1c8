// Decides whether a call may run. Guards, the tool's approval check and the limit on repeated calls
// give one decision: deny beats ask beats allow, and each call causes at most one question. Most
// calls need no decision and run at once. Questions are in call-questions.ts. No promise here rejects.

import { isPromiseLike, runTimed, runUntilTimeout } from "../../kernel/cancel-signal.ts";
import { describeReceived } from "../../kernel/argument-checks.ts";
import { getErrorMessage } from "../../kernel/error.ts";
import { deepFreezeList } from "../../kernel/append-only-list.ts";
import { isRecord } from "../../kernel/json.ts";
import { joinSentences } from "../../kernel/sentence.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { BoundCall, OwnCall } from "../../tools/bind-call.ts";
import { redactSecrets } from "../../tools/redact-secrets.ts";
import { rejectDeniedCall, type RejectedCall } from "../../tools/rejected-call.ts";
import {
  selectGuards,
  type GuardDecision,
  type GuardContext,
  type GuardedCall,
  type NamedGuard,
} from "../../tools/tool-guard.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import { readAgentFacts } from "../run-user-code.ts";
import { createToolContext } from "./call-context.ts";
import type { CallInProgress } from "./open-call.ts";
import { getUsedArguments } from "./parsed-call.ts";

/** The decision of a guard, in the form of events. */
type NamedAnswer = EventBody<"tool.guarded">["answers"][number];

/** The decision about a repeated call. Without an approver it is denied, with an instruction. */
export type Repetition = NamedAnswer & { readonly answer: "ask" | "deny"; readonly reason: string };

/** The decision on a call. */
export type Decision =
  | { readonly type: "allow" }
  | { readonly type: "ask"; readonly reason: string }
  | RejectedCall;

const ALLOW: Decision = Object.freeze({ type: "allow" });

/** A call that guards may check. */
type GuardableCall = Exclude<BoundCall, { readonly type: "rejected" | "finish" }>;

/**
 * Returns the decision about a call that exceeds a limit on repetition: consecutive identical calls
 * of a function tool, or delegations of one task to one role anywhere in the run.
 */
export function findRepetition(call: CallInProgress, bound: OwnCall): Repetition | undefined {
  const { agent, toolName } = call;
  if (bound.type === "function") {
    const { maxIdenticalCalls: maximum } = call.settings;
    const { identicalCalls: count } = call;
    if (maximum === "unlimited" || count < maximum) return undefined;
    return decideRepetition(call, "identical-calls", maximum, {
      first: count === 0 ? `Each call of ${toolName} needs approval.` : undefined,
      again: `${toolName} was already called with the same arguments${count === 1 ? "" : ` ${count} times in a row`}.`,
      advice: "Use its last result, or other arguments.",
    });
  }
  const { maxIdenticalDelegations: maximum } = agent.role.delegation;
  const { input } = bound;
  if (toolName !== SPAWN_TOOL_NAME || maximum === "unlimited" || !isRecord(input)) return undefined;
  const { task, continue: childName } = input;
  const isContinued = typeof childName === "string" && childName.trim() !== "";
  const role = isContinued ? agent.findChild(childName)?.role.name : input["role"];
  if (typeof role !== "string" || typeof task !== "string") return undefined;
  const count = agent.run.tree.countDelegations({ role, task }, call.stepId);
  if (count < maximum) return undefined;
  return decideRepetition(call, "identical-delegations", maximum, {
    first: count === 0 ? `Each start of ${role} needs approval.` : undefined,
    again: `${role} was started with the same task ${count} times in this run.`,
    advice: "Use its results, or another task.",
  });
}

/**
 * Returns `ask` if there is an approver, or if the limit of 0 requires a question for each call.
 * Otherwise returns `deny`.
 */
function decideRepetition(
  { agent }: CallInProgress,
  guard: string,
  maximum: number,
  texts: { readonly first: string | undefined; readonly again: string; readonly advice: string },
): Repetition {
  const { first, again, advice } = texts;
  const isAsked = maximum === 0 || agent.run.settings.approvals.approver !== undefined;
  if (first !== undefined || isAsked) return { guard, answer: "ask", reason: first ?? again };
  return { guard, answer: "deny", reason: `${again} ${advice}` };
}

/** Returns the decision on a new call. */
export async function decideByGuards(
  call: CallInProgress,
  bound: GuardableCall,
  repeated?: Repetition,
): Promise<Decision> {
  const others = [
    ...collectHookDenials(call.denial),
    ...(repeated === undefined ? [] : [repeated]),
  ];
  const guarded = await askGuards(call, bound, others);
  if (guarded.type === "rejected") return guarded;
  const approval = await checkToolApproval(call, bound);
  if (approval.type === "allow") return guarded;
  if (approval.type === "rejected" || guarded.type === "allow") return approval;
  return { type: "ask", reason: joinSentences([guarded.reason, approval.reason]) };
}

/**
 * Returns the decision on a call that was already approved. Current guards and a hook (`denied`)
 * can still deny it. Their wish to ask is already fulfilled.
 */
export async function decideAgain(
  call: CallInProgress,
  bound: GuardableCall,
  denied?: CallInProgress["denial"],
): Promise<Decision> {
  const guarded = await askGuards(call, bound, collectHookDenials(denied));
  return guarded.type === "rejected" ? guarded : ALLOW;
}

/** Returns the denial of a hook as the answer of a guard. */
function collectHookDenials(denied: CallInProgress["denial"]): readonly NamedAnswer[] {
  return denied === undefined ? [] : [{ guard: denied.by, answer: "deny", reason: denied.reason }];
}

/** Asks the guards. `others` are further answers: a denial by a hook, or a repeated call. */
async function askGuards(
  call: CallInProgress,
  bound: GuardableCall,
  others: readonly NamedAnswer[],
): Promise<Decision> {
  const { agent } = call;
  const guards = selectGuards(agent.guards, bound.tool.name);
  if (guards.length === 0 && others.length === 0) return ALLOW;
  agent.beginWork();
  const guarded: GuardedCall = Object.freeze({
    toolName: bound.tool.name,
    callId: call.call.callId,
    arguments: getUsedArguments(bound),
    kind: bound.type,
  });
  const guardAnswers = await Promise.all(
    guards.map(async (named): Promise<NamedAnswer> => {
      const { type: answer, ...why } = await askGuard(call, named, guarded);
      return { guard: named.name, answer, ...why };
    }),
  );
  agent.endWork();
  const answers = [...guardAnswers, ...others];
  const { toolName } = guarded;
  const decision = (["deny", "ask"] as const).find((kind) =>
    answers.some((by) => by.answer === kind),
  );
  const type = decision ?? "allow";
  agent.recordWithinCall(
    { type: "tool.guarded", toolName, decision: type, answers },
    call.position,
  );
  if (type === "allow") return ALLOW;
  const winning = answers.filter(({ answer }) => answer === type);
  const reason = joinSentences(winning.map((answer) => answer.reason ?? ""));
  if (type === "ask") return { type, reason };
  return rejectDeniedCall(bound.tool, { by: winning.map(({ guard }) => guard).join(", "), reason });
}

/**
 * Returns the decision of a guard. A guard that throws, exceeds its time limit or returns no valid
 * decision denies the call.
 */
async function askGuard(
  { agent, stepNumber, history, signal: callSignal }: CallInProgress,
  named: NamedGuard,
  guarded: GuardedCall,
): Promise<GuardDecision> {
  const { name, guard } = named;
  const outcome = await runTimed<GuardDecision>(
    (signal) => {
      const context: GuardContext = Object.freeze({
        ...readAgentFacts(agent),
        guardName: name,
        role: agent.role.name,
        stepNumber,
        messages: deepFreezeList(history.messages),
        signal,
      });
      const returned: unknown = guard.check(guarded, context);
      // Read at once, because the guard may reuse the object for its next answer.
      return isPromiseLike(returned)
        ? Promise.resolve(returned).then((answer) => readAnswer(named, answer))
        : readAnswer(named, returned);
    },
    { ...agent.bounds, signal: callSignal },
  );
  switch (outcome.type) {
    case "returned":
      return outcome.value;
    case "threw":
      return denyGuarded(
        `The guard ${name} failed: ${redactSecrets(getErrorMessage(outcome.error))}.`,
      );
    case "timed_out":
    case "abandoned":
      return denyGuarded(`The guard ${name} did not answer in time.`);
  }
}

/**
 * Returns the decision in any value that a guard returned. Reads each property once, because
 * getters may return different values.
 */
function readAnswer(named: NamedGuard, returned: unknown): GuardDecision {
  try {
    if (isRecord(returned)) {
      const { type, reason } = returned;
      if (type === "allow") return { type };
      const isText = typeof reason === "string" && reason.trim() !== "";
      if ((type === "deny" || type === "ask") && isText) return { type, reason };
    }
    return denyInvalidAnswer(named, describeReceived(returned));
  } catch (cause) {
    return denyInvalidAnswer(named, getErrorMessage(cause));
  }
}

/**
 * Returns a denial and warns the author of the guard, because a guard that denies everything by
 * mistake shows nowhere else.
 */
function denyInvalidAnswer({ name, guard }: NamedGuard, got: string): GuardDecision {
  const received = redactSecrets(got);
  warnOnce(
    guard,
    `Expected the guard ${name} to return { type: "allow" }, or { type: "deny" } or { type: "ask" } with a reason, got ${received}. The call is denied.`,
  );
  return denyGuarded(`The guard ${name} returned no usable decision: ${received}.`);
}

function denyGuarded(reason: string): GuardDecision {
  return { type: "deny", reason };
}

/** Returns the decision of the tool's own approval check. A check that throws refuses the call. */
async function checkToolApproval(call: CallInProgress, bound: GuardableCall): Promise<Decision> {
  if (bound.type !== "function") return ALLOW;
  const { tool, use } = bound;
  const needsApproval = use.needsApproval ?? call.settings.needsApproval;
  if (needsApproval === false) return ALLOW;
  // Requests of the check, such as subtasks, are dropped.
  const asking: CallInProgress = { ...call, isClosed: true };
  try {
    const returned: unknown =
      typeof needsApproval === "function"
        ? needsApproval(createToolContext(asking))
        : needsApproval;
    const answer: unknown = isPromiseLike(returned)
      ? await awaitGuardAnswer(call, returned)
      : returned;
    if (answer === false) return ALLOW;
    if (answer === true) return { type: "ask", reason: describeApprovalNeed(tool.name) };
    if (typeof answer === "string" && answer !== "") return { type: "ask", reason: answer };
    throw new TypeError("it returned neither true, false nor a reason");
  } catch (cause) {
    const text = `Not executed: the approval check of ${tool.name} failed (${redactSecrets(getErrorMessage(cause))}). Do without it, or answer with what you have.`;
    return { type: "rejected", tool, code: "approval_check_failed", text };
  }
}

/** Returns the reason for an approval that the tool requires without giving a reason. */
export function describeApprovalNeed(toolName: string): string {
  return `${toolName} needs approval.`;
}

async function awaitGuardAnswer(
  { agent, signal }: CallInProgress,
  promise: PromiseLike<unknown>,
): Promise<unknown> {
  agent.beginWork();
  try {
    return await runUntilTimeout(() => promise, { ...agent.bounds, signal });
  } finally {
    agent.endWork();
  }
}
