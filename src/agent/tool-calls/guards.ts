// May a call run? Guards, the check whether it needs an approval, and the watch for calls that repeat themselves give one verdict:
// deny beats ask beats allow, and a call is asked about once (C9, C12). Nothing of it rejects.

import { isPromiseLike } from "../../kernel/cancel.ts";
import { runTimed, valueInTime } from "../../kernel/timed-work.ts";
import { shown } from "../../kernel/check.ts";
import { messageOf } from "../../kernel/error.ts";
import { isRecord } from "../../kernel/json.ts";
import { joinSentences } from "../../kernel/sentence.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { EventBody } from "../../protocol/event.ts";
import { type BoundCall } from "../../tools/bind-call.ts";
import { deniedCall, type RejectedCall } from "../../tools/rejected-call.ts";
import { redactSecrets } from "../../tools/redact-secrets.ts";
import {
  guardsFor,
  type GuardAnswer,
  type GuardContext,
  type GuardedCall,
  type NamedGuard,
} from "../../tools/tool-guard.ts";
import { SPAWN_TOOL_NAME } from "../agent-role.ts";
import type { PlannedCall } from "../effects.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { callServices, toolContext, type PlacedCall } from "./call-context.ts";
import { usedArguments } from "./used-arguments.ts";

/** A call about which guards are asked. */
export type GuardableCall = Exclude<BoundCall, { readonly type: "rejected" | "finish" }>;

/** What is to be done with a call. */
export type Verdict =
  | { readonly type: "allow" }
  | { readonly type: "ask"; readonly reason: string }
  | { readonly type: "deny"; readonly rejected: RejectedCall };

const ALLOW: Verdict = Object.freeze({ type: "allow" });

/** The verdict on a call that is made for the first time; at once where nobody has to be heard. */
export function judge(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: GuardableCall,
): Verdict | Promise<Verdict> {
  const watchers = watchersOf(agent, call, bound);
  return isWatched(watchers) || needsCheck(call, bound)
    ? judgeFully(agent, call, bound, watchers)
    : ALLOW;
}

/** True if a delegation does not begin without a word of guards, hooks or whoever is asked. */
export function isJudged(agent: AgentRuntime, call: PlacedCall, bound: GuardableCall): boolean {
  return isWatched(watchersOf(agent, call, bound));
}

function watchersOf(agent: AgentRuntime, call: PlacedCall, bound: GuardableCall): Watchers {
  const repeated = repetition(call, bound) ?? repeatedDelegation(agent, call, bound);
  const guards = guardsFor(agent.guards, bound.tool.name);
  const others = [...denialOf(call.planned.denial), ...(repeated === undefined ? [] : [repeated])];
  return { guards, others };
}

function isWatched({ guards, others }: Watchers): boolean {
  return guards.length > 0 || others.length > 0;
}

/**
 * The verdict on a call that was approved before: guards, as they are now, and a hook (`denied`) can deny it still; that they want it
 * asked about is answered (C50).
 */
export async function judgeAgain(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: GuardableCall,
  denied?: PlannedCall["denial"],
): Promise<Verdict> {
  const guards = guardsFor(agent.guards, bound.tool.name);
  const guarded = await askGuards(agent, call, bound, { guards, others: denialOf(denied) });
  return guarded.type === "deny" ? guarded : ALLOW;
}

/** A hook that denied the call, as one of those who were asked. */
function denialOf(denied: PlannedCall["denial"]): readonly NamedAnswer[] {
  return denied === undefined ? [] : [{ guard: denied.by, answer: denial(denied.reason) }];
}

interface Watchers {
  readonly guards: readonly NamedGuard[];
  /** What is said of the call besides: a hook denied it, or it repeats itself. */
  readonly others: readonly NamedAnswer[];
}

interface NamedAnswer {
  readonly guard: string;
  readonly answer: GuardAnswer;
}

async function judgeFully(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: GuardableCall,
  watchers: Watchers,
): Promise<Verdict> {
  const guarded = await askGuards(agent, call, bound, watchers);
  if (guarded.type === "deny" || !needsCheck(call, bound)) return guarded;
  const approval = await checkApproval(agent, call, bound);
  if (approval.type !== "ask") return approval.type === "deny" ? approval : guarded;
  if (guarded.type !== "ask") return approval;
  return { type: "ask", reason: joinSentences([guarded.reason, approval.reason]) };
}

/** The watch for calls that repeat themselves (R74). It counts calls of function tools: the same call, one right after the other. */
function repetition({ planned }: PlacedCall, bound: GuardableCall): NamedAnswer | undefined {
  const { identicalCalls, settings } = planned;
  const { maxIdenticalCalls } = settings;
  if (bound.type !== "function" || maxIdenticalCalls === "unlimited") return undefined;
  if (identicalCalls < maxIdenticalCalls) return undefined;
  const { name } = bound.tool;
  const reason =
    identicalCalls === 0
      ? `No call of ${name} may be made unasked.`
      : `${name} was called with the same arguments ${identicalCalls + 1} times in a row.`;
  return { guard: "identical-calls", answer: { type: "ask", reason } };
}

