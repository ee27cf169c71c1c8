// Goal: setting the wall clock back or forward changes no limit and no duration; processes with
// unrelated clocks preserve the time of a run.
// Method: the same story with the wall clock set at every event, and undisturbed; all events and
// the complete result are compared.

import { describe, expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import type { StartOptions } from "../../../src/orchestrator/run/run-options.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { StopCondition } from "../../../src/policies/stop-conditions.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { withRateLimit } from "../../../src/tools/wrappers/rate-limit.ts";
import { withTimeout } from "../../../src/tools/wrappers/with-timeout.ts";
import { proves } from "../../harness/proves.ts";
import { checkRun, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { dyingStore } from "../../support/journal/dying-store.ts";
import { approveAll, ending, payTool } from "../../support/pause-stories.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  aborted,
  calls,
  listens,
  part,
  quiet,
  spawn,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const HOUR_MS = 60 * 60 * 1_000;
const START_MS = 1_800_000_000_000;
const PAY = { toolName: "pay", arguments: { amount: 3 } };

/**
 * Returns the clock of a process that has been up for `upMs`, and whose wall clock shows `wallMs`.
 */
function clockOf(upMs: number, wallMs: number): ManualClock {
  const clock = new ManualClock();
  clock.advance(upMs);
  clock.setWallClock(wallMs);
  return clock;
}

const late: StopCondition = ({ elapsedMs }) =>
  elapsedMs === 1_200 ? { code: "late", message: "It is late.", data: {} } : undefined;

interface Told {
  readonly events: readonly EspalierEvent[];
  readonly result: RunResult;
}

interface Story {
  readonly role: (clock: ManualClock) => AgentRole;
  readonly start?: StartOptions;
  readonly options?: OrchestratorOptions;
  /** Advances the clock once `when` holds of the events. */
  readonly move?: {
    readonly when: (events: readonly EspalierEvent[]) => boolean;
    readonly afterMs: number;
  };
}

/** Executes a story. `jumpMs`: by how much the wall clock is set at each event. */
async function played(story: Story, jumpMs: number): Promise<Told> {
  const clock = new ManualClock(START_MS);
  const setting = { emit: () => clock.setWallClock(clock.nowMs() + jumpMs) };
  const fixture = newFixture({ clock, ...story.options, sinks: [setting] });
  const run = fixture.start(story.role(clock), "Do it.", story.start);
  const { move } = story;
  if (move !== undefined) {
    await until(() => move.when(fixture.sink.events));
    clock.advance(move.afterMs - 1);
    await quiet();
    expect(fixture.sink.ofType("run.ended"), "not a millisecond too early").toEqual([]);
    clock.advance(1);
    await quiet();
    clock.advance(0);
  }
  const result = await run.settled;
  await flushEventLoop();
  checkRun(result, fixture.sink.events);
  expect(clock.pendingTimers, "timers left behind").toBe(0);
  return { result, events: fixture.sink.events };
}

/** Converts to JSON without random ids. */
function withoutIds(told: Told): unknown {
  return JSON.parse(JSON.stringify(told, (key, value: unknown) => (DRAWN.has(key) ? "" : value)));
}

const DRAWN: ReadonlySet<string> = new Set(["traceId", "spanId"]);

const hasStarted =
  (toolName: string) =>
  (events: readonly EspalierEvent[]): boolean =>
    events.some((event) => event.type === "tool.started" && event.toolName === toolName);

const STORIES: Readonly<Record<string, readonly [Story, ending: readonly [string, string]]>> = {
  "a tree that uses up most of its time, with timed and limited tools": [
    {
      role: (clock) => {
        const advance = (ms: number, text: string) => () => (clock.advance(ms), text);
        const search = withRateLimit(tool("search", advance(70, "found")), {
          maxCalls: 2,
          windowMs: 100,
          exceededPolicy: "refuse",
        });
        const slow = withTimeout(tool("slow", advance(30, "done")), { timeoutMs: 1_000 });
        const helper = part(
          "helper",
          [() => (clock.advance(400), calls(use("search"))), calls(use("search")), says("Found.")],
          { tools: [search], budget: { timeMs: 1_000 } },
        );
        const script = [
          () => (clock.advance(2_000), calls(spawn("helper"))),
          calls(use("slow"), use("slow")),
          says("Done."),
        ];
        return part("lead", script, { subagents: [helper.role], tools: [slow] }).role;
      },
      start: { budget: { timeMs: 5_000 }, deadlineAtMs: START_MS + 6_000 },
    },
    ["completed", "completed"],
  ],
  "a limit in time": [
    {
      role: () => soloist([calls(use("work"))], { tools: [listens("work")] }).role,
      start: { budget: { timeMs: 5_000 } },
      move: { when: hasStarted("work"), afterMs: 5_000 },
    },
    ["stopped", "time_limit"],
  ],
  "a deadline": [
    {
      role: () => soloist([calls(use("work"))], { tools: [listens("work")] }).role,
      start: { deadlineAtMs: START_MS + 5_000 },
      move: { when: hasStarted("work"), afterMs: 5_000 },
    },
    ["stopped", "time_limit"],
  ],
  "a subagent's limit in time": [
    {
      role: () => {
        const budget = { timeMs: 3_000 };
        const helper = part("helper", [calls(use("work"))], { tools: [listens("work")], budget });
        const script = [calls(spawn("helper")), says("Done.")];
        return part("lead", script, { subagents: [helper.role] }).role;
      },
      start: { budget: { timeMs: 5_000 } },
      move: { when: hasStarted("work"), afterMs: 3_000 },
    },
    ["completed", "completed"],
  ],
  "a stop condition on the time": [
    {
      role: (clock) => {
        const work = tool("work", () => (clock.advance(600), "worked"));
        const script = [calls(use("work")), calls(use("work")), calls(use("work"))];
        return soloist(script, { tools: [work], stopWhen: [late] }).role;
      },
    },
    ["stopped", "late"],
  ],
  "an approver that does not answer in time": [
    {
      role: () => soloist([calls(PAY), says("Done.")], { tools: [payTool()] }).role,
      start: { budget: { timeMs: 100 } },
      options: { approver: () => new Promise(() => undefined), answerTimeoutMs: 5_000 },
      move: {
        when: (events) => events.some(({ type }) => type === "question.asked"),
        afterMs: 5_000,
      },
    },
    ["completed", "completed"],
  ],
};

describe("a wall clock that is set at every event", () => {
  for (const [what, [story, ended]] of Object.entries(STORIES)) {
    for (const jumpMs of [HOUR_MS, -HOUR_MS]) {
      const direction = jumpMs < 0 ? "back" : "forward";
      proves(["S7.5"], `changes nothing if it jumps an hour ${direction}: ${what}`, async () => {
        const [told, undisturbed] = [await played(story, jumpMs), await played(story, 0)];
        expect(ending(told.result)).toEqual(ended);
        expect(withoutIds(told)).toEqual(withoutIds(undisturbed));
      });
    }
  }
});

describe("a run that continues in a process with unrelated clocks", () => {
  for (const [what, skewMs] of [
    ["shows the same", 0],
    ["is an hour ahead", HOUR_MS],
    ["is an hour behind", -HOUR_MS],
  ] as const) {
    proves(
      ["S7.5"],
      `preserves used time across a pause, and reports no negative duration, if the wall clock ${what}`,
      async () => {
        const first = clockOf(5, START_MS);
        const held = tool("hold", ({ signal }) => aborted(signal));
        const script = [() => (first.advance(4_000), calls(PAY)), calls(use("hold"))];
        const { role } = soloist(script, { tools: [payTool(), held] });
        const fixture = newFixture({ clock: first });
        const budget = { timeMs: 10_000 };
        const paused = await fixture.outcome(fixture.start(role, "Do it.", { budget }));

        const next = clockOf(777_777, first.nowMs() + skewMs);
        const again = newFixture({ clock: next });
        const run = again.resume(role, paused.pausedRun, approveAll(paused));
        await until(() => hasStarted("hold")(again.sink.events));
        next.advance(5_999);
        await quiet();
        expect(again.sink.ofType("signal.raised")).toEqual([]);
        next.advance(1);
        const result = await run.settled;
        const pausedMs = Math.max(0, skewMs);
        expect([ending(result), result.durationMs, result.agents[0]?.pausedMs]).toEqual([
          ["stopped", "time_limit"],
          10_000 + pausedMs,
          pausedMs,
        ]);
        const [resumed] = again.sink.ofType("run.resumed");
        const [answered] = again.sink.ofType("question.answered");
        expect([resumed?.pausedMs, answered?.waitedMs]).toEqual([pausedMs, pausedMs]);
        const stamps = [...fixture.sink.events, ...again.sink.events].map(({ atMs }) => atMs);
        expect(stamps).toEqual(stamps.toSorted((left, right) => left - right));
      },
    );

    proves(["S7.5"], `preserves used time across a crash, if the wall clock ${what}`, async () => {
      const first = clockOf(5, START_MS);
      const store = memoryStore({ clock: first });
      const ids = sequentialIds();
      const held = tool("hold", ({ signal }) => aborted(signal));
      const script = [() => (first.advance(4_000), calls(use("work"))), calls(use("hold"))];
      const tools = [tool("work", () => "worked"), held];
      const { role } = soloist(script, { tools });
      const dying = dyingStore(store, { at: 4, how: "after" });
      const mortal = new Orchestrator({ clock: first, ids, store: dying.store });
      const lost = mortal.start(role, "Do it.", { budget: { timeMs: 10_000 } });
      expect(await rejectionOf(lost.result)).toMatchObject({ code: "store_failed" });

      const next = clockOf(777_777, first.nowMs() + skewMs);
      const sink = new RecordingSink();
      const alive = new Orchestrator({ clock: next, ids, store, sinks: [sink], roles: [role] });
      const run = await alive.resume(lost.runId, { takeOver: true });
      await until(() => hasStarted("hold")(sink.events));
      next.advance(5_999);
      await quiet();
      expect(sink.ofType("signal.raised")).toEqual([]);
      next.advance(1);
      const result = await run.settled;
      expect([ending(result), result.durationMs]).toEqual([
        ["stopped", "time_limit"],
        10_000 + Math.max(0, skewMs),
      ]);
    });
  }

  proves(
    ["S7.5"],
    "converts a deadline to a duration when it is resumed, and ignores later changes of the wall clock",
    async () => {
      const first = clockOf(5, START_MS);
      const fixture = newFixture({ clock: first });
      const held = tool("hold", ({ signal }) => aborted(signal));
      const { role } = soloist([calls(PAY), calls(use("hold"))], { tools: [payTool(), held] });
      const start = { deadlineAtMs: START_MS + 10_000 };
      const paused = await fixture.outcome(fixture.start(role, "Do it.", start));

      const next = clockOf(777_777, START_MS + 7_000);
      const again = newFixture({ clock: next });
      const run = again.resume(role, paused.pausedRun, approveAll(paused));
      next.setWallClock(START_MS - HOUR_MS);
      await until(() => hasStarted("hold")(again.sink.events));
      next.advance(2_999);
      await quiet();
      expect(again.sink.ofType("signal.raised")).toEqual([]);
      next.advance(1);
      expect(ending(await run.settled)).toEqual(["stopped", "time_limit"]);
    },
  );
});

test("applies the current wall clock to a new run", async () => {
  const clock = new ManualClock(START_MS);
  const fixture = newFixture({ clock });
  await fixture.run(soloist([says("Done.")]).role);
  clock.setWallClock(START_MS + HOUR_MS);
  await fixture.run(soloist([says("Done.")]).role);
  expect(fixture.sink.ofType("run.started").map(({ atMs }) => atMs)).toEqual([
    START_MS,
    START_MS + HOUR_MS,
  ]);
});
