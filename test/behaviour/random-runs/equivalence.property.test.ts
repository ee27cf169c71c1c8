// Goal: a run has the same histories, usage, events and results whether it is drained, iterated,
// streamed, or paused anywhere and resumed in a new process.
// Method: random worlds in which everything depends on an agent's own place and step. Each is
// played in two ways, and the whole records are compared. See equivalence-record.ts for the
// permitted differences. `FC_RUNS=…` plays more worlds.

import * as fc from "fast-check";
import { expect, vi } from "vitest";

import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { proves } from "../../harness/proves.ts";
import { recordOf } from "./equivalence-record.ts";
import { RICH_WORLD } from "./equivalence-rich-world.ts";
import { play, type Moment, type Played, type Way } from "./equivalence-fixture.ts";
import { withoutToolLimits, worlds, type World } from "./equivalence-world.ts";
import { SaidSteps } from "../../support/said.ts";

const RUNS = Number(process.env["FC_RUNS"] ?? 35);

vi.setConfig({ testTimeout: 3_600_000 });

const anyWorld = fc.oneof(worlds("wide"), worlds("narrow"));
const moment: fc.Arbitrary<Moment> = fc.record({
  at: fc.constantFrom("event", "event", "event", "phase"),
  count: fc.oneof(fc.nat({ max: 8 }), fc.nat({ max: 60 })),
});
const moments = fc.array(moment, { minLength: 1, maxLength: 10, size: "max" });

async function comesToTheSame(
  world: World,
  way: Way,
  hidden: ReadonlySet<string> = new Set(),
): Promise<readonly [Played, Played]> {
  const plain = await play(world);
  const other = await play(world, way);
  expect(recordOf(other, hidden)).toEqual(recordOf(plain, hidden));
  return [plain, other];
}

proves(
  ["R1"],
  "emits the same events in the same order for an iterated and a drained run",
  async () => {
    await fc.assert(
      fc.asyncProperty(anyWorld, async (world) => {
        const [drained, iterated] = await comesToTheSame(world, { iterates: true });
        expect(inOrder(iterated)).toEqual(inOrder(drained));
        const { phases, result } = iterated;
        const ended = phases.at(-1);
        expect([ended?.phase, ended?.state.status]).toEqual(["ended", result.status]);
        expect(ended?.state.log.steps).toEqual(result.steps);
      }),
      { numRuns: RUNS },
    );
  },
);

/** Returns every event in order, without random ids and times. */
function inOrder({ events }: Played): unknown {
  return events.map((event): Partial<EspalierEvent> => {
    const { traceId: _trace, spanId: _span, ...rest } = event;
    return "previousTraceId" in rest ? { ...rest, previousTraceId: "", previousSpanId: "" } : rest;
  });
}

proves(["R1", "F1"], "streams exactly the replies of the drained run", async () => {
  await fc.assert(
    fc.asyncProperty(anyWorld, async (world) => {
      const said = new SaidSteps();
      const hidden = new Set(["streaming"]);
      const [, { result }] = await comesToTheSame(world, { onStreamPart: said.take }, hidden);
      const steps = result.agents.flatMap((agent) => agent.steps);
      const pieces = steps.map(({ stepId }) => {
        const { text, calls } = said.of(stepId);
        return { stepId, text, calls: calls.map(({ callId }) => callId) };
      });
      expect(pieces).toEqual(
        steps.map(({ stepId, io, tools }) => ({
          stepId,
          text: io.text,
          calls: tools.calls.map(({ callId }) => callId),
        })),
      );
    }),
    { numRuns: RUNS },
  );
});

const seen = new Set<string>();

proves(
  ["R28", "R31", "R32"],
  "returns the same result after any number of pauses anywhere",
  async () => {
    await fc.assert(
      fc.asyncProperty(anyWorld, moments, async (world, pauses) => {
        for (const played of await comesToTheSame(world, { pauses }))
          for (const sight of sights(played)) seen.add(sight);
      }),
      { numRuns: RUNS * 2 },
    );
    if (process.env["FC_SEED"] !== undefined || process.env["FC_RUNS"] !== undefined) return;
    const unseen = EXPECTED.filter((sight) => !seen.has(sight));
    expect(unseen, "what the worlds never showed").toEqual([]);
  },
);

