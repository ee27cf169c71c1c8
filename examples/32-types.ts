// A typed result and a typed context, both inferred. The context is not persisted.

import assert from "node:assert/strict";

import { z } from "zod";

import {
  approve,
  defineAgent,
  defineTool,
  memoryStore,
  Orchestrator,
  type ToolContext,
} from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

interface Customer {
  readonly customerId: string;
}

interface Shop {
  readonly orders: ReadonlyMap<string, readonly string[]>;
}

const listOrders = defineTool({
  name: "listOrders",
  description: "Lists the orders of the customer.",
  inputSchema: z.object({}),
  execute: (_input, { context }: ToolContext<Customer & Shop>) =>
    context.orders.get(context.customerId) ?? [],
});

const refund = defineTool({
  name: "refund",
  description: "Refunds an order of the customer.",
  inputSchema: z.object({ order: z.string() }),
  needsApproval: true,
  execute: ({ order }, { context }: ToolContext<Customer>) =>
    `${order} of ${context.customerId} is refunded.`,
});

const clerk = defineAgent({
  name: "clerk",
  instructions: ({ customerId }) => `You serve customer ${customerId} alone.`,
  model: new ScriptedModel([
    asks("listOrders", {}),
    asks("refund", { order: "A-1" }),
    asks("Finish", { refunded: ["A-1"] }),
  ]),
  tools: [listOrders, refund],
  output: z.object({ refunded: z.array(z.string()) }),
});

const shop: Shop = { orders: new Map([["ann", ["A-1", "A-2"]]]) };
const orchestrator = new Orchestrator({ roles: [clerk], store: memoryStore() });
const run = orchestrator.start(clerk, "My first order is broken.", {
  context: { ...shop, customerId: "ann" }, // required by the tools
});
const { pausedRun, questions } = await run.result;
assert.ok(pausedRun);

const answers = questions.map((question) => approve(question));
const resumed = orchestrator.resume(pausedRun, {
  answers,
  context: { ...shop, customerId: "ann" }, // not saved, so pass it again
});
const { output } = await resumed.orThrow();
console.log(output.refunded.join(", ")); // output: { refunded: string[] }
assert.deepEqual(output, { refunded: ["A-1"] });

const helper = defineAgent({
  name: "helper",
  description: "Answers questions about orders",
  instructions: "Answer.",
  model: new ScriptedModel([asks("listOrders", {}), says("There are two.")]),
  tools: [listOrders],
});
const lead = defineAgent({
  name: "lead",
  instructions: "Lead.",
  model: new ScriptedModel([
    asks("SpawnSubagent", { role: "helper", task: "How many orders are there?" }),
    says("Two."),
  ]),
  subagents: [helper], // the lead asks for what its subagents ask for
});
const led = await orchestrator
  .start(lead, "How many orders are there?", { context: { ...shop, customerId: "ann" } })
  .orThrow();
assert.equal(led.text, "Two.");

const { runs, failed } = await orchestrator.resumeLostRuns({
  context: ({ metadata }) => {
    const customerId = z.string().parse(metadata["customer"]);
    return { ...shop, customerId };
  },
});
assert.deepEqual([runs, failed], [[], []]); // none was lost
