// Goal: `getCorrelationIds()` returns the ids of the place at which it is called, wherever user
// code runs, and no ids anywhere else.
// Method: code of every kind records the result, which is compared with the events of the same
// place.

import { z } from "zod";
import { expect, test } from "vitest";

import {
  approve,
  getCorrelationIds,
  defineAgent,
  defineTool,
  Orchestrator,
  toolGuard,
  withRetries,
  type EspalierEvent,
  type Model,
} from "../../../src/index.ts";
import {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
} from "../../../src/hooks.ts";
import { localTracing } from "../../support/local-tracing.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";
import { firstIds, idsOf, logbook, type Ids } from "../../support/telemetry/logbook.ts";

proves(
  ["R176"],
  "returns the ids of the events of its place in every kind of user code",
  async () => {
    const { lines, write } = logbook();
    const later = async (at: string): Promise<void> => {
      write(at);
      await flushEventLoop();
      write(at);
    };
    const work = defineTool({
      name: "work",
      description: "Works.",
      inputSchema: z.object({}),
      needsApproval: async () => {
        await later("needsApproval");
        return "Somebody must see it.";
      },
      execute: async () => {
        await later("tool");
        return "worked";
      },
    });
    const scripted = new ScriptedModel([asks("work", {}), says("Done.")]);
    const model: Model = {
      provider: "own",
      id: "own",
      countTokens: () => 10,
      generate: async (request, options) => {
        await later("model");
        return await scripted.generate(request, options);
      },
    };
    const lead = defineAgent({
      name: "lead",
      instructions: "Work.",
      model,
      tools: [withRetries(work)],
      sections: [
        {
          name: "note",
          messageRole: "user",
          lifetime: "step",
          text: async () => {
            await later("section");
            return undefined;
          },
        },
      ],
      guards: [
        toolGuard(async function guard() {
          await later("guard");
          return { type: "allow" };
        }),
      ],
      hooks: [
        transform("beforeModel", () => later("beforeModel")),
        transform("beforeTool", () => later("beforeTool")),
        transform("afterTool", () => later("afterTool")),
        transform("stop", () => later("stop hook")),
        wrapModelCall(async function around(_call, next) {
          await later("wrapModelCall");
          return await next();
        }),
        wrapToolCall(async function around(_call, next) {
          await later("wrapToolCall");
          return await next();
        }),
        processStep(() => later("processor")),
        observe("step.started", () => write("observer")),
      ],
      stopWhen: [
        async () => {
          await later("condition");
          return undefined;
        },
      ],
    });
    const fixture = newFixture({
      approver: async (question) => {
        await later("approver");
        return approve(question);
      },
      sinks: [{ emit: ({ type }) => (type === "tool.ended" ? write("sink") : undefined) }],
    });
    const result = await fixture.run(lead);
    expect([result.status, result.text]).toEqual(["completed", "Done."]);

    const first = (type: EspalierEvent["type"], nth = 0): Ids =>
      firstIds(fixture.sink.events, type, nth);
    const agent = first("agent.started");
    const inStep = (nth: number): Ids => ({ ...agent, stepId: first("step.started", nth).stepId });
    const inCall = { ...inStep(0), callId: first("tool.started").callId };
    expect(lines).toEqual([
      ...twice("condition", agent),
      ...twice("section", inStep(0)),
      ...twice("beforeModel", inStep(0)),
      ["observer", inStep(0)],
      ...twice("wrapModelCall", inStep(0)),
      ...twice("model", first("model.requested")),
      ...twice("beforeTool", inCall),
      ...twice("guard", inCall),
      ...twice("needsApproval", inCall),
      ...twice("approver", inCall),
      ...twice("wrapToolCall", first("tool.started")),
      ...twice("tool", first("tool.started")),
      ...twice("afterTool", first("tool.started")),
      ["sink", first("tool.ended")],
      ...twice("processor", inStep(0)),
      ...twice("condition", inStep(0)),
      ...twice("section", inStep(1)),
      ...twice("beforeModel", inStep(1)),
      ["observer", inStep(1)],
      ...twice("wrapModelCall", inStep(1)),
      ...twice("model", first("model.requested", 1)),
      ...twice("processor", inStep(1)),
      ...twice("condition", inStep(1)),
      ...twice("stop hook", inStep(1)),
    ]);
  },
);

/** Returns a line before an await and one after it. */
function twice(at: string, ids: Ids): [string, Ids][] {
  return [
    [at, ids],
    [at, ids],
  ];
}

/** Creates a tool that logs before and after it waits. */
function loggingTool(write: (at: string) => void, opened: Promise<void>) {
  return spyTool("look", async () => {
    write("before");
    await opened;
    write("after");
    return "looked";
  });
}

proves(["R176"], "never returns the ids of a concurrent agent", async () => {
  const { lines, write } = logbook();
  const [first, second] = [latch(), latch()];
  const latches = [first, second];
  const begun = latch();
  let waiting = 0;
  const look = spyTool("look", async () => {
    const own = latches[waiting];
    waiting += 1;
    if (waiting === latches.length) begun.open();
    write("before");
    await own?.opened;
    write("after");
    return "looked";
  });
  const helper = part(
    "helper",
    (request) =>
      request.messages.some(({ role }) => role === "tool") ? says("Seen.") : asks("look", {}),
    {
      tools: [look],
    },
  );
  const lead = part("lead", [calls(spawn("helper"), spawn("helper")), says("Done.")], {
    subagents: [helper.role],
  });
  const fixture = newFixture();
  const run = fixture.start(lead.role);
  await begun.opened;
  second.open();
  await flushEventLoop();
  first.open();
  await fixture.outcome(run);
  const bodies = fixture.sink.events.filter(
    (event) => event.type === "tool.started" && event.toolName === "look",
  );
  const [one, two] = bodies.map(idsOf);
  expect([one?.agentPath, two?.agentPath]).toEqual(["lead/helper#1", "lead/helper#2"]);
  expect(lines).toEqual([
    ["before", one],
    ["before", two],
    ["after", two],
    ["after", one],
  ]);
});

