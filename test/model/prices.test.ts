// Goal: prices are known only for the models in the table. Any other price is undefined, never
// zero.
// Method: names in the table, similar names and hostile names.

import { describe, expect, test } from "vitest";

import { lookUpModelPrice } from "../../src/model/prices.ts";
import { checkPrice, copyPrice, isDay } from "../../src/model/model-price.ts";
import table from "../../src/model/price-table.json" with { type: "json" };
import { proves } from "../harness/proves.ts";
import { thrownBy } from "../support/thrown.ts";

proves(
  ["X30"],
  "returns a price with the table's date and source for every model in the table",
  () => {
    const named = table.rows.flatMap((row) => row.models.map((model) => ({ model, row })));
    const known = named.map(({ model }) => lookUpModelPrice("openai", model));
    expect(known).toEqual(
      named.map(({ row: { price, isHighest } }) => ({
        ...price,
        asOf: table.asOf,
        source: isHighest ? `${table.source}, highest rate` : table.source,
      })),
    );
    for (const price of known) {
      if (price === undefined) throw new Error("Expected a price.");
      checkPrice("price", price);
      expect(Object.isFrozen(price)).toBe(true);
    }
  },
);

test("returns the price of a model for its snapshots if all of them cost the same", () => {
  expect(table.withSnapshots.length).toBeGreaterThan(0);
  for (const model of table.withSnapshots)
    expect(lookUpModelPrice("openai", `${model}-2026-10-01`)).toBe(
      lookUpModelPrice("openai", model),
    );
});

test("returns a snapshot's own price if it has one", () => {
  const outputs = ["gpt-4o", "gpt-4o-2024-05-13", "gpt-4o-2024-08-06"].map(
    (model) => lookUpModelPrice("openai", model)?.outputUsdPerMillion,
  );
  expect(outputs).toEqual([10, 15, 10]);
});

proves(
  ["X30"],
  "returns undefined for a model that is not in the table, however similar its name is",
  () => {
    const names = [
      "gpt-0",
      "",
      " ",
      "gpt-5-min",
      "gpt-5-mini ",
      "GPT-5-MINI",
      "openai/gpt-5-mini",
      "gpt-5-mini-2099-01-01",
      "gpt-6-sol-2026-13-01",
      "gpt-6-sol-2026-02-30",
      "gpt-6-sol-20261001",
      "gpt-6-sol_2026-10-01",
      "gpt-6-sol-2026-10-01-2026-10-01",
      "-2026-10-01",
      "2026-10-01",
      "ft:gpt-4o-mini-2024-07-18:acme::abc",
      "ft:gpt-6-sol:acme::abc",
      "gpt-4o-mini-2024-07-18.ft-0123",
      "gpt-4o-audio-preview",
      "gpt-4o-search-preview",
      "o3-deep-research",
      "text-embedding-3-small",
      "__proto__",
      "constructor",
      "toString",
      "constructor-2026-10-01",
      "__proto__-2026-10-01",
      "gpt-5-mini\u0000",
      "\ud800",
      "x".repeat(1_000_000),
    ];
    const known = names.filter((name) => lookUpModelPrice("openai", name) !== undefined);
    expect(known).toEqual([]);
  },
);

test.each(["", "OpenAI", "azure", "anthropic", "constructor", "__proto__", "scripted"])(
  "returns undefined for the provider %j",
  (provider) => {
    expect(lookUpModelPrice(provider, "gpt-5-mini")).toBe(undefined);
  },
);

test.each([[undefined], [null], [7], [{}], [["gpt-5-mini"]]])(
  "returns undefined for the model id %j",
  (modelId) => {
    expect(Reflect.apply(lookUpModelPrice, undefined, ["openai", modelId])).toBe(undefined);
  },
);

describe("a price", () => {
  const rates = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };

  test("may have a date and a source", () => {
    const price = { ...rates, asOf: "2026-02-28", source: "our contract" };
    expect(() => checkPrice("price", price)).not.toThrow();
    expect([copyPrice(price), Object.isFrozen(copyPrice(price))]).toEqual([price, true]);
  });

  test("is copied without unknown fields", () => {
    const more = { ...rates, cachedInputUsdPerMillion: 0, secret: { alive: true } };
    expect(copyPrice(more)).toEqual({ ...rates, cachedInputUsdPerMillion: 0 });
  });

  const ADVICE = "Set US dollars per million tokens, or leave an unknown price out.";
  const DAY = "Set the day on which the price was looked up.";
  test.each<[object, string]>([
    [
      { ...rates, asOf: "2026-02-30" },
      `Expected p.asOf to be a day like "2026-09-23", got "2026-02-30". ${DAY}`,
    ],
    [
      { ...rates, asOf: "2026-09-23T00:00:00Z" },
      `Expected p.asOf to be a day like "2026-09-23", got "2026-09-23T00:00:00Z". ${DAY}`,
    ],
    [
      { ...rates, asOf: 20_260_923 },
      `Expected p.asOf to be a day like "2026-09-23", got 20260923. ${DAY}`,
    ],
    [
      { ...rates, source: " " },
      'Expected p.source to be a non-empty string, got " ". Pass some text, or leave it out.',
    ],
    [
      { ...rates, inputUsdPerMillion: Number.NaN },
      `Expected p.inputUsdPerMillion to be a number from 0 to 1000000, got NaN. ${ADVICE}`,
    ],
    [
      { inputUsdPerMillion: 1 },
      `Expected p.outputUsdPerMillion to be a number from 0 to 1000000, got undefined. ${ADVICE}`,
    ],
    [
      { ...rates, cachedInputUsdPerMillion: "0" },
      `Expected p.cachedInputUsdPerMillion to be a number from 0 to 1000000, got "0". ${ADVICE}`,
    ],
    [
      { ...rates, asof: "2026-09-23" },
      'Expected p.asof to be one of inputUsdPerMillion, cachedInputUsdPerMillion, cacheWriteUsdPerMillion, outputUsdPerMillion, asOf, source, tiers, got "asof". Use asOf.',
    ],
  ])("is rejected: %j", (price, message) => {
    const thrown = thrownBy(() => Reflect.apply(checkPrice, undefined, ["p", price]));
    expect([thrown.code, thrown.message]).toEqual(["invalid_argument", message]);
  });

  test("may only have a date that exists", () => {
    const days = ["2024-02-29", "2026-02-29", "2026-00-01", "0000-01-01", "2026-1-1", "", null];
    expect(days.filter(isDay)).toEqual(["2024-02-29", "0000-01-01"]);
  });
});
