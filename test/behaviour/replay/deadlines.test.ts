// Goal: a time limit ends an agent in a replay where it did in the recording, whatever the clock of
// the recording showed at that moment.
// Method: a clock like that of a machine, whose timers fire a little before or after the shown
// time.

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Clock } from "../../../src/kernel/clock.ts";
import type { StartOptions } from "../../../src/orchestrator/run/run-options.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { loadRecording, type Recording } from "../../../src/testing/replay/recording.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { Fakes } from "../../fixtures/journals/fakes.ts";
import { gist, replayed } from "../../fixtures/journals/play.ts";
import { inTurn, lead, worker } from "../../fixtures/journals/roles.ts";
import { spawnCall } from "../../support/journal/thinkers.ts";

/** A clock whose timers fire a little before or after the shown time. */
class LooseClock implements Clock {
  readonly timers = new ManualClock();
  shownMs = 0;

  nowMs(): number {
    return this.shownMs;
  }

  monotonicMs(): number {
    return this.shownMs;
  }

  setTimer(delayMs: number, wake: () => void): () => void {
    return this.timers.setTimer(delayMs, wake);
  }
}

interface Fixture {
  readonly role: (fakes: Fakes) => AgentRole;
  readonly start?: StartOptions;
  /** Moves of the clock, each made once after an event. */
  readonly moves: readonly {
    readonly when: (event: EspalierEvent) => boolean;
    readonly move: (clock: LooseClock) => void;
    readonly isAtOnce?: boolean;
  }[];
}

async function recorded({ role, start = {}, moves }: Fixture): Promise<{
  readonly recording: Recording;
  readonly result: RunResult;
}> {
  const clock = new LooseClock();
  const store = memoryStore({ clock: new ManualClock() });
  const left = [...moves];
  const take = (event: EspalierEvent): void => {
    const at = left.findIndex(({ when }) => when(event));
    const [due] = at === -1 ? [] : left.splice(at, 1);
    if (due?.isAtOnce === true) due.move(clock);
    else if (due !== undefined) setImmediate(() => due.move(clock));
  };
  const fixture = newFixture({ clock, store, sinks: [{ emit: take }] });
  const run: Run = fixture.start(role(new Fakes({ isAlive: true })), "Go.", start);
  const result = await fixture.outcome(run);
  expect(left.length, "all has happened").toBe(0);
  expect(clock.timers.pendingTimers, "timers left behind").toBe(0);
  return { recording: await loadRecording(store, run.runId), result };
}

async function comesToTheSame(played: Fixture): Promise<RunResult> {
  const { recording, result } = await recorded(played);
  const build = (fakes: Fakes): { readonly role: AgentRole } => ({ role: played.role(fakes) });
  const again = await replayed(build, recording);
  expect(gist(again.result)).toEqual(gist(result));
  return result;
}

/** Returns a lead with a subagent that does not end for a while, and others that do. */
function crew(fakes: Fakes): AgentRole {
  const calls = [spawnCall("endless", "a"), spawnCall("worker", "b"), spawnCall("worker", "c")];
  const limited = defineAgent({
    name: "endless",
    description: "Does not end",
    instructions: "You go on.",
    model: fakes.model("endless", () => ({ calls: [["wait", { thing: "it" }]] })),
    tools: [fakes.endless("wait")],
    budget: { timeMs: 1_000 },
  });
  return lead(fakes, inTurn(calls, [["look", { thing: "map" }]]), {
    tools: [fakes.slow("look", 3)],
    subagents: [limited, worker(fakes)],
  });
}

function tool(toolName: string, type = "tool.started"): (event: EspalierEvent) => boolean {
  return (event) => event.type === type && "toolName" in event && event.toolName === toolName;
}

function ended(agentPath: string): (event: EspalierEvent) => boolean {
  return (event) => event.type === "agent.ended" && event.agentPath === agentPath;
}

/** Moves the shown time and the timers. */
function moved(shownMs: number, timersMs: number): (clock: LooseClock) => void {
  return (clock) => {
    clock.shownMs += shownMs;
    clock.timers.advance(timersMs);
  };
}

const FIRED = {
  "in time": [[1_000, 1_000]],
  early: [[999, 1_000]],
  late: [
    [1_030, 0],
    [0, 1_000],
  ],
} as const;

for (const [name, [first, second]] of Object.entries(FIRED))
  proves(["R175", "X25"], `ends the same agent by a time limit that fires ${name}`, async () => {
    const moves = [
      { when: ended("lead/worker#1"), move: moved(first[0], first[1]) },
      ...(second === undefined
        ? []
        : [{ when: ended("lead/worker#2"), move: moved(second[0], second[1]) }]),
    ];
    const { agents } = await comesToTheSame({ role: crew, moves });
    expect(agents.map(({ reason }) => reason.code)).toEqual([
      "completed",
      "time_limit",
      "completed",
      "completed",
    ]);
  });

test("replays a time limit of the run, early and late, during events and between them", async () => {
  for (const [first] of Object.values(FIRED))
    for (const isAtOnce of [true, false]) {
      const late = { when: tool("measure", "tool.ended"), move: moved(0, 1_000), isAtOnce };
      const { reason } = await comesToTheSame({
        role: crew,
        start: { budget: { timeMs: 500 } },
        moves: [
          { when: tool("measure"), move: moved(first[0], first[1]), isAtOnce },
          ...(first[1] === 0 ? [late] : []),
        ],
      });
      expect(reason.code).toBe("time_limit");
    }
});

test("replays a deadline by the wall clock", async () => {
  const { reason } = await comesToTheSame({
    role: crew,
    start: { deadlineAtMs: 700 },
    moves: [{ when: tool("wait"), move: moved(650, 700) }],
  });
  expect(reason.code).toBe("time_limit");
});

test("replays a time limit that is reached after the run has completed", async () => {
  const { status } = await comesToTheSame({
    role: (fakes) =>
      lead(fakes, inTurn([["look", { thing: "map" }]]), { tools: [fakes.tool("look")] }),
    start: { budget: { timeMs: 500 } },
    moves: [{ when: ended("lead"), move: moved(500, 500), isAtOnce: true }],
  });
  expect(status).toBe("completed");
});
