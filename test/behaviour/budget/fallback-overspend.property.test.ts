// Goal: a budget is overspent by at most one request's excess per agent, however often models fail,
// however much they write beyond their caps, and however many fallbacks replace them.
// Method: random trees of answers under random budgets; the excess of each request is calculated
// from its script and its cap.

import * as fc from "fast-check";
import { expect } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import type { Model, ModelRequest } from "../../../src/model/model.ts";
import { withFallback } from "../../../src/model/with-fallback.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { ScriptedModel, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { spawn } from "../../harness/scripted-agents.ts";

const INPUT_TOKENS = 10;
const CAP = 40;
const RUNS = { numRuns: 300 };

/**
 * The reaction of a model to one request: it writes this many tokens and then fails or replies, or
 * it fails before any output.
 */
type Act =
  | { readonly written: number; readonly ends: "replies" | "breaks" }
  | { readonly ends: "refuses" };

const act: fc.Arbitrary<Act> = fc.oneof(
  fc.record({
    written: fc.oneof(fc.nat(CAP), fc.nat(400)),
    ends: fc.constantFrom("replies" as const, "breaks" as const),
  }),
  fc.constant({ ends: "refuses" as const }),
);

const world = fc.record({
  budget: fc.integer({ min: 60, max: 1_500 }),
  maxAttempts: fc.integer({ min: 1, max: 5 }),
  /** By agent, then by its models. */
  agents: fc.array(
    fc.array(fc.array(act, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 3 }),
    { minLength: 1, maxLength: 3 },
  ),
});

/** The usage of each agent's requests beyond their leases. */
type Excesses = Map<string, number[]>;

function replyOf(act_: Act, calls: ScriptedReply["calls"] = []): ScriptedReply {
  if (act_.ends === "refuses")
    return {
      error: new ModelError({ code: "model_unavailable", message: "Down.", retryAfterMs: 0 }),
    };
  const { written } = act_;
  if (act_.ends === "breaks") {
    const more = { retryAfterMs: 0, lostOutputTokens: written };
    return { error: new ModelError({ code: "model_unavailable", message: "Cut.", ...more }) };
  }
  const usage = { inputTokens: INPUT_TOKENS, outputTokens: written };
  return { text: "Done.", calls, usage };
}

/** A model of an agent that repeats its acts cyclically. */
function modelOf(
  name: string,
  acts: readonly Act[],
  more: {
    readonly agent: string;
    readonly excesses: Excesses;
    readonly children: readonly string[];
  },
): Model {
  let asked = 0;
  const { agent, excesses, children } = more;
  const next = ({ maxOutputTokens, messages }: ModelRequest): ScriptedReply => {
    const now = acts[asked % acts.length] ?? { ends: "refuses" };
    asked += 1;
    const written = now.ends === "refuses" ? 0 : now.written;
    const excess = Math.max(0, written - maxOutputTokens);
    excesses.set(agent, [...(excesses.get(agent) ?? []), excess]);
    const isFirst = messages.every(({ role }) => role !== "tool");
    return replyOf(now, isFirst ? children.map((child) => spawn(child)) : []);
  };
  return new ScriptedModel(next, { id: name });
}

function roleOf(
  name: string,
  models: readonly (readonly Act[])[],
  excesses: Excesses,
  children: readonly AgentRole[],
): AgentRole {
  const names = children.map((child) => child.name);
  const [first, second, ...others] = models.map((acts, index) =>
    modelOf(`${name}-${index}`, acts, { agent: name, excesses, children: names }),
  );
  if (first === undefined) throw new Error("An agent has a model.");
  const model =
    second === undefined ? first : withFallback([first, second, ...others], { cooldownMs: 0 });
  return defineAgent({
    name,
    description: "Works.",
    instructions: "Work.",
    model,
    maxOutputTokens: CAP,
    ...(children.length > 0 ? { subagents: children } : {}),
  });
}

proves(
  ["M69"],
  "overspends a budget by at most one request's excess per agent, with any attempts and fallbacks",
  async () => {
    let overspent = 0;
    await fc.assert(
      fc.asyncProperty(world, async ({ budget, maxAttempts, agents }) => {
        const excesses: Excesses = new Map();
        const [lead = [], ...others] = agents;
        const children = others.map((models, index) =>
          roleOf(`child${index + 1}`, models, excesses, []),
        );
        const role = roleOf("lead", lead, excesses, children);
        const clock = new ManualClock();
        const retry = { maxAttempts, random: () => 0 };
        const orchestrator = new Orchestrator({ clock, retryPolicy: retry });
        const run = orchestrator.start(role, "Go.", { budget: { totalTokens: budget } });
        // Waits of zero length end as soon as the clock moves.
        const moving = { isOver: false };
        const ended = run.settled.finally(() => (moving.isOver = true));
        while (!moving.isOver) {
          await flushEventLoop();
          clock.advance(1);
        }
        const { usage, accounts } = await ended;
        const allowed = [...excesses.values()].reduce((sum, list) => sum + Math.max(...list), 0);
        expect(usage.total.totalTokens).toBeLessThanOrEqual(budget + allowed);
        if (usage.total.totalTokens > budget) overspent += 1;
        for (const { reserved } of accounts) expect(reserved.totalTokens).toBe(0);
      }),
      RUNS,
    );
    expect(overspent, "worlds that overspend").toBeGreaterThan(RUNS.numRuns / 10);
    await flushEventLoop();
    takeWarnings(); // From implausible figures, which are charged by our own count.
  },
);
