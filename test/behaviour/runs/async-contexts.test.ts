// Goal: a queued call continues in its own async context and below its own spans, in order.
// Method: runs that are started in their own contexts and share every queue; models and tools that
// record where they run.

import { AsyncLocalStorage } from "node:async_hooks";

import { context, createContextKey, trace } from "@opentelemetry/api";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { modelLimits } from "../../../src/model/model-limits.ts";
import type { Model } from "../../../src/model/model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { limited, roleOf } from "../../support/limited-models.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

const RUNS = 20;
const NUMBERS = Array.from({ length: RUNS }, (_none, index) => index);

const contexts = new AsyncLocalStorage<number>();

/** Calls `record` at the start of a call and two turns of the event loop later. */
async function recordTwice(record: () => void): Promise<void> {
  record();
  await flushEventLoop();
  await flushEventLoop();
  record();
}

/** Returns a role that calls its model, a tool, and its model again. */
function working(
  record: (where: string) => void,
  limits = modelLimits({ maxConcurrentRequests: 1 }),
) {
  const script = new ScriptedModel([asks("work", {}), says("Done.")]);
  const model: Model = {
    provider: "scripted",
    id: "model-1",
    countTokens: () => 10,
    limits,
    generate: async (request, options) => {
      await recordTwice(() => record("model"));
      return await script.generate(request, options);
    },
  };
  const work = defineTool({
    name: "work",
    description: "Works.",
    inputSchema: z.object({}),
    execute: async () => {
      await recordTwice(() => record("tool"));
      return "worked";
    },
  });
  return roleOf(model, { tools: [work] });
}

const SEEN_BY_RUN = ["model", "model", "tool", "tool", "model", "model"];

proves(
  ["D651"],
  "executes calls queued for rate limits or a run slot in the async context of their run",
  async () => {
    const limits = modelLimits({ maxConcurrentRequests: 1 });
    const orchestrator = new Orchestrator({ maxConcurrentRuns: 3 });
    const seen = NUMBERS.map((): (readonly [string, number | undefined])[] => []);
    const runs = NUMBERS.map((number) => {
      const record = (where: string): void =>
        void seen[number]?.push([where, contexts.getStore()] as const);
      const role = working(record, limits);
      return contexts.run(number, () => orchestrator.start(role, "Go."));
    });
    for (const run of runs) expect((await run.result).text).toBe("Done.");
    expect(seen).toEqual(NUMBERS.map((number) => SEEN_BY_RUN.map((where) => [where, number])));
  },
);

/** Returns a lead with eight subagents that call one tool each, which records its async context. */
function team(record: () => void): AgentRole {
  const work = defineTool({
    name: "work",
    description: "Works.",
    inputSchema: z.object({}),
    execute: () => recordTwice(record),
  });
  const helper = part(
    "helper",
    (request) => (request.messages.at(-1)?.role === "tool" ? says("Helped.") : calls(use("work"))),
    { tools: [work] },
  );
  const eight = Array.from({ length: 8 }, (_none, index) => spawn("helper", `Work ${index}.`));
  return part("lead", [calls(...eight), says("Led.")], { subagents: [helper.role] }).role;
}

proves(
  ["D651"],
  "executes calls queued for a slot of their run in the async context of the start",
  async () => {
    const limits = { maxDepth: 2, maxBreadthPerParent: 10, maxTotalSubagents: 10 };
    const orchestrator = new Orchestrator({ limits, concurrency: { modelCalls: 1, toolCalls: 1 } });
    const seen = NUMBERS.map((): (number | undefined)[] => []);
    const runs = NUMBERS.map((number) => {
      const role = team(() => void seen[number]?.push(contexts.getStore()));
      return contexts.run(number, () => orchestrator.start(role, "Go."));
    });
    for (const run of runs) expect((await run.result).text).toBe("Led.");
    expect(seen).toEqual(NUMBERS.map((number) => Array.from({ length: 16 }, () => number)));
  },
);

const recording = recorder();
/** Application data in the ambient context of OpenTelemetry, like baggage. */
const REQUEST = createContextKey("request");
beforeAll(() => recording.provider.register());
afterAll(() => {
  trace.disable();
  context.disable();
});

