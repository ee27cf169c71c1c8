// Goal: no type of event is forgotten by the fold. Method: a hand-written run with every type of event; what each changes is seen in all that
// a fold says.

import { expect } from "vitest";

import { EVENT_TYPES, type EspalierEvent, type EventType } from "../../src/protocol/event.ts";
import { RunIdSchema } from "../../src/protocol/ids.ts";
import { createAgentDetail } from "../../src/view/agent-row.ts";
import { RunFold } from "../../src/view/run-fold.ts";
import { proves } from "../harness/proves.ts";
import { sampleEvents } from "../support/sample-events.ts";
import { tellEverything } from "../telemetry/tell-everything.ts";
import { foldOf } from "./fold-of.ts";

/** Nothing that is shown of a run follows from them. */
const CHANGE_NOTHING: readonly EventType[] = [
  "budget.threshold_reached",
  "continuation.evaluated",
  "conversation.compacted",
  "hook.applied",
  "message.delivered",
  "model.warned",
  "reply.filtered",
  "request.repaired",
  "result.summarized",
  "section.cleared",
  "signal.raised",
  "subagent.detached",
  "subagent.ended",
  "tool.guarded",
  "tool.progressed",
  "tools.filtered",
];

proves(["V22"], "each type of event is folded, or is known to change nothing", () => {
  const events = sampleEvents(tellEverything);
  const [first] = events;
  if (first === undefined) throw new Error("Expected events.");
  const fold = new RunFold(first.runId);
  const changing = new Set<EventType>();
  for (const event of events) {
    const before = shown(fold);
    fold.apply(event, event.seq);
    if (shown(fold) !== before) changing.add(event.type);
  }
  // What an event says may be seen with a later one.
  const without = (type: EventType): string =>
    shown(foldOf(events.filter((event) => event.type !== type)));
  const idle = EVENT_TYPES.filter((type) => !changing.has(type) && without(type) === shown(fold));
  expect(idle.toSorted()).toEqual(CHANGE_NOTHING);
});

proves(
  ["V22"],
  "what is not known, not of this run or before its beginning changes nothing",
  () => {
    const events = sampleEvents(tellEverything);
    const [first, second] = events;
    if (first === undefined || second === undefined) throw new Error("Expected events.");
    const fold = foldOf(events.slice(0, 20));
    const before = shown(fold);
    const another = RunIdSchema().parse("run_9");
    for (const event of events.slice(20)) fold.apply({ ...event, runId: another }, event.seq);
    // A later release says more.
    const unknown: unknown = { ...first, type: "toString", executionId: null };
    if (isEvent(unknown)) fold.apply(unknown, 99);
    expect([shown(fold), fold.record]).toEqual([before, 99]);

    const late = new RunFold(first.runId);
    for (const event of events.slice(1, 8)) late.apply(event, event.seq);
    expect([late.startedAtMs, late.agents]).toEqual([undefined, []]);

    const rootless = new RunFold(first.runId);
    rootless.apply(first, 1);
    for (const event of events)
      if (event.type !== "agent.started") rootless.apply(event, event.seq);
    expect(rootless.agents.map(({ agentPath }) => agentPath)).toEqual(["lead", "lead/reader#1"]);
  },
);

function isEvent(value: unknown): value is EspalierEvent {
  return typeof value === "object" && value !== null && "type" in value;
}

/** All that a fold says, but for the time. */
function shown(fold: RunFold): string {
  const { record: _record, run, ...rest } = fold.snapshot();
  const { lastAtMs: _last, durationMs: _duration, idleMs: _rest, ...facts } = run;
  const details = fold.agents.map((agent) => createAgentDetail(agent, fold.refusals));
  const calls = fold.agents.map(({ openCalls, retry }) => [openCalls, retry]);
  return JSON.stringify({ ...rest, facts, details, calls });
}
