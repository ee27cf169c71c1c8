// decide: completes the step, and continues if there is work, otherwise ends. Processors see the
// completed step, stop conditions are checked, and stop hooks may veto the end.

import { runProcessors } from "../../hooks/run-chain.ts";
import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import { createUserMessage } from "../../protocol/message.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import { describeProblemLines } from "../../tools/arguments/argument-problems.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import {
  isRequestTooLong,
  isWholeReply,
  getLastText,
  hasDeferredWork,
  type AgentState,
  getEventPosition,
} from "../agent-state.ts";
import { checkConditions } from "../check-stop-conditions.ts";
import { consultHooks, runUserCode, createHookBounds } from "../run-user-code.ts";
import {
  createParsedOutput,
  isTextResultAccepted,
  listResultProblems,
  parseTextResult,
} from "../typed-result.ts";
import { FINISH_TOOL_NAME } from "../../protocol/tool-rule.ts";
import { fail, failWith, toLastStepSignal, recordOvershoots, addSignal } from "../stop-requests.ts";
import { dismissChildren, completeStep } from "../life-cycle.ts";
import {
  decideStepOutcome,
  isTextAlone,
  listRejectedResults,
  type StepFacts,
  type StepOutcome,
} from "../step-outcome.ts";
import {
  addMessages,
  awaitSubagents,
  recordOutput,
  recordVeto,
  recordWait,
} from "../transition.ts";

/** Times that stop hooks may make an execution continue. */
const MAX_VETOES = 3;

/**
 * Completes the step and decides what follows: stop, continue, or repeat the request for missing
 * parts.
 */
export async function decide(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const next = isRequestTooLong(state) ? state : await finishStep(agent, state);
  const outcome = decideStepOutcome(next.log, {
    roleName: agent.role.name,
    modelId: agent.model.id,
    maxOutputTokens: agent.role.maxOutputTokens,
    hasOutput: agent.role.hasOutput,
    describeMiss: () => describeMiss(agent, next),
    hasMessages: agent.mailbox?.hasMessages === true,
    mustAwait: next.log.background.length > 0 && agent.role.delegation.parentEndPolicy === "await",
  });
  switch (outcome.type) {
    case "stop":
      return outcome.signal === undefined ? next : await stop(agent, next, outcome.signal);
    case "fail":
      return fail(agent, next, outcome.error);
    case "compact":
      recordContinuation(agent, next, outcome);
      return await shortenHistory(agent, next);
    case "retry": {
      const reminded = remind(agent, next);
      recordContinuation(agent, reminded, outcome);
      return reminded;
    }
    case "continue": {
      // A text without the required typed result counts as a wait for subagents, not as a miss.
      const isWait = agent.role.hasOutput && next.log.steps.slice(-1).some(isTextAlone);
      const waiting = isWait ? recordWait(next) : next;
      // An agent that continues has to give its typed result again.
      const open = waiting.log.output === undefined ? waiting : recordOutput(waiting, {});
      // Without other work the agent waits for its subagents before its next step.
      const isIdle = outcome.work.every((type) => type === "subagents");
      const continued = isIdle ? awaitSubagents(open) : open;
      recordContinuation(agent, continued, outcome);
      return continued;
    }
  }
}

/**
 * Completes the step, and runs processors and stop conditions. The last allowed step raises
 * `step_limit`, so that the agent ends as `stopped` even with a valid answer.
 */
async function finishStep(agent: AgentRuntime, before: AgentState): Promise<AgentState> {
  const state = agent.role.hasOutput ? takeTextResult(agent, before) : before;
  const closing = state.step?.lastStep;
  const alone = hasDeferredWork(state) ? await dismissChildren(agent, state) : state;
  const completed = completeStep(agent, alone);
  if (completed === alone) return failIfStalled(agent, alone);
  const isRecorded = completed.log.signals.some(({ reason }) => reason.code === "step_limit");
  const closed =
    closing === undefined || isRecorded
      ? completed
      : addSignal(agent, completed, toLastStepSignal(closing));
  const seen =
    agent.hooks.processors.length === 0 ? closed : await runStepProcessors(agent, closed);
  return agent.role.stopWhen.length === 0 ? seen : await checkConditions(agent, seen);
}

/** Records the text of a reply without calls as the typed result, if it is valid. */
function takeTextResult(agent: AgentRuntime, state: AgentState): AgentState {
  const { step } = state;
  const { output } = agent.role;
  if (output === undefined || step?.reply === undefined || !isWholeReply(step)) return state;
  const { text, toolCalls } = step.reply.message;
  if (toolCalls.length > 0) return state;
  const parsed = parseTextResult(agent, text);
  // A provider may pause a turn in the middle of its JSON.
  const turn = parsed?.type === "valid" ? text : getLastText(state);
  const result = turn === text ? parsed : parseTextResult(agent, turn);
  return result?.type === "valid" ? recordOutput(state, createParsedOutput(output, result)) : state;
}

/**
 * Shortens the history after the model refused it as too long. Fails if there is nothing to remove.
 */
async function shortenHistory(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { compact } = await import("./compact.ts");
  const shorter = await compact(agent, state);
  const error = state.step?.error;
  const isSame = shorter.conversation.messages === state.conversation.messages;
  return isSame && error !== undefined && !agent.isEnding
    ? failWith(agent, shorter, error)
    : shorter;
}

/** The signal of an answer after stop hooks have used all their continuations. */
const OVERRULED: StopSignal = deepFreeze({
  source: "loop",
  reason: {
    code: "completed",
    message: `The agent gave its answer. Stop hooks used all ${MAX_VETOES} continuations and were not called again.`,
    data: { vetoes: MAX_VETOES, maximum: MAX_VETOES },
  },
});

