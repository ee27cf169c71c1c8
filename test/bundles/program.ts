// The bundled program: it uses the package as its users do, with one tool and a model at the given
// address.

import { z } from "zod";

import { defineAgent, defineTool, openai, Orchestrator } from "espalier";

const weather = defineTool({
  name: "weather",
  description: "Tells the weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => ({ city, celsius: 21 }),
});

const guide = defineAgent({
  name: "guide",
  instructions: "Answer in one sentence. Use your tools.",
  model: openai("test-model", { baseUrl: process.argv[2] ?? "", apiKey: "sk-test" }),
  tools: [weather],
});

async function main(): Promise<void> {
  const { status, text, agents } = await new Orchestrator().start(guide, "How warm is it?").result;
  process.stdout.write(JSON.stringify({ status, text, toolsUsed: agents[0]?.toolsUsed }));
}

void main();
