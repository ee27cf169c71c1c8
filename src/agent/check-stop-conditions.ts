// Calls the stop conditions of a role before the first step and after every step, and turns their
// answers into signals.

import { z } from "zod";

import { isPromiseLike, runUntilTimeout } from "../kernel/cancel-signal.ts";
import { describeReceived } from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { deepFreeze, isRecord } from "../kernel/json.ts";
import { PAUSE_CODES, StopReasonSchema, type StopReason } from "../protocol/stop.ts";
import {
  evaluateCondition,
  type Check,
  type StopCondition,
  type StopContext,
} from "../policies/stop-conditions.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { runUserCode } from "./run-user-code.ts";
import { failWith, addSignal } from "./stop-requests.ts";
import { getEventPosition, type AgentState, type FiredParts } from "./agent-state.ts";
import { computeElapsedMs } from "./life-cycle.ts";
import { recordFired } from "./transition.ts";

/**
 * Calls all conditions at once and raises their reasons in the order of the role's list. A
 * condition that throws fails the execution.
 */
export async function checkConditions(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { stopWhen } = agent.role;
  const { fired = {} } = state.log;
  if (stopWhen.length === 0 || agent.isEnding) return state;
  const facts = readStopFacts(agent, state);
  const position = getEventPosition(state);
  const answers = await Promise.all(
    stopWhen.map((condition, index) =>
      runUserCode(agent, () => askOne(agent, condition, index, { facts, fired }), position),
    ),
  );
  return answers.reduce<AgentState>((current, consulted, index) => {
    if (consulted.type === "cancelled") return current;
    if (consulted.type === "failed") return failWith(agent, current, consulted.error);
    const name = getConditionName(agent, index);
    const { reasons, firing } = consulted.value;
    const hasFired = Object.keys(firing).length > 0;
    return reasons.reduce<AgentState>(
      (raised, reason) => addSignal(agent, raised, { source: "stop_condition", reason, name }),
      hasFired ? recordFired(current, firing) : current,
    );
  }, state);
}

function readStopFacts(agent: AgentRuntime, state: AgentState): StopContext {
  const steps = deepFreeze(state.log.steps);
  const usage = deepFreeze(state.telemetry.usage);
  const elapsedMs = computeElapsedMs(agent, state, agent.run.clock.nowMs());
  // The context belongs to the user and is never frozen.
  const { context } = agent.run;
  return Object.freeze({ steps, usage, elapsedMs, context });
}

async function askOne(
  agent: AgentRuntime,
  condition: StopCondition,
  index: number,
  { facts, fired }: Pick<Check, "facts" | "fired">,
): Promise<{ readonly reasons: readonly StopReason[]; readonly firing: FiredParts }> {
  const name = getConditionName(agent, index);
  const firing = new Map<string, readonly StopReason[]>();
  try {
    const answer = evaluateCondition(condition, { facts, place: `${index}`, fired, firing });
    const returned: unknown = isPromiseLike(answer)
      ? await runUntilTimeout(() => answer, agent.bounds)
      : answer;
    return { reasons: readReasons(returned), firing: Object.fromEntries(firing) };
  } catch (cause) {
    const field = `${agent.role.name}.stopWhen[${index}]`;
    throw new EspalierError({
      code: "stop_condition_failed",
      message: `Expected ${field} (${name}) to return a reason with code and message, an array of reasons, or undefined, but: ${getErrorMessage(cause)}.`,
      data: { field, condition: name },
      cause,
    });
  }
}

/** Codes that only the loop may raise. */
const RESERVED: ReadonlySet<string> = new Set(["error", "cancelled", "completed", ...PAUSE_CODES]);

function readReasons(returned: unknown): readonly StopReason[] {
  if (returned === undefined) return [];
  const list: readonly unknown[] = Array.isArray(returned) ? returned : [returned];
  return list.map((item) => {
    if (!isRecord(item)) throw new TypeError(`it returned ${describeReceived(item)}`);
    const parsed = StopReasonSchema().safeParse(item);
    if (!parsed.success)
      throw new TypeError(`its reason is invalid: ${z.prettifyError(parsed.error)}`);
    const { code } = parsed.data;
    if (RESERVED.has(code)) throw new TypeError(`the code "${code}" is reserved`);
    return parsed.data;
  });
}

/** Returns the name of the condition's function, or its position in the role's list. */
function getConditionName({ role }: AgentRuntime, index: number): string {
  const name = role.stopWhen[index]?.name ?? "";
  return name === "" ? `${role.name}.stopWhen[${index}]` : name;
}
