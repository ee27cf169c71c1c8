// Goal: without OpenTelemetry an event log still reads as a trace, and nothing is stored about runs
// that have ended or paused.
// Method: ids are numbered in the order of their appearance and compared as whole lists; then
// events in any order, by property.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { localTracing } from "../support/local-tracing.ts";
import { ExecutionIdSchema } from "../../src/protocol/ids.ts";
import { SpanTree } from "../../src/protocol/span-tree.ts";
import type { EventDraft, TraceIds } from "../../src/protocol/event.ts";
import {
  mintTraceIds,
  bufferMintHex,
  randomHex,
  type MintHex,
} from "../../src/kernel/trace-ids.ts";
import { placeAll } from "../support/telemetry/recorded-spans.ts";
import { pausedRun } from "../support/telemetry/paused-run.ts";
import { RunScript } from "../support/telemetry/run-script.ts";

test("gives a run one trace id, each span one id, and each event the ids of its scope", () => {
  const run = delegatingRun();
  const ids = numbered(placeAll(localTracing(), run.drafts));
  expect(run.drafts.map(({ body }, index) => [body.type, Number(ids[index]?.spanId)])).toEqual([
    ["run.started", 2],
    ["agent.started", 3],
    ["budget.reserved", 3],
    ["step.started", 3],
    ["model.requested", 4],
    ["model.replied", 4],
    ["budget.settled", 3],
    ["tool.started", 5],
    ["subagent.spawned", 5],
    ["agent.started", 6],
    ["budget.reserved", 6],
    ["step.started", 6],
    ["model.requested", 7],
    ["model.replied", 7],
    ["budget.settled", 6],
    ["step.completed", 6],
    ["continuation.evaluated", 6],
    ["agent.ended", 6],
    ["subagent.ended", 5],
    ["tool.ended", 5],
    ["agent.ended", 3],
    ["run.ended", 2],
  ]);
  expect(ids.map((id) => id.traceId)).toEqual(ids.map(() => "1"));
});

test("gives an event after the end of its run new ids and opens nothing", () => {
  const run = delegatingRun();
  const late = run.drafts.find(({ body }) => body.type === "tool.started");
  if (late === undefined) expect.fail("no tool was started");
  const ids = numbered(placeAll(localTracing(), [...run.drafts, late, late]));
  expect(ids.slice(-2).map((id) => Number(id.spanId))).toEqual([9, 11]);
});

test("gives a continued agent a new span, which late events of its first execution do not enter", () => {
  const run = new RunScript();
  const lead = run.root;
  run.started();
  lead.lives();
  lead.asks();
  const [started, agent, ...before] = run.drafts;
  const again = ExecutionIdSchema().parse("execution_again");
  const continued = agent && {
    ...agent,
    scope: { ...agent.scope, executionId: again },
  };
  const drafts = [started, agent, ...before.slice(0, 6), continued, ...before.slice(-3)];
  const given = drafts.filter((draft) => draft !== undefined);
  const ids = numbered(placeAll(localTracing(), given));
  expect(ids.map((id) => Number(id.spanId))).toEqual([2, 3, 3, 3, 4, 4, 3, 3, 5, 2, 2, 2]);
});

test("gives a resumed run one new trace id, and each of its scopes a new span id", () => {
  const { drafts } = pausedRun();
  const ids = numbered(placeAll(localTracing(), drafts));
  const resumed = drafts.findIndex(({ body }) => body.type === "run.resumed");
  const before = new Set(ids.slice(0, resumed).map((id) => id.spanId));
  const traceIds = ids.map((id) => Number(id.traceId));
  expect(traceIds).toEqual(drafts.map((_, index) => (index < resumed ? 1 : traceIds.at(-1))));
  expect(traceIds.at(-1)).toBeGreaterThan(1);
  expect(ids.slice(resumed).filter((id) => before.has(id.spanId))).toEqual([]);
});

test("mints different random ids in the format of W3C Trace Context", () => {
  const ids = placeAll(localTracing(), delegatingRun().drafts);
  expect(new Set(ids.map((id) => id.spanId)).size).toBe(6);
  expect(ids[0]?.traceId).toMatch(/^[0-9a-f]{32}$/);
  expect(ids[0]?.spanId).toMatch(/^[0-9a-f]{16}$/);
});

