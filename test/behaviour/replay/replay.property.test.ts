// Goal: the replay of any small tree has the same result. Calm trees have the same result however
// long their tools take.
// Method: random trees whose tasks define each agent: calls that take some turns, foreground or
// background subagents, failures; with tight limits and budgets, a ticking clock, and an occasional
// external request.

import * as fc from "fast-check";
import { expect, vi } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { proves } from "../../harness/proves.ts";
import { Fakes, type Act, type Build } from "../../fixtures/journals/fakes.ts";
import { gist, recorded, replayed } from "../../fixtures/journals/play.ts";
import { TickingClock } from "../../support/ticking-clock.ts";
import { playThrough, type Play, type PlannedDeath } from "../../support/journal/crash-play.ts";
import { DEATHS } from "../../support/journal/dying-store.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { spawnCall, type Thought } from "../../support/journal/thinkers.ts";

/** The plan of one agent. Its task is the JSON text of the plan. */
interface Plan {
  readonly turns: readonly number[];
  readonly isFailing: boolean;
  readonly below: readonly Plan[];
  readonly isBeside: boolean;
}

const PlanSchema: z.ZodType<Plan> = z.lazy(() =>
  z.object({
    turns: z.array(z.number()),
    isFailing: z.boolean(),
    below: z.array(PlanSchema),
    isBeside: z.boolean(),
  }),
);

const MOST_DEPTH = 2;

function plans(depth: number, mayBeBeside: boolean): fc.Arbitrary<Plan> {
  return fc.record({
    turns: fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 2 }),
    isFailing: fc.boolean().map((isSo) => isSo && depth > 0),
    below:
      depth === MOST_DEPTH
        ? fc.constant([])
        : fc.array(plans(depth + 1, mayBeBeside), { maxLength: 2 }),
    isBeside: fc.boolean().map((isSo) => isSo && mayBeBeside),
  });
}

function roleOf(fakes: Fakes, depth: number, failurePolicy: "isolate" | "fail_fast"): AgentRole {
  const name = `level${depth}`;
  return defineAgent({
    name,
    ...(depth === 0 ? {} : { description: "Works" }),
    instructions: "You do what your task says.",
    model: fakes.model(name, ({ task, results, heard }): Thought => {
      const plan = PlanSchema.parse(JSON.parse(task));
      const calls = [
        ...plan.turns.map((turns) => [`take${turns}`, { thing: "time" }] as const),
        ...plan.below.map((one) =>
          spawnCall(`level${depth + 1}`, JSON.stringify(one), { background: one.isBeside }),
        ),
      ];
      if (results.length < calls.length) return { calls };
      if (plan.isFailing) throw new Error("It fails.");
      return { text: `${results.length} results, ${heard.length} messages` };
    }),
    tools: [0, 1, 2, 3, 4, 5].map((turns) => fakes.slow(`take${turns}`, turns)),
    delegation: { background: true, failurePolicy },
    subagents: depth === MOST_DEPTH ? [] : [roleOf(fakes, depth + 1, failurePolicy)],
  });
}

interface World {
  readonly plan: Plan;
  readonly failurePolicy: "isolate" | "fail_fast";
  readonly maxTotalSubagents: number;
  readonly totalTokens: number | undefined;
  readonly request: "none" | "cancel" | "stop" | "pause" | "message";
  /** The number of the event after which the request arrives. */
  readonly at: number;
  readonly isAtOnce: boolean;
}

const calm = fc.record<World>({
  plan: plans(0, false),
  failurePolicy: fc.constant("isolate"),
  maxTotalSubagents: fc.constant(50),
  totalTokens: fc.constant(undefined),
  request: fc.constant("none"),
  at: fc.constant(0),
  isAtOnce: fc.constant(false),
});

