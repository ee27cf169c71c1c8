// Goal: a tracing that fails does not affect its run and leaves nothing behind.
// Method: real runs; span processors that throw, and tracings that break their contract.

import { NodeTracerProvider, type ReadableSpan } from "@opentelemetry/sdk-trace-node";
import { expect, test } from "vitest";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { localTracing } from "../../support/local-tracing.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { calls, part, spawn, tool, use } from "../../harness/scripted-agents.ts";

function team() {
  const ran: string[] = [];
  const reader = part("reader", [calls(use("work")), says("Read.")], {
    tools: [tool("work", () => ran.push("work"))],
  });
  const lead = part("lead", [calls(spawn("reader")), says("Done.")], { subagents: [reader.role] });
  return { role: lead.role, ran };
}

async function warnings(): Promise<readonly string[]> {
  await flushEventLoop();
  return takeWarnings();
}

test("continues the run and ends every open span if a span processor throws", async () => {
  const ended: string[] = [];
  let left = 3;
  const provider = new NodeTracerProvider({
    spanProcessors: [
      {
        onStart: () => {},
        onEnd: ({ name }: ReadableSpan) => {
          ended.push(name);
          left -= 1;
          if (left === 0) throw new Error("disk full");
        },
        forceFlush: () => Promise.resolve(),
        shutdown: () => Promise.resolve(),
      },
    ],
  });
  const projector = new SpanProjector(provider.getTracer("test"), () => expect.fail("no ids"));
  const { role, ran } = team();
  const result = await newFixture({ tracing: projector }).run(role);
  expect([result.status, ran]).toEqual(["completed", ["work"]]);
  expect(projector.openSpans).toBe(0);
  expect(ended.toSorted()).toEqual([
    "chat lead-model",
    "chat reader-model",
    "execute_tool work",
    "invoke_agent lead (abandoned)",
    "invoke_agent reader#1 (abandoned)",
    "invoke_workflow lead (abandoned)",
    "spawn reader#1 (abandoned)",
  ]);
  expect(await warnings()).toEqual([
    "EspalierWarning: The tracing threw (disk full); the run continues without it.",
  ]);
});

test("keeps all events in one trace and reports sampling only on the first, if a tracing fails later", async () => {
  const local = localTracing();
  let placed = 0;
  const tracing: Tracing = {
    ...local,
    traceEvent: (draft) => {
      placed += 1;
      if (placed > 4) throw new Error("gone");
      return { ...local.traceEvent(draft), ...(placed === 1 ? { isSampled: true } : {}) };
    },
  };
  const s = newFixture({ tracing });
  const { traceId } = await s.run(team().role);
  expect(new Set(s.sink.events.map((event) => event.traceId))).toEqual(new Set([traceId]));
  expect(s.sink.events.filter((event) => "isSampled" in event).map(({ seq }) => seq)).toEqual([1]);
  expect(await warnings()).toHaveLength(1);
});

interface Breach {
  readonly runInSpan: (scope: unknown, work: () => unknown) => unknown;
  /** What the tracing threw, by the warning; `undefined` if it threw nothing. */
  readonly threw?: string;
}

const BREACHES: Readonly<Record<string, Breach>> = {
  "runs its work twice": { runInSpan: (_scope, work) => [work(), work()][1] },
  "runs nothing": { runInSpan: () => undefined, threw: "runInSpan() did not run its work" },
  "returns another value": {
    runInSpan: (_scope, work) => ({ given: work() }),
    threw: "traced.catch is not a function",
  },
  "throws after it has run": {
    runInSpan: (_scope, work) => {
      work();
      throw new Error("late");
    },
    threw: "late",
  },
};

function warningsOf(threw: string | undefined): readonly string[] {
  if (threw === undefined) return [];
  return [`EspalierWarning: The tracing threw (${threw}); the run continues without it.`];
}

test.each(Object.entries(BREACHES))("runs a tool once if a tracing %s", async (_what, breach) => {
  const { role, ran } = team();
  const method = "runInSpan" satisfies keyof Tracing;
  const tracing: Tracing = Object.assign(localTracing(), { [method]: breach.runInSpan });
  const result = await newFixture({ tracing }).run(role);
  expect([result.status, ran]).toEqual(["completed", ["work"]]);
  expect(await warnings()).toEqual(warningsOf(breach.threw));
});

/** Invalid answers of a tracing about the events that it ignores. */
const IGNORED: Readonly<Record<string, () => unknown>> = {
  "an array": () => ["step.started"],
  "an object that is not a set": () => ({ has: () => true }),
  "an error": () => {
    throw new Error("ignored");
  },
};

/** Returns the types of the events that a tracing gets whose `ignoredEvents` come from `get`. */
async function tracedWith(get: () => unknown): Promise<readonly string[]> {
  const { traceEvent, runInSpan, getIds } = localTracing();
  const traced: string[] = [];
  const parts: Omit<Tracing, "ignoredEvents"> = {
    traceEvent: (draft) => {
      traced.push(draft.body.type);
      return traceEvent(draft);
    },
    runInSpan,
    getIds,
  };
  const field = "ignoredEvents" satisfies keyof Tracing;
  const tracing: Tracing = Object.defineProperty(parts, field, { get });
  const result = await new Orchestrator({ tracing }).start(team().role, "Begin.").result;
  expect(result.status).toBe("completed");
  return traced;
}

test.each(Object.entries(IGNORED))(
  "completes the run if a tracing ignores %s",
  async (what, get) => {
    const isThrown = what === "an error";
    const all = await tracedWith(() => undefined);
    expect(all).toContain("step.started");
    // A tracing that threw is not called again.
    expect(await tracedWith(get)).toEqual(isThrown ? ["run.started"] : all);
    expect(await warnings()).toEqual(warningsOf(isThrown ? "ignored" : undefined));
  },
);

test("reads the ignored events of a tracing once, after the run has started, and does not pass them to it", async () => {
  const { traceEvent: place, runInSpan: within, getIds: idsOf } = localTracing();
  const placed: string[] = [];
  const asked: string[] = [];
  const tracing: Tracing = {
    traceEvent: (draft) => {
      placed.push(draft.body.type);
      return place(draft);
    },
    runInSpan: within,
    getIds: idsOf,
    get ignoredEvents() {
      asked.push(placed.at(-1) ?? "nothing");
      return new Set(["step.started", "budget.reserved"] as const);
    },
  };
  await new Orchestrator({ tracing }).start(team().role, "Begin.").result;
  expect(asked).toEqual(["run.started"]);
  expect(placed).toContain("step.completed");
  expect(placed).not.toContain("step.started");
  expect(placed).not.toContain("budget.reserved");
});
