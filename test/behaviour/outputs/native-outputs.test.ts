// Goal: an agent whose provider enforces a schema returns its typed output as text, is corrected a
// bounded number of times, and has no Finish; if hooks, role or model do not allow that, Finish is
// used, or the definition refused.
// Method: scripted models with structured outputs, in all ways in which their run continues;
// requests and results compared.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { defineAgent, type AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { Model, ModelRequest } from "../../../src/model/model.ts";
import {
  asks,
  says,
  ScriptedModel,
  type ScriptedReply,
} from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, receivedTexts, spawn } from "../../harness/scripted-agents.ts";

const output = z.object({
  count: z.int(),
  unit: z.string().default("trees"),
  note: z.string().optional(),
});
const NATIVE = { supportsStructuredOutputs: true } as const;

const look = spyTool("look", () => "An oak.");

const RESULT_SCHEMA = {
  name: "result",
  schema: {
    type: "object",
    properties: {
      count: { type: "integer", minimum: -9_007_199_254_740_991, maximum: 9_007_199_254_740_991 },
      unit: { anyOf: [{ type: "string" }, { type: "null" }] },
      note: { anyOf: [{ type: "string" }, { type: "null" }] },
    },
    required: ["count", "unit", "note"],
    additionalProperties: false,
  },
  strict: true,
};

/** Returns the tools, the schema and the tool choice of a request. */
const shapeOf = ({ tools, output: schema, toolChoice }: ModelRequest): unknown[] => [
  tools.map(({ name }) => name),
  schema,
  toolChoice,
];

proves(
  ["M53", "M54"],
  "accepts the first reply as the output, with the schema and without Finish in the request",
  async () => {
    const { role, model } = soloist(
      [says('{"count":3,"unit":null,"note":null}')],
      { output },
      NATIVE,
    );
    const result = await newFixture().run(role);
    expect([result.status, result.output, model.requests.map(shapeOf)]).toEqual([
      "completed",
      { count: 3, unit: "trees" },
      [[[], RESULT_SCHEMA, undefined]],
    ]);
    expect(result.steps.map(({ io }) => io.isResult)).toEqual([true]);
  },
);

proves(
  ["M53", "M54"],
  "sends the schema in every request with tools, and accepts no text with calls as the output",
  async () => {
    const first: ScriptedReply = {
      ...asks("look", {}),
      text: '{"count":1,"unit":null,"note":null}',
    };
    const { role, model } = soloist(
      [first, says('{"count":3}')],
      { output, tools: [look] },
      NATIVE,
    );
    const result = await newFixture().run(role);
    expect([result.output, model.requests.map(shapeOf)]).toEqual([
      { count: 3, unit: "trees" },
      [
        [["look"], RESULT_SCHEMA, undefined],
        [["look"], RESULT_SCHEMA, undefined],
      ],
    ]);
  },
);

const MISFIT = says('{"count":"many","unit":null,"note":null}');

proves(["M54"], "corrects text that does not fit the schema or is not JSON", async () => {
  const script = [MISFIT, says("It is three."), says('{"count":3,"unit":"elms","note":"Old."}')];
  const { role, model } = soloist(script, { output }, NATIVE);
  const result = await newFixture().run(role);
  expect(result.output).toEqual({ count: 3, unit: "elms", note: "Old." });
  expect(model.requests.slice(1).map(({ messages }) => messages.at(-1)?.text)).toEqual([
    'You have not given your result yet: the JSON in your text does not fit its schema:\n- count: expected an integer, got "many"\nAnswer with the corrected result as JSON only.',
    "You have not given your result yet. Answer with the result as JSON only, following its schema.",
  ]);
});

proves(["M54"], "fails the agent at the third miss", async () => {
  const result = await newFixture().run(soloist([MISFIT, MISFIT, MISFIT], { output }, NATIVE).role);
  expect([result.status, result.agents[0]?.reason]).toMatchObject([
    "failed",
    {
      data: { error: "model_invalid_reply" },
      message:
        'Expected scripted to answer with a result that fits its schema, but it failed 3 times. Last problems: count: expected an integer, got "many". Simplify the output schema, or use a stronger model.',
    },
  ]);
});

proves(["M54"], "names a last miss that is not JSON", async () => {
  const script = [MISFIT, MISFIT, says("Many.")];
  const result = await newFixture().run(soloist(script, { output }, NATIVE).role);
  expect(result.errors.map(({ data }) => data)).toEqual([
    { role: "solo", missed: 3, problems: ["the reply is not JSON"] },
  ]);
});

