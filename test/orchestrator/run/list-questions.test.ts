// Goal: one call returns the open questions of all runs, for a page that a person answers.
// Method: runs in one store that work, are paused, are answered or cannot be read.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import type { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { approve } from "../../../src/protocol/question.ts";
import { proves } from "../../harness/proves.ts";
import { engineWorld, latch, runId, turns, type Latch } from "../../support/engine/engine-world.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

/** Calls `work` once for each thing, which needs an approval. */
function buyer(...things: readonly string[]): AgentRole {
  return defineAgent({
    name: "buyer",
    instructions: "You buy.",
    model: thinker("buyer", ({ results }) =>
      results.length === 0
        ? { calls: things.map((thing) => ["work", { thing }] as const) }
        : { text: "Bought." },
    ),
    tools: [countedTool(new Map(), "work", undefined, { needsApproval: true })],
  });
}

/** Calls `work`, which needs an approval, while a background subagent waits at the gate. */
function busyLead(gate: Latch): AgentRole {
  const look = countedTool(new Map(), "look", async () => {
    await gate.opened;
    return "seen";
  });
  const helper = defineAgent({
    name: "helper",
    description: "Helps.",
    instructions: "You help.",
    model: thinker("helper", ({ results }) =>
      results.length === 0 ? { calls: [["look", { thing: "x" }]] } : { text: "Helped." },
    ),
    tools: [look],
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0
        ? { calls: [spawnCall("helper", "Help.", { background: true }), ["work", { thing: "q" }]] }
        : { text: "Done." },
    ),
    tools: [countedTool(new Map(), "work", undefined, { needsApproval: true })],
    subagents: [helper],
    delegation: { background: true },
  });
}

/** Returns the listed questions briefly: run and argument. */
async function listed(orchestrator: Orchestrator): Promise<readonly unknown[]> {
  const { questions } = await orchestrator.listQuestions();
  return questions.map(({ runId: id, runTitle, arguments: input }) => [
    id,
    runTitle,
    input["thing"],
  ]);
}

proves(["D787"], "lists the unanswered questions of paused and active runs", async () => {
  const { process, clock, pushed } = engineWorld();
  const gate = latch();
  const role = buyer("a", "b");
  const lead = busyLead(gate);
  const here = process({ roles: [role, lead] });
  expect(await here.listQuestions()).toEqual({ questions: [], failed: [] });
  await here.start(role, "Buy.", { runId: "first" }).result;
  clock.advance(1_000);
  const busy = here.start(lead, "Go.", { runId: "second" });
  await busy.whenPersisted();
  await turns(20);
  const elsewhere = process({});
  const a = ["first", "buyer: Buy.", "a"];
  const b = ["first", "buyer: Buy.", "b"];
  const q = ["second", "lead: Go.", "q"];
  expect(await listed(elsewhere)).toEqual([a, b, q]);
  expect(here.findActiveRun("second")).toBe(busy);

  const { questions } = await elsewhere.listQuestions();
  const [first, , third] = questions;
  if (first === undefined || third === undefined) throw new Error("Nothing was asked.");
  await elsewhere.answer(first.runId, [approve(first)]);
  expect(await listed(here)).toEqual([b, q]);
  await elsewhere.answer(third.runId, [approve(third)]); // Its run is still busy.
  expect(await listed(here)).toEqual([b]);

  gate.open();
  expect((await pushed(busy.result)).status).toBe("completed");
  const resumed = await here.resume("first");
  expect((await resumed.result).status).toBe("paused");
  expect(await listed(here)).toEqual([b]);
});

proves(["D787"], "lists the questions of other runs beside a run that cannot be read", async () => {
  const { process, store, clock } = engineWorld();
  const role = buyer("a");
  const here = process({ roles: [role] });
  const owner = { token: "t", hostname: "elsewhere", processId: 1 };
  const ownership = await store.create(runId("broken"), "buyer: Buy.", owner);
  await store.append(ownership, { firstNumber: 1, records: ["{"] });
  await store.release(ownership, "paused");
  clock.advance(1_000);
  await here.start(role, "Buy.", { runId: "whole" }).result;
  expect(await here.listQuestions()).toMatchObject({
    questions: [{ runId: "whole", toolName: "work" }],
    failed: [{ runId: "broken", error: { code: "invalid_journal" } }],
  });
});
