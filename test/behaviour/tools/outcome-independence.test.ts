// Goal: the outcome of a call depends on no other call until the agent has to stop; then the other
// calls of the reply are cut off.
// Method: arbitrary calls in arbitrary replies under any error budget and policy, compared with the
// outcome of each call alone.

import * as fc from "fast-check";
import { expect } from "vitest";

import { findWinningSignal } from "../../../src/policies/stop-signals.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { executionsOf, playFailures } from "../../support/tool-matrix-failures.ts";
import { anyReplies, callsOf, expectedReplies } from "../../support/tool-matrix-replies.ts";
import { calls } from "../../harness/scripted-agents.ts";

const REPLIES = 300;

const CUT: ReadonlySet<string> = new Set([
  "cancelled cancelled",
  "cancelled subagent_cancelled",
  "not_executed not_executed",
]);

/** All of them if the list contains some of them, or else the list itself. */
function withinList(some: readonly string[], all: readonly string[]): readonly string[] {
  const left = [...all];
  for (const one of some) {
    const at = left.indexOf(one);
    if (at < 0) return some;
    left.splice(at, 1);
  }
  return some.length === 0 ? some : all;
}

proves(
  ["R109", "R110", "R164", "R165", "R166", "R71", "R125"],
  "leaves calls independent of each other, and stops the agent at the exact failure counts",
  async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(anyReplies, async (world) => {
        const [first = [], ...others] = world.replies.map(callsOf);
        const { errorBudget, errorPolicy } = world;
        const played = await playFailures({
          reply: first,
          more: [...others.map((reply) => calls(...reply)), says("Done.")],
          definition: { errorBudget, errorPolicy },
          options: { limits: { maxBreadthPerParent: 99, maxTotalSubagents: 99 } },
        });
        const { result, fixture } = played;
        const signals = fixture.sink
          .ofType("signal.raised")
          .filter(({ agentPath }) => agentPath === "lead");
        const expected = expectedReplies(world);
        const raised = signals.map(({ signal }) => signal.reason.code);
        const lastCalls = result.steps.at(-1)?.tools.calls.length ?? 0;
        const ends = executionsOf(played).map(({ type, errorCode }) =>
          errorCode === undefined ? type : `${type} ${errorCode}`,
        );
        // Once the agent has to stop, running calls of the same reply are cut off (S7.16).
        const isStopped = result.status === "stopped";
        const uncut = ends.map((end, index) =>
          isStopped && index >= ends.length - lastCalls && CUT.has(end)
            ? expected.ends[index]
            : end,
        );
        const isCut = uncut.some((end, index) => end !== ends[index]);
        expect({
          ends: uncut,
          signals: isCut ? withinList(raised, expected.signals) : raised,
          ending: isCut ? expected.ending : [result.status, result.reason.code],
        }).toEqual(expected);
        expect(result.reason).toEqual(findWinningSignal(result.signals)?.reason);
        seen.add(result.reason.code);
      }),
      { numRuns: REPLIES },
    );
    expect([...seen].toSorted()).toEqual(["blocked", "completed", "error_budget", "retry_limit"]);
  },
);
