// A run with every kind of agent end: the lead's children complete, reach a limit, fail, are cut
// off by the model, and are cancelled.

import { expect } from "vitest";

import type { OrchestratorOptions } from "../../src/orchestrator/tree/orchestrator-settings.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { asks, says } from "../../src/testing/scripted-model.ts";
import { latch, newFixture, type Fixture } from "../harness/run-scripted.ts";
import { calls, part, spawn, until } from "../harness/scripted-agents.ts";

/** A settled run with its fixture. */
export interface Watched {
  readonly s: Fixture;
  readonly result: RunResult;
}

/** Runs a lead with four children and a grandchild, each with a different end. */
export async function fiveEndings(options: OrchestratorOptions = {}): Promise<Watched> {
  const completes = part("completes", [says("Complete.")]);
  const stops = part("stops", () => asks("nothing", {}), { budget: { steps: 2 } });
  const fails = part("fails", [{ error: new Error("A bug.") }]);
  const cut = part("cut", [
    says("Half a", { finishReason: "length", usage: { outputTokens: 15 } }),
  ]);
  const waits = part("waits", [calls(spawn("cut")), { after: latch().opened }], {
    subagents: [cut.role],
  });
  const children = [completes, stops, fails, waits];
  const lead = part(
    "lead",
    [calls(...children.map((one) => spawn(one.role.name))), says("Done.")],
    {
      subagents: children.map((one) => one.role),
    },
  );
  const s = newFixture(options);
  const run = s.start(lead.role);
  await until(
    () => waits.model.requests.length === 2 && s.sink.ofType("subagent.ended").length === 4,
  );
  const waiting = s.sink.ofType("agent.started").find((event) => event.role === "waits");
  run.cancelAgent(waiting?.agentId ?? expect.fail("no agent waits"));
  return { s, result: await s.outcome(run) };
}
