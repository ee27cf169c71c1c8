// When a run continues in another trace. A trace takes so many spans, since viewers slow down beyond; a run that stays below has one.
// An agent at work when a trace is full continues in another one, with its next model call; one that begins then begins there. A further trace is
// shared by as many agents as are expected to fit into it, so that many small ones make few traces, and large ones are not torn often.

import type { OpenSpan, TraceSize } from "./open-span.ts";

/** How many spans are expected of an agent at least, as a share of a trace: 32 of 5,000. */
const SMALLEST_SHARE = 1 / 150;
const MOST_OF_A_BEGINNER = 32;

/** True if nothing further should begin in a trace. */
export function isFull({ spans }: TraceSize, maxSpans: number): boolean {
  return spans >= maxSpans;
}

/** How many spans an agent may make that continues, or begins: as many as it has made already, and some at least. */
export function expectedOf(calls: number, maxSpans: number): number {
  const least = Math.min(MOST_OF_A_BEGINNER, Math.floor(maxSpans * SMALLEST_SHARE));
  return Math.max(1, least, calls);
}

/** True if a further trace takes an agent that may make so many spans. One that holds nothing takes any. */
export function hasRoom({ spans, expected }: TraceSize, more: number, maxSpans: number): boolean {
  return spans <= 1 || spans + expected + more <= maxSpans;
}

/** An agent continues in a further trace. */
export function expectIn(trace: TraceSize, agent: OpenSpan, more: number): void {
  agent.expected = more;
  trace.expected += more;
}

/** An agent makes a call. */
export function countCall(agent: OpenSpan, trace: TraceSize): void {
  agent.calls += 1;
  if (agent.expected === 0) return;
  agent.expected -= 1;
  trace.expected -= 1;
}

/** An agent makes no further call there. */
export function expectNoMore(agent: OpenSpan): void {
  const trace = agent.onward.at(-1)?.trace ?? agent.trace;
  trace.expected -= agent.expected;
  agent.expected = 0;
}
