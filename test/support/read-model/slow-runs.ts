// Runs whose models take a second for each reply, and the spans that their views draw.

import { defineAgent, type AgentDefinition } from "../../../src/agent/define-agent.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { says, ScriptedModel, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import type { AgentFold } from "../../../src/read-model/agent-fold.ts";
import { SPAN_ENDS, SPAN_KINDS, SPAN_WIDTH } from "../../../src/read-model/viewer-data.ts";
import { flushEventLoop, type Fixture } from "../../harness/run-scripted.ts";
import { calls, spawn } from "../../harness/scripted-agents.ts";

export const SECOND = 1_000;

/** A role whose model takes a second for each reply and uses one output token per word. */
export function slowRole(
  { clock }: Fixture,
  name: string,
  script: readonly ScriptStep[] | (() => ReturnType<typeof says>),
  more: Partial<AgentDefinition> = {},
): AgentRole {
  const scripted = new ScriptedModel(script);
  return defineAgent({
    name,
    description: `Works as ${name}.`,
    instructions: `You are ${name}.`,
    delegation: { maxIdenticalDelegations: "unlimited" },
    ...more,
    model: {
      provider: "scripted",
      id: name,
      generate: async (request, options) => {
        await new Promise<void>((wake) => void clock.setTimer(SECOND, wake));
        return await scripted.generate(request, options);
      },
    },
  });
}

/** Advances the clock in steps of half a second until the run has ended. */
export async function played(s: Fixture, run: ReturnType<Fixture["start"]>): Promise<void> {
  for (await flushEventLoop(); s.sink.ofType("run.ended").length === 0; await flushEventLoop())
    s.clock.advance(SECOND / 2);
  await s.outcome(run);
}

/** Returns the sum of all spans of a kind in milliseconds. */
export function sumOf(agents: readonly AgentFold[], kind: (typeof SPAN_KINDS)[number]): number {
  return agents
    .flatMap(({ spans }) => spansOf(spans.numbers))
    .filter((span) => span.kind === kind)
    .reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
}

function spansOf(numbers: readonly number[]) {
  return Array.from({ length: numbers.length / SPAN_WIDTH }, (_none, nth) => {
    const at = nth * SPAN_WIDTH;
    const [kind = 0, fromMs = 0, toMs = 0, end = 0, , account = -1] = numbers.slice(at);
    return { kind: SPAN_KINDS[kind], fromMs, toMs, end: SPAN_ENDS[end], account };
  });
}

export function written(agent: AgentFold | undefined): readonly string[] {
  return spansOf(agent?.spans.numbers ?? []).map(
    ({ kind, fromMs, toMs, end, account }) =>
      `${kind} ${fromMs}–${toMs} ${end}${account === -1 ? "" : ` of ${account}`}`,
  );
}

/** An attempt that fails after this many output tokens and is retried at once. */
export function breaksAfter(lostOutputTokens: number): ScriptStep {
  const options = { code: "model_unavailable", message: "Cut.", retryAfterMs: 0 } as const;
  return { error: new ModelError({ ...options, lostOutputTokens }) };
}

/**
 * A lead with two subagents: until its reply, the first reserves the budget that the second needs
 * for its second attempt.
 */
export function brokenRun(
  s: Fixture,
  broken: AgentRole,
  held: Promise<void>,
  outputTokens = 115,
): ReturnType<Fixture["start"]> {
  const slow = slowRole(s, "slow", [{ ...says("Slow."), after: held }], { maxOutputTokens: 50 });
  const lead = slowRole(s, "lead", [calls(spawn("slow"), spawn("broken")), says("Done.")], {
    maxOutputTokens: 10,
    subagents: [slow, broken],
  });
  return s.start(lead, "Go.", { budget: { outputTokens } });
}

export const RETRY = { retryPolicy: { maxAttempts: 5 } };

/** Advances the clock to a moment in steps of a tenth of a second. */
export async function playedUntil(s: Fixture, atMs: number): Promise<void> {
  for (await flushEventLoop(); s.clock.nowMs() < atMs; await flushEventLoop())
    s.clock.advance(SECOND / 10);
}

export function steps(agent: AgentFold | undefined): readonly string[] {
  const { numbers = [] } = agent?.spans ?? {};
  return written(agent).map((text, nth) => {
    const step = numbers[nth * SPAN_WIDTH + 4];
    return `${text.replace(/ of \d+$/, "")}, step ${step}`;
  });
}