/** The same watch over delegations: the same role with the same task, anywhere in the run (X21). Calls of one reply count once. */
function repeatedDelegation(
  agent: AgentRuntime,
  { place, planned }: PlacedCall,
  bound: GuardableCall,
): NamedAnswer | undefined {
  const { maxIdenticalDelegations: most } = agent.role.delegation;
  if (bound.tool.name !== SPAWN_TOOL_NAME || most === "unlimited" || !isRecord(bound.input))
    return undefined;
  const { task, continue: childName } = bound.input;
  const { call, history, group } = planned;
  const asked = { stepId: place.stepId, callId: call.callId, history, group };
  const role =
    typeof childName === "string" && childName.trim() !== ""
      ? agent.run.subagents
          .serviceFor(agent, asked)
          .list()
          .find((one) => one.childName === childName)?.role
      : bound.input["role"];
  if (typeof role !== "string" || typeof task !== "string") return undefined;
  const before = agent.run.subagents.delegationsBefore({ role, task }, place.stepId);
  if (before < most) return undefined;
  const reason =
    before === 0
      ? `No ${role} may be started unasked.`
      : `${role} was started with the same task ${before} times in this run.`;
  return { guard: "identical-delegations", answer: { type: "ask", reason } };
}

async function askGuards(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: GuardableCall,
  { guards, others }: Watchers,
): Promise<Verdict> {
  if (guards.length === 0 && others.length === 0) return ALLOW;
  const rest = agent.time.working();
  const guarded: GuardedCall = Object.freeze({
    toolName: bound.tool.name,
    callId: call.planned.call.callId,
    arguments: usedArguments(bound),
    kind: bound.type,
  });
  const asked = await Promise.all(
    guards.map(async (named): Promise<NamedAnswer> => ({
      guard: named.name,
      answer: await askGuard(agent, call, named, guarded),
    })),
  );
  rest();
  const answers = [...asked, ...others];
  const verdict = verdictOf(bound, answers);
  agent.emit(
    {
      type: "tool.guarded",
      toolName: guarded.toolName,
      decision: verdict.type,
      answers: answers.map(said),
    },
    { stepId: call.place.stepId, callId: guarded.callId },
  );
  return verdict;
}

function said({ guard, answer }: NamedAnswer): EventBody<"tool.guarded">["answers"][number] {
  const reason = answer.type === "allow" ? {} : { reason: answer.reason };
  return { guard, answer: answer.type, ...reason };
}

/** A guard that breaks, takes too long or gives no answer has denied the call (R66). */
async function askGuard(
  agent: AgentRuntime,
  { place, planned, signal: callSignal }: PlacedCall,
  named: NamedGuard,
  guarded: GuardedCall,
): Promise<GuardAnswer> {
  const { name, guard } = named;
  const { runId, agentId, agentPath, depth, executionId } = agent.identity;
  const outcome = await runTimed<GuardAnswer>(
    (signal) => {
      const context: GuardContext = Object.freeze({
        guardName: name,
        runId,
        agentId,
        agentPath,
        depth,
        role: agent.role.name,
        executionId,
        stepNumber: place.stepNumber,
        messages: planned.history.messages,
        metadata: agent.metadata,
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

/** Its author is told, too: a guard that denies everything by a slip is found by nobody else. */
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

/** Deny beats ask beats allow, in whatever order they are given; reasons of the winning kind are all told. */
function verdictOf({ tool }: GuardableCall, answers: readonly NamedAnswer[]): Verdict {
  const denials = answers.flatMap(({ guard, answer }) =>
    answer.type === "deny" ? [{ guard, reason: answer.reason }] : [],
  );
  if (denials.length > 0) {
    const reason = joinSentences(denials.map((one) => one.reason));
    const by = denials.map(({ guard }) => guard).join(", ");
    return { type: "deny", rejected: deniedCall(tool, { by, reason }) };
  }
  const [first, ...others] = answers.flatMap(({ answer }) =>
    answer.type === "ask" ? [answer.reason] : [],
  );
  return first === undefined ? ALLOW : { type: "ask", reason: joinSentences([first, ...others]) };
}

function needsCheck({ planned }: PlacedCall, bound: GuardableCall): boolean {
  if (bound.type !== "function") return false;
  return (bound.use.needsApproval ?? planned.settings.needsApproval) !== false;
}

/** Whether the tool itself wants an approval, and why. A check that throws refuses the call. */
async function checkApproval(
  agent: AgentRuntime,
  call: PlacedCall,
  bound: GuardableCall,
): Promise<Verdict> {
  if (bound.type !== "function") return ALLOW;
  const { tool, use } = bound;
  const services = callServices(agent, call);
  services.close();
  try {
    const wanted = use.needsApproval ?? call.planned.settings.needsApproval;
    const given: unknown =
      typeof wanted === "function" ? wanted(toolContext(agent, call, services)) : wanted;
    const answer: unknown = isPromiseLike(given) ? await inTime(agent, call, given) : given;
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

async function inTime(
  agent: AgentRuntime,
  { signal }: PlacedCall,
  given: PromiseLike<unknown>,
): Promise<unknown> {
  const rest = agent.time.working();
  try {
    return await valueInTime(given, { ...agent.bounds, signal });
  } finally {
    rest();
  }
}
