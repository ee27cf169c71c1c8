// Shared parts of the tool matrix: permutations, time on a grid, and the messages to a model as
// lines.

import type { ModelRequest } from "../../src/model/model.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import { flushEventLoop, type Fixture } from "../harness/run-scripted.ts";
import { goldenLines } from "./golden-lines.ts";

/** Every order of the things. */
export function ordersOf<T>(things: readonly T[]): readonly (readonly T[])[] {
  if (things.length === 0) return [[]];
  return things.flatMap((first, index) =>
    ordersOf(things.toSpliced(index, 1)).map((others) => [first, ...others]),
  );
}

/** Every sequence of so many of the things; each may be in it more than once. */
export function sequencesOf<T>(things: readonly T[], length: number): readonly (readonly T[])[] {
  if (length === 0) return [[]];
  const shorter = sequencesOf(things, length - 1);
  return shorter.flatMap((sequence) => things.map((thing) => [...sequence, thing]));
}

const MOST_ROUNDS = 1_000;

/** The result of the run. Whenever everything waits for the clock, it continues by `gridMs`. */
export async function atPace(fixture: Fixture, run: Run, gridMs: number): Promise<RunResult> {
  let isOver = false;
  const watched = run.result.then(() => {
    isOver = true;
  });
  for (let round = 0; ; round += 1) {
    if (round > MOST_ROUNDS) throw new Error("The run does not end.");
    await flushEventLoop();
    if (isOver) break;
    if (fixture.clock.pendingTimers > 0) fixture.clock.advance(gridMs);
  }
  await watched;
  return await fixture.outcome(run);
}

/** Returns the last reply as lines: its calls with their results. */
export function readings(request: ModelRequest | undefined): string {
  const messages = request?.messages ?? [];
  const made = messages.flatMap((message) =>
    message.role === "assistant" ? message.toolCalls : [],
  );
  const lines = messages.flatMap((message) => {
    if (message.role !== "tool") return [];
    const call = made.find(({ callId }) => callId === message.callId);
    const asked = `${message.callId} ${call?.toolName ?? "?"}(${call?.argumentsText ?? ""})`;
    return [`${asked}\n${indented(message.text)}`];
  });
  return `${lines.join("\n")}\n`;
}

function indented(text: string): string {
  const lines = text === "" ? ["(nothing)"] : text.split("\n");
  return lines.map((line) => `    ${line}`).join("\n");
}

/**
 * Returns the events of a run, call by call. The order of calls that continue at the same time is
 * not promised and changes with every await.
 */
export function goldenLanes(events: readonly EspalierEvent[]): string {
  const lanes = new Map<string, readonly string[]>();
  for (const event of events) {
    const line = goldenLine(event);
    const lane = line.slice(0, line.indexOf(": "));
    lanes.set(lane, [...(lanes.get(lane) ?? []), `  ${line.slice(lane.length + 2)}`]);
  }
  const names = [...lanes.keys()].toSorted((left, right) =>
    left.localeCompare(right, "en", { numeric: true }),
  );
  return names.map((name) => `${name}\n${(lanes.get(name) ?? []).join("\n")}\n`).join("");
}

/** Without its number. */
function goldenLine(event: EspalierEvent): string {
  return goldenLines([event]).trim().replace(/^\d+ /, "");
}
