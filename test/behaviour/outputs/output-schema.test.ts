// Goal: the schema of a typed result is part of its request like the tools. It is counted,
// compared, persisted and included in the cache key.
// Method: estimates and prefixes with and without it; runs whose requests are rebuilt from their
// journals, and whose process crashes.

import { expect, test } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { countInputTokens } from "../../../src/model/count-tokens.ts";
import type { Model, ModelRequest, OutputSchema } from "../../../src/model/model.ts";
import { compareRequests } from "../../../src/model/request-prefix.ts";
import { rebuildRecordedRequest } from "../../support/journal/rebuild-recorded-request.ts";
import { says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { loadGptTokenCounter } from "../../../src/tokens/gpt-token-counter.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { playThrough, type Play } from "../../support/journal/crash-play.ts";
import { Fakes, type Build } from "../../fixtures/journals/fakes.ts";
import { comesToTheSame, recorded } from "../../fixtures/journals/play.ts";
import { inTurn } from "../../fixtures/journals/roles.ts";
import { QUESTION } from "../../support/openai-calls.ts";

const SCHEMA: OutputSchema = {
  name: "result",
  schema: { type: "object", properties: { a: { type: "string" } }, required: ["a"] },
  strict: false,
};
const NO_PREFIX = { messageCount: 0, tokens: 0 };
const HELD: ModelRequest = { ...QUESTION, output: SCHEMA };

proves(["M58"], "counts the schema once in an estimate, like the tools", async () => {
  const model: Model = { provider: "own", id: "m", generate: () => Promise.reject(new Error()) };
  const tokens = (request: ModelRequest, prefix = NO_PREFIX): number =>
    countInputTokens(model, request, prefix).tokens;
  const size = Math.ceil(JSON.stringify(SCHEMA.schema).length / 3);
  expect(tokens(HELD) - tokens(QUESTION)).toBe(size);
  const known = { messageCount: 1, tokens: 50 };
  expect([tokens(HELD, known), tokens(QUESTION, known)]).toEqual([50, 50]);
  const count = await loadGptTokenCounter("gpt-5");
  expect(count(HELD)).toBeGreaterThan(count(QUESTION) + 5);
});

proves(["M58"], "reports a changed prefix for a request with another schema", () => {
  const sent = { request: HELD, ephemeralCount: 0 };
  const other = { ...SCHEMA, strict: true };
  expect([
    compareRequests(sent, { ...QUESTION, output: structuredClone(SCHEMA) }),
    compareRequests(sent, { ...QUESTION, output: other }),
    compareRequests(sent, QUESTION),
  ]).toEqual([
    { isUnchanged: true, messageCount: 1 },
    { isUnchanged: false, messageCount: 0, changed: "tools" },
    { isUnchanged: false, messageCount: 0, changed: "tools" },
  ]);
});

proves(["M58"], "includes the schema in the cache key of its role", async () => {
  const keyFor = async (output: z.ZodType, native: boolean): Promise<unknown> => {
    const scripted = new ScriptedModel([says('{"a":"x"}')]);
    const keys: unknown[] = [];
    const model: Model = {
      provider: "own",
      id: "m",
      supportsStructuredOutputs: native,
      generate: (request, options) => {
        keys.push(options.cacheKey?.role);
        return scripted.generate(request, options);
      },
    };
    await newFixture().run(defineAgent({ name: "solo", instructions: "Work.", model, output }));
    return keys[0];
  };
  const one = z.object({ a: z.string() });
  const two = z.object({ a: z.string(), b: z.string().optional() });
  const keys = [await keyFor(one, true), await keyFor(two, true), await keyFor(one, false)];
  expect(new Set(keys).size).toBe(3);
  expect(await keyFor(one, true)).toBe(keys[0]);
});

const output = z.object({ a: z.string() });

/** Creates a role that looks once and returns its result as text. */
function watched(asked: ModelRequest[]): Build {
  return (fakes) => {
    const look = inTurn([["look", { thing: "oak" }]]);
    return {
      role: defineAgent({
        name: "solo",
        instructions: "Work.",
        model: fakes.model(
          "solo",
          (sight) => {
            asked.push(sight.request);
            return sight.results.length === 0 ? look(sight) : { text: '{"a":"x"}' };
          },
          { supportsStructuredOutputs: true },
        ),
        tools: [fakes.tool("look")],
        output,
      }),
    };
  };
}

proves(["M58"], "rebuilds the request of each step with the schema from the journal", async () => {
  const asked: ModelRequest[] = [];
  const { recording, result } = await recorded(watched(asked));
  expect([result.output, asked.length]).toEqual([{ a: "x" }, 2]);
  for (const [index, request] of asked.entries()) {
    expect(request.output?.strict).toBe(true);
    const rebuilt = await rebuildRecordedRequest(recording, { stepNumber: index + 1 });
    expect(rebuilt.request).toEqual(request);
  }
});

test("replays a recording of a native result to the same end", async () => {
  const { result } = await comesToTheSame(watched([]));
  expect(result.output).toEqual({ a: "x" });
});

proves(
  ["M58"],
  "sends the same requests when a run is recovered, wherever its process died",
  async () => {
    const first: ModelRequest[] = [];
    const { appends, kept } = await playThrough(() => played(first));
    expect([kept.output, first.length]).toEqual([{ a: "x" }, 2]);
    for (let at = 1; at <= appends; at += 1) {
      const asked: ModelRequest[] = [];
      const story = await playThrough(() => played(asked), [{ at, how: "after" }]);
      expect(story.kept.output).toEqual({ a: "x" });
      for (const request of asked) expect(first).toContainEqual(request);
    }
  },
);

function played(asked: ModelRequest[]): Play {
  return watched(asked)(new Fakes({ isAlive: true }));
}