/** Fields that show whether an approver or the caller decided. */
const WHO_DECIDED: ReadonlySet<string> = new Set(["source"]);

proves(
  ["R28", "R31", "R33"],
  "returns the same result for questions answered at a resumption as by an approver",
  async () => {
    const approvals = anyWorld.map(withoutToolLimits);
    await fc.assert(
      fc.asyncProperty(approvals, fc.oneof(fc.constant([]), moments), async (world, pauses) => {
        await comesToTheSame(world, { defersApprovals: true, pauses }, WHO_DECIDED);
      }),
      { numRuns: RUNS },
    );
  },
);

proves(
  ["R28", "R31", "R32"],
  "returns the same result for a rich tree paused at any of its events",
  async () => {
    const plain = await play(RICH_WORLD);
    expect(plain.result.status).toBe("completed");
    const expected = recordOf(plain);
    let stops = 0;
    for (let count = 0; count <= plain.events.length; count += 1) {
      const paused = await play(RICH_WORLD, { pauses: [{ at: "event", count }] });
      expect(recordOf(paused), `paused at event ${count}`).toEqual(expected);
      if (paused.pauses > plain.pauses) stops += 1;
    }
    expect(stops, "pauses that took effect").toBeGreaterThan(100);
  },
);

proves(
  ["R28", "R31"],
  "returns the same result for a rich tree that pauses repeatedly",
  async () => {
    const plain = recordOf(await play(RICH_WORLD), WHO_DECIDED);
    for (const count of [3, 7, 8, 9, 13]) {
      const pauses = Array.from({ length: 40 }, (): Moment => ({ at: "event", count }));
      const paused = await play(RICH_WORLD, { pauses, defersApprovals: count % 2 === 0 });
      expect(recordOf(paused, WHO_DECIDED), `paused at each ${count}th event`).toEqual(plain);
    }
  },
);

/** Situations that must occur in the worlds; otherwise their equality proves little. */
const EXPECTED = `
  agent completed, agent stopped, agent failed, call succeeded, call failed, call refused, call not_executed,
  error, step_limit, token_limit, tool_called, finish_reason, stop_requested, unknown_tool, invalid_json, invalid_arguments,
  denied, blocked, depth 1, depth 2, breadth_limit, unknown_role, output, tool.paused, tool.resumed, agent.resumed,
  question.answered, model.retried, request.repaired, conversation.compacted, message.delivered, hook.applied, budget.refused,
  model.failed, two children paused, five pauses, vetoed, decision continue, decision retry, decision compact, decision stop,
  wrap-up`
  .split(",")
  .map((sight) => sight.trim());

function sights({ result, events, pauses, outside }: Played): readonly string[] {
  const paused = events.filter((event) => event.type === "tool.paused").length;
  return [
    ...events.map((event) => event.type),
    ...events.map((event) => `depth ${event.depth}`),
    ...events.flatMap((event) =>
      event.type === "continuation.evaluated"
        ? [`decision ${event.decision}`, ...(event.vetoedBy === undefined ? [] : ["vetoed"])]
        : [],
    ),
    ...Object.keys(result.refusalsByCode),
    ...result.agents.flatMap(({ status, reason, output, steps }) => [
      `agent ${status}`,
      reason.code,
      ...(output === undefined ? [] : ["output"]),
      ...steps.flatMap(({ tools }) => tools.executions.map(({ type }) => `call ${type}`)),
      ...steps.flatMap(({ tools }) => tools.executions.flatMap(({ errorCode }) => errorCode ?? [])),
    ]),
    ...(JSON.stringify(outside.requests).includes("This is your last step") ? ["wrap-up"] : []),
    ...(paused > 1 ? ["two children paused"] : []),
    ...(pauses >= 5 ? ["five pauses"] : []),
  ];
}
