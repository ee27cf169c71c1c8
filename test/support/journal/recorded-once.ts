// Checks the events of a run that died and was recovered: one story, numbered without gaps, in
// which nothing happens twice (E3).

import { expect } from "vitest";

import type { EspalierEvent } from "../../../src/protocol/event.ts";

/** Checks the events of a journal, from the first to the last. */
export function checkRecordedOnce(events: readonly EspalierEvent[]): void {
  expect(
    events.map(({ seq }) => seq),
    "E1: numbered without gaps",
  ).toEqual(events.map((_event, index) => index + 1));
  expect(twice(events.flatMap(factOf)), "E3: told once").toEqual([]);
  checkEnds(events);
  checkLeases(events);
}

function checkEnds(events: readonly EspalierEvent[]): void {
  const ended = new Set<string>();
  const living = new Map<string, string>();
  for (const event of events) {
    const { type, executionId } = event;
    if (type === "run.resumed" && event.recovery !== undefined) continue;
    if (executionId === null) continue;
    expect(ended.has(executionId), `L2: ${type} after the end of ${executionId}`).toBe(false);
    if (type === "agent.started") living.set(executionId, event.agentId);
    if (type !== "agent.ended") continue;
    ended.add(executionId);
    expect(living.delete(executionId), "who ends has begun").toBe(true);
  }
  expect([...living], "L2: every execution ends").toEqual([]);
  expect(events.at(-1)?.type).toBe("run.ended");
}

/** B2: each lease is settled or released, once. */
function checkLeases(events: readonly EspalierEvent[]): void {
  const given = events.flatMap((event) =>
    event.type === "budget.reserved" ? [event.leaseId] : [],
  );
  const closed = events.flatMap((event) =>
    event.type === "budget.settled" || event.type === "budget.released" ? [event.leaseId] : [],
  );
  expect(closed.toSorted(), "B2: each lease is settled or released once").toEqual(given.toSorted());
}

/** Returns the facts of an event that may occur only once. */
function factOf(event: EspalierEvent): readonly string[] {
  const { type, executionId, stepId, callId } = event;
  switch (event.type) {
    case "run.started":
      return [type];
    case "agent.started":
    case "agent.ended":
      return [`${type} ${executionId}`];
    case "subagent.spawned":
      return [`${type} ${event.childId}`];
    case "subagent.continued":
      return [`${type} ${event.childId} ${event.execution}`];
    case "step.started":
    case "step.completed":
      return [`${type} ${stepId}`];
    case "tool.ended":
      return [`${type} ${stepId} ${callId}`];
    case "budget.reserved":
    case "budget.settled":
    case "budget.released":
      return [`${type} ${event.leaseId}`];
    case "question.answered":
      return [`${type} ${event.questionId}`];
    default:
      return [];
  }
}

function twice(facts: readonly string[]): readonly string[] {
  const known = new Set<string>();
  return facts.filter((fact) => {
    const isKnown = known.has(fact);
    known.add(fact);
    return isKnown;
  });
}

/**
 * Returns the events of a run without details that depend on when its processes died: in any order,
 * the same for each story of a run.
 */
export function recordedLines(events: readonly EspalierEvent[]): readonly string[] {
  return events
    .flatMap((event) => {
      const told = toldOf(event);
      return told === undefined ? [] : [`${event.agentPath} ${event.type} ${told.join(" ")}`];
    })
    .toSorted();
}

function toldOf(event: EspalierEvent): readonly unknown[] | undefined {
  switch (event.type) {
    case "agent.started":
    case "run.started":
      return [event.task];
    case "agent.ended":
      return [event.status, event.reason.code, event.stepCount];
    case "run.ended":
      return [event.status, event.reason.code];
    case "subagent.spawned":
      return [event.childPath, event.task, event.isBackground];
    case "subagent.continued":
      return [event.childPath, event.task, event.execution];
    case "subagent.ended":
      return [event.childPath, event.outcome];
    case "subagent.refused":
      return [event.role, event.error.code];
    case "subagent.detached":
      return [event.childPath];
    case "step.started":
    case "step.completed":
      return [event.number];
    case "tool.ended":
      return [event.toolName, event.callId, event.outcome];
    case "message.delivered":
      return [event.origin];
    case "conversation.compacted":
      return [event.messagesBefore, event.messagesAfter];
    case "signal.raised":
      return [event.signal.reason.code];
    case "question.answered":
      return [event.toolName, event.callId, event.answer, event.source, event.by];
    case "continuation.evaluated":
      return [event.decision, event.work.join()];
    case "hook.applied":
      return [event.point, event.callId];
    case "result.summarized":
      return [event.toolName, event.callId];
    case "budget.granted":
      return [event.by];
    default:
      return undefined;
  }
}
