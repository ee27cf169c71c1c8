// Goal: the model settings of a role are in every request of its agents, and in all records.
// Method: scripted models, whose requests are compared in full; rejected definitions by their
// message.

import { expect, test } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Model } from "../../../src/model/model.ts";
import type { ToolChoice } from "../../../src/protocol/model-settings.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const SETTINGS = {
  reasoning: { effort: "high", summary: "auto" },
  verbosity: "low",
  seed: 7,
  stopSequences: ["END"],
  topP: 0.9,
  parallelToolCalls: false,
} as const;

const look = spyTool("look", () => "An oak.");
const feel = spyTool("feel", () => "Rough.");

proves(["M40"], "settings are in every request, step record and event of the role", async () => {
  const { role, model } = soloist([asks("look", {}), says("Oak.")], {
    tools: [look],
    temperature: 0.5,
    modelSettings: { ...SETTINGS, toolChoice: "auto" },
  });
  const fixture = newFixture();
  const result = await fixture.run(role);

  const said = { settings: SETTINGS, toolChoice: "auto", temperature: 0.5 };
  expect(
    model.requests.map(({ settings, toolChoice, temperature }) => ({
      settings,
      toolChoice,
      temperature,
    })),
  ).toEqual([said, said]);
  const parameters = { ...said, maxOutputTokens: 8_192 };
  expect(result.steps.map(({ context }) => context.parameters)).toEqual([parameters, parameters]);
  expect(fixture.sink.ofType("model.requested")).toMatchObject([parameters, parameters]);
});

for (const [toolChoice, first, then] of [
  ["none", "none", "none"],
  ["required", "required", undefined],
  [{ toolName: "look" }, { toolName: "look" }, undefined],
  [{ toolNames: ["look", "feel"] }, { toolNames: ["look", "feel"] }, undefined],
] as const) {
  proves(
    ["M40"],
    `the tool choice ${JSON.stringify(toolChoice)} applies as long as it must`,
    async () => {
      const { role, model } = soloist([asks("look", {}), says("Oak.")], {
        tools: [look, feel],
        modelSettings: { toolChoice },
      });
      await newFixture().run(role);
      expect(model.requests.map((request) => request.toolChoice)).toEqual([first, then]);
    },
  );
}

proves(["M40"], "a tool that a filter removes is not part of the tool choice", async () => {
  const chosen = async (toolChoice: ToolChoice): Promise<unknown> => {
    const { role, model } = soloist([says("Oak.")], {
      tools: [look, feel],
      toolFilters: [toolFilter(() => false, { name: "blind", tools: ["look"] })],
      modelSettings: { toolChoice },
    });
    await newFixture().run(role);
    return model.requests[0]?.toolChoice;
  };
  expect([
    await chosen({ toolName: "look" }),
    await chosen({ toolNames: ["look", "feel"] }),
  ]).toEqual([undefined, { toolNames: ["feel"] }]);
});

for (const [modelSettings, message] of [
  [
    { effort: "high" },
    'Expected solo.modelSettings.effort to be one of reasoning, verbosity, seed, stopSequences, topP, parallelToolCalls, toolChoice, got "effort". Use reasoning: { effort: … }.',
  ],
  [
    { reasoning: { effort: "huge" } },
    `Expected solo.modelSettings.reasoning.effort to be one of "none", "minimal", "low", "medium", "high", "xhigh", "max", got "huge". Leave it out for the provider's default.`,
  ],
  [
    { topP: 0 },
    "Expected solo.modelSettings.topP to be a number over 0, up to 1, got 0. Leave it out for the provider's default.",
  ],
  [
    { stopSequences: [] },
    "Expected solo.modelSettings.stopSequences to be an array of 1 to 4 non-empty strings, got an array. Leave it out for the provider's default.",
  ],
  [
    { seed: 1.5 },
    "Expected solo.modelSettings.seed to be a whole number, got 1.5. Leave it out for the provider's default.",
  ],
  [
    { toolChoice: { toolName: "smell" } },
    'Expected solo.modelSettings.toolChoice to be the name of one of its tools, got "smell". Its tools are: look.',
  ],
  [
    { toolChoice: "always" },
    'Expected solo.modelSettings.toolChoice to be "auto", "none", "required", { toolName: … } or { toolNames: […] }, got "always". Its tools are: look.',
  ],
] as const) {
  proves(["M40"], `the settings ${JSON.stringify(modelSettings)} are rejected`, () => {
    const definition = {
      name: "solo",
      instructions: "Work.",
      model: new ScriptedModel([]),
      tools: [look],
      modelSettings,
    };
    expect(thrownBy(() => Reflect.apply(defineAgent, undefined, [definition])).message).toBe(
      message,
    );
  });
}

proves(["M40"], "a tool choice against Finish or without tools is rejected", () => {
  const base = { name: "solo", instructions: "Work.", model: new ScriptedModel([]) };
  const silent = { output: z.object({ a: z.string() }), modelSettings: { toolChoice: "none" } };
  const toolless = { modelSettings: { toolChoice: { toolName: "look" } } };
  const messages = [silent, toolless].map(
    (more) => thrownBy(() => Reflect.apply(defineAgent, undefined, [{ ...base, ...more }])).message,
  );
  expect(messages).toEqual([
    'Expected solo.modelSettings.toolChoice to be a choice that allows Finish, got "none". A role with an output ends by calling Finish. Use auto, or leave it out.',
    'Expected solo.modelSettings.toolChoice to be the name of one of its tools, got "look". It has no tools.',
  ]);
});

