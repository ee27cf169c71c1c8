// Goal: persisting a run is cheap: a step adds little to its journal, however many came before, and
// rarely waits for the store.
// Method: one agent that calls one tool in each of many steps, in a store that counts; ids, times
// and traces are real.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";

interface Kept {
  readonly bytes: number;
  readonly appends: number;
}

async function keptOf(steps: number, subagents: readonly AgentRole[] = []): Promise<Kept> {
  const inner = memoryStore();
  let [bytes, appends] = [0, 0];
  const store: Store = forwarding(inner, {
    append: async (ownership, batch) => {
      appends += 1;
      for (const record of batch.records) bytes += Buffer.byteLength(record);
      await inner.append(ownership, batch);
    },
  });
  const add = defineTool({
    name: "add",
    description: "Adds two numbers.",
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    execute: ({ a, b }) => String(a + b),
  });
  const role = defineAgent({
    name: "lead",
    instructions: "You work.",
    model: new ScriptedModel([
      ...Array.from({ length: steps }, (_none, at) => asks("add", { a: at, b: 1 })),
      says("Done."),
    ]),
    tools: [add],
    subagents,
  });
  const { status } = await new Orchestrator({
    store,
    clock: new ManualClock(),
    ids: sequentialIds(),
  }).start(role, "Begin.").result;
  expect(status).toBe("completed");
  return { bytes, appends };
}

test("adds at most 4 KB to the journal per step of a tool call, after ten steps as after three hundred", async () => {
  const [ten, sixty, threeHundred] = [await keptOf(10), await keptOf(60), await keptOf(300)];
  const perStep = (sixty.bytes - ten.bytes) / 50;
  expect(perStep).toBeLessThan(4_000);
  expect((threeHundred.bytes - sixty.bytes) / 240).toBeLessThan(perStep * 1.05);
});

test("writes a step of a tool call in two batches for an agent without subagents, else in three", async () => {
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: new ScriptedModel([]),
  });
  const perStep = async (subagents: readonly AgentRole[]): Promise<number> => {
    const [ten, sixty] = [await keptOf(10, subagents), await keptOf(60, subagents)];
    return (sixty.appends - ten.appends) / 50;
  };
  expect([await perStep([]), await perStep([worker])]).toEqual([2, 3]);
});
