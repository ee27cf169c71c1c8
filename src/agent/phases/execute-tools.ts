// execute: rewrite, check, charge and run the calls of the reply, in parallel; a sequential tool runs alone. A call that waits for
// somebody outside is put off.

import type { ToolCall } from "../../protocol/message.ts";
import { spanOf, timingOf } from "../../protocol/step-timing.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import { NO_USAGE } from "../../protocol/usage.ts";
import type { AgentContext } from "../agent-context.ts";
import { openStepOf, pendingCallsOf, type AgentState } from "../agent-state.ts";
import { budgetSignal } from "../budget-signal.ts";
import { failWith } from "../life-cycle.ts";
import { transition } from "../transition.ts";
import { planCalls } from "./plan-calls.ts";
import { rewriteCalls } from "./rewrite-calls.ts";
import { summarizeResults } from "./summarize-results.ts";

/** One batch after the other; calls of a batch run at once. What a call waits for, those of later batches wait for, too (R125). */
export async function executeTools(agent: AgentContext, state: AgentState): Promise<AgentState> {
  let next = state;
  let failures: readonly ErrorRecord[] = [];
  let skip: string | undefined;
  for (const batch of batchesOf(agent, pendingCallsOf(state))) {
    const done = await runBatch(agent, next, batch, skip);
    ({ state: next, failures, skip } = done);
    // The agent fails, somebody wishes it to stop, or a call is put off: nothing further begins, and the loop hears why.
    const isHeld = failures.length > 0 || (agent.inbox.hasSignals && !agent.isCatchingUp);
    if (isHeld || openStepOf(next).deferrals.length > 0) break;
  }
  await dismissStrays(agent);
  return failures.reduce<AgentState>((failed, error) => failWith(agent, failed, error), next);
}

/** Subagents that a call had started before its process died, and that it did not start again: nobody waits for them (T2). */
async function dismissStrays({ effects, strayIds }: AgentContext): Promise<void> {
  if (strayIds.length > 0) await effects.join(strayIds.map((childId) => effects.dismiss(childId)));
}

/** The calls in order, cut at every sequential tool. */
function batchesOf(
  { tools }: AgentContext,
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

interface Done {
  readonly state: AgentState;
  readonly failures: readonly ErrorRecord[];
  /** Why the calls of the step are left out, if they are. */
  readonly skip: string | undefined;
}

/** Calls are charged in call order before any of them starts, so that parallel children cannot take an admitted call's place. */
async function runBatch(
  agent: AgentContext,
  state: AgentState,
  calls: readonly ToolCall[],
  skipped: string | undefined,
): Promise<Done> {
  const { effects } = agent;
  const step = openStepOf(state);
  const askedAtMs = effects.nowMs();
  const asked = rewriteCalls(agent, step, calls);
  const rewritten = asked instanceof Promise ? await asked : asked;
  const hookSpans = spanOf("hooks", askedAtMs, effects.nowMs());
  const hookFailures = rewritten.flatMap(({ change }) =>
    change?.type === "failed" ? [change.error] : [],
  );
  const skip = skipped ?? agent.inbox.takeSkip();
  const plan = planCalls(agent, state, rewritten, { isFailing: hookFailures.length > 0, skip });
  const place = { stepId: step.stepId, stepNumber: step.number };
  const ends = await effects.join(plan.calls.map((call) => effects.callTool(place, call)));
  const deferrals = ends.flatMap((end) => (end.type === "deferred" ? [end.deferral] : []));
  const usage = { ...NO_USAGE, toolCalls: plan.charged };
  const timing = timingOf([...hookSpans, ...ends.flatMap(({ spans }) => spans ?? [])]);
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
    failures: [...hookFailures, ...executed.flatMap(({ failure }) => failure ?? [])],
    skip,
  };
}
