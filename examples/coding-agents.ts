import { z } from "zod";

import {
  approve,
  defineAgent,
  defineTool,
  deny,
  openai,
  Orchestrator,
  ToolRetryError,
} from "espalier";

const model = openai("gpt-5-mini"); // reads OPENAI_API_KEY
const prices = new Map([
  ["pear tree", 12],
  ["bench", 80],
]);

const lookUpPrice = defineTool({
  name: "lookUpPrice",
  description: "Returns the price of one product in euros.",
  inputSchema: z.object({ product: z.string() }),
  execute: ({ product }) => {
    const euros = prices.get(product);
    if (euros === undefined) {
      const known = [...prices.keys()].join(", ");
      throw new ToolRetryError(`Unknown product. Known: ${known}.`);
    }
    return { euros };
  },
});

const placeOrder = defineTool({
  name: "placeOrder",
  description: "Orders products.",
  inputSchema: z.object({ products: z.array(z.string()) }),
  needsApproval: true, // asks the approver below
  retryAfterCrash: false, // an order must not be placed twice
  execute: ({ products }) => `Ordered: ${products.join(", ")}.`,
});

const clerk = defineAgent({
  name: "clerk",
  description: "Finds the price of one product", // the parent's model reads it
  instructions: "Look up the price.",
  model,
  tools: [lookUpPrice],
  output: z.object({ euros: z.number() }),
  budget: { steps: 5 }, // each clerk
});

const buyer = defineAgent({
  name: "buyer",
  instructions: "Ask one clerk per product, all in one reply. Then order.",
  model,
  tools: [placeOrder],
  subagents: [clerk],
  output: z.object({ ordered: z.boolean(), euros: z.number() }),
});

const isApproved = process.argv.includes("--yes");
const orchestrator = new Orchestrator({
  limits: { maxDepth: 1, maxTotalSubagents: 5 },
  approver: (question) => (isApproved ? approve(question) : deny(question)),
});
const run = orchestrator.start(buyer, "Buy a pear tree and a bench.", {
  budget: { totalTokens: 50_000, steps: 20, timeMs: 120_000 }, // whole tree
});

for await (const event of run.events())
  if (event.type === "tool.ended")
    console.error(`${event.agentPath}: ${event.toolName} ${event.outcome}`);

const result = await run.result;
if (result.status === "completed") console.log(result.output); // typed
else {
  console.error(`${result.status}: ${result.reason.message}`);
  process.exitCode = 1;
}
