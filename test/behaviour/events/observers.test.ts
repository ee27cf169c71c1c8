// Goal: an observer of a run, well-behaved or not, can neither change the run nor slow it down.
// Method: sinks, tracings and readers that throw, lag, leave or never read; the run compared with
// an undisturbed one.

import { expect, test } from "vitest";

import { localTracing } from "../../support/local-tracing.ts";
import type { EspalierEvent, EventSink } from "../../../src/protocol/event.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import {
  calls,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  use,
} from "../../harness/scripted-agents.ts";
import { fiveEndings, type Watched } from "../../support/five-endings.ts";

test("sinks that throw do not affect the run, and are reported once each", async () => {
  const watched = await fiveEndings({ sinks: [fullDisk(), fullDisk()] });
  await quiet();
  expect(takeWarnings()).toEqual([
    "EspalierWarning: An event sink threw at run.started (full disk); the run continues.",
    "EspalierWarning: An event sink threw at run.started (full disk); the run continues.",
  ]);
  expect(withoutIds(watched)).toEqual(withoutIds(await fiveEndings()));
});

test("a sink that rejects later does not affect the run", async () => {
  const result = await newFixture({ sinks: [{ emit: failsLater }] }).run(
    part("lead", [says("Done.")]).role,
  );
  expect(result.status).toBe("completed");
  await quiet();
  expect(takeWarnings()).toEqual([expect.stringMatching(/^EspalierWarning: .*full disk/)]);
});

test("a tracing that throws for an event is disabled, and the run keeps one trace id", async () => {
  for (const failing of [1, 2, 7, 20]) {
    const local = localTracing();
    let count = 0;
    const place: Tracing["traceEvent"] = (draft) => {
      count += 1;
      if (count === failing) throw new Error("no exporter");
      return local.traceEvent(draft);
    };
    const { s, result } = await fiveEndings({ tracing: { ...local, traceEvent: place } });
    await quiet();
    expect(takeWarnings()).toHaveLength(1);
    expect(
      new Set(s.sink.events.map((event) => event.traceId)),
      `from event ${failing} on`,
    ).toEqual(new Set([result.traceId]));
  }
});

test("a tracing that throws around model and tool calls does not prevent them", async () => {
  const worked: string[] = [];
  const work = tool("work", ({ agentPath }) => void worked.push(agentPath));
  const helper = part("helper", [calls(use("work")), says("Ok.")], { tools: [work] });
  const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
    subagents: [helper.role],
  });
  const s = newFixture({ tracing: { ...localTracing(), runInSpan: noContext } });
  const result = await s.run(lead.role, { budget: { steps: 10 } });
  takeWarnings();
  expect([result.status, result.text, worked]).toEqual(["completed", "Done.", ["lead/helper#1"]]);
});

test("a tracing that throws after a call has begun does not lose the call's result", async () => {
  const look = tool("look", () => "seen");
  const late = tool("late", async () => {
    await flushEventLoop();
    throw new Error("no luck");
  });
  const lead = part("lead", [calls(use("look"), use("late")), says("Done.")], {
    tools: [look, late],
  });
  const s = newFixture({ tracing: { ...localTracing(), runInSpan: lateContext } });
  const result = await s.run(lead.role, { budget: { steps: 10 } });
  await quiet();
  takeWarnings();
  expect([result.status, result.text]).toEqual(["completed", "Done."]);
  expect(lead.model.requests).toHaveLength(2);
  expect(receivedTexts(lead.model.requests[1])).toEqual(["seen", "late failed: no luck"]);
});

test("a reader that never reads does not block the run, and finds its events afterwards", async () => {
  const s = newFixture();
  const run = s.start(part("lead", [says("Done.")]).role);
  const idle = run.events();
  await s.outcome(run);
  const read: EspalierEvent[] = [];
  for await (const event of idle) read.push(event);
  expect(read).toEqual(s.sink.events);
  const late: EspalierEvent[] = [];
  for await (const event of run.events()) late.push(event);
  expect(late).toEqual([]);
});

test("a reader that falls too far behind fails alone after its backlog", async () => {
  const s = newFixture();
  const run = s.start(part("lead", [asks("nothing", {}), says("Done.")]).role);
  const slow = run.events({ maxBacklog: 5 });
  const brisk = run.events();
  const result = await s.outcome(run);
  expect(result.status).toBe("completed");
  const read: EspalierEvent[] = [];
  const reading = (async () => {
    for await (const event of slow) read.push(event);
  })();
  await expect(reading).rejects.toMatchObject({
    code: "backlog_overflow",
    data: { maxBacklog: 5 },
  });
  expect(read).toEqual(s.sink.events.slice(0, 5));
  const all: EspalierEvent[] = [];
  for await (const event of brisk) all.push(event);
  expect(all).toEqual(s.sink.events);
});

test("a reader that leaves early does not disturb the run", async () => {
  const late = latch();
  const s = newFixture();
  const run = s.start(part("lead", [says("Done.", { after: late.opened })]).role);
  for await (const event of run.events()) if (event.type === "model.requested") break;
  late.open();
  const result = await s.outcome(run);
  expect(result.status).toBe("completed");
});

function withoutIds({ s, result }: Watched): unknown {
  const events = s.sink.events.map(({ traceId: _trace, spanId: _span, ...event }) => event);
  return [events, { ...result, traceId: "" }];
}

function fullDisk(): EventSink {
  return {
    emit: () => {
      throw new Error("full disk");
    },
  };
}

const lateContext: Tracing["runInSpan"] = (_scope, work) => {
  void work();
  throw new Error("no context");
};

const noContext: Tracing["runInSpan"] = () => {
  throw new Error("no context");
};

function failsLater(): unknown {
  return flushEventLoop().then(() => {
    throw new Error("full disk");
  });
}
