// Goal: an output may be a list, a union or a plain value, in whichever form the model gives it.
// Method: scripts that write it wrapped and bare, as text and as a call, over models with and
// without structured outputs.

import { expect } from "vitest";
import { z } from "zod";

import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";

const list = z.array(z.object({ name: z.string(), note: z.string().optional() }));
const choice = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("found"), count: z.int().optional() }),
  z.object({ kind: z.literal("none") }),
]);
const odd = z.union([z.object({ result: z.string() }), z.array(z.int())]);
const counted = z
  .array(z.string())
  .transform((names) => ({ total: names.length }))
  .readonly();

interface Case {
  readonly output: z.ZodType;
  readonly reply: ScriptedReply;
  readonly result: unknown;
  /** True if only a model with Finish can reply so. */
  readonly isCall?: true;
}

const CASES: Readonly<Record<string, Case>> = {
  "a list, wrapped": {
    output: list,
    reply: says('{"result":[{"name":"oak","note":null}]}'),
    result: [{ name: "oak" }],
  },
  "a list, bare": {
    output: list,
    reply: says('[{"name":"oak","note":null}]'),
    result: [{ name: "oak" }],
  },
  "a list, by a call": {
    output: list,
    reply: asks("Finish", { result: [{ name: "oak", note: null }] }),
    result: [{ name: "oak" }],
    isCall: true,
  },
  "a choice, wrapped": {
    output: choice,
    reply: says('{"result":{"kind":"found","count":null}}'),
    result: { kind: "found" },
  },
  "a choice, bare": { output: choice, reply: says('{"kind":"none"}'), result: { kind: "none" } },
  "a choice, by a call with its own keys": {
    output: choice,
    reply: asks("Finish", { kind: "found", count: 3 }),
    result: { kind: "found", count: 3 },
    isCall: true,
  },
  "a form with a key of the name of the wrapping": {
    output: odd,
    reply: says('{"result":{"result":"x"}}'),
    result: { result: "x" },
  },
  "a list that the schema makes something else of": {
    output: counted,
    reply: says('{"result":["a","b"]}'),
    result: { total: 2 },
  },
  "a text, wrapped": { output: z.string(), reply: says('{"result":"An oak."}'), result: "An oak." },
  "a text, bare": { output: z.string(), reply: says('"An oak."'), result: "An oak." },
  "one of several texts, by a call": {
    output: z.enum(["oak", "elm"]),
    reply: asks("Finish", { result: "elm" }),
    result: "elm",
    isCall: true,
  },
  "an e-mail address": {
    output: z.email(),
    reply: says('{"result":"a@b.example"}'),
    result: "a@b.example",
  },
  "a number, bare": { output: z.number(), reply: says("3.5"), result: 3.5 },
  "an integer": { output: z.int(), reply: says('{"result":3}'), result: 3 },
  "true or false": { output: z.boolean(), reply: says('{"result":false}'), result: false },
  "a literal": { output: z.literal("done"), reply: says('"done"'), result: "done" },
};

for (const [name, { output, reply, result: expected, isCall }] of Object.entries(CASES))
  for (const native of isCall === true ? [false] : [false, true])
    proves(["M56"], `accepts ${name}${native ? ", natively" : ""}`, async () => {
      const { role, model } = soloist([reply], { output }, { supportsStructuredOutputs: native });
      const result = await newFixture().run(role);
      expect([result.status, result.output]).toEqual(["completed", expected]);
      const [sent] = model.requests;
      const shown = native ? sent?.output?.schema : sent?.tools[0]?.inputSchema;
      expect(shown).toMatchObject({ type: "object", required: ["result"] });
    });

proves(["M56"], "names an error under the key of the wrapper", async () => {
  const { role, model } = soloist(
    [says('[{"name":3}]'), says('{"result":[]}')],
    { output: list },
    { supportsStructuredOutputs: true },
  );
  const result = await newFixture().run(role);
  expect(result.output).toEqual([]);
  expect(model.requests[1]?.messages.at(-1)?.text).toBe(
    "You have not given your result yet: the JSON in your text does not fit its schema:\n- result[0].name: expected text, got 3\nAnswer with the corrected result as JSON only.",
  );
});

proves(["M56"], "omits an optional key that is null in a call", async () => {
  const output = z.object({ count: z.int(), note: z.string().optional() });
  const { role } = soloist([asks("Finish", { count: 3, note: null })], { output });
  expect((await newFixture().run(role)).output).toEqual({ count: 3 });
});
