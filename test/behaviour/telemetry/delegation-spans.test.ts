// Goal: the span of a delegation is named after the subagent that it started.
// Method: a real run with a custom delegation, and an exporter in memory.

import { expect } from "vitest";
import { z } from "zod";

import { SpanProjector } from "../../../src/telemetry/spans/span-projector.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";

/** Spawns the roles in order and returns the last outcome. */
const survey = defineDelegation({
  name: "survey",
  description: "Asks several.",
  inputSchema: z.object({ roles: z.array(z.string()) }),
  execute: async ({ roles: [first = "", ...others] }, delegation) => {
    let outcome = await delegation.spawn({ role: first, task: "Look." });
    for (const role of others) outcome = await delegation.spawn({ role, task: "Look, too." });
    return outcome;
  },
});

proves(
  ["D324"],
  "names the span of a delegation after its subagent, or after its tool if it starts several",
  async () => {
    const scout = part("scout", () => says("Seen."));
    const surveys = [["scout"], ["scout", "scout"], ["nobody", "scout"]];
    const asked = surveys.map((roles) => ({ toolName: "survey", arguments: { roles } }));
    const lead = part("lead", [calls(spawn("scout"), ...asked), says("Done.")], {
      tools: [survey],
      subagents: [scout.role],
    });
    const { tracer, spans } = recorder();
    const fixture = newFixture({ tracing: new SpanProjector(tracer, String) });
    await fixture.run(lead.role);
    const all = spans();
    const delegations = all.filter(({ name }) => name.startsWith("spawn"));
    const below = (parentId: string): number =>
      all.filter(({ parentSpanId }) => parentSpanId === parentId).length;
    expect(delegations.map(({ name, spanId }) => [name, below(spanId)])).toEqual([
      ["spawn scout#1", 1],
      ["spawn scout#2", 1],
      ["spawn survey", 1],
      ["spawn survey", 2],
    ]);
  },
);
