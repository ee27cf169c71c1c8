// decide: go on if there is work, else end. Stop conditions are asked here, and only here.

import { z } from "zod";

import { EspalierError, messageOf } from "../../kernel/error.ts";
import type { StepRecord } from "../../protocol/step-record.ts";
import { StopReasonSchema, type StopReason, type StopSignal } from "../../protocol/stop.ts";
import { winningSignal } from "../../policies/stop-signals.ts";
import type { AgentContext } from "../agent-context.ts";
import type { AgentState } from "../agent-state.ts";
import { completeStep, eventPlace, fail, raise } from "../life-cycle.ts";
import { transition } from "../transition.ts";
import { FINISH_TOOL_NAME } from "../finish-tool.ts";

/** Empty replies in a row that are forgiven. */
const MAX_EMPTY_REPLIES = 1;
/** Times that an agent with a typed result may miss it: by a text instead, or by arguments that do not fit. */
const MAX_MISSED_OUTPUTS = 2;

/** Completes the step and collects its signals. Without any, the presence of work decides (C7): calls mean another step, none means the end. */
export function decide(agent: AgentContext, state: AgentState): AgentState {
  const completed = completeStep(agent, state);
  const last = completed === state ? undefined : completed.log.steps.at(-1);
  const asked = last === undefined ? stalled(agent, completed) : askConditions(agent, completed);
  const decided =
    last === undefined || asked.log.signals.length > 0 ? asked : goOnOrEnd(agent, asked, last);
  const { signals } = decided.log;
  const winner = winningSignal(signals)?.reason;
  const outcome =
    winner === undefined
      ? ({ decision: "continue" } as const)
      : ({ decision: "stop", winner } as const);
  agent.record({ type: "continuation.evaluated", signals, ...outcome }, eventPlace(decided));
  return decided;
}

/** A pass without a step has a signal to say why. If not, something is broken, and going on would never end. */
function stalled(agent: AgentContext, state: AgentState): AgentState {
  if (state.log.signals.length > 0) return state;
  const message = "A pass of the loop took no step and gave no reason. This is a bug in espalier.";
  return fail(agent, state, new EspalierError({ code: "internal_error", message }));
}

function askConditions(agent: AgentContext, state: AgentState): AgentState {
  const { steps } = state.log;
  const { usage, startedAtMs } = state.telemetry;
  const nowMs = agent.effects.nowMs();
  const facts = { steps, usage, elapsedMs: nowMs - (startedAtMs ?? nowMs) };
  return agent.role.stopWhen.reduce<AgentState>((current, condition, index) => {
    try {
      const reason = reasonOf(condition(facts));
      return reason === undefined
        ? current
        : raise(agent, current, { source: "stop_condition", reason });
    } catch (cause) {
      return fail(agent, current, conditionFailed(`${agent.role.name}.stopWhen[${index}]`, cause));
    }
  }, state);
}

function reasonOf(given: unknown): StopReason | undefined {
  if (given instanceof Promise) {
    given.catch(() => undefined); // It is refused as it is; what becomes of it is nobody's business.
    throw new TypeError("it returned a promise");
  }
  const parsed = StopReasonSchema.optional().safeParse(given);
  if (parsed.success) return parsed.data;
  throw new TypeError(`it returned something else (${z.prettifyError(parsed.error)})`);
}

function conditionFailed(field: string, cause: unknown): EspalierError {
  return new EspalierError({
    code: "condition_failed",
    message: `Expected ${field} to return at once a reason with code, message and data, or nothing, but: ${messageOf(cause)}.`,
    data: { field },
    cause,
  });
}

function goOnOrEnd(agent: AgentContext, state: AgentState, last: StepRecord): AgentState {
  if (state.log.output !== undefined) return raise(agent, state, COMPLETED);
  if (missedOutputs(agent, state) > MAX_MISSED_OUTPUTS) return fail(agent, state, noOutput(agent));
  if (last.tools.calls.length > 0) return state;
  const cutOff = cutOffReason(last);
  if (cutOff !== undefined) return raise(agent, state, { source: "model", reason: cutOff });
  if (last.io.text === "") {
    return state.log.emptyReplies > MAX_EMPTY_REPLIES
      ? fail(agent, state, nothingSaid(agent, state))
      : state;
  }
  if (!agent.role.hasOutput) return raise(agent, state, COMPLETED);
  const text = `You have not given your result yet. Call the ${FINISH_TOOL_NAME} tool with it; a text is not enough.`;
  return transition(state, {
    type: "addMessage",
    message: { role: "user", text, origin: "notice" },
  });
}

const COMPLETED: StopSignal = {
  source: "loop",
  reason: { code: "completed", message: "The agent gave its answer.", data: {} },
};

/** Why a reply without calls is not an answer: it was cut off, filtered, or declined (R10). */
function cutOffReason(last: StepRecord): StopReason | undefined {
  const { finishReason, refusal } = last.io;
  if (refusal !== undefined) {
    return {
      code: "finish_reason",
      message: "The model declined to answer.",
      data: { finishReason: "refusal", refusal },
    };
  }
  if (finishReason !== "length" && finishReason !== "content_filter") return undefined;
  return {
    code: "finish_reason",
    message: `The model's reply ended early: ${finishReason}.`,
    data: { finishReason },
  };
}

function missedOutputs(agent: AgentContext, state: AgentState): number {
  if (!agent.role.hasOutput) return 0;
  const { steps } = state.log;
  const texts = steps.filter((step) => step.tools.calls.length === 0 && step.io.text !== "");
  const misfits = steps
    .flatMap((step) => step.tools.executions)
    .filter(
      (execution) => execution.call.toolName === FINISH_TOOL_NAME && execution.type === "failed",
    );
  return texts.length + misfits.length;
}

function noOutput(agent: AgentContext): EspalierError {
  return new EspalierError({
    code: "model_misbehaved",
    message: `Expected ${agent.role.model.id} to call ${FINISH_TOOL_NAME} with a result that fits, but it missed ${MAX_MISSED_OUTPUTS + 1} times. Simplify the output schema, or use a stronger model.`,
    data: { role: agent.role.name, missed: MAX_MISSED_OUTPUTS + 1 },
  });
}

function nothingSaid(agent: AgentContext, state: AgentState): EspalierError {
  const { emptyReplies } = state.log;
  return new EspalierError({
    code: "model_misbehaved",
    message: `Expected ${agent.role.model.id} to reply with text or tool calls, but ${emptyReplies} replies in a row were empty.`,
    data: { role: agent.role.name, emptyReplies },
  });
}
