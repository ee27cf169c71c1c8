// Goal: a setup that fails after admission releases its places, whatever threw; an announced
// subagent ends in the events and in the result.
// Method: the role of a subagent throws at its nth property access, for every n up to its first
// model call. Each run is checked in full, and the next subagent must find its place.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { BreakingWorld } from "../../support/peers-broken-world.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

interface Fault {
  isArmed: boolean;
  /** The number of the throwing access, counted from arming. */
  nth: number;
  hasThrown: boolean;
  readings: number;
}

/** Wraps a role that throws at one of its accesses. */
function faulty(role: AgentRole, fault: Fault): AgentRole {
  return new Proxy(role, {
    get: (target, key, receiver): unknown => {
      if (fault.isArmed && !fault.hasThrown) {
        fault.readings += 1;
        if (fault.readings === fault.nth) {
          fault.hasThrown = true;
          throw new Error(`broken at ${String(key)}`);
        }
      }
      return Reflect.get(target, key, receiver);
    },
  });
}

/** Runs a lead that starts a subagent with a broken role, and then another one. */
async function played(nth: number, isKept: boolean) {
  const fault: Fault = { isArmed: false, nth, hasThrown: false, readings: 0 };
  const budget = { steps: 3, timeMs: 1_000 };
  const helper = part("helper", () => ((fault.isArmed = false), says("Ok.")), { budget });
  const role = faulty(helper.role, fault);
  const breaker = defineDelegation({
    name: "break",
    description: "Starts a helper while something is broken.",
    inputSchema: z.object({}),
    execute: async (_input, context) => {
      fault.isArmed = true;
      const outcome = await context.spawn({ role: "helper", task: "First." });
      fault.isArmed = false;
      return outcome;
    },
  });
  const script = [calls(use("break")), calls(spawn("helper", "Second.")), says("Done.")];
  const lead = part("lead", script, { subagents: [role], tools: [breaker] });
  const limits = { maxTotalSubagents: 2, maxBreadthPerParent: 2 };
  const s = newFixture({ limits, ...(isKept ? { store: memoryStore() } : {}) });
  const result = await s.run(lead.role);
  return { fault, result, s, helper };
}

for (const isKept of [false, true]) {
  const where = isKept ? "kept in a store" : "kept nowhere";
  proves(
    ["S7.21"],
    `a failed setup at any point releases its place in a run that is ${where}`,
    async () => {
      const outcomes = new Set<string>();
      let nth = 1;
      for (; ; nth += 1) {
        const { fault, result, s } = await played(nth, isKept);
        if (!fault.hasThrown) break;
        const refused = s.sink.ofType("subagent.refused").length;
        const spawned = s.sink.ofType("subagent.spawned").map(({ childId }) => childId);
        const ended = s.sink.ofType("subagent.ended").map(({ childId }) => childId);
        const agents = result.agents.slice(1);
        expect([nth, result.status, result.text]).toEqual([nth, "completed", "Done."]);
        expect([nth, ended]).toEqual([nth, spawned]);
        expect([nth, agents.map(({ agentId }) => agentId)]).toEqual([nth, spawned]);
        expect([nth, spawned.length + refused]).toEqual([nth, 2]);
        expect([nth, result.subagentsByDepth]).toEqual([nth, { 1: spawned.length }]);
        expect(result.accounts.map(({ agentId }) => agentId)).toEqual(
          result.agents.map(({ agentId }) => agentId),
        );
        expect(agents.at(-1)?.status).toBe("completed");
        const first = agents.length === 2 ? (agents[0]?.status ?? "") : "refused";
        outcomes.add(first);
      }
      expect(nth).toBeGreaterThan(20);
      expect([...outcomes].toSorted()).toEqual(["failed", "refused"]);
    },
  );
}

test("both subagents end without a fault", async () => {
  const { result, helper } = await played(0, false);
  expect([result.subagentsByDepth, helper.model.requests.length]).toEqual([{ 1: 2 }, 2]);
});

test("a run that could not start because the clock threw is not in the store", async () => {
  const store = memoryStore();
  const clock = new BreakingWorld();
  const { role } = part("lead", [says("Done.")]);
  const orchestrator = new Orchestrator({ store, clock });
  clock.breaks = "monotonicMs";
  expect(() => orchestrator.start(role, "Go.")).toThrow("The clock is broken.");
  await flushEventLoop();
  expect(await store.list()).toEqual([]);
});
