// Goal: a result lists the prices at which it was charged and their dates; at an unknown price no
// cost limit applies, and no call counts as free.
// Method: runs with prices of the table, of the user and unknown, down to JSON; impossible limits.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Model } from "../../../src/model/model.ts";
import type { ModelPrice } from "../../../src/model/model-price.ts";
import { openai, type OpenAiOptions } from "../../../src/model/openai/openai-model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { PRICES_AS_OF } from "../../../src/model/prices.ts";
import table from "../../../src/model/price-table.json" with { type: "json" };
import { asks, says as speaks, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { API_KEY } from "../../support/openai-calls.ts";
import { OpenAiServer, says } from "../../support/openai-server.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";

const DOLLARS = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
const GPT_5_MINI = {
  inputUsdPerMillion: 0.25,
  cachedInputUsdPerMillion: 0.025,
  outputUsdPerMillion: 2,
  asOf: PRICES_AS_OF,
  source: table.source,
};

beforeEach(() => {
  vi.stubEnv("OPENAI_API_KEY", API_KEY);
  vi.stubEnv("OPENAI_BASE_URL", undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

function solo(model: Model, more: object = {}): AgentRole {
  return defineAgent({ name: "solo", instructions: "Work.", model, ...more });
}

/** Returns a model that believes to call OpenAI itself; its requests go to the test's server. */
function modelBehind(server: OpenAiServer, options: OpenAiOptions = {}): Model {
  const fetch: typeof globalThis.fetch = (url, init) => {
    const address = url instanceof Request ? url.url : url.toString();
    return globalThis.fetch(address.replace("https://api.openai.com/v1", server.baseUrl), init);
  };
  return openai("gpt-5-mini", { api: "chat_completions", ...options, fetch });
}

proves(["X30"], "lists the price of the built-in table with its date", async () => {
  await using server = await OpenAiServer.start(() => says("Done."));
  const fixture = newFixture();
  const result = await fixture.run(solo(modelBehind(server)), { budget: { costUsd: 1 } });
  expect(result.prices).toEqual([{ provider: "openai", model: "gpt-5-mini", price: GPT_5_MINI }]);
  expect(PRICES_AS_OF).toMatch(/^\d{4}-\d{2}-\d{2}$/);
  // 10 input tokens at a quarter of a dollar, 5 output tokens at two dollars a million.
  const { costUsd, unpricedCalls } = result.usage.total;
  expect([result.status, costUsd, unpricedCalls]).toEqual(["completed", 0.000013, 0]);
});

proves(["X30"], "charges and lists the price of the user", async () => {
  await using server = await OpenAiServer.start(() => says("Done."));
  const price = { ...DOLLARS, asOf: "2026-11-01", source: "our contract" };
  const result = await newFixture().run(solo(modelBehind(server, { price })), {
    budget: { costUsd: 1 },
  });
  expect(result.prices).toEqual([{ provider: "openai", model: "gpt-5-mini", price }]);
  expect(result.usage.total.costUsd).toBe(0.00002);
});

const neverAsked: Model["generate"] = () => expect.fail("nothing may be asked");

proves(["X30", "R57"], "refuses a cost limit over an unknown price", () => {
  const unknown: Readonly<Record<string, Model>> = {
    "a model that the table does not have": openai("unheard-of"),
    "a fine-tuned model": openai("ft:gpt-5-mini:acme::abc"),
    "another server": openai("gpt-5-mini", { baseUrl: "http://localhost:11434/v1" }),
    "unknown on purpose": openai("gpt-5-mini", { price: "unknown" }),
  };
  for (const [what, model] of Object.entries(unknown)) {
    const silent = { ...model, generate: neverAsked };
    const fixture = newFixture();
    const refusals = [
      thrownBy(() => fixture.start(solo(silent), "Do it.", { budget: { costUsd: 1 } })),
      thrownBy(() => fixture.start(solo(silent), "Do it.", { budget: { costUsd: 0 } })),
      thrownBy(() => fixture.start(solo(silent, { budget: { costUsd: 1 } }))),
    ];
    expect(
      refusals.map(({ code }) => code),
      what,
    ).toEqual(["price_unknown", "price_unknown", "price_unknown"]);
    expect(fixture.sink.events, what).toEqual([]);
  }
});

test("finds a base URL that was set in the environment after the role was defined", () => {
  const role = solo(openai("gpt-5-mini"), { budget: { costUsd: 1 } });
  vi.stubEnv("OPENAI_BASE_URL", "http://localhost:11434/v1");
  expect(thrownBy(() => newFixture().start(role)).code).toBe("price_unknown");
});

proves(["D586"], "returns null as unknown price and cost, and counts the calls", async () => {
  const fixture = newFixture();
  const result = await fixture.run(solo(new ScriptedModel([speaks("Done.")])));
  expect(result.prices).toEqual([{ provider: "scripted", model: "scripted", price: null }]);
  expect(JSON.parse(JSON.stringify(result.prices))).toEqual(result.prices);
  const { costUsd, unpricedCalls } = result.usage.total;
  expect([costUsd, unpricedCalls]).toEqual([null, 1]);
  const { own, descendants, byModel, byRole } = result.usage;
  const costs = [own, descendants, byModel["scripted"], byRole["solo"]];
  expect(costs.map((usage) => usage?.costUsd)).toEqual([null, 0, null, null]);
  const booked = ["budget.settled", "model.replied", "step.completed"] as const;
  const events = booked.flatMap((type) => fixture.sink.ofType(type));
  expect(events.map(({ type, usage }) => [type, usage.costUsd])).toEqual(
    booked.map((type) => [type, null]),
  );
  expect(result.accounts.map(({ total }) => total.costUsd)).toEqual([null]);
  expect(result.steps.map(({ telemetry }) => telemetry.usage.costUsd)).toEqual([null]);
});

/** Returns a lead over children, each with its own model. */
function tree(leadModel: ScriptedModel, children: Readonly<Record<string, Model>>): AgentRole {
  const subagents = Object.entries(children).map(([name, model]) =>
    defineAgent({ name, description: `Is ${name}.`, instructions: "Work.", model }),
  );
  return defineAgent({ name: "lead", instructions: "Lead.", model: leadModel, subagents });
}

function leading(...names: readonly string[]): ScriptedModel {
  const spawns = names.map((role) => asks("SpawnSubagent", { role, task: "Work." }));
  return new ScriptedModel([...spawns, speaks("Done.")], { id: "head" });
}

function worker(id: string, price?: ModelPrice): ScriptedModel {
  return new ScriptedModel(() => speaks("Done."), {
    id,
    ...(price === undefined ? {} : { price }),
  });
}

test("lists each used model once, in the order of first use", async () => {
  const idle = worker("idle", DOLLARS);
  const children = {
    one: worker("10"),
    two: worker("9", DOLLARS),
    three: worker("10"),
    four: idle,
  };
  const result = await newFixture().run(tree(leading("two", "one", "three", "two"), children));
  expect(result.prices).toEqual([
    { provider: "scripted", model: "head", price: null },
    { provider: "scripted", model: "9", price: DOLLARS },
    { provider: "scripted", model: "10", price: null },
  ]);
});

test("lists one model at different prices with each of them, and equal prices once", async () => {
  const dear = { inputUsdPerMillion: 5, outputUsdPerMillion: 6 };
  const children = {
    one: worker("__proto__", DOLLARS),
    two: worker("__proto__", { ...dear }),
    three: worker("__proto__", { outputUsdPerMillion: 6, inputUsdPerMillion: 5 }),
    four: worker("__proto__"),
  };
  const result = await newFixture().run(tree(leading("one", "two", "three", "four"), children));
  const expected = [
    { provider: "scripted", model: "head", price: null },
    { provider: "scripted", model: "__proto__", price: DOLLARS },
    { provider: "scripted", model: "__proto__", price: dear },
    { provider: "scripted", model: "__proto__", price: null },
  ];
  expect(result.prices).toEqual(expected);
  expect(JSON.parse(JSON.stringify(result.prices))).toEqual(expected);
});

proves(["X30"], "lists the prices in a paused result, and in the result after it", async () => {
  const fixture = newFixture();
  const price = { ...DOLLARS, asOf: "2026-11-01" };
  const tools = { tools: [payTool()] };
  const before = new ScriptedModel([asks("pay", { amount: 5 })], { price });
  const paused = await fixture.run(solo(before, tools), { budget: { costUsd: 1 } });
  const expected = [{ provider: "scripted", model: "scripted", price }];
  expect([paused.status, paused.prices]).toEqual(["paused", expected]);
  const after = new ScriptedModel([speaks("Paid.")], { price });
  const answers = approveAll(paused);
  const result = await fixture.outcome(
    fixture.resume(solo(after, tools), paused.pausedRun, answers),
  );
  expect([result.status, result.prices]).toEqual(["completed", expected]);
});

proves(
  ["D588"],
  "returns null for the stored cost of 0 of a paused run without a price",
  async () => {
    const fixture = newFixture();
    const tools = { tools: [payTool()] };
    const before = new ScriptedModel([asks("pay", { amount: 5 })]);
    const paused = await fixture.run(solo(before, tools));
    const stored = JSON.stringify(paused.pausedRun);
    const earlier = stored.replaceAll('"costUsd":null', '"costUsd":0');
    expect(earlier).not.toBe(stored);
    const role = solo(new ScriptedModel([speaks("Paid.")]), tools);
    const run = new Orchestrator().resume(readPausedRun(earlier), {
      answers: approveAll(paused),
      role,
    });
    const { status, usage, accounts } = await run.result;
    const costs = [usage.total, accounts[0]?.own].map((used) => used?.costUsd);
    expect([status, ...costs]).toEqual(["completed", null, null]);
  },
);