const rough = fc.record<World>({
  plan: plans(0, true),
  failurePolicy: fc.constantFrom("isolate", "fail_fast"),
  maxTotalSubagents: fc.integer({ min: 1, max: 8 }),
  totalTokens: fc.option(fc.integer({ min: 300, max: 20_000 }), { nil: undefined }),
  request: fc.constantFrom("none", "cancel", "stop", "pause", "message"),
  at: fc.integer({ min: 1, max: 40 }),
  isAtOnce: fc.boolean(),
});

function storyOf(world: World): Build {
  const { plan, failurePolicy, maxTotalSubagents, totalTokens, request, at, isAtOnce } = world;
  const act: Act["act"] = (run) => {
    if (request === "cancel") void run.cancel("Enough.");
    if (request === "stop") run.requestStop();
    if (request === "pause") run.requestPause();
    if (request === "message") void run.steer("A message.");
  };
  return (fakes) => ({
    role: roleOf(fakes, 0, failurePolicy),
    task: JSON.stringify(plan),
    start: totalTokens === undefined ? {} : { budget: { totalTokens } },
    options: { limits: { maxDepth: MOST_DEPTH, maxTotalSubagents } },
    acts: [
      {
        when: ({ seq, type }) => seq >= at || type === "run.ended",
        act,
        isAtOnce,
      },
    ],
  });
}

const numRuns = Number(process.env["FC_RUNS"] ?? 30);

vi.setConfig({ testTimeout: 24 * 3_600_000 });

/** Gives each tool another number of turns, so that calls and subagents end in another order. */
function withOtherTurns(plan: Plan, shift: number): Plan {
  return {
    ...plan,
    turns: plan.turns.map((turns, index) => (turns * 5 + shift + index) % 6),
    below: plan.below.map((one, index) => withOtherTurns(one, shift + index + 1)),
  };
}

proves(
  ["X25", "S7.31", "D723"],
  "replays calm trees to the same result, which does not depend on the order of their effects",
  async () => {
    await fc.assert(
      fc.asyncProperty(calm, fc.integer({ min: 0, max: 5 }), async (world, shift) => {
        const build = storyOf(world);
        const { recording, result } = await recorded(build, new TickingClock(1_000));
        const again = await replayed(build, recording);
        expect(gist(again.result)).toEqual(gist(result));
        const otherPlan = withOtherTurns(world.plan, shift);
        const other = await recorded(
          storyOf({ ...world, plan: otherPlan }),
          new TickingClock(1_000),
        );
        expect(other.result.usage).toEqual(result.usage);
        expect(other.result.text).toEqual(result.text);
      }),
      { numRuns },
    );
  },
);

proves(["X25", "S7.31"], "replays rough trees to the same result", async () => {
  await fc.assert(
    fc.asyncProperty(rough, async (world) => {
      const build = storyOf(world);
      const { recording, result } = await recorded(build, new TickingClock(1_000));
      const again = await replayed(build, recording);
      expect(gist(again.result)).toEqual(gist(result));
    }),
    { numRuns },
  );
});

const deaths = fc.array(
  fc.record<PlannedDeath>({ at: fc.integer({ min: 1, max: 20 }), how: fc.constantFrom(...DEATHS) }),
  { minLength: 1, maxLength: 3 },
);

proves(
  ["R175", "X25", "S7.31"],
  "replays trees whose processes die to the same result, segment by segment",
  async () => {
    let segments = 0;
    await fc.assert(
      fc.asyncProperty(fc.oneof(calm, rough), deaths, async (world, planned) => {
        const build = storyOf({ ...world, request: "none" });
        const play = (isAlive: boolean): Play => {
          const { role, task = "", options = {}, start = {} } = build(new Fakes({ isAlive }));
          return { role, task, options, start };
        };
        const story = await playThrough(
          () => play(true),
          planned,
          (startMs) => new TickingClock(startMs),
        );
        const again = await replaysToTheSame(play(false), story);
        segments += again.segments.length;
      }),
      { numRuns },
    );
    expect(segments, "processes died").toBeGreaterThan(numRuns);
  },
);
