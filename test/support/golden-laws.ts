// Laws of state transitions and of serialisation, as checks of any implementation.

import { expect } from "vitest";

import {
  AgentSnapshotSchema,
  type toSnapshot,
  type AgentSnapshot,
} from "../../src/agent/agent-snapshot.ts";
import { omitUndefined } from "../../src/kernel/json.ts";
import type { AgentState, SettledState } from "../../src/agent/agent-state.ts";
import { changes, executionOf, settledState, states, twoCalls, type Change } from "./changes.ts";
import { unfrozenParts } from "./frozen.ts";

type Move = (state: AgentState, change: Change) => AgentState;
type StateName = keyof ReturnType<typeof states>;
type ChangeType = Change["type"];

/**
 * Changes that only some states allow, with these states. All others are allowed during an
 * execution or within a step.
 */
const ALLOWED: Partial<Record<ChangeType, readonly StateName[]>> = {
  markStarted: ["pending"],
  resume: ["rested", "waiting"],
  nextExecution: ["completed", "stopped", "failed", "cancelled"],
  applyToolResults: ["spoken", "discarded", "answered"],
  end: ["running", "briefed", "stepped"],
  openStep: ["running", "briefed", "stepped"],
};

/**
 * Throws unless transitions follow the table, change only their own fields, return frozen values
 * and leave previous states unchanged.
 */
export function checkTransitions(move: Move): void {
  checkTable(move);
  checkStep(move);
  checkRest(move);
}

function checkTable(move: Move): void {
  const all = changes();
  for (const [type, allowed] of Object.entries(ALLOWED)) {
    for (const [name, state] of Object.entries(states())) {
      const change = Object.values(all).find((one) => one.type === type);
      if (change === undefined) throw new Error(`There is no change ${type}.`);
      const before = structuredClone(state);
      const next = attempt(move, state, change);
      expect(next !== undefined, `${type} in ${name}`).toBe(allowed.some((one) => one === name));
      expect(state, `${type} leaves ${name} alone`).toEqual(before);
      expect(unfrozenParts(next), `${type} in ${name} gives a frozen state`).toEqual([]);
    }
  }
}

function attempt(move: Move, state: AgentState, change: Change): AgentState | undefined {
  try {
    return move(state, change);
  } catch {
    return undefined;
  }
}

/** Returns a result for every call, in call order, and then a record of the step (L3, L4). */
function checkStep(move: Move): void {
  const { replied } = states();
  const [first, second] = twoCalls();
  const later = move(replied, {
    type: "recordExecutions",
    executions: [executionOf(second)],
    deferrals: [],
  });
  const complete = move(later, {
    type: "recordExecutions",
    executions: [executionOf(first)],
    deferrals: [],
  });
  const applied = move(complete, changes().applyToolResults);
  const added = applied.conversation.messages.slice(replied.conversation.messages.length);
  expect(added.map((message) => (message.role === "tool" ? message.callId : message.role))).toEqual(
    [first.callId, second.callId],
  );
  const stepped = move(applied, changes().recordStep);
  expect(stepped.log.steps.map(({ tools }) => tools.executions)).toEqual([
    [executionOf(first), executionOf(second)],
  ]);
  const signalled = move(stepped, changes().addSignal);
  expect(signalled.log.signals).toEqual([...stepped.log.signals, changes().addSignal.signal]);
}

/**
 * A pause preserves everything. An end preserves everything and adds its reason and time. The next
 * execution starts empty over the same history.
 */
function checkRest(move: Move): void {
  const { deferred, stepped } = states();
  const paused = move(deferred, changes().pause);
  expect(move(paused, changes().resume)).toEqual(deferred);
  const { end, nextExecution } = changes();
  const ended = move(stepped, end);
  expect([ended.status, ended.log, ended.conversation]).toEqual([
    end.status,
    stepped.log,
    stepped.conversation,
  ]);
  const next = move(ended, nextExecution);
  expect([next.status, next.log.steps, next.log.signals, next.conversation.messages]).toEqual([
    "pending",
    [],
    [],
    [...ended.conversation.messages, ...nextExecution.messages],
  ]);
}

/** The two ways between a state and its JSON. */
export interface Serialiser {
  readonly snapshotOf: typeof toSnapshot;
  readonly stateOf: (snapshot: AgentSnapshot) => SettledState;
}

/**
 * Throws unless every inactive state is restored from its JSON: equal, frozen, without transient
 * parts, and without altering its source.
 */
export function checkSerialisation({ snapshotOf, stateOf }: Serialiser): void {
  for (const [name, state] of restingStates()) {
    const before = structuredClone(state);
    const snapshot = snapshotOf(state);
    const text = JSON.stringify(snapshot);
    expect(JSON.parse(text), `${name} is JSON`).toEqual(snapshot);
    const back = stateOf(AgentSnapshotSchema().parse(JSON.parse(text)));
    expect(back, `${name} comes back`).toEqual(withoutTransient(state));
    expect(JSON.stringify(snapshotOf(back)), `${name} keeps its form`).toBe(text);
    expect(unfrozenParts(back), `${name} comes back frozen`).toEqual([]);
    expect(state, `${name} is left alone`).toEqual(before);
  }
}

function restingStates(): readonly (readonly [string, SettledState])[] {
  const { waiting, rested, completed, stopped, failed, cancelled } = states();
  const plain = { waiting, rested, completed, stopped, failed, cancelled };
  return Object.entries(plain).map(([name, state]) => {
    const { recordSubtasks, recordOutput } = changes();
    const log = {
      ...state.log,
      subtasks: recordSubtasks.subtasks,
      ...recordOutputOf(recordOutput),
    };
    return [name, settledState({ ...state, log })] as const;
  });
}

function recordOutputOf({
  output,
  outputParse,
}: Extract<Change, { readonly type: "recordOutput" }>) {
  return { output, ...omitUndefined({ outputParse }), uselessReplies: 1, overflows: 1, vetoes: 2 };
}

function withoutTransient(state: SettledState): SettledState {
  if (state.status !== "paused" || state.step === undefined) return state;
  return { ...state, step: { ...state.step, error: undefined } };
}