proves(["M54"], "stops an agent whose reply was cut off, even after two misses", async () => {
  const cut: ScriptedReply = { ...says('{"count":3,"unit":nu'), finishReason: "length" };
  const whole: ScriptedReply = { ...says('{"count":3}'), finishReason: "length" };
  for (const script of [[cut], [whole], [MISFIT, MISFIT, cut]]) {
    const result = await newFixture().run(soloist(script, { output }, NATIVE).role);
    expect([result.status, result.reason.code, result.reason.data, result.output]).toEqual([
      "stopped",
      "finish_reason",
      { finishReason: "length", maxOutputTokens: 8192, limitedBy: "maxOutputTokens" },
      undefined,
    ]);
  }
});

proves(["M54"], "stops an agent whose model refuses, without a further request", async () => {
  const refused: ScriptedReply = { ...says(""), refusal: "I will not." };
  const result = await newFixture().run(soloist([refused], { output }, NATIVE).role);
  expect([result.status, result.reason.code, result.reason.data]).toEqual([
    "stopped",
    "finish_reason",
    { finishReason: "refusal", refusal: "I will not." },
  ]);
});

proves(["M54"], "treats a call of the absent Finish as an unknown tool", async () => {
  const script = [asks("Finish", { count: 3 }), says('{"count":4}')];
  const { role, model } = soloist(script, { output }, NATIVE);
  const result = await newFixture().run(role);
  expect(result.output).toEqual({ count: 4, unit: "trees" });
  expect(receivedTexts(model.requests[1])[0]).toContain("Finish");
});

proves(["M54"], "returns the output of a subagent to a parent that uses Finish", async () => {
  const child = part("child", [MISFIT, says('{"count":3}')], { output, scripted: NATIVE });
  const parent = part("parent", [calls(spawn("child")), asks("Finish", { count: 4 })], {
    output,
    subagents: [child.role],
  });
  const result = await newFixture().run(parent.role);
  expect(result.agents.map(({ role, status, output: given }) => [role, status, given])).toEqual([
    ["parent", "completed", { count: 4, unit: "trees" }],
    ["child", "completed", { count: 3, unit: "trees" }],
  ]);
  expect(parent.model.requests.map(shapeOf)).toEqual([
    [["Finish", "SpawnSubagent"], undefined, undefined],
    [["Finish", "SpawnSubagent"], undefined, undefined],
  ]);
  expect(child.model.requests.map(shapeOf)).toEqual([
    [[], RESULT_SCHEMA, undefined],
    [[], RESULT_SCHEMA, undefined],
  ]);
});

describe("an output by Finish", () => {
  const watch = transform("beforeTool", () => ({}), { name: "watches", tools: ["Finish"] });
  const other = transform("beforeTool", () => ({}), { name: "other", tools: ["look"] });
  const every = transform("beforeTool", () => ({}), { name: "every" });
  const FINISH = asks("Finish", { count: 3 });
  const cases: Readonly<Record<string, Partial<AgentDefinition>>> = {
    "is used if hooks watch Finish": { hooks: [watch] },
    "is used if the role sets outputMode tool": { outputMode: "tool" },
    "is used if the role chooses the tool Finish": {
      modelSettings: { toolChoice: { toolName: "Finish" } },
    },
    "is used if the role chooses Finish among tool names": {
      modelSettings: { toolChoice: { toolNames: ["Finish"] } },
    },
  };
  for (const [name, more] of Object.entries(cases))
    proves(["M53"], name, async () => {
      const { role, model } = soloist([FINISH], { output, ...more }, NATIVE);
      const result = await newFixture().run(role);
      expect(result.output).toEqual({ count: 3, unit: "trees" });
      expect(model.requests.map(({ tools, output: schema }) => [tools.length, schema])).toEqual([
        [1, undefined],
      ]);
    });

  proves(
    ["M53"],
    "is used under hooks of the orchestrator, and not under those of another one",
    async () => {
      const { role, model } = soloist(
        [FINISH, says('{"count":4}')],
        { output, tools: [look] },
        NATIVE,
      );
      const watched = await newFixture({ hooks: [watch] }).run(role);
      const free = await newFixture({ hooks: [other] }).run(role);
      expect([
        watched.output,
        free.output,
        model.requests.map((sent) => sent.tools.length),
      ]).toEqual([{ count: 3, unit: "trees" }, { count: 4, unit: "trees" }, [2, 1]]);
    },
  );

  proves(["M53"], "is not used if the role requires native output, despite hooks", async () => {
    const more = { output, outputMode: "native", hooks: [every] } as const;
    const { role, model } = soloist([says('{"count":4}')], more, NATIVE);
    const result = await newFixture().run(role);
    expect([result.output, model.requests.map(shapeOf)]).toEqual([
      { count: 4, unit: "trees" },
      [[[], RESULT_SCHEMA, undefined]],
    ]);
  });
});

