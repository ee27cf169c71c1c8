// Goal: every way to start and continue a run returns a typed output, also by a JSON Schema.
// Method: one role that asks before it works, started, resumed, recovered and forked; the types are
// checked with the values.

import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { JsonObject } from "../../../src/kernel/json.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { asks, ScriptedModel, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { jsonSchema } from "../../../src/tools/json-schema.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { calls, receivedTexts } from "../../harness/scripted-agents.ts";

const Review = z.object({ verdict: z.enum(["good", "bad"]) });
type Review = z.output<typeof Review>;

const GOOD = asks("Finish", { verdict: "good" });

function reviewer(script: readonly ScriptStep[]): AgentRole<Review> {
  const model = new ScriptedModel(script);
  const tools = [payTool()];
  return defineAgent({ name: "reviewer", instructions: "Review.", model, tools, output: Review });
}

proves(
  ["H10"],
  "returns the typed output of a started, resumed, recovered or forked run",
  async () => {
    const role = reviewer([asks("pay", { amount: 1 }), GOOD, GOOD, GOOD]);
    const store = memoryStore();
    const orchestrator = new Orchestrator({ roles: [role], store });
    const run = orchestrator.start(role, "Review it.");
    const { pausedRun, questions, output: none } = await run.result;
    expectTypeOf(none).toEqualTypeOf<Review | undefined>();
    expect([none, questions.length]).toEqual([undefined, 1]);
    if (pausedRun === undefined) throw new Error("It is paused.");
    const answers = questions.map((question) => approve(question));

    const elsewhere = new Orchestrator();
    const resumed = elsewhere.resume(structuredClone(pausedRun), { answers, role });
    expectTypeOf((await resumed.result).output).toEqualTypeOf<Review | undefined>();
    expect((await resumed.result).output).toEqual({ verdict: "good" });

    const recovered = await orchestrator.resume(run.runId, { answers });
    const { output } = await recovered.orThrow();
    expectTypeOf(output).toEqualTypeOf<Review>();
    expect(output).toEqual({ verdict: "good" });

    const forked = orchestrator.fork(recovered.snapshot(), { message: "Once more." });
    expectTypeOf((await forked.settled).output).toEqualTypeOf<Review | undefined>();
    expect((await forked.settled).output).toEqual({ verdict: "good" });
    expect((await orchestrator.getResult(run.runId)).output).toEqual({ verdict: "good" });
  },
);

proves(["H10"], "returns no output from a run that pauses after Finish", async () => {
  const role = reviewer([
    calls(
      { toolName: "Finish", arguments: { verdict: "good" } },
      { toolName: "pay", arguments: { amount: 1 } },
    ),
    GOOD,
  ]);
  const fixture = newFixture();
  const paused = await fixture.run(role);
  expect([paused.status, paused.output]).toEqual(["paused", undefined]);
  const resumed = await fixture.resume(role, paused.pausedRun, approveAll(paused)).orThrow();
  expect(resumed.output).toEqual({ verdict: "good" });
});

proves(
  ["H11"],
  "returns arguments that do not fit a JSON Schema to the model, and accepts the corrected ones",
  async () => {
    const model = new ScriptedModel([
      asks("Finish", { count: "many" }),
      asks("Finish", { count: "3" }),
    ]);
    const schema = {
      type: "object",
      properties: { count: { type: "integer" } },
      required: ["count"],
      additionalProperties: false,
    };
    const output = jsonSchema<{ readonly count: number }>(schema);
    const role = defineAgent({ name: "counter", instructions: "Count.", model, output });
    const fixture = newFixture();
    const run = fixture.orchestrator.start(role, "Count.");
    const result = await run.result;
    expect([result.status, result.output]).toEqual(["completed", { count: 3 }]);
    expectTypeOf(result.output?.count).toEqualTypeOf<number | undefined>();
    expect(receivedTexts(model.requests[1])).toEqual([
      'The arguments of Finish do not fit its schema:\n- count: expected an integer, got "many"\nCorrect them and call Finish again.',
    ]);
    expect(model.requests[0]?.tools.map(({ inputSchema }) => inputSchema)).toEqual([schema]);
  },
);

test("returns a JSON object for a JSON Schema without a TypeScript type", async () => {
  const model = new ScriptedModel([asks("Finish", { any: ["thing"] })]);
  const output = jsonSchema({ type: "object" });
  const role = defineAgent({ name: "loose", instructions: "Find.", model, output });
  const { output: found } = await new Orchestrator().start(role, "Find.").orThrow();
  expectTypeOf(found).toEqualTypeOf<JsonObject>();
  expect(found).toEqual({ any: ["thing"] });
});
