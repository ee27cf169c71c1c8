// execute: rewrite, check, charge and run the calls of the reply, in parallel; a sequential tool runs alone. A call that waits for
// somebody outside is put off.

import type { ToolCall } from "../../protocol/message.ts";
import { timingOf } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { NO_USAGE } from "../../protocol/usage.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import { countsAs, hasFailures } from "../../policies/failure-counts.ts";
import { failureSignals } from "../../policies/failure-signals.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { openStepOf, pendingCallsOf, type AgentState } from "../agent-state.ts";
import { raiseFailures } from "./raise-failures.ts";
import { budgetSignal } from "../budget-signal.ts";
import type { CallEnd } from "../effects.ts";
import { failWith } from "../stop-requests.ts";
import { callTool } from "../tool-calls/call-tool.ts";
import { transition } from "../transition.ts";
import { asWritten, planCalls, type Plan } from "./plan-calls.ts";
import { rewriteCalls, type HookedCalls } from "./rewrite-calls.ts";
import { summarizeResults } from "./summarize-results.ts";
import { onAbort, cancelReasonOf } from "../../kernel/cancel.ts";
import type { EffectPosition } from "../agent-identity.ts";
import type { CallPosition } from "../tool-calls/open-call.ts";

/** One batch after the other; calls of a batch run at once. What a call waits for, those of later batches wait for, too (R125). */
export async function executeTools(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  let next = state;
  let failures: readonly ErrorRecord[] = [];
  let skip: string | undefined;
  let isOver = false;
  const { stepId, number: stepNumber } = openStepOf(state);
  const replyCalls = new ReplyCalls(agent, { stepId, stepNumber });
  for (const calls of batchesOf(agent, pendingCallsOf(state))) {
    const batch = { calls, replyCalls, skipped: skip };
    ({ state: next, failures, isOver, skip } = await runBatch(agent, next, batch));
    // The agent fails or stops, or a call is put off: nothing further begins, and the loop hears why.
    const isStopping = agent.stopRequests.length > 0 && !agent.isCatchingUp;
    if (isOver || isStopping || openStepOf(next).deferrals.length > 0) break;
  }
  replyCalls.release();
  await dismissOrphans(agent);
  // What has its result is weighed in incorporate; with calls left that get none, there is nothing to incorporate.
  const isLeft = isOver && failures.length === 0 && pendingCallsOf(next).length > 0;
  if (isLeft) next = raiseFailures(agent, next, { before: next, ...openStepOf(next) });
  return failures.reduce<AgentState>((failed, error) => failWith(agent, failed, error), next);
}

/** Subagents that a call had started before its process died, and that it did not start again: nobody waits for them (T2). */
async function dismissOrphans(agent: AgentRuntime): Promise<void> {
  const { subagents } = agent.run;
  const orphanIds = agent.inFlight?.childIds;
  if (orphanIds === undefined) return;
  await Promise.all(orphanIds.map((childId) => subagents.dismiss(agent, childId)));
}

/** The calls in order, cut at every sequential tool. */
function batchesOf(
  { tools }: AgentRuntime,
  calls: readonly ToolCall[],
): readonly (readonly ToolCall[])[] {
  const isAlone = (call: ToolCall): boolean => tools.find(call.toolName)?.isSequential === true;
  if (!calls.some(isAlone)) return [calls];
  const batches: ToolCall[][] = [];
  for (const call of calls) {
    const last = batches.at(-1);
    const [before] = last ?? [];
    const joins = before !== undefined && !isAlone(before) && !isAlone(call);
    if (joins) last?.push(call);
    else batches.push([call]);
  }
  return batches;
}

interface Batch {
  readonly calls: readonly ToolCall[];
  readonly replyCalls: ReplyCalls;
  /** Why the calls of the step are left out, if a batch before this one was. */
  readonly skipped: string | undefined;
}

interface Done {
  readonly state: AgentState;
  readonly failures: readonly ErrorRecord[];
  /** Nothing further of the reply begins. */
  readonly isOver: boolean;
  /** Why the calls of the step are left out, if they are. */
  readonly skip: string | undefined;
}

