// The phases for the calls of a reply. evaluate checks the limits before any tool runs. execute
// rewrites, checks, charges and runs the calls, in parallel, except that a sequential tool runs
// alone. A call that waits for an answer from outside is deferred. applyToolResults adds the
// results to the history. tool-calls/cancelled-calls.ts settles the calls that a cancel prevented.

import { findCancelReason, addAbortHandler, CancelSignal } from "../../kernel/cancel-signal.ts";
import { classifyErrorBudgetUse, hasFailures } from "../../policies/failure-counts.ts";
import { collectFailureSignals } from "../../policies/error-budget.ts";
import type { StepId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import { computeTiming } from "../../protocol/step-timing.ts";
import { createResultBody } from "../../protocol/stream-part.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { ToolExecution } from "../../protocol/tool-outcome.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { getOpenStep, getPendingCalls, type AgentState, type OpenStep } from "../agent-state.ts";
import type { CallEnd, ExecutedCall } from "../effect-outcomes.ts";
import { addSignal, toBudgetSignal, failWith, toLastStepSignal } from "../stop-requests.ts";
import { callTool } from "../tool-calls/call-tool.ts";
import { recordExecutions, recordOutput, recordResults } from "../transition.ts";
import { admitCalls, type CallBatch, type Admission } from "./admit-calls.ts";
import { rewriteCalls } from "./rewrite-calls.ts";
import { summarizeResults } from "./summarize-results.ts";

/**
 * Checks the limits before the calls of a reply. A reply whose only call is `Finish`, or that has
 * none, is never stopped by a limit, because it is the answer. In the last step announced by
 * `wrapUp` the agent stops after its answer all the same: see `decide`. Calls that were accepted
 * before a pause are not checked again.
 */
export function evaluate(agent: AgentRuntime, state: AgentState): AgentState {
  const step = getOpenStep(state);
  if (step.isEvaluated === true || step.executions.length > 0 || step.deferrals.length > 0)
    return state;
  const pending = getPendingCalls(state).filter(
    ({ toolName }) => agent.tools.find(toolName)?.kind !== "finish",
  );
  if (pending.length === 0) return state;
  if (step.lastStep !== undefined) return addSignal(agent, state, toLastStepSignal(step.lastStep));
  // Calls that were accepted before the process died are not checked again.
  if (agent.persistence?.inFlight?.hasWork === true) return state;
  const refusal = agent.account.exhaustedForReply();
  return refusal === undefined ? state : addSignal(agent, state, toBudgetSignal(refusal));
}

/**
 * Runs the batches one after the other, and the calls of a batch at once. If a call is deferred,
 * later batches wait too.
 */
export async function executeTools(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  let next = state;
  let failures: readonly ErrorRecord[] = [];
  let skip: string | undefined;
  let isOver = false;
  const reply = linkReply(agent, getOpenStep(state).stepId);
  for (const calls of splitBatches(agent, getPendingCalls(state))) {
    const batch = { calls, skip };
    ({ state: next, failures, isOver, skip } = await runBatch(agent, next, reply, batch));
    // The agent fails or stops, or a call is deferred. Nothing further begins, and the loop reads
    // the reason.
    if (isOver || agent.hasStopRequest || getOpenStep(next).deferrals.length > 0) break;
  }
  reply.release();
  const dismissing = agent.persistence?.dismissOrphans();
  if (dismissing !== undefined) await dismissing;
  // applyToolResults, which raises failure signals, does not run if calls remain. completeStep
  // settles them but raises no signals.
  const isLeft = isOver && failures.length === 0 && getPendingCalls(next).length > 0;
  if (isLeft) next = raiseFailures(agent, next, { before: next, ...getOpenStep(next) });
  for (const failure of failures) next = failWith(agent, next, failure);
  return next;
}

/** Returns the calls in order, split at every sequential tool. */
function splitBatches(
  { tools }: AgentRuntime,
  calls: readonly ToolCall[],
): readonly (readonly ToolCall[])[] {
  const batches: ToolCall[][] = [];
  let isOpen = false;
  for (const call of calls) {
    const isAlone = tools.find(call.toolName)?.sequential === true;
    const last = batches.at(-1);
    if (isOpen && !isAlone) last?.push(call);
    else batches.push([call]);
    isOpen = !isAlone;
  }
  return batches;
}

/**
 * Runs a batch. All calls are charged in order before the first one starts, so that parallel
 * children cannot use up the budget of an admitted call.
 */
async function runBatch(
  agent: AgentRuntime,
  state: AgentState,
  { signal, end: endReply }: ReplyEnd,
  { calls, skip: skipped }: Pick<CallBatch, "calls" | "skip">,
) {
  const step = getOpenStep(state);
  const isHooked = agent.hooks.points.has("beforeTool");
  const hooked = isHooked ? await rewriteCalls(agent, step, calls) : undefined;
  const broken = hooked?.failures ?? NONE;
  const isFailing = broken.length > 0;
  const skip = skipped ?? agent.mailbox?.takeSkip();
  const known: ExecutedCall[] = [];
  // `plan` is always assigned by then, because calls only start below.
  const onEnd = (end: CallEnd): void => {
    if (end.type !== "executed") return;
    known.push(end);
    if (countsAsFailure(end) && isReplyOver(agent, state, plan, known)) endReply();
  };
  const batch: CallBatch = { calls, hooked: hooked?.calls, isFailing, skip, signal, onEnd };
  const plan = admitCalls(agent, state, batch);
  const { persistence } = agent;
  const calling: Promise<CallEnd>[] = [];
  for (const call of plan.calls)
    calling.push(persistence === undefined ? callTool(call) : persistence.callTool(call));
  const ends = await Promise.all(calling);
  const executed = ends.filter((end) => end.type === "executed");
  const failures = executed.flatMap(({ failure }) => failure ?? []);
  const spans = ends.flatMap((end) => end.spans ?? []);
  const isLong = executed.some(({ isToSummarize }) => isToSummarize);
  const { state: paid, executions } =
    isLong && failures.length === 0
      ? await summarizeResults(agent, state, executed)
      : { state, executions: executed.map(({ execution }) => execution) };
  if (isLong) emitLongResults(agent, step, executed, executions);
  const recorded = recordExecutions(paid, {
    executions,
    deferrals: ends.flatMap((end) => (end.type === "deferred" ? [end.deferral] : [])),
    limitSignal: plan.refusal === undefined ? undefined : toBudgetSignal(plan.refusal),
    toolCalls: plan.charged,
    timing: computeTiming(hooked === undefined ? spans : [...hooked.spans, ...spans]),
  });
  const ended = plan.output === undefined ? recorded : recordOutput(recorded, plan.output);
  agent.noteState(ended);
  return {
    state: ended,
    failures: isFailing ? [...broken, ...failures] : failures,
    isOver:
      isFailing || (executed.some(countsAsFailure) && isReplyOver(agent, state, plan, executed)),
    skip,
  };
}

/** Emits the results that were to be summarised: the summaries, or shortened texts. */
function emitLongResults(
  agent: AgentRuntime,
  { stepId, number: stepNumber }: OpenStep,
  executed: readonly ExecutedCall[],
  executions: readonly ToolExecution[],
): void {
  const source = agent.toPartSource({ stepId, stepNumber });
  for (const [index, execution] of executions.entries())
    if (executed[index]?.isToSummarize === true)
      agent.run.pieces?.emit(source, createResultBody(execution));
}

const NONE: readonly never[] = Object.freeze([]);

/** True for a call that counts as a failure of the agent. Only such a call can end its reply. */
function countsAsFailure({ failure, execution }: ExecutedCall): boolean {
  if (failure !== undefined) return true;
  return execution.type !== "succeeded" && classifyErrorBudgetUse(execution) !== "nothing";
}

/**
 * True if the results so far make the other calls of the reply useless: the agent fails, or stops
 * because its error budget is spent or its policy forbids the failure. Calls in progress count as
 * successes, because they may still end a series of errors.
 */
function isReplyOver(
  { role: { errorBudget: budget, errorPolicy: policy } }: AgentRuntime,
  state: AgentState,
  { output }: Admission,
  known: readonly ExecutedCall[],
): boolean {
  if (known.some(({ failure }) => failure !== undefined)) return true;
  if (output !== undefined || state.log.output !== undefined) return false;
  const { executions, reply } = getOpenStep(state);
  const ended = [...executions, ...known.map(({ execution }) => execution)];
  const byId = new Map(ended.map((execution) => [execution.call.callId, execution]));
  const calls = reply?.message.toolCalls ?? [];
  const soFar = calls.map((call) => byId.get(call.callId) ?? createSucceededExecution(call));
  return collectFailureSignals(state.log.failures, soFar, { budget, policy }).length > 0;
}

function createSucceededExecution(call: ToolCall): ToolExecution {
  return { call, type: "succeeded", text: "", startedAtMs: 0, endedAtMs: 0 };
}

/** Ends the calls of a reply. */
interface ReplyEnd {
  /** Aborted when the agent must end or stop, and when one call makes the others useless. */
  readonly signal: CancelSignal;
  /**
   * Ends the calls: no further call begins, active calls are aborted, and their subagents are
   * cancelled.
   */
  readonly end: () => void;
  /** Removes the listener on the agent's `noStartSignal`. */
  readonly release: () => void;
}

function linkReply(agent: AgentRuntime, stepId: StepId): ReplyEnd {
  const signal = new CancelSignal();
  const { noStartSignal, identity, run } = agent;
  const end = (): void => {
    if (signal.aborted) return;
    const { agentId, agentPath } = identity;
    // A cancel of the agent reaches its subagents by itself. A stop does not.
    const cancelled = findCancelReason(noStartSignal);
    const message = `${agentPath} stops.`;
    signal.abort(cancelled ?? { type: "stopped", message, agentId });
    if (cancelled === undefined) run.supervisor.cancelStartedBy(agent, stepId);
  };
  const release = noStartSignal.aborted ? () => undefined : addAbortHandler(noStartSignal, end);
  if (noStartSignal.aborted) end();
  return { signal, end, release };
}

/**
 * Adds the results once every call of the reply has one. Raises signals for a limit that refused a
 * call, and for failures beyond the error budget unless the typed result was already given.
 */
export function applyToolResults(agent: AgentRuntime, state: AgentState): AgentState {
  const { step } = state;
  const applied = recordResults(state);
  const { limit, executions = [] } = step ?? {};
  const limited = limit === undefined ? applied : addSignal(agent, applied, limit);
  const isCounted = limited.log.output === undefined && hasFailures(state.log.failures, executions);
  return isCounted ? raiseFailures(agent, limited, { before: state, executions }) : limited;
}

/**
 * Raises signals for failures beyond the error budget. `before` is the state before these failures
 * are counted.
 */
function raiseFailures(
  agent: AgentRuntime,
  state: AgentState,
  { before, executions }: { readonly before: AgentState } & Pick<OpenStep, "executions">,
): AgentState {
  const { failures } = before.log;
  const { errorBudget: budget, errorPolicy: policy } = agent.role;
  return collectFailureSignals(failures, executions, { budget, policy }).reduce<AgentState>(
    (current, signal) => addSignal(agent, current, signal),
    state,
  );
}