test("runs user code unchanged", () => {
  const done = Promise.resolve("done");
  expect(localTracing().runInSpan(new RunScript().root.scope(), () => done)).toBe(done);
});

test("returns each pooled random byte once, in pieces of the requested size", () => {
  let fetched = 0;
  const source: MintHex = (bytes) => {
    fetched += 1;
    return Array.from({ length: bytes }, (_, index) =>
      ((index + fetched) % 256).toString(16).padStart(2, "0"),
    ).join("");
  };
  const mintHex = bufferMintHex(source);
  const pieces = Array.from({ length: 256 }, () => mintHex(8));
  expect([pieces[0], pieces[1], fetched]).toEqual(["0102030405060708", "090a0b0c0d0e0f10", 1]);
  expect([mintHex(16), fetched]).toEqual(["02030405060708090a0b0c0d0e0f1011", 2]);
});

test("returns the ids of a span tree for any order of the events of a run that was not paused", () => {
  const inOrder = [delegatingRun(), pausedRun()].flatMap(({ drafts }) => drafts);
  expect(numbered(placeAll(localTracing(), inOrder))).toEqual(treeIds(inOrder));
  const order = fc.array(fc.constantFrom(...delegatingRun().drafts), { maxLength: 60 });
  fc.assert(
    fc.property(order, fc.boolean(), (shuffled, startsFirst) => {
      const drafts = [...(startsFirst ? inOrder.slice(0, 2) : []), ...shuffled];
      expect(numbered(placeAll(localTracing(), drafts))).toEqual(treeIds(drafts));
    }),
    { numRuns: 300 },
  );
});

test("closes each span once and leaves none open at the end, for any order of events", () => {
  const drafts = [...delegatingRun().drafts, ...pausedRun().drafts];
  const rests = drafts.filter(
    ({ body }) => body.type === "run.ended" || body.type === "run.paused",
  );
  const order = fc.array(fc.constantFrom(...drafts), { maxLength: 60 });
  fc.assert(
    fc.property(order, fc.boolean(), fc.constantFrom(...rests), (shuffled, startsFirst, last) => {
      const open = new Set<object>();
      const end = (scope: object): void => {
        expect(open.delete(scope)).toBe(true);
      };
      const tree = new SpanTree<object>({
        open: () => {
          const scope = {};
          open.add(scope);
          return scope;
        },
        note: (scope) => expect(open.has(scope)).toBe(true),
        close: end,
        end: () => {},
        abandon: end,
      });
      const events = [...(startsFirst ? drafts.slice(0, 2) : []), ...shuffled, last];
      for (const draft of events) {
        tree.place(draft);
        expect(tree.size).toBe(open.size);
      }
      expect(tree.size).toBe(0);
    }),
    { numRuns: 500 },
  );
});

function delegatingRun(): RunScript {
  const run = new RunScript();
  const lead = run.root;
  const reader = lead.child("reader");
  run.started();
  lead.started();
  lead.asks();
  lead.hears();
  lead.calls("call_1", "SpawnSubagent", "delegation");
  lead.spawns("call_1", reader);
  reader.lives("call_1");
  lead.hearsOfEnd("call_1", reader, "completed");
  lead.gets("call_1", "SpawnSubagent");
  lead.ended();
  run.ended();
  return run;
}

/** Returns the numbered ids that a span tree gives. */
function treeIds(drafts: readonly EventDraft[]): readonly TraceIds[] {
  const tree = new SpanTree<TraceIds>({
    open: (_body, _moment, parent) => mintTraceIds(randomHex, parent),
    note: () => {},
    close: () => {},
    abandon: () => {},
    end: () => {},
  });
  return numbered(drafts.map((draft) => tree.place(draft) ?? mintTraceIds(randomHex, undefined)));
}

/** Returns the ids replaced by numbers, from 1 in the order in which they appear. */
function numbered(ids: readonly TraceIds[]): readonly TraceIds[] {
  const numbers = new Map<string, string>();
  const numberOf = (id: string): string => {
    const number = numbers.get(id) ?? String(numbers.size + 1);
    numbers.set(id, number);
    return number;
  };
  return ids.map(({ traceId, spanId }) => ({
    traceId: numberOf(traceId),
    spanId: numberOf(spanId),
  }));
}
