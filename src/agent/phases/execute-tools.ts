// The phases of the calls of a reply. evaluate: are they still within the limits? Asked before any tool runs (R19).
// execute: rewrites, checks, charges and runs the calls, in parallel; a sequential tool runs alone. A call that waits
// for an answer from outside is put off. applyToolResults: adds the results to the history.

import { findCancelReason, addAbortHandler, CancelSignal } from "../../kernel/cancel.ts";
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
import type { CallEnd, ExecutedCall } from "../effects.ts";
import { addSignal, toBudgetSignal, failWith, toLastStepSignal } from "../stop-requests.ts";
import { callTool } from "../tool-calls/call-tool.ts";
import { recordExecutions, recordOutput, recordResults } from "../transition.ts";
import { admitCalls, type CallBatch, type Admission } from "./admit-calls.ts";
import { rewriteCalls } from "./rewrite-calls.ts";
import { summarizeResults } from "./summarize-results.ts";

/**
 * A reply that wants nothing further is never stopped by a limit here: it is the answer, as a text or as a typed result. In a
 * closing step (`wrapUp`) the agent stops after its answer all the same: see `decide`. A reply
 * that was let through before a pause is not evaluated again.
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
  // A reply that was let through before the process died is not evaluated again.
  if (agent.persistence?.inFlight?.isUnderWay === true) return state;
  const refusal = agent.account.exhaustedForReply();
  return refusal === undefined ? state : addSignal(agent, state, toBudgetSignal(refusal));
}

/** One batch after the other; calls of a batch run at once. What a call waits for, those of later batches wait for, too. */
export async function executeTools(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  let next = state;
  let failures: readonly ErrorRecord[] = [];
  let skip: string | undefined;
  let isOver = false;
  const reply = linkReply(agent, getOpenStep(state).stepId);
  for (const calls of splitBatches(agent, getPendingCalls(state))) {
    const batch = { calls, skip };
    ({ state: next, failures, isOver, skip } = await runBatch(agent, next, reply, batch));
    // The agent fails or stops, or a call is put off: nothing further begins, and the loop gets the reason.
    if (isOver || agent.hasStopRequest || getOpenStep(next).deferrals.length > 0) break;
  }
  reply.release();
  const dismissing = agent.persistence?.dismissOrphans();
  if (dismissing !== undefined) await dismissing;
  // applyToolResults, which raises failure signals, is skipped if calls are left: completeStep answers those, and raises none.
  const isLeft = isOver && failures.length === 0 && getPendingCalls(next).length > 0;
  if (isLeft) next = raiseFailures(agent, next, { before: next, ...getOpenStep(next) });
  for (const failure of failures) next = failWith(agent, next, failure);
  return next;
}

/** The calls in order, cut at every sequential tool. */
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

/** Calls are charged in call order before any of them starts, so that parallel children cannot take an admitted call's place. */
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
  // Reads `plan`, which is there: a call ends only once it is made, below.
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
    limit: plan.refusal === undefined ? undefined : toBudgetSignal(plan.refusal),
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

/** Emits the results that were to be summarised, as they are now: summarised, or cut. */
function emitLongResults(
  agent: AgentRuntime,
  { stepId, number: stepNumber }: OpenStep,
  executed: readonly ExecutedCall[],
  executions: readonly ToolExecution[],
): void {
  const source = agent.pieceSource({ stepId, stepNumber });
  for (const [index, execution] of executions.entries())
    if (executed[index]?.isToSummarize === true)
      agent.run.pieces?.result(source, createResultBody(execution));
}

const NONE: readonly never[] = Object.freeze([]);

/** True for a call that counts against the agent. Only such a call can end its reply. */
function countsAsFailure({ failure, execution }: ExecutedCall): boolean {
  if (failure !== undefined) return true;
  return execution.type !== "succeeded" && classifyErrorBudgetUse(execution) !== "nothing";
}

/**
 * True once the outcome of some calls makes the other calls of the reply useless: the agent fails, or stops because its error budget is
 * spent or its policy does not allow such a failure. A call that has not ended may still succeed, and end a row of errors.
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
  const byId = new Map(ended.map((one) => [one.call.callId, one]));
  const calls = reply?.message.toolCalls ?? [];
  const soFar = calls.map((call) => byId.get(call.callId) ?? createSucceededExecution(call));
  return collectFailureSignals(state.log.failures, soFar, { budget, policy }).length > 0;
}

function createSucceededExecution(call: ToolCall): ToolExecution {
  return { call, type: "succeeded", text: "", startedAtMs: 0, endedAtMs: 0 };
}

/** The end of the calls of one reply. */
interface ReplyEnd {
  /** Aborted when the agent must end, when it is to stop, and when one of the calls leaves nothing to do for the others. */
  readonly signal: CancelSignal;
  /** Ends the calls: no further one begins, those under way are aborted, and their subagents are cancelled. */
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
    // Where the agent itself must end, that has reached the subagents already.
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
 * Called once every call of the reply has its result. What the calls make the execution stop for becomes a
 * signal here: a limit that refused one, or failures beyond the error budget, unless the result was already given.
 */
export function applyToolResults(agent: AgentRuntime, state: AgentState): AgentState {
  const { step } = state;
  const applied = recordResults(state);
  const { limit, executions = [] } = step ?? {};
  const limited = limit === undefined ? applied : addSignal(agent, applied, limit);
  const isCounted = limited.log.output === undefined && hasFailures(state.log.failures, executions);
  return isCounted ? raiseFailures(agent, limited, { before: state, executions }) : limited;
}

/** Raises what calls of the step make the execution stop for. `before`: the state in which they are not counted yet. */
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