/** Fails if a round took no step and has no signal, because such a loop would never end. */
function failIfStalled(agent: AgentRuntime, state: AgentState): AgentState {
  if (state.log.signals.length > 0) return state;
  const message =
    "A round of the loop took no step and returned no reason. This is a bug in espalier.";
  return fail(agent, state, new EspalierError({ code: "internal_error", message }));
}

/** True for a step that an error or a stop ended before all its calls were executed. */
function isInterruptedStep({ error, tools }: StepRecord): boolean {
  return (
    error !== undefined ||
    tools.executions.some(
      ({ errorCode }) => errorCode === "not_executed" || errorCode === "cancelled",
    )
  );
}

/**
 * Runs the processors one after the other. The first that throws fails the execution. The step
 * remains complete.
 */
async function runStepProcessors(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { processors } = agent.hooks;
  const step = state.log.steps.at(-1);
  if (step === undefined || isInterruptedStep(step) || agent.isEnding) return state;
  const bounds = createHookBounds(agent, step.number);
  const work = () => runProcessors(processors, deepFreeze(step), bounds);
  const outcome = await runUserCode(agent, work, { stepId: step.stepId });
  return outcome.type === "failed" ? failWith(agent, state, outcome.error) : state;
}

/**
 * Raises the stop signal, unless a stop hook vetoes an answer. Limits, errors, conditions and
 * cancellation cannot be vetoed. Overshoots precede the signal, because the replies came first.
 * `settle` lists the overshoots of subagents that end later.
 */
async function stop(
  agent: AgentRuntime,
  state: AgentState,
  requested: StopSignal,
): Promise<AgentState> {
  const { vetoes, steps, output } = state.log;
  const isAnswer = requested.reason.code === "completed";
  const mayVeto = isAnswer && vetoes < MAX_VETOES;
  const signal = isAnswer && !mayVeto ? OVERRULED : requested;
  const point = agent.identity.depth === 0 ? "stop" : "subagentStop";
  const isHooked = mayVeto && agent.hooks.points.has(point);
  const hooked = isHooked
    ? await consultHooks(agent, {
        point,
        stepNumber: steps.length,
        position: getEventPosition(state),
        input: { text: getLastText(state), output, steps, isActive: vetoes > 0, vetoes },
      })
    : undefined;
  if (hooked?.type === "failed") return failWith(agent, state, hooked.error);
  const chain = hooked?.type === "returned" ? hooked.value : undefined;
  if (chain?.patch.continueWith === undefined)
    return addSignal(agent, recordOvershoots(agent, state), signal);
  const message = createUserMessage(chain.patch.continueWith, "notice");
  const vetoed = recordVeto(recordOutput(state, {}), message);
  const by = chain.changedBy.at(-1)?.hook;
  recordContinuation(agent, vetoed, { type: "continue", work: ["veto"] }, by);
  return vetoed;
}

function describeMiss(
  agent: AgentRuntime,
  state: AgentState,
): ReturnType<StepFacts["describeMiss"]> {
  const rejected = state.log.steps.slice(-1).flatMap(listRejectedResults).at(-1);
  const problems = listResultProblems(agent, getLastText(state), rejected);
  const isNative = agent.nativeOutputSchema !== undefined;
  return { way: isNative ? "answer" : `call ${FINISH_TOOL_NAME}`, problems };
}

/** Adds a notice that tells the model why its result is missing or invalid. */
function remind(agent: AgentRuntime, state: AgentState): AgentState {
  const isTextOnly = state.log.uselessReplies === 0 && agent.role.hasOutput;
  if (!isTextOnly) return state;
  return addMessages(state, [
    createUserMessage(describeMissingResult(agent, getLastText(state)), "notice"),
  ]);
}

function describeMissingResult(agent: AgentRuntime, lastText: string): string {
  const result = parseTextResult(agent, lastText);
  const isNative = agent.nativeOutputSchema !== undefined;
  if (result?.type === "invalid")
    return [
      "You have not given your result yet: the JSON in your text does not fit its schema:",
      ...describeProblemLines("the result", result.problems).map((line) => `- ${line}`),
      isNative
        ? "Answer with the corrected result as JSON only."
        : `Call the ${FINISH_TOOL_NAME} tool with the corrected result.`,
    ].join("\n");
  if (isNative)
    return "You have not given your result yet. Answer with the result as JSON only, following its schema.";
  return isTextResultAccepted(agent)
    ? `You have not given your result yet: your text is not the result as JSON. Call the ${FINISH_TOOL_NAME} tool with the result.`
    : `You have not given your result yet. Call the ${FINISH_TOOL_NAME} tool with the result; text is not accepted.`;
}

/**
 * Records the decision and the work that requires another step. The decision to stop is recorded
 * once, at the end of the execution.
 */
function recordContinuation(
  agent: AgentRuntime,
  state: AgentState,
  outcome: Extract<StepOutcome, { readonly type: "continue" | "retry" | "compact" }>,
  vetoedBy?: string,
): void {
  if (agent.run.recorder.countUnread("continuation.evaluated")) return;
  const { signals } = state.log;
  const work = outcome.type === "compact" ? (["overflow"] as const) : outcome.work;
  const vetoed = vetoedBy === undefined ? {} : { vetoedBy };
  const body = { decision: outcome.type, work, ...vetoed, signals };
  agent.record({ type: "continuation.evaluated", ...body }, getEventPosition(state));
}