/** Calls are charged in call order before any of them starts, so that parallel children cannot take an admitted call's place. */
async function runBatch(
  agent: AgentRuntime,
  state: AgentState,
  { calls, replyCalls, skipped }: Batch,
): Promise<Done> {
  const step = openStepOf(state);
  const hooked = agent.hooks.points.has("beforeTool")
    ? await rewriteCalls(agent, step, calls)
    : { rewritten: calls.map((call) => asWritten(step, call)), ...NO_HOOKS_ASKED };
  const isFailing = hooked.failures.length > 0;
  const skip = skipped ?? agent.mailbox?.takeSkip();
  const plan = planCalls(agent, state, hooked.rewritten, { isFailing, skip });
  const known: CallEnd[] = [];
  const onEnd = (end: CallEnd): void => {
    known.push(end);
    if (isAgainst(end) && isReplyOver(agent, state, plan, known)) replyCalls.end();
  };
  const ends = await Promise.all(
    plan.calls.map((call) => callTool(agent, replyCalls.place, { ...call, onEnd })),
  );
  const deferrals = ends.flatMap((end) => (end.type === "deferred" ? [end.deferral] : []));
  const usage = { ...NO_USAGE, toolCalls: plan.charged };
  const timing = timingOf([...hooked.spans, ...ends.flatMap(({ spans }) => spans ?? [])]);
  const charged = transition(state, { type: "addUsage", usage, timing });
  const executed = ends.flatMap((end) => (end.type === "executed" ? [end] : []));
  const isFailed = executed.some(({ failure }) => failure !== undefined);
  const isLong = !isFailed && executed.some(({ isToSummarize }) => isToSummarize);
  const { state: paid, executions } = isLong
    ? await summarizeResults(agent, charged, executed)
    : { state: charged, executions: executed.map(({ execution }) => execution) };
  const limit = plan.refusal === undefined ? undefined : budgetSignal(plan.refusal);
  const recorded = transition(paid, { type: "recordExecutions", executions, deferrals, limit });
  const next =
    plan.output === undefined
      ? recorded
      : transition(recorded, { type: "recordOutput", output: plan.output });
  return {
    state: next,
    failures: [...hooked.failures, ...executed.flatMap(({ failure }) => failure ?? [])],
    isOver: isFailing || isReplyOver(agent, state, plan, ends),
    skip,
  };
}

const NO_HOOKS_ASKED = { spans: [], failures: [] } as const satisfies Partial<HookedCalls>;

/** True for a call that counts against the agent: however many calls a reply has, few of them make it worth looking at all. */
function isAgainst(end: CallEnd): boolean {
  if (end.type !== "executed") return false;
  const { failure, execution } = end;
  if (execution.type === "succeeded") return failure !== undefined;
  return failure !== undefined || countsAs(execution) !== "nothing";
}

/**
 * True once what calls came to leaves nothing to do for the others of their reply: the agent fails with it, or stops, for an error budget
 * that is spent or a call that its policy does not bear. A call that has not ended may still succeed, and end a row of errors.
 */
function isReplyOver(
  { role: { errorBudget: budget, errorPolicy: policy } }: AgentRuntime,
  state: AgentState,
  { output }: Plan,
  ends: readonly CallEnd[],
): boolean {
  const known = ends.flatMap((end) => (end.type === "executed" ? [end] : []));
  if (known.some(({ failure }) => failure !== undefined)) return true;
  if (output !== undefined || state.log.output !== undefined) return false;
  const { executions, reply } = openStepOf(state);
  const ended = [...executions, ...known.map(({ execution }) => execution)];
  if (!hasFailures(state.log.failures, ended)) return false;
  const byId = new Map(ended.map((one) => [one.call.callId, one]));
  const calls = reply?.message.toolCalls ?? [];
  const soFar = calls.map((call) => byId.get(call.callId) ?? stillSucceeding(call));
  return failureSignals(state.log.failures, soFar, { budget, policy }).length > 0;
}

function stillSucceeding(call: ToolCall): ToolExecution {
  return { call, type: "succeeded", text: "", startedAtMs: 0, endedAtMs: 0 };
}

/**
 * The tool calls of one reply, which end together. Owns the signal that each of them is given: it is aborted when the agent must end, when it
 * is to stop, and when one of the calls leaves nothing to do for the others.
 */
class ReplyCalls {
  /** Where each of them stands. */
  readonly place: CallPosition;
  readonly #agent: AgentRuntime;
  readonly #controller = new AbortController();
  /** Listens to the agent no longer. */
  readonly release: () => void;

  constructor(agent: AgentRuntime, place: EffectPosition) {
    this.place = { ...place, signal: this.signal };
    this.#agent = agent;
    const isOver = agent.startSignal.aborted;
    this.release = isOver ? () => undefined : onAbort(agent.startSignal, () => this.end());
    if (isOver) this.end();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * No further one begins, those under way are aborted, and the subagents that they have started are cancelled: where the agent itself must
   * end, that has reached them already.
   */
  end(): void {
    if (this.signal.aborted) return;
    const { startSignal, identity, run } = this.#agent;
    const { agentId, agentPath } = identity;
    const cancelled = cancelReasonOf(startSignal);
    const message = `${agentPath} stops.`;
    this.#controller.abort(cancelled ?? { type: "stopped", message, agentId });
    if (cancelled === undefined) run.subagents.cancelStartedBy(this.#agent, this.place.stepId);
  }
}
