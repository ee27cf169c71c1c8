// Goal: an agent that received the result of a background subagent is linked to it.
// Method: real runs over a pause and over a crash, in independent processes, and an exporter in
// memory.

import { expect } from "vitest";

import { SPAWN_TOOL_NAME, type AgentRole } from "../../../src/agent/agent-role.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { latch } from "../../../src/testing/latch.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { calls, part, spawn, until } from "../../harness/scripted-agents.ts";
import {
  recorder,
  type RecordedSpan,
  type Recorder,
} from "../../support/telemetry/recorded-spans.ts";

/** Selects the next reply by the history, so that a process that continues gives the same reply. */
const inTurn =
  (...replies: readonly ScriptedReply[]) =>
  ({ messages }: ModelRequest): ScriptedReply =>
    replies[messages.filter(({ role }) => role === "assistant").length] ?? says("Done.");

/** Creates a lead with a scout in the background and one for which it waits. */
function leadOf(...scoutSays: readonly ScriptedReply[]): AgentRole {
  const beside = { role: "scout", task: "Look.", background: true };
  const scout = part("scout", inTurn(...scoutSays), { tools: [payTool()] });
  const script = inTurn(
    calls({ toolName: SPAWN_TOOL_NAME, arguments: beside }),
    calls(spawn("scout", "Look on.")),
  );
  return part("lead", script, { subagents: [scout.role], delegation: { background: true } }).role;
}

/**
 * Returns, for each span of the lead, the number of results that it received and its linked agents.
 */
function awaited({ spans }: Recorder): readonly unknown[] {
  const all = spans();
  const nameOf = (spanId: string): string | undefined =>
    all.find((span) => span.spanId === spanId)?.name;
  const linksOf = ({ links }: RecordedSpan): readonly unknown[] =>
    links
      .filter(({ attributes }) => attributes["espalier.link.type"] === "awaits")
      .map(({ spanId }) => nameOf(spanId));
  return all
    .filter(({ name }) => name === "invoke_agent lead")
    .map((span) => [span.attributes["espalier.awaits.count"], linksOf(span)]);
}

const tracingOf = ({ tracer }: Recorder): SpanProjector => new SpanProjector(tracer, String);

proves(
  ["D320"],
  "links an agent to the subagents whose results it received, over a pause",
  async () => {
    const lead = leadOf(calls({ toolName: "pay", arguments: { amount: 1 } }), says("Seen."));
    const first = new Orchestrator({ tracing: tracingOf(recorder()) });
    const paused = await first.start(lead, "Do it.").result;
    expect(paused.questions).toHaveLength(2);
    const recorded = recorder();
    const next = new Orchestrator({ tracing: tracingOf(recorded), roles: [lead] });
    const { pausedRun } = paused;
    if (pausedRun === undefined) expect.fail("It was to pause.");
    await next.resume(pausedRun, { answers: approveAll(paused) }).result;
    expect(awaited(recorded)).toEqual([[1, ["invoke_agent scout#1"]]]);
  },
);

proves(
  ["D320"],
  "links an agent to the subagents whose results it received, over a crash",
  async () => {
    const store = memoryStore();
    const hanging = latch();
    const lead = leadOf({ ...says("Seen."), after: hanging.opened });
    const sink = new RecordingSink();
    const first = new Orchestrator({ store, sinks: [sink], tracing: tracingOf(recorder()) });
    const run = first.start(lead, "Do it.");
    const lost = run.result.catch((cause: unknown) => {
      if (!EspalierError.is(cause) || cause.code !== "run_fenced") throw cause;
    });
    await until(() => sink.ofType("model.requested").length === 4);
    await run.whenPersisted();
    const recorded = recorder();
    const again = leadOf(says("Seen."));
    const next = new Orchestrator({ store, tracing: tracingOf(recorded), roles: [again] });
    const recovered = await next.resume(run.runId, { takeOver: true });
    expect((await recovered.result).text).toBe("Done.");
    hanging.open();
    await lost;
    expect(awaited(recorded)).toContainEqual([1, ["invoke_agent scout#1"]]);
  },
);
