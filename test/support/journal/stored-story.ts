// The outcome of a run by its journal: its events, and how its agents ended.

import { expect } from "vitest";

import { getLastText } from "../../../src/agent/agent-state.ts";
import type { JournalRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type {
  RestoredAgent,
  RestoredRun,
} from "../../../src/orchestrator/durability/restored-run.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { toPublicAccount } from "../../../src/policies/budget.ts";
import { addUsage, NO_USAGE, subtractUsage, type Usage } from "../../../src/protocol/usage.ts";

/** How agents ended, without their ids, and what they used besides lost calls. */
export type Ends = readonly {
  readonly path: string;
  readonly ended: readonly unknown[];
  readonly steps: readonly unknown[];
  readonly messages: readonly string[];
  readonly own: Usage;
}[];

/** Returns the events among records. */
export function eventsIn(records: readonly JournalRecord[]): readonly EspalierEvent[] {
  return records.flatMap((record) =>
    record.type === "event" && isEvent(record.event) ? [record.event] : [],
  );
}

function isEvent(value: unknown): value is EspalierEvent {
  return typeof value === "object" && value !== null && "seq" in value;
}

/** Returns the calls that have an end in the journal, by their idempotency keys. */
export function settledCalls(records: readonly JournalRecord[]): ReadonlySet<string> {
  const ended = eventsIn(records).filter(({ type }) => type === "tool.ended");
  return new Set(ended.map(idempotencyKeyOf));
}

/** Returns the key of the tool call that an event is about. */
export function idempotencyKeyOf({ runId, stepId, callId }: EspalierEvent): string {
  return `${runId}/${stepId}/${callId}`;
}

/** Expects the journal to have what the process returned. */
export function checkKept(result: RunResult, run: RestoredRun): void {
  expect(run.accounts.map(toPublicAccount)).toEqual(result.accounts);
  expect(run.refusalsByCode).toEqual(result.refusalsByCode);
  expect(
    run.agents.map((agent) => [agent.agentPath, agent.state.status, getLastText(agent.state)]),
  ).toEqual(result.agents.map(({ agentPath, status, text }) => [agentPath, status, text]));
  expect(run.agents.map(({ task, execution }) => [task, execution])).toEqual(
    result.agents.map(({ task, executionCount: executions }) => [task, executions]),
  );
}

/** Returns how agents ended, by the journal. */
export function endsOf({ agents, accounts }: RestoredRun, events: readonly EspalierEvent[]): Ends {
  const lost = new Map<string, Usage>();
  for (const event of events)
    if (event.type === "budget.settled" && event.executionId === null)
      lost.set(event.agentId, addUsage(lost.get(event.agentId) ?? NO_USAGE, event.usage));
  return agents
    .map((agent) => ({
      path: agent.agentPath,
      ended: [
        agent.state.status,
        "reason" in agent.state ? agent.state.reason.code : "",
        withoutTotals(getLastText(agent.state)),
        agent.execution,
        agent.task,
        agent.isDetached,
        agents.filter(({ parentAgentId }) => parentAgentId === agent.agentId).length,
      ],
      steps: stepsOf(agent),
      messages: agent.state.conversation.messages.map(
        ({ role, text }) => `${role}: ${withoutTotals(text)}`,
      ),
      own: subtractUsage(
        accounts.find(({ agentId }) => agentId === agent.agentId)?.own ?? NO_USAGE,
        lost.get(agent.agentId) ?? NO_USAGE,
      ),
    }))
    .toSorted((left, right) => (left.path < right.path ? -1 : 1));
}

/** Removes totals, since the estimated usage of a lost call is reported to parents, too. */
function withoutTotals(text: string): string {
  return text.replaceAll(/"totalTokens":\d+/gu, "");
}

function stepsOf({ state }: RestoredAgent): readonly unknown[] {
  return state.log.steps.map(({ number, io, tools }) => [
    number,
    withoutTotals(io.text),
    tools.executions.map(({ call, type, errorCode }) => [call.toolName, type, errorCode]),
  ]);
}
