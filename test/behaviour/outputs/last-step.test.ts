// Goal: in the last step of the budget, a model that supports tool choice is forced to finish, and
// its tools stay listed.
// Method: agents with one step more than they need, or with one, over models with and without tool
// choice; their last requests.

import { expect, test } from "vitest";
import { z } from "zod";

import type { ModelRequest } from "../../../src/model/model.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

const output = z.object({ count: z.int() });
const look = spyTool("look", () => "An oak.");

const lastOf = (requests: readonly ModelRequest[]): unknown => {
  const { tools, toolChoice, output: schema, messages } = requests.at(-1) ?? {};
  return [tools?.map(({ name }) => name), toolChoice, schema?.name, messages?.at(-1)?.text];
};

const WRAP_UP = {
  finish:
    "This is your last step: call Finish now with what you have. You cannot use other tools any more.",
  result:
    "This is your last step: you cannot use tools any more. Give your result now, with what you have.",
  answer:
    "This is your last step: you cannot use tools any more. Answer now with what you have, and state what is left undone.",
};
const FINISH = asks("Finish", { count: 3 });
const RESULT = says('{"count":3}');

const CASES = {
  "Finish is forced": [
    { supportsToolChoice: true },
    FINISH,
    [["look", "Finish"], { toolName: "Finish" }, undefined, WRAP_UP.finish],
  ],
  "Finish is the only tool": [{}, FINISH, [["Finish"], undefined, undefined, WRAP_UP.finish]],
  "no tool may be called": [
    { supportsStructuredOutputs: true, supportsToolChoice: true },
    RESULT,
    [["look"], "none", "result", WRAP_UP.result],
  ],
  "there is no tool": [
    { supportsStructuredOutputs: true },
    RESULT,
    [[], undefined, "result", WRAP_UP.result],
  ],
} as const;

for (const [name, [abilities, reply, expected]] of Object.entries(CASES))
  proves(["M57"], `ends the last step of an agent with a typed output: ${name}`, async () => {
    const { role, model } = soloist(
      [asks("look", {}), reply],
      { output, tools: [look], budget: { steps: 2 }, wrapUp: true },
      abilities,
    );
    const result = await newFixture().run(role);
    expect([result.status, result.output, lastOf(model.requests)]).toEqual([
      "stopped",
      { count: 3 },
      expected,
    ]);
    expect(model.requests[0]?.toolChoice).toBeUndefined();
  });

proves(["M57"], "forbids tool calls in the last step of an agent that returns text", async () => {
  const more = { tools: [look], budget: { steps: 1 }, wrapUp: true };
  const forced = soloist([says("Oak.")], more, { supportsToolChoice: true });
  await newFixture().run(forced.role);
  expect(lastOf(forced.model.requests)).toEqual([["look"], "none", undefined, WRAP_UP.answer]);
  const bare = soloist([says("Oak.")], { ...more, tools: [] }, { supportsToolChoice: true });
  await newFixture().run(bare.role);
  expect(lastOf(bare.model.requests)).toEqual([[], undefined, undefined, WRAP_UP.answer]);
});

proves(
  ["M57"],
  "stops an agent that calls another tool in its last step, without executing it",
  async () => {
    const spied = spyTool("look", () => "An oak.");
    const { role } = soloist(
      [asks("look", {})],
      { output, tools: [spied], budget: { steps: 1 }, wrapUp: true },
      { supportsToolChoice: true },
    );
    const result = await newFixture().run(role);
    expect([result.status, result.reason.code, spied.calls]).toEqual(["stopped", "step_limit", []]);
  },
);

test("sends the role's own notice unchanged", async () => {
  const more = { output, budget: { steps: 1 }, wrapUp: "Now!" };
  const { role, model } = soloist([RESULT], more, { supportsStructuredOutputs: true });
  await newFixture().run(role);
  expect(lastOf(model.requests)).toEqual([[], undefined, "result", "Now!"]);
});