proves(["M40"], "settings that the model rejects are rejected by `defineAgent`", () => {
  const model: Model = {
    provider: "own",
    id: "m",
    generate: () => Promise.reject(new Error("Never.")),
    checkSettings: ({ seed }) => {
      if (seed !== undefined) throw new RangeError("no seed");
    },
  };
  const define = (seed?: number) => (): unknown =>
    defineAgent({
      name: "solo",
      instructions: "Work.",
      model,
      modelSettings: seed === undefined ? {} : { seed },
    });
  expect(define()).not.toThrow();
  expect(define(7)).toThrow("no seed");
});

/** A scripted model that records the cap and the cache key of each request. */
function watched(
  replies: readonly ReturnType<typeof says>[],
  more: Partial<Model> = {},
): Model & { readonly caps: number[]; readonly keys: unknown[] } {
  const scripted = new ScriptedModel(replies);
  const caps: number[] = [];
  const keys: unknown[] = [];
  return {
    provider: "own",
    id: "m",
    caps,
    keys,
    countTokens: () => 10,
    generate: (request, options) => {
      caps.push(request.maxOutputTokens);
      keys.push(options.cacheKey);
      return scripted.generate(request, options);
    },
    ...more,
  };
}

proves(
  ["M41"],
  "a reservation has room for the model's minimum output, or is refused",
  async () => {
    const endings: unknown[] = [];
    for (const totalTokens of [25, 26, 30]) {
      const model = watched([says("Oak.")], { minOutputTokens: 16 });
      const budget = { totalTokens };
      const role = defineAgent({ name: "solo", instructions: "Work.", model, budget });
      const { status, reason } = await newFixture().run(role);
      endings.push([totalTokens, status, reason.code, model.caps]);
    }
    expect(endings).toEqual([
      [25, "stopped", "token_limit", []],
      [26, "completed", "completed", [16]],
      [30, "completed", "completed", [20]],
    ]);
  },
);

proves(["M41"], "a role cannot set an output cap below its model's minimum", () => {
  const model = watched([], { minOutputTokens: 16 });
  const define = (): unknown =>
    defineAgent({ name: "solo", instructions: "Work.", model, maxOutputTokens: 15 });
  expect(thrownBy(define).message).toBe(
    "Expected solo.maxOutputTokens to be at least 16, got 15. m accepts no lower cap.",
  );
});

proves(
  ["M41"],
  "a cache key depends on instructions and tools, and is the same in every run",
  async () => {
    const keys = async (instructions: string, tools = [look]): Promise<readonly unknown[]> => {
      const model = watched([asks("look", {}), says("Oak.")]);
      await newFixture().run(defineAgent({ name: "solo", instructions, model, tools }));
      return model.keys;
    };
    const first = await keys("Work.");
    expect(JSON.stringify(first[0])).toMatch(/^\{"role":"[0-9a-f]{12}","agent":1\}$/);
    expect([first, await keys("Work.")]).toEqual([
      [first[0], first[0]],
      [first[0], first[0]],
    ]);
    const others = [await keys("Rest."), await keys("Work.", [look, feel])];
    expect(new Set([first, ...others].map((list) => JSON.stringify(list))).size).toBe(3);
  },
);

proves(
  ["M41"],
  "agents of one role in a run have different numbers in their cache keys",
  async () => {
    const model = watched([says("1"), says("2")]);
    const leaf = defineAgent({ name: "leaf", description: "Looks.", instructions: "Look.", model });
    const lead = part("lead", [calls(spawn("leaf", "1"), spawn("leaf", "2")), says("Done.")], {
      subagents: [leaf],
    });
    await newFixture().run(lead.role);
    const [first] = model.keys;
    expect(model.keys).toEqual([
      { ...Object(first), agent: 1 },
      { ...Object(first), agent: 2 },
    ]);
  },
);

proves(["M41"], "a summary call has no cache key", async () => {
  const long = spyTool("look", () => "An oak. ".repeat(2_000));
  const model = watched([asks("look", {}), says("Summary."), says("Oak.")]);
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    model,
    tools: [long],
    toolDefaults: { maxResultCharacters: 1_000, longResultPolicy: "summarize" },
  });
  await newFixture().run(role);
  expect(model.keys.map((key) => typeof key)).toEqual(["object", "undefined", "object"]);
});

proves(["M42"], "a warning is emitted once per run, whichever call repeats it", async () => {
  const warnings = ["seed is not supported", "topP is not supported"];
  const { role } = soloist(
    [
      asks("look", {}, { warnings: warnings.slice(0, 1) }),
      says("Oak.", { warnings: [...warnings, "x".repeat(600)] }),
    ],
    { tools: [look] },
  );
  const fixture = newFixture();
  await fixture.run(role);
  expect(fixture.sink.ofType("model.warned").map(({ warning }) => warning)).toEqual([
    ...warnings,
    `${"x".repeat(500)}…`,
  ]);
});

test("the wrap-up step without tools has no tool choice", async () => {
  const { role, model } = soloist([says("Oak.")], {
    tools: [look],
    modelSettings: { toolChoice: "required" },
    budget: { steps: 1 },
    wrapUp: true,
  });
  await newFixture().run(role);
  expect(model.requests.map(({ tools, toolChoice }) => ({ tools, toolChoice }))).toEqual([
    { tools: [], toolChoice: undefined },
  ]);
});