proves(["M53"], "accepts toolChoice none with native output", async () => {
  const { role, model } = soloist(
    [says('{"count":4}')],
    { output, outputMode: "native", tools: [look], modelSettings: { toolChoice: "none" } },
    NATIVE,
  );
  const result = await newFixture().run(role);
  expect([result.output, model.requests.map(shapeOf)]).toEqual([
    { count: 4, unit: "trees" },
    [[["look"], RESULT_SCHEMA, "none"]],
  ]);
});

proves(["M53"], "refuses impossible combinations when the role is defined", () => {
  const base = { name: "solo", instructions: "Work.", model: new ScriptedModel([]) };
  const define = (more: object): string =>
    thrownBy(() => Reflect.apply(defineAgent, undefined, [{ ...base, ...more }])).message;
  expect([
    define({ output, outputMode: "native" }),
    define({ output, outputMode: "json" }),
    define({ outputMode: "tool" }),
    define({ output: z.any() }),
    define({
      model: {
        provider: "own",
        id: "m",
        generate: () => undefined,
        supportsStructuredOutputs: "yes",
      },
    }),
  ]).toEqual([
    'Expected solo.outputMode to be a mode that its model supports, got "native". scripted does not declare native results. Use auto or tool, or set supportsStructuredOutputs: true on the model if its server supports them.',
    'Expected solo.outputMode to be "auto", "native" or "tool", got "json". Leave it out for auto.',
    'Expected solo.outputMode to be left out, got "tool". Leave it out, or set output.',
    'Expected solo.output to be a zod object schema, got "any". Use z.object({ … }).',
    'Expected solo.model.supportsStructuredOutputs to be true or false, got "yes". Set true or false.',
  ]);
});

proves(["M53"], "refuses to start a run whose model no longer supports native output", () => {
  let native = true;
  const scripted = new ScriptedModel([]);
  const model: Model = {
    provider: "own",
    id: "m",
    get supportsStructuredOutputs(): boolean {
      return native;
    },
    generate: (request, options) => scripted.generate(request, options),
  };
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    model,
    output,
    outputMode: "native",
  });
  native = false;
  expect(thrownBy(() => newFixture().start(role)).message).toBe(
    'Expected solo.outputMode to be a mode that its model supports, got "native". m does not declare native results. Use auto or tool, or set supportsStructuredOutputs: true on the model if its server supports them.',
  );
});

test("sends a schema without strict form as non-strict", async () => {
  const loose = z.object({ counts: z.record(z.string(), z.int()) });
  const { role, model } = soloist([says('{"counts":{"oak":3}}')], { output: loose }, NATIVE);
  const result = await newFixture().run(role);
  expect([result.output, model.requests[0]?.output]).toMatchObject([
    { counts: { oak: 3 } },
    { name: "result", schema: { required: ["counts"] }, strict: false },
  ]);
});

proves(["M58", "R14"], "reserves tokens for the schema when it compacts the history", async () => {
  const long = z.object({ note: z.string().describe("x".repeat(4_000)) });
  const usage = { inputTokens: 3_000 };
  const script = [...[1, 2].map(() => ({ ...asks("look", {}), usage })), says('{"note":""}')];
  const compaction = { maxInputTokens: 2_000, keepMessages: 2 };
  const options = { ...NATIVE, countTokens: null };
  const { role } = soloist(script, { output: long, tools: [look], compaction }, options);
  const { sink, ...fixture } = newFixture();
  await fixture.run(role);
  const last = sink.ofType("model.requested").at(-1)?.estimatedInputTokens;
  expect(last).toBeGreaterThan(1_000);
  expect(sink.ofType("conversation.compacted").map(({ tokensAfter }) => tokensAfter)).toEqual([
    last,
  ]);
});