proves(
  ["D651"],
  "places spans opened in queued calls below the call, in the trace of their run",
  async () => {
    const app = recording.provider.getTracer("app");
    const limits = modelLimits({ maxConcurrentRequests: 1 });
    const orchestrator = new Orchestrator({ tracing: openTelemetry(), maxConcurrentRuns: 5 });
    const runs = NUMBERS.map((number) =>
      app.startActiveSpan(`request ${number}`, (request) => {
        const openSpan = (where: string): void =>
          app.startSpan(`${where} of ${String(context.active().getValue(REQUEST))}`).end();
        const role = working(openSpan, limits);
        const ambient = context.active().setValue(REQUEST, number);
        const run = context.with(ambient, () => orchestrator.start(role, "Go."));
        return run.settled.finally(() => request.end());
      }),
    );
    await Promise.all(runs);
    const spans = recording.spans();
    const byId = new Map(spans.map((span) => [span.spanId, span]));
    const opened = spans.filter(({ name }) => /^(model|tool) of \d+$/.test(name));
    const requestOf = (traceId: string): string | undefined =>
      spans.find((span) => span.traceId === traceId && span.name.startsWith("request "))?.name;
    const places = opened.map(({ name, parentSpanId, traceId }) =>
      [name, byId.get(parentSpanId ?? "")?.name, requestOf(traceId)].join(" < "),
    );
    const expected = NUMBERS.flatMap((number) =>
      SEEN_BY_RUN.map((where) => {
        const parent = where === "model" ? "chat model-1" : "execute_tool work";
        return `${where} of ${number} < ${parent} < request ${number}`;
      }),
    );
    expect(new Set(places)).toEqual(new Set(expected));
    expect(places).toHaveLength(RUNS * SEEN_BY_RUN.length);
  },
);

proves(
  ["D653"],
  "starts no small request before an earlier one that waits for tokens or a slot",
  async () => {
    const first = newFixture();
    const { clock } = first;
    const second = newFixture({ clock });
    const order: string[] = [];
    const limits = modelLimits({ tokensPerMinute: 100, maxConcurrentRequests: 2 });
    const held = latch();
    const starting = (name: string, at: typeof first, maxOutputTokens: number) => {
      const usage = { inputTokens: 10, outputTokens: maxOutputTokens };
      const script = new ScriptedModel(
        () => {
          order.push(name);
          return says(name, { usage, ...(name === "held" ? { after: held.opened } : {}) });
        },
        { countTokens: () => 10 },
      );
      return at.start(roleOf(limited(script, limits), { maxOutputTokens }));
    };
    const runs = [
      starting("held", first, 50),
      starting("large", second, 80),
      starting("small", first, 10),
      starting("also small", second, 10),
    ];
    await flushEventLoop();
    expect(order).toEqual(["held"]);
    clock.advance(29_999);
    await flushEventLoop();
    expect(order, "large needs 90 tokens, and 90 are there after 30 seconds").toEqual(["held"]);
    clock.advance(1);
    await flushEventLoop();
    clock.advance(12_000); // Tokens for one of the small requests.
    await flushEventLoop();
    held.open();
    clock.advance(60_000);
    for (const run of runs) await run.settled;
    expect(order).toEqual(["held", "large", "small", "also small"]);
    expect(clock.pendingTimers).toBe(0);
  },
);

test("starts calls of other models while calls wait for one provider", async () => {
  const s = newFixture({ concurrency: { modelCalls: 2 } });
  const held = latch();
  const limits = modelLimits({ maxConcurrentRequests: 1 });
  const script = () => says("Slow.", { after: held.opened });
  const slow = part("slow", script);
  limited(slow.model, limits);
  const quick = part("quick", () => says("Quick."));
  const lead = part(
    "lead",
    [
      calls(spawn("slow", "1"), spawn("slow", "2"), spawn("slow", "3"), spawn("quick")),
      says("Led."),
    ],
    { subagents: [slow.role, quick.role] },
  );
  const run = s.start(lead.role);
  while (s.sink.ofType("subagent.ended").length === 0) await flushEventLoop();
  expect(s.sink.ofType("subagent.ended").map(({ role }) => role)).toEqual(["quick"]);
  held.open();
  expect((await s.outcome(run)).text).toBe("Led.");
});
