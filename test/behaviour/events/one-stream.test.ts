// Goal: each run has one ordered stream of events, readable in full or for one agent; a slow reader
// fails alone.

import { expect, test } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import type { EspalierEvent, EventSink } from "../../../src/protocol/event.ts";
import { AgentIdSchema } from "../../../src/protocol/ids.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

function family() {
  const helper = part("helper", () => says("Helped."));
  return part("lead", [calls(spawn("helper"), spawn("helper")), says("Done.")], {
    subagents: [helper.role],
  });
}

async function read(events: AsyncIterable<EspalierEvent>): Promise<readonly EspalierEvent[]> {
  const seen: EspalierEvent[] = [];
  for await (const event of events) seen.push(event);
  return seen;
}

proves(
  ["X22"],
  "events are placed and numbered, readers may follow one agent, and a slow reader alone fails",
  async () => {
    const helpers: Promise<readonly EspalierEvent[]>[] = [];
    const watcher: EventSink = {
      emit: (event) => {
        if (event.type === "subagent.spawned")
          helpers.push(read(run.events({ agentId: event.childId })));
      },
    };
    const fixture = newFixture({ sinks: [watcher] });
    const run = fixture.start(family().role);
    const slow = run.events({ maxBacklog: 3 });
    const all = await read(run.events());
    const result = await fixture.outcome(run);
    expect(all).toEqual(fixture.sink.events);
    expect(all.map(({ seq }) => seq)).toEqual(all.map((_event, index) => index + 1));
    expect([...new Set(all.map(({ agentPath, depth }) => `${depth} ${agentPath}`))]).toEqual([
      "0 lead",
      "1 lead/helper#1",
      "1 lead/helper#2",
    ]);
    const own = await Promise.all(helpers);
    expect(own).toEqual(
      result.agents.slice(1).map(({ agentId }) => all.filter((event) => event.agentId === agentId)),
    );
    const overflow = await read(slow).catch((error: unknown) => error);
    expect(EspalierError.is(overflow) ? overflow.code : overflow).toBe("backlog_overflow");
    expect(result.status).toBe("completed");
  },
);

test("the events of an unknown agent id are refused at once", async () => {
  const fixture = newFixture();
  const run = fixture.start(family().role);
  expect(() => run.events({ agentId: AgentIdSchema().parse("nobody") })).toThrow(/id of an agent/);
  await fixture.outcome(run);
});
