// Goal: the fold handles every type of event.
// Method: a hand-written run with every type of event; compare the whole output of the fold before
// and after each.

import { expect } from "vitest";

import { EVENT_TYPES, type EspalierEvent, type EventType } from "../../src/protocol/event.ts";
import { RunIdSchema } from "../../src/protocol/ids.ts";
import { createAgentDetail } from "../../src/read-model/agent-row.ts";
import { RunFold } from "../../src/read-model/run-fold.ts";
import { proves } from "../harness/proves.ts";
import { sampleEvents } from "../support/sample-events.ts";
import { tellEverything } from "../support/telemetry/tell-everything.ts";
import { foldOf } from "../support/read-model/fold-of.ts";

/** Events that change nothing in the view of a run. */
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

proves(["V22"], "folds each type of event, or lists it as changing nothing", () => {
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
  // The content of an event may become visible with a later event.
  const without = (type: EventType): string =>
    shown(foldOf(events.filter((event) => event.type !== type)));
  const idle = EVENT_TYPES.filter((type) => !changing.has(type) && without(type) === shown(fold));
  expect(idle.toSorted()).toEqual(CHANGE_NOTHING);
});

proves(
  ["V22"],
  "ignores unknown events, events of other runs and events before the beginning",
  () => {
    const events = sampleEvents(tellEverything);
    const [first, second] = events;
    if (first === undefined || second === undefined) throw new Error("Expected events.");
    const fold = foldOf(events.slice(0, 20));
    const before = shown(fold);
    const another = RunIdSchema().parse("run_9");
    for (const event of events.slice(20)) fold.apply({ ...event, runId: another }, event.seq);
    // A later release may add fields.
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

/** Returns the whole output of a fold except the current time. */
function shown(fold: RunFold): string {
  const { record: _record, run, ...rest } = fold.snapshot();
  const { lastAtMs: _last, durationMs: _duration, idleMs: _rest, ...facts } = run;
  const details = fold.agents.map((agent) => createAgentDetail(agent, fold.refusals));
  const calls = fold.agents.map(({ openCalls, retry }) => [openCalls, retry]);
  return JSON.stringify({ ...rest, facts, details, calls });
}
