// A lead, its subagent and a tool, as a program with a tracing of its own would run them. Prints the
// ids that the events of the run carry.

import { defineAgent, defineTool, Orchestrator } from "espalier";
import { RecordingSink, asks, says, ScriptedModel } from "espalier/testing";
import { z } from "zod";

/** `activeSpanId`: the id of the active span, if the program has an SDK. */
export async function runSmallTree(tracing, activeSpanId = () => undefined) {
  let seenByTool;
  const search = defineTool({
    name: "search",
    description: "Searches.",
    inputSchema: z.object({ query: z.string() }),
    execute: async () => {
      await Promise.resolve();
      seenByTool = activeSpanId();
      return "Nothing.";
    },
  });
  const reader = defineAgent({
    name: "reader",
    description: "Reads",
    instructions: "Read.",
    model: new ScriptedModel([asks("search", { query: "espalier" }), says("Read.")]),
    tools: [search],
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Delegate.",
    model: new ScriptedModel([
      asks("SpawnSubagent", { role: "reader", task: "Read." }),
      says("Done."),
    ]),
    subagents: [reader],
  });
  const log = new RecordingSink();
  const orchestrator = new Orchestrator({ sinks: [log], tracing });
  const { status } = await orchestrator.start(lead, "Begin.", { budget: { totalTokens: 100_000 } })
    .result;
  const started = log.events.find(
    (event) => event.type === "tool.started" && event.toolName === "search",
  );
  console.log(
    JSON.stringify({
      status,
      traceIds: [...new Set(log.events.map((event) => event.traceId))],
      toolSpanId: started.spanId,
      seenByTool: seenByTool ?? null,
    }),
  );
}
