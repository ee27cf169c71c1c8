// Stop conditions: the user's functions, asked before the first step and after every step. What they say becomes signals.

import { z } from "zod";

import { runTimed } from "../kernel/cancel.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";
import { StopReasonSchema, type StopReason } from "../protocol/stop.ts";
import type { StopCondition, StopFacts } from "../policies/stop-conditions.ts";
import type { AgentContext } from "./agent-context.ts";
import type { AgentState } from "./agent-state.ts";
import { failWith, raise } from "./life-cycle.ts";

const AnswerSchema = z.union([StopReasonSchema, z.array(StopReasonSchema)]).optional();

/** Asks all of them at once, and raises what they give in the order of the role's list. One that breaks fails the execution (R62). */
export async function askConditions(agent: AgentContext, state: AgentState): Promise<AgentState> {
  const { stopWhen } = agent.role;
  if (stopWhen.length === 0 || agent.isEnding) return state;
  const { effects } = agent;
  const stepNumber = state.log.steps.length;
  const facts = factsOf(agent, state);
  const said = await effects.join(
    stopWhen.map((condition, index) =>
      effects.consult(`condition.${stepNumber}.${index}`, () =>
        ask(agent, condition, index, facts),
      ),
    ),
  );
  return said.reduce<AgentState>((current, consulted, index) => {
    if (consulted.type === "cancelled") return current;
    if (consulted.type === "failed") return failWith(agent, current, consulted.error);
    const name = conditionName(agent, index);
    return consulted.value.reduce<AgentState>(
      (raised, reason) => raise(agent, raised, { source: "stop_condition", name, reason }),
      current,
    );
  }, state);
}

function factsOf(agent: AgentContext, state: AgentState): StopFacts {
  const { steps } = state.log;
  const { usage, startedAtMs } = state.telemetry;
  const nowMs = agent.effects.nowMs();
  const elapsedMs = Math.max(0, nowMs - (startedAtMs ?? nowMs) - agent.pausedMs());
  return Object.freeze({ steps, usage, elapsedMs });
}

async function ask(
  agent: AgentContext,
  condition: StopCondition,
  index: number,
  facts: StopFacts,
): Promise<readonly StopReason[]> {
  const name = conditionName(agent, index);
  try {
    const answer = condition(facts);
    const given: unknown = isPromise(answer) ? await inTime(agent, answer) : answer;
    const parsed = AnswerSchema.safeParse(given);
    if (!parsed.success)
      throw new TypeError(`it gave something else (${z.prettifyError(parsed.error)})`);
    if (parsed.data === undefined) return [];
    return Array.isArray(parsed.data) ? parsed.data : [parsed.data];
  } catch (cause) {
    const field = `${agent.role.name}.stopWhen[${index}]`;
    throw new EspalierError({
      code: "condition_failed",
      message: `Expected ${field} (${name}) to give a reason with code, message and data, several, or nothing, but: ${messageOf(cause)}.`,
      data: { field, name },
      cause,
    });
  }
}

async function inTime(agent: AgentContext, answer: PromiseLike<unknown>): Promise<unknown> {
  const outcome = await runTimed(() => answer, agent.conditionBounds);
  if (outcome.type === "threw") throw outcome.error;
  if (outcome.type === "returned") return outcome.value;
  throw new Error("it did not answer in time");
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value;
}

/** The name of its function, or its place in the role's list (R87). */
function conditionName({ role }: AgentContext, index: number): string {
  const name = role.stopWhen[index]?.name ?? "";
  return name === "" ? `${role.name}.stopWhen[${index}]` : name;
}
