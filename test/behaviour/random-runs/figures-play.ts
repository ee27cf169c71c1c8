// Plays a random world to its end: with a small budget or few slots, cancelled, paused and resumed,
// as its random stream decides.

// oxlint-disable-next-line no-unassigned-import -- the loop loads it late; time must not pass meanwhile
import "../../../src/agent/hooked-model-call.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { approve, deny, type Answer } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { newFixture, flushEventLoop, type Fixture } from "../../harness/run-scripted.ts";
import { metricRecorder, type Readings } from "../../support/telemetry/recorded-metrics.ts";
import { recorder, type RecordedSpan } from "../../support/telemetry/recorded-spans.ts";
import type { LoggedAgent } from "./figures-log.ts";
import { Dice, makeWorld } from "./figures-world.ts";

/** A run that has ended, with everything that was recorded. */
export interface Played {
  readonly agents: readonly LoggedAgent[];
  readonly result: RunResult;
  readonly events: readonly EspalierEvent[];
  readonly spans: readonly RecordedSpan[];
  readonly metrics: Readings;
  readonly store: Store;
  readonly nowMs: number;
  /** The agents end as their models decide; nothing from outside ends them. */
  readonly isUndisturbed: boolean;
  readonly budget: Readonly<Record<string, number>>;
}

const STEP_MS = 250;
const MOST_STEPS = 2_000;
const QUIET_TURNS = 4;

type Scarcity = "none" | "slots" | "room" | "both" | "tokens";

const SCARCITIES = ["none", "slots", "room", "both", "tokens"] as const;

export async function playWorld(seed: number): Promise<Played> {
  const dice = new Dice(seed * 17 + 3);
  const scarcity: Scarcity = dice.pick(SCARCITIES);
  const hasQuestions = dice.once(3);
  const cancelAtMs = dice.once(5) ? 1 + dice.roll(4_000) : undefined;
  const cancelsAgentAtMs = dice.once(5) ? 1 + dice.roll(4_000) : undefined;
  const pauseAtMs = dice.once(4) ? 1 + dice.roll(3_000) : undefined;
  const { tracer, spans } = recorder();
  const { meter, read } = metricRecorder();
  const store = memoryStore();
  const hasSlots = scarcity === "slots" || scarcity === "both";
  const s = newFixture({
    tracing: openTelemetry({ tracer, meter }),
    store,
    retryPolicy: { maxAttempts: 3, random: () => 0 },
    ...(hasSlots ? { concurrency: { modelCalls: 1 + dice.roll(2), toolCalls: 2 } } : {}),
  });
  const isPriced = dice.once(2);
  const world = makeWorld(seed, { clock: s.clock, hasQuestions, isPriced });
  const budget = { ...budgetOf(scarcity, dice), ...(isPriced ? { costUsd: 10 } : {}) };
  let run = s.start(world.root, "Do it.", { budget });
  let isOver = false;
  for (let round = 0; ; round += 1) {
    if (round > MOST_STEPS) throw new Error(`World ${seed} does not end.`);
    isOver = await isAtRest(s);
    if (isOver) {
      const result = await s.outcome(run);
      if (result.status !== "paused") {
        return {
          agents: world.agents.filter((agent) =>
            result.agents.some((one) => one.role === agent.role),
          ),
          result,
          events: s.sink.events,
          spans: spans(),
          metrics: await read(),
          store,
          nowMs: s.clock.nowMs(),
          isUndisturbed:
            scarcity !== "room" &&
            scarcity !== "both" &&
            scarcity !== "tokens" &&
            cancelAtMs === undefined &&
            cancelsAgentAtMs === undefined,
          budget,
        };
      }
      s.clock.advance(700);
      run = s.resume(world.root, result.pausedRun, answersTo(result, dice));
    }
    const before = s.clock.nowMs();
    s.clock.advance(STEP_MS);
    const isDue = (atMs: number | undefined): boolean =>
      atMs !== undefined && before < atMs && atMs <= s.clock.nowMs();
    if (isDue(pauseAtMs)) run.requestPause();
    if (isDue(cancelAtMs)) void run.cancel("Enough.");
    if (isDue(cancelsAgentAtMs)) {
      const alive = s.sink.ofType("agent.started").at(-1);
      if (alive !== undefined) run.cancelAgent(alive.agentId, "Not needed.");
    }
  }
}

/** Waits until nothing happens without time. Returns true if the run has ended or is paused. */
async function isAtRest({ sink, clock }: Fixture): Promise<boolean> {
  const state = (): string => `${sink.events.length} ${clock.pendingTimers}`;
  for (let quiet = 0, before = state(); quiet < QUIET_TURNS; quiet += 1) {
    await flushEventLoop();
    if (state() !== before) quiet = 0;
    before = state();
  }
  const last = sink.events.at(-1)?.type;
  return last === "run.ended" || last === "run.paused";
}

function budgetOf(scarcity: Scarcity, dice: Dice): Readonly<Record<string, number>> {
  const limits = { steps: 100, toolCalls: 100 };
  if (scarcity === "room" || scarcity === "both")
    return { ...limits, outputTokens: 150 + dice.roll(600) };
  if (scarcity === "tokens") return { ...limits, totalTokens: 150 + dice.roll(1_500) };
  return { ...limits, totalTokens: 100_000 };
}

function answersTo({ questions }: RunResult, dice: Dice): readonly Answer[] {
  return questions.map((question) =>
    dice.once(2) ? approve(question) : deny(question, "Not today."),
  );
}