test("returns the ids of a nested run inside it, and those of the outer tool afterwards", async () => {
  const { lines, write } = logbook();
  const inner = soloist([asks("note", {}), says("Inner.")], {
    name: "inner",
    tools: [spyTool("note", () => (write("inner tool"), "noted"))],
  });
  const innerEvents: EspalierEvent[] = [];
  const sinks = [
    {
      emit: (event: EspalierEvent): void => {
        innerEvents.push(event);
        if (event.type === "run.started" || event.type === "run.ended") write(event.type);
      },
    },
  ];
  const outer = soloist([asks("nest", {}), says("Outer.")], {
    name: "outer",
    tools: [
      spyTool("nest", async () => {
        write("before");
        const { text } = await new Orchestrator({ sinks }).start(inner.role, "Go in.").result;
        write("after");
        return text;
      }),
    ],
  });
  const fixture = newFixture();
  await fixture.run(outer.role);
  const own = firstIds(fixture.sink.events, "tool.started");
  const within = (type: EspalierEvent["type"]): Ids => firstIds(innerEvents, type);
  expect(lines).toEqual([
    ["before", own],
    ["run.started", within("run.started")],
    ["inner tool", within("tool.started")],
    ["run.ended", within("run.ended")],
    ["after", own],
  ]);
});

test("returns a new empty object outside of runs", async () => {
  const fixture = newFixture();
  const seen: Partial<Ids>[] = [getCorrelationIds()];
  const run = fixture.start(soloist([says("Done.")]).role);
  seen.push(getCorrelationIds());
  for await (const _event of run.events()) seen.push(getCorrelationIds());
  await fixture.outcome(run).then(() => seen.push(getCorrelationIds()));
  expect(seen.length).toBeGreaterThan(10);
  expect(seen.filter((ids) => Object.keys(ids).length > 0)).toEqual([]);
  expect(Object.assign(getCorrelationIds(), { level: 30 })).toEqual({ level: 30 });
  expect(getCorrelationIds()).toEqual({});
});

test("ignores changes to the returned ids", async () => {
  const seen: Partial<Ids>[] = [];
  const look = spyTool("look", () => {
    Object.assign(getCorrelationIds(), { runId: "mine", level: 30 });
    seen.push(getCorrelationIds());
    return "looked";
  });
  const fixture = newFixture();
  await fixture.run(soloist([asks("look", {}), says("Done.")], { tools: [look] }).role);
  expect(seen).toEqual([firstIds(fixture.sink.events, "tool.started")]);
});

test("returns the ids of its call in a tool that was abandoned, in the trace of its run", async () => {
  const { lines, write } = logbook();
  const late = latch();
  const fixture = newFixture({ graceMs: 0 });
  const begun = latch();
  const stuck = spyTool("stuck", async () => {
    begun.open();
    await late.opened;
    write("late");
    return "too late";
  });
  const run = fixture.start(soloist([asks("stuck", {})], { tools: [stuck] }).role);
  await begun.opened;
  void run.cancel("Enough.");
  await flushEventLoop();
  fixture.clock.advance(0);
  await fixture.outcome(run);
  late.open();
  await flushEventLoop();
  const started = firstIds(fixture.sink.events, "tool.started");
  const { spanId } = idsOf(fixture.sink.events.at(-1));
  expect(lines).toEqual([["late", { ...started, spanId }]]);
});

function throws(): never {
  throw new Error("no ids");
}

test("returns ids of the trace that was begun if the tracing fails to return its own", async () => {
  const { lines, write } = logbook();
  const fixture = newFixture({ tracing: { ...localTracing(), getIds: throws } });
  const opened = Promise.resolve();
  const look = loggingTool(write, opened);
  await fixture.run(soloist([asks("look", {}), says("Done.")], { tools: [look] }).role);
  const started = firstIds(fixture.sink.events, "tool.started");
  expect(lines).toEqual([
    ["before", started],
    ["after", started],
  ]);
  expect(takeWarnings()).toEqual([
    "EspalierWarning: The tracing threw (no ids); the run continues without it.",
  ]);
});

proves(["R176"], "returns the same ids before and after a listener joins the run", async () => {
  const seen: Record<string, unknown>[] = [];
  const joined: EspalierEvent[] = [];
  const look = defineTool({
    name: "look",
    description: "Looks.",
    inputSchema: z.object({}),
    execute: async () => {
      seen.push(getCorrelationIds());
      const reading = (async () => {
        for await (const event of run.events()) joined.push(event);
      })();
      await flushEventLoop();
      seen.push(getCorrelationIds());
      void reading;
      return "seen";
    },
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Look.",
    model: new ScriptedModel([asks("look", {}), says("Done.")]),
    tools: [look],
  });
  const run = new Orchestrator().start(lead, "Find out.");
  const { traceId } = await run.result;
  expect(seen[1]).toEqual(seen[0]);
  expect(joined.filter(({ type }) => type === "tool.ended").map(({ spanId }) => spanId)).toEqual([
    seen[0]?.["spanId"],
  ]);
  expect(new Set([...seen, ...joined].map((one) => one["traceId"]))).toEqual(new Set([traceId]));
  const ended = joined.filter(({ type }) => type === "agent.ended" || type === "run.ended");
  expect(new Set([...ended, seen[0]].map((one) => one?.["spanId"])).size).toBe(3);
});
