// Goal: views show the calls of a step in the order of the reply. A cause names the call that
// exhausts the error budget when it is replayed in that order.
// Method: replies of up to five calls with random outcomes, delays of guards and tools, sequential
// tools, slots and pauses; live and stored events.

import {
  array,
  assert,
  asyncProperty,
  boolean,
  constantFrom,
  integer,
  record,
  type Arbitrary,
} from "fast-check";
import { expect } from "vitest";
import { z } from "zod";

import {
  approve,
  defineTool,
  deny,
  memoryStore,
  toolGuard,
  ToolRetryError,
  type AgentRole,
  type Answer,
  type RunResult,
} from "../../src/index.ts";
import { isRecord } from "../../src/kernel/json.ts";
import { RunRecord } from "../../src/orchestrator/durability/run-record.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import { countFailures, NO_FAILURES } from "../../src/policies/failure-counts.ts";
import type { Question } from "../../src/protocol/question.ts";
import type { StepRecord } from "../../src/protocol/step-record.ts";
import { says, type ScriptedReply } from "../../src/testing/index.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { RunFold } from "../../src/read-model/run-fold.ts";
import { proves } from "../harness/proves.ts";
import { newFixture, flushEventLoop, type Fixture } from "../harness/run-scripted.ts";
import { agent } from "../support/read-model/causes-in.ts";
import { foldOf } from "../support/read-model/fold-of.ts";

const RUNS = Number(process.env["FC_RUNS"] ?? 200);

const OUTCOMES = [
  "ok",
  "fail",
  "retry",
  "unknown",
  "invalid",
  "deny",
  "approved",
  "denied",
] as const;

const calls = record({
  outcome: constantFrom("fail", ...OUTCOMES),
  guardMs: integer({ min: 0, max: 3 }),
  toolMs: integer({ min: 0, max: 3 }),
});

const worlds = record({
  replies: array(array(calls, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 3 }),
  sequential: array(boolean(), { minLength: 5, maxLength: 5 }),
  slots: integer({ min: 1, max: 5 }),
  limit: constantFrom("maxConsecutiveErrors", "maxToolErrors", "maxRetryErrors"),
  maximum: integer({ min: 0, max: 2 }),
});

type ValueOf<Values> = Values extends Arbitrary<infer One> ? One : never;
type Call = ValueOf<typeof calls>;
type World = ValueOf<typeof worlds>;
type Limit = World["limit"];

proves(
  ["D540", "D541"],
  "orders calls as in the reply and names the call that exhausts the error budget, live and stored",
  async () => {
    let limited = 0;
    await assert(
      asyncProperty(worlds, async (world) => {
        const store = memoryStore();
        const s = newFixture({ store, concurrency: { toolCalls: world.slots } });
        const result = await play(s, world);
        const { runId, reason, agents } = result;
        const stored = new RunFold(runId);
        await new RunRecord(store, runId).advance((event, line) => stored.apply(event, line));
        const steps = agents[0]?.steps ?? [];
        const isLimited = reason.code === "error_budget";
        if (isLimited) limited += 1;
        for (const fold of [foldOf(s.sink.events), stored]) {
          expect(callsIn(fold)).toEqual(steps.map(({ tools }) => tools.calls.map(nameOf)));
          if (!isLimited) continue;
          const [cause] = fold.causes();
          expect([cause?.step, cause?.toolName, cause?.code]).toEqual(
            budgetCause(steps, world.limit),
          );
        }
      }),
      { numRuns: RUNS },
    );
    expect(limited).toBeGreaterThan(RUNS / 10);
  },
  24 * 3_600_000,
);

/** Runs the agent to its end and answers each question. */
async function play(s: Fixture, world: World): Promise<RunResult> {
  const role = roleOf(s.clock, world);
  let result = await rest(s, s.start(role));
  while (result.status === "paused")
    result = await rest(s, s.resume(role, result.pausedRun, answersTo(result)));
  return result;
}

async function rest(s: Fixture, run: Run): Promise<RunResult> {
  const end = { isReached: false };
  void run.settled.then(() => (end.isReached = true));
  for (let turns = 0; !end.isReached && turns < 1_000; turns += 1) {
    await flushEventLoop();
    s.clock.advance(1);
  }
  return s.outcome(run);
}

function roleOf(clock: ManualClock, { replies, sequential, limit, maximum }: World): AgentRole {
  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => void clock.setTimer(ms, () => resolve()));
  const input = z.object({ outcome: z.enum(OUTCOMES), guardMs: z.int(), toolMs: z.int() });
  const tools = sequential.map((sequential, index) =>
    defineTool({
      name: `work${index}`,
      description: "Works.",
      inputSchema: input,
      sequential,
      maxRetries: 99,
      maxIdenticalCalls: "unlimited",
      execute: async ({ outcome, toolMs }) => {
        if (toolMs > 0) await pause(toolMs);
        if (outcome === "fail") throw new Error("It is broken.");
        if (outcome === "retry") throw new ToolRetryError("Correct it.");
        return "text";
      },
    }),
  );
  const guard = toolGuard(async (call) => {
    const { outcome, guardMs } = input.parse(call.arguments);
    if (guardMs > 0) await pause(guardMs);
    if (outcome === "deny") return { type: "deny", reason: "It is locked." };
    if (outcome === "approved" || outcome === "denied") return { type: "ask", reason: "Look." };
    return { type: "allow" };
  });
  const unlimited = { maxConsecutiveErrors: 99, maxToolErrors: 99, maxRetryErrors: 99 };
  return agent("lead", [...replies.map(replyOf), says("Done.")], {
    tools,
    guards: [guard],
    errorBudget: { ...unlimited, [limit]: maximum },
  });
}

function replyOf(made: readonly Call[]): ScriptedReply {
  return {
    calls: made.map((call, index) => ({
      toolName: `${call.outcome === "unknown" ? "none" : "work"}${index}`,
      arguments: call.outcome === "invalid" ? {} : call,
    })),
  };
}

function answersTo({ questions }: RunResult): readonly Answer[] {
  return questions.map((question) =>
    isDenied(question) ? deny(question, "No.") : approve(question),
  );
}

function isDenied({ arguments: asked }: Question): boolean {
  return isRecord(asked) && asked["outcome"] === "denied";
}

function nameOf({ toolName }: { readonly toolName: string }): string {
  return toolName;
}

function callsIn({ root }: RunFold): readonly (readonly string[])[] {
  return (root?.steps ?? []).map((step) => step.calls.map(nameOf));
}

/** Replays the failure counts call by call, in the order of the replies. */
function budgetCause(steps: readonly StepRecord[], limit: Limit): readonly unknown[] {
  const kind = KINDS[limit];
  let counts = NO_FAILURES;
  let most = 0;
  let first: readonly unknown[] = [];
  let cause = first;
  for (const { number, tools } of steps)
    for (const execution of tools.executions) {
      const before = counts[kind];
      counts = countFailures(counts, [execution]);
      if (before === 0 && counts[kind] === 1)
        first = [number, execution.call.toolName, execution.errorCode];
      if (counts[kind] > most) cause = first;
      most = Math.max(most, counts[kind]);
    }
  return cause;
}

const KINDS = {
  maxConsecutiveErrors: "consecutiveErrors",
  maxToolErrors: "toolErrors",
  maxRetryErrors: "retryErrors",
} as const;
